package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	chatapi "ossian/internal/api/chat"
	"ossian/internal/chat"
	"ossian/internal/limits"
	"ossian/internal/token"
	"ossian/internal/wire"
)

// spellings are the ways in which clients send reasoning back.
var spellings = map[string]func(text string) map[string]any{
	"reasoning":         func(text string) map[string]any { return map[string]any{"reasoning": text} },
	"reasoning_content": func(text string) map[string]any { return map[string]any{"reasoning_content": text} },
	"both":              func(text string) map[string]any { return map[string]any{"reasoning": text, "reasoning_content": text} },
	"thinking":          func(text string) map[string]any { return map[string]any{"thinking": text} },
	"reasoning_details": func(text string) map[string]any {
		return map[string]any{"reasoning_details": []any{map[string]any{"type": "reasoning.text", "text": text}}}
	},
}

// A dialogue is a request in the form of the Chat API.
type dialogue struct {
	Messages []map[string]any  `json:"messages"`
	Tools    []json.RawMessage `json:"tools,omitempty"`
	Prompt   *bool             `json:"add_generation_prompt,omitempty"`
}

// with returns d with its reasoning under other names, and how often it has any.
func (d dialogue) with(spell func(string) map[string]any) (out dialogue, reasoned int) {
	out = d
	out.Messages = nil
	for _, m := range d.Messages {
		m = maps.Clone(m)
		text, _ := m["reasoning"].(string)
		if other, ok := m["reasoning_content"].(string); ok {
			text = other
		}
		maps.DeleteFunc(m, func(key string, _ any) bool {
			return key == "reasoning" || key == "reasoning_content" || key == "thinking"
		})
		if text != "" {
			reasoned++
			maps.Copy(m, spell(text))
		}
		out.Messages = append(out.Messages, m)
	}
	return out, reasoned
}

// A speaker is a family that renders requests.
type speaker struct {
	tok    *token.BPE
	format chat.Format
}

// prompt renders a request as the server does.
func (f *speaker) prompt(t *testing.T, d dialogue) []int32 {
	t.Helper()
	body, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	q, err := wire.DecodeChat(body, limits.Defaults())
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	now := time.Date(2026, 11, 21, 12, 34, 56, 0, time.UTC)
	p := f.tok.Prompt()
	if err := f.format.Render(p, chatapi.Conversation(q, now)); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return p.IDs()
}

func readJSON(t *testing.T, file string, v any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// speakers are one of each way to write reasoning.
func speakers(t *testing.T) map[string]*speaker {
	t.Helper()
	data, err := os.ReadFile("../token/testdata/qwen3-cut.json")
	if err != nil {
		t.Fatal(err)
	}
	qwen, err := token.FromJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*speaker{"harmony": {tok: harmony()}, "qwen3": {tok: qwen}, "qwen3-thinking-2507": {tok: qwen}, "own": {tok: qwen}}
	for name, f := range all {
		facts := chat.Facts{Family: "qwen3", Tokenizer: f.tok}
		switch name {
		case "harmony":
			facts.Family = "gpt-oss"
		case "own": // a template that no code knows
			facts.Template = "{{ tools | tojson if tools }}{% for m in messages %}<|im_start|>{{ m.role }}{{ m.reasoning_content or '' }}|{{ m.content or '' }}{{ m.tool_calls | tojson if m.tool_calls }}{% endfor %}"
		default:
			template, err := os.ReadFile("../jinja/testdata/templates/" + name + ".jinja")
			if err != nil {
				t.Fatal(err)
			}
			facts.Template = string(template)
		}
		if f.format, err = chat.New(facts); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestPAR5Spellings: whatever a client calls the reasoning that it sends back, the
// prompt of a conversation with tools is the one that the reference renders:
// openai-harmony for gpt-oss, jinja2 for Qwen3.
func TestPAR5Spellings(t *testing.T) {
	var ours, theirs map[string]dialogue
	readJSON(t, "../chat/testdata/harmony/conversations.json", &ours)
	readJSON(t, "../jinja/testdata/conversations.json", &theirs)
	for _, d := range theirs {
		for _, m := range d.Messages {
			calls, _ := m["tool_calls"].([]any)
			for _, call := range calls { // the API has arguments as text
				f := call.(map[string]any)["function"].(map[string]any)
				if text, err := json.Marshal(f["arguments"]); err == nil {
					f["arguments"] = string(text)
				}
			}
		}
	}
	all := speakers(t)
	compared := 0
	for _, c := range []struct{ family, name, golden string }{
		{"harmony", "reasoning_dropped", "../chat/testdata/harmony/reasoning_dropped.prompt"},
		{"harmony", "reasoning_kept_in_tool_loop", "../chat/testdata/harmony/reasoning_kept_in_tool_loop.prompt"},
		{"harmony", "tool_loop_done", "../chat/testdata/harmony/tool_loop_done.prompt"},
		{"harmony", "preamble_and_parallel_calls", "../chat/testdata/harmony/preamble_and_parallel_calls.prompt"},
		{"qwen3", "reasoning", "../jinja/testdata/golden/qwen3/reasoning.txt"},
		{"qwen3", "long", "../jinja/testdata/golden/qwen3/long.txt"},
		{"qwen3-thinking-2507", "reasoning", "../jinja/testdata/golden/qwen3-thinking-2507/reasoning.txt"},
		{"qwen3-thinking-2507", "reasoning_final", "../jinja/testdata/golden/qwen3-thinking-2507/reasoning_final.txt"},
		{"own", "reasoning", ""},
	} {
		f, d := all[c.family], theirs[c.name]
		if c.family == "harmony" {
			d = ours[c.name]
		}
		first, _ := d.with(spellings["reasoning"])
		want := f.prompt(t, first)
		if c.golden != "" {
			text, err := os.ReadFile(c.golden)
			if err != nil {
				t.Fatal(err)
			}
			p := f.tok.Prompt()
			p.Markup(string(text))
			if got, wanted := f.tok.Decode(want), f.tok.Decode(p.IDs()); got != wanted {
				t.Errorf("%s, %s:\ngot  %q\nwant %q", c.family, c.name, got, wanted)
			}
		}
		for name, spell := range spellings {
			other, reasoned := d.with(spell)
			if reasoned == 0 {
				t.Fatalf("%s has no reasoning", c.name)
			}
			compared++
			if got := f.prompt(t, other); !slices.Equal(got, want) {
				t.Errorf("%s, %s, %s:\ngot  %q\nwant %q", c.family, c.name, name, f.tok.Decode(got), f.tok.Decode(want))
			}
		}
	}
	t.Logf("PAR-5: %d prompts with reasoning in %d spellings, 0 differences", compared, len(spellings))
}

// TestPAR5Replay: a client that sends back the message that it got goes on with the
// same prompt, whichever field the server was told to use.
func TestPAR5Replay(t *testing.T) {
	var ours map[string]dialogue
	readJSON(t, "../chat/testdata/harmony/conversations.json", &ours)
	d := ours["reasoning_kept_in_tool_loop"]
	const answer = 3 // the message that calls
	compared := 0
	for name, f := range speakers(t) {
		want := f.prompt(t, d)
		for _, field := range []wire.ReasoningField{wire.FieldReasoning, wire.FieldReasoningContent, wire.FieldBoth} {
			reply := wire.ChatReply{Field: field, Choices: []wire.ChatChoice{{Reasoning: "Call it.", Finish: wire.FinishToolCalls,
				Calls: []wire.ToolCall{{ID: "1", Name: "get_weather", Arguments: `{"location": "Bern"}`}}}}}
			var sent struct {
				Choices []struct{ Message map[string]any }
			}
			body := reply.Append(nil)
			if err := json.Unmarshal(body, &sent); err != nil {
				t.Fatal(err)
			}
			for spelled, has := range map[string]bool{"reasoning": field != wire.FieldReasoningContent, "reasoning_content": field != wire.FieldReasoning} {
				if bytes.Contains(body, []byte(`"`+spelled+`":"Call it."`)) != has {
					t.Errorf("field %d: %s", field, body)
				}
			}
			again := d
			again.Messages = slices.Clone(d.Messages)
			again.Messages[answer] = sent.Choices[0].Message
			compared++
			if got := f.prompt(t, again); !slices.Equal(got, want) {
				t.Errorf("%s, field %d:\ngot  %q\nwant %q", name, field, f.tok.Decode(got), f.tok.Decode(want))
			}
		}
	}
	t.Logf("PAR-5: %d replayed answers, 0 differences", compared)
}
