package scripted

import (
	"slices"
	"sync"
	"time"
)

// A sender plays streams. Its goroutine owns the heap, the buffer and every stream in the
// heap; connections only put streams into the inbox. A stream is
//
//	in the inbox → in the heap → blocked, while its client does not read → in the inbox …
//	                           → finished
type sender struct {
	srv    *Server
	wake   chan struct{} // holds one: the inbox may have something
	heap   []entry       // a binary heap, the earliest first
	buffer eventBuffer

	mu     sync.Mutex // guards the fields below
	inbox  []*stream  // not in the heap yet
	closed bool       // nothing is taken any more
}

// An entry is a stream and when it wants its next turn.
type entry struct {
	at time.Duration
	s  *stream
}

func newSender(srv *Server) *sender { return &sender{srv: srv, wake: make(chan struct{}, 1)} }

// put hands s over; false = the sender has stopped.
func (snd *sender) put(s *stream) bool {
	snd.mu.Lock()
	closed := snd.closed
	if !closed {
		snd.inbox = append(snd.inbox, s)
	}
	snd.mu.Unlock()
	snd.ring()
	return !closed
}

// ring wakes the sender if it sleeps. One ring is enough for many streams.
func (snd *sender) ring() {
	select {
	case snd.wake <- struct{}{}:
	default:
	}
}

// stop makes run return.
func (snd *sender) stop() {
	snd.mu.Lock()
	snd.closed = true
	snd.mu.Unlock()
	snd.ring()
}

// take moves the inbox into the heap; false = the sender is to stop.
func (snd *sender) take(now time.Duration) bool {
	snd.mu.Lock()
	defer snd.mu.Unlock()
	for _, s := range snd.inbox {
		snd.push(entry{s.nextTurn(now), s})
	}
	clear(snd.inbox)
	snd.inbox = snd.inbox[:0]
	return !snd.closed
}

const (
	servedAtOnce = 64                     // streams served between two looks at the inbox
	napLimit     = 250 * time.Microsecond // of one nap, which no new stream ends
	timerSlack   = time.Millisecond       // what a timer of the runtime may be late
)

// run plays streams until the sender is stopped.
func (snd *sender) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	now := snd.srv.now()
	for snd.take(now) {
		for range servedAtOnce {
			if len(snd.heap) == 0 || snd.heap[0].at > now {
				snd.sleep(timer, now)
				now = snd.srv.now()
				break
			}
			snd.serve(now)
			now = snd.srv.now()
		}
	}
	for _, e := range snd.heap {
		snd.srv.finish(e.s, "the server has stopped")
	}
}

// sleep waits until the next stream is due, or shortly before, or one may have come.
func (snd *sender) sleep(timer *time.Timer, now time.Duration) {
	wait := time.Hour
	if len(snd.heap) > 0 {
		wait = snd.heap[0].at - now
	}
	if wait < 2*timerSlack {
		nap(min(wait, napLimit))
		return
	}
	timer.Reset(wait - timerSlack)
	select {
	case <-snd.wake:
	case <-timer.C:
	}
}

// serve gives the earliest stream its turn.
func (snd *sender) serve(now time.Duration) {
	at, more := snd.step(snd.heap[0].s, now)
	if !more {
		snd.pop()
		return
	}
	snd.heap[0].at = at
	snd.down()
}

// step writes what is due of a stream and returns when it wants its next turn; more is false
// when it has left the sender.
func (snd *sender) step(stream *stream, now time.Duration) (at time.Duration, more bool) {
	if stream.gone.Load() {
		snd.srv.finish(stream, "the client has gone away")
		return 0, false
	}
	// Something new is made only when all before it was written.
	if len(stream.pending) == 0 && stream.fate == underWay {
		snd.buffer.out = snd.buffer.out[:0]
		stream.fate = stream.advance(&snd.buffer, now)
		stream.pending = snd.buffer.out
		if stream.script.Split > 0 { // other streams use the buffer before all of this one is written
			stream.copied = append(stream.copied[:0], stream.pending...)
			stream.pending = stream.copied
		}
	}
	size := len(stream.pending)
	if stream.script.Split > 0 {
		size = min(size, stream.script.Split)
	}
	if size > 0 {
		wrote, err := stream.out.write(stream.pending[:size])
		if err != nil {
			snd.srv.finish(stream, err.Error())
			return 0, false
		}
		stream.pending = stream.pending[wrote:]
		if wrote < size {
			snd.block(stream)
			return 0, false
		}
	}
	switch {
	case len(stream.pending) > 0:
		return now + stream.script.SplitGap, true
	case stream.fate != underWay:
		snd.srv.finish(stream, "")
		return 0, false
	}
	stream.pending = nil
	return stream.nextTurn(now), true
}

// block lets a goroutine wait for a client that does not read; then the stream comes back.
//
// The rest is copied, as the buffer goes to the next stream.
func (snd *sender) block(stream *stream) {
	snd.srv.blocked.Add(1)
	rest := slices.Clone(stream.pending)
	stream.pending = nil
	snd.srv.goroutines.Go(func() {
		if _, err := stream.conn.Write(rest); err != nil {
			stream.gone.Store(true)
		}
		if !snd.put(stream) {
			snd.srv.finish(stream, "the server has stopped")
		}
	})
}

// push adds an entry at its place in the heap.
func (snd *sender) push(added entry) {
	snd.heap = append(snd.heap, added)
	for at := len(snd.heap) - 1; at > 0; {
		parent := (at - 1) / 2
		if snd.heap[parent].at <= snd.heap[at].at {
			return
		}
		snd.heap[parent], snd.heap[at] = snd.heap[at], snd.heap[parent]
		at = parent
	}
}

// pop removes the first entry.
func (snd *sender) pop() {
	last := len(snd.heap) - 1
	snd.heap[0] = snd.heap[last]
	snd.heap[last] = entry{}
	snd.heap = snd.heap[:last]
	snd.down()
}

// down lets the first entry sink to its place.
func (snd *sender) down() {
	for at := 0; ; {
		child := 2*at + 1
		if child >= len(snd.heap) {
			return
		}
		if right := child + 1; right < len(snd.heap) && snd.heap[right].at < snd.heap[child].at {
			child = right
		}
		if snd.heap[at].at <= snd.heap[child].at {
			return
		}
		snd.heap[at], snd.heap[child] = snd.heap[child], snd.heap[at]
		at = child
	}
}
