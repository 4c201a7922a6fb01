package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ossian/internal/chat"
)

// cityTool is a tool in Chat's form.
const cityTool = `{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}}`

// capabilities returns what the model's card says that it can do.
func capabilities(t *testing.T, g *rig) string {
	t.Helper()
	var card struct {
		Capabilities []string `json:"capabilities"`
	}
	if err := json.Unmarshal([]byte(g.do("GET", "/v1/models/test-model", "").body), &card); err != nil {
		t.Fatal(err)
	}
	return strings.Join(card.Capabilities, " ")
}

// A template that cannot show tools: the card says so, and a request with tools is refused
// with the member at fault, unless a call is a must. Then the answer is one, in a form that
// a grammar holds it to.
func TestToolsThatATemplateCannotShow(t *testing.T) {
	g := start(t, setup{reply: `{"name": "get_weather", "arguments": {"city": "Paris"}}<|return|>`, format: plainTemplate(t)})
	if got := capabilities(t, g); got != "completion chat" {
		t.Errorf("the card says %q", got)
	}
	for path, body := range map[string]string{
		"/v1/chat/completions": `{` + hi + `,"tools":[` + cityTool + `]}`,
		"/v1/responses":        `{"input":"Hi","tools":[{"type":"function","name":"get_weather","parameters":{"type":"object"}}]}`,
	} {
		wantError(t, g.post(path, body), 400, "invalid_request_error", "unsupported_parameter", "tools")
	}
	if r := g.post("/v1/chat/completions", `{`+hi+`,"tools":[`+cityTool+`],"tool_choice":"none"}`); r.status != 200 {
		t.Errorf("tools that must not be called: %d %s", r.status, r.body)
	}
	forced(t, g, "required", "tool_calls")
}

// A model of the Llama family calls without a marker. Its calls are told from text, and can
// be forced.
func TestLlamaCalls(t *testing.T) {
	format, err := chat.New(chat.Facts{Family: "llama", Tokenizer: harmony(), Stops: []int32{200_002},
		Template: `{% if tools %}Respond with JSON: {"name": function name, "parameters": dictionary of argument name and its value}. {{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}`})
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, setup{reply: `{"name": "get_weather", "parameters": {"city": "Paris"}}<|return|>`, format: format})
	if got := capabilities(t, g); got != "completion chat tools" {
		t.Errorf("the card says %q", got)
	}
	forced(t, g, "auto", "tool_calls")
	forced(t, g, "required", "tool_calls")
}

// forced asks for a call and compares it with the one that the model makes.
func forced(t *testing.T, g *rig, choice, finish string) {
	t.Helper()
	r := g.post("/v1/chat/completions", fmt.Sprintf(`{%s,"max_tokens":60,"tools":[%s],"tool_choice":%q}`, hi, cityTool, choice))
	var reply struct {
		Choices []struct {
			Finish  string `json:"finish_reason"`
			Message struct {
				Content *string
				Calls   []struct {
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
	}
	if err := json.Unmarshal([]byte(r.body), &reply); err != nil || len(reply.Choices) != 1 {
		t.Fatalf("%s: %d %s", choice, r.status, r.body)
	}
	one := reply.Choices[0]
	var arguments map[string]string
	if len(one.Message.Calls) != 1 || one.Message.Calls[0].Function.Name != "get_weather" || one.Finish != finish ||
		json.Unmarshal([]byte(one.Message.Calls[0].Function.Arguments), &arguments) != nil || arguments["city"] != "Paris" {
		t.Errorf("%s: %s", choice, r.body)
	}
}

// Without tools, form or budget an answer of gpt-oss is held to its headers all the same: a
// model that would end in nothing says something, and nothing has to be mended.
func TestPlainChatsAreHeld(t *testing.T) {
	for name, reply := range map[string]string{"an empty answer": "<|channel|>final<|message|><|return|>", "a call of nobody's tool": "<|channel|>commentary to=functions.zork<|message|>{}<|call|>"} {
		g := start(t, setup{reply: reply})
		for path, body := range map[string]string{"/v1/chat/completions": `{` + hi + `,"max_tokens":40}`, "/v1/responses": `{"input":"Hi","max_output_tokens":40}`} {
			if r := g.post(path, body); r.status != 200 || strings.Contains(r.body, `"empty_reason"`) {
				t.Errorf("%s: %s: %d %s", name, path, r.status, r.body)
			}
		}
		// An answer that is cut within its first header was not written wrongly either.
		if r := g.post("/v1/chat/completions", `{`+hi+`,"max_tokens":2}`); r.status != 200 {
			t.Errorf("%s, cut: %d %s", name, r.status, r.body)
		}
		g.unmended()
	}
}
