package scripted

import (
	"fmt"
	"net/http"
	"time"
)

// A Script is what becomes of one request. A request's i is the number at the end of its
// x-request-id, or else counts those without one.
type Script struct {
	Headers   time.Duration // from the receipt of the request to the head of the answer
	TTFT      time.Duration // from the receipt of the request to the first chunk
	Gap       time.Duration // from chunk to chunk
	Jitter    time.Duration // each chunk comes later than that by up to this, evenly distributed
	Tokens    int           // of the answer; 0 = what the request asks for, or 16
	PerChunk  []int         // tokens in each chunk, in turn; none = 1
	Reasoning int           // how many tokens, the first ones, are reasoning (not in completions)
	Words     []string      // texts of the tokens, in turn; none = " tok"
	Finish    string        // finish_reason; "" = length
	Ping      time.Duration // a comment line this often while nothing else is due; 0 = none
	Split     int           // most bytes per write; 0 = all that is due
	SplitGap  time.Duration // between the writes of a split one
	Cached    int           // prompt tokens that usage calls cached
	Usage     *Usage        // what usage says instead of the truth; nil = the truth
	Fault     Fault
	Counters  map[string]float64 // added to series of /metrics when the request has ended
}

// Usage are token counts as an answer reports them.
type Usage struct {
	Prompt, Completion, Cached, Reasoning int
}

// A Fault is what goes wrong with a request. Status, Refuse, HTML and Empty strike every
// answer, the others only streams, and those with a Chunk only where it comes to that.
type Fault struct {
	Kind   FaultKind
	Chunk  int           // the fault comes in the place of this chunk, from 0 (reset, cut, error, garbage, stall)
	For    time.Duration // of a stall; 0 = until the client goes away
	Status int           // of a status fault; 0 = 500
}

// A FaultKind names a fault.
type FaultKind string

// The faults.
const (
	None    FaultKind = ""
	Status  FaultKind = "status"  // Fault.Status and an error object
	Refuse  FaultKind = "refuse"  // the connection is reset before any answer
	HTML    FaultKind = "html"    // status 200 and a web page
	Nothing FaultKind = "nothing" // an event stream that ends without an event but [DONE]
	Empty   FaultKind = "empty"   // a whole answer without a token
	Reset   FaultKind = "reset"   // the connection is reset
	Cut     FaultKind = "cut"     // the connection is closed in order, the answer is not finished
	Failure FaultKind = "error"   // an error event, then the end of the stream
	Garbage FaultKind = "garbage" // an event that is not JSON; the stream goes on
	Stall   FaultKind = "stall"   // silence for Fault.For, then the stream goes on
)

func (buf FaultKind) valid() bool {
	switch buf {
	case None, Status, Refuse, HTML, Nothing, Empty, Reset, Cut, Failure, Garbage, Stall:
		return true
	}
	return false
}

// validate reports the first value of s that no server can play.
func (s *Script) validate() error {
	for _, duration := range []struct {
		name string
		d    time.Duration
	}{{"headers", s.Headers}, {"ttft", s.TTFT}, {"gap", s.Gap}, {"jitter", s.Jitter}, {"ping", s.Ping}, {"split gap", s.SplitGap}, {"stall", s.Fault.For}} {
		if duration.d < 0 {
			return fmt.Errorf("%s: %v, expected a duration from 0", duration.name, duration.d)
		}
	}
	// A chunk without tokens, or a word without letters, would never end a stream.
	for _, n := range s.PerChunk {
		if n < 1 {
			return fmt.Errorf("tokens per chunk: %v, expected numbers from 1", s.PerChunk)
		}
	}
	for _, word := range s.Words {
		if word == "" {
			return fmt.Errorf("words: %q, expected texts that are not empty", s.Words)
		}
	}
	if s.Tokens < 0 || s.Reasoning < 0 || s.Split < 0 || s.Cached < 0 || s.Fault.Chunk < 0 {
		return fmt.Errorf("tokens %d, reasoning %d, split %d, cached %d, chunk of the fault %d: expected numbers from 0",
			s.Tokens, s.Reasoning, s.Split, s.Cached, s.Fault.Chunk)
	}
	if !s.Fault.Kind.valid() {
		return fmt.Errorf("fault %q is unknown", s.Fault.Kind)
	}
	if st := s.Fault.Status; st != 0 && http.StatusText(st) == "" {
		return fmt.Errorf("status %d of the fault is unknown", st)
	}
	return nil
}

// words returns the texts of s as the inside of JSON strings.
func (s *Script) words() [][]byte {
	if len(s.Words) == 0 {
		return [][]byte{[]byte(" tok")}
	}
	out := make([][]byte, len(s.Words))
	for i, word := range s.Words {
		quoted := quote(word)
		out[i] = quoted[1 : len(quoted)-1]
	}
	return out
}

// tokensIn returns how many tokens a chunk has at most.
func (s *Script) tokensIn(chunk int) int {
	if len(s.PerChunk) == 0 {
		return 1
	}
	return s.PerChunk[chunk%len(s.PerChunk)]
}
