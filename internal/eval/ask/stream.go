package ask

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Bounds of a stream.
const (
	maxEvent = 64 << 20  // bytes of an event
	maxAll   = 256 << 20 // bytes of the texts of an answer
)

// An event is one of either API; members that it has not are as good as absent.
type event struct {
	// of Chat
	Choices []struct {
		Delta struct {
			Content          string
			Reasoning        string
			ReasoningContent string `json:"reasoning_content"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage       *usage
	Fingerprint string `json:"system_fingerprint"`
	// of Responses
	Type     string
	Delta    json.RawMessage
	Item     struct{ Type string }
	Response *response
	// of both
	Error   json.RawMessage
	Message string
}

// A response is what the last event of Responses holds.
type response struct {
	Status     string
	Error      json.RawMessage
	Incomplete *struct{ Reason string } `json:"incomplete_details"`
	Output     []item
	Usage      *usage
}

// An item is one of the output of Responses.
type item struct {
	Type    string
	Content []struct{ Type, Text string }
}

// usage has the names of both APIs.
type usage struct {
	Prompt           *int `json:"prompt_tokens"`
	Completion       *int `json:"completion_tokens"`
	Input            *int `json:"input_tokens"`
	Output           *int `json:"output_tokens"`
	CompletionDetail struct {
		Reasoning *int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	OutputDetail struct {
		Reasoning *int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// A stream is an answer that comes. It is whole when the server has said so: finish.
type stream struct {
	answer  *Answer
	began   time.Time
	events  int
	finish  string // finish_reason, or status of the response; "" = it goes on
	text    strings.Builder
	thought strings.Builder
}

// readAnswer reads the events of a body. The error is why it is no whole answer.
func readAnswer(body io.Reader, answer *Answer, began time.Time) error {
	reading := &stream{answer: answer, began: began}
	lines := bufio.NewReaderSize(body, 64<<10)
	var data []byte
	for {
		line, err := readLine(lines)
		if err == nil && len(line) > 0 {
			if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				if len(data) > 0 {
					data = append(data, '\n')
				}
				data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
			}
			// Other fields, as event and id, say nothing that data does not.
			continue
		}
		if fault := reading.take(data); fault != nil {
			return fault
		}
		if data = data[:0]; err != nil {
			return reading.end(err)
		}
	}
}

// readLine reads a line without its end.
func readLine(lines *bufio.Reader) (line []byte, err error) {
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxEvent:
			return nil, fmt.Errorf("a line of more than %d bytes", maxEvent)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, err // what has no end is torn
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

// take takes in the data of an event; the error is that of the server.
func (s *stream) take(data []byte) error {
	if len(data) == 0 || string(data) == "[DONE]" {
		return nil
	}
	var event event
	if _, other := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal(data, &event)); !other && !json.Valid(data) { // of another type is as good as absent
		return fmt.Errorf("event %d of the stream is not JSON", s.events)
	}
	s.events++
	if s.text.Len()+s.thought.Len() > maxAll {
		return fmt.Errorf("an answer of more than %d bytes", maxAll)
	}
	if said := event.fault(); said != "" {
		return errors.New("error in the stream" + prefixed(said))
	}
	if event.Fingerprint != "" {
		s.answer.Fingerprint = event.Fingerprint
	}
	s.count(event.Usage)
	if event.Type != "" {
		return s.takeResponse(&event)
	}
	if len(event.Choices) > 0 {
		choice := &event.Choices[0]
		s.add(&s.text, choice.Delta.Content)
		s.add(&s.thought, cmp.Or(choice.Delta.Reasoning, choice.Delta.ReasoningContent)) // some servers send both
		if choice.FinishReason != "" {
			s.finish = choice.FinishReason
		}
	}
	return nil
}

// fault is the error that an event tells of; "" = none.
func (e *event) fault() string {
	if e.Type == "error" && e.Message != "" {
		return e.Message
	}
	raw := e.Error
	if e.Type == "response.failed" && e.Response != nil {
		raw = e.Response.Error
	}
	if len(raw) == 0 || string(raw) == "null" {
		if e.Type == "response.failed" || e.Type == "error" {
			return "no reason given"
		}
		return ""
	}
	var inner struct{ Message string }
	if json.Unmarshal(raw, &inner) == nil && inner.Message != "" {
		return inner.Message
	}
	return string(raw)
}

// add appends a piece of text.
func (s *stream) add(to *strings.Builder, piece string) {
	if piece == "" {
		return
	}
	if s.answer.First == 0 {
		s.answer.First = max(time.Since(s.began), 1)
	}
	to.WriteString(piece)
}

// takeResponse takes in an event of Responses.
func (s *stream) takeResponse(event *event) error {
	if s.finish != "" {
		return nil // nothing counts behind the end
	}
	var piece string
	switch event.Type {
	case "response.output_text.delta":
		if json.Unmarshal(event.Delta, &piece) == nil {
			s.add(&s.text, piece)
		}
	case "response.reasoning_text.delta":
		if json.Unmarshal(event.Delta, &piece) == nil {
			s.add(&s.thought, piece)
		}
	case "response.output_item.done":
		if strings.HasSuffix(event.Item.Type, "_call") {
			if s.answer.Calls == nil {
				s.answer.Calls = map[string]int{}
			}
			s.answer.Calls[event.Item.Type]++
		}
	case "response.completed", "response.incomplete":
		if event.Response == nil {
			return errors.New("the last event has no response")
		}
		s.whole(event.Response)
		s.finish = strings.TrimPrefix(event.Type, "response.")
	}
	return nil
}

// whole takes the texts of the finished response, which are what a client that does not stream
// gets; where a server leaves its output out, those of the deltas stay.
func (s *stream) whole(reply *response) {
	s.count(reply.Usage)
	var text strings.Builder
	for _, one := range reply.Output {
		for _, content := range one.Content {
			if content.Type == "output_text" {
				text.WriteString(content.Text)
			}
		}
	}
	if len(reply.Output) > 0 {
		s.text.Reset()
		s.text.WriteString(text.String())
	}
}

// count takes in usage, of which the last counts.
func (s *stream) count(usage *usage) {
	if usage == nil {
		return
	}
	take := func(to *int, names ...*int) {
		for _, value := range names {
			if value != nil {
				*to = *value
			}
		}
	}
	take(&s.answer.Input, usage.Prompt, usage.Input)
	take(&s.answer.Output, usage.Completion, usage.Output)
	take(&s.answer.Reasoning, usage.CompletionDetail.Reasoning, usage.OutputDetail.Reasoning)
}

// end judges a stream that has ended.
func (s *stream) end(err error) error {
	s.answer.Text, s.answer.Thought = s.text.String(), s.thought.String()
	switch {
	case s.finish != "":
	case s.events == 0 && errors.Is(err, io.EOF):
		return errors.New("an empty stream")
	case errors.Is(err, io.EOF):
		return errors.New("the stream ended before the answer did")
	default:
		return fmt.Errorf("the connection was cut: %w", plainError(err))
	}
	s.answer.Outcome = Answered
	if s.finish == "incomplete" || s.finish == "length" {
		s.answer.Outcome = Truncated
	}
	return nil
}
