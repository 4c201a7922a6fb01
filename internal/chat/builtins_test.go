package chat_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/chat/formattest"
	"ossian/internal/grammar"
)

// served offers tools of four servers, out of order, with names that formats cannot write and
// some that are not declared.
func served() *chat.Conversation {
	return &chat.Conversation{Turns: []chat.Turn{say(chat.User, "Hi")}, Builtins: []chat.Namespace{
		{Name: "wiki", Description: "Pages.", Tools: []chat.Tool{{Name: "read-page", Description: "Reads.", Parameters: []byte(`{"type":"object","properties":{"id":{"type":"number"}}}`)}, {Name: "read.page"}, {Name: "secret", Unshown: true}}},
		{Name: "python", Description: "Runs code.\n", Tools: []chat.Tool{{Name: "python", Unshown: true, Parameters: []byte(`{"type":"object"}`)}}},
		{Name: "container", Tools: []chat.Tool{{Name: "exec"}}},
		{Name: "browser", Tools: []chat.Tool{{Name: "search"}}},
	}}
}

func rendered(t *testing.T, f *held, conv *chat.Conversation) string {
	t.Helper()
	prompt := f.tok.Prompt()
	if err := f.format.Render(prompt, conv); err != nil {
		t.Fatal(err)
	}
	return f.tok.Decode(prompt.IDs())
}

// TestBuiltinDeclarations: namespaces are sorted by name, tools that are not to be shown are
// not, and a namespace of which nothing is shown looks like one without tools.
func TestBuiltinDeclarations(t *testing.T) {
	t.Parallel()
	const want = `# Tools

## browser

namespace browser {

type search = () => any;

} // namespace browser

## container

namespace container {

type exec = () => any;

} // namespace container

## python

Runs code.

## wiki

// Pages.
namespace wiki {

// Reads.
type read_page = (_: {
id?: number,
}) => any;

type read_page_2 = () => any;

} // namespace wiki

# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>`
	families := heldFamilies(t)
	if got := rendered(t, &families[0], served()); !strings.Contains(got, want) {
		t.Errorf("%s\nhas not\n%s", got, want)
	}
	off := served()
	off.NoCalls = true
	for _, f := range families[:2] {
		if got := rendered(t, &f, off); strings.Contains(got, "wiki") {
			t.Errorf("%s: tools that may not be called are shown: %s", f.name, got)
		}
	}
	var names []string
	for line := range strings.Lines(rendered(t, &families[1], served())) {
		if _, rest, ok := strings.Cut(line, `"name": "`); ok && strings.HasPrefix(line, `{"type"`) {
			name, _, _ := strings.Cut(rest, `"`)
			names = append(names, name)
		}
	}
	if want := []string{"browser_search", "container_exec", "python", "wiki_read_page", "wiki_read_page_2"}; !slices.Equal(names, want) {
		t.Errorf("functions %q, want %q", names, want)
	}
}

// TestBuiltinCallsRead: calls are told of by the recipients that the server knows, whatever a
// format calls them, on either channel, and end the turn.
func TestBuiltinCallsRead(t *testing.T) {
	t.Parallel()
	families := heldFamilies(t)
	conv := served()
	conv.Tools = []chat.Tool{{Name: "python_python"}}
	tag := func(name, arguments string) string {
		return "</think>\n\n<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call><|im_end|>"
	}
	for _, c := range []struct {
		family      int
		text, story string
	}{
		{0, "<|channel|>analysis to=wiki.read_page code<|message|>{}<|call|>", "builtin:wiki.read-page[{}] end"},
		{0, "<|channel|>commentary to=wiki.read_page_2 json<|message|>{}<|call|>", "builtin:wiki.read.page[{}] end"},
		{0, " to=wiki.secret<|channel|>commentary<|message|>{}<|call|>", "builtin:wiki.secret[{}] end"},
		{0, "<|channel|>analysis to=python code<|message|>1+1<|call|>", "builtin:python[1+1] end"},
		{0, "<|channel|>analysis to=container.exec<|message|>{}<|call|>", "builtin:container.exec[{}] end"},
		{0, "<|channel|>commentary to=functions.python_python<|message|>{}<|call|>", "call:python_python[{}] end"},
		{1, "<think>" + tag("wiki_read_page", "{}"), "builtin:wiki.read-page[{}] end"},
		{1, "<think>" + tag("wiki_read_page_2", "{}"), "builtin:wiki.read.page[{}] end"},
		{1, "<think>" + tag("wiki_secret", "{}"), "builtin:wiki.secret[{}] end"},
		{1, "<think>" + tag("python", `{"code": "print(\"a\")\n"}`), "builtin:python[print(\"a\")\n] end"},
		{1, "<think>" + tag("python_python", "{}"), "call:python_python[{}] end"},
		{1, "<think>" + tag("python_python_2", "{}"), "builtin:python.python[{}] end"},
		{4, `{"name": "python", "parameters": {"code": "1"}}<|eot_id|>`, "builtin:python[1] end"},
	} {
		f := families[c.family]
		all := sampled(f.tok, c.text)
		events := formattest.Parse(f.format.Parser(conv), all)
		if got := formattest.Story(events); got != c.story {
			t.Errorf("%s: %q: %q, want %q", f.name, c.text, got, c.story)
		}
		for _, event := range events {
			if event.Part == chat.Calling && event.Call != 0 {
				t.Errorf("%s: %q: call %d of the client's", f.name, c.text, event.Call)
			}
		}
		if c.family == 4 { // which is not held to calls that it need not make
			continue
		}
		rules := &chat.Rules{Tools: []chat.ToolRule{{Arguments: grammar.Source{Kind: grammar.Object}}}}
		if n := f.follow(t, f.constraint(t, conv, rules), all); n != len(all) {
			t.Errorf("%s: %q is forbidden behind %q", f.name, f.tok.Decode(all[n:]), f.tok.Decode(all[:n]))
		}
	}
}

// TestBuiltinRules: rules keep models from tools of the server, from some or from all, and calls
// can be forced where only these may be called.
func TestBuiltinRules(t *testing.T) {
	t.Parallel()
	families := heldFamilies(t)
	calls := func(family int, space, tool string) string {
		if family == 0 {
			return "<|channel|>analysis to=" + strings.TrimSuffix(space+"."+tool, ".") + " code<|message|>{}<|call|>"
		}
		return "<think></think>\n\n<tool_call>\n{\"name\": \"" + space + "_" + tool + "\", \"arguments\": {}}\n</tool_call><|im_end|>"
	}
	final := []string{"<|channel|>final<|message|>a<|return|>", "<think></think>a<|im_end|>"}
	for _, c := range []struct {
		name            string
		rules           chat.Rules
		search, ex, end bool // which of browser.search, container.exec and no call may be
	}{
		{"free", chat.Rules{}, true, true, true},
		{"a tool", chat.Rules{Builtins: []string{"browser.search"}}, true, false, true},
		{"a namespace", chat.Rules{Builtins: []string{"container"}}, false, true, true},
		{"none", chat.Rules{Builtins: []string{}}, false, false, true},
		{"no calls", chat.Rules{NoCalls: true, Builtins: []string{}}, false, false, true},
		{"any call", chat.Rules{MustCall: true}, true, true, false},
		{"this call", chat.Rules{MustCall: true, Builtins: []string{"browser"}}, true, false, false},
		{"no reasoning", chat.Rules{Thinking: new(int)}, true, true, true},
	} {
		for family, f := range families[:2] {
			if c.name == "no reasoning" && family == 1 {
				continue
			}
			may := func(text string) bool {
				all := sampled(f.tok, text)
				return f.follow(t, f.constraint(t, served(), &c.rules), all) == len(all)
			}
			for text, want := range map[string]bool{calls(family, "browser", "search"): c.search, calls(family, "container", "exec"): c.ex, final[family]: c.end} {
				if may(text) != want {
					t.Errorf("%s: %s: %q: allowed is not %v", f.name, c.name, text, want)
				}
			}
		}
	}
	for _, f := range families {
		conv := served()
		conv.MustCall = true
		_, err := f.format.Constraint(conv, &chat.Rules{MustCall: true, Builtins: []string{}}, f.compile)
		if _, ok := err.(chat.NoCallsError); !ok {
			t.Errorf("%s: a call is forced where none may be made: %v", f.name, err)
		}
	}
}

// TestBuiltinHistory: calls and results of earlier turns are shown on one channel, of offered
// tools and of others, and results belong to their calls.
func TestBuiltinHistory(t *testing.T) {
	t.Parallel()
	families := heldFamilies(t)
	conv := served()
	conv.Builtins = conv.Builtins[:2]
	conv.Turns = append(conv.Turns,
		chat.Turn{Role: chat.Assistant, Calls: []chat.Call{{ID: "1", Name: "wiki.read-page", Arguments: "{}"}, {ID: "2", Name: "python", Arguments: "1+1"}}},
		chat.Turn{Role: chat.ToolRole, CallID: "1", Parts: []string{"one"}}, chat.Turn{Role: chat.ToolRole, Name: "python", Parts: []string{"two"}},
		chat.Turn{Role: chat.Assistant, Calls: []chat.Call{{ID: "3", Name: "browser.search", Arguments: "{}", Builtin: true}, {ID: "4", Name: "browser.search", Arguments: "{}"}}},
		chat.Turn{Role: chat.ToolRole, CallID: "3", Parts: []string{"three"}}, chat.Turn{Role: chat.ToolRole, CallID: "4", Parts: []string{"four"}})
	wants := []string{"<|start|>assistant to=wiki.read_page<|channel|>analysis code<|message|>{}<|call|><|start|>assistant to=python<|channel|>analysis code<|message|>1+1<|call|>" +
		"<|start|>wiki.read_page to=assistant<|channel|>analysis<|message|>one<|end|><|start|>python to=assistant<|channel|>analysis<|message|>two<|end|>" +
		"<|start|>assistant to=browser.search<|channel|>analysis code<|message|>{}<|call|><|start|>assistant to=functions.browser_search<|channel|>commentary json<|message|>{}<|call|>" +
		"<|start|>browser.search to=assistant<|channel|>analysis<|message|>three<|end|><|start|>functions.browser_search to=assistant<|channel|>commentary<|message|>four<|end|><|start|>assistant",
		"<|im_start|>assistant\n<tool_call>\n{\"name\": \"wiki_read_page\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"python\", \"arguments\": {\"code\": \"1+1\"}}\n</tool_call><|im_end|>\n" +
			"<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response><|im_end|>\n" +
			"<|im_start|>assistant\n<tool_call>\n{\"name\": \"browser_search\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"browser.search\", \"arguments\": {}}\n</tool_call><|im_end|>\n" +
			"<|im_start|>user\n<tool_response>\nthree\n</tool_response>\n<tool_response>\nfour\n</tool_response><|im_end|>\n<|im_start|>assistant\n"}
	for i, want := range wants {
		if got := rendered(t, &families[i], conv); !strings.HasSuffix(got, want) {
			t.Errorf("%s\ndoes not end with\n%s", got, want)
		}
	}
}

// TestBuiltinRecorded: a turn is repeated as it was sampled, calls and all, and its results are
// on the channels of their calls.
func TestBuiltinRecorded(t *testing.T) {
	t.Parallel()
	f := heldFamilies(t)[0]
	output := "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=wiki.read_page  code<|message|>{ }<|call|>"
	conv := served()
	conv.Turns = append(conv.Turns, chat.Turn{Role: chat.Assistant, Reasoning: "Hm.", Output: sampled(f.tok, output), Calls: []chat.Call{{ID: "1", Name: "wiki.read-page", Arguments: "{ }", Builtin: true}}},
		chat.Turn{Role: chat.ToolRole, CallID: "1", Parts: []string{"<|end|>"}})
	before := *conv
	before.Turns = conv.Turns[:1]
	prefix := rendered(t, &f, &before)
	want := prefix + output + "<|start|>wiki.read_page to=assistant<|channel|>commentary<|message|><|end|><|end|><|start|>assistant"
	if got := rendered(t, &f, conv); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	since := *conv
	since.Since = 1
	if got := prefix + rendered(t, &f, &since); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	// Where an answer did not end as a call, its prompt does.
	for text, want := range map[string]string{
		"<|channel|>analysis to=python code<|message|>1<|end|>":    "<|channel|>analysis to=python code<|message|>1<|call|><|start|>python to=assistant<|channel|>analysis<|message|>r<|end|><|start|>assistant",
		"<|channel|>commentary to=python code<|message|>1<|call|>": "<|channel|>commentary to=python code<|message|>1<|call|><|start|>python to=assistant<|channel|>commentary<|message|>r<|end|><|start|>assistant",
		"<|channel|>analysis to=python code<|message|>1":           "<|channel|>analysis to=python code<|message|>1<|end|><|start|>python to=assistant<|channel|>analysis<|message|>r<|end|><|start|>assistant",
	} {
		since.Turns = []chat.Turn{say(chat.User, "Hi"), {Role: chat.Assistant, Output: sampled(f.tok, text), Calls: []chat.Call{{ID: "1", Name: "python", Builtin: true}}}, {Role: chat.ToolRole, CallID: "1", Parts: []string{"r"}}}
		if got := rendered(t, &f, &since); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestBuiltinRefused: a template without tools, or without a place for what they give, is told
// before anything is generated.
func TestBuiltinRefused(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "smollm2-cut.json")
	const results = "{% for m in messages %}{{ m.content }}{% endfor %}"
	for name, template := range map[string]string{
		"no tools":   string(readFile(t, "../jinja/testdata/templates/smollm2.jinja")),
		"no results": "{{ tools | tojson }}{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}",
		"no calls":   "{{ tools | tojson }}" + results,
	} {
		f := newFormat(t, chat.Facts{Family: "llama", Tokenizer: tok, Template: template})
		err := f.Render(tok.Prompt(), served())
		if e, ok := err.(*chat.Error); !ok || !e.Tools {
			t.Errorf("%s: %v, want an error of the tools", name, err)
		}
	}
	f := newFormat(t, chat.Facts{Family: "llama", Tokenizer: tok, Template: "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}{% endfor %}"})
	if err := f.Render(tok.Prompt(), served()); err != nil {
		t.Errorf("%v", err)
	}
}

// FuzzBuiltinNames: whatever servers call their tools, each can be called, by another name each,
// and no name is part of the format.
func FuzzBuiltinNames(f *testing.F) {
	f.Add("read-page", "read page", "x")
	f.Add("<|end|>", "", "日本")
	f.Add("a.b", "a_b", "a_b_2")
	families := heldFamilies(f)[:2]
	f.Fuzz(func(t *testing.T, a, b, c string) {
		conv := &chat.Conversation{Turns: []chat.Turn{say(chat.User, "Hi")}, Tools: []chat.Tool{{Name: "srv_" + c}}, Builtins: []chat.Namespace{{Name: "srv", Tools: []chat.Tool{{Name: a}, {Name: b}, {Name: c}}}}}
		if a == b || b == c || a == c || max(len(a), len(b), len(c)) > 24 { // longer ones are refused before: a header has 64 tokens at most
			return
		}
		for _, family := range families {
			prompt := family.tok.Prompt()
			if err := family.format.Render(prompt, conv); err != nil {
				t.Fatal(err)
			}
			for _, tool := range []string{a, b, c} {
				turn := chat.Turn{Role: chat.Assistant, Calls: []chat.Call{{ID: "1", Name: "srv." + tool, Arguments: "{}", Builtin: true}}}
				called := *conv
				called.Turns = []chat.Turn{say(chat.User, "Hi"), turn}
				called.NoPrompt = true
				made := family.tok.Prompt()
				if err := family.format.Render(made, &called); err != nil {
					t.Fatal(err)
				}
				// What the call looks like in a prompt is read as a call of the same tool.
				text := family.tok.Decode(made.IDs())
				begin := map[string]string{"harmony": "<|start|>assistant", "qwen3": "assistant\n"}[family.name]
				answer := text[strings.LastIndex(text, begin)+len(begin):]
				story := formattest.Story(formattest.Parse(family.format.Parser(conv), sampled(family.tok, answer)))
				if want := fmt.Sprintf("builtin:srv.%s[{}] end", tool); story != want {
					t.Fatalf("%s: %q: %q, want %q", family.name, answer, story, want)
				}
			}
		}
	})
}
