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
	underWay  fate = iota
	finished       // nothing more comes, the connection stays
	closing        // nothing more comes, the connection is closed
	resetting      // nothing more comes, the connection is reset
)

const (
	never     = time.Duration(math.MaxInt64)
	lookEvery = 250 * time.Millisecond // how often a waiting stream looks whether its client is still there
)

// A stream is one answer. The handler of the connection makes it and hands it to a sender,
// which owns it until done is closed; gone alone may be set by either.
type stream struct {
	// What is to be played.
	conn       net.Conn
	out        *outlet
	script     *Script
	words      [][]byte
	shape      *Dialect
	form       form
	api        api
	id         string
	model      []byte // JSON text
	ask        *ask
	closeAfter bool // the client wants the connection closed behind the answer
	prompt     int  // tokens
	tokens     int  // to send
	thinking   int  // the first ones of them, which are reasoning

	// How far it is. Jitter moves due and not grid, so that delays do not add up.
	sent        int // tokens so far
	chunk       int // next
	seq         int // next sequence_number of Responses
	items       [2]item
	rng         *rand.PCG
	grid        time.Duration // when chunk would be due without jitter
	due         time.Duration // when chunk is due
	ping        time.Duration // when a comment is due
	faultPlayed bool          // the fault has happened

	// What becomes of it.
	fate    fate
	pending []byte      // of the last turn, not written yet
	copied  []byte      // memory for pending, where it is written in pieces
	gone    atomic.Bool // the client is
	record  Record
	done    chan struct{} // closed by Server.finish
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

// nextTurn returns when s wants its next turn.
func (s *stream) nextTurn(now time.Duration) time.Duration {
	at := min(s.due, now+lookEvery)
	if s.script.Ping > 0 {
		at = min(at, s.ping)
	}
	return at
}

// advance puts what is due into buf.out and returns what becomes of the stream then.
func (s *stream) advance(buf *eventBuffer, now time.Duration) fate {
	if now < s.due { // woken for a ping, or to look after the client
		if s.script.Ping > 0 && now >= s.ping {
			s.ping = now + s.script.Ping
			s.comment(buf)
		}
		return underWay
	}
	s.ping = now + s.script.Ping
	if s.chunk == s.script.Fault.Chunk && !s.faultPlayed {
		s.faultPlayed = true
		switch s.script.Fault.Kind {
		case Reset:
			return resetting
		case Cut:
			return closing
		case Failure:
			s.errorEvent(buf, now)
			return finished
		case Garbage:
			s.garbageEvent(buf)
			return underWay
		case Stall:
			s.stall()
			return underWay
		}
	}
	return s.play(buf, now)
}

// stall moves the plan of what is left.
func (s *stream) stall() {
	pause := s.script.Fault.For
	if pause == 0 {
		s.due = never
		return
	}
	s.grid += pause
	s.due += pause
}

// play puts the next chunk into buf.out, and the end of the answer behind the last one.
func (s *stream) play(buf *eventBuffer, now time.Duration) fate {
	tokens := min(s.script.tokensIn(s.chunk), s.tokens-s.sent)
	if s.sent < s.thinking {
		tokens = min(tokens, s.thinking-s.sent)
	}
	last := s.sent+tokens == s.tokens // also of an answer without a token
	if s.api == responses {
		s.responseChunk(buf, tokens, last, now)
	} else {
		s.choiceChunk(buf, tokens, last, now)
	}
	if last {
		buf.out = append(buf.out, "0\r\n\r\n"...)
		return finished
	}
	s.chunk++
	s.grid += s.script.Gap
	s.due = max(s.due, s.grid+s.jitter())
	return underWay
}

// choiceChunk puts the events of a chunk of chat or completions, in the order of the shape:
// role, text, finish_reason, usage, [DONE].
func (s *stream) choiceChunk(buf *eventBuffer, tokens int, last bool, now time.Duration) {
	if s.chunk == 0 && s.api == chat && !s.shape.RoleEarly && !s.shape.RoleJoined {
		s.choiceEvent(buf, choice{role: true}, now)
	}
	own := s.shape.OwnFinish // else the last text says why it is the last
	if tokens > 0 || !own {
		s.choiceEvent(buf, choice{tokens: tokens, finish: last && !own}, now)
	}
	if !last {
		return
	}
	if own {
		s.choiceEvent(buf, choice{finish: true}, now)
	}
	if s.ask.wantsUsage() && !s.shape.NoUsage && !s.shape.FinishUsage {
		s.openEvent(buf, "")
		buf.event = append(buf.event, s.form.head...)
		buf.event = append(buf.event, s.form.middle...)
		buf.event = append(buf.event, `,"usage":`...)
		buf.event = s.appendUsage(buf.event)
		s.stampAndCloseEvent(buf, now)
	}
	s.doneEvent(buf)
}

// doneEvent puts [DONE].
func (s *stream) doneEvent(buf *eventBuffer) {
	if s.shape.NoDone {
		return
	}
	s.openEvent(buf, "")
	buf.event = append(buf.event, "[DONE]"...)
	s.closeEvent(buf)
}

// A choice is what an event has in its choices.
type choice struct {
	role   bool // the role and nothing else
	tokens int
	finish bool
}

// choiceEvent puts one event with choices; form says how.
func (s *stream) choiceEvent(buf *eventBuffer, what choice, now time.Duration) {
	form := &s.form
	s.openEvent(buf, "")
	dst := append(buf.event, form.head...)
	dst = append(dst, form.opening...)
	if form.finishFirst {
		dst = s.appendFinish(dst, what.finish)
		dst = append(dst, form.between...)
		dst = s.appendDelta(dst, what)
	} else {
		dst = s.appendDelta(dst, what)
		dst = append(dst, form.between...)
		dst = s.appendFinish(dst, what.finish)
	}
	dst = append(dst, form.ending...)
	if form.tokenIDs {
		dst = s.appendTokenIDs(dst, what.tokens)
	}
	dst = append(dst, '}')
	dst = append(dst, form.middle...)
	s.sent += what.tokens
	switch { // counts what this event brings, so it stands behind sent
	case s.ask.wantsRunningUsage() || (what.finish && s.shape.FinishUsage && s.ask.wantsUsage() && !s.shape.NoUsage):
		dst = append(dst, `,"usage":`...)
		dst = s.appendUsage(dst)
	case s.shape.NullUsage && s.ask.wantsUsage():
		dst = append(dst, `,"usage":null`...)
	}
	buf.event = dst
	s.stampAndCloseEvent(buf, now)
	s.recordSend(now, what.tokens)
}

// recordSend writes an event of the stream into the record.
func (s *stream) recordSend(now time.Duration, tokens int) {
	s.record.Sends = append(s.record.Sends, Send{Planned: min(s.due, now), Actual: now, Tokens: tokens})
}

func (s *stream) appendFinish(dst []byte, finish bool) []byte {
	if !finish {
		return append(dst, "null"...)
	}
	return append(dst, quote(s.finishReason())...)
}

func (s *stream) finishReason() string {
	if s.script.Finish == "" {
		return "length"
	}
	return s.script.Finish
}

// appendDelta appends what the choice brings.
func (s *stream) appendDelta(dst []byte, what choice) []byte {
	form := &s.form
	switch {
	case what.role:
		return append(dst, form.role...)
	case what.tokens == 0:
		return append(dst, form.none...)
	}
	before, after := form.before, form.after
	if s.sent < s.thinking {
		before, after = form.think, form.thought
	}
	if s.api == chat && s.shape.RoleJoined && s.sent == 0 && !strings.HasPrefix(before, `"role"`) {
		dst = append(dst, `"role":"assistant",`...)
	}
	dst = append(dst, before...)
	dst = s.appendText(dst, s.sent, s.sent+what.tokens)
	return append(dst, after...)
}

// appendText appends the texts of tokens from to to, as they stand inside of a JSON string.
func (s *stream) appendText(dst []byte, from, to int) []byte {
	for i := from; i < to; i++ {
		dst = append(dst, s.words[i%len(s.words)]...)
	}
	return dst
}

// appendTokenIDs appends the member token_ids: token i of an answer has the id i.
func (s *stream) appendTokenIDs(dst []byte, tokens int) []byte {
	dst = append(dst, `,"token_ids":`...)
	if tokens == 0 || !s.ask.ReturnTokenIDs {
		return append(dst, "null"...)
	}
	sep := byte('[')
	for i := range tokens {
		dst = strconv.AppendInt(append(dst, sep), int64(s.sent+i), 10)
		sep = ','
	}
	return append(dst, ']')
}

// usage is what the answer says of the tokens sent so far.
func (s *stream) usage() Usage {
	if s.script.Usage != nil {
		return *s.script.Usage
	}
	return Usage{Prompt: s.prompt, Completion: s.sent, Cached: s.script.Cached, Reasoning: min(s.sent, s.thinking)}
}

func (s *stream) appendUsage(dst []byte) []byte {
	usage := s.usage()
	dst = appendMember(dst, `{"prompt_tokens":`, usage.Prompt)
	dst = appendMember(dst, `,"total_tokens":`, usage.Prompt+usage.Completion)
	dst = appendMember(dst, `,"completion_tokens":`, usage.Completion)
	if usage.Cached > 0 {
		dst = append(appendMember(dst, `,"prompt_tokens_details":{"cached_tokens":`, usage.Cached), '}')
	}
	if usage.Reasoning > 0 {
		dst = append(appendMember(dst, `,"completion_tokens_details":{"reasoning_tokens":`, usage.Reasoning), '}')
	}
	return append(dst, '}')
}

func appendMember(dst []byte, name string, number int) []byte {
	return strconv.AppendInt(append(dst, name...), int64(number), 10)
}

// breakdown is an error as vLLM sends it within a stream.
const breakdown = `{"error":{"message":"the script says so","type":"InternalServerError","param":null,"code":500}}`

func (s *stream) errorEvent(buf *eventBuffer, now time.Duration) {
	if s.api == responses {
		s.responseEvent(buf, "error", []byte(`,"code":"server_error","message":"the script says so","param":null`), now)
	} else {
		s.openEvent(buf, "")
		buf.event = append(buf.event, breakdown...)
		s.closeEvent(buf)
		s.doneEvent(buf)
	}
	buf.out = append(buf.out, "0\r\n\r\n"...)
}

func (s *stream) garbageEvent(buf *eventBuffer) {
	s.openEvent(buf, "")
	buf.event = append(buf.event, `{"id":"broken","choices":[{`...)
	s.closeEvent(buf)
}
