// Package server answers the HTTP API over the engine: who may ask, what requests
// mean, how answers and errors look on the wire, and what happens to connections
// that misbehave. Its users hand it a listener and a host; they need not know
// routes, formats, deadlines or how a shutdown goes.
package server

import (
	"context"
	"crypto/cipher"
	"crypto/tls"
	"errors"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ossian/internal/engine"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/wire"
)

// A Config is what an operator may choose. The zero value serves without a key,
// and answers to the names of this machine only.
type Config struct {
	Version        string
	Keys           []string // one of them is needed; nil = no key; see Reload
	AllowedHosts   []string // further names in the Host header; "*" = all. With keys all are allowed
	AllowedOrigins []string // of pages that may send requests; "*" = all; nil = none
	StreamInterval int      // tokens per chunk at most, after the first; 0 = 1
	Seed           *int64   // of requests that bring none; nil = a new one for each
	ReasoningField wire.ReasoningField
	Strict         bool          // refuse unknown request fields
	DrainTimeout   time.Duration // how long requests may go on once Serve is told to end
	AccessLog      bool
	Limits         *limits.Set // nil = defaults; see Reload
	Archive        Archive     // of responses; nil = none is kept
	SealKey        *[32]byte   // encrypts the reasoning that clients keep; nil = a new one
	TLS            *tls.Config // nil = plain HTTP

	Clock  func() time.Time // of what replies and prompts are dated with; nil = time.Now
	Random func() uint64    // for seeds and ids; nil = the global source
}

// A Server is an http.Handler.
type Server struct {
	cfg     Config
	host    *host.Host
	log     *slog.Logger
	metrics *metrics.Server
	scraper http.Handler
	routes  []route

	live      atomic.Pointer[settings]
	reloading sync.Mutex // held by who makes the next settings

	saltSeed maphash.Seed
	masks    atomic.Pointer[modelMask]
	grammars *grammars
	buffers  sync.Pool    // *[]byte
	bodies   atomic.Int64 // bytes
	replies  atomic.Int64 // bytes, see job.keep
	load     atomic.Int64 // requests that generate
	draining atomic.Bool

	box     cipher.AEAD
	life    context.Context // of background responses
	end     context.CancelFunc
	running sync.WaitGroup
	tasking sync.Mutex // guards tasks
	tasks   map[string]*task
}

// New returns a server of the host's model.
func New(cfg Config, h *host.Host, log *slog.Logger, m *metrics.Server) *Server {
	if cfg.StreamInterval < 1 {
		cfg.StreamInterval = 1
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Random == nil {
		cfg.Random = rand.Uint64
	}
	s := &Server{cfg: cfg, host: h, log: log, metrics: m, scraper: m.Handler(), routes: routes(), saltSeed: maphash.MakeSeed(), grammars: newGrammars(m.Grammars)}
	s.Reload(cfg.Keys, cfg.Limits)
	s.box, s.tasks = newBox(cfg.SealKey), map[string]*task{}
	s.life, s.end = context.WithCancel(context.Background())
	if cfg.Archive != nil {
		m.Stored(func() (int, int64) { st := cfg.Archive.Stats(); return st.Records, st.Bytes })
	}
	s.cfg.Keys, s.cfg.Limits, s.cfg.SealKey = nil, nil, nil // only digests of keys are kept
	return s
}

// Serve answers connections until ctx ends. Then nothing new is started, requests
// that run may end within DrainTimeout, the rest is told that it was cut off, and
// Serve returns nil. A client that closes the connection, or its half of it, has left:
// its request ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: s.lim().Time(limits.HeaderRead),
		IdleTimeout:       s.lim().Time(limits.IdleKeepAlive),
		WriteTimeout:      s.lim().Time(limits.WriteStall), // replies extend it while they are written
		MaxHeaderBytes:    int(s.lim()[limits.HeaderBytes]),
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnContext:       withConn,

		DisableGeneralOptionsHandler: true, // OPTIONS * is an unknown route, too
	}
	l = s.limit(l)
	if s.cfg.TLS != nil {
		l = tls.NewListener(l, s.cfg.TLS) // above the limits, which look at sockets
	}
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.drain()
	s.end()
	s.running.Wait()
	rest, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := h.Shutdown(rest); err != nil {
		_ = h.Close() // idle and hanging connections: everybody has been told
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// drain lets requests end. The listener stays open meanwhile, so that others learn
// to go elsewhere.
func (s *Server) drain() {
	s.draining.Store(true)
	s.metrics.Ready(false)
	if _, err := s.host.Find(""); err != nil {
		return // without a model nobody waits for a reply
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	s.log.Info("draining", "requests", s.load.Load(), "timeout", s.cfg.DrainTimeout)
	if err := s.host.Drain(ctx); err != nil {
		s.log.Warn("requests were cut off", "error", err)
	}
	// The engine is done: what it has given last, or that it gives no more, is still on its
	// way to those who wait for it.
	for end := time.Now().Add(tellTime); s.load.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// tellTime is how long replies may take once the engine has ended: clients that do not
// read must not keep the process.
const tellTime = 5 * time.Second

// A limited listener accepts connections while there is room for them. A few more are
// spare: they are told that the server is full, or about its health, and closed. The
// rest waits in the system's queue, which costs nothing here (CON-4). Who says nothing
// does not keep others waiting there: the time of a spare connection runs from when the
// client made it.
type limited struct {
	net.Listener
	room, spare chan struct{}
	stall       time.Duration
	secure      bool // the first to come is a handshake
	metrics     *metrics.Server
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

func (s *Server) limit(l net.Listener) *limited {
	return &limited{Listener: l, room: make(chan struct{}, Connections(s.lim())), spare: make(chan struct{}, spareConnections),
		stall: s.lim().Time(limits.WriteStall), secure: s.cfg.TLS != nil, metrics: s.metrics, closed: make(chan struct{})}
}

// Close implements net.Listener.
func (l *limited) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
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

// take gives a connection its place. It closes one that has been silent for too long
// to get a spare one, and returns nil.
func (l *limited) take(conn net.Conn, place chan struct{}) *counted {
	c := &counted{Conn: conn, l: l, place: place}
	sys, _ := conn.(syscall.Conn)
	if place == l.spare {
		select {
		case l.room <- struct{}{}: // somebody has left meanwhile
			c.place = l.room
			<-l.spare
		default:
			left := spareTime
			if sys != nil {
				left -= silence(sys, l.secure)
			}
			if left <= 0 {
				_ = conn.Close()
				<-l.spare
				return nil
			}
			c.until = time.Now().Add(left)
		}
	}
	if sys != nil {
		giveUpAfter(sys, l.stall)
	}
	l.metrics.Connections(1)
	return c
}

// A counted connection makes room when it is closed.
type counted struct {
	net.Conn
	l     *limited
	place chan struct{}
	once  sync.Once
	until time.Time // when the request of a spare connection has to be here; zero = an ordinary one
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(func() {
		c.l.metrics.Connections(-1)
		<-c.place
	})
	return c.Conn.Close()
}

// SetReadDeadline implements net.Conn.
func (c *counted) SetReadDeadline(t time.Time) error {
	if !c.until.IsZero() && (t.IsZero() || t.After(c.until)) {
		t = c.until
	}
	return c.Conn.SetReadDeadline(t)
}

// rejected counts a request that the engine did not take.
func (s *Server) rejected(m *host.Model, err error) {
	switch {
	case errors.Is(err, engine.ErrQueueFull):
		s.reject(m, metrics.RejectQueue, limits.Queue)
	case errors.Is(err, engine.ErrQueueTokens):
		s.reject(m, metrics.RejectTokens, limits.QueueTokens)
	case errors.Is(err, engine.ErrDraining) || errors.Is(err, engine.ErrStopped):
		s.reject(m, metrics.RejectDraining, 0)
	}
}

// reject counts a request that was not accepted; limit 0 = no limit is to blame.
func (s *Server) reject(m *host.Model, why metrics.Rejection, limit limits.ID) {
	if limit != 0 {
		s.metrics.Refused(limit.String())
	}
	if m.Metrics != nil {
		m.Metrics.Rejected(why)
	}
}

// buffer lends an empty buffer; giveBack takes it again unless it has grown large.
func (s *Server) buffer() *[]byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		*b = (*b)[:0]
		return b
	}
	b := make([]byte, 0, 4<<10)
	return &b
}

func (s *Server) giveBack(b *[]byte) {
	if b != nil && cap(*b) <= 2*writeSize {
		s.buffers.Put(b)
	}
}

// newID returns prefix with 24 random characters.
func (s *Server) newID(prefix string) string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	id := append(make([]byte, 0, len(prefix)+24), prefix...)
	for range 3 {
		r := s.cfg.Random()
		for range 8 {
			id = append(id, letters[r%62])
			r /= 62
		}
	}
	return string(id)
}
