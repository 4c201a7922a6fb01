package server

import (
	"fmt"
	"net/http"
	"slices"
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

// A response that goes on with what the assistant said last begins with the very prompt of the chat
// that does, for text and for reasoning alone, and has only what is added.
func TestContinuedResponse(t *testing.T) {
	t.Parallel()
	var played stage
	g := start(t, setup{next: played.next(" upon<|return|>")})
	defer g.idle()
	played.took() // of the first step, which tries the runner
	const reasoning = `{"type":"reasoning","content":[{"type":"reasoning_text","text":"A tale."}],"summary":[],"status":"incomplete"}`
	const message = `{"type":"message","role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"Once"}]}`
	for _, tt := range []struct{ name, items, said, kind string }{
		{"text", message, `"content":"Once"`, "message"},
		{"text behind reasoning", reasoning + "," + message, `"content":"Once","reasoning_content":"A tale."`, "message"},
		{"reasoning", reasoning, `"content":"","reasoning_content":"A tale."`, "reasoning"},
	} {
		made := responded(t, g.post("/v1/responses", `{"store":false,"cache_salt":"a`+tt.name+`","input":[{"role":"user","content":"Hi"},`+tt.items+`],"continue_final_message":true}`))
		again := g.post("/v1/chat/completions", `{"cache_salt":"b`+tt.name+`","messages":[{"role":"user","content":"Hi"},{"role":"assistant",`+tt.said+`}],"continue_final_message":true}`)
		prompts := played.took()
		if again.status != http.StatusOK || len(prompts) != 2 || !slices.Equal(prompts[0], prompts[1]) {
			t.Errorf("%s: %s, prompts %v", tt.name, again.body, prompts)
		}
		if at(made, "output", 0, "type") != tt.kind || at(made, "output", 0, "content", 0, "text") != " upon" {
			t.Errorf("%s: %v", tt.name, made["output"])
		}
	}
	r := g.post("/v1/responses", `{"input":[{"role":"assistant","content":"Ho"},{"role":"user","content":"Hi"}],"continue_final_message":true}`)
	wantError(t, r, http.StatusBadRequest, "invalid_request_error", "invalid_value", "input[1]")
}
