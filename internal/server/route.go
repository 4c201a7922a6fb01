package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"ossian/internal/engine"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/wire"
)

// A route says what a path does and who may ask for it. What is not in the table
// needs a key, too.
type route struct {
	path    string // "*" stands for some of the path, not nothing; the first route that fits counts
	methods []string
	deep    bool // the * may hold slashes
	open    bool // without a key, and to any Host: a status that says nothing else
	probe   bool // asked every few seconds
	work    bool // needs the engine: refused at once where it takes nothing
	body    func(*Server, *reply, *http.Request, *caller, []byte) error
	read    func(*Server, *reply, *http.Request, *caller) error // without a body
	handle  func(*Server, *reply, *http.Request) error          // whoever asks
}

var (
	get  = []string{http.MethodGet, http.MethodHead}
	post = []string{http.MethodPost}
)

// routes is the table of api.md 1.1, as far as it is served.
func routes() []route {
	return []route{
		{path: "/v1/chat/completions", methods: post, work: true, body: (*Server).chat},
		{path: "/v1/completions", methods: post, work: true, body: (*Server).completions},
		{path: "/v1/responses", methods: post, work: true, body: (*Server).respond},
		{path: "/v1/responses/input_tokens", methods: post, body: (*Server).inputTokens},
		{path: "/v1/responses/compact"}, // and no response is called that
		{path: "/v1/responses/*/cancel", methods: post, read: (*Server).cancelResponse},
		{path: "/v1/responses/*/input_items", methods: get, read: (*Server).inputItems},
		{path: "/v1/responses/*", methods: []string{http.MethodGet, http.MethodHead, http.MethodDelete}, read: (*Server).response},
		{path: "/v1/models", methods: get, handle: (*Server).models},
		{path: "/v1/models/*", deep: true, methods: get, handle: (*Server).model},
		{path: "/tokenize", methods: post, body: (*Server).tokenize},
		{path: "/detokenize", methods: post, body: (*Server).detokenize},
		{path: "/health", methods: get, open: true, probe: true, handle: (*Server).health},
		{path: "/ping", methods: []string{http.MethodGet, http.MethodHead, http.MethodPost}, open: true, probe: true, handle: (*Server).health},
		{path: "/ready", methods: get, open: true, probe: true, handle: (*Server).ready},
		{path: "/version", methods: get, handle: (*Server).version},
		{path: "/load", methods: get, handle: (*Server).loadNow},
		{path: "/metrics", methods: get, probe: true, handle: (*Server).scrape},
		{path: "/reset_prefix_cache", methods: post, handle: (*Server).resetCache},
	}
}

// A caller is who sent a request, and when.
type caller struct {
	tenant   uint32 // which key, from 1; 0 = no keys are configured
	received time.Time
	held     int64 // bytes of the body, while it is in memory
}

func (s *Server) route(path string) *route {
	for i := range s.routes {
		r := &s.routes[i]
		before, behind, some := strings.Cut(r.path, "*")
		if some = some && strings.HasPrefix(path, before) && strings.HasSuffix(path, behind) && len(path) > len(before)+len(behind); some && !r.deep {
			some = !strings.Contains(path[len(before):len(path)-len(behind)], "/")
		}
		switch {
		case r.path != path && !some:
		case r.methods == nil:
			return nil
		default:
			return r
		}
	}
	return nil
}

// unreadTime is how long a body that nobody reads may take: net/http waits for it
// before it sends the reply (CON-3).
const unreadTime = time.Second

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(hw http.ResponseWriter, r *http.Request) {
	c := &caller{received: time.Now()}
	w := &reply{ResponseWriter: hw, control: http.NewResponseController(hw), id: s.requestID(r), stall: s.lim().Time(limits.WriteStall)}
	w.conn, _ = r.Context().Value(connKey{}).(*counted)
	w.Header().Set("X-Request-Id", w.id)
	if w.spare() {
		w.Header().Set("Connection", "close")
	}
	if r.ContentLength != 0 {
		_ = w.control.SetReadDeadline(c.received.Add(min(unreadTime, s.lim().Time(limits.BodyRead))))
	}
	rt := s.route(r.URL.Path)
	defer s.done(w, r, rt, c)
	err := s.admit(w, r, rt, c)
	if err == nil {
		err = s.serve(w, r, rt, c)
	}
	switch {
	case err == nil:
	case w.begun || gone(err):
		s.drop(w, err)
	default:
		s.fail(w, err)
	}
}

// done accounts for a request. A panic of its handler is its own problem (HLT-4).
func (s *Server) done(w *reply, r *http.Request, rt *route, c *caller) {
	p := recover()
	if p != nil && p != http.ErrAbortHandler {
		s.log.Error("handler panicked", "req", w.id, "panic", p, "stack", string(debug.Stack()))
		if !w.begun {
			w.Header().Set("x-should-retry", "false")
			w.json(http.StatusInternalServerError, wire.AppendError(nil, internalError(w.id)))
			p = nil
		}
	}
	path := "other"
	if rt != nil {
		path = rt.path
	}
	took := time.Since(c.received)
	s.metrics.Request(path, r.Method, w.status, took)
	if s.cfg.AccessLog {
		level := slog.LevelInfo
		if rt != nil && rt.probe {
			level = slog.LevelDebug
		}
		values := []any{"req", w.id, "route", path, "method", r.Method, "status", w.status, "took", took, "tokens", w.tokens}
		if w.cut != "" {
			values = append(values, "cut", w.cut)
		}
		s.log.Log(r.Context(), level, "request", values...)
	}
	if p != nil {
		panic(http.ErrAbortHandler) // closes the connection: half a reply must not look whole
	}
}

// drop ends a connection whose client has left or does not read.
func (s *Server) drop(w *reply, err error) {
	w.cut = cutReason(err)
	s.metrics.StreamCut(w.cut)
	if w.status == 0 {
		w.status = 499 // as proxies log it
	}
	panic(http.ErrAbortHandler)
}

// admit decides whether a request may be served: by whom it comes, then by what it
// asks for.
func (s *Server) admit(w *reply, r *http.Request, rt *route, c *caller) error {
	open := rt != nil && rt.open
	if r.ProtoMajor != 1 { // HTTP/2 without having been asked: net/http lets its first line through
		return &wire.Error{Message: "this server speaks HTTP/1.1", Type: wire.TypeInvalidRequest, Code: wire.CodeVersion}
	}
	if !open && w.spare() {
		return &wire.Error{Message: "too many connections; try again", Type: wire.TypeOverloaded, Code: wire.CodeOverloaded, Limit: limits.Connections.String()}
	}
	if !open && !s.allowedHost(r.Host) {
		return &wire.Error{Message: "this server does not answer to that Host; --allowed-hosts adds names", Type: wire.TypePermission}
	}
	if err := s.crossOrigin(w, r); err != nil {
		return err
	}
	if r.Method == http.MethodOptions && w.Header().Get("Access-Control-Allow-Origin") != "" {
		return nil // a preflight has no key
	}
	tenant, ok := s.tenant(r.Header.Get("Authorization"))
	if !open && !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		return &wire.Error{Message: "a valid key is required: Authorization: Bearer KEY", Type: wire.TypeInvalidRequest, Code: wire.CodeInvalidKey}
	}
	c.tenant = tenant
	switch {
	case rt == nil:
		return &wire.Error{Message: fmt.Sprintf("no such route: %.100s", r.URL.Path), Type: wire.TypeInvalidRequest, Code: wire.CodeNotFound}
	case !slices.Contains(rt.methods, r.Method):
		allow := strings.Join(rt.methods, ", ")
		w.Header().Set("Allow", allow)
		return &wire.Error{Message: "this route takes " + allow, Type: wire.TypeInvalidRequest, Code: wire.CodeMethod}
	}
	return nil
}

func (s *Server) serve(w *reply, r *http.Request, rt *route, c *caller) error {
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	switch {
	case rt.read != nil:
		return rt.read(s, w, r, c)
	case rt.body == nil:
		return rt.handle(s, w, r)
	}
	if rt.work {
		s.load.Add(1)
		defer s.load.Add(-1)
		if err := s.accepting(); err != nil {
			return err
		}
	}
	defer s.release(c)
	body, err := s.body(w, r, c)
	if err != nil {
		return err
	}
	return rt.body(s, w, r, c, body)
}

// release says that the body is not needed any more.
func (s *Server) release(c *caller) {
	if c.held > 0 {
		_ = s.hold(-c.held) // only taking can fail
		c.held = 0
	}
}

// accepting refuses work before its body is read where it would be refused anyway
// (ADM-4).
func (s *Server) accepting() error {
	if s.draining.Load() {
		if m, err := s.host.Find(""); err == nil {
			s.reject(m, metrics.RejectDraining, 0)
		}
		return engine.ErrDraining
	}
	m, err := s.host.Find("")
	if errors.Is(err, host.ErrLoading) {
		return nil // an unknown name is worth its own error
	}
	if err == nil {
		if err = m.Engine.Accepting(); err != nil {
			s.rejected(m, err)
		}
	}
	return err
}

// allowedHost is the defence against pages whose name resolves to this machine
// (DNS rebinding): without a key, names must be known. Addresses cannot be rebound.
func (s *Server) allowedHost(h string) bool {
	if len(s.live.Load().keys) > 0 || slices.Contains(s.cfg.AllowedHosts, "*") {
		return true
	}
	name := h
	if host, _, err := net.SplitHostPort(h); err == nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	return slices.ContainsFunc(s.cfg.AllowedHosts, func(a string) bool { return strings.EqualFold(a, name) || strings.EqualFold(a, h) })
}

// crossOrigin lets pages of the allowed origins in and keeps others from changing
// anything (SEC-4).
func (s *Server) crossOrigin(w *reply, r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if s.cfg.AllowedOrigins != nil {
		w.Header().Add("Vary", "Origin")
	}
	if slices.Contains(s.cfg.AllowedOrigins, origin) || slices.Contains(s.cfg.AllowedOrigins, "*") {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			h.Set("Access-Control-Allow-Headers", asked) // SDKs send headers of their own
		}
		h.Set("Access-Control-Expose-Headers", "Retry-After, X-Request-Id, x-should-retry, x-ossian-ignored, x-ossian-not-stored, x-ossian-truncated")
		return nil
	}
	_, own, _ := strings.Cut(origin, "://")
	if r.Method == http.MethodGet || r.Method == http.MethodHead || own == r.Host {
		return nil // without CORS headers a page cannot read the reply
	}
	return &wire.Error{Message: "pages of that origin may not use this server; --allowed-origins adds some", Type: wire.TypePermission}
}

// body reads a JSON body within its limits. Memory is taken as bytes come, not as
// their number is announced; c says how much of it release gives back.
func (s *Server) body(w *reply, r *http.Request, c *caller) ([]byte, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if coding := r.Header.Get("Content-Encoding"); err != nil || kind != "application/json" || (coding != "" && coding != "identity") {
		return nil, &wire.Error{Message: "Content-Type application/json expected, without Content-Encoding", Type: wire.TypeInvalidRequest, Code: wire.CodeMediaType}
	}
	most := s.lim()[limits.RequestBody]
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	_ = w.control.SetReadDeadline(c.received.Add(s.lim().Time(limits.BodyRead)))
	var buf []byte
	size := int64(4 << 10)
	if r.ContentLength >= 0 && r.ContentLength < 64<<10 {
		size = r.ContentLength + 1 // one more, so that the end shows
	}
	for ; ; size *= 2 {
		size = min(size, most+1)
		if err := s.hold(size - c.held); err != nil {
			return nil, err
		}
		c.held = size
		buf = append(make([]byte, 0, size), buf...)
		for err == nil && len(buf) < cap(buf) {
			var n int
			n, err = r.Body.Read(buf[len(buf):cap(buf)])
			buf = buf[:len(buf)+n]
		}
		if int64(len(buf)) > most {
			return buf, tooLarge(most)
		}
		if err != nil {
			return buf, s.bodyEnd(w, err)
		}
	}
}

// bodyEnd says what the error that ended a body means; nil for its proper end.
func (s *Server) bodyEnd(w *reply, err error) error {
	switch {
	case err == io.EOF:
		_ = w.control.SetReadDeadline(time.Time{})
		return nil
	case timeout(err):
		w.Header().Set("Connection", "close")
		return &wire.Error{Message: fmt.Sprintf("the body did not arrive within %v", s.lim().Time(limits.BodyRead)), Type: wire.TypeInvalidRequest,
			Code: wire.CodeInvalidValue, Limit: limits.BodyRead.String()}
	case err == io.ErrUnexpectedEOF:
		return errGone
	}
	return wire.Invalid("", "the body could not be read")
}

func tooLarge(most int64) *wire.Error {
	return &wire.Error{Message: fmt.Sprintf("the body has more than %d bytes", most), Type: wire.TypeInvalidRequest, Code: wire.CodeTooLarge, Limit: limits.RequestBody.String()}
}

// hold adds n bytes to the bodies in memory, if there is room.
func (s *Server) hold(n int64) error {
	if total := s.bodies.Add(n); n > 0 && total > s.lim()[limits.BodiesInFlight] {
		s.bodies.Add(-n)
		return &wire.Error{Message: "too many request bodies at once; try again", Type: wire.TypeOverloaded, Code: wire.CodeOverloaded, Limit: limits.BodiesInFlight.String()}
	}
	s.metrics.Bodies(n)
	return nil
}

// requestID returns the client's id if it can go into headers and logs, else a new one.
func (s *Server) requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	strange := func(c rune) bool { return c <= ' ' || c >= 0x7f }
	if id == "" || len(id) > 256 || strings.ContainsFunc(id, strange) {
		return s.newID("req_")
	}
	return id
}

// mostIgnored bounds x-ossian-ignored: proxies have little room for headers.
const mostIgnored = 2 << 10

// ignored names what was not understood, after what is named already, or refuses it in
// strict mode.
func (s *Server) ignored(w *reply, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if s.cfg.Strict {
		return &wire.Error{Message: "unknown field", Type: wire.TypeInvalidRequest, Param: names[0], Code: wire.CodeUnsupported}
	}
	all := w.Header().Get("x-ossian-ignored")
	for _, name := range names {
		if name = strings.Trim(strconv.QuoteToASCII(name), `"`); len(all)+len(name) > mostIgnored {
			break
		}
		if all != "" {
			all += ", "
		}
		all += name
	}
	w.Header().Set("x-ossian-ignored", all)
	return nil
}
