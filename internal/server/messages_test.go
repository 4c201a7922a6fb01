package server

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"ossian/internal/runner"
)

const (
	version  = "Anthropic-Version"
	askHi    = `"max_tokens":200,"messages":[{"role":"user","content":"Hi"}]`
	askTools = `"tools":[{"name":"get_weather","description":"Weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]`
	shown    = `"thinking":{"type":"enabled","budget_tokens":1024}`
)

// replay puts the events of a stream together as clients do, and holds their order to the API's.
func replay(t *testing.T, stream string) object {
	t.Helper()
	var message object
	var content []any
	text, open := "", false
	for e := range strings.SplitSeq(strings.TrimSpace(stream), "\n\n") {
		name, data, ok := strings.Cut(e, "\ndata: ")
		if !ok {
			continue // a comment
		}
		fields := parsed(t, data)
		kind, _ := fields["type"].(string)
		if name != "event: "+kind || (message == nil) != (kind == "message_start") {
			t.Fatalf("event %q, after %v", e, message)
		}
		if index, has := fields["index"].(float64); has && (int(index) != len(content)-1+map[bool]int{true: 1}[kind == "content_block_start"] || open == (kind == "content_block_start")) {
			t.Fatalf("event %q with %d blocks, open %t", e, len(content), open)
		}
		switch kind {
		case "message_start":
			message = fields["message"].(object)
		case "content_block_start":
			content, text, open = append(content, fields["content_block"]), "", true
		case "content_block_delta":
			block, delta := content[len(content)-1].(object), fields["delta"].(object)
			for _, member := range []string{"text", "thinking", "signature"} {
				if more, ok := delta[member].(string); ok {
					block[member] = block[member].(string) + more
				}
			}
			if more, ok := delta["partial_json"].(string); ok {
				text += more
			}
		case "content_block_stop":
			open = false
			if block := content[len(content)-1].(object); block["type"] == "tool_use" && text != "" {
				block["input"] = parsed(t, text)
			}
		case "message_delta":
			for member, value := range fields["delta"].(object) {
				message[member] = value
			}
			message["usage"] = fields["usage"]
		case "message_stop":
			message["content"] = content
			return message
		default:
			t.Fatalf("event %q", e)
		}
	}
	t.Fatalf("no end: %s", stream)
	return nil
}

// TestMessages: the message as a whole, and that of its events, is what the model said.
func TestMessages(t *testing.T) {
	thought := object{"type": "thinking", "thinking": "Let me think.", "signature": "unsigned"}
	text := func(s string) object { return object{"type": "text", "text": s} }
	call := func(input object) object {
		return object{"type": "tool_use", "id": "", "name": "get_weather", "input": input}
	}
	for _, c := range []struct {
		name, reply, more string
		content           []any
		reason, stopped   string
	}{
		{"text", hello, ``, []any{text("Hello, wörld 🌍!")}, "end_turn", ""},
		{"thinking", hello, `,` + shown, []any{thought, text("Hello, wörld 🌍!")}, "end_turn", ""},
		{"call", calls, `,` + askTools, []any{text("I look it up."), call(object{"city": "Paris"})}, "tool_use", ""},
		{"call behind thinking", calls, `,` + shown + `,` + askTools, []any{thought, text("I look it up."), call(object{"city": "Paris"})}, "tool_use", ""},
		{"call that is asked for", calls, `,` + askTools + `,"tool_choice":{"type":"tool","name":"get_weather"}`, []any{text("I look it up."), call(object{"city": "Paris"})}, "tool_use", ""},
		{"stop sequence", hello, `,"stop_sequences":["wör"]`, []any{text("Hello, ")}, "stop_sequence", "wör"},
	} {
		g := start(t, setup{reply: c.reply})
		whole := parsed(t, g.post("/v1/messages", `{"model":"","stream":false,`+askHi+c.more+`}`, version, "2023-06-01").body)
		streamed := replay(t, g.post("/v1/messages", `{"stream":true,`+askHi+c.more+`}`).body)
		for _, message := range []object{whole, streamed} {
			if !strings.HasPrefix(message["id"].(string), "msg_") || message["type"] != "message" || message["role"] != "assistant" || message["model"] != g.s.host.Names()[0] {
				t.Errorf("%s: head %v", c.name, message)
			}
			for _, block := range message["content"].([]any) {
				if id, ok := block.(object)["id"].(string); ok {
					if !strings.HasPrefix(id, "toolu_") {
						t.Errorf("%s: %v", c.name, block)
					}
					block.(object)["id"] = ""
				}
			}
			stopped, _ := message["stop_sequence"].(string)
			if !reflect.DeepEqual(message["content"], any(c.content)) || message["stop_reason"] != c.reason || stopped != c.stopped {
				t.Errorf("%s: %v, want %v %s %q", c.name, message, c.content, c.reason, c.stopped)
			}
		}
		// What the prefix cache has shows in the second; together they are the same prompt.
		if total := func(m object) float64 {
			u := m["usage"].(object)
			return u["input_tokens"].(float64) + u["cache_read_input_tokens"].(float64) + u["cache_creation_input_tokens"].(float64)
		}; total(whole) != total(streamed) || at(whole, "usage", "output_tokens") != at(streamed, "usage", "output_tokens") {
			t.Errorf("%s: usage %v and %v", c.name, whole["usage"], streamed["usage"])
		}
	}
}

// TestMessagesCut: an answer that max_tokens cuts says so, and a call that is half is kept in a form that
// can be sent back.
func TestMessagesCut(t *testing.T) {
	g := start(t, setup{reply: calls})
	ids := len(said(calls))
	for n := 1; n < ids; n++ {
		body := fmt.Sprintf(`{"max_tokens":%d,"messages":[{"role":"user","content":"Hi"}],%s,%s}`, n, askTools, shown)
		r := g.post("/v1/messages", body)
		message := parsed(t, r.body)
		if message["stop_reason"] != "max_tokens" || at(message, "usage", "output_tokens") != float64(n) {
			t.Fatalf("%d tokens: %s", n, r.body)
		}
		content, err := json.Marshal(message["content"])
		if err != nil {
			t.Fatal(err)
		}
		if len(message["content"].([]any)) == 0 {
			continue
		}
		back := g.post("/v1/messages/count_tokens", `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":`+string(content)+`}]}`)
		if back.status != 200 {
			t.Errorf("%d tokens, sent back: %s", n, back.body)
		}
	}
}

// TestMessagesPrompt: a conversation has the same ids by the API of chats and by this one, and they
// are counted the same.
func TestMessagesPrompt(t *testing.T) {
	var prompts [][]int32
	g := start(t, setup{reply: hello, launch: func(_ int, b *runner.Batch) {
		if len(b.Tokens) > 8 {
			prompts = append(prompts, append([]int32(nil), b.Tokens...))
		}
	}})
	chats := `{"reasoning_effort":"high","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Weather in <|end|> Paris?"},` +
		`{"role":"assistant","content":"I look.","reasoning":"hm","tool_calls":[{"id":"t1","type":"function","function":{"name":"get_weather","arguments":"{\"city\": \"Paris\"}"}}]},` +
		`{"role":"tool","tool_call_id":"t1","content":"sunny"},{"role":"user","content":[{"type":"text","text":"And"},{"type":"text","text":"Rome?"}]}],` + tools
	here := `{"output_config":{"effort":"high"},"system":[{"type":"text","text":"x-anthropic-billing-header: cc=%d;"},{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":"Weather in <|end|> Paris?"},` +
		`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"get_weather","input":{"city": "Paris"}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"sunny"},{"type":"text","text":"And"},{"type":"text","text":"Rome?"}]}],` + askTools
	if r := g.post("/v1/chat/completions", chats+`,"cache_salt":"a"}`); r.status != 200 {
		t.Fatal(r.body)
	}
	first := fmt.Sprintf(here, 1)
	if r := g.post("/v1/messages", first+`,"max_tokens":200,"cache_salt":"b"}`); r.status != 200 {
		t.Fatal(r.body)
	}
	g.idle()
	if len(prompts) != 2 || !reflect.DeepEqual(prompts[0], prompts[1]) {
		t.Fatalf("%d prompts: %v", len(prompts), prompts)
	}
	counted := parsed(t, g.post("/v1/messages/count_tokens", fmt.Sprintf(here, 2)+`}`).body)
	if counted["input_tokens"] != float64(len(prompts[0])) {
		t.Errorf("counted %v, want %d", counted, len(prompts[0]))
	}
}

// TestMessagesErrors: errors have the form and the statuses of this API, and name its members.
func TestMessagesErrors(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{Keys: []string{"secret"}}})
	key := []string{"X-Api-Key", "secret"}
	for _, c := range []struct {
		path, body   string
		header       []string
		status       int
		kind, phrase string
	}{
		{"/v1/messages", `{` + askHi + `}`, nil, 401, "authentication_error", "x-api-key"},
		{"/v1/messages", `{` + askHi + `}`, []string{"X-Api-Key", "wrong"}, 401, "authentication_error", "x-api-key"},
		{"/v1/messages", `{"model":"claude-x",` + askHi + `}`, key, 404, "not_found_error", "--served-model-name"},
		{"/v1/messages", `{"thread":{"type":"continue","previous_message_id":"msg_1"},` + askHi + `}`, key, 404, "not_found_error", "send all messages"},
		{"/v1/messages", `{"messages":[]`, key, 400, "invalid_request_error", "JSON"},
		{"/v1/messages", `{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}]}]}`, key, 400, "invalid_request_error", "messages[0].content[0]: image: this model reads text only"},
		{"/v1/messages", `{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"zz","content":"x"}]}]}`, key, 400, "invalid_request_error", "messages[0].content[0]"},
		{"/v1/messages/count_tokens", `{"messages":[{"role":"user"}]}`, key, 400, "invalid_request_error", "messages[0].content"},
		{"/v1/messages/batches", `{}`, key, 404, "not_found_error", "no such route"},
		{"/v1/nothing", `{}`, append([]string{version, "2023-06-01"}, key...), 404, "not_found_error", "no such route"},
	} {
		r := g.post(c.path, c.body, c.header...)
		failure, _ := parsed(t, r.body)["error"].(object)
		if r.status != c.status || failure["type"] != c.kind || !strings.Contains(failure["message"].(string), c.phrase) || parsed(t, r.body)["type"] != "error" || r.header.Get("Request-Id") == "" {
			t.Errorf("%s %s: %d %s, want %d %s …%s…", c.path, c.body, r.status, r.body, c.status, c.kind, c.phrase)
		}
	}
	if r := g.post("/v1/messages", `{`+askHi+`}`, key...); r.status != 200 {
		t.Errorf("x-api-key: %d %s", r.status, r.body)
	}
	if r := g.post("/v1/chat/completions", `{`+hi+`}`, key...); r.status != 401 {
		t.Errorf("x-api-key to another API: %d %s", r.status, r.body)
	}
	if r := g.post("/v1/messages", `{`+askHi+`}`, "Authorization", "Bearer secret", "X-Api-Key", "other"); r.status != 200 {
		t.Errorf("Authorization: %d %s", r.status, r.body)
	}
	list := parsed(t, g.do("GET", "/v1/models", "", append([]string{version, "2023-06-01"}, key...)...).body)
	if at(list, "data", 0, "type") != "model" || at(list, "data", 0, "id") != list["first_id"] || list["has_more"] != false {
		t.Errorf("models: %v", list)
	}
}

// TestMessagesFault: a stream that a fault cuts off ends with an error event.
func TestMessagesFault(t *testing.T) {
	g := start(t, setup{reply: hello, fault: func(step int) error {
		if step == 6 {
			return fmt.Errorf("planted")
		}
		return nil
	}})
	r := g.post("/v1/messages", `{"stream":true,`+askHi+`}`)
	events := strings.Split(strings.TrimSpace(r.body), "\n\n")
	if last := events[len(events)-1]; !strings.HasPrefix(last, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"") {
		t.Errorf("the last event is %q", last)
	}
}
