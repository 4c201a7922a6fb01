package scripted

import (
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A fate is how far an answer is.
type fate uint8

const (
	goesOn fate = iota
	whole       // nothing more comes, the connection stays
	cut         // the connection is closed
	reset       // the connection is reset
)

const (
	never = time.Duration(math.MaxInt64)
	poll  = 250 * time.Millisecond // how often a waiting stream looks whether its client is still there
)

// A stream is one answer. The goroutine of the connection makes it and hands it to a
// sender, which owns it until done is closed.
type stream struct {
	conn     net.Conn
	out      *outlet
	script   *Script
	words    [][]byte
	shape    *Shape
	form     form
	api      api
	id       string
	model    []byte // JSON text
	ask      *ask
	last     bool // the client wants the connection closed behind the answer
	prompt   int  // tokens
	tokens   int  // to send
	thinking int  // the first ones of them, which are reasoning

	sent  int // tokens so far
	chunk int // next
	seq   int // next sequence_number of Responses
	items [2]item
	rng   *rand.PCG
	grid  time.Duration // when chunk would be due without jitter
	due   time.Duration // when chunk is due
	ping  time.Duration // when a comment is due
	hit   bool          // the fault has happened

	fate   fate
	rest   []byte // of the last turn, not written yet
	own    []byte // memory for rest
	gone   atomic.Bool
	record Record
	done   chan struct{}
}

// start plans the first chunk.
func (s *stream) start(received time.Duration) {
	s.grid = received + s.script.TTFT
	s.due = s.grid + s.jitter()
	s.ping = received + s.script.Ping
}

func (s *stream) jitter() time.Duration {
	if s.script.Jitter <= 0 {
		return 0
	}
	return time.Duration(s.rng.Uint64() % uint64(s.script.Jitter+1))
}

// wake returns when s wants its next turn.
func (s *stream) wake(now time.Duration) time.Duration {
	at := min(s.due, now+poll)
	if s.script.Ping > 0 {
		at = min(at, s.ping)
	}
	return at
}

// turn puts what is due into k.out.
func (s *stream) turn(k *ink, now time.Duration) fate {
	if now < s.due {
		if s.script.Ping > 0 && now >= s.ping {
			s.ping = now + s.script.Ping
			s.comment(k)
		}
		return goesOn
	}
	s.ping = now + s.script.Ping
	if s.chunk == s.script.Fault.Chunk && !s.hit {
		s.hit = true
		switch s.script.Fault.Kind {
		case Reset:
			return reset
		case Cut:
			return cut
		case Failure:
			s.failure(k, now)
			return whole
		case Garbage:
			s.garbage(k)
			return goesOn
		case Stall:
			s.stall()
			return goesOn
		}
	}
	return s.play(k, now)
}

// stall moves the plan of what is left.
func (s *stream) stall() {
	d := s.script.Fault.For
	if d == 0 {
		s.due = never
		return
	}
	s.grid += d
	s.due += d
}

// play puts the next chunk into k.out, and the end of the answer behind the last one.
func (s *stream) play(k *ink, now time.Duration) fate {
	n := min(s.script.of(s.chunk), s.tokens-s.sent)
	if s.sent < s.thinking {
		n = min(n, s.thinking-s.sent)
	}
	last := s.sent+n == s.tokens
	if s.api == responses {
		s.responseChunk(k, n, last, now)
	} else {
		s.choiceChunk(k, n, last, now)
	}
	if last {
		k.out = append(k.out, "0\r\n\r\n"...)
		return whole
	}
	s.chunk++
	s.grid += s.script.Gap
	s.due = max(s.due, s.grid+s.jitter())
	return goesOn
}

func (s *stream) choiceChunk(k *ink, n int, last bool, now time.Duration) {
	if s.chunk == 0 && s.api == chat && !s.shape.RoleEarly && !s.shape.RoleJoined {
		s.choice(k, choice{role: true}, now)
	}
	own := s.shape.OwnFinish
	if n > 0 || !own {
		s.choice(k, choice{tokens: n, finish: last && !own}, now)
	}
	if !last {
		return
	}
	if own {
		s.choice(k, choice{finish: true}, now)
	}
	if s.ask.usage() && !s.shape.NoUsage && !s.shape.FinishUsage {
		s.open(k, "")
		k.event = append(k.event, s.form.head...)
		k.event = append(k.event, s.form.middle...)
		k.event = append(k.event, `,"usage":`...)
		k.event = s.usage(k.event)
		s.stampAndClose(k, now)
	}
	s.end(k)
}

// end puts [DONE].
func (s *stream) end(k *ink) {
	if s.shape.NoDone {
		return
	}
	s.open(k, "")
	k.event = append(k.event, "[DONE]"...)
	s.close(k)
}

// A choice is what an event has in its choices.
type choice struct {
	role   bool // the role and nothing else
	tokens int
	finish bool
}

func (s *stream) choice(k *ink, c choice, now time.Duration) {
	f := &s.form
	s.open(k, "")
	b := append(k.event, f.head...)
	b = append(b, f.a...)
	if f.finishFirst {
		b = s.finish(b, c.finish)
		b = append(b, f.b...)
		b = s.delta(b, c)
	} else {
		b = s.delta(b, c)
		b = append(b, f.b...)
		b = s.finish(b, c.finish)
	}
	b = append(b, f.c...)
	if f.tokenIDs {
		b = s.tokenIDs(b, c.tokens)
	}
	b = append(b, '}')
	b = append(b, f.middle...)
	s.sent += c.tokens
	switch {
	case s.ask.running() || (c.finish && s.shape.FinishUsage && s.ask.usage() && !s.shape.NoUsage):
		b = append(b, `,"usage":`...)
		b = s.usage(b)
	case s.shape.NullUsage && s.ask.usage():
		b = append(b, `,"usage":null`...)
	}
	k.event = b
	s.stampAndClose(k, now)
	s.sentAt(now, c.tokens)
}

// sentAt writes an event of the stream into the record.
func (s *stream) sentAt(now time.Duration, tokens int) {
	s.record.Sends = append(s.record.Sends, Send{Planned: min(s.due, now), Actual: now, Tokens: tokens})
}

func (s *stream) finish(b []byte, finish bool) []byte {
	if !finish {
		return append(b, "null"...)
	}
	return append(b, quote(s.reason())...)
}

func (s *stream) reason() string {
	if s.script.Finish == "" {
		return "length"
	}
	return s.script.Finish
}

func (s *stream) delta(b []byte, c choice) []byte {
	f := &s.form
	switch {
	case c.role:
		return append(b, f.role...)
	case c.tokens == 0:
		return append(b, f.none...)
	}
	before, after := f.before, f.after
	if s.sent < s.thinking {
		before, after = f.think, f.thought
	}
	if s.api == chat && s.shape.RoleJoined && s.sent == 0 && !strings.HasPrefix(before, `"role"`) {
		b = append(b, `"role":"assistant",`...)
	}
	b = append(b, before...)
	b = s.text(b, s.sent, s.sent+c.tokens)
	return append(b, after...)
}

// text appends the texts of tokens from to to, as they stand inside of a JSON string.
func (s *stream) text(b []byte, from, to int) []byte {
	for i := from; i < to; i++ {
		b = append(b, s.words[i%len(s.words)]...)
	}
	return b
}

// tokenIDs appends the member token_ids: token i of an answer has the id i.
func (s *stream) tokenIDs(b []byte, n int) []byte {
	b = append(b, `,"token_ids":`...)
	if n == 0 || !s.ask.ReturnTokenIDs {
		return append(b, "null"...)
	}
	sep := byte('[')
	for i := range n {
		b = strconv.AppendInt(append(b, sep), int64(s.sent+i), 10)
		sep = ','
	}
	return append(b, ']')
}

// counts are what usage says of the tokens sent so far.
func (s *stream) counts() Usage {
	if s.script.Usage != nil {
		return *s.script.Usage
	}
	return Usage{Prompt: s.prompt, Completion: s.sent, Cached: s.script.Cached, Reasoning: min(s.sent, s.thinking)}
}

func (s *stream) usage(b []byte) []byte {
	u := s.counts()
	b = member(b, `{"prompt_tokens":`, u.Prompt)
	b = member(b, `,"total_tokens":`, u.Prompt+u.Completion)
	b = member(b, `,"completion_tokens":`, u.Completion)
	if u.Cached > 0 {
		b = append(member(b, `,"prompt_tokens_details":{"cached_tokens":`, u.Cached), '}')
	}
	if u.Reasoning > 0 {
		b = append(member(b, `,"completion_tokens_details":{"reasoning_tokens":`, u.Reasoning), '}')
	}
	return append(b, '}')
}

func member(b []byte, name string, n int) []byte {
	return strconv.AppendInt(append(b, name...), int64(n), 10)
}

const breakdown = `{"error":{"message":"the script says so","type":"InternalServerError","param":null,"code":500}}`

func (s *stream) failure(k *ink, now time.Duration) {
	if s.api == responses {
		s.say(k, "error", []byte(`,"code":"server_error","message":"the script says so","param":null`), now)
	} else {
		s.open(k, "")
		k.event = append(k.event, breakdown...)
		s.close(k)
		s.end(k)
	}
	k.out = append(k.out, "0\r\n\r\n"...)
}

func (s *stream) garbage(k *ink) {
	s.open(k, "")
	k.event = append(k.event, `{"id":"broken","choices":[{`...)
	s.close(k)
}
