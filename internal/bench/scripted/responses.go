package scripted

import (
	"fmt"
	"strconv"
	"time"
)

// The events of the Responses API (api.md 3.3): an answer is an item with reasoning, if
// it has any, and one with a message.

// say appends an event; members are those behind its type and number.
func (s *stream) say(k *ink, kind string, members []byte, now time.Duration) {
	s.open(k, kind)
	b := append(k.event, `{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","sequence_number":`...)
	b = strconv.AppendInt(b, int64(s.seq), 10)
	s.seq++
	k.event = append(b, members...)
	s.stampAndClose(k, now)
}

// begin puts the events that come with the head of the answer.
func (s *stream) begin(k *ink, now time.Duration) {
	object := s.object("in_progress", "", "null")
	s.say(k, "response.created", object, now)
	s.say(k, "response.in_progress", object, now)
}

// object is the member response.
func (s *stream) object(status, output, usage string) []byte {
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

func (s *stream) responseChunk(k *ink, n int, last bool, now time.Duration) {
	thinking := s.sent < s.thinking
	it := &s.items[1]
	if thinking {
		it = &s.items[0]
	}
	if n > 0 {
		if s.sent == 0 || s.sent == s.thinking {
			s.openItem(k, it, now)
		}
		b := append(k.part[:0], `,"item_id":"`...)
		b = append(b, it.id...)
		b = member(b, `","output_index":`, it.index)
		b = append(b, `,"content_index":0,"delta":"`...)
		b = s.text(b, s.sent, s.sent+n)
		k.part = append(b, '"')
		s.say(k, it.delta, k.part, now)
		s.sent += n
		s.sentAt(now, n)
		if last || s.sent == s.thinking {
			s.closeItem(k, it, s.itemText(thinking), now)
		}
	}
	if last {
		s.terminate(k, now)
	}
}

// itemText is the inside of the JSON string with the text of an item.
func (s *stream) itemText(thinking bool) string {
	if thinking {
		return string(s.text(nil, 0, min(s.sent, s.thinking)))
	}
	return string(s.text(nil, min(s.thinking, s.sent), s.sent))
}

func (s *stream) openItem(k *ink, it *item, now time.Duration) {
	s.say(k, "response.output_item.added", fmt.Appendf(nil, `,"output_index":%d,"item":{"id":"%s","status":"in_progress",%s,"content":[]}`,
		it.index, it.id, it.fields), now)
	s.say(k, "response.content_part.added", fmt.Appendf(nil, `,"item_id":"%s","output_index":%d,"content_index":0,"part":{%s,"text":""}`,
		it.id, it.index, it.part), now)
}

func (s *stream) closeItem(k *ink, it *item, text string, now time.Duration) {
	where := fmt.Sprintf(`,"item_id":"%s","output_index":%d,"content_index":0`, it.id, it.index)
	s.say(k, it.done, fmt.Appendf(nil, `%s,"text":"%s"`, where, text), now)
	s.say(k, "response.content_part.done", fmt.Appendf(nil, `%s,"part":{%s,"text":"%s"}`, where, it.part, text), now)
	s.say(k, "response.output_item.done", fmt.Appendf(nil, `,"output_index":%d,"item":%s`, it.index, it.full(text)), now)
}

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

func (s *stream) responseUsage() string {
	u := s.counts()
	return fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`,
		u.Prompt, u.Cached, u.Completion, u.Reasoning, u.Prompt+u.Completion)
}

// terminate puts the last event. vLLM says completed of every answer, others say
// incomplete of one that its length ended.
func (s *stream) terminate(k *ink, now time.Duration) {
	usage := "null"
	if !s.shape.NoUsage {
		usage = s.responseUsage()
	}
	s.say(k, "response."+s.status(), s.object(s.status(), s.output(), usage), now)
}

func (s *stream) status() string {
	if s.reason() == "length" && s.shape.Dialect == "ossian" {
		return "incomplete"
	}
	return "completed"
}
