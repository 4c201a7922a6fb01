package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"math"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"ossian/internal/api"
	"ossian/internal/limits"
	"ossian/internal/wire"
)

// settings are what Reload replaces as a whole. Nothing in them changes.
type settings struct {
	keys []key  // nil = none is needed
	last uint32 // tenant
	lim  *limits.Set
}

// A key is known by its digest. Its tenant is its own as long as it is one of the keys:
// fair queues and cached prefixes are told apart by it, wherever in the list it stands.
type key struct {
	sum    [sha256.Size]byte
	tenant uint32
}

// Reload replaces keys and limits, nil = the defaults. Requests that are served already
// go on as they are. Limits that are not Live count when the server is started anew.
func (s *Server) Reload(keys []string, lim *limits.Set) {
	if lim == nil {
		lim = limits.Defaults()
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	// Keys that stay keep their tenants; new ones get numbers that nobody had.
	before, next := s.live.Load(), &settings{lim: lim}
	if before == nil {
		before = next
	}
	next.last = before.last
	for _, text := range keys {
		added := key{sum: sha256.Sum256([]byte(text))}
		same := func(other key) bool { return other.sum == added.sum }
		if slices.ContainsFunc(next.keys, same) {
			continue
		}
		if i := slices.IndexFunc(before.keys, same); i >= 0 {
			added.tenant = before.keys[i].tenant
		} else {
			next.last++
			added.tenant = next.last
		}
		next.keys = append(next.keys, added)
	}
	s.live.Store(next)
}

// lim are the limits in force.
func (s *Server) lim() *limits.Set { return s.live.Load().lim }

// tenant returns whose key it is. All keys are compared, in constant time, and a key
// that is known is no more work than another: the answer's time says nothing (SEC-5).
func (s *Server) tenant(authorization string) (uint32, bool) {
	keys := s.live.Load().keys
	if len(keys) == 0 {
		return 0, true
	}
	scheme, text, _ := strings.Cut(authorization, " ")
	bearer := strings.EqualFold(scheme, "Bearer")
	sum := sha256.Sum256([]byte(strings.TrimSpace(text)))
	found := 0 // its tenant: one key at most is equal
	for i := range keys {
		found |= subtle.ConstantTimeCompare(sum[:], keys[i].sum[:]) * int(keys[i].tenant&math.MaxInt32)
	}
	known := subtle.ConstantTimeLessOrEq(1, found)
	if !bearer {
		known = 0
	}
	return uint32(found), known == 1
}

// owner returns under which name a key's responses are kept. It says nothing about the
// key, and stays the same however keys are arranged (DUR-7).
func (s *Server) owner(tenant uint32) string {
	if tenant == 0 {
		return "local"
	}
	for _, k := range s.live.Load().keys {
		if k.tenant == tenant {
			sum := sha256.Sum256(append([]byte("ossian response owner\x00"), k.sum[:]...))
			return hex.EncodeToString(sum[:16])
		}
	}
	return "" // the key is gone: nothing is its own
}

// admits reports whether a caller of that tenant would still be let in.
func (s *Server) admits(tenant uint32) bool {
	keys := s.live.Load().keys
	if tenant == 0 {
		return len(keys) == 0
	}
	return slices.ContainsFunc(keys, func(k key) bool { return k.tenant == tenant })
}

// allowedHost is the defence against pages whose name resolves to this machine
// (DNS rebinding): without a key, names must be known. Addresses cannot be rebound.
func (s *Server) allowedHost(hostport string) bool {
	if len(s.live.Load().keys) > 0 || slices.Contains(s.cfg.AllowedHosts, "*") {
		return true
	}
	name := hostport
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	return slices.ContainsFunc(s.cfg.AllowedHosts, func(allowed string) bool {
		return strings.EqualFold(allowed, name) || strings.EqualFold(allowed, hostport)
	})
}

// crossOrigin lets pages of the allowed origins in and keeps others from changing
// anything, and from taking places that others need (SEC-4).
func (s *Server) crossOrigin(reply *api.Reply, r *http.Request, rt *route) error {
	origin, reads := r.Header.Get("Origin"), r.Method == http.MethodGet || r.Method == http.MethodHead
	reads = reads && (rt == nil || !rt.stays)
	if origin == "" {
		if site := r.Header.Get("Sec-Fetch-Site"); !reads && (site == "cross-site" || site == "same-site") {
			return errOrigin // a browser that keeps the origin to itself
		}
		return nil
	}
	if s.cfg.AllowedOrigins != nil {
		reply.Header().Add("Vary", "Origin")
	}
	if slices.Contains(s.cfg.AllowedOrigins, origin) || slices.Contains(s.cfg.AllowedOrigins, "*") {
		header := reply.Header()
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			header.Set("Access-Control-Allow-Headers", asked) // SDKs send headers of their own
		}
		header.Set("Access-Control-Expose-Headers", "Retry-After, X-Request-Id, x-should-retry, x-ossian-ignored, x-ossian-not-stored, x-ossian-truncated")
		return nil
	}
	_, own, _ := strings.Cut(origin, "://")
	if reads || own == r.Host {
		return nil // without CORS headers a page cannot read the reply
	}
	return errOrigin
}

var errOrigin error = &wire.Error{Message: "pages of that origin may not use this server; --allowed-origins adds some", Type: wire.TypePermission}

// noForm refuses a request without a body that says it has one of another type than JSON:
// pages send forms everywhere without asking (SEC-4).
func noForm(r *http.Request) error {
	if sent := r.Header.Get("Content-Type"); sent != "" && r.Method != http.MethodGet && r.Method != http.MethodHead {
		if kind, _, err := mime.ParseMediaType(sent); err != nil || kind != "application/json" {
			return &wire.Error{Message: "Content-Type application/json expected, or none", Type: wire.TypeInvalidRequest, Code: wire.CodeMediaType}
		}
	}
	return nil
}

// fromHere reports whether a request comes from this machine and through no proxy: what is
// about the server as a whole is not to be had from elsewhere (SEC-3).
func fromHere(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr) // one of this machine's own
	return remote.Addr().Unmap().IsLoopback() || (ok && local.AddrPort().Addr() == remote.Addr())
}
