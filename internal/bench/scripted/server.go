package scripted

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Server plays scripts until it is closed.
type Server struct {
	opt     Options
	words   [][][]byte // of each script
	ln      net.Listener
	began   time.Time
	senders []*sender
	wait    sync.WaitGroup
	stopped chan struct{}
	off     func() bool // ends the watch of the context

	unnamed atomic.Int64 // requests without a number in x-request-id
	streams atomic.Int64 // made so far
	running atomic.Int64
	blocked atomic.Int64

	mu       sync.Mutex
	closed   bool
	conns    map[net.Conn]struct{}
	records  []Record
	counters map[string]float64
	calls    map[string]int
}

// Serve starts a server on ln, which it closes in the end, unless it returns an error. It
// stops when ctx is done or Close is called.
func Serve(ctx context.Context, ln net.Listener, opt Options) (*Server, error) {
	opt, err := prepare(opt)
	if err != nil {
		return nil, err
	}
	srv := &Server{
		opt: opt, ln: ln, began: time.Now(), stopped: make(chan struct{}),
		conns: map[net.Conn]struct{}{}, counters: maps.Clone(opt.Counters), calls: map[string]int{},
	}
	for i := range opt.Scripts {
		srv.words = append(srv.words, opt.Scripts[i].words())
	}
	for range opt.Senders {
		q := newSender(srv)
		srv.senders = append(srv.senders, q)
		srv.wait.Go(q.run)
	}
	srv.wait.Go(srv.accept)
	srv.off = context.AfterFunc(ctx, srv.shut)
	return srv, nil
}

// prepare fills in what zeros stand for.
func prepare(opt Options) (Options, error) {
	if opt.Model == "" {
		opt.Model = "scripted"
	}
	opt.Senders = max(opt.Senders, 1)
	if _, err := ShapeOf(opt.Shape.Dialect); err != nil {
		return opt, fmt.Errorf("scripted: %w", err)
	}
	opt.Scripts = slices.Clone(opt.Scripts)
	if len(opt.Scripts) == 0 {
		opt.Scripts = []Script{{}}
	}
	for i := range opt.Scripts {
		if err := opt.Scripts[i].validate(); err != nil {
			return opt, fmt.Errorf("scripted: script %d: %w", i, err)
		}
	}
	if opt.Counters == nil {
		opt.Counters = map[string]float64{}
	}
	return opt, nil
}

// Close stops the server and returns when all its goroutines have ended. Requests that
// are being answered are cut off.
func (srv *Server) Close() error {
	srv.off()
	srv.shut()
	srv.wait.Wait()
	return nil
}

func (srv *Server) shut() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.closed {
		return
	}
	srv.closed = true
	close(srv.stopped)
	srv.ln.Close()
	for c := range srv.conns {
		c.Close()
	}
	for _, q := range srv.senders {
		q.stop()
	}
}

// URL is the base URL of the server.
func (srv *Server) URL() string { return "http://" + srv.ln.Addr().String() }

// now is the time since the server began, by the monotonic clock.
func (srv *Server) now() time.Duration { return time.Since(srv.began) }

// settle waits, but not for long, until the requests whose end a client has seen are in
// the log as well.
func (srv *Server) settle() {
	for deadline := time.Now().Add(5 * time.Second); srv.Running() > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// Log returns what the server has kept so far.
func (srv *Server) Log() *Log {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return &Log{Began: srv.began, Blocked: srv.blocked.Load(), Records: slices.Clone(srv.records)}
}

// Forget drops what the server has kept so far.
func (srv *Server) Forget() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.records = nil
}

// Running is how many requests are being answered.
func (srv *Server) Running() int { return int(srv.running.Load()) }

// Calls returns how often each method and path, such as "GET /metrics", was asked for.
func (srv *Server) Calls() map[string]int {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return maps.Clone(srv.calls)
}

// Add adds v to a series of /metrics, such as vllm:spec_decode_num_drafts_total.
func (srv *Server) Add(series string, v float64) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.counters[series] += v
}

func (srv *Server) accept() {
	for {
		c, err := srv.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as no free descriptor: some may come free
			time.Sleep(10 * time.Millisecond)
			continue
		}
		srv.mu.Lock()
		if srv.closed {
			srv.mu.Unlock()
			c.Close()
			return
		}
		srv.conns[c] = struct{}{}
		srv.mu.Unlock()
		srv.wait.Go(func() {
			srv.converse(c)
			c.Close()
			srv.mu.Lock()
			delete(srv.conns, c)
			srv.mu.Unlock()
		})
	}
}

// stream makes the stream of a request and counts it as running.
func (srv *Server) stream(c net.Conn, api api, id string, a *ask) *stream {
	i := index(id)
	if i < 0 {
		i = int(srv.unnamed.Add(1) - 1)
	}
	nth := srv.streams.Add(1) - 1
	at := i % len(srv.opt.Scripts)
	script := &srv.opt.Scripts[at]
	s := &stream{
		conn: c, script: script, words: srv.words[at], shape: &srv.opt.Shape, api: api,
		id: fmt.Sprintf("%08x", nth), model: quote(srv.opt.Model), ask: a, prompt: a.prompt(), tokens: a.tokens(),
		rng: rand.NewPCG(srv.opt.Seed, uint64(i)), done: make(chan struct{}),
	}
	if script.Tokens > 0 {
		s.tokens = script.Tokens
	}
	if script.Fault.Kind == Empty {
		s.tokens = 0
	}
	if api != completions {
		s.thinking = min(script.Reasoning, s.tokens)
	}
	if api == responses {
		s.makeItems()
	} else {
		s.form = formOf(srv.opt.Shape.Dialect, api, s.id, srv.opt.Model)
	}
	s.record = Record{ID: id, Index: index(id), Asked: a.tokens(), Prompt: s.prompt, Fault: script.Fault.Kind}
	srv.running.Add(1)
	return s
}

// end is the end of s, whose owner calls it, with the reason if it came too early.
func (srv *Server) end(s *stream, why string) {
	switch {
	case s.fate == reset:
		if t, ok := s.conn.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // closing then resets; where it fails the client sees an orderly end
		}
		s.conn.Close()
	case s.fate == cut || s.last || why != "":
		s.conn.Close()
	}
	s.record.Ended, s.record.Err = srv.now(), why
	u := s.counts()
	srv.mu.Lock()
	for series, v := range s.script.Counters {
		srv.counters[series] += v
	}
	srv.counters["vllm:prompt_tokens_total"] += float64(u.Prompt)
	srv.counters["vllm:generation_tokens_total"] += float64(s.sent)
	srv.counters["vllm:prefix_cache_queries_total"] += float64(u.Prompt)
	srv.counters["vllm:prefix_cache_hits_total"] += float64(u.Cached)
	if why == "" && s.fate == whole {
		srv.counters[`vllm:request_success_total{finished_reason=`+string(quote(s.reason()))+`}`]++
	}
	srv.records = append(srv.records, s.record)
	srv.running.Add(-1)
	srv.mu.Unlock()
	close(s.done)
}
