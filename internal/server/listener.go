package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ossian/internal/limits"
	"ossian/internal/metrics"
)

// connKey is that of a connection in the context of its requests.
type connKey struct{}

// withConn makes the connection known to its requests.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, countedOf(conn))
}

// countedOf returns the connection below TLS, nil for one of another listener.
func countedOf(conn net.Conn) *counted {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*counted)
	return c
}

// connOf returns the connection of a request, nil if it is not known.
func connOf(r *http.Request) *counted {
	c, _ := r.Context().Value(connKey{}).(*counted)
	return c
}

// A limited listener accepts connections while there is room for them. For one more an
// idle connection is closed. Where none is idle a few more are
// spare: they are told that the server is full, or about its health, and closed. The
// rest waits in the system's queue, which costs nothing here (CON-4). Who says nothing
// does not keep others waiting there: the time of a spare connection runs from when the
// client made it.
type limited struct {
	net.Listener
	room, spare chan struct{} // one element for each connection that has a place
	stall       time.Duration
	secure      bool // the first to come is a handshake
	metrics     *metrics.Server
	roster      *roster
	closing     sync.Once
	closed      chan struct{}
}

const (
	spareConnections = 16
	spareTime        = 100 * time.Millisecond // for the request on a spare connection
)

// Connections returns how many connections a server with these limits keeps at once.
func Connections(lim *limits.Set) int64 {
	room := lim[limits.Connections]
	if n := descriptorLimit() * 8 / 10; n > 0 { // files need some, too
		room = min(room, n)
	}
	return room
}

func (s *Server) limit(listener net.Listener) *limited {
	return &limited{Listener: listener, room: make(chan struct{}, Connections(s.lim())), spare: make(chan struct{}, spareConnections),
		stall: s.lim().Time(limits.WriteStall), secure: s.cfg.TLS != nil, metrics: s.metrics, roster: s.roster, closed: make(chan struct{})}
}

// Close implements net.Listener.
func (l *limited) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		// An ordinary place if there is one, else whichever comes free first.
		place := l.room
		select {
		case l.room <- struct{}{}:
		default:
			select {
			case l.room <- struct{}{}:
			case l.spare <- struct{}{}:
				place = l.spare
			case <-l.closed:
				return nil, net.ErrClosed
			}
		}
		conn, err := l.Listener.Accept()
		if err != nil {
			<-place
			return nil, err
		}
		if c := l.take(conn, place); c != nil {
			return c, nil
		}
	}
}

// take gives a connection its place. It closes one that has been quiet for too long
// to get a spare one, and returns nil.
func (l *limited) take(conn net.Conn, place chan struct{}) *counted {
	accepted := &counted{Conn: conn, l: l, place: place, peer: peerOf(conn.RemoteAddr())}
	accepted.frames.begin()
	sys, _ := conn.(syscall.Conn)
	if place == l.spare {
		l.makeRoom()
		select {
		case l.room <- struct{}{}: // somebody has left meanwhile, or had to
			accepted.place = l.room
			<-l.spare
		default:
			left := spareTime
			if sys != nil {
				left -= quietFor(sys, l.secure)
			}
			if left <= 0 {
				_ = conn.Close()
				<-l.spare
				return nil
			}
			accepted.until = time.Now().Add(left)
		}
	}
	if sys != nil {
		giveUpAfter(sys, l.stall)
	}
	l.metrics.Connections(1)
	return accepted
}

// makeRoom closes an idle connection where all places are taken. Where requests wait to be read
// it gives the machine a few moments to do so: afterwards their connections are busy, or idle.
func (l *limited) makeRoom() {
	for range 50 {
		if len(l.room) < cap(l.room) {
			return
		}
		evicted, soon := l.roster.evict()
		if evicted {
			l.metrics.IdleClosed()
		}
		if !soon {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A counted connection makes room when it is closed.
type counted struct {
	net.Conn
	l     *limited
	place chan struct{}
	once  sync.Once
	peer  netip.Addr
	until time.Time // when the request of a spare connection has to be here; zero = an ordinary one

	frames framing      // of requests; not looked at below TLS
	begun  atomic.Int64 // requests that have reached a handler
}

// Read implements net.Conn.
func (c *counted) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	if !c.l.secure {
		c.frames.read(data[:n])
	}
	return n, err
}

// next reports whether it is clear where the next request, which is about to be answered,
// ends.
func (c *counted) next() bool {
	if c == nil {
		return true
	}
	return !c.frames.ambiguous(c.begun.Add(1))
}

// asked reports whether a request is here, or the beginning of one, that no handler has seen: in
// the socket, where a busy machine leaves it for a while, or in what was read from it.
func (c *counted) asked() bool {
	sys := c.syscallConn()
	return c.frames.heads.Load() > c.begun.Load() || (sys != nil && unread(sys))
}

// syscallConn returns the socket, nil if there is none to look at.
func (c *counted) syscallConn() syscall.Conn {
	if c == nil {
		return nil
	}
	sys, _ := c.Conn.(syscall.Conn)
	return sys
}

// isSpare reports whether the connection is one too many.
func (c *counted) isSpare() bool { return c != nil && !c.until.IsZero() }

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(func() {
		c.l.metrics.Connections(-1)
		<-c.place
	})
	return c.Conn.Close()
}

// SetReadDeadline implements net.Conn.
func (c *counted) SetReadDeadline(deadline time.Time) error {
	if !c.until.IsZero() && (deadline.IsZero() || deadline.After(c.until)) {
		deadline = c.until
	}
	return c.Conn.SetReadDeadline(deadline)
}
