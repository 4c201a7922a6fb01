package scripted

import (
	"fmt"
	"strconv"
	"time"
)

// The events of the Responses API (api.md 3.3): an answer is an item with reasoning, if
// it has any, and one with a message.

// responseEvent appends an event; members are those behind its type and number.
func (s *stream) responseEvent(buf *eventBuffer, kind string, members []byte, now time.Duration) {
	s.openEvent(buf, kind)
	dst := append(buf.event, `{"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","sequence_number":`...)
	dst = strconv.AppendInt(dst, int64(s.seq), 10)
	s.seq++
	buf.event = append(dst, members...)
	s.stampAndCloseEvent(buf, now)
}

// beginResponse puts the events that come with the head of the answer.
func (s *stream) beginResponse(buf *eventBuffer, now time.Duration) {
	object := s.responseObject("in_progress", "", "null")
	s.responseEvent(buf, "response.created", object, now)
	s.responseEvent(buf, "response.in_progress", object, now)
}

// responseObject is the member response.
func (s *stream) responseObject(status, output, usage string) []byte {
	return fmt.Appendf(nil, `,"response":{"id":"resp_%s","object":"response","created_at":1767225600,"status":"%s","model":%s,"output":[%s],"usage":%s}`,
		s.id, status, s.model, output, usage)
}

// An item is one of the two of an answer.
type item struct {
	index  int
	id     string
	delta  string // event of a piece of its text
	done   string // event of its whole text
	fields string // members of the item besides id, status and content
	part   string // members of its content besides text
}

// makeItems fills in the items: the reasoning, the message.
func (s *stream) makeItems() {
	s.items = [2]item{
		{0, "rs_" + s.id, "response.reasoning_text.delta", "response.reasoning_text.done", `"type":"reasoning","summary":[]`, `"type":"reasoning_text"`},
		{min(s.thinking, 1), "msg_" + s.id, "response.output_text.delta", "response.output_text.done", `"type":"message","role":"assistant"`, `"type":"output_text","annotations":[]`},
	}
}

// responseChunk puts a piece of an answer, in the item that it belongs to; the first piece
// of an item opens it and the last one closes it.
func (s *stream) responseChunk(buf *eventBuffer, tokens int, last bool, now time.Duration) {
	thinking := s.sent < s.thinking
	item := &s.items[1]
	if thinking {
		item = &s.items[0]
	}
	if tokens > 0 { // no chunk has tokens of both items, see play
		if s.sent == 0 || s.sent == s.thinking {
			s.openItem(buf, item, now)
		}
		dst := append(buf.part[:0], `,"item_id":"`...)
		dst = append(dst, item.id...)
		dst = appendMember(dst, `","output_index":`, item.index)
		dst = append(dst, `,"content_index":0,"delta":"`...)
		dst = s.appendText(dst, s.sent, s.sent+tokens)
		buf.part = append(dst, '"')
		s.responseEvent(buf, item.delta, buf.part, now)
		s.sent += tokens
		s.recordSend(now, tokens)
		if last || s.sent == s.thinking {
			s.closeItem(buf, item, s.itemText(thinking), now)
		}
	}
	if last {
		s.endResponse(buf, now)
	}
}

// itemText is the inside of the JSON string with the text of an item.
func (s *stream) itemText(thinking bool) string {
	if thinking {
		return string(s.appendText(nil, 0, min(s.sent, s.thinking)))
	}
	return string(s.appendText(nil, min(s.thinking, s.sent), s.sent))
}

// openItem puts the events before the first piece of an item.
func (s *stream) openItem(buf *eventBuffer, it *item, now time.Duration) {
	s.responseEvent(buf, "response.output_item.added", fmt.Appendf(nil, `,"output_index":%d,"item":{"id":"%s","status":"in_progress",%s,"content":[]}`,
		it.index, it.id, it.fields), now)
	s.responseEvent(buf, "response.content_part.added", fmt.Appendf(nil, `,"item_id":"%s","output_index":%d,"content_index":0,"part":{%s,"text":""}`,
		it.id, it.index, it.part), now)
}

// closeItem puts the events behind its last piece, which repeat its text.
func (s *stream) closeItem(buf *eventBuffer, it *item, text string, now time.Duration) {
	where := fmt.Sprintf(`,"item_id":"%s","output_index":%d,"content_index":0`, it.id, it.index)
	s.responseEvent(buf, it.done, fmt.Appendf(nil, `%s,"text":"%s"`, where, text), now)
	s.responseEvent(buf, "response.content_part.done", fmt.Appendf(nil, `%s,"part":{%s,"text":"%s"}`, where, it.part, text), now)
	s.responseEvent(buf, "response.output_item.done", fmt.Appendf(nil, `,"output_index":%d,"item":%s`, it.index, it.full(text)), now)
}

// full is an item that is complete.
func (it *item) full(text string) string {
	return fmt.Sprintf(`{"id":"%s","status":"completed",%s,"content":[{%s,"text":"%s"}]}`, it.id, it.fields, it.part, text)
}

// output are the items of a finished answer.
func (s *stream) output() string {
	var out string
	if s.thinking > 0 {
		out = s.items[0].full(s.itemText(true))
	}
	if s.sent > s.thinking {
		if out != "" {
			out += ","
		}
		out += s.items[1].full(s.itemText(false))
	}
	return out
}

// responseUsage is the member usage of the API.
func (s *stream) responseUsage() string {
	usage := s.usage()
	return fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`,
		usage.Prompt, usage.Cached, usage.Completion, usage.Reasoning, usage.Prompt+usage.Completion)
}

// endResponse puts the last event. vLLM says completed of every answer, others say
// incomplete of one that its length ended.
func (s *stream) endResponse(buf *eventBuffer, now time.Duration) {
	usage := "null"
	if !s.shape.NoUsage {
		usage = s.responseUsage()
	}
	s.responseEvent(buf, "response."+s.status(), s.responseObject(s.status(), s.output(), usage), now)
}

func (s *stream) status() string {
	if s.finishReason() == "length" && s.shape.Name == "ossian" {
		return "incomplete"
	}
	return "completed"
}
