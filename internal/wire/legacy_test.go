package wire

import (
	"errors"
	"strings"
	"testing"

	"ossian/internal/limits"
)

// What is wrong with a field that is read as another is said of the field that the client
// sent: in the parameter, and nowhere does the message name the other.
func TestErrorsNameTheFieldSent(t *testing.T) {
	t.Parallel()
	small := *limits.Defaults()
	small[limits.Tools], small[limits.ToolBytes] = 2, 400
	const function = `"functions":[{"name":"f"}]`
	long := `{"name":"f","description":"` + strings.Repeat("a", 400) + `"}`
	for _, c := range []struct{ name, more, param, other string }{
		{"no functions", `"function_call":{"name":"f"}`, "function_call", "tool"},
		{"required, no functions", `"function_call":"required"`, "function_call", "tool"},
		{"empty functions", `"functions":[],"function_call":{"name":"f"}`, "function_call", "tool"},
		{"unknown function", function + `,"function_call":{"name":"g"}`, "function_call", "tool"},
		{"unknown function before the functions", `"function_call":{"name":"g"},` + function, "function_call", "tool"},
		{"unknown function among tools", `"tools":[{"type":"function","function":{"name":"f"}}],"function_call":{"name":"g"}`, "function_call", "tool_choice"},
		{"unknown tool among functions", function + `,"tool_choice":{"type":"function","function":{"name":"g"}}`, "tool_choice", "function_call"},
		{"no call that is known", function + `,"function_call":"always"`, "function_call", "tool"},
		{"no name called", function + `,"function_call":{}`, "function_call.name", "tool"},
		{"both choices", function + `,"function_call":"auto","tool_choice":"auto"`, "tool_choice", ""},
		{"no name", `"functions":[{"description":"x"}]`, "functions[0].name", "tool"},
		{"name with a blank", `"functions":[{"name":"f"},{"name":"a b"}]`, "functions[1].name", "tool"},
		{"long name", `"functions":[{"name":"` + strings.Repeat("a", 300) + `"}]`, "functions[0].name", "tools"},
		{"name twice", `"functions":[{"name":"f"},{"name":"f"}]`, "functions[1].name", "tool"},
		{"parameters", `"functions":[{"name":"f","parameters":[]}]`, "functions[0].parameters", "tool"},
		{"too many", `"functions":[{"name":"a"},{"name":"b"},{"name":"c"}]`, "functions", "3 tools"},
		{"too large", `"functions":[` + long + `]`, "functions", "of tools"},
		{"no array", `"functions":{"name":"f"}`, "functions", "tool"},
		{"a tool's name", `"tools":[{"type":"function","function":{}}]`, "tools[0].function.name", "functions"},
		{"budget", `"thinking_token_budget":-1`, "thinking_token_budget", "thinking_budget"},
		{"budget of old", `"thinking_budget":-1`, "thinking_budget", "thinking_token_budget"},
		{"budget of old beside another", `"thinking_budget":-1,"reasoning":{"effort":"low"}`, "thinking_budget", "thinking_token_budget"},
		{"two budgets", `"thinking_budget":1,"thinking_token_budget":1`, "thinking_token_budget", ""},
		{"more than the output", `"min_tokens":5,"max_completion_tokens":3`, "min_tokens", "max_tokens"},
		{"more than the output of old", `"min_tokens":5,"max_tokens":3`, "min_tokens", "max_completion_tokens"},
		{"guided beside a format", `"response_format":{"type":"json_object"},"guided_regex":"a"`, "guided_regex", "structured_outputs"},
		{"guided, two", `"guided_regex":"a","guided_grammar":"root ::= \"a\""`, "guided_grammar", "structured_outputs"},
		{"guided, no choice", `"guided_choice":[]`, "guided_choice", "structured_outputs"},
		{"guided, space alone", `"guided_whitespace_pattern":" "`, "guided_whitespace_pattern", "structured_outputs"},
		{"space alone", `"structured_outputs":{"whitespace_pattern":" "}`, "structured_outputs.whitespace_pattern", "guided"},
		{"none", `"structured_outputs":{}`, "structured_outputs", "guided"},
	} {
		request, err := DecodeChat([]byte(withUser(c.more)), &small)
		if err == nil {
			err = request.Validate(&small)
		}
		fault, ok := errors.AsType[*Error](err)
		if !ok || fault.Param != c.param || !strings.HasPrefix(fault.Error(), c.param) || (c.other != "" && strings.Contains(fault.Error(), c.other)) {
			t.Errorf("%s: %v, expected one of %s that does not say %q", c.name, err, c.param, c.other)
		}
	}
}
