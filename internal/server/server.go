// Package server is the door of the HTTP API: who may ask, which handler answers, how
// errors become statuses, and what happens to connections that misbehave. Its users hand
// it a listener and a host; they need not know routes, deadlines or how a shutdown goes.
// What requests mean is known to the handlers: package api and those below it.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"ossian/internal/api"
	"ossian/internal/api/chat"
	"ossian/internal/api/completions"
	"ossian/internal/api/messages"
	"ossian/internal/api/responses"
	"ossian/internal/board"
	"ossian/internal/generate"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/store"
	"ossian/internal/trace"
	"ossian/internal/web"
	"ossian/internal/wire"
)

// A Config is what an operator may choose. The zero value serves without a key,
// and answers to the names of this machine only.
type Config struct {
	Version        string
	Revision       string   // the commit; "" = unknown
	Keys           []string // one of them is needed; nil = no key; see Reload
	AllowedHosts   []string // further names in the Host header; "*" = all. With keys all are allowed
	AllowedOrigins []string // of pages that may send requests; "*" = all; nil = none
	StreamInterval int      // tokens per chunk at most, after the first; 0 = 1
	Seed           *int64   // of requests that bring none; nil = a new one for each
	ReasoningField wire.ReasoningField
	Strict         bool          // refuse unknown request fields
	DrainTimeout   time.Duration // how long requests may go on once Serve is told to end
	AccessLog      bool
	OpenMetrics    bool          // /metrics is answered without a key
	MetricsAge     time.Duration // at most, of what /metrics tells; 0 = each time anew
	LooseHeaders   bool          // leave headers of gpt-oss to the model, to compare with servers that do
	Limits         *limits.Set   // nil = defaults; see Reload
	Archive        Archive       // of responses; nil = none is kept
	SealKey        *[32]byte     // encrypts the reasoning that clients keep; nil = a new one
	TLS            *tls.Config   // nil = plain HTTP
	Page           bool          // answer / with the page of package web
	Toolbox        api.Toolbox   // what the server runs for models; nil = nothing
	CitationLinks  bool          // citations in answers become links

	Tracer *trace.Tracer // tells a collector of requests; nil = nobody is told

	Clock  func() time.Time // of what replies and prompts are dated with; nil = time.Now
	Random func() uint64    // for seeds and ids; nil = the global source
}

// An Archive keeps responses (store.Store, store.Memory).
type Archive = responses.Archive

// Interrupted ends a background response that a crash cut off, for store.Config.
func Interrupted(rec store.Record, events iter.Seq[[]byte]) store.Update {
	return responses.Interrupted(rec, events)
}

// A Server is an http.Handler.
type Server struct {
	cfg     Config
	host    *host.Host
	log     *slog.Logger
	metrics *metrics.Server
	scraper *exposition
	routes  []route

	live      atomic.Pointer[settings]
	reloading sync.Mutex // held by who makes the next settings

	// Of all requests together; the parts below count in them.
	bodies  atomic.Int64 // bytes that requests hold
	replies atomic.Int64 // bytes that replies hold until they are sent
	load    atomic.Int64 // requests that generate

	draining atomic.Bool
	leaving  chan struct{} // closed when a drain begins
	leave    func()        // closes it, once
	roster   *roster       // of connections

	began    time.Time
	board    board.Board // of the requests that there are
	watching watching    // them
	page     *web.Page   // nil = none

	front       *api.Front
	service     *generate.Service
	chat        *chat.Handler
	completions *completions.Handler
	messages    *messages.Handler
	responses   *responses.Handler
}

// New returns a server of the host's models.
func New(cfg Config, models *host.Host, log *slog.Logger, counters *metrics.Server) *Server {
	return newServer(cfg, models, log, counters, nil)
}

// newServer is New with what makes the vocabularies of grammars, nil = the usual.
func newServer(cfg Config, models *host.Host, log *slog.Logger, counters *metrics.Server, vocabulary generate.MakeVocabulary) *Server {
	if cfg.StreamInterval < 1 {
		cfg.StreamInterval = 1
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Random == nil {
		cfg.Random = rand.Uint64
	}
	server := &Server{cfg: cfg, host: models, log: log, metrics: counters, scraper: &exposition{render: counters.Handler(), age: cfg.MetricsAge, clock: time.Now, made: map[string]*rendering{}}, roster: newRoster(), leaving: make(chan struct{}), began: time.Now()}
	server.leave = sync.OnceFunc(func() { close(server.leaving) })
	server.Reload(cfg.Keys, cfg.Limits)
	server.front = api.New(api.Config{Limits: server.lim, Metrics: counters, Log: log, Clock: cfg.Clock, Random: cfg.Random, Bodies: &server.bodies,
		Strict: cfg.Strict, StreamInterval: cfg.StreamInterval, ReasoningField: cfg.ReasoningField, Toolbox: cfg.Toolbox, CitationLinks: cfg.CitationLinks})
	server.service = generate.New(generate.Config{Host: models, Limits: server.lim, Metrics: counters, Log: log, Random: cfg.Random, Seed: cfg.Seed,
		Strict: cfg.Strict, Loose: cfg.LooseHeaders, Replies: &server.replies, Board: &server.board, Vocabulary: vocabulary})
	server.chat = chat.New(server.front, server.service)
	server.completions = completions.New(server.front, server.service)
	server.messages = messages.New(server.front, server.service)
	server.responses = responses.New(responses.Config{Archive: cfg.Archive, SealKey: cfg.SealKey, Owner: server.owner, Load: &server.load}, server.front, server.service)
	if cfg.Page {
		server.page = web.New()
	}
	server.routes = server.table()
	if cfg.Archive != nil {
		counters.Stored(func() metrics.Store {
			stats := cfg.Archive.Stats()
			return metrics.Store{Records: stats.Records, Bytes: stats.Bytes, Damaged: stats.Damaged, Lost: stats.Lost}
		})
	}
	server.cfg.Keys, server.cfg.Limits, server.cfg.SealKey = nil, nil, nil // only digests of keys are kept
	return server
}

// Serve answers connections until ctx ends. Then nothing new is started, requests
// that run may end within DrainTimeout, the rest is told that it was cut off, and
// Serve returns nil. A client that closes the connection, or its half of it, has left:
// its request ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	lim := s.lim()
	httpServer := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: lim.Time(limits.HeaderRead),
		IdleTimeout:       lim.Time(limits.IdleKeepAlive),
		WriteTimeout:      lim.Time(limits.WriteStall), // replies extend it while they are written
		MaxHeaderBytes:    int(lim[limits.HeaderBytes]),
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnContext:       withConn,
		ConnState:         s.roster.watch,

		DisableGeneralOptionsHandler: true, // OPTIONS * is an unknown route, too
	}
	listener = s.limit(listener)
	if s.cfg.TLS != nil {
		listener = tls.NewListener(listener, s.cfg.TLS) // above the limits, which look at sockets
	}
	served := make(chan error, 1)
	go func() { served <- httpServer.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.drain()
	s.responses.Close()
	rest, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := httpServer.Shutdown(rest); err != nil {
		_ = httpServer.Close() // idle and hanging connections: everybody has been told
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// tellTime is how long replies may take once the engine has ended: clients that do not
// read must not keep the process.
const tellTime = 5 * time.Second

// drain lets requests end. The listener stays open meanwhile, so that others learn
// to go elsewhere.
func (s *Server) drain() {
	s.draining.Store(true)
	s.leave()
	s.metrics.Ready(false)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	if !s.host.Busy() {
		_ = s.host.Drain(ctx) // nobody gets in line any more
		return                // without a model nobody waits for a reply
	}
	s.log.Info("draining: running requests may finish; another Ctrl-C or SIGTERM ends at once, without them", "requests", s.load.Load(), "timeout", s.cfg.DrainTimeout)
	if err := s.host.Drain(ctx); err != nil {
		s.log.Warn("requests were cut off", "error", err)
	}
	// The engine is done: what it has given last, or that it gives no more, is still on its
	// way to those who wait for it.
	for deadline := time.Now().Add(tellTime); s.load.Load() > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}
