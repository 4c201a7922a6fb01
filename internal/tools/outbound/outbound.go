// Package outbound is the only way from a tool to the network. A model that reads strangers' pages
// may be talked into any request, and it sits inside the operator's network: so an address is
// looked at when it is connected to, behind every look-up of a name and every redirect, and what
// is not public is refused unless the operator allows it.
//
// What holds for every client: only http and https; no cookies; one user agent; at most 5
// redirects; an answer has a size, counted as it is read (after decompression), and a time.
// Headers other than what a page needs stay with the origin that they were meant for.
//
// Redirects from https to http are followed, as browsers do: nothing secret goes along, and what
// comes back is not trusted either way.
//
// The proxies of the environment are not used where a model chooses the address: a proxy looks
// names up itself, so nothing here could be checked. Options.Proxy is for the others.
package outbound

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// What holds where Options say nothing.
const (
	DefaultTime      = 15 * time.Second // of a request, its redirects and its answer
	DefaultBytes     = 10 << 20         // of an answer
	DefaultRedirects = 5
)

const (
	dialTime    = 10 * time.Second // also of a TLS handshake
	headerBytes = 256 << 10        // of an answer's header
	idleTime    = 30 * time.Second // that a connection is kept
	idlePerHost = 4
)

// Options are what clients differ in.
type Options struct {
	Version   string        // of the program, for the user agent
	Allow     []string      // what may be connected to although it is not public: HOST[:PORT], IP[:PORT] or CIDR
	Time      time.Duration // 0 = DefaultTime; negative = no limit, for streams
	Bytes     int64         // 0 = DefaultBytes; negative = no limit, for streams
	Redirects int           // 0 = DefaultRedirects; negative = none is followed
	Proxy     bool          // the environment's proxies are used: only where no model chooses addresses
}

// Client returns a client that keeps the rules. An entry of Allow that CheckAllow refuses allows
// nothing. Reason says what its errors mean.
func Client(opts Options) *http.Client { return client(opts, nil) }

// client is Client with a resolver of its own; nil = the system's.
func client(opts Options, resolver *net.Resolver) *http.Client {
	allow, _ := parseAllow(opts.Allow) // the rest is nothing that is allowed
	guard := &guard{allow: allow, resolver: resolver, agent: agent(opts.Version), bytes: opts.Bytes}
	if guard.bytes == 0 {
		guard.bytes = DefaultBytes
	}
	transport := &http.Transport{
		DialContext:            guard.dial,
		TLSHandshakeTimeout:    dialTime,
		MaxResponseHeaderBytes: headerBytes,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTime,
		ForceAttemptHTTP2:      true,
	}
	if opts.Proxy {
		transport.Proxy = guard.proxy
	}
	guard.next = transport
	made := &http.Client{Transport: guard, CheckRedirect: redirects(opts.Redirects)}
	switch {
	case opts.Time == 0:
		made.Timeout = DefaultTime
	case opts.Time > 0:
		made.Timeout = opts.Time
	}
	return made
}

// agent returns the user agent.
func agent(version string) string {
	if version == "" {
		return "ossian"
	}
	return "ossian/" + version
}

// A guard stands before a transport. Its fields are set once; proxies fills as requests go.
type guard struct {
	allow    allowed
	resolver *net.Resolver
	agent    string
	bytes    int64 // of an answer; negative = any
	next     http.RoundTripper
	proxies  sync.Map // HOST:PORT of the environment's proxies → true
}

// RoundTrip sends one request.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := scheme(req.URL); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a transport has to
		}
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", g.agent)
	res, err := g.next.RoundTrip(req)
	if err != nil || g.bytes < 0 {
		return res, err
	}
	if res.ContentLength > g.bytes && req.Method != http.MethodHead {
		_ = res.Body.Close() // nothing of it is wanted
		return nil, tooLarge(g.bytes)
	}
	res.Body = &limited{from: res.Body, left: g.bytes, limit: g.bytes}
	return res, nil
}

// CloseIdleConnections closes what is kept for later requests.
func (g *guard) CloseIdleConnections() {
	if transport, ok := g.next.(*http.Transport); ok {
		transport.CloseIdleConnections()
	}
}

// dial connects to HOST:PORT. The check sits where the address is final: a name that is answered
// otherwise the next time gains nothing by it.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	_, proxy := g.proxies.Load(address)
	named := g.allow.name(address)
	dialer := net.Dialer{Timeout: dialTime, Resolver: g.resolver,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			if proxy {
				return nil
			}
			return g.allow.check(address, named)
		}}
	return dialer.DialContext(ctx, network, address)
}

// proxy returns the environment's proxy for a request and remembers that it may be connected to.
func (g *guard) proxy(req *http.Request) (*url.URL, error) {
	through, err := http.ProxyFromEnvironment(req)
	if err != nil { // its text may hold a password
		return nil, &Error{Reason: "the proxy in the server's environment has no valid address"}
	}
	if through != nil {
		port := through.Port()
		if port == "" {
			port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[through.Scheme]
		}
		if port == "" {
			port = "80"
		}
		g.proxies.Store(net.JoinHostPort(through.Hostname(), port), true)
	}
	return through, nil
}

// redirects returns the rule for redirects, of which most are followed.
func redirects(most int) func(*http.Request, []*http.Request) error {
	if most == 0 {
		most = DefaultRedirects
	}
	return func(req *http.Request, via []*http.Request) error {
		switch {
		case most < 0:
			return &Error{Reason: "it redirects elsewhere, which is not followed here"}
		case len(via) > most:
			return refuse("more than %d redirects", most)
		case req.URL.User != nil:
			return &Error{Reason: "it redirects to an address with a user name"}
		}
		if err := scheme(req.URL); err != nil {
			return err
		}
		// The next host learns neither where the request was before nor what it carried there.
		req.Header.Del("Referer")
		if first := via[0].URL; first.Scheme != req.URL.Scheme || first.Host != req.URL.Host {
			keep(req.Header)
		}
		return nil
	}
}

// keep leaves of a header what any server may see.
func keep(header http.Header) {
	for name := range header {
		switch name {
		case "Accept", "Accept-Language", "Content-Type":
		default:
			delete(header, name)
		}
	}
}

// limited is a body that must not be longer than limit.
type limited struct {
	from  io.ReadCloser
	left  int64 // that may still come
	limit int64
}

// Read fails with the first byte above the limit.
func (l *limited) Read(into []byte) (int, error) {
	if int64(len(into)) > l.left+1 {
		into = into[:l.left+1]
	}
	count, err := l.from.Read(into)
	if int64(count) > l.left {
		count = int(l.left)
		l.left = 0
		return count, tooLarge(l.limit)
	}
	l.left -= int64(count)
	return count, err
}

// Close closes the body.
func (l *limited) Close() error { return l.from.Close() }
