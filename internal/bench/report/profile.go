package report

import (
	"strings"

	"ossian/internal/bench"
)

// noToken is vLLM's error for a stream without an event that starts TTFT; the compiled
// client's has a space behind the full stop.
const noToken = "Never received a valid chunk to calculate TTFT.This response will be marked as failed!"

// An endRule says which event of a stream is its last for E2EL (bench.md 0).
type endRule uint8

const (
	endToken endRule = iota // the last token event
	endData                 // the last event other than [DONE]; gaps are measured from it too
	endLine                 // the last event of any kind
)

// A streamRule says how a profile reads one stream (bench.md 0 and 1.5).
type streamRule struct {
	token       bench.Kind // what makes an event a token event: the first gives TTFT, each later one an entry of ITL
	end         endRule
	serverInput bool // input tokens are the server's, where it says them
	needToken   bool // a stream without a token event failed
}

// ruleOf returns the rule of a profile for a backend.
func ruleOf(p bench.Profile, backend string) streamRule {
	switch p {
	case bench.VLLM011:
		if isChat(backend) { // there a stream of nothing succeeds
			return streamRule{token: bench.Choices, end: endData}
		}
		return streamRule{token: bench.Choices, needToken: true}
	case bench.LMDeploy:
		return streamRule{token: bench.Text, end: endLine}
	case bench.SGLang:
		return streamRule{token: bench.Text | bench.Reasoning, end: endLine}
	case bench.VLLMRust:
		return streamRule{token: bench.Choices, needToken: true}
	}
	rule := streamRule{token: bench.Choices, needToken: true, serverInput: true}
	if isChat(backend) { // not the role, not a finish reason alone
		rule.token = bench.Output
	}
	return rule
}

// isChat reports whether a backend speaks chat, by its name as the tools do.
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

// readRequest reads a sample under the profile of set; count re-tokenizes, nil = no tokenizer.
func readRequest(set *bench.Setup, sample *bench.Sample, count func(string) int) Request {
	rule := ruleOf(set.Profile, set.Backend)
	request := Request{OK: sample.OK(), Input: sample.Input, Start: sample.Sent.Seconds(), Queue: (sample.Sent - sample.Released).Seconds(),
		Session: sample.Session, Turn: sample.Turn, Usage: max(0, sample.Counts.Completion), Err: sample.Err}
	if rule.serverInput && sample.Counts.Prompt > 0 {
		request.Input = sample.Counts.Prompt
	}
	if set.Profile == bench.SGLang && (isChat(set.Backend) || usageWithText(sample)) {
		request.Reported = max(0, sample.Counts.Prompt)
	}
	seen := request.readTimes(rule, sample)
	switch {
	case request.OK && rule.needToken && !seen:
		request.OK, request.Err = false, noToken
		if set.Profile == bench.VLLMRust {
			request.Err = strings.Replace(noToken, ".This", ". This", 1)
		}
	case request.OK && len(sample.Chunks) == 0 && rule.end != endData:
		request.OK, request.Err = false, "status 200, but nothing came"
	}
	if !request.OK {
		request.Latency = 0
		return request
	}
	if !set.Stream && rule.end == endLine {
		request.TTFT = request.Latency
	}
	request.Text = sample.Text
	if set.Profile == bench.SGLang {
		request.Text = sample.Thought + sample.Text
	}
	request.Output = outputTokens(set, sample, len(request.ITL), count)
	if set.Profile == bench.VLLMRust && set.MultiTurn != nil && set.MultiTurn.History() {
		request.Input += request.Output // it counts the history when the answer is part of it
	}
	if rule.end == endLine && count != nil {
		request.Retokenized = count(request.Text)
	}
	return request
}

// readTimes sets the times of q by a rule and reports whether there was a token event.
func (q *Request) readTimes(rule streamRule, sample *bench.Sample) bool {
	// Counted first, so that a long stream is not copied as its list of gaps grows.
	events := 0
	for _, chunk := range sample.Chunks {
		if chunk.Kind&rule.token != 0 {
			events++
		}
	}
	if events > 1 {
		q.ITL = make([]float64, 0, events-1)
	}
	seen := false
	before, last := sample.Sent, sample.Sent // where the next gap begins; the end for E2EL
	for _, chunk := range sample.Chunks {
		token := chunk.Kind&rule.token != 0
		switch {
		case token && !seen:
			q.TTFT, seen = (chunk.At - sample.Sent).Seconds(), true
		case token:
			q.ITL = append(q.ITL, (chunk.At - before).Seconds())
		}
		data := rule.end == endData && chunk.Kind != bench.Done
		if token || data {
			before = chunk.At
		}
		if token || data || rule.end == endLine {
			last = chunk.At
		}
	}
	q.Latency = (last - sample.Sent).Seconds()
	return seen
}

// outputTokens counts the output of a request that succeeded (bench.md 0, 4); gaps is
// how many entries of ITL it has.
func outputTokens(set *bench.Setup, sample *bench.Sample, gaps int, count func(string) int) int {
	// lmdeploy and sglang believe that they got what they asked for, unless usage says otherwise
	// where they look for it.
	usage := sample.Counts.Completion
	switch set.Profile {
	case bench.LMDeploy:
		if isChat(set.Backend) && usage >= 0 {
			return usage
		}
		return sample.Asked
	case bench.SGLang:
		if usage >= 0 && (isChat(set.Backend) || usageWithText(sample)) {
			return usage
		}
		return sample.Asked
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
	return count(sample.Text)
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
