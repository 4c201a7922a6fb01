package chat_test

import (
	"os"
	"slices"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/chat/formattest"
	"ossian/internal/token"
)

// ids returns the ids of added tokens.
func ids(t testing.TB, tok *token.BPE, names ...string) []int32 {
	t.Helper()
	var all []int32
	for _, name := range names {
		id, ok := tok.ID(name)
		if !ok {
			t.Fatalf("no token %s", name)
		}
		all = append(all, id)
	}
	return all
}

func say(role chat.Role, text string) chat.Turn { return chat.Turn{Role: role, Parts: []string{text}} }

var weather = chat.Tool{Name: "get_weather", Description: "Current weather.", Parameters: []byte(`{"type": "object", "properties": {"location": {"type": "string"}}}`)}

// question offers a tool.
func question() *chat.Conversation {
	return &chat.Conversation{Turns: []chat.Turn{say(chat.System, "Be kind."), say(chat.User, "Weather?")}, Tools: []chat.Tool{weather}}
}

func turns() map[string]chat.Turn {
	answer := say(chat.Assistant, "It is\n\nsunny. <|end|> 😀")
	answer.Reasoning = "They want\nthe weather."
	call := chat.Turn{Role: chat.Assistant, Reasoning: "Call it.", Calls: []chat.Call{{ID: "1", Name: "get_weather", Arguments: `{"location": "Bern \" } {", "days": [1, {"x": 2.5}]}`}}}
	preamble := call
	preamble.Parts = []string{"Let me look."}
	return map[string]chat.Turn{"answer": answer, "call": call, "preamble": preamble}
}

func goldens(t testing.TB, dir, ext, convs string) []formattest.Golden {
	t.Helper()
	var all []formattest.Golden
	for name, c := range conversations(t, convs) {
		if text, err := os.ReadFile(dir + "/" + name + ext); err == nil {
			all = append(all, formattest.Golden{Name: name, Conversation: c, Prompt: string(text)})
		}
	}
	return all
}

func TestHarmonySuite(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	formattest.Run(t, formattest.Suite{
		Format: newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok}), Tokenizer: tok,
		Golden:       goldens(t, "testdata/harmony", ".prompt", "testdata/harmony/conversations.json"),
		Conversation: question(), Turns: turns(),
		Markers: ids(t, tok, "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>", "<|endoftext|>", "<|endofprompt|>"),
	})
}

// jinjaGoldens are the goldens of package jinja, without those that are expected to differ.
func jinjaGoldens(t testing.TB, template string, except ...string) []formattest.Golden {
	t.Helper()
	return slices.DeleteFunc(goldens(t, "../jinja/testdata/golden/"+template, ".txt", "../jinja/testdata/conversations.json"),
		func(g formattest.Golden) bool { return slices.Contains(except, g.Name) })
}

func TestQwenSuite(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "qwen3-cut.json")
	template := string(readFile(t, "../jinja/testdata/templates/qwen3.jinja"))
	parallel := turns()["preamble"]
	parallel.Calls = append(parallel.Calls, chat.Call{Name: "get_weather", Arguments: "{}"})
	all := turns()
	all["parallel calls"] = parallel
	formattest.Run(t, formattest.Suite{
		Format: newFormat(t, chat.Facts{Family: "qwen3", Tokenizer: tok, Template: template}), Tokenizer: tok,
		Golden:       jinjaGoldens(t, "qwen3", "odd_roles", "parts", "unicode", "python_text"), // the cut vocabulary lacks some characters
		Conversation: question(), Turns: all,
		Markers: ids(t, tok, "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>"),
	})
}

func TestTemplateSuite(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "smollm2-cut.json")
	template := string(readFile(t, "../jinja/testdata/templates/smollm2.jinja"))
	answer := say(chat.Assistant, "It is\n\nsunny.")
	formattest.Run(t, formattest.Suite{
		Format: newFormat(t, chat.Facts{Family: "llama", Tokenizer: tok, Template: template, Stops: ids(t, tok, "<|im_end|>")}), Tokenizer: tok,
		Golden:       jinjaGoldens(t, "smollm2", "odd_roles", "parts", "tool_result_text_args"),
		Conversation: question(), Turns: map[string]chat.Turn{"answer": answer},
		Markers: ids(t, tok, "<|im_start|>", "<|im_end|>", "<|endoftext|>"),
	})
}

// A model with another template than its family's, and tags in its vocabulary.
func TestTaggedTemplateSuite(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "qwen3-cut.json")
	template := "{%- for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning %}<think>{{ m.reasoning }}</think>{% endif %}{{ m.content }}<|im_end|>{% endfor %}" +
		"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
	all := turns()
	delete(all, "call")
	delete(all, "preamble")
	formattest.Run(t, formattest.Suite{
		Format: newFormat(t, chat.Facts{Family: "qwen3", Tokenizer: tok, Template: template, Stops: ids(t, tok, "<|im_end|>")}), Tokenizer: tok,
		Golden: []formattest.Golden{{Name: "own", Conversation: question(),
			Prompt: "<|im_start|>system\nBe kind.<|im_end|><|im_start|>user\nWeather?<|im_end|><|im_start|>assistant\n"}},
		Conversation: question(), Turns: all,
		Markers: ids(t, tok, "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"),
	})
}
