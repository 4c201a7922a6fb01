// Package mcp is the client of servers that offer tools over the Model Context Protocol. Its users
// do not learn which of its transports and versions a server speaks, that lists come in pages, that
// connections break and are made again, nor that what a server sends may be too large, late or no
// message at all: they see a tools.Server.
//
//	Server  watches one server in the background: what it offers, or why it offers nothing
//	session calls of one conversation, over a connection of its own: servers that keep anything
//	        for a connection keep it for one conversation
//
// The protocol itself is the official SDK's. Around it stand, from the outside in: the choice
// between transports (choose), a tap that sees messages as they came (tap), and a courier that
// bounds what is read and keeps secrets from other hosts (courier).
package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"ossian/internal/limits"
	"ossian/internal/tools"
)

// Times that are part of the behaviour, not of what strangers may ask for.
const (
	patience  = 2 * time.Second  // a request waits no longer for what a server offers
	attempt   = 30 * time.Second // connecting and listing
	pace      = time.Second      // between attempts, at least
	slowest   = time.Minute      // between attempts while a server is down
	freshness = 5 * time.Minute  // of a list whose server says nothing of it
	longest   = 10 * time.Minute // a call with progress
)

// resumptions is how often a stream with an answer that breaks, or that its server ends to be asked
// again later, is gone on with.
const resumptions = 2

// Options say where a server is and how it is spoken to.
type Options struct {
	Name    string // by which requests ask for it; "" = as it calls itself
	Address string // see ParseSpec
	Stdio   bool   // whether Address may be a command
	Version string // of this program, which servers are told; "" = dev

	// Header and Authorization, the token behind "Bearer", are sent to this server alone. No error,
	// status or log has them.
	Header        http.Header
	Authorization string

	Client *http.Client       // its transport says which hosts may be reached; nil = any
	Limits func() *limits.Set // those in force; nil = defaults
}

// A Server is one server of tools. It is watched from New to Close.
type Server struct {
	opts  Options
	spec  *Spec
	pause func(time.Duration) <-chan time.Time // time.After, or faster

	life    context.Context // until Close
	end     context.CancelFunc
	wake    chan struct{}  // somebody waits for an attempt
	watched chan struct{}  // closed by the end of the watch
	ending  sync.WaitGroup // connections that are being ended

	mu       sync.Mutex // guards what follows
	listed   *listing   // of the latest attempt that worked; nil = none did
	problem  error      // of the latest attempt; nil = it worked
	attempts int
	tried    chan struct{} // closed by the end of the attempt
	chosen   *way          // what worked; nil = not known
	kept     keeper
	closed   bool
}

// New returns the server at an address and begins to connect to it. Nothing is waited for: what
// is wrong there is told by Namespace and Status. An error is one of the options.
func New(opts Options) (*Server, error) { return newServer(opts, time.After) }

func newServer(opts Options, pause func(time.Duration) <-chan time.Time) (*Server, error) {
	spec, err := ParseSpec(opts.Address)
	if err != nil {
		return nil, err
	}
	if spec.command != nil && !opts.Stdio {
		return nil, fmt.Errorf("tool server %s: servers that are commands are off", spec)
	}
	if err := checkHeader(opts.Header, opts.Authorization); err != nil {
		return nil, fmt.Errorf("tool server %s: %w", spec, err)
	}
	if opts.Version == "" {
		opts.Version = "dev"
	}
	if opts.Limits == nil {
		set := limits.Defaults()
		opts.Limits = func() *limits.Set { return set }
	}
	if opts.Client == nil {
		opts.Client = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	// Nothing above starts anything: an error leaves nothing behind.
	s := &Server{opts: opts, spec: spec, pause: pause, wake: make(chan struct{}, 1), watched: make(chan struct{}), tried: make(chan struct{})}
	s.life, s.end = context.WithCancel(context.Background())
	go s.watch()
	return s, nil
}

// checkHeader refuses what would be more than one header, and says nothing of its value.
func checkHeader(header http.Header, authorization string) error {
	bad := func(text string) bool {
		return strings.ContainsFunc(text, func(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f })
	}
	for name, values := range header {
		if name == "" || strings.ContainsAny(name, " \t:") || bad(name) {
			return fmt.Errorf("header %q: no name of a header", name)
		}
		for _, value := range values {
			if bad(value) {
				return fmt.Errorf("header %s: its value has line breaks or other control characters", name)
			}
		}
	}
	if bad(authorization) {
		return errors.New("authorization: it has line breaks or other control characters")
	}
	return nil
}

// Name is the name by which requests ask for the server, "" as long as it has none: it says its
// own once it is reached.
func (s *Server) Name() string {
	if s.opts.Name != "" {
		return s.opts.Name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed == nil {
		return ""
	}
	return s.listed.name
}

// Namespace returns what the server offers, or why it offers nothing now. It waits for an attempt
// where the latest one failed, at most 2 s.
func (s *Server) Namespace(ctx context.Context) (tools.Namespace, error) {
	listed, err := s.current(ctx)
	if err != nil {
		return tools.Namespace{}, err
	}
	return listed.space, nil
}

// Listed returns every tool that the server listed, whether models may see it or not; nil = it
// was not reached yet.
func (s *Server) Listed() []tools.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed == nil {
		return nil
	}
	return s.listed.all
}

// Attempted waits until one attempt to reach the server has ended, which may take half a minute.
func (s *Server) Attempted(ctx context.Context) {
	s.mu.Lock()
	attempts, tried := s.attempts, s.tried
	s.mu.Unlock()
	if attempts > 0 {
		return
	}
	select {
	case <-tried:
	case <-ctx.Done():
	case <-s.life.Done():
	}
}

// current returns the list in force. After a failure it has one more attempt made.
func (s *Server) current(ctx context.Context) (*listing, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for waited := false; ; waited = true {
		s.mu.Lock()
		listed, problem, attempts, tried, closed := s.listed, s.problem, s.attempts, s.tried, s.closed
		s.mu.Unlock()
		switch {
		case closed:
			return nil, errors.New(noMore)
		case attempts > 0 && problem == nil:
			return listed, nil
		case problem != nil && waited:
			return nil, problem
		}
		select {
		case s.wake <- struct{}{}:
		default: // somebody did
		}
		select {
		case <-tried:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-limit.C:
			if problem != nil {
				return nil, problem
			}
			return nil, fmt.Errorf("it did not say within %v what it offers", patience)
		}
	}
}

// Status says how the server is.
func (s *Server) Status() tools.Status {
	status := tools.Status{Name: s.Name(), Kind: "mcp", Address: s.spec.String()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed != nil {
		status.Backend, status.Tools = s.listed.backend, len(s.listed.all)
	}
	switch {
	case s.problem != nil:
		status.Problem = s.problem.Error()
		if why := (*fault)(nil); errors.As(s.problem, &why) && why.detail != "" {
			status.Problem += ": " + why.detail
		}
	case s.listed == nil:
		status.Problem = "it was not reached yet"
	default:
		status.Works = true
	}
	return status
}

// noMore is what is said of a server after Close.
const noMore = "the server is not used any more"

// unused reports whether Close was called.
func (s *Server) unused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Open begins a session. Nothing is sent before its first call.
func (s *Server) Open(chain tools.Chain) tools.Session {
	return &session{server: s, chain: chain}
}

// Close ends what the server is used for: the watch, and every connection, of which some may be
// told first. It takes a few seconds at most.
func (s *Server) Close() {
	s.mu.Lock()
	s.releaseAll()
	s.closed = true
	s.mu.Unlock()
	s.ending.Wait()
	s.end()
	<-s.watched
	s.opts.Client.CloseIdleConnections()
}
