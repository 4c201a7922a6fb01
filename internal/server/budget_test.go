package server

import (
	"fmt"
	"strings"
	"testing"
)

// A budget of reasoning ends it, whole and streamed, in chat and in Responses, and the
// ids that are forced count as output.
func TestBudget(t *testing.T) {
	t.Parallel()
	begin := said("<|channel|>analysis<|message|>" + strings.Repeat(" on", 40))
	g := start(t, inMemory(t, setup{next: jabber(begin)}))
	const header = 3 // <|channel|>analysis<|message|>
	for _, budget := range []string{`"thinking_token_budget":7`, `"thinking_budget":7`, `"reasoning":{"max_tokens":7}`, `"chat_template_kwargs":{"thinking_budget":7}`} {
		for _, more := range []string{"", `,"n":3`, `,"include_reasoning":false`, `,"logprobs":true,"top_logprobs":2`} {
			tr := g.ask("/v1/chat/completions", `{`+hi+`,"max_tokens":30,"return_token_ids":true,`+budget+more+`}`)
			n := 1
			if strings.Contains(more, `"n"`) {
				n = 3
			}
			for _, c := range tr.choices[:n] {
				want := append(begin[:header+7:header+7], said("<|end|><|start|>assistant<|channel|>final<|message|>")...)
				if len(c.IDs) != 30 || fmt.Sprint(c.IDs[:len(want)]) != fmt.Sprint(want) || c.Content == "" {
					t.Errorf("%s%s: %+v, want ids %v", budget, more, c, want)
				}
				if text := strings.Repeat(" on", 7); c.Reasoning != text && !strings.Contains(more, "include") {
					t.Errorf("%s%s: reasoning %q, want %q", budget, more, c.Reasoning, text)
				}
			}
			if got, want := tr.usage.Details.Reasoning, n*(header+7+1); got != want || tr.usage.Completion != 30*n {
				t.Errorf("%s%s: usage %+v, want %d of reasoning", budget, more, tr.usage, want)
			}
		}
	}
	for _, budget := range []string{`"thinking_token_budget":7`, `"thinking_budget":7`, `"reasoning":{"max_tokens":7}`} {
		body := `{"input":"Hi","max_output_tokens":30,` + budget
		r := responded(t, g.post("/v1/responses", body+`}`))
		s := fold(t, streamed(t, g.post("/v1/responses", body+`,"stream":true}`)))
		b := g.await(responded(t, g.post("/v1/responses", body+`,"background":true}`))["id"].(string), "incomplete")
		for _, r := range []object{r, s, b} {
			if text := at(r, "output", 0, "content", 0, "text"); text != strings.Repeat(" on", 7) || at(r, "output", 1, "type") != "message" ||
				at(r, "usage", "output_tokens_details", "reasoning_tokens") != float64(header+7+1) || at(r, "usage", "output_tokens") != 30.0 {
				t.Errorf("%s: %v", budget, r)
			}
		}
	}
	wantError(t, g.post("/v1/responses", `{"input":"Hi","thinking_token_budget":-1}`), 400, "invalid_request_error", "invalid_value", "thinking_token_budget")
	wantError(t, g.post("/v1/responses", `{"input":"Hi","reasoning":{"max_tokens":-1}}`), 400, "invalid_request_error", "invalid_value", "reasoning.max_tokens")
}

// A budget goes together with forms, calls and stops, and who reasons less than that is
// not held up.
func TestBudgetWithForms(t *testing.T) {
	t.Parallel()
	long := said("<|channel|>analysis<|message|>" + strings.Repeat(" on", 40))
	g, short := start(t, setup{next: jabber(long)}), start(t, setup{reply: hello})
	for _, f := range forms(t) {
		tr := g.ask("/v1/chat/completions", `{`+hi+`,"max_tokens":300,"thinking_token_budget":5,`+f.body+`}`)
		if c := tr.choices[0]; f.valid(c.Content) != nil || c.Finish != "stop" || c.Reasoning != " on on on on on" {
			t.Errorf("%s: %+v: %v", f.name, c, f.valid(c.Content))
		}
	}
	valid := judge(t, weather)
	for _, choice := range []string{`"required"`, `{"type":"function","function":{"name":"get_weather"}}`} {
		tr := g.ask("/v1/chat/completions", `{`+hi+`,"max_tokens":300,"thinking_token_budget":5,"tools":[`+strictTool+`],"tool_choice":`+choice+`}`)
		if c := tr.choices[0]; len(c.Calls) != 1 || valid(strings.TrimPrefix(c.Calls[0], "get_weather(")) != nil || c.Reasoning != " on on on on on" {
			t.Errorf("%s: %+v", choice, c)
		}
	}
	free := short.ask("/v1/chat/completions", `{`+hi+`,"return_token_ids":true}`)
	held := short.ask("/v1/chat/completions", `{`+hi+`,"return_token_ids":true,"thinking_token_budget":100}`)
	if fmt.Sprint(free.choices) != fmt.Sprint(held.choices) {
		t.Errorf("a budget that is not used up changes %+v to %+v", free.choices, held.choices)
	}
}

// An effort of none leaves no way to reason, whatever else is asked for.
func TestEffortNone(t *testing.T) {
	t.Parallel()
	begin := said("<|channel|>analysis<|message|>Let me think.<|end|><|start|>assistant")
	g := start(t, inMemory(t, setup{next: jabber(begin)}))
	for _, more := range []string{"", `,"tools":[` + looseTool + `]`, `,"tools":[` + strictTool + `],"tool_choice":"required"`, `,"tools":[` + strictTool + `],"tool_choice":"none"`, `,` + forms(t)[0].body} {
		tr := g.ask("/v1/chat/completions", `{`+hi+`,"max_tokens":200,"reasoning_effort":"none"`+more+`}`)
		if c := tr.choices[0]; c.Reasoning != "" || tr.usage.Details.Reasoning != 0 || (c.Content == "" && len(c.Calls) == 0) {
			t.Errorf("%s: %+v, %+v", more, c, tr.usage)
		}
	}
	for _, more := range []string{"", `,` + flat, `,"text":{"format":{"type":"json_object"}}`} {
		r := responded(t, g.post("/v1/responses", `{"input":"Hi","max_output_tokens":200,"reasoning":{"effort":"none"}`+more+`}`))
		if at(r, "output", 0, "type") == "reasoning" || at(r, "usage", "output_tokens_details", "reasoning_tokens") != 0.0 {
			t.Errorf("%s: %v", more, r)
		}
	}
}
