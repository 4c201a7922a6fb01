package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An answer that is to be continued cannot become a call: the choice of tools is at fault, by
// the name that it came with, however many messages there are.
func TestContinuedCall(t *testing.T) {
	t.Parallel()
	g := start(t, setup{reply: hello})
	defer g.idle()
	const tools = `"tools":[{"type":"function","function":{"name":"look"}}],"tool_choice":`
	const functions = `"functions":[{"name":"look"}],"function_call":`
	for _, tt := range []struct{ choice, param string }{
		{tools + `"required"`, "tool_choice"},
		{tools + `{"type":"function","function":{"name":"look"}}`, "tool_choice"},
		{functions + `{"name":"look"}`, "function_call"},
	} {
		for _, before := range []int{0, 1, 3} {
			earlier := strings.Repeat(`{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"},`, before)
			body := fmt.Sprintf(`{"messages":[%s{"role":"user","content":"Hi"},{"role":"assistant","content":"The"}],"continue_final_message":true,"add_generation_prompt":false,%s}`, earlier, tt.choice)
			r := g.post("/v1/chat/completions", body)
			wantError(t, r, http.StatusBadRequest, "invalid_request_error", "unsupported_parameter", tt.param)
			if !strings.Contains(r.body, "to be continued") || strings.Contains(r.body, "messages[") {
				t.Errorf("%s", r.body)
			}
		}
	}
}
