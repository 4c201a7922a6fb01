package bench

import (
	"fmt"
	"net/http"
	"time"
)

// Kind says what a chunk had in it; the profiles differ in what they count.
type Kind uint8

// The bits of a Kind.
const (
	Choices   Kind = 1 << iota // a choices array that is not empty, or a token event of Responses
	Text                       // visible text that is not empty
	Reasoning                  // reasoning text that is not empty
	Usage                      // usage
	Done                       // [DONE], or the terminal event of Responses
	Output                     // choices that bring something: text, reasoning, a tool call, or an empty content without a role
)

// A Chunk is one event of a stream.
type Chunk struct {
	At     time.Duration // when the kernel received its end, since the run began; where it does not say, when it was handled
	Lag    int32         // nanoseconds from the kernel's receipt to the handling; -1 = the kernel does not say
	Tokens int16         // tokens in it, where the server says so; -1 = it does not
	Kind   Kind
}

// Counts are the tokens that a server reports for one request; -1 = it does not say.
type Counts struct {
	Prompt, Completion, Cached, Reasoning int
}

// A Sample is what became of one query. Times are since the run began, by the
// monotonic clock.
type Sample struct {
	Index     int           // of the query
	Scheduled time.Duration // when the arrival process wanted it
	Released  time.Duration // when the client took it up
	Sent      time.Duration // just before the request was written, with a free slot (--max-concurrency)
	Done      time.Duration // when nothing more came, or it failed
	Input     int           // tokens, as the workload counts them
	Asked     int           // tokens of output asked for
	Status    int           // of HTTP; 0 = none came
	Chunks    []Chunk
	Counts    Counts
	Text      string // visible text
	Thought   string // reasoning text
	Finish    string // finish_reason; "" = none came
	Err       string // why it failed; "" = it did not
	Session   string `json:",omitempty"` // the conversation that it is a turn of
	Turn      int    `json:",omitempty"` // of the conversation, from 0
}

// OK reports whether s succeeded: status 200 and no error.
func (s *Sample) OK() bool { return s.Err == "" && s.Status == 200 }

// failure says why the server does not seem to work; "" = it does.
func (s *Sample) failure() string {
	switch {
	case s.Err != "":
		return s.Err
	case s.Status != http.StatusOK:
		return fmt.Sprintf("status %d", s.Status)
	}
	for _, c := range s.Chunks {
		if c.Kind&Choices != 0 {
			return ""
		}
	}
	return "an answer without output"
}

// A Probe is one request of the side stream (--probe-request-rate).
type Probe struct {
	Sent, Done time.Duration
	Err        string
}
