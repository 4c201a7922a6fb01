package run

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/load"
	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/terminal"
)

func TestMessageOf(t *testing.T) {
	for _, c := range []struct {
		typed      string
		unfinished bool
		want       string
	}{
		{"a", false, "a"},
		{`a\`, true, `a\`},
		{"a\\\nb", false, "a\nb"},
		{"a\\\nb\\\nc", false, "a\nb\nc"},
		{`C:\dir\\`, false, `C:\dir\\`},
		{`"""`, true, ""},
		{`"""a`, true, "a"},
		{`"""a"""`, false, "a"},
		{"\"\"\"\na\n b\n\"\"\"", false, "a\n b"},
		{"\"\"\"a\n\"\"\" inside", true, "a\n\"\"\" inside"},
		{`"""/bye"""`, false, "/bye"},
		{`say """ to me`, false, `say """ to me`},
		{`/set system """a`, true, `/set system """a`},
		{"/set system \"\"\"a\nb\"\"\"", false, "/set system \"\"\"a\nb\"\"\""},
		{"/etc/hosts\\", true, "/etc/hosts\\"},
	} {
		if got := unfinished(c.typed); got != c.unfinished {
			t.Errorf("%q: unfinished %v", c.typed, got)
		}
		if got := messageOf(c.typed); got != c.want {
			t.Errorf("%q: %q, expected %q", c.typed, got, c.want)
		}
	}
}

func TestCommandOf(t *testing.T) {
	for _, c := range []struct {
		typed, name, rest string
		ok                bool
	}{
		{"/bye", "bye", "", true},
		{" /Set  system  Be kind ", "set", "system  Be kind", true},
		{"/?", "?", "", true},
		{"/set\tseed 1", "set", "seed 1", true},
		{"/", "", "", false},
		{"/ bye", "", "", false},
		{"/etc/hosts is what?", "", "", false},
		{"//comment", "", "", false},
		{"1/2", "", "", false},
		{`"""/bye"""`, "", "", false},
	} {
		name, rest, ok := commandOf(c.typed)
		if ok != c.ok || (ok && (name != c.name || rest != c.rest)) {
			t.Errorf("%q: %q %q %v", c.typed, name, rest, ok)
		}
	}
}

// chatting returns an answerer with what commands need, and what it says.
func chatting(t *testing.T) (*answerer, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	checkpoint := &ckpt.Model{Spec: &model.Spec{Name: "org/model", Family: "qwen3", Vocab: 100, MaxLen: 50}, Template: "{{ messages }}"}
	o := &options{sampling: load.Advised()}
	o.sampling.Seed = -1
	a := &answerer{o: o, checkpoint: checkpoint, out: out, talk: &talk{}, seq: &sequence{info: runner.Info{MaxLen: 50}}}
	if err := a.configure(); err != nil {
		t.Fatal(err)
	}
	return a, out
}

// inForce is the value of a setting as it is shown.
func inForce(a *answerer, name string) string {
	for _, s := range settings() {
		if s.name == name {
			return s.get(a)
		}
	}
	return "there is no such setting"
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		typed string
		err   string // part of
		get   func(a *answerer) any
		want  any
	}{
		{typed: "temperature 0.7", get: func(a *answerer) any { return a.gen.Params.Temperature }, want: float32(0.7)},
		{typed: "parameter temperature 0.7", get: func(a *answerer) any { return a.gen.Params.Temperature }, want: float32(0.7)},
		{typed: "temp 0.7", get: func(a *answerer) any { return a.o.sampling.Temperature }, want: float32(0.7)},
		{typed: "top_k 5", get: func(a *answerer) any { return a.gen.Params.TopK }, want: 5},
		{typed: "top-p default", get: func(a *answerer) any { return a.o.sampling.TopP }, want: float32(-1)},
		{typed: "frequency-penalty default", get: func(a *answerer) any { return a.o.sampling.Frequency }, want: float32(0)},
		{typed: "seed 7", get: func(a *answerer) any { return a.gen.Params.Seed }, want: uint64(7)},
		{typed: "seed 1234567890123", get: func(a *answerer) any { return inForce(a, "seed") }, want: "1234567890123"},
		{typed: "seed -7", get: func(a *answerer) any { return inForce(a, "seed") }, want: "default"},
		{typed: "top-k 1000000", get: func(a *answerer) any { return inForce(a, "top-k") }, want: "1000000"},
		{typed: "temperature 0.1", get: func(a *answerer) any { return inForce(a, "temperature") }, want: "0.1"},
		{typed: "system Say 'yes'", get: func(a *answerer) any { return a.o.system }, want: "Say 'yes'"},
		{typed: "max-tokens 9", get: func(a *answerer) any { return a.gen.Max }, want: 9},
		{typed: "num_predict 9", get: func(a *answerer) any { return a.gen.Max }, want: 9},
		{typed: "effort HIGH", get: func(a *answerer) any { return a.talk.conv.Effort }, want: "high"},
		{typed: "nothink", get: func(a *answerer) any { return a.talk.conv.Effort }, want: "none"},
		{typed: "verbose off", get: func(a *answerer) any { return a.progress() == nil }, want: true},
		{typed: "quiet", get: func(a *answerer) any { return a.o.quiet }, want: true},
		{typed: "verbose", get: func(a *answerer) any { return a.o.quiet }, want: false},
		{typed: "history off", get: func(a *answerer) any { return a.forgetful }, want: true},
		{typed: "system Be kind.", get: func(a *answerer) any { return a.talk.conv.Turns[0].Parts[0] }, want: "Be kind."},
		{typed: "system \"\"\"two\nlines\"\"\"", get: func(a *answerer) any { return a.o.system }, want: "two\nlines"},
		{typed: `system ""`, get: func(a *answerer) any { return len(a.talk.conv.Turns) }, want: 0},
		{typed: "", get: func(a *answerer) any { return a.gen.Params.Temperature }, want: float32(0)},
		{typed: "temperature", err: "now default"},
		{typed: "temperature x", err: `/set temperature: "x": a number or default expected`},
		{typed: "temperature NaN", err: "a number or default expected"},
		{typed: "temperature 99", err: "temperature is 99"},
		{typed: "top-p 3", err: "top_p is 3"},
		{typed: "top-k 1.5", err: "a whole number or default expected"},
		{typed: "max-tokens -2", err: "a number of tokens"},
		{typed: "effort huge", err: "low, medium, high, none or default expected"},
		{typed: "verbose maybe", err: "on or off expected"},
		{typed: "temprature 1", err: "did you mean temperature?"},
		{typed: "zzzzzzzzzz 1", err: "/set lists them"},
		{typed: "num_ctx 4096", err: "--max-model-len N"},
		{typed: "format json", err: "ossian serve"},
		{typed: "image x.png", err: "text only"},
	} {
		a, _ := chatting(t)
		before := *a.o
		err := a.set(c.typed)
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !reflect.DeepEqual(*a.o, before)):
			t.Errorf("%q: %v, expected %q and nothing changed", c.typed, err, c.err)
		case c.err == "" && err != nil:
			t.Errorf("%q: %v", c.typed, err)
		case c.err == "" && !reflect.DeepEqual(c.get(a), c.want):
			t.Errorf("%q: %v, expected %v", c.typed, c.get(a), c.want)
		}
	}
}

// Every setting and every command is listed, and shown.
func TestChatLists(t *testing.T) {
	a, out := chatting(t)
	for _, command := range []string{"set", "help", "show"} {
		rest := map[string]string{"show": "parameters"}[command]
		if err := a.obey(command, rest); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range settings() {
		if want := "/set " + s.name + " "; !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	for _, c := range chatCommands() {
		if !strings.Contains(out.String(), "\n/"+c.name) && !strings.HasPrefix(out.String(), "/"+c.name) {
			t.Errorf("no /%s in %s", c.name, out)
		}
	}
	for what, want := range map[string]string{"info": "org/model (qwen3", "system": "There is no system message", "template": "{{ messages }}", "messages": "Nothing was said"} {
		out.Reset()
		if err := a.obey("show", what); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("/show %s: %v, %q", what, err, out)
		}
	}
	for command, want := range map[string]string{"show": "/show one of", "show sytem": "did you mean system?", "hlep": "did you mean /help?", "zzzzzzz": `between """`, "clear all": "takes nothing behind it",
		"save": "the name of a file is missing", "load": "the name of a file is missing", "load none": "no such file"} {
		name, rest, _ := strings.Cut(command, " ")
		if err := a.obey(name, rest); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("/%s: %v, expected %q", command, err, want)
		}
	}
	for _, end := range []string{"bye", "exit", "quit"} {
		if err := a.obey(end, ""); err != errLeave {
			t.Errorf("/%s: %v", end, err)
		}
	}
}

// A chat that is saved and loaded is the same, with its settings, and private.
func TestSaveLoad(t *testing.T) {
	t.Chdir(t.TempDir())
	a, _ := chatting(t)
	for _, set := range []string{"system Be <kind> & \"brief\".", "temperature 0.25", "top-k 3", "seed 9", "effort low", "max-tokens 77", "presence-penalty 0.5"} {
		if err := a.set(set); err != nil {
			t.Fatal(err)
		}
	}
	said := []chat.Turn{{Role: chat.User, Parts: []string{"Hé\n\tyou"}}, {Role: chat.Assistant, Parts: []string{"世界"}, Reasoning: "thought"}}
	a.talk.restart(a.o.system, said)
	if err := a.save("chat.json"); err != nil {
		t.Fatal(err)
	}
	if err := a.save("chat.json"); err != nil {
		t.Errorf("over a chat: %v", err)
	}
	info, err := os.Stat("chat.json")
	if err != nil || (runtime.GOOS != "windows" && info.Mode().Perm() != 0o600) {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	other, out := chatting(t)
	other.checkpoint.Spec.Name = "org/other"
	if err := other.load("chat.json"); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(other.talk.said(), said) || !reflect.DeepEqual(*other.o, *a.o) || !reflect.DeepEqual(other.gen.Params, a.gen.Params) || other.talk.conv.Turns[0].Parts[0] != a.o.system {
		t.Errorf("loaded %+v with %+v, expected %+v with %+v", other.talk.said(), *other.o, said, *a.o)
	}
	if !strings.Contains(out.String(), "said with org/model; this is org/other") {
		t.Errorf("said %q", out)
	}
	// What is no chat is not overwritten.
	if err := os.WriteFile("notes.txt", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.save("notes.txt"); err == nil || !strings.Contains(err.Error(), "choose another one") {
		t.Errorf("over another file: %v", err)
	}
	if err := a.save(filepath.Join("none", "chat.json")); err == nil || !strings.Contains(err.Error(), "the directory none: no such file") || strings.Contains(err.Error(), ".ossian") {
		t.Errorf("into no directory: %v", err)
	}
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, save := range map[string]func(string) error{"save": a.save, "overwrite": a.overwrite} {
		if err := save("folder"); err == nil || !strings.HasPrefix(err.Error(), "/"+name+" folder: ") || strings.Contains(err.Error(), ".ossian") {
			t.Errorf("%s over a directory: %v", name, err)
		}
		if err := save("notes.txt"); err == nil || !strings.Contains(err.Error(), "choose another one") {
			t.Errorf("%s over another file: %v", name, err)
		}
		if err := save(""); err == nil || !strings.Contains(err.Error(), "/"+name+" FILE: the name of a file is missing") {
			t.Errorf("%s without a name: %v", name, err)
		}
	}
	if left, _ := filepath.Glob(".ossian-chat-*"); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// A chat is written over an earlier state of itself, over another one only by /overwrite.
func TestSaveOver(t *testing.T) {
	t.Chdir(t.TempDir())
	said := func(texts ...string) *answerer {
		a, _ := chatting(t)
		var turns []chat.Turn
		for i, text := range texts {
			turns = append(turns, chat.Turn{Role: []chat.Role{chat.User, chat.Assistant}[i%2], Parts: []string{text}})
		}
		a.talk.restart("", turns)
		return a
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(said().obey("save", "chat.json"))
	must(said("a", "b").obey("save", "chat.json"))
	must(said("a", "b").obey("save", "chat.json"))
	must(said("a", "b", "c", "d").obey("save", "chat.json"))
	for name, other := range map[string]*answerer{"shorter": said("a", "b"), "other": said("a", "b", "c", "e"), "empty": said()} {
		err := other.obey("save", "chat.json")
		if err == nil || !strings.Contains(err.Error(), "/save chat.json: the file exists, with another chat of 4 messages: choose another name, or /overwrite chat.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if kept, err := readSaved("chat.json"); err != nil || len(kept.Messages) != 4 || kept.Messages[3].Content != "d" {
		t.Errorf("kept %+v, %v", kept, err)
	}
	must(said("x", "y").obey("overwrite", "chat.json"))
	if written, err := readSaved("chat.json"); err != nil || len(written.Messages) != 2 {
		t.Errorf("written %+v, %v", written, err)
	}
	must(said("x", "y").obey("overwrite", "new.json"))
}

// aSaved is a chat as /save writes it, with one part replaced.
func aSaved(old, replacement string) string {
	const text = `{"ossian_chat": 1, "model": "m", "settings": {"temperature": 1, "effort": "low"}, "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`
	return strings.Replace(text, old, replacement, 1)
}

// A file that is no chat is refused with what is wrong, and nothing changes.
func TestLoadRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "no chat: a JSON object expected (line 1: unexpected end"},
		{"text", "hello\nthere", "no chat: a JSON object expected (line 1: invalid character 'h'"},
		{"a list", "[]", "no chat: a JSON object expected (line 1: found array)"},
		{"an object", `{"messages": []}`, "the field ossian_chat, which /save writes, is missing"},
		{"a later version", aSaved(": 1", ": 2"), "a chat of version 2: this program reads version 1"},
		{"a version in words", aSaved(": 1", `: "1"`), `a chat of version "1"`},
		{"not UTF-8", aSaved("a", "\xff"), "not UTF-8"},
		{"something behind it", aSaved("", "") + "x", "no chat: a JSON object expected (line 1: invalid character 'x'"},
		{"an unknown field", aSaved(`"model"`, `"modle"`), `unknown field "modle"`},
		{"an unknown setting", aSaved(`"effort"`, `"efort"`), `unknown field "efort"`},
		{"a number as text", aSaved(`"temperature": 1`, `"temperature": "1"`), "field settings.temperature: found string, a number expected"},
		{"text as a number", aSaved(`"content": "a"`, `"content": 3`), "content: found number, a string expected"},
		{"messages as an object", aSaved("[", `{"a": 1}, "x": [`), "field messages: found object, a list expected"},
		{"an unknown effort", aSaved("low", "lwo"), `settings.effort is "lwo": low, medium, high or none expected; did you mean low?`},
		{"a temperature that cannot be", aSaved(`"temperature": 1`, `"temperature": 77`), "settings: temperature is 77"},
		{"tokens below 0", aSaved(`"temperature": 1`, `"max_tokens": -1`), "settings.max_tokens is -1"},
		{"a system message among the others", aSaved("user", "system"), `messages[0].role is "system": "user" expected`},
		{"the user twice", aSaved("assistant", "user"), `messages[1].role is "user": "assistant" expected`},
		{"no content", aSaved(`"b"`, `""`), "messages[1].content is empty or missing"},
		{"a question without an answer", aSaved(`, {"role": "assistant", "content": "b"}`, ""), "messages[0] is the user's and has no answer"},
		{"a user who reasons", aSaved(`"content": "a"`, `"content": "a", "reasoning": "x"`), "messages[0].reasoning: only the assistant reasons"},
	} {
		if err := os.WriteFile("chat.json", []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		a, _ := chatting(t)
		a.talk.restart("", []chat.Turn{{Role: chat.User, Parts: []string{"x"}}, {Role: chat.Assistant, Parts: []string{"y"}}})
		before := *a.o
		err := a.load("chat.json")
		if err == nil || !strings.HasPrefix(err.Error(), "/load chat.json: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", c.name, err, c.want)
		}
		if !reflect.DeepEqual(*a.o, before) || len(a.talk.said()) != 2 || a.talk.said()[0].Parts[0] != "x" {
			t.Errorf("%s: something changed", c.name)
		}
	}
	if err := os.WriteFile("chat.json", []byte(aSaved("", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	a, _ := chatting(t)
	if err := a.load("chat.json"); err != nil {
		t.Error(err)
	}
}

// Any text is a chat that can be written again or is refused.
func FuzzParseSaved(f *testing.F) {
	f.Add([]byte(aSaved("", "")))
	f.Add([]byte(`{"ossian_chat":1,"messages":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		saved, err := parseSaved(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(saved)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := parseSaved(again); err != nil || len(second.Messages) != len(saved.Messages) {
			t.Errorf("%s: %v", again, err)
		}
	})
}

// What is typed in a chat is kept once, and a history without a file is said once.
func TestRemember(t *testing.T) {
	a, out := chatting(t)
	a.history = &terminal.History{}
	a.remember("a")
	if out.Len() > 0 {
		t.Errorf("said %q", out)
	}
}
