package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"ossian/internal/bench/jsonfile"
)

const (
	maxEvent = 64 << 20 // bytes of one event; ours end at 32 MiB (api.md 1.4)
	maxEarly = 64 << 10 // bytes up to which an event without its end is looked at
	maxError = 300      // bytes of a server's message that are kept
	maxNoted = 64       // bytes of a word of the server's that is kept, such as finish_reason
	// maxStream is how many bytes all events of one answer have at most: 100,000 tokens with 20
	// log probabilities each are a quarter of it.
	maxStream = 1 << 30
	maxEvents = 1 << 22 // of one answer: each takes memory, however short it is
)

// A stream reads server-sent events into a sample, as the Python client reads them
// (bench.md 1.5), byte by byte instead of text by text: a message is taken as soon as
// its JSON is complete, be its line ended or not.
type stream struct {
	sample    *Sample
	live      *Live
	began     time.Time // of the run
	responses bool      // the events of Responses

	readAt time.Duration // when the bytes at hand were read, since the run began
	lag    time.Duration // how long before that the kernel had them; -1 = not known

	line         []byte // of a line that has not ended
	data         []byte // data lines of an event whose JSON is not complete
	event        event
	text         []byte
	thought      []byte
	runningTotal int    // running usage: completion tokens so far; -1 = the server sends none
	chunks       int    // with choices
	fault        string // what the server said instead of going on

	saidCompleted bool // Responses: the response was said to be complete
}

// reset makes st ready for another sample; its buffers stay.
func (st *stream) reset(s *Sample, live *Live, began time.Time, responses bool) {
	*st = stream{sample: s, live: live, began: began, responses: responses, lag: -1, runningTotal: -1,
		line: st.line[:0], data: st.data[:0], event: st.event, text: st.text[:0], thought: st.thought[:0]}
}

// feed takes in bytes of the body. It fails if an event is not JSON.
func (st *stream) feed(part []byte) error {
	for {
		end := bytes.IndexByte(part, '\n')
		if end < 0 {
			break
		}
		line := part[:end] // without a copy, where it came in one piece
		part = part[end+1:]
		if len(st.line) > 0 {
			st.line = append(st.line, line...)
			line = st.line
		}
		err := st.handleLine(bytes.TrimSuffix(line, []byte("\r")))
		st.line = st.line[:0]
		if err != nil {
			return err
		}
	}
	if len(st.line)+len(st.data)+len(part) > maxEvent {
		return fmt.Errorf("event %d of the stream has more than %d bytes", len(st.sample.Chunks), maxEvent)
	}
	st.line = append(st.line, part...)
	return st.takeEarly()
}

// takeEarly takes the message in a line that has not ended, if it is complete.
func (st *stream) takeEarly() error {
	data, ok := bytes.CutPrefix(st.line, []byte("data:"))
	if !ok || len(data) > maxEarly || len(st.data) > 0 {
		return nil
	}
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return nil
	}
	// The last byte is looked at first, so that a long event is not parsed with every piece.
	if string(data) != "[DONE]" && (data[len(data)-1] != '}' || st.event.parse(data) != complete) {
		return nil
	}
	err := st.message(data, false)
	st.line = st.line[:0]
	return err
}

// handleLine takes in one line, without its end.
func (st *stream) handleLine(line []byte) error {
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
		if len(st.data) > 0 { // its JSON goes on from the line before
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
	if len(st.sample.Chunks) == maxEvents {
		return fmt.Errorf("a stream of more than %d events", maxEvents)
	}
	if string(data) == "[DONE]" {
		st.addChunk(Done, -1)
		return nil
	}
	// JSON may go on in the next data line of the event.
	switch verdict := st.event.parse(data); {
	case verdict == incomplete && !end:
		st.data = append(st.data, data...)
		return nil
	case verdict != complete:
		return fmt.Errorf("event %d of the stream is not JSON: %s", len(st.sample.Chunks), brief(data))
	}
	if st.responses {
		st.responsesEvent(data)
	} else {
		st.completionEvent()
	}
	return nil
}

// blame remembers the first error that the server reports.
func (st *stream) blame(message []byte) {
	if st.fault == "" {
		st.fault = "error in the stream: " + brief(message)
	}
}

// completionEvent handles an event of completions or of chat.
func (st *stream) completionEvent() {
	ev := &st.event
	kind, tokens := Kind(0), -1
	if ev.choices {
		kind = Choices
		tokens = ev.tokenIDs
		if ev.output() {
			kind |= Output
		}
		st.addTexts(&kind, ev.visible(), ev.thought())
		if len(ev.finish) > 0 {
			st.sample.Finish = noted(ev.finish)
		}
	}
	if ev.usage { // the last one counts
		kind |= Usage
		st.sample.Counts = ev.counts
		tokens = st.runningTokens(tokens)
	}
	if ev.fault != nil {
		st.blame(ev.fault)
	}
	st.addChunk(kind, tokens)
}

// runningTokens turns usage that comes with every chunk into tokens of this one. Usage that
// only the last chunk has is of all of them, so it counts from the first on or not at
// all.
func (st *stream) runningTokens(tokens int) int {
	total := st.event.counts.Completion
	// A usage behind chunks without one is that of the whole answer.
	if !st.event.choices || total < 0 || (st.chunks > 0 && st.runningTotal < 0) {
		return tokens
	}
	if tokens < 0 {
		tokens = max(total-max(st.runningTotal, 0), 0)
	}
	st.runningTotal = total
	return tokens
}

// responsesEvent handles an event of Responses.
func (st *stream) responsesEvent(data []byte) {
	ev := &st.event
	kind := Kind(0)
	// Other events say what the client knows: they count as events, and hold no token.
	switch string(ev.eventType) {
	case "response.output_text.delta":
		kind = Choices | Output
		st.addTexts(&kind, ev.delta, nil)
	case "response.reasoning_text.delta":
		kind = Choices | Output
		st.addTexts(&kind, nil, ev.delta)
	case "response.completed", "response.incomplete":
		kind, st.saidCompleted = Done, true
		st.sample.Finish = noted(ev.finish)
	case "response.failed", "error":
		st.blame(data)
	}
	if ev.usage {
		kind |= Usage
		st.sample.Counts = ev.counts
	}
	if ev.fault != nil {
		st.blame(ev.fault)
	}
	st.addChunk(kind, -1)
}

// addTexts adds to the texts of the sample and marks kind with what there was.
func (st *stream) addTexts(kind *Kind, visible, thought []byte) {
	if len(visible) > 0 {
		*kind |= Text
		st.text = append(st.text, visible...)
	}
	if len(thought) > 0 {
		*kind |= Reasoning
		st.thought = append(st.thought, thought...)
	}
}

// addChunk records an event that has just been handled.
func (st *stream) addChunk(kind Kind, tokens int) {
	sample, handled := st.sample, time.Since(st.began)
	chunk := Chunk{At: handled, Lag: -1, Tokens: int16(min(tokens, math.MaxInt16)), Kind: kind}
	if st.lag >= 0 {
		// The first events may come without a time of the kernel, and then one may have
		// been handled after the next was received.
		chunk.At = max(st.readAt-st.lag, sample.Sent)
		if n := len(sample.Chunks); n > 0 {
			chunk.At = max(chunk.At, sample.Chunks[n-1].At)
		}
		chunk.Lag = int32(min(handled-chunk.At, math.MaxInt32))
	}
	if sample.Chunks == nil {
		sample.Chunks = make([]Chunk, 0, min(sample.Asked, 1000)+4)
	}
	if kind&Choices != 0 {
		if st.chunks == 0 {
			st.live.First.Add(1)
			st.live.FirstTime.Add(int64(chunk.At - sample.Sent))
		}
		st.chunks++
	}
	sample.Chunks = append(sample.Chunks, chunk)
	switch { // an event with text is a token at least
	case tokens >= 0:
		st.live.Tokens.Add(int64(tokens))
	case kind&(Text|Reasoning) != 0:
		st.live.Tokens.Add(1)
	}
}

// end takes in what is left when the body has ended: a line or an event without its end.
func (st *stream) end() error {
	if err := st.handleLine(bytes.TrimSuffix(st.line, []byte("\r"))); err != nil || len(st.line) == 0 {
		return err
	}
	return st.handleLine(nil)
}

// finish gives the sample its texts and returns the server's complaint, or "".
func (st *stream) finish() string {
	st.sample.Text, st.sample.Thought = string(st.text), string(st.thought)
	return st.fault
}

// brief cuts a server's message to a length that fits a report.
func brief(b []byte) string {
	return strings.ToValidUTF8(string(b[:min(len(b), maxError)]), "\uFFFD")
}

// noted cuts a word of the server's to a length that a word has.
func noted(word []byte) string {
	return strings.ToValidUTF8(string(word[:min(len(word), maxNoted)]), "\uFFFD")
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
	ev := &st.event
	if ev.parse(body) != complete {
		return fmt.Errorf("the response is not JSON: %s", brief(body))
	}
	if st.responses {
		visible, thought, err := outputTexts(body)
		if err != nil {
			return fmt.Errorf("the response is not of Responses: %w", jsonfile.Explain(err))
		}
		ev.choices = len(visible)+len(thought) > 0
		ev.text, ev.thoughts[0] = append(ev.text, visible...), append(ev.thoughts[0], thought...)
	}
	st.completionEvent()
	if st.responses {
		st.saidCompleted = true
	}
	return nil
}

// outputTexts returns the visible text and the reasoning of a response of Responses.
func outputTexts(body []byte) (visible, thought string, err error) {
	var response struct {
		Output []struct {
			Content []struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"content"`
		} `json:"output"`
	}
	err = json.Unmarshal(body, &response)
	var said, thoughts strings.Builder // millions of parts fit into a response
	for _, item := range response.Output {
		for _, content := range item.Content {
			if content.Type == "output_text" {
				said.WriteString(content.Text)
			} else {
				thoughts.WriteString(content.Text)
			}
		}
	}
	return said.String(), thoughts.String(), err
}
