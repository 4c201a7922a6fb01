package emu

import (
	"fmt"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu/exec"
)

// A capture records what streams are given. Nodes keep their order, which is one in which they may
// be done.
type capture struct {
	origin  *stream
	streams []*stream       // that take part, besides origin
	joined  map[*stream]int // how many of a stream's pieces another one waits for
	nodes   []node
	invalid bool
}

// A graph is what was recorded; an executable one is the same here.
type graph struct{ nodes []node }

// refuse ends the recording that is going on in the context, since something was asked for that a
// recording does not allow.
func (c *context) refuse(code int, what string) error {
	if c.capture == nil {
		return nil
	}
	c.capture.invalid = true
	return failure(code, "%s while a graph is being recorded", what)
}

// refuse does so for one stream.
func (s *stream) refuse(what string) error {
	if s.capture == nil {
		return nil
	}
	s.capture.invalid = true
	return failure(captureUnsupported, "the stream is being recorded: %s", what)
}

// join makes a stream part of a recording by having it wait for a recorded event.
func (r *capture) join(s *stream, at *moment) error {
	if s.capture != nil && s.capture != r {
		r.invalid, s.capture.invalid = true, true
		return failure(captureIsolation, "the event and the stream belong to different graphs")
	}
	if r.origin == nil {
		return failure(capturedEvent, "the event was part of a graph whose recording has ended: record it again")
	}
	if s.capture == nil {
		s.capture, s.captured = r, 0
		r.streams = append(r.streams, s)
	}
	r.joined[at.stream] = max(r.joined[at.stream], at.captured)
	return nil
}

func (m *Machine) captureBegin(id driver.Stream) error {
	return m.in("CaptureBegin", "cuStreamBeginCapture", func(c *context) error {
		s, err := c.streamOf(id)
		if err != nil {
			return err
		}
		if c.capture != nil {
			return failure(captureUnsupported, "a graph is being recorded already")
		}
		c.capture = &capture{origin: s, joined: map[*stream]int{}}
		s.capture, s.captured = c.capture, 0
		return nil
	})
}

func (m *Machine) captureEnd(id driver.Stream) (g driver.Graph, err error) {
	err = m.in("CaptureEnd", "cuStreamEndCapture", func(c *context) error {
		s, err := c.streamOf(id)
		if err != nil {
			return err
		}
		r := s.capture
		if r == nil || r.origin != s {
			return failure(captureUnmatched, "the recording did not begin with this stream")
		}
		loose := false
		for _, other := range r.streams {
			loose = loose || r.joined[other] < other.captured
			other.capture = nil
		}
		s.capture, c.capture, r.origin = nil, nil, nil
		switch {
		case r.invalid:
			return failure(captureInvalidated, "a call in between ended the recording")
		case loose:
			return failure(captureUnjoined, "the stream does not wait for all work of another one that takes part")
		}
		g = driver.Graph(m.handle())
		c.graphs[g] = &graph{r.nodes}
		return nil
	})
	return g, err
}

func (m *Machine) graphInstantiate(id driver.Graph) (e driver.GraphExec, err error) {
	err = m.in("GraphInstantiate", "cuGraphInstantiate", func(c *context) error {
		g := c.graphs[id]
		if g == nil {
			return failure(invalidHandle, "%#x is no graph", uintptr(id))
		}
		e = driver.GraphExec(m.handle())
		c.execs[e] = g
		return nil
	})
	return e, err
}

// graphLaunch queues all nodes as one piece. Pinned sources are compared with what they are now.
func (m *Machine) graphLaunch(id driver.GraphExec, on driver.Stream) error {
	return m.in("GraphLaunch", "cuGraphLaunch", func(c *context) error {
		g := c.execs[id]
		if g == nil {
			return failure(invalidHandle, "%#x is no executable graph", uintptr(id))
		}
		return c.enqueue(on, node{fmt.Sprintf("graph of %d nodes", len(g.nodes)), func() func() *exec.Fault {
			runs := make([]func() *exec.Fault, len(g.nodes))
			for i, n := range g.nodes {
				runs[i] = n.issue()
			}
			return func() *exec.Fault {
				for i, run := range runs {
					if f := run(); f != nil {
						return &exec.Fault{Code: f.Code, Text: fmt.Sprintf("node %d, %s: %s", i, g.nodes[i].what, f.Text)}
					}
				}
				return nil
			}
		}})
	})
}

func (m *Machine) graphExecDestroy(id driver.GraphExec) error {
	return m.in("GraphExecDestroy", "cuGraphExecDestroy", func(c *context) error {
		if c.execs[id] == nil {
			return failure(invalidHandle, "%#x is no executable graph", uintptr(id))
		}
		delete(c.execs, id)
		return nil
	})
}

func (m *Machine) graphDestroy(id driver.Graph) error {
	return m.in("GraphDestroy", "cuGraphDestroy", func(c *context) error {
		if c.graphs[id] == nil {
			return failure(invalidHandle, "%#x is no graph", uintptr(id))
		}
		delete(c.graphs, id)
		return nil
	})
}
