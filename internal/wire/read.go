package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrLineTooLong is what Reader.Next returns, wrapped, for a line beyond its limit.
var ErrLineTooLong = errors.New("line too long")

// A Reader reads server-sent events as browsers do: any of the three line ends,
// comments, several data lines per event, a leading byte order mark.
type Reader struct {
	r     *bufio.Reader
	most  int // bytes of one event
	line  []byte
	data  []byte
	begun bool
	cr    bool // the last line ended with \r: a \n right behind it belongs to it
}

// Event is one server-sent event. Data is valid until the next call of Next.
type Event struct {
	Type string // "" where the stream does not name it
	Data []byte
}

// NewReader returns a reader of events of at most most bytes.
func NewReader(r io.Reader, most int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 4096), most: most}
}

// Next returns the next event that has data; io.EOF at the end. Unlike browsers it
// takes an event that ends with the stream instead of an empty line: some servers
// close behind their last line.
func (r *Reader) Next() (Event, error) {
	var e Event
	r.data = r.data[:0]
	has := false
	for {
		line, err := r.readLine()
		if err != nil && !(err == io.EOF && has) {
			return Event{}, err
		}
		if len(line) == 0 {
			if !has {
				e.Type = ""
				continue
			}
			e.Data = r.data[:len(r.data)-1]
			return e, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if len(r.data)+len(value) > r.most {
				return Event{}, fmt.Errorf("event of more than %d bytes: %w", r.most, ErrLineTooLong)
			}
			r.data = append(append(r.data, value...), '\n')
			has = true
		case "event":
			e.Type = string(value)
		}
	}
}

// readLine returns a line without its end, valid until the next call. It never
// reads beyond the line's end, so that the event is there as soon as its last
// byte is.
func (r *Reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		if r.r.Buffered() == 0 {
			if _, err := r.r.Peek(1); err == io.EOF && len(r.line) > 0 {
				return r.line, nil
			} else if err != nil {
				return nil, err
			}
		}
		buf, _ := r.r.Peek(r.r.Buffered())
		if r.cr && buf[0] == '\n' {
			r.cr = false
			_, _ = r.r.Discard(1)
			continue
		}
		r.cr = false
		end := bytes.IndexAny(buf, "\r\n")
		part := buf
		if end >= 0 {
			part = buf[:end]
			r.cr = buf[end] == '\r'
		}
		if len(r.line)+len(part) > r.most+64 {
			return nil, fmt.Errorf("line of more than %d bytes: %w", r.most, ErrLineTooLong)
		}
		r.line = append(r.line, part...)
		_, _ = r.r.Discard(min(len(part)+1, len(buf)))
		if end < 0 {
			continue
		}
		if !r.begun {
			r.begun = true
			r.line = bytes.TrimPrefix(r.line, []byte("\xef\xbb\xbf"))
		}
		return r.line, nil
	}
}

// IsDone reports whether e is the end of a chat or completion stream.
func (e *Event) IsDone() bool { return string(e.Data) == "[DONE]" }

// A Chunk is what a client reads from a chat or completion reply, streamed or not.
// Strings that are null are empty.
type Chunk struct {
	ID      string        `json:"id"`
	Model   string        `json:"model"`
	Created int64         `json:"created"`
	Choices []ChunkChoice `json:"choices"`
	Usage   *Usage        `json:"usage"`
}

// ChunkChoice is a choice of a Chunk: of a chat stream (Delta), a chat reply
// (Message) or a completion (Text).
type ChunkChoice struct {
	Index        int          `json:"index"`
	Text         string       `json:"text"`
	Delta        *ChunkDelta  `json:"delta"`
	Message      *ChunkDelta  `json:"message"`
	FinishReason string       `json:"finish_reason"`
	Logprobs     *ChunkTokens `json:"logprobs"`
}

// ChunkDelta is what a chat chunk adds.
type ChunkDelta struct {
	Role             string      `json:"role"`
	Content          string      `json:"content"`
	Reasoning        string      `json:"reasoning"`
	ReasoningContent string      `json:"reasoning_content"`
	ToolCalls        []ChunkCall `json:"tool_calls"`
}

// ChunkCall is a piece of a tool call.
type ChunkCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// ChunkTokens are the log probabilities of a chunk, in the form of chat (Content)
// or of completions.
type ChunkTokens struct {
	Content []struct {
		Token   string  `json:"token"`
		Logprob float64 `json:"logprob"`
		Bytes   []int   `json:"bytes"`
	} `json:"content"`
	Tokens        []string   `json:"tokens"`
	TokenLogprobs []*float64 `json:"token_logprobs"`
}
