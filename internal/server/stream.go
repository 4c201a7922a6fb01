package server

import (
	"errors"
	"time"

	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/wire"
)

// An encoder writes the chunks of one API.
type encoder interface {
	// begin appends the chunk that opens choice i, if the API has one.
	begin(dst []byte, i int, usage *wire.Usage) []byte
	// chunk appends d and the ids that came with it; usage is running usage.
	chunk(dst []byte, i int, d *delta, ids []int32, usage *wire.Usage) []byte
	// end appends the chunk that finishes choice i.
	end(dst []byte, i int, a *answer, usage *wire.Usage) []byte
	// finish appends what ends the stream; u is the whole request's usage.
	finish(dst []byte, u *wire.Usage) []byte
	// fail appends what ends a stream that an error cuts off.
	fail(dst []byte, e *wire.Error) []byte
}

var (
	errStalled = errors.New("server: the client does not read")
	errPending = errors.New("server: the client reads too slowly")
)

// writeSize is how many bytes of a stream are written at once.
const writeSize = 32 << 10

// A stream sends answers as server-sent events. Its buffer is borrowed while
// something is being written: between tokens a stream has none.
type stream struct {
	j        *job
	w        *reply
	enc      encoder
	keep     func(events []byte) error // gets the events instead of the client; nil = the client gets them
	interval int                       // tokens per chunk at most, after the first
	running  bool                      // usage on every chunk
	collects bool                      // the encoder keeps what it has written

	choices []pending
	begun   int // choices that have sent the chunk that opens them
	buf     *[]byte
	total   int // bytes of the arrival being encoded
	err     error
}

// pending is what a choice has not sent yet.
type pending struct {
	d     delta
	since int // tokens since the last chunk
	sent  bool
}

// silent shows that the connection lives, and finds out whether it does (LIF-3): to
// one that was closed the first write still succeeds.
func (st *stream) silent() error {
	if st.keep != nil {
		return nil
	}
	if st.w.left() {
		return errGone
	}
	return st.write([]byte(wire.Ping))
}

// prepare borrows the buffer and opens choice i, after those before it: clients that
// put a reply together add choices in the order of their indices.
func (st *stream) prepare(i int) {
	st.buf, st.total = st.j.s.buffer(), 0
	for ; st.begun <= i; st.begun++ {
		*st.buf = st.enc.begin(*st.buf, st.begun, st.usage())
	}
	st.total -= len(*st.buf) // it repeats the request, which may be long, but did not wait for the client
}

// token sends what the latest token brought, or keeps it for the interval.
func (st *stream) token(i int) {
	a, p := st.j.answers[i], &st.choices[i]
	p.since++
	for k := range a.deltas {
		d := &a.deltas[k]
		if st.collects {
			a.size += d.size()
		}
		if p.d.field != noField && (!d.joins(&p.d) || len(p.d.text) > writeSize) {
			st.flush(i)
		}
		if p.d.field == noField {
			p.d = *d
			continue
		}
		p.d.text += d.text
		p.d.logprobs = append(p.d.logprobs, d.logprobs...)
	}
	clear(a.deltas)
	a.deltas = a.deltas[:0]
	if p.since >= st.interval || !p.sent || a.done {
		st.flush(i)
	}
	if a.done {
		*st.buf = st.enc.end(*st.buf, i, a, st.usage())
	}
}

// flush encodes the pending delta of a choice.
func (st *stream) flush(i int) {
	a, p := st.j.answers[i], &st.choices[i]
	if p.d.field == noField {
		return
	}
	before := len(*st.buf)
	*st.buf = st.enc.chunk(*st.buf, i, &p.d, a.newIDs, st.usage())
	if !p.sent || p.d.field == ends {
		st.total -= len(*st.buf) - before // an echo may be long, and so may the end of an item, but they did not wait for the client
	}
	p.d, p.since, p.sent = delta{}, 0, true
	if a.newIDs != nil {
		a.newIDs = a.newIDs[:0]
	}
	if len(*st.buf) >= writeSize {
		st.drain()
	}
}

// drain writes the buffer while more of the same arrival is coming.
func (st *stream) drain() {
	st.total += len(*st.buf)
	if st.err == nil && st.keep == nil && int64(st.total) > st.j.s.lim()[limits.PendingOutput] {
		st.err = errPending
	}
	if st.err == nil {
		st.err = st.write(*st.buf)
	}
	*st.buf = (*st.buf)[:0]
}

func (st *stream) sent(int) error {
	if st.err == nil && len(*st.buf) > 0 {
		st.err = st.write(*st.buf)
	}
	st.j.s.giveBack(st.buf)
	st.buf = nil
	return st.err
}

func (st *stream) finish() error {
	usage := st.j.usage()
	buf := st.j.s.buffer()
	defer st.j.s.giveBack(buf)
	*buf = st.enc.finish(*buf, &usage)
	return st.write(*buf)
}

// usage returns running usage if chunks carry it.
func (st *stream) usage() *wire.Usage {
	if !st.running {
		return nil
	}
	u := st.j.usage()
	return &u
}

// fail tells the client that the stream ends early. Before the first byte that is
// an ordinary reply.
func (st *stream) fail(err error) error {
	if st.keep != nil || !st.w.begun || gone(err) {
		return err
	}
	p := st.j.s.problem(st.w, err)
	_ = st.write(st.enc.fail(nil, p.body))
	return nil
}

// write sends events.
func (st *stream) write(events []byte) error {
	if st.keep != nil {
		return st.keep(events)
	}
	if err := st.w.events(events); err != nil {
		return err
	}
	st.j.lastSent = time.Now()
	return nil
}

// cutReason is why a stream was cut, for the metrics.
func cutReason(err error) metrics.Cut {
	switch {
	case errors.Is(err, errStalled):
		return metrics.CutStalled
	case errors.Is(err, errPending):
		return metrics.CutPending
	}
	return metrics.CutGone
}
