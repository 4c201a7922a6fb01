package report

import (
	"strings"

	"ossian/internal/bench"
)

// noToken is vLLM's error for a stream without an event that starts TTFT; the compiled
// client's has a space behind the full stop.
const noToken = "Never received a valid chunk to calculate TTFT.This response will be marked as failed!"

// An end says which event of a stream is its last for E2EL (bench.md 0).
type end uint8

const (
	endToken end = iota // the last token event
	endData             // the last event other than [DONE]; gaps are measured from it too
	endLine             // the last event of any kind
)

// A rule says how a profile reads one stream (bench.md 0 and 1.5).
type rule struct {
	token       bench.Kind // what makes an event a token event: the first gives TTFT, each later one an entry of ITL
	end         end
	serverInput bool // input tokens are the server's, where it says them
	needToken   bool // a stream without a token event failed
}

// ruleOf returns the rule of a profile for a backend.
func ruleOf(p bench.Profile, backend string) rule {
	switch p {
	case bench.VLLM011:
		if isChat(backend) { // there a stream of nothing succeeds
			return rule{token: bench.Choices, end: endData}
		}
		return rule{token: bench.Choices, needToken: true}
	case bench.LMDeploy:
		return rule{token: bench.Text, end: endLine}
	case bench.SGLang:
		return rule{token: bench.Text | bench.Reasoning, end: endLine}
	case bench.VLLMRust:
		return rule{token: bench.Choices, needToken: true}
	}
	r := rule{token: bench.Choices, needToken: true, serverInput: true}
	if isChat(backend) { // not the role, not a finish reason alone
		r.token = bench.Output
	}
	return r
}

func isChat(backend string) bool { return strings.Contains(backend, "chat") }

// A Request is one request as the profile sees it. Times are seconds; what a failed
// request has of them is what the profile's tool would have: the first token and the
// gaps until it failed, no latency, no text, no output tokens.
type Request struct {
	OK          bool
	Input       int // tokens
	Reported    int // tokens of input that the tool read from the server, 0 = none
	Output      int // tokens, as the profile counts them
	Retokenized int // tokens of the text, where the profile counts these
	Usage       int // tokens of output by the server's count, 0 = it did not say
	Start       float64
	TTFT        float64
	Latency     float64 // E2EL
	Queue       float64 // from release to start
	ITL         []float64
	Text        string
	Err         string
	Session     string // the conversation that it is a turn of
	Turn        int
}

// tpot is the time per output token behind the first (bench.md 1.6); false for requests
// that have none.
func (q *Request) tpot() (float64, bool) {
	if q.Output <= 1 {
		return 0, false
	}
	return (q.Latency - q.TTFT) / float64(q.Output-1), true
}

// request reads s under the profile of set; count re-tokenizes, nil = no tokenizer.
func request(set *bench.Setup, s *bench.Sample, count func(string) int) Request {
	r := ruleOf(set.Profile, set.Backend)
	q := Request{OK: s.OK(), Input: s.Input, Start: s.Sent.Seconds(), Queue: (s.Sent - s.Released).Seconds(),
		Session: s.Session, Turn: s.Turn, Usage: max(0, s.Counts.Completion), Err: s.Err}
	if r.serverInput && s.Counts.Prompt > 0 {
		q.Input = s.Counts.Prompt
	}
	if set.Profile == bench.SGLang && (isChat(set.Backend) || usageWithText(s)) {
		q.Reported = max(0, s.Counts.Prompt)
	}
	seen := q.read(r, s)
	switch {
	case q.OK && r.needToken && !seen:
		q.OK, q.Err = false, noToken
		if set.Profile == bench.VLLMRust {
			q.Err = strings.Replace(noToken, ".This", ". This", 1)
		}
	case q.OK && len(s.Chunks) == 0 && r.end != endData:
		q.OK, q.Err = false, "status 200, but nothing came"
	}
	if !q.OK {
		q.Latency = 0
		return q
	}
	if !set.Stream && r.end == endLine {
		q.TTFT = q.Latency
	}
	q.Text = s.Text
	if set.Profile == bench.SGLang {
		q.Text = s.Thought + s.Text
	}
	q.Output = outputTokens(set, s, len(q.ITL), count)
	if set.Profile == bench.VLLMRust && set.MultiTurn != nil && set.MultiTurn.History() {
		q.Input += q.Output // it counts the history when the answer is part of it
	}
	if r.end == endLine && count != nil {
		q.Retokenized = count(q.Text)
	}
	return q
}

// read sets the times of q by r and reports whether there was a token event.
func (q *Request) read(r rule, s *bench.Sample) bool {
	events := 0
	for _, c := range s.Chunks {
		if c.Kind&r.token != 0 {
			events++
		}
	}
	if events > 1 {
		q.ITL = make([]float64, 0, events-1)
	}
	seen := false
	before, last := s.Sent, s.Sent
	for _, c := range s.Chunks {
		token := c.Kind&r.token != 0
		switch {
		case token && !seen:
			q.TTFT, seen = (c.At - s.Sent).Seconds(), true
		case token:
			q.ITL = append(q.ITL, (c.At - before).Seconds())
		}
		data := r.end == endData && c.Kind != bench.Done
		if token || data {
			before = c.At
		}
		if token || data || r.end == endLine {
			last = c.At
		}
	}
	q.Latency = (last - s.Sent).Seconds()
	return seen
}

// outputTokens counts the output of a request that succeeded (bench.md 0, 4); gaps is
// how many entries of ITL it has.
func outputTokens(set *bench.Setup, s *bench.Sample, gaps int, count func(string) int) int {
	usage := s.Counts.Completion
	switch set.Profile {
	case bench.LMDeploy:
		if isChat(set.Backend) && usage >= 0 {
			return usage
		}
		return s.Asked
	case bench.SGLang:
		if usage >= 0 && (isChat(set.Backend) || usageWithText(s)) {
			return usage
		}
		return s.Asked
	case bench.VLLMRust:
		if usage > 0 {
			return usage
		}
		return 1 + gaps
	}
	switch {
	case usage > 0:
		return usage
	case count == nil:
		return 1
	}
	return count(s.Text)
}

// usageWithText reports whether usage came in an event with text, the only place where
// sglang looks for it in completions.
func usageWithText(s *bench.Sample) bool {
	for _, c := range s.Chunks {
		if c.Kind&bench.Usage != 0 && c.Kind&bench.Text != 0 {
			return true
		}
	}
	return false
}
