package engine

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ossian/internal/sample"
	"ossian/internal/sched"
)

// A Token is one id of the output.
type Token struct {
	ID       int32
	Logprobs []sample.Logprob // the chosen id, then the most likely ones; nil unless asked for
}

// Usage counts the tokens of a request.
type Usage struct {
	Prompt     int
	Cached     int // leading prompt tokens found in the prefix cache
	Completion int // ids given to the stream
}

// Times are read from the engine's clock; zero = did not happen.
type Times struct {
	Queued    time.Time   // Submit accepted the request
	Scheduled time.Time   // it was given blocks, for the last time before its first token
	First     time.Time   // its first token arrived
	Finished  time.Time   // it ended
	Preempted []time.Time // its blocks were taken, to be computed again later; of many the first

	Preemptions int // times that they were taken, all of them
}

// A Stream is the output of one request. One goroutine receives; any may stop it.
//
// What the loop delivers waits in the stream until Recv takes it. That memory is
// bounded by the request's token budget: a slow reader gets larger pieces and
// delays nobody.
type Stream struct {
	ID        uint64 // unique in this engine, for logs
	MaxTokens int    // output tokens at most, after the clamp to the context

	eng     *Engine
	req     Request
	probe   bool
	stopped atomic.Bool
	detach  func() bool // ends the watch over the context of Submit; nil = none

	ready chan struct{} // holds one signal: something to receive

	// These belong to the loop, and to the supervisor when there is none.
	seq     *sched.Seq // nil = not in a scheduler
	retried bool       // has begun twice

	mu     sync.Mutex     // guards what follows
	scores []sample.Score // of the prompt
	unread []Token
	taken  []Token // what Recv returned last, to be filled again
	finish sched.Finish
	err    error // why it failed; nil = it ran to its end
	usage  Usage
	times  Times

	ending  sched.Finish // how it will end, from its last tokens on: before finish, which comes when all is cleared
	settled bool         // nobody wants more: it is neither given nor counted
}

// Recv waits for tokens and returns all that arrived since the last call; they are
// valid until the next one. After the last token it returns io.EOF, or what made
// the request fail: ErrInterrupted, ErrStopped, or what its constraint says. An
// error of ctx ends the call only.
func (s *Stream) Recv(ctx context.Context) ([]Token, error) {
	for {
		out, err := s.take()
		if err != nil {
			s.detachContext()
			return nil, err
		}
		if len(out) > 0 {
			return out, nil
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take returns what is there, or why nothing more will come.
func (s *Stream) take() ([]Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.unread) > 0:
		s.unread, s.taken = s.taken[:0], s.unread
		return s.taken, nil
	case s.finish == sched.FinishNone:
		return nil, nil
	case s.err != nil:
		return nil, s.err
	}
	return nil, io.EOF
}

// Scores hands over what Params.PromptLogprobs asks for: how likely each prompt token
// but the first was. It is there, once, when Recv has returned the first token.
func (s *Stream) Scores() []sample.Score {
	s.mu.Lock()
	defer s.mu.Unlock()
	scores := s.scores
	s.scores = nil
	return scores
}

// Stop ends the request by the end of the running step. It returns at once and may
// be called at any time, again, and after the end. Whoever has called Submit calls
// it, or ends that call's context, before leaving.
func (s *Stream) Stop() {
	s.detachContext()
	s.halt()
}

func (s *Stream) halt() {
	if !s.stopped.Swap(true) {
		s.eng.stop(s)
	}
}

func (s *Stream) detachContext() {
	if s.detach != nil {
		s.detach()
	}
}

// End returns how the request ended, its tokens and its times. Before Recv has
// returned io.EOF or a failure the values may still change.
func (s *Stream) End() (sched.Finish, Usage, Times) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finish, s.usage, s.times
}

// Ends returns how the request ends if so many tokens are all that it gives: who has received the last
// one need not wait for io.EOF to know. FinishNone = there are more, or it is not known yet.
func (s *Stream) Ends(tokens int) sched.Finish {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tokens != s.usage.Completion {
		return sched.FinishNone
	}
	return s.ending
}

// Settle stops the request and returns what it took. From now on nothing of it is counted in
// Engine.Stats: whoever adds up the usage of all streams gets the same totals.
func (s *Stream) Settle() Usage {
	s.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = true
	return s.usage
}

// push delivers the tokens of a step, on behalf of the loop, so that Recv returns them together; it
// reports whether the first of all is among them. ending is how the stream ends with them, FinishNone if
// it goes on. It never waits for the reader.
func (s *Stream) push(outputs []sched.Output, ending sched.Finish, now time.Time) (first, given bool) {
	s.mu.Lock()
	if s.settled {
		s.mu.Unlock()
		return false, false
	}
	if first = s.usage.Completion == 0; first {
		s.scores = outputs[0].Scores
		s.usage.Cached, s.times.Scheduled, s.times.First = s.seq.Cached, s.seq.Scheduled, now
		s.req.Tokens = nil // from here on it cannot begin again
		s.req.Shown.Speak(s.seq.Cached)
	}
	s.usage.Completion += len(outputs)
	s.ending = ending
	s.times.Preemptions = s.seq.Preemptions // who stops it does not wait for leave
	for i := range outputs {
		s.unread = append(s.unread, Token{ID: outputs[i].Token, Logprobs: slices.Clone(outputs[i].Logprobs)})
	}
	s.mu.Unlock()
	s.signal()
	return first, true
}

// leave takes over what the scheduler knows of a stream that the loop is about to
// end, and lets go of the rest.
func (s *Stream) leave() {
	s.mu.Lock()
	if s.seq != nil {
		s.usage.Cached, s.times.Scheduled, s.times.Preempted, s.times.Preemptions = s.seq.Cached, s.seq.Scheduled, s.seq.Preempted, s.seq.Preemptions
	}
	s.seq = nil
	s.mu.Unlock()
}

// close ends the stream. The loop may not know yet: what it reads stays.
func (s *Stream) close(finish sched.Finish, err error, now time.Time) {
	s.mu.Lock()
	s.finish, s.err, s.times.Finished = finish, err, now
	s.req.Shown.Leave()
	s.mu.Unlock()
	s.signal()
}

// rewind prepares the stream for another loop, if it may begin again there: it has
// given nothing, and it has not been there when two loops failed.
func (s *Stream) rewind() bool {
	if seq := s.seq; seq != nil && !seq.Started.IsZero() {
		if s.usage.Completion > 0 || s.retried {
			return false
		}
		s.retried = true
	}
	s.seq = nil
	s.req.Shown.Queue(len(s.req.Tokens))
	return true
}

func (s *Stream) signal() {
	select {
	case s.ready <- struct{}{}:
	default: // a signal is waiting already
	}
}
