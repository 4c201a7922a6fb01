package emu

import (
	"slices"
	"time"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu/exec"
)

// A stream is a queue of work. Pieces are numbered; done and last say how far it has come.
type stream struct {
	id         driver.Stream
	context    *context
	queue      []*piece
	done, last int64
	destroyed  bool
	capture    *capture // that records what the stream is given
	captured   int      // pieces recorded
}

// A piece is one entry of a stream.
type piece struct {
	what   string
	run    func() *exec.Fault
	after  *moment // what has to happen before; nil: nothing
	moment *moment // what happens with it
	busy   bool    // somebody executes it
}

// A moment is one recording of an event.
type moment struct {
	stream   *stream
	number   int64 // of the piece in the stream
	done     bool
	clock    int64
	capture  *capture // recorded, not done
	captured int      // pieces of the stream that were recorded until then
}

// An event can be recorded again and again; the last time counts.
type event struct {
	timed  bool
	moment *moment
}

// finish says that a piece has been done.
func (o *piece) finish(clock int64) {
	if o.moment != nil {
		o.moment.done, o.moment.clock = true, clock
	}
}

// streamOf finds a stream of the context.
func (c *context) streamOf(id driver.Stream) (*stream, error) {
	if s := c.streams[id]; s != nil {
		return s, nil
	}
	if id == 0 {
		return nil, failure(invalidHandle, "stream 0 is refused: it synchronises with all others")
	}
	return nil, failure(invalidHandle, "%#x is no stream of the current context", uintptr(id))
}

// enqueue gives work to a stream, or to the graph that is recorded from it.
func (c *context) enqueue(id driver.Stream, n node) error {
	s, err := c.streamOf(id)
	if err != nil {
		return err
	}
	if s.capture != nil {
		s.capture.nodes = append(s.capture.nodes, n)
		s.captured++
		return nil
	}
	s.push(&piece{what: n.what, run: n.issue()})
	return nil
}

func (s *stream) push(o *piece) {
	s.last++
	if o.moment != nil {
		o.moment.stream, o.moment.number = s, s.last
	}
	s.queue = append(s.queue, o)
}

// advance does work until a stream has come to a piece, and what that depends on in other streams.
// It is called without the lock; kernels run without it.
func (m *Machine) advance(s *stream, number int64) error {
	for {
		m.mu.Lock()
		if s.context.broken != nil {
			defer m.mu.Unlock()
			return s.context.broken
		}
		if s.done >= number {
			m.mu.Unlock()
			return nil
		}
		m.mu.Unlock()
		if err := m.step(s); err != nil {
			return err
		}
	}
}

// step does the next piece of a stream, or one that it waits for.
func (m *Machine) step(s *stream) error {
	m.mu.Lock()
	if len(s.queue) == 0 {
		m.mu.Unlock()
		return nil
	}
	o := s.queue[0]
	if o.busy { // by another goroutine
		m.mu.Unlock()
		time.Sleep(20 * time.Microsecond)
		return nil
	}
	if after := o.after; after != nil && !after.done && after.stream.context.broken == nil {
		m.mu.Unlock()
		return m.step(after.stream)
	}
	o.busy = true
	m.mu.Unlock()

	c := s.context
	var failed *exec.Fault
	if o.run != nil {
		c.card.running.Lock()
		failed = o.run()
		c.card.running.Unlock()
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if failed != nil {
		c.breakWith(failed, o.what)
		return c.broken
	}
	if len(s.queue) > 0 && s.queue[0] == o { // else the context was lost meanwhile
		s.queue = s.queue[1:]
		s.done++
		o.finish(c.clock)
	}
	if s.destroyed && len(s.queue) == 0 {
		c.order = slices.DeleteFunc(c.order, func(other *stream) bool { return other == s })
	}
	return nil
}

func (m *Machine) synchronize() error {
	var streams []*stream
	err := m.in("Synchronize", "cuCtxSynchronize", func(c *context) error {
		if err := c.refuse(captureUnsupported, "nobody can wait"); err != nil {
			return err
		}
		streams = slices.Clone(c.order)
		return nil
	})
	for _, s := range streams {
		if err == nil {
			err = m.advance(s, s.last)
		}
	}
	return ofCall(err, "cuCtxSynchronize")
}

func (m *Machine) streamCreate() (id driver.Stream, err error) {
	err = m.in("StreamCreate", "cuStreamCreate", func(c *context) error {
		s := &stream{id: driver.Stream(m.handle()), context: c}
		c.streams[s.id] = s
		c.order = append(c.order, s)
		id = s.id
		return nil
	})
	return id, err
}

func (m *Machine) streamDestroy(id driver.Stream) error {
	return m.in("StreamDestroy", "cuStreamDestroy", func(c *context) error {
		s, err := c.streamOf(id)
		if err != nil {
			return err
		}
		if s.capture != nil {
			return failure(captureUnsupported, "the stream is being recorded")
		}
		delete(c.streams, id)
		s.destroyed = true
		if len(s.queue) == 0 {
			c.order = slices.DeleteFunc(c.order, func(other *stream) bool { return other == s })
		}
		return nil
	})
}

func (m *Machine) streamSync(id driver.Stream) error {
	var s *stream
	var last int64
	err := m.in("StreamSync", "cuStreamSynchronize", func(c *context) (err error) {
		if s, err = c.streamOf(id); err != nil {
			return err
		}
		last = s.last
		return s.refuse("nobody can wait for it")
	})
	if err == nil {
		err = m.advance(s, last)
	}
	return ofCall(err, "cuStreamSynchronize")
}

// eventOf finds an event, of whichever context.
func (m *Machine) eventOf(id driver.Event) (*event, error) {
	for _, c := range m.contexts {
		if e := c.events[id]; e != nil {
			return e, nil
		}
	}
	return nil, failure(invalidHandle, "%#x is no event", uintptr(id))
}

func (m *Machine) streamWait(id driver.Stream, of driver.Event) error {
	return m.in("StreamWait", "cuStreamWaitEvent", func(c *context) error {
		s, err := c.streamOf(id)
		if err != nil {
			return err
		}
		e, err := m.eventOf(of)
		if err != nil {
			return err
		}
		at := e.moment
		if at != nil && at.capture != nil {
			return at.capture.join(s, at)
		}
		if s.capture != nil {
			s.capture.invalid = true
			return failure(captureIsolation, "a stream that is being recorded cannot wait for an event that is not")
		}
		if at == nil || at.done { // an event that was never recorded has happened
			return nil
		}
		s.push(&piece{what: "wait for an event", after: at})
		return nil
	})
}

func (m *Machine) eventCreate(timed bool) (id driver.Event, err error) {
	err = m.in("EventCreate", "cuEventCreate", func(c *context) error {
		id = driver.Event(m.handle())
		c.events[id] = &event{timed: timed}
		return nil
	})
	return id, err
}

func (m *Machine) eventDestroy(id driver.Event) error {
	return m.in("EventDestroy", "cuEventDestroy", func(c *context) error {
		if c.events[id] == nil {
			return failure(invalidHandle, "%#x is no event of the current context", uintptr(id))
		}
		delete(c.events, id)
		return nil
	})
}

func (m *Machine) eventRecord(id driver.Event, on driver.Stream) error {
	return m.in("EventRecord", "cuEventRecord", func(c *context) error {
		e := c.events[id]
		if e == nil {
			return failure(invalidHandle, "%#x is no event of the current context", uintptr(id))
		}
		s, err := c.streamOf(on)
		if err != nil {
			return err
		}
		e.moment = &moment{stream: s, capture: s.capture, captured: s.captured}
		if s.capture == nil {
			s.push(&piece{what: "record of an event", moment: e.moment})
		}
		return nil
	})
}

// recorded returns the moment of an event that can be asked for.
func (m *Machine) recorded(id driver.Event) (*moment, error) {
	e, err := m.eventOf(id)
	if err != nil {
		return nil, err
	}
	if e.moment != nil && e.moment.capture != nil {
		e.moment.capture.invalid = true
		return nil, failure(capturedEvent, "the event is part of a graph that is being recorded")
	}
	return e.moment, nil
}

// eventQuery lets the event's stream do one piece of its work after it has looked: a program that
// asks again and again gets its answer, and not sooner than it has to.
func (m *Machine) eventQuery(id driver.Event) (done bool, err error) {
	var at *moment
	err = m.in("EventQuery", "cuEventQuery", func(c *context) (err error) {
		at, err = m.recorded(id)
		done = at == nil || at.done
		return err
	})
	if err == nil && !done {
		err = m.step(at.stream)
	}
	return done && err == nil, ofCall(err, "cuEventQuery")
}

func (m *Machine) eventSync(id driver.Event) error {
	var at *moment
	err := m.in("EventSync", "cuEventSynchronize", func(c *context) (err error) {
		at, err = m.recorded(id)
		return err
	})
	if err == nil && at != nil {
		err = m.advance(at.stream, at.number)
	}
	return ofCall(err, "cuEventSynchronize")
}

// eventElapsed counts a million warp instructions as a millisecond.
func (m *Machine) eventElapsed(from, to driver.Event) (ms float32, err error) {
	err = m.in("EventElapsed", "cuEventElapsedTime", func(c *context) error {
		var clocks [2]int64
		for i, id := range []driver.Event{from, to} {
			e, err := m.eventOf(id)
			switch {
			case err != nil:
				return err
			case !e.timed || e.moment == nil || e.moment.capture != nil:
				return failure(invalidHandle, "the event is not a timed one, or was not recorded")
			case !e.moment.done:
				return failure(notReady, "the event has not happened yet")
			}
			clocks[i] = e.moment.clock
		}
		ms = float32(clocks[1]-clocks[0]) / 1e6
		return nil
	})
	return ms, err
}
