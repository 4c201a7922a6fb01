package chat_test

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"ossian/internal/chat"
	"ossian/internal/chat/formattest"
	"ossian/internal/grammar"
	"ossian/internal/soak"
)

// texting offers a tool that takes text and one whose text has a form.
func texting() *chat.Conversation {
	return &chat.Conversation{Turns: []chat.Turn{say(chat.User, "Hi")}, Tools: []chat.Tool{
		{Name: "shell", Description: "Runs a line.", Input: chat.Text, Parameters: []byte(`{"type":"number"}`)}, {Name: "my.sum", Input: chat.Formed}, {Name: "get"}}}
}

const sumPattern = `[1-9]\d?( \+ "[1-9]\d?"){1,3}`

// textRules hold the second tool to its form.
func textRules(src grammar.Source) *chat.Rules {
	return &chat.Rules{Tools: []chat.ToolRule{{}, {Arguments: src}, {Arguments: grammar.Source{Kind: grammar.Object}}}}
}

// Text of calls is given on as it is meant, at once where it cannot be wrapped.
func TestTexts(t *testing.T) {
	t.Parallel()
	families := heldFamilies(t)
	const shell, sum = "<|channel|>commentary to=functions.shell code<|message|>", "<|channel|>commentary to=functions.my_sum code<|message|>"
	between := func(name, arguments string) string {
		return `<tool_call>` + "\n" + `{"name": "` + name + `", "arguments": ` + arguments + "}\n</tool_call><|im_end|>"
	}
	for _, tt := range []struct {
		name     string
		f        held
		in, want string
	}{
		{"plain", families[0], shell + "ls -l\n\"x\"<|call|>", "call:shell[ls -l\n\"x\"] end"},
		{"space first", families[0], shell + " \n ls<|call|>", "call:shell[ \n ls] end"},
		{"space alone", families[0], shell + " \n<|call|>", "call:shell[ \n] end"},
		{"nothing", families[0], shell + "<|call|>", "call:shell[] end"},
		{"string", families[0], shell + ` "ls \"é\"" <|call|>`, `call:shell[ls "é"] end`},
		{"object", families[0], shell + `{"command": "ls"}<|call|>`, "call:shell[ls] end"},
		{"object of two", families[0], shell + `{"a": "ls", "b": "c"}<|call|>`, `call:shell[{"a": "ls", "b": "c"}] end`},
		{"null in an object", families[0], shell + `{"a": null}<|call|>`, `call:shell[{"a": null}] end`},
		{"null", families[0], shell + `null<|call|>`, "call:shell[null] end"},
		{"a block", families[0], shell + "{ ls; }<|call|>", "call:shell[{ ls; }] end"},
		{"cut string", families[0], shell + `"ls \u00`, `call:shell[ls ]~`},
		{"cut object", families[0], shell + `{"command": "ls \`, "call:shell[ls ]~"},
		{"cut block", families[0], shell + "{ ls", "call:shell[{ ls]~"},
		{"what has a form is never wrapped", families[0], sum + `"1"<|call|>`, `call:my.sum["1"] end`},
		{"dotted name", families[0], "<|channel|>commentary to=functions.my.sum code<|message|>1<|call|>", `call:my.sum[1] end`},
		{"other tools", families[0], "<|channel|>commentary to=functions.get json<|message|>{\"a\":\"b\"}<|call|>", `call:get[{"a":"b"}] end`},
		{"between tags", families[1], between("shell", `{"input": "ls\n\"x\""}`), "call:shell[ls\n\"x\"] end"},
		{"form between tags", families[1], between("my.sum", `{"input": "1 + \"2\""}`), `call:my.sum[1 + "2"] end`},
		{"string between tags", families[1], between("shell", `"ls"`), "call:shell[ls] end"},
		{"cut between tags", families[1], "<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"input\": \"ls", "call:shell[ls]~"},
		{"other tools between tags", families[1], between("get", `{"a":"b"}`), `call:get[{"a":"b"}] end`},
	} {
		ids := sampled(tt.f.tok, tt.in)
		if got := formattest.Story(formattest.Parse(tt.f.format.Parser(texting()), ids)); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
		if err := formattest.Check(tt.f.format, texting(), ids); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	p := families[0].format.Parser(texting())
	var texts []string
	for _, id := range sampled(families[0].tok, shell+" ls -l<|call|>") {
		for _, e := range p.Push(nil, id) {
			if e.Part == chat.Calling && e.Kind == chat.Delta && e.Text != "" {
				texts = append(texts, e.Text)
			}
		}
	}
	if len(texts) < 2 {
		t.Errorf("plain text comes as %q, not as it is written", texts)
	}
}

// Whatever models write in calls that take text, events are well-formed and no token is
// lost; in other tokens it is the same text.
func TestTextsOfAnyKind(t *testing.T) {
	t.Parallel()
	pieces := []string{`"`, `{"input": "`, `"}`, `}`, `\`, `\u00`, "é", "日本", " ", "\n", "ls -l", `{"a": null}`, "null", "[1]", `"x": `, "😀"}
	for _, f := range heldFamilies(t)[:2] {
		begin, end := "<|channel|>commentary to=functions.shell code<|message|>", "<|call|>"
		if f.name != "harmony" {
			begin, end = "<tool_call>\n{\"name\": \"shell\", \"arguments\": ", "}\n</tool_call><|im_end|>"
		}
		for n := range soak.Cases(t, 1000, 1_000_000) {
			rng := rand.New(rand.NewPCG(uint64(n), 15))
			text := begin
			for range rng.IntN(8) {
				text += pieces[rng.IntN(len(pieces))]
			}
			at := rng.IntN(len(text)-len(begin)+1) + len(begin)
			if rng.IntN(3) > 0 {
				text += end
			}
			ids := sampled(f.tok, text)
			if err := formattest.Check(f.format, texting(), ids); err != nil {
				t.Fatalf("%s: %q: %v", f.name, text, err)
			}
			for !utf8.RuneStart((text + "x")[at]) {
				at--
			}
			other := slices.Concat(sampled(f.tok, text[:at]), sampled(f.tok, text[at:]))
			a, b := formattest.Story(formattest.Parse(f.format.Parser(texting()), ids)), formattest.Story(formattest.Parse(f.format.Parser(texting()), other))
			if a != b {
				t.Fatalf("%s: %q cut at %d:\n%s\n%s", f.name, text, at, a, b)
			}
		}
	}
}

// Models are told of text, and shown it as they write it.
func TestTextPrompts(t *testing.T) {
	t.Parallel()
	c := texting()
	c.Turns = append(c.Turns, chat.Turn{Role: chat.Assistant, Calls: []chat.Call{{ID: "1", Name: "shell", Arguments: "ls \"x\"\n", Text: true}}},
		chat.Turn{Role: chat.ToolRole, CallID: "1", Parts: []string{"ok"}}, chat.Turn{Role: chat.Assistant, Calls: []chat.Call{{ID: "2", Name: "my.sum", Arguments: "12", Text: true}}},
		chat.Turn{Role: chat.ToolRole, CallID: "2", Parts: []string{"12"}})
	for i, want := range [][]string{
		{"// Runs a line.\ntype shell = (_: string) => any;", "type my_sum = (_: string) => any;", "type get = () => any;", "<|start|>functions.my_sum to=assistant",
			"<|start|>assistant to=functions.shell<|channel|>commentary code<|message|>ls \"x\"\n<|call|>", "<|start|>assistant to=functions.my_sum<|channel|>commentary code<|message|>12<|call|>"},
		{`"name": "shell", "description": "Runs a line.", "parameters": {"type": "object", "properties": {"input": {"type": "string"}}`,
			`{"name": "shell", "arguments": {"input": "ls \"x\"\n"}}`, `{"name": "my.sum", "arguments": {"input": "12"}}`},
	} {
		f := heldFamilies(t)[i]
		got := f.tok.Decode(render(t, f.format, f.tok, c))
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q is not in\n%s", f.name, part, got)
			}
		}
	}
}

// Names that are no identifiers are shown as some, numbered where these are equal; calls
// mean what is shown, and a name that is not shown means itself.
func TestDottedNames(t *testing.T) {
	t.Parallel()
	f := heldFamilies(t)[0]
	c := &chat.Conversation{Turns: []chat.Turn{say(chat.User, "Hi")}, Tools: []chat.Tool{{Name: "a.b"}, {Name: "a-b"}, {Name: "c_d"}, {Name: "c.d"}, {Name: "functions.x"}, {Name: "x"}}}
	prompt := f.tok.Decode(render(t, f.format, f.tok, c))
	for shown, name := range map[string]string{"a_b": "a.b", "a_b_2": "a-b", "c_d": "c_d", "c_d_2": "c.d", "functions_x": "functions.x", "x": "x"} {
		if !strings.Contains(prompt, "type "+shown+" = () => any;") {
			t.Errorf("%s is not declared in %s", shown, prompt)
		}
		for _, recipient := range []string{shown, name} {
			ids := sampled(f.tok, "<|channel|>commentary to=functions."+recipient+" json<|message|>{}<|call|>")
			if got := formattest.Story(formattest.Parse(f.format.Parser(c), ids)); got != "call:"+name+"[{}] end" {
				t.Errorf("%s: %s", recipient, got)
			}
		}
	}
}

// TestTextsAreHeld lets models babble: text that has a form has it, however calls are written.
func TestTextsAreHeld(t *testing.T) {
	form := regexp.MustCompile(`^(?:` + sumPattern + `)$`)
	sources := map[string]grammar.Source{
		"regex": {Kind: grammar.Regex, Text: sumPattern},
		"Lark":  {Kind: grammar.Lark, Text: "start: N (\" + \" \"\\\"\" N \"\\\"\")~1..3\nN: /[1-9][0-9]?/"},
		"GBNF":  {Kind: grammar.EBNF, Text: "root ::= n (\" + \\\"\" n \"\\\"\"){1,3}\nn ::= [1-9] [0-9]?"},
	}
	for _, f := range heldFamilies(t) {
		for name, src := range sources {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := textRules(src)
				r.Tools[0].Hidden, r.Tools[2].Hidden, r.MustCall, r.OneCall = true, true, true, true
				ended := 0
				for n := range soak.Cases(t, 20, 2000) {
					all, end := f.babble(t, f.constraint(t, texting(), r), rand.New(rand.NewPCG(uint64(n), 14)))
					m := heard(t, formattest.Parse(f.format.Parser(texting()), all), f.tok.Decode(all), end)
					if !end {
						continue
					}
					ended++
					if len(m.calls) != 1 || m.calls[0].name != "my.sum" || !form.MatchString(m.calls[0].arguments) {
						t.Fatalf("%+v in %q", m.calls, f.tok.Decode(all))
					}
				}
				if ended < 5 {
					t.Errorf("%d answers ended", ended)
				}
			})
		}
	}
}

// A form that cannot be held to is an error.
func TestTextErrors(t *testing.T) {
	t.Parallel()
	for _, f := range heldFamilies(t) {
		for _, src := range []grammar.Source{{Kind: grammar.Regex, Text: "("}, {Kind: grammar.Lark, Text: "start: x"}} {
			_, err := f.format.Constraint(texting(), textRules(src), f.compile)
			if e, ok := errors.AsType[*chat.FormError](err); !ok || e.Tool != 1 {
				t.Errorf("%s: %v", f.name, err)
			}
		}
		r := textRules(grammar.Source{Kind: grammar.Regex, Text: "("})
		r.Tools[1].Hidden = true
		if _, err := f.format.Constraint(texting(), r, f.compile); err != nil {
			t.Errorf("%s: a tool that is not to be called: %v", f.name, err)
		}
	}
}

// Who calls a tool without parameters may send no arguments: templates and models know {}.
func TestNoArguments(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "qwen3-cut.json")
	c := chat.Conversation{Turns: []chat.Turn{say(chat.User, "Hi"), {Role: chat.Assistant, Calls: []chat.Call{{ID: "1", Name: "now"}}}, {Role: chat.ToolRole, CallID: "1", Parts: []string{"12"}}}}
	for _, template := range []string{"", "qwen3"} {
		if prompt := tok.Decode(render(t, qwenFormat(t, template), tok, &c)); !strings.Contains(prompt, `{"name": "now", "arguments": {}}`) {
			t.Errorf("template %q: %s", template, prompt)
		}
	}
}
