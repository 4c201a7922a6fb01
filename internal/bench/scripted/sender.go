package scripted

import (
	"slices"
	"sync"
	"time"
)

// A sender plays streams. Its goroutine owns the heap, the ink and every stream in the
// heap; connections only put streams into the inbox.
type sender struct {
	srv  *Server
	wake chan struct{} // holds one: the inbox may have something
	heap []entry       // a binary heap, the earliest first
	ink  ink

	mu     sync.Mutex
	inbox  []*stream
	closed bool
}

type entry struct {
	at time.Duration
	s  *stream
}

func newSender(srv *Server) *sender { return &sender{srv: srv, wake: make(chan struct{}, 1)} }

// put hands s over; false = the sender has stopped.
func (q *sender) put(s *stream) bool {
	q.mu.Lock()
	closed := q.closed
	if !closed {
		q.inbox = append(q.inbox, s)
	}
	q.mu.Unlock()
	q.ring()
	return !closed
}

func (q *sender) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// stop makes run return.
func (q *sender) stop() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.ring()
}

// take moves the inbox into the heap; false = the sender is to stop.
func (q *sender) take(now time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.inbox {
		q.push(entry{s.wake(now), s})
	}
	clear(q.inbox)
	q.inbox = q.inbox[:0]
	return !q.closed
}

const (
	batch = 64 // streams served between two looks at the inbox
	fine  = 250 * time.Microsecond
	slack = time.Millisecond // what a timer of the runtime may be late
)

func (q *sender) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	now := q.srv.now()
	for q.take(now) {
		for range batch {
			if len(q.heap) == 0 || q.heap[0].at > now {
				q.rest(timer, now)
				now = q.srv.now()
				break
			}
			q.serve(now)
			now = q.srv.now()
		}
	}
	for _, e := range q.heap {
		q.srv.end(e.s, "the server has stopped")
	}
}

// rest waits until the next stream is due, or shortly before, or one may have come.
func (q *sender) rest(timer *time.Timer, now time.Duration) {
	wait := time.Hour
	if len(q.heap) > 0 {
		wait = q.heap[0].at - now
	}
	if wait < 2*slack {
		nap(min(wait, fine))
		return
	}
	timer.Reset(wait - slack)
	select {
	case <-q.wake:
	case <-timer.C:
	}
}

// serve gives the earliest stream its turn.
func (q *sender) serve(now time.Duration) {
	at, more := q.step(q.heap[0].s, now)
	if !more {
		q.pop()
		return
	}
	q.heap[0].at = at
	q.down()
}

// step writes what is due of s and returns when it wants its next turn; more is false
// when it has left the sender.
func (q *sender) step(s *stream, now time.Duration) (at time.Duration, more bool) {
	if s.gone.Load() {
		q.srv.end(s, "the client has gone away")
		return 0, false
	}
	if len(s.rest) == 0 && s.fate == goesOn {
		q.ink.out = q.ink.out[:0]
		s.fate = s.turn(&q.ink, now)
		s.rest = q.ink.out
		if s.script.Split > 0 {
			s.own = append(s.own[:0], s.rest...)
			s.rest = s.own
		}
	}
	n := len(s.rest)
	if s.script.Split > 0 {
		n = min(n, s.script.Split)
	}
	if n > 0 {
		wrote, err := s.out.write(s.rest[:n])
		if err != nil {
			q.srv.end(s, err.Error())
			return 0, false
		}
		s.rest = s.rest[wrote:]
		if wrote < n {
			q.block(s)
			return 0, false
		}
	}
	switch {
	case len(s.rest) > 0:
		return now + s.script.SplitGap, true
	case s.fate != goesOn:
		q.srv.end(s, "")
		return 0, false
	}
	s.rest = nil
	return s.wake(now), true
}

// block lets a goroutine wait for a client that does not read; then s comes back.
func (q *sender) block(s *stream) {
	q.srv.blocked.Add(1)
	rest := slices.Clone(s.rest)
	s.rest = nil
	q.srv.wait.Go(func() {
		if _, err := s.conn.Write(rest); err != nil {
			s.gone.Store(true)
		}
		if !q.put(s) {
			q.srv.end(s, "the server has stopped")
		}
	})
}

func (q *sender) push(e entry) {
	q.heap = append(q.heap, e)
	for i := len(q.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if q.heap[parent].at <= q.heap[i].at {
			return
		}
		q.heap[parent], q.heap[i] = q.heap[i], q.heap[parent]
		i = parent
	}
}

func (q *sender) pop() {
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap[last] = entry{}
	q.heap = q.heap[:last]
	q.down()
}

// down lets the first entry sink to its place.
func (q *sender) down() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(q.heap) {
			return
		}
		if right := child + 1; right < len(q.heap) && q.heap[right].at < q.heap[child].at {
			child = right
		}
		if q.heap[i].at <= q.heap[child].at {
			return
		}
		q.heap[i], q.heap[child] = q.heap[child], q.heap[i]
		i = child
	}
}
