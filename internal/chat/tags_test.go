package chat_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ossian/internal/chat"
	"ossian/internal/chat/formattest"
)

func qwenFormat(t testing.TB, template string) chat.Format {
	t.Helper()
	text := ""
	if template != "" {
		text = string(readFile(t, "../jinja/testdata/templates/"+template+".jinja"))
	}
	return newFormat(t, chat.Facts{Family: "qwen3", Tokenizer: jsonTokens(t, "qwen3-cut.json"), Template: text, Stops: []int32{151643, 151645}})
}

func TestQwenParse(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "qwen3-cut.json")
	f := qwenFormat(t, "qwen3")
	const weather = `<tool_call>` + "\n" + `{"name": "get_weather", "arguments": {"a": "}\"", "b": [1]}}` + "\n</tool_call>"
	tests := []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"answer", "4<|im_end|>", "content[4] end"},
		{"thinking and answer", "<think>\n2+2\n</think>\n\n4<|im_end|>", "reasoning[2+2] content[4] end"},
		{"line breaks inside", "<think>\na\n\nb\n</think>\n\nc\n\nd\n<|im_end|>", "reasoning[a\n\nb] content[c\n\nd\n] end"},
		{"empty thinking", "<think>\n\n</think>\n\n4<|im_end|>", "content[4] end"},
		{"unclosed thinking", "<think>\n2+2", "reasoning[2+2]~"},
		{"unclosed thinking, ended", "<think>\n2+2<|im_end|>", "reasoning[2+2] end"},
		{"end of text", "4<|endoftext|>", "content[4] end"},
		{"tags behind the reasoning are text", "<think>a</think>b </think> <think> c<|im_end|>", "reasoning[a] content[b </think> <think> c] end"},
		{"close without open", "a</think>b<|im_end|>", "content[ab] end | tag"},
		{"open twice", "<think>a<think>b</think>c<|im_end|>", "reasoning[ab] content[c] end | tag"},
		{"late thinking", "a<think>b</think>c<|im_end|>", "content[a] reasoning[b] content[\nc] end"},
		{"call", weather + "<|im_end|>", `call:get_weather[{"a": "}\"", "b": [1]}] end`},
		{"thinking and call", "<think>\na\n</think>\n\n" + weather + "<|im_end|>", `reasoning[a] call:get_weather[{"a": "}\"", "b": [1]}] end`},
		{"text and call", "Wait.\n" + weather + "<|im_end|>", `content[Wait.] call:get_weather[{"a": "}\"", "b": [1]}] end`},
		{"two calls", weather + "\n" + weather + "<|im_end|>", `call:get_weather[{"a": "}\"", "b": [1]}] call:get_weather[{"a": "}\"", "b": [1]}] end`},
		{"call inside thinking is thought", "<think>x<tool_call>y</tool_call></think>z<|im_end|>", "reasoning[x<tool_call>y</tool_call>] content[z] end"},
		{"call without spaces", `<tool_call>{"name":"get_weather","arguments":{}}</tool_call><|im_end|>`, "call:get_weather[{}] end"},
		{"call with other order", `<tool_call>{"arguments": {"a": 1}, "name": "get_weather"}</tool_call><|im_end|>`, `call:get_weather[{"a": 1}] end`},
		{"call without arguments", `<tool_call>{"name": "get_weather"}</tool_call><|im_end|>`, "call:get_weather[{}] end"},
		{"arguments as text", `<tool_call>{"name": "get_weather", "arguments": "x}"}</tool_call><|im_end|>`, `call:get_weather["x}"] end`},
		{"arguments null", `<tool_call>{"name": "get_weather", "arguments": null}</tool_call><|im_end|>`, "call:get_weather[null] end"},
		{"escaped name", `<tool_call>{"name": "get\u005fweather", "arguments": {}}</tool_call><|im_end|>`, "call:get_weather[{}] end"},
		{"junk behind the arguments", `<tool_call>{"name": "get_weather", "arguments": {}, "id": 1}</tool_call><|im_end|>`, "call:get_weather[{}] end | call"},
		{"unclosed arguments", `<tool_call>{"name": "get_weather", "arguments": {"a": </tool_call><|im_end|>`, `call:get_weather[{"a": ]~ end`},
		{"no closing tag", `<tool_call>{"name": "get_weather", "arguments": {}}<|im_end|>`, "call:get_weather[{}] end"},
		{"cut arguments", `<tool_call>{"name": "get_weather", "arguments": {"a": "b`, `call:get_weather[{"a": "b]~`},
		{"cut behind the name", `<tool_call>{"name": "get_weather", "argu`, "call:get_weather[]~"},
		{"cut before the name", `<tool_call>{"na`, `hidden[{"na]~ | call`},
		{"malformed call", "<tool_call>\nget_weather(1)\n</tool_call>!<|im_end|>", "content[get_weather(1)] content[\n!] end | call"},
		{"unknown function", `<tool_call>{"name": "zzz", "arguments": {}}</tool_call><|im_end|>`, "hidden:zzz[{}] end"},
		{"closing tag alone", "a</tool_call>b<|im_end|>", "content[a</tool_call>b] end"},
		{"text behind the end", "a<|im_end|>\nb", "content[a] end content[\nb]~"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ids := sampled(tok, tt.in)
			if got := formattest.Story(formattest.Parse(f.Parser(question()), ids)); got != tt.want {
				t.Errorf("\ngot  %s\nwant %s", got, tt.want)
			}
			if err := formattest.Check(f, question(), ids); err != nil {
				t.Error(err)
			}
		})
	}
}

// Without tools the tags of calls are text; the prompt says where thinking stands.
func TestQwenStates(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "qwen3-cut.json")
	hi := []chat.Turn{say(chat.User, "Hi")}
	open := []chat.Turn{say(chat.User, "Hi"), say(chat.Assistant, "1, 2,")}
	reasoning := []chat.Turn{say(chat.User, "Hi"), {Role: chat.Assistant, Reasoning: "First"}}
	for _, tt := range []struct {
		name, template string
		c              chat.Conversation
		end, in, want  string
	}{
		{"calls are text", "qwen3", chat.Conversation{Turns: hi}, "assistant\n", "<tool_call>x</tool_call><|im_end|>", "content[<tool_call>x</tool_call>] end"},
		{"no thinking", "qwen3", chat.Conversation{Turns: hi, Effort: "none"}, "<think>\n\n</think>\n\n", "a<think>b<|im_end|>", "content[a<think>b] end"},
		{"no thinking, by variable", "qwen3", chat.Conversation{Turns: hi, Vars: []byte(`{"enable_thinking": false}`)}, "</think>\n\n", "a<|im_end|>", "content[a] end"},
		{"effort", "qwen3", chat.Conversation{Turns: hi, Effort: "high"}, "assistant\n", "<think>a</think>b<|im_end|>", "reasoning[a] content[b] end"},
		{"family without template", "", chat.Conversation{Turns: hi}, "assistant\n", "<think>a</think>b<|im_end|>", "reasoning[a] content[b] end"},
		{"always thinks", "qwen3-thinking-2507", chat.Conversation{Turns: hi}, "assistant\n<think>\n", "a\n</think>\n\nb<|im_end|>", "reasoning[a] content[b] end"},
		{"never thinks", "qwen3-instruct-2507", chat.Conversation{Turns: hi}, "assistant\n", "a<|im_end|>", "content[a] end"},
		{"goes on", "qwen3", chat.Conversation{Turns: open, Continue: true}, "assistant\n<think>\n\n</think>\n\n1, 2,", " 3<|im_end|>", "content[ 3] end"},
		{"goes on behind no thought", "qwen3", chat.Conversation{Turns: []chat.Turn{hi[0], say(chat.Assistant, "<think>\n\n</think>\n\n")}, Continue: true}, "assistant\n<think>\n\n</think>\n\n", "3<|im_end|>", "content[3] end"},
		{"goes on behind a thought", "qwen3-thinking-2507", chat.Conversation{Turns: []chat.Turn{hi[0], say(chat.Assistant, "<think>\nfoo\n</think>\n\n")}, Continue: true}, "<think>\nfoo\n</think>\n\n", "3<|im_end|>", "content[3] end"},
		{"goes on thinking", "qwen3", chat.Conversation{Turns: reasoning, Continue: true}, "<think>\nFirst", " x\n</think>\n\n3<|im_end|>", "reasoning[ x] content[3] end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := qwenFormat(t, tt.template)
			if prompt := tok.Decode(render(t, f, tok, &tt.c)); !strings.HasSuffix(prompt, tt.end) {
				t.Errorf("prompt %q does not end with %q", prompt, tt.end)
			}
			if got := formattest.Story(formattest.Parse(f.Parser(&tt.c), sampled(tok, tt.in))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestQwenRecorded(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "qwen3-cut.json")
	f := qwenFormat(t, "qwen3")
	call := chat.Turn{Role: chat.Assistant, Reasoning: "a", Calls: []chat.Call{{ID: "1", Name: "get_weather", Arguments: `{"x":1}`}}}
	const text = "<think>\na\n</think>\n\n<tool_call>\n{\"name\": \"get_weather\",  \"arguments\": {\"x\":1}}\n</tool_call>"
	call.Output = sampled(tok, text+"<|im_end|>")
	result := chat.Turn{Role: chat.ToolRole, CallID: "1", Parts: []string{"ok"}}
	// Output of several turns: reasoning twice, and text before it.
	twice, speaks := call, say(chat.Assistant, "b")
	const two, behind = "<think>\nb\n</think>\n" + text, "b<think>\na\n</think>\n\n<tool_call>\n{\"name\": \"get_weather\",  \"arguments\": {\"x\":1}}\n</tool_call>"
	reasons := chat.Turn{Role: chat.Assistant, Reasoning: "b", Output: sampled(tok, two+"<|im_end|>"), OutputTurns: 2}
	speaks.Output, speaks.OutputTurns = sampled(tok, behind+"<|im_end|>"), 2
	twice.Output = nil
	const asked, answered = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>\n<|im_start|>user\n<tool_response>\nok\n</tool_response><|im_end|>\n"
	for _, tt := range []struct {
		turns []chat.Turn
		want  string
	}{
		{[]chat.Turn{call, result}, asked + text + answered},
		{[]chat.Turn{call, result, say(chat.User, "Hi")}, asked + strings.TrimPrefix(text, "<think>\na\n</think>\n\n") + answered},
		{[]chat.Turn{reasons, twice, result}, asked + two + answered},
		{[]chat.Turn{speaks, twice, result}, asked + behind + answered},
		{[]chat.Turn{speaks, twice, result, say(chat.User, "Hi")}, asked + "b<|im_end|>\n<|im_start|>assistant\n<tool_call>"},
	} {
		c := &chat.Conversation{Turns: append([]chat.Turn{say(chat.User, "Hi")}, tt.turns...)}
		if got := tok.Decode(render(t, f, tok, c)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("\ngot  %q\nwant %q", got, tt.want)
		}
	}
}

// Templates open the reasoning themselves, refuse conversations, or lose text.
func TestTemplate(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "qwen3-cut.json")
	hi := &chat.Conversation{Turns: []chat.Turn{say(chat.User, "Hi")}}
	open := &chat.Conversation{Turns: []chat.Turn{say(chat.User, "Hi"), say(chat.Assistant, "1, 2,")}, Continue: true}
	const turns = "{% for m in messages %}<|im_start|>{{ m.content | trim }}<|im_end|>{% endfor %}"
	for _, tt := range []struct {
		name, template string
		c              *chat.Conversation
		prompt, in     string
		want           string
	}{
		{"reasoning is open", turns + "{% if add_generation_prompt %}<think>{% endif %}", hi, "<|im_start|>Hi<|im_end|><think>", "a</think>b<|im_end|>", "reasoning[a] content[b] end"},
		{"reasoning is closed", turns + "<think></think>", hi, "<|im_start|>Hi<|im_end|><think></think>", "a<think>b<|im_end|>", "content[a<think>b] end"},
		{"tags in the instructions", "<think> and </think>" + turns, hi, "<think> and </think><|im_start|>Hi<|im_end|>", "<think>a</think>b<|im_end|>", "reasoning[a] content[b] end"},
		{"no clock", turns + "{{ strftime_now('%Y') }}", hi, "", "", ""},
		{"goes on", turns, open, "<|im_start|>Hi<|im_end|><|im_start|>1, 2,", " 3<|im_end|>", "content[ 3] end"},
		{"date", turns + "{{ strftime_now('%Y') }}", &chat.Conversation{Now: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}, "2026", "", ""},
	} {
		f := newFormat(t, chat.Facts{Family: "llama", Tokenizer: tok, Template: tt.template, Stops: ids(t, tok, "<|im_end|>")})
		p := tok.Prompt()
		err := f.Render(p, tt.c)
		if prompt := tok.Decode(p.IDs()); prompt != tt.prompt || (err != nil) != (tt.prompt == "") {
			t.Errorf("%s: prompt %q, error %v, want %q", tt.name, prompt, err, tt.prompt)
		}
		if got := formattest.Story(formattest.Parse(f.Parser(tt.c), sampled(tok, tt.in))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "qwen3-cut.json")
	own := newFormat(t, chat.Facts{Family: "llama", Tokenizer: tok, Template: "{{ tools }}{% if messages | length > 3 %}{{ raise_exception('too many') }}{% endif %}"})
	harmony := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: harmonyTokens(t)})
	user := say(chat.User, "Hi")
	for _, tt := range []struct {
		name       string
		f          chat.Format
		c          chat.Conversation
		turn, tool int
		want       string
	}{
		{"effort", harmony, chat.Conversation{Effort: "huge"}, -1, -1, `"huge"`},
		{"unknown call", harmony, chat.Conversation{Turns: []chat.Turn{user, {Role: chat.ToolRole, CallID: "call_9"}}}, 1, -1, `"call_9"`},
		{"no call", harmony, chat.Conversation{Turns: []chat.Turn{{Role: chat.ToolRole}}}, 0, -1, `""`},
		{"continue the user", harmony, chat.Conversation{Turns: []chat.Turn{user}, Continue: true}, 0, -1, "assistant"},
		{"continue nothing", harmony, chat.Conversation{Continue: true}, -1, -1, "assistant"},
		{"schema", harmony, chat.Conversation{Turns: []chat.Turn{user}, Tools: []chat.Tool{{Name: "f"}, {Name: "g", Parameters: []byte(`{"a":1,"a":2}`)}}}, -1, 1, "parameters"},
		{"response format", harmony, chat.Conversation{Turns: []chat.Turn{user}, Response: &chat.ResponseFormat{Name: "r", Schema: []byte(`{`)}}, -1, -1, "response format r"},
		{"declaration", own, chat.Conversation{Turns: []chat.Turn{user}, Tools: []chat.Tool{{Name: "f", Parameters: []byte(`{`)}}}, -1, 0, ""},
		{"variables", own, chat.Conversation{Turns: []chat.Turn{user}, Vars: []byte(`[]`)}, -1, -1, "object"},
		{"refused", own, chat.Conversation{Turns: []chat.Turn{user, user, user, user}}, -1, -1, "too many"},
	} {
		err := tt.f.Render(tok.Prompt(), &tt.c)
		fault, ok := errors.AsType[*chat.Error](err)
		if !ok || fault.Turn != tt.turn || fault.Tool != tt.tool || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want turn %d, tool %d and %s", tt.name, err, tt.turn, tt.tool, tt.want)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	qwen, o200k := jsonTokens(t, "qwen3-cut.json"), harmonyTokens(t)
	if _, err := chat.New(chat.Facts{Family: "llama", Tokenizer: qwen}); !errors.Is(err, chat.ErrNoTemplate) {
		t.Errorf("no template: %v", err)
	}
	if _, err := chat.New(chat.Facts{Family: "llama", Tokenizer: qwen, Template: "{% if %}"}); err == nil {
		t.Error("a broken template was taken")
	}
	// A derived model with the family's name and vocabulary, and its own template.
	own := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: o200k, Template: "{{ messages[0].content }}!"})
	c := &chat.Conversation{Turns: []chat.Turn{say(chat.User, "Hi")}}
	if got := o200k.Decode(render(t, own, o200k, c)); got != "Hi!" {
		t.Errorf("prompt %q, want %q", got, "Hi!")
	}
	// The template of gpt-oss itself, and one that names the model.
	published := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: o200k, Template: string(readFile(t, "../jinja/testdata/templates/gpt-oss.jinja"))})
	if got := o200k.Decode(render(t, published, o200k, c)); !strings.HasPrefix(got, "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n") {
		t.Errorf("prompt %q", got)
	}
	if stops := published.Stops(); len(stops) != 3 || stops[0] != 199999 || stops[1] != 200002 || stops[2] != 200012 {
		t.Errorf("stops %v", stops)
	}
}
