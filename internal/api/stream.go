package api

import (
	"time"

	"ossian/internal/generate"
	"ossian/internal/limits"
	"ossian/internal/wire"
)

// An Encoder writes the chunks of one API.
type Encoder interface {
	// Begin appends the chunk that opens choice i, if the API has one.
	Begin(dst []byte, i int, usage *wire.Usage) []byte
	// Chunk appends d and the ids that came with it; usage is running usage.
	Chunk(dst []byte, i int, d *generate.Delta, ids []int32, usage *wire.Usage) []byte
	// End appends the chunk that finishes choice i.
	End(dst []byte, i int, a *generate.Answer, usage *wire.Usage) []byte
	// Finish appends what ends the stream; usage is the whole request's.
	Finish(dst []byte, usage *wire.Usage) []byte
	// Fail appends what ends a stream that an error cuts off.
	Fail(dst []byte, e *wire.Error) []byte
}

// A Closer is an encoder whose last chunk of a choice says how the choice ended, too.
type Closer interface {
	// Close appends d, which is all that is left of choice i, and finishes it.
	Close(dst []byte, i int, d *generate.Delta, a *generate.Answer, usage *wire.Usage) []byte
}

// A source is the job whose answers an output sends.
type source interface {
	Answers() []*generate.Answer
	Usage() wire.Usage
	Size() int64
	MarkSent()
}

// A stream sends answers as server-sent events (generate.Output). Its buffer is borrowed
// from Open to Flush, while an arrival is being written: between tokens a stream has none.
type stream struct {
	front    *Front
	job      source
	w        *Reply // nil with a sink
	enc      Encoder
	sink     func(events []byte) error // gets the events instead of the client; nil = the client gets them
	interval int                       // tokens per chunk at most, after the first
	running  bool                      // usage on every chunk
	progress func(dst []byte) []byte   // tells how far the prompt is; nil = nobody asked
	books    bool                      // what the encoder has written stays in memory: it is booked

	choices []pending
	opened  int // choices that have sent the chunk that opens them
	buf     *[]byte
	waiting int // bytes of the arrival being encoded that wait for the client
	wrote   time.Time
	err     error // of writing, told by Flush
}

// pending is what a choice has not sent yet.
type pending struct {
	delta generate.Delta
	since int // tokens since the last chunk
	sent  bool
}

// Idle implements generate.Output: it shows that the connection lives, and finds out
// whether it does (LIF-3): to one that was closed the first write still succeeds.
func (s *stream) Idle() error {
	if s.sink != nil {
		return nil
	}
	if err := s.w.probe(); err != nil {
		return err
	}
	if s.progress != nil {
		return s.waits()
	}
	return s.ping()
}

func (s *stream) ping() error { return s.write([]byte(wire.Ping)) }

// Open implements generate.Output: it borrows the buffer and opens choice i, after those
// before it: clients that put a reply together add choices in the order of their indices.
func (s *stream) Open(i int) {
	s.buf, s.waiting = s.front.buffer(), 0
	for ; s.opened <= i; s.opened++ {
		*s.buf = s.enc.Begin(*s.buf, s.opened, s.usage())
	}
	s.waiting -= len(*s.buf) // it repeats the request, which may be long, but did not wait for the client
}

// Token implements generate.Output: it sends what the latest token brought, or keeps it
// for the interval.
func (s *stream) Token(choice int) {
	answer, held := s.job.Answers()[choice], &s.choices[choice]
	held.since++
	// Deltas that can be one piece wait together; another sends what waits first.
	for k := range answer.Deltas {
		delta := &answer.Deltas[k]
		if s.books {
			answer.Book(delta.Size())
		}
		if held.delta.Field != generate.NoField && (!delta.Joins(&held.delta) || len(held.delta.Text) > writeSize) {
			s.chunk(choice)
		}
		if held.delta.Field == generate.NoField {
			held.delta = *delta
			continue
		}
		held.delta.Text += delta.Text
		held.delta.Logprobs = append(held.delta.Logprobs, delta.Logprobs...)
	}
	answer.Taken()
	switch {
	case answer.Done:
		s.end(choice, answer)
	case held.since >= s.interval || !held.sent || held.delta.Field >= generate.ToolBegins: // tools take their time
		s.chunk(choice)
	}
}

// end encodes the pending delta of a choice and its end, in one chunk if the API has that.
func (s *stream) end(choice int, answer *generate.Answer) {
	held := &s.choices[choice]
	if closer, ok := s.enc.(Closer); ok && held.delta.Field != generate.NoField {
		s.part(choice, closer.Close(*s.buf, choice, &held.delta, answer, s.usage()))
		return
	}
	s.chunk(choice)
	*s.buf = s.enc.End(*s.buf, choice, answer, s.usage())
}

// chunk encodes the pending delta of a choice.
func (s *stream) chunk(choice int) {
	answer, held := s.job.Answers()[choice], &s.choices[choice]
	if held.delta.Field == generate.NoField {
		return
	}
	s.part(choice, s.enc.Chunk(*s.buf, choice, &held.delta, answer.NewIDs, s.usage()))
}

// part takes the buffer with the pending delta of a choice in it.
func (s *stream) part(choice int, buf []byte) {
	answer, held := s.job.Answers()[choice], &s.choices[choice]
	if !held.sent || held.delta.Field == generate.ItemEnds {
		s.waiting -= len(buf) - len(*s.buf) // an echo may be long, and so may the end of an item, but they did not wait for the client
	}
	*s.buf = buf
	held.delta, held.since, held.sent = generate.Delta{}, 0, true
	if answer.NewIDs != nil {
		answer.NewIDs = answer.NewIDs[:0]
	}
	if len(*s.buf) >= writeSize {
		s.drain()
	}
}

// drain writes the buffer while more of the same arrival is coming.
func (s *stream) drain() {
	s.waiting += len(*s.buf)
	if s.err == nil && s.sink == nil && int64(s.waiting) > s.front.Limits()[limits.PendingOutput] {
		s.err = errPending
	}
	if s.err == nil {
		s.err = s.write(*s.buf)
	}
	*s.buf = (*s.buf)[:0]
}

// Flush implements generate.Output.
func (s *stream) Flush(int) error {
	if s.err == nil && len(*s.buf) > 0 {
		s.err = s.write(*s.buf)
	}
	s.front.giveBack(s.buf)
	s.buf = nil
	return s.err
}

// Finish implements generate.Output.
func (s *stream) Finish() error {
	usage := s.job.Usage()
	buf := s.front.buffer()
	defer s.front.giveBack(buf)
	*buf = s.enc.Finish(*buf, &usage)
	return s.write(*buf)
}

// usage returns running usage if chunks carry it.
func (s *stream) usage() *wire.Usage {
	if !s.running {
		return nil
	}
	u := s.job.Usage()
	return &u
}

// fail tells the client that the stream ends early. Before the first byte that is
// an ordinary reply.
func (s *stream) fail(err error) error {
	if s.sink != nil || !s.w.begun || generate.Gone(err) {
		return err
	}
	_ = s.write(s.enc.Fail(nil, s.front.Explain(s.w.ID, err)))
	return nil
}

// write sends events.
func (s *stream) write(events []byte) error {
	if s.sink != nil {
		return s.sink(events)
	}
	if err := s.w.Events(events); err != nil {
		return err
	}
	s.wrote = time.Now()
	s.job.MarkSent()
	return nil
}
