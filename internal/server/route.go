package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"ossian/internal/api"
	"ossian/internal/board"
	"ossian/internal/engine"
	"ossian/internal/generate"
	"ossian/internal/limits"
	"ossian/internal/wire"
)

// A route says what a path does and who may ask for it. What is not in the table
// needs a key, too.
type route struct {
	path    string // "*" stands for some of the path, not nothing; the first route that fits counts
	methods []string
	deep    bool // the * may hold slashes
	open    bool // without a key, and to any Host: a status that says nothing else
	free    bool // without a key: files that hold no secret
	keyless bool // without a key, but like others in all else
	probe   bool // asked every few seconds
	work    bool // needs the engine: refused at once where it takes nothing
	stays   bool // the answer goes on for as long as the client likes, and takes one of few places
	admin   bool // is about the server as a whole: for whoever is on its machine

	// One of these answers.
	body   func(*api.Reply, *http.Request, *api.Caller, []byte) error
	read   func(*api.Reply, *http.Request, *api.Caller) error // without a body
	handle func(*api.Reply, *http.Request) error              // whoever asks
}

var (
	get  = []string{http.MethodGet, http.MethodHead}
	post = []string{http.MethodPost}
)

// table is that of api.md 1.1, as far as it is served.
func (s *Server) table() []route {
	table := []route{
		{path: "/v1/chat/completions", methods: post, work: true, body: s.chat.Complete},
		{path: "/v1/chat/completions/render", methods: post, body: s.chat.Render},
		{path: "/v1/completions", methods: post, work: true, body: s.completions.Complete},
		{path: "/v1/completions/render", methods: post, body: s.completions.Render},
		{path: "/v1/messages", methods: post, work: true, body: s.messages.Create},
		{path: "/v1/messages/count_tokens", methods: post, body: s.messages.CountTokens},
		{path: "/v1/responses", methods: post, work: true, body: s.responses.Create},
		{path: "/v1/responses/input_tokens", methods: post, body: s.responses.CountTokens},
		{path: "/v1/responses/compact"}, // and no response is called that
		{path: "/v1/responses/*/cancel", methods: post, read: s.responses.Cancel},
		{path: "/v1/responses/*/input_items", methods: get, read: s.responses.InputItems},
		{path: "/v1/responses/*", methods: []string{http.MethodGet, http.MethodHead, http.MethodDelete}, read: s.responses.Stored},
		{path: "/v1/models", methods: get, handle: s.models},
		{path: "/v1/models/*", deep: true, methods: get, handle: s.model},
		{path: "/tokenize", methods: post, body: s.tokenize},
		{path: "/detokenize", methods: post, body: s.detokenize},
		{path: "/health", methods: get, open: true, probe: true, handle: s.health},
		{path: "/ping", methods: []string{http.MethodGet, http.MethodHead, http.MethodPost}, open: true, probe: true, handle: s.ping},
		{path: "/ready", methods: get, open: true, probe: true, handle: s.ready},
		{path: "/version", methods: get, handle: s.version},
		{path: "/load", methods: get, handle: s.loadNow},
		{path: "/info", methods: get, handle: s.info},
		{path: "/requests", methods: []string{http.MethodGet}, stays: true, read: s.requests},
		{path: "/metrics", methods: get, keyless: s.cfg.OpenMetrics, probe: true, handle: s.scrape},
		{path: "/reset_prefix_cache", methods: post, admin: true, handle: s.resetCache},
	}
	if s.page != nil {
		table = append(table, route{path: "/", methods: get, free: true, handle: s.pageFile},
			route{path: "/ui/*", deep: true, methods: get, free: true, handle: s.pageFile})
	}
	return table
}

// pageFile answers with the page or a file of it.
func (s *Server) pageFile(w *api.Reply, r *http.Request) error {
	if !s.page.Serve(w, r) {
		return noRoute(r)
	}
	return nil
}

// noRoute is what whoever may ask is told about a path that is nobody's.
func noRoute(r *http.Request) error {
	return &wire.Error{Message: fmt.Sprintf("no such route: %.100s", r.URL.Path), Type: wire.TypeInvalidRequest, Code: wire.CodeNotFound}
}

// route returns that of a path, nil if there is none.
func (s *Server) route(path string) *route {
	for i := range s.routes {
		if rt := &s.routes[i]; rt.fits(path) {
			if rt.methods == nil {
				return nil
			}
			return rt
		}
	}
	return nil
}

// fits reports whether a path is the route's.
func (rt *route) fits(path string) bool {
	if rt.path == path {
		return true
	}
	before, behind, wild := strings.Cut(rt.path, "*")
	if !wild || !strings.HasPrefix(path, before) || !strings.HasSuffix(path, behind) || len(path) <= len(before)+len(behind) {
		return false
	}
	return rt.deep || !strings.Contains(path[len(before):len(path)-len(behind)], "/")
}

// unreadTime is how long a body that nobody reads may take: net/http waits for it
// before it sends the reply (CON-3).
const unreadTime = time.Second

// errUnclear is what a client is told whose head others may read in another way. The
// connection is closed: what follows on it may be the inside of a request.
var errUnclear error = &wire.Error{Type: wire.TypeInvalidRequest, Code: wire.CodeInvalidValue,
	Message: "it is not clear where the request ends: Content-Length or Transfer-Encoding: chunked expected, once, in HTTP/1.1, and no header over several lines"}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(hw http.ResponseWriter, r *http.Request) {
	caller := s.front.NewCaller(time.Now())
	conn := connOf(r)
	reply := api.NewReply(hw, s.requestID(r), s.lim().Time(limits.WriteStall), conn.syscallConn())
	reply.Header().Set("X-Request-Id", reply.ID)
	giveBack(reply.Header(), r.Header)
	if ofMessages(r) {
		reply.Header().Set("Request-Id", reply.ID) // where those clients look for it
	}
	clear := conn.next()
	// Below TLS nobody has looked: what is chunked may have had a length as well.
	if !clear || conn.isSpare() || (len(r.TransferEncoding) > 0 && r.TLS != nil) {
		reply.Header().Set("Connection", "close")
	}
	if r.ContentLength != 0 {
		reply.BodyDeadline(caller.Received.Add(min(unreadTime, s.lim().Time(limits.BodyRead))))
	}
	// Whatever becomes of the request, it is accounted for behind the reply.
	rt := s.route(r.URL.Path)
	defer s.account(reply, r, rt, caller.Received)
	err := errUnclear
	if clear {
		err = s.admit(reply, r, rt, caller)
	}
	if err == nil {
		seen := s.observe(r, rt, caller.Received)
		if seen != nil {
			caller.Observer = seen
			// Behind the reply, and also when the handler panics.
			defer func() { seen.replied(reply.Status, s.modelOf(caller), err) }()
		}
		err = s.serve(reply, r, rt, caller)
	}
	switch {
	case err == nil:
	case reply.Begun() || generate.Gone(err):
		s.drop(reply, err)
	default:
		s.fail(reply, r, err)
	}
}

// account accounts for a request. A panic of its handler is its own problem (HLT-4).
func (s *Server) account(reply *api.Reply, r *http.Request, rt *route, received time.Time) {
	fault := recover()
	if fault != nil && fault != http.ErrAbortHandler {
		s.log.Error("handler panicked", "req", reply.ID, "panic", fault, "stack", string(debug.Stack()))
		if !reply.Begun() {
			reply.Header().Set("x-should-retry", "false")
			reply.JSON(http.StatusInternalServerError, wire.AppendError(nil, api.InternalError(reply.ID)))
			fault = nil
		}
	}
	path := "other"
	if rt != nil {
		path = rt.path
	}
	took := time.Since(received)
	s.metrics.Request(path, r.Method, reply.Status, took)
	if s.cfg.AccessLog {
		level := slog.LevelInfo
		if rt != nil && rt.probe {
			level = slog.LevelDebug
		}
		values := []any{"req", reply.ID, "route", path, "method", fmt.Sprintf("%.20s", r.Method), "status", reply.Status, "took", took, "tokens", reply.Tokens}
		if reply.Cut != "" {
			values = append(values, "cut", reply.Cut)
		}
		s.log.Log(r.Context(), level, "request", values...)
	}
	if fault != nil {
		panic(http.ErrAbortHandler) // closes the connection: half a reply must not look whole
	}
}

// drop ends a connection whose client has left or does not read.
func (s *Server) drop(w *api.Reply, err error) {
	w.Cut = api.CutReason(err)
	s.metrics.StreamCut(w.Cut)
	if w.Status == 0 {
		w.Status = 499 // as proxies log it
	}
	panic(http.ErrAbortHandler)
}

// admit decides whether a request may be served: by whom it comes, then by what it
// asks for.
func (s *Server) admit(reply *api.Reply, r *http.Request, rt *route, caller *api.Caller) error {
	open := rt != nil && rt.open
	if r.ProtoMajor != 1 { // HTTP/2 without having been asked: net/http lets its first line through
		return &wire.Error{Message: "this server speaks HTTP/1.1", Type: wire.TypeInvalidRequest, Code: wire.CodeVersion}
	}
	if !open && connOf(r).isSpare() {
		return &wire.Error{Message: "too many connections; try again", Type: wire.TypeOverloaded, Code: wire.CodeOverloaded, Limit: limits.Connections.String()}
	}
	if !open && !s.allowedHost(r.Host) {
		return &wire.Error{Message: "this server does not answer to that Host; --allowed-hosts adds names", Type: wire.TypePermission}
	}
	if err := s.crossOrigin(reply, r, rt); err != nil {
		return err
	}
	if r.Method == http.MethodOptions && reply.Header().Get("Access-Control-Allow-Origin") != "" {
		return nil // a preflight has no key
	}
	tenant, ok := s.tenant(r.Header.Get("Authorization"))
	if text := r.Header.Get("X-Api-Key"); !ok && text != "" && ofMessages(r) {
		tenant, ok = s.tenant("Bearer " + text)
	}
	if !open && !ok && (rt == nil || !(rt.free || rt.keyless)) {
		reply.Header().Set("WWW-Authenticate", "Bearer")
		return &wire.Error{Message: "a valid key is required: Authorization: Bearer KEY, or x-api-key: KEY", Type: wire.TypeInvalidRequest, Code: wire.CodeInvalidKey}
	}
	caller.Tenant = tenant
	if rt != nil {
		caller.Label = board.Label{ID: reply.ID, Route: rt.path}
	}
	// Only whoever may ask learns which routes there are.
	switch {
	case rt == nil:
		return noRoute(r)
	case !slices.Contains(rt.methods, r.Method):
		allow := strings.Join(rt.methods, ", ")
		reply.Header().Set("Allow", allow)
		return &wire.Error{Message: "this route takes " + allow, Type: wire.TypeInvalidRequest, Code: wire.CodeMethod}
	case rt.admin && !fromHere(r):
		return &wire.Error{Message: "this route is for programs on the server's own machine that ask the server itself, not a proxy", Type: wire.TypePermission}
	case rt.body == nil:
		return noForm(r)
	}
	return nil
}

// serve has a request that was admitted answered. Work counts from before its body is
// read; the body is given back here at the latest.
func (s *Server) serve(reply *api.Reply, r *http.Request, rt *route, caller *api.Caller) error {
	if r.Method == http.MethodOptions {
		reply.WriteHeader(http.StatusNoContent)
		return nil
	}
	switch {
	case rt.read != nil:
		return rt.read(reply, r, caller)
	case rt.body == nil:
		return rt.handle(reply, r)
	}
	if rt.work { // counted first: a drain waits for all who were let in
		s.load.Add(1)
		defer s.load.Add(-1)
		if err := s.accepting(); err != nil {
			return err
		}
	}
	defer caller.Leave()
	body, err := s.body(reply, r, caller)
	if err != nil {
		return err
	}
	return rt.body(reply, r, caller, body)
}

// accepting refuses work before its body is read where it would be refused anyway
// (ADM-4).
func (s *Server) accepting() error {
	leases := s.host.Resident()
	defer release(leases)
	if s.draining.Load() {
		for _, lease := range leases {
			s.service.Rejected(lease.Model, engine.ErrDraining)
		}
		return engine.ErrDraining
	}
	if len(leases) != 1 || s.host.Several() {
		return nil // it may wait for its model; an unknown name is worth its own error
	}
	err := leases[0].Engine.Accepting()
	if err != nil {
		s.service.Rejected(leases[0].Model, err)
	}
	return err
}

// mostGivenBack bounds the bytes of a request's headers that its reply repeats.
const mostGivenBack = 8 << 10

// giveBack repeats headers by which gateways know their requests again (operations.md 3).
func giveBack(reply, request http.Header) {
	left := mostGivenBack
	for name, values := range request {
		if name != "Traceparent" && !strings.HasPrefix(name, "X-Gateway-") {
			continue
		}
		for _, value := range values {
			if size := len(name) + len(value); size <= left {
				left -= size
				reply.Add(name, value)
			}
		}
	}
}

// requestID returns the client's id if it can go into headers and logs, else a new one.
func (s *Server) requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	strange := func(c rune) bool { return c <= ' ' || c >= 0x7f }
	if id == "" || len(id) > 256 || strings.ContainsFunc(id, strange) {
		return s.front.NewID("req_")
	}
	return id
}
