package scripted

import (
	"fmt"
	"time"
)

// answer is the body of an answer that is not streamed.
func (s *stream) answer(now time.Duration) []byte {
	text := func(from, to int) string { return `"` + string(s.appendText(nil, from, to)) + `"` }
	if s.api == responses {
		object := s.responseObject(s.status(), s.output(), s.responseUsage())
		return fmt.Appendf(nil, `{%s,"sent_ns":%d}`, object[len(`,"response":{`):len(object)-1], now)
	}
	prefix, kind, body := "cmpl", "text_completion", `"text":`+text(0, s.sent)
	if s.api == chat {
		prefix, kind = "chatcmpl", "chat.completion"
		body = `"message":{"role":"assistant","content":` + text(s.thinking, s.sent)
		if s.thinking > 0 {
			body += `,"` + s.form.reasoning + `":` + text(0, s.thinking)
		}
		body += "}"
	}
	usage := "" // the member
	if !s.shape.NoUsage {
		usage = `,"usage":` + string(s.appendUsage(nil))
	}
	return fmt.Appendf(nil, `{"id":"%s-%s","object":"%s","created":1767225600,"model":%s,"choices":[{"index":0,%s,"logprobs":null,"finish_reason":%s}]%s,"sent_ns":%d}`,
		prefix, s.id, kind, s.model, body, quote(s.finishReason()), usage, now)
}
