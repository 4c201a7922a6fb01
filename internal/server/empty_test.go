package server

import (
	"encoding/json"
	"regexp"
	"testing"

	"ossian/internal/wire"
)

// TestLIF8EmptyReason: a reply without text and calls says why, streamed or not.
func TestLIF8EmptyReason(t *testing.T) {
	const unknown = thinks + ` to=functions.zzz<|channel|>commentary json<|message|>{}<|call|>`
	said := regexp.MustCompile(`"empty_reason":"(\w+)"`)
	for _, c := range []struct{ name, more, reply, finish, want string }{
		{"answer", ``, hello, "stop", ""},
		{"call", `,` + tools, calls, "tool_calls", ""},
		{"call without a preamble", `,` + tools, ` to=functions.get_weather<|channel|>commentary json<|message|>{}<|call|>`, "tool_calls", ""},
		{"tokens spent on reasoning", `,"max_tokens":5`, hello, "length", wire.EmptyLengthInReasoning},
		{"the same, not shown", `,"max_tokens":5,"include_reasoning":false`, hello, "length", wire.EmptyLengthInReasoning},
		{"tokens spent behind the reasoning", `,"max_tokens":10`, hello, "length", wire.EmptyLengthInReasoning},
		{"tokens spent on a header", `,"max_tokens":1`, hello, "length", wire.EmptyLength},
		{"stopped in reasoning", ``, `<|channel|>analysis<|message|>hm<|return|>`, "stop", wire.EmptyStopInReasoning},
		{"stop id in reasoning", `,"stop_token_ids":[` + tokenText(" think") + `]`, hello, "stop", wire.EmptyStopInReasoning},
		{"stop string at the beginning", `,"stop":"Hello"`, hello, "stop", wire.EmptyStopString},
		{"the same, kept", `,"stop":"Hello","include_stop_str_in_output":true`, hello, "stop", ""},
		{"stop string in reasoning", `,"stop":"think"`, hello, "stop", ""},
		{"unknown tool", ``, unknown, "stop", wire.EmptyUnknownTool},
		{"tool_choice none", `,"tool_choice":"none",` + tools, `<|channel|>final<|message|><|return|>`, "stop", ""}, // tools are declared, so headers are held, and an answer has text
		{"nothing", ``, `<|return|>`, "stop", wire.EmptyStop},
		{"empty answer", ``, `<|channel|>final<|message|><|return|>`, "stop", wire.EmptyStop},
		{"reasoning and an empty answer", ``, thinks + `<|channel|>final<|message|><|return|>`, "stop", wire.EmptyStopInReasoning},
	} {
		g := start(t, setup{reply: c.reply, cfg: looseHeaders})
		r := g.post("/v1/chat/completions", `{`+hi+c.more+`}`)
		var got struct {
			Choices []struct {
				Message struct {
					Content *string
					Calls   []any `json:"tool_calls"`
				}
				Finish string  `json:"finish_reason"`
				Empty  *string `json:"empty_reason"`
			}
		}
		if err := json.Unmarshal([]byte(r.body), &got); err != nil || len(got.Choices) != 1 {
			t.Fatalf("%s: %v: %s", c.name, err, r.body)
		}
		choice := got.Choices[0]
		if empty := choice.Message.Content == nil && choice.Message.Calls == nil; empty != (choice.Empty != nil) || empty != (c.want != "") ||
			(empty && *choice.Empty != c.want) || choice.Finish != c.finish {
			t.Errorf("%s: want %q and finish_reason %s: %s", c.name, c.want, c.finish, r.body)
		}
		streamed := ""
		stream := g.post("/v1/chat/completions", `{`+hi+c.more+`,"stream":true}`).body
		for _, m := range said.FindAllStringSubmatch(stream, -1) {
			streamed += m[1]
		}
		if streamed != c.want {
			t.Errorf("%s: streamed %q, want %q: %s", c.name, streamed, c.want, stream)
		}
		g.idle()
	}
}

// TestLIF8Completions: the same for /v1/completions. Echoed text is text.
func TestLIF8Completions(t *testing.T) {
	said := regexp.MustCompile(`"empty_reason":"(\w+)"`)
	for _, c := range []struct{ name, more, reply, text, finish, want string }{
		{"text", ``, "Hi<|return|>", "Hi", "stop", ""},
		{"stop string at the beginning", `,"stop":"H"`, "Hi", "", "stop", wire.EmptyStopString},
		{"the same, kept", `,"stop":"H","include_stop_str_in_output":true`, "Hi", "H", "stop", ""},
		{"stop id", `,"stop_token_ids":[` + tokenText("Hi") + `]`, "Hi", "", "stop", wire.EmptyStop},
		{"nothing", ``, `<|return|>`, "", "stop", wire.EmptyStop},
		{"nothing behind an echo", `,"echo":true`, `<|return|>`, "a", "stop", ""},
		{"an echo alone", `,"echo":true,"max_tokens":0`, "Hi", "a", "length", ""},
		{"tokens that are not shown", `,"max_tokens":2`, "<|channel|><|message|>", "", "length", wire.EmptyLength},
		{"tokens that are", `,"max_tokens":2,"skip_special_tokens":false`, "<|channel|><|message|>", "<|channel|><|message|>", "length", ""},
	} {
		g := start(t, setup{reply: c.reply})
		whole := g.post("/v1/completions", `{"prompt":"a"`+c.more+`}`).body
		var got struct {
			Choices []struct {
				Text   string
				Finish string  `json:"finish_reason"`
				Empty  *string `json:"empty_reason"`
			}
		}
		if err := json.Unmarshal([]byte(whole), &got); err != nil || len(got.Choices) != 1 {
			t.Fatalf("%s: %v: %s", c.name, err, whole)
		}
		if o := got.Choices[0]; o.Text != c.text || o.Finish != c.finish || (o.Empty != nil) != (c.want != "") {
			t.Errorf("%s: want text %q, finish_reason %s, %q: %s", c.name, c.text, c.finish, c.want, whole)
		}
		for _, reply := range []string{whole, g.post("/v1/completions", `{"prompt":"a","stream":true`+c.more+`}`).body} {
			reason := ""
			for _, m := range said.FindAllStringSubmatch(reply, -1) {
				reason += m[1]
			}
			if reason != c.want {
				t.Errorf("%s: reason %q, want %q: %s", c.name, reason, c.want, reply)
			}
		}
		g.idle()
	}
}

// tokenText is the id of a token as JSON has it.
func tokenText(text string) string {
	b, err := json.Marshal(tokenOf(text))
	if err != nil {
		panic(err) // numbers have a JSON form
	}
	return string(b)
}
