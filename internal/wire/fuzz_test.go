package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"ossian/internal/limits"
)

// FuzzStream: whatever a text has in it, an event is one line of JSON.
func FuzzStream(f *testing.F) {
	f.Add("text\n\r\u2028")
	f.Fuzz(func(t *testing.T, text string) {
		s := NewChatStream(Head{ID: text, Model: text}, nil, FieldReasoning)
		out := s.Append([]byte(Ping), &Delta{Content: text}, nil)
		out = append(s.Append(out, &Delta{Reasoning: text, Finish: text}, nil), Done...)
		events := strings.Split(string(out), "\n\n")
		if len(events) != 5 || events[0] != ": ping" || events[3] != "data: [DONE]" || events[4] != "" {
			t.Fatalf("%q are events %q", out, events)
		}
		for _, e := range events[1:3] {
			if data, ok := strings.CutPrefix(e, "data: "); !ok || strings.ContainsAny(data, "\r\n") || !valid([]byte(data)) {
				t.Errorf("event %q", e)
			}
		}
	})
}

// FuzzDecode: any body gives a request or an *Error; a request encodes again to one
// that decodes to the same.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{``, `{}`, withUser(``), withUser(`"tools":[{"type":"function","function":{"name":"f","parameters":{"a":[1,{}]}}},{"type":"mcp"}],"tool_choice":"auto"`),
		`{"messages":[{"role":"assistant","content":[{"type":"refusal","refusal":"x"}],"tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}],"reasoning_details":[{"text":"a"}]}]}`,
		withUser(`"functions":[{"name":"f"}],"function_call":{"name":"f"},"logit_bias":{"1":2},"metadata":{"a":"b"},"stop":["a"]`),
		withUser(`"prediction":{"type":"content","content":[{"type":"text","text":"x"}]}`),
		withUser(`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}},"response_format":{"type":"structural_tag","triggers":[1]}`),
		withUser(`"guided_json":"{}","guided_choice":["a"],"stream_options":{"x":1},"reasoning":{"enabled":false},"seed":1e3`),
		withUser(`"functions":[{"name":"f"}],"tools":[{"type":"custom","custom":{"name":"a.b","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: A"}}}}],"tool_choice":{"type":"custom","custom":{"name":"a.b"}}`),
		`{"prompt":[[1,2],[3]],"logprobs":3,"echo":true,"max_tokens":0}`, `{"prompt":"a","n":1.0}`, `{"tokens":[1]}`, `{"a":[[[[]]]],"a":1}`, `{"messages":[{"role":"\ud800","content":"\u0000"}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		lim := limits.Defaults()
		lim[limits.JSONDepth] = 20
		r, err := DecodeChat(body, lim)
		sane(t, err)
		if err == nil {
			_ = r.Validate(lim)
			same(t, r, func(b []byte) (any, error) { return DecodeChat(b, lim) })
		}
		c, err := DecodeCompletion(body, lim)
		sane(t, err)
		if err == nil {
			valid := c.Validate(lim)
			sane(t, valid)
			if valid == nil {
				same(t, c, func(b []byte) (any, error) { return DecodeCompletion(b, lim) })
			}
		}
		_, err = DecodeDetokenize(body, lim)
		sane(t, err)
	})
}

// sane requires an *Error whose body is one line of JSON of bounded length.
func sane(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Type != TypeInvalidRequest || e.Code == "" || len(e.Param) > 20000 || len(e.Message) > 1000 {
		t.Fatalf("error %+v", err)
	}
	if body := AppendError(nil, e); !valid(body) || bytes.ContainsAny(body, "\r\n") {
		t.Fatalf("error body %q", body)
	}
}

func same(t *testing.T, r any, decode func([]byte) (any, error)) {
	t.Helper()
	first := encoded(t, r)
	again, err := decode([]byte(first))
	if err != nil {
		t.Fatalf("%s: %v", first, err)
	}
	if second := encoded(t, again); second != first {
		t.Fatalf("first  %s\nsecond %s", first, second)
	}
}
