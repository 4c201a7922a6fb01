package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
)

const (
	maxEvent = 64 << 20 // bytes of one event; ours end at 32 MiB (api.md 1.4)
	maxEarly = 64 << 10 // bytes up to which an event without its end is looked at
	maxError = 300      // bytes of a server's message that are kept
)

// A stream reads server-sent events into a sample, as the Python client reads them
// (bench.md 1.5), byte by byte instead of text by text: a message is taken as soon as
// its JSON is complete, be its line ended or not.
type stream struct {
	s         *Sample
	live      *Live
	began     time.Time // of the run
	responses bool      // the events of Responses

	read time.Duration // when the bytes at hand were read, since the run began
	lag  time.Duration // how long before that the kernel had them; -1 = not known

	line    []byte // of a line that has not ended
	data    []byte // data lines of an event whose JSON is not complete
	ev      event
	text    []byte
	thought []byte
	counted int    // running usage: completion tokens so far; -1 = the server sends none
	chunks  int    // with choices
	fault   string // what the server said instead of going on

	completed bool // Responses: it said so
}

// reset makes st ready for another sample; its buffers stay.
func (st *stream) reset(s *Sample, live *Live, began time.Time, responses bool) {
	*st = stream{s: s, live: live, began: began, responses: responses, lag: -1, counted: -1,
		line: st.line[:0], data: st.data[:0], ev: st.ev, text: st.text[:0], thought: st.thought[:0]}
}

// feed takes in bytes of the body. It fails if an event is not JSON.
func (st *stream) feed(p []byte) error {
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		line := p[:i]
		p = p[i+1:]
		if len(st.line) > 0 {
			st.line = append(st.line, line...)
			line = st.line
		}
		err := st.handle(bytes.TrimSuffix(line, []byte("\r")))
		st.line = st.line[:0]
		if err != nil {
			return err
		}
	}
	if len(st.line)+len(st.data)+len(p) > maxEvent {
		return fmt.Errorf("event %d of the stream has more than %d bytes", len(st.s.Chunks), maxEvent)
	}
	st.line = append(st.line, p...)
	return st.early()
}

// early takes the message in a line that has not ended, if it is complete.
func (st *stream) early() error {
	data, ok := bytes.CutPrefix(st.line, []byte("data:"))
	if !ok || len(data) > maxEarly || len(st.data) > 0 {
		return nil
	}
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return nil
	}
	if string(data) != "[DONE]" && (data[len(data)-1] != '}' || st.ev.parse(data) != whole) {
		return nil
	}
	err := st.message(data, false)
	st.line = st.line[:0]
	return err
}

// handle takes in one line, without its end.
func (st *stream) handle(line []byte) error {
	if len(line) == 0 { // ends an event
		if len(st.data) == 0 {
			return nil
		}
		err := st.message(st.data, true)
		st.data = st.data[:0]
		return err
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch string(name) {
	case "data":
		if len(st.data) > 0 {
			st.data = append(append(st.data, '\n'), value...)
			return nil
		}
		if len(value) > 0 {
			return st.message(value, false)
		}
	case "error": // llama.cpp before late 2025
		st.blame(value)
	}
	return nil // a comment, or a field that says nothing here
}

// message handles what data lines held. If the JSON is not complete and this is not
// the end of the event, it keeps it for the lines to come.
func (st *stream) message(data []byte, end bool) error {
	if string(data) == "[DONE]" {
		st.add(Done, -1)
		return nil
	}
	switch v := st.ev.parse(data); {
	case v == cut && !end:
		st.data = append(st.data, data...)
		return nil
	case v != whole:
		return fmt.Errorf("event %d of the stream is not JSON: %s", len(st.s.Chunks), brief(data))
	}
	if st.responses {
		st.response(data)
	} else {
		st.completion()
	}
	return nil
}

// blame remembers the first error that the server reports.
func (st *stream) blame(message []byte) {
	if st.fault == "" {
		st.fault = "error in the stream: " + brief(message)
	}
}

// completion handles an event of completions or of chat.
func (st *stream) completion() {
	ev := &st.ev
	kind, tokens := Kind(0), -1
	if ev.choices {
		kind = Choices
		tokens = ev.ids
		if ev.output() {
			kind |= Output
		}
		st.texts(&kind, ev.visible(), ev.thought())
		if len(ev.finish) > 0 {
			st.s.Finish = string(ev.finish)
		}
	}
	if ev.usage {
		kind |= Usage
		st.s.Counts = ev.counts
		tokens = st.running(tokens)
	}
	if ev.fault != nil {
		st.blame(ev.fault)
	}
	st.add(kind, tokens)
}

// running turns usage that comes with every chunk into tokens of this one. Usage that
// only the last chunk has is of all of them, so it counts from the first on or not at
// all.
func (st *stream) running(tokens int) int {
	total := st.ev.counts.Completion
	if !st.ev.choices || total < 0 || (st.chunks > 0 && st.counted < 0) {
		return tokens
	}
	if tokens < 0 {
		tokens = max(total-max(st.counted, 0), 0)
	}
	st.counted = total
	return tokens
}

// response handles an event of Responses.
func (st *stream) response(data []byte) {
	ev := &st.ev
	kind := Kind(0)
	switch string(ev.kind) {
	case "response.output_text.delta":
		kind = Choices | Output
		st.texts(&kind, ev.delta, nil)
	case "response.reasoning_text.delta":
		kind = Choices | Output
		st.texts(&kind, nil, ev.delta)
	case "response.completed", "response.incomplete":
		kind, st.completed = Done, true
		st.s.Finish = string(ev.finish)
	case "response.failed", "error":
		st.blame(data)
	}
	if ev.usage {
		kind |= Usage
		st.s.Counts = ev.counts
	}
	if ev.fault != nil {
		st.blame(ev.fault)
	}
	st.add(kind, -1)
}

// texts adds to the texts of the sample and marks kind with what there was.
func (st *stream) texts(kind *Kind, visible, thought []byte) {
	if len(visible) > 0 {
		*kind |= Text
		st.text = append(st.text, visible...)
	}
	if len(thought) > 0 {
		*kind |= Reasoning
		st.thought = append(st.thought, thought...)
	}
}

// add records an event that has just been handled.
func (st *stream) add(kind Kind, tokens int) {
	s, handled := st.s, time.Since(st.began)
	c := Chunk{At: handled, Lag: -1, Tokens: int16(min(tokens, math.MaxInt16)), Kind: kind}
	if st.lag >= 0 {
		// The first events may come without a time of the kernel, and then one may have
		// been handled after the next was received.
		c.At = max(st.read-st.lag, s.Sent)
		if n := len(s.Chunks); n > 0 {
			c.At = max(c.At, s.Chunks[n-1].At)
		}
		c.Lag = int32(min(handled-c.At, math.MaxInt32))
	}
	if s.Chunks == nil {
		s.Chunks = make([]Chunk, 0, min(s.Asked, 1000)+4)
	}
	if kind&Choices != 0 {
		if st.chunks == 0 {
			st.live.First.Add(1)
			st.live.FirstTime.Add(int64(c.At - s.Sent))
		}
		st.chunks++
	}
	s.Chunks = append(s.Chunks, c)
	switch {
	case tokens >= 0:
		st.live.Tokens.Add(int64(tokens))
	case kind&(Text|Reasoning) != 0:
		st.live.Tokens.Add(1)
	}
}

// end takes in what is left when the body has ended: a line or an event without its end.
func (st *stream) end() error {
	if err := st.handle(bytes.TrimSuffix(st.line, []byte("\r"))); err != nil || len(st.line) == 0 {
		return err
	}
	return st.handle(nil)
}

// finish gives the sample its texts and returns the server's complaint, or "".
func (st *stream) finish() string {
	st.s.Text, st.s.Thought = string(st.text), string(st.thought)
	return st.fault
}

// brief cuts a server's message to a length that fits a report.
func brief(b []byte) string {
	return strings.ToValidUTF8(string(b[:min(len(b), maxError)]), "\uFFFD")
}

// OneLine returns what a server has said without what would steer a terminal.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// document handles a response that is no stream: one chunk holds all of it.
func (st *stream) document(body []byte) error {
	ev := &st.ev
	if ev.parse(body) != whole {
		return fmt.Errorf("the response is not JSON: %s", brief(body))
	}
	if st.responses {
		visible, thought, err := outputTexts(body)
		if err != nil {
			return fmt.Errorf("the response is not of Responses: %w", err)
		}
		ev.choices = len(visible)+len(thought) > 0
		ev.text, ev.thoughts[0] = append(ev.text, visible...), append(ev.thoughts[0], thought...)
	}
	st.completion()
	if st.responses {
		st.completed = true
	}
	return nil
}

// outputTexts returns the visible text and the reasoning of a response of Responses.
func outputTexts(body []byte) (visible, thought string, err error) {
	var r struct {
		Output []struct {
			Content []struct{ Type, Text string }
		}
	}
	err = json.Unmarshal(body, &r)
	for _, item := range r.Output {
		for _, c := range item.Content {
			if c.Type == "output_text" {
				visible += c.Text
			} else {
				thought += c.Text
			}
		}
	}
	return visible, thought, err
}
