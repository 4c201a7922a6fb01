package chat_test

import (
	"errors"
	"strings"
	"testing"

	"ossian/internal/chat"
)

// TestShownHere judges templates on the conversation itself: what they show in it, they show.
// The first two cases were found by asking a server.
func TestShownHere(t *testing.T) {
	t.Parallel()
	const plain = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
	const calling = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
	system, user := say(chat.System, "Be kind."), say(chat.User, "Weather?")
	call := chat.Turn{Role: chat.Assistant, Calls: []chat.Call{{ID: "1", Name: "get_weather", Arguments: `{"location": "Bern"}`}}}
	both := call
	both.Parts = []string{"Let me look."}
	result := chat.Turn{Role: chat.ToolRole, CallID: "1", Parts: []string{"sunny"}}
	other := chat.Tool{Name: "a", Parameters: []byte(`{"type": "object"}`), JSON: []byte(`{"type": "function", "function": {"name": "a", "parameters": {"type": "object"}, "strict": true}}`)}
	lookUp := chat.Tool{Name: "look_up"}
	loop := []chat.Turn{user, call, result}
	for name, tt := range map[string]struct {
		template string
		turns    []chat.Turn
		tools    []chat.Tool
		shows    bool   // tools in some usual conversation
		want     string // "" = rendered; else at fault: tools, "turn 1" or "tool 0"
	}{
		"shown without a system message only, with one":    {"{% if tools and messages[0].role != 'system' %}TOOLS {{ tools | tojson }}{% endif %}" + plain, []chat.Turn{system, user}, []chat.Tool{weather}, true, "tools"},
		"shown with a system message only, with one":       {"{% if tools and messages[0].role == 'system' %}TOOLS {{ tools | tojson }}{% endif %}" + plain, []chat.Turn{system, user}, []chat.Tool{weather}, true, ""},
		"shown with a system message only, without":        {"{% if tools and messages[0].role == 'system' %}TOOLS {{ tools | tojson }}{% endif %}" + plain, []chat.Turn{user}, []chat.Tool{weather}, true, "tools"},
		"shown in the first turn only, in a later one":     {"{% if tools and messages | length == 1 %}{{ tools | tojson }}{% endif %}" + plain, []chat.Turn{user, say(chat.Assistant, "Where?"), user}, []chat.Tool{weather}, true, "tools"},
		"shown behind an answer only":                      {"{% if tools and messages | length == 3 %}{{ tools | tojson }}{% endif %}" + plain, []chat.Turn{user, say(chat.Assistant, "Where?"), user}, []chat.Tool{weather}, true, ""},
		"the name is in a message":                         {plain, []chat.Turn{say(chat.User, "Is there get_weather?")}, []chat.Tool{weather}, false, "tools"},
		"a short name":                                     {"{% if tools %}There is a tool.{% endif %}" + plain, []chat.Turn{user}, []chat.Tool{other}, false, "tools"},
		"some of the tools":                                {"{% if tools %}{{ tools[0] | tojson }}{% endif %}" + plain, []chat.Turn{user}, []chat.Tool{weather, other}, true, "tool 1"},
		"one that the template leaves out by its name":     {"{% for t in tools or [] if t.function.name != 'look_up' %}{{ t.function | tojson }}{% endfor %}" + plain, []chat.Turn{user}, []chat.Tool{weather, lookUp}, true, "tool 1"},
		"one that it knows by its name alone":              {"{% for t in tools or [] %}{% if t.function.name == 'look_up' %}look_up(){% else %}{{ raise_exception('unknown') }}{% endif %}{% endfor %}" + plain, []chat.Turn{user}, []chat.Tool{lookUp}, false, ""},
		"calls without tools, dropped":                     {plain, loop, nil, false, "turn 1"},
		"calls without tools, shown":                       {calling, loop, nil, false, ""},
		"calls with tools, dropped":                        {"{{ tools | tojson if tools }}" + plain, loop, []chat.Tool{weather}, true, "turn 1"},
		"calls dropped beside text":                        {strings.Replace(calling, "m.tool_calls or []", "(m.tool_calls or []) if not m.content", 1), []chat.Turn{user, both, result}, nil, false, "turn 1"},
		"the second call of a turn is dropped":             {strings.Replace(calling, "m.tool_calls or []", "(m.tool_calls or [])[:1]", 1), []chat.Turn{user, {Role: chat.Assistant, Calls: append(call.Calls, call.Calls...)}, result, result}, nil, false, "turn 1"},
		"results are dropped":                              {"{% for m in messages if m.role != 'tool' %}{{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}{% endfor %}", loop, nil, false, "turn 2"},
		"a call whose arguments are no object":             {calling, []chat.Turn{user, {Role: chat.Assistant, Calls: []chat.Call{{ID: "1", Name: "f", Arguments: "half {"}}}, result}, nil, false, ""},
		"a result that its template takes from the caller": {"{% for m in messages %}{% if m.role == 'tool' %}{{ messages[loop.index0 - 1].tool_calls[0].function.name }} {% endif %}{{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}{% endfor %}", loop, nil, false, ""},
	} {
		tok := jsonTokens(t, "smollm2-cut.json")
		format := newFormat(t, chat.Facts{Family: "llama", Tokenizer: tok, Template: tt.template})
		if format.Tools() != tt.shows {
			t.Errorf("%s: shows tools: %t", name, format.Tools())
		}
		err, got := format.Render(tok.Prompt(), &chat.Conversation{Turns: tt.turns, Tools: tt.tools}), ""
		if fault, ok := errors.AsType[*chat.Error](err); ok && fault.Tools {
			got = "tools"
		} else if err != nil {
			got, _, _ = strings.Cut(err.Error(), ":")
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q: %v", name, got, tt.want, err)
		}
	}
}
