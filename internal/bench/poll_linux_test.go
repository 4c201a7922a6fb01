package bench

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// A request that the server takes slowly arrives whole.
func TestSocketWriteWaits(t *testing.T) {
	s, peer := pair(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<19)
	got := make(chan []byte)
	go func() {
		time.Sleep(50 * time.Millisecond)
		b := make([]byte, len(want))
		_, err := io.ReadFull(peer, b)
		if err != nil {
			t.Error(err)
		}
		got <- b
	}()
	if n, err := s.Write(want); n != len(want) || err != nil {
		t.Errorf("wrote %d of %d bytes: %v", n, len(want), err)
	}
	if !bytes.Equal(<-got, want) {
		t.Error("other bytes arrived")
	}
}

// A deadline ends what waits: at once if it has passed, else within about a second.
func TestSocketDeadline(t *testing.T) {
	t.Parallel() // it waits
	for _, c := range []struct {
		name string
		wait func(s *socket) error
	}{
		{"receive", func(s *socket) error { return s.receive(newExchange(offline(t, streaming))) }},
		{"write", func(s *socket) error { _, err := s.Write(make([]byte, 64<<20)); return err }},
	} {
		for _, at := range []time.Time{past, time.Now().Add(time.Second / 2)} {
			s, _ := pair(t)
			began := time.Now()
			if at == past {
				time.AfterFunc(50*time.Millisecond, func() { s.SetDeadline(past) })
			} else {
				s.SetDeadline(at)
			}
			if err := c.wait(s); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v, want the deadline", c.name, err)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("%s: took %v", c.name, took)
			}
			s.Close()
			s.SetDeadline(past) // a context that ends late: the number may be another's now
		}
	}
}

// One poller serves many at once and stops when it has nothing to do.
func TestPollerServesMany(t *testing.T) {
	h := offline(t, streaming)
	p := new(poller)
	var all sync.WaitGroup
	for range 200 {
		s, peer := pair(t)
		s.poller = p
		all.Go(func() {
			x, sample := newExchange(h), new(Sample)
			x.begin(sample, time.Now(), new(Live))
			if err := s.receive(x); err != nil || len(sample.Chunks) != 3 {
				t.Errorf("%v, %d chunks, want 3", err, len(sample.Chunks))
			}
		})
		go play3(peer)
	}
	all.Wait()
	for range 1000 {
		p.mu.Lock()
		running := p.running
		p.mu.Unlock()
		if !running {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the poller goes on without anything to wait for")
}

// play3 sends a response of three events in pieces.
func play3(c net.Conn) {
	text := chunked("data: "+textA+"\n\n", "data: "+textB+"\n\n", "data: [DONE]\n\n")
	for len(text) > 0 {
		n := min(40, len(text))
		c.Write([]byte(text[:n]))
		text = text[n:]
		time.Sleep(time.Millisecond)
	}
}
