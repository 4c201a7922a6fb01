package chat_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/chat"
	"ossian/internal/chat/formattest"
	"ossian/internal/token"
)

// readFile reads a file of testdata or of a neighbour's.
func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// apiMessage and apiConversation are the form that conversations have in testdata:
// that of the Chat API.
type apiMessage struct {
	Role, Name       string
	Content          json.RawMessage
	Reasoning        string
	ReasoningContent string `json:"reasoning_content"`
	ToolCallID       string `json:"tool_call_id"`
	ToolCalls        []struct {
		ID       string
		Function struct {
			Name      string
			Arguments json.RawMessage
		}
	} `json:"tool_calls"`
}

type apiConversation struct {
	Messages            []apiMessage
	Tools               []json.RawMessage
	ToolChoice          string `json:"tool_choice"`
	Effort              string `json:"reasoning_effort"`
	Identity            string
	Date                *string
	Response            *chat.ResponseFormat `json:"response_format"`
	Builtins            []string
	Continue            bool
	NoPrompt            bool  `json:"no_prompt"`
	KeepReasoning       bool  `json:"keep_reasoning"`
	AddGenerationPrompt *bool `json:"add_generation_prompt"`
}

var roles = map[string]chat.Role{"system": chat.System, "developer": chat.Developer, "user": chat.User, "assistant": chat.Assistant, "tool": chat.ToolRole}

func (m *apiMessage) turn(t testing.TB) chat.Turn {
	t.Helper()
	turn := chat.Turn{Role: roles[m.Role], Name: m.Name, Reasoning: m.Reasoning + m.ReasoningContent, CallID: m.ToolCallID}
	var text string
	var parts []struct{ Text string }
	switch {
	case len(m.Content) == 0 || string(m.Content) == "null":
	case json.Unmarshal(m.Content, &text) == nil:
		turn.Parts = []string{text}
	default:
		if err := json.Unmarshal(m.Content, &parts); err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			turn.Parts = append(turn.Parts, p.Text)
		}
	}
	for _, call := range m.ToolCalls {
		arguments := string(call.Function.Arguments)
		if json.Unmarshal(call.Function.Arguments, &text) == nil {
			arguments = text
		}
		turn.Calls = append(turn.Calls, chat.Call{ID: call.ID, Name: call.Function.Name, Arguments: arguments})
	}
	return turn
}

// conversations reads a file of conversations in the form of the Chat API.
func conversations(t testing.TB, file string) map[string]*chat.Conversation {
	t.Helper()
	var all map[string]apiConversation
	var raw map[string]map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(readFile(t, file), &all), json.Unmarshal(readFile(t, file), &raw)); err != nil {
		t.Fatal(err)
	}
	out := map[string]*chat.Conversation{}
	for name, a := range all {
		c := &chat.Conversation{
			NoCalls: a.ToolChoice == "none", Effort: a.Effort, Identity: a.Identity, Response: a.Response, Continue: a.Continue,
			NoPrompt: a.NoPrompt || (a.AddGenerationPrompt != nil && !*a.AddGenerationPrompt), KeepReasoning: a.KeepReasoning,
			Now: time.Date(2026, 11, 21, 12, 34, 56, 0, time.UTC),
		}
		if a.Date != nil {
			c.Now = time.Time{}
		}
		c.Vars = pick(t, raw[name], "builtin_tools", "date_string", "enable_thinking", "thinking", "model_identity", "documents")
		for i := range a.Messages {
			c.Turns = append(c.Turns, a.Messages[i].turn(t))
		}
		for _, raw := range a.Tools {
			var tool struct{ Function chat.Tool }
			if err := json.Unmarshal(raw, &tool); err != nil {
				t.Fatal(err)
			}
			tool.Function.JSON = raw
			c.Tools = append(c.Tools, tool.Function)
		}
		for _, b := range a.Builtins {
			c.Builtins = append(c.Builtins, namespace(t, b))
		}
		out[name] = c
	}
	return out
}

// pick returns some of the members of an object as an object, nil if none is there.
func pick(t testing.TB, all map[string]json.RawMessage, names ...string) json.RawMessage {
	t.Helper()
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return !slices.Contains(names, name) })
	if len(all) == 0 {
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func namespace(t testing.TB, name string) chat.Namespace {
	t.Helper()
	var all []chat.Namespace
	if err := json.Unmarshal(readFile(t, "testdata/harmony/builtins.json"), &all); err != nil {
		t.Fatal(err)
	}
	return all[slices.IndexFunc(all, func(n chat.Namespace) bool { return n.Name == name })]
}

var harmonyOnce = sync.OnceValues(token.Harmony)

func harmonyTokens(t testing.TB) *token.BPE {
	t.Helper()
	tok, err := harmonyOnce()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func jsonTokens(t testing.TB, name string) *token.BPE {
	t.Helper()
	tok, err := token.FromJSON(readFile(t, "../token/testdata/"+name))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func newFormat(t testing.TB, f chat.Facts) chat.Format {
	t.Helper()
	format, err := chat.New(f)
	if err != nil {
		t.Fatal(err)
	}
	return format
}

func render(t testing.TB, f chat.Format, tok *token.BPE, c *chat.Conversation) []int32 {
	t.Helper()
	p := tok.Prompt()
	if err := f.Render(p, c); err != nil {
		t.Fatal(err)
	}
	return p.IDs()
}

// TestHarmonyGolden compares with openai-harmony 0.0.8: _gen/golden.py writes the
// prompts, as text and as ids.
func TestHarmonyGolden(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	f := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	convs := conversations(t, "testdata/harmony/conversations.json")
	var ids map[string][]int32
	if err := json.Unmarshal(readFile(t, "testdata/harmony/ids.json"), &ids); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(ids)), slices.Sorted(maps.Keys(convs)); !slices.Equal(got, want) {
		t.Fatalf("ids.json has %v, conversations.json %v", got, want)
	}
	for name, c := range convs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := render(t, f, tok, c)
			if text, want := tok.Decode(got), string(readFile(t, "testdata/harmony/"+name+".prompt")); text != want {
				t.Fatalf("\ngot  %s\nwant %s", text, want)
			}
			if !slices.Equal(got, ids[name]) {
				t.Errorf("\ngot  %v\nwant %v", got, ids[name])
			}
		})
	}
}

// TestTinyGolden: the model in the program was trained on exactly these prompts.
func TestTinyGolden(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	template := readFile(t, "../../_tools/tinymodel/chat_template.jinja")
	f := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok, Template: string(template)})
	for name, c := range conversations(t, "testdata/tiny/conversations.json") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := string(readFile(t, "testdata/tiny/"+name+".prompt"))
			ids := render(t, f, tok, c)
			if got := tok.Decode(ids); got != want {
				t.Errorf("\ngot  %s\nwant %s", got, want)
			}
			if got := sampled(tok, want); !slices.Equal(ids, got) { // the training text is encoded as a whole
				t.Errorf("ids %v, those of the text %v", ids, got)
			}
		})
	}
}

// qwenTemplates are the forms of the Qwen3 template that package jinja has goldens of.
var qwenTemplates = []string{"qwen3", "qwen3-instruct-2507", "qwen3-thinking-2507"}

// TestQwenGolden compares with jinja2, whose prompts package jinja keeps.
func TestQwenGolden(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "qwen3-cut.json")
	for _, name := range qwenTemplates {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFormat(t, chat.Facts{Family: "qwen3", Tokenizer: tok, Template: string(readFile(t, "../jinja/testdata/templates/"+name+".jinja"))})
			compareGoldens(t, f, tok, "../jinja/testdata/golden/"+name, map[string]string{
				"odd_roles": "the template drops the developer's message",
				"parts":     "the template knows no parts",
			})
		})
	}
}

// compareGoldens renders every conversation that has a golden text in dir.
func compareGoldens(t *testing.T, f chat.Format, tok *token.BPE, dir string, except map[string]string) {
	t.Helper()
	compared := 0
	for name, c := range conversations(t, "../jinja/testdata/conversations.json") {
		want, err := os.ReadFile(filepath.Join(dir, name+".txt"))
		if err != nil || except[name] != "" {
			continue // refused by the template
		}
		compared++
		c.MustCall = true // the reference passes over tools that a template does not show
		// It passes over calls, too.
		if called(c) && !f.Tools() {
			if fault, ok := errors.AsType[*chat.Error](f.Render(tok.Prompt(), c)); !ok || fault.Turn < 0 {
				t.Errorf("%s: calls are dropped: %v", name, fault)
			}
			continue
		}
		got := tok.Decode(render(t, f, tok, c))
		// The vocabulary is cut, and NFC is the tokenizer's: compare what it makes of both.
		p := tok.Prompt()
		p.Markup(string(want))
		if text := tok.Decode(p.IDs()); got != text {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, text)
		}
	}
	if compared < 15 {
		t.Errorf("compared %d conversations, at least 15 expected", compared)
	}
}

// TestTemplateGolden: models without code of their own get what jinja2 renders.
func TestTemplateGolden(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "smollm2-cut.json")
	files, err := filepath.Glob("../jinja/testdata/templates/*.jinja")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jinja")
		if strings.HasPrefix(name, "qwen3") || name == "gpt-oss" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFormat(t, chat.Facts{Family: "llama", Tokenizer: tok, Template: string(readFile(t, file)),
				Special: map[string]string{"bos_token": "<|bos|>", "eos_token": "<|eos|>"}})
			compareGoldens(t, f, tok, "../jinja/testdata/golden/"+name, map[string]string{
				"odd_roles":             "the developer speaks as the system",
				"parts":                 "the templates know no parts, or print them",
				"tool_result_text_args": "arguments are given as a mapping, no content as empty",
			})
		})
	}
}

// TestHarmonyReferenceParse: well-formed answers are read as openai-harmony 0.0.8
// reads them.
func TestHarmonyReferenceParse(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	f := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	var rows []struct {
		Answer   string
		Messages []struct{ Channel, Recipient, Text string }
	}
	if err := json.Unmarshal(readFile(t, "testdata/harmony/parsed.json"), &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		var want []string
		for _, m := range row.Messages {
			name := map[string]string{"analysis": "reasoning", "commentary": "preamble", "final": "content"}[m.Channel]
			if tool, ok := strings.CutPrefix(m.Recipient, "functions."); ok {
				name = "call:" + tool
			} else if m.Recipient != "" {
				name = "builtin:" + m.Recipient
			}
			want = append(want, name+"["+m.Text+"]")
		}
		var got []string
		for _, e := range formattest.Parse(f.Parser(harmonyTools(t)), sampled(tok, row.Answer)) {
			switch e.Kind {
			case chat.Start:
				got = append(got, formattest.Story([]chat.Event{{Kind: chat.Start, Part: e.Part, Name: e.Name}}))
			case chat.Delta:
				got[len(got)-1] += e.Text
			case chat.End:
				got[len(got)-1] += "]"
			case chat.Salvage:
				t.Errorf("%s: salvaged by %s", row.Answer, e.Rule)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\ngot  %q\nwant %q", row.Answer, got, want)
		}
	}
	if len(rows) < 9 {
		t.Errorf("%d answers, at least 9 expected", len(rows))
	}
}
