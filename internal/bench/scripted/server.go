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
	opt        Options
	words      [][][]byte // of each script
	ln         net.Listener
	began      time.Time
	senders    []*sender
	goroutines sync.WaitGroup
	stopped    chan struct{}
	unwatch    func() bool // ends the watch of the context

	unnamed atomic.Int64 // requests without a number in x-request-id
	streams atomic.Int64 // made so far
	running atomic.Int64 // requests that are being answered
	blocked atomic.Int64 // as Log says

	mu       sync.Mutex // guards the fields below; locked before that of a sender
	closed   bool
	conns    map[net.Conn]struct{} // to close in the end
	records  []Record              // of requests that have ended
	counters map[string]float64    // series of /metrics
	calls    map[string]int        // by method and path
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
	// Texts of tokens are made once: a sender only copies them.
	for i := range opt.Scripts {
		srv.words = append(srv.words, opt.Scripts[i].words())
	}
	for range opt.Senders {
		snd := newSender(srv)
		srv.senders = append(srv.senders, snd)
		srv.goroutines.Go(snd.run)
	}
	srv.goroutines.Go(srv.accept)
	srv.unwatch = context.AfterFunc(ctx, srv.shut)
	return srv, nil
}

// prepare fills in what zeros stand for.
func prepare(opt Options) (Options, error) {
	if opt.Model == "" {
		opt.Model = "scripted"
	}
	opt.Senders = max(opt.Senders, 1)
	if _, err := DialectOf(opt.Dialect.Name); err != nil {
		return opt, fmt.Errorf("scripted: %w", err)
	}
	// A copy, as defaults are written into it.
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
	srv.unwatch()
	srv.shut()
	srv.goroutines.Wait()
	return nil
}

// shut has everything end; Close waits for it. Closing the connections ends their handlers.
func (srv *Server) shut() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.closed {
		return
	}
	srv.closed = true
	close(srv.stopped)
	srv.ln.Close()
	for conn := range srv.conns {
		conn.Close()
	}
	for _, snd := range srv.senders {
		snd.stop()
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

// Add adds by to a series of /metrics, such as vllm:spec_decode_num_drafts_total.
func (srv *Server) Add(series string, by float64) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.counters[series] += by
}

// accept starts a handler for each connection.
func (srv *Server) accept() {
	for {
		conn, err := srv.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as no free descriptor: some may come free
			time.Sleep(10 * time.Millisecond)
			continue
		}
		srv.mu.Lock()
		if srv.closed { // shut has gone through conns before this one was among them
			srv.mu.Unlock()
			conn.Close()
			return
		}
		srv.conns[conn] = struct{}{}
		srv.mu.Unlock()
		srv.goroutines.Go(func() {
			srv.converse(conn)
			conn.Close()
			srv.mu.Lock()
			delete(srv.conns, conn)
			srv.mu.Unlock()
		})
	}
}

// newStream makes the stream of a request and counts it as running.
func (srv *Server) newStream(conn net.Conn, api api, id string, req *ask) *stream {
	number := index(id)
	if number < 0 {
		number = int(srv.unnamed.Add(1) - 1)
	}
	nth := srv.streams.Add(1) - 1
	// The number picks script and jitter, so that a request plays the same in every run.
	at := number % len(srv.opt.Scripts)
	script := &srv.opt.Scripts[at]
	stream := &stream{
		conn: conn, script: script, words: srv.words[at], shape: &srv.opt.Dialect, api: api,
		id: fmt.Sprintf("%08x", nth), model: quote(srv.opt.Model), ask: req, prompt: req.prompt(), tokens: req.tokens(),
		rng: rand.NewPCG(srv.opt.Seed, uint64(number)), done: make(chan struct{}),
	}
	if script.Tokens > 0 {
		stream.tokens = script.Tokens
	}
	if script.Fault.Kind == Empty {
		stream.tokens = 0
	}
	if api != completions {
		stream.thinking = min(script.Reasoning, stream.tokens)
	}
	if api == responses {
		stream.makeItems()
	} else {
		stream.form = formOf(srv.opt.Dialect.Name, api, stream.id, srv.opt.Model)
	}
	stream.record = Record{ID: id, Index: index(id), Asked: req.tokens(), Prompt: stream.prompt, Fault: script.Fault.Kind}
	srv.running.Add(1)
	return stream
}

// finish is the end of a stream, whose owner calls it, with the reason if it came too early. The
// stream must not be touched afterwards.
func (srv *Server) finish(stream *stream, why string) {
	switch {
	case stream.fate == resetting:
		if t, ok := stream.conn.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // closing then resets; where it fails the client sees an orderly end
		}
		stream.conn.Close()
	case stream.fate == closing || stream.closeAfter || why != "":
		stream.conn.Close()
	}
	stream.record.Ended, stream.record.Err = srv.now(), why
	usage := stream.usage()
	srv.mu.Lock()
	for series, v := range stream.script.Counters {
		srv.counters[series] += v
	}
	srv.counters["vllm:prompt_tokens_total"] += float64(usage.Prompt)
	srv.counters["vllm:generation_tokens_total"] += float64(stream.sent)
	srv.counters["vllm:prefix_cache_queries_total"] += float64(usage.Prompt)
	srv.counters["vllm:prefix_cache_hits_total"] += float64(usage.Cached)
	if why == "" && stream.fate == finished {
		srv.counters[`vllm:request_success_total{finished_reason=`+string(quote(stream.finishReason()))+`}`]++
	}
	srv.records = append(srv.records, stream.record)
	srv.running.Add(-1)
	srv.mu.Unlock()
	close(stream.done) // the log has it before its handler reads the next request
}
