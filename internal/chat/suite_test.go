package chat_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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

// jinjaGoldens are the goldens of package jinja, without those that are expected to differ.
func jinjaGoldens(t testing.TB, template string, except ...string) []formattest.Golden {
	t.Helper()
	all := goldens(t, "../jinja/testdata/golden/"+template, ".txt", "../jinja/testdata/conversations.json")
	for _, golden := range all {
		golden.Conversation.MustCall = true // the reference passes over tools that a template does not show
	}
	return slices.DeleteFunc(all, func(g formattest.Golden) bool {
		return slices.Contains(except, g.Name) || (template == "smollm2" && called(g.Conversation)) // whose template drops calls
	})
}

// called reports whether a conversation has calls.
func called(conv *chat.Conversation) bool {
	return slices.ContainsFunc(conv.Turns, func(turn chat.Turn) bool { return len(turn.Calls) > 0 })
}

// families are the formats and what they are checked with. Every row goes through
// every check below.
func families(t testing.TB) []formattest.Suite {
	t.Helper()
	o200k, qwen, smol := harmonyTokens(t), jsonTokens(t, "qwen3-cut.json"), jsonTokens(t, "smollm2-cut.json")
	template := func(name string) string { return string(readFile(t, "../jinja/testdata/templates/"+name+".jinja")) }
	// A model with another template than its family's, and tags in its vocabulary.
	const own = "{%- for t in tools or [] %}{{ t.function.name }} {% endfor %}{%- for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning %}<think>{{ m.reasoning }}</think>{% endif %}{{ m.content }}<|im_end|>{% endfor %}" +
		"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
	parallel := turns()["preamble"]
	parallel.Calls = append(parallel.Calls, chat.Call{Name: "get_weather", Arguments: "{}"})
	every := turns()
	every["parallel calls"] = parallel
	plain := map[string]chat.Turn{"answer": say(chat.Assistant, "It is\n\nsunny.")}
	llama, bare := llamaTokens(t), map[string]chat.Turn{"answer": plain["answer"], "call": {Role: chat.Assistant, Calls: turns()["call"].Calls}}
	toolless := question()
	toolless.Tools = nil
	thinking := map[string]chat.Turn{"answer": turns()["answer"]}
	ends := ids(t, qwen, "<|im_end|>")
	tags := ids(t, qwen, "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>")
	cut := []string{"odd_roles", "parts", "unicode", "python_text"} // the cut vocabulary lacks some characters
	all := []formattest.Suite{
		{Name: "harmony", Tokenizer: o200k, Format: newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: o200k}), Turns: turns(),
			Golden:  goldens(t, "testdata/harmony", ".prompt", "testdata/harmony/conversations.json"),
			Markers: ids(t, o200k, "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>", "<|endoftext|>", "<|endofprompt|>")},
		{Name: "qwen3", Tokenizer: qwen, Format: newFormat(t, chat.Facts{Family: "qwen3", Tokenizer: qwen, Template: template("qwen3"), Stops: ends}), Turns: every,
			Golden: jinjaGoldens(t, "qwen3", cut...), Markers: tags},
		{Name: "template that begins the reasoning", Tokenizer: qwen, Format: newFormat(t, chat.Facts{Family: "qwen3", Tokenizer: qwen, Template: template("qwen3-thinking-2507"), Stops: ends}), Turns: every,
			Golden: jinjaGoldens(t, "qwen3-thinking-2507", cut...), Markers: tags},
		{Name: "template", Tokenizer: smol, Turns: plain, Conversation: toolless, // which it has no place for
			Format: newFormat(t, chat.Facts{Family: "llama", Tokenizer: smol, Template: template("smollm2"), Stops: ids(t, smol, "<|im_end|>")}),
			Golden: jinjaGoldens(t, "smollm2", "odd_roles", "parts", "tool_result_text_args"), Markers: ids(t, smol, "<|im_start|>", "<|im_end|>", "<|endoftext|>")},
		{Name: "template with tags", Tokenizer: qwen, Turns: thinking,
			Format: newFormat(t, chat.Facts{Family: "qwen3", Tokenizer: qwen, Template: own, Stops: ends}),
			Golden: []formattest.Golden{{Name: "own", Conversation: question(),
				Prompt: "get_weather <|im_start|>system\nBe kind.<|im_end|><|im_start|>user\nWeather?<|im_end|><|im_start|>assistant\n"}},
			Markers: tags},
	}
	today := question() // some templates have a date
	today.Now = dated
	for _, name := range []string{"llama3.1", "llama3.2"} {
		all = append(all, formattest.Suite{Name: name, Tokenizer: llama, Turns: bare, Format: llamaFormat(t, name), Conversation: today,
			Golden:  jinjaGoldens(t, name, append(cut, "tool_result_text_args")...),
			Markers: append(ids(t, llama, "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>"), sampled(llama, `{"name": "get_weather", "parameters": {};`)...)})
	}
	texts := multilingual(t)
	for i := range all {
		if all[i].Strings = texts; all[i].Conversation == nil {
			all[i].Conversation = question()
		}
	}
	return all
}

// dated is when conversations are whose template wants to know.
var dated = time.Unix(1_760_000_000, 0)

// llamaTokens is a vocabulary with the control ids of Llama 3.1 to 3.3, and no tags.
func llamaTokens(t testing.TB) *token.BPE {
	t.Helper()
	names := strings.NewReplacer("<|endoftext|>", "<|end_of_text|>", "<|im_start|>", "<|start_header_id|>", "<|im_end|>", "<|eot_id|>", "<|object_ref_start|>", "<|end_header_id|>",
		"<|object_ref_end|>", "<|python_tag|>", "<|box_start|>", "<|eom_id|>", "<tool_call>", "<|reserved_1|>", "</tool_call>", "<|reserved_2|>", "<think>", "<|reserved_3|>", "</think>", "<|reserved_4|>")
	tok, err := token.FromJSON([]byte(names.Replace(string(readFile(t, "../token/testdata/qwen3-cut.json")))))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// llamaFormat is the format of a model with that vocabulary, whose file names one end.
func llamaFormat(t testing.TB, template string) chat.Format {
	t.Helper()
	tok := llamaTokens(t)
	return newFormat(t, chat.Facts{Family: "llama", Tokenizer: tok, Template: string(readFile(t, "../jinja/testdata/templates/"+template+".jinja")),
		Special: map[string]string{"bos_token": "<|bos|>", "eos_token": "<|eos|>"}, Stops: ids(t, tok, "<|eot_id|>")})
}

// multilingual returns 1,000 texts that ASCII cannot write.
func multilingual(t testing.TB) []string {
	t.Helper()
	var texts []string
	seen := map[string]bool{}
	for line := range bytes.Lines(readFile(t, "../token/testdata/strings.jsonl")) {
		var row struct{ Text string }
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		if utf8.RuneCountInString(row.Text) < len(row.Text) && !seen[row.Text] && len(texts) < 1000 {
			seen[row.Text] = true
			texts = append(texts, row.Text)
		}
	}
	if len(texts) < 1000 {
		t.Fatalf("strings.jsonl has %d different texts with characters beyond ASCII, at least 1,000 expected", len(texts))
	}
	return texts
}

// each runs a check of package formattest with every family.
func each(t *testing.T, check func(*testing.T, formattest.Suite)) {
	t.Helper()
	for _, s := range families(t) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			check(t, s)
		})
	}
}

func TestFormats(t *testing.T) { each(t, formattest.Run) }

func TestPAR1AnyIDs(t *testing.T) { each(t, formattest.AnyIDs) }

func TestPAR2Splits(t *testing.T) { each(t, formattest.Splits) }

func TestPAR3Markers(t *testing.T) { each(t, formattest.Markers) }

func TestSEC6Conversations(t *testing.T) { each(t, formattest.TextIsText) }

func TestLIF5Characters(t *testing.T) { each(t, formattest.Characters) }
