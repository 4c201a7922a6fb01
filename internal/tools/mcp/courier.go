package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"ossian/internal/limits"
)

// errTooLarge ends what is read of a message that is longer than the limits allow.
var errTooLarge = errors.New("a message is too large")

// errElsewhere is the answer to a request that would leave for another host.
var errElsewhere = errors.New("it refers to another host")

// maxRefusal is what is read of the body of a refusal.
const maxRefusal = 64 << 10

// An exchange is what a call, or a connect, has seen of the wire. It travels with the context, so
// that errors of the SDK, which are texts, need not be understood.
type exchange struct {
	mu   sync.Mutex // guards wire
	wire wire
	told chan struct{} // closed when the server knows that nobody waits any more, or need not
	once sync.Once     // closes told
}

// A wire is what was seen.
type wire struct {
	status int            // of the latest reply of HTTP; 0 = none came
	sent   error          // of the latest request of HTTP; nil = it was answered
	cut    error          // of the latest body that broke off; nil = none did
	raw    []byte         // the result as it came; nil = none did
	answer *jsonrpc.Error // instead of a result; nil = none
}

type exchangeKey struct{}

// newExchange returns one and the context that it travels with.
func newExchange(ctx context.Context) (context.Context, *exchange) {
	x := &exchange{told: make(chan struct{})}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// exchangeOf returns that of a context; one that nobody looks at where it has none.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{told: make(chan struct{})}
}

// note changes what was seen.
func (x *exchange) note(change func(*wire)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change(&x.wire)
}

func (x *exchange) seen() wire {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.wire
}

// cancelled says that the server was told, or need not be.
func (x *exchange) cancelled() { x.once.Do(func() { close(x.told) }) }

// A courier carries the requests of one connection. What it adds to them goes to one host, what it
// brings back is bounded, and all of it ends with the connection.
type courier struct {
	conn   *connection
	next   http.RoundTripper
	origin string // scheme and host
	header http.Header
}

// newClient returns the client of a connection. Redirects stay on the host of the server.
func newClient(conn *connection, base *http.Client, at string, header http.Header) (*http.Client, error) {
	address, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	next := base.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	carrier := &courier{conn: conn, next: next, origin: origin(address), header: header}
	// Redirects beyond the host fail in the courier, which every request goes through.
	redirect := func(req *http.Request, before []*http.Request) error {
		if base.CheckRedirect != nil {
			return base.CheckRedirect(req, before)
		}
		if len(before) >= 5 {
			return errors.New("5 redirects")
		}
		return nil
	}
	return &http.Client{Transport: carrier, CheckRedirect: redirect}, nil
}

func origin(u *url.URL) string { return strings.ToLower(u.Scheme + "://" + u.Host) }

// RoundTrip implements http.RoundTripper.
func (c *courier) RoundTrip(req *http.Request) (*http.Response, error) {
	exchange := exchangeOf(req.Context())
	if origin(req.URL) != c.origin {
		exchange.note(func(w *wire) { w.status, w.sent = 0, errElsewhere })
		return nil, errElsewhere
	}
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(c.conn.life, cancel)
	end := func() { stop(); cancel() }
	req = req.Clone(ctx)
	for name, values := range c.header {
		if req.Header[http.CanonicalHeaderKey(name)] == nil {
			req.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if version := c.conn.version(); version != "" && c.conn.way.transport == streamable && req.Header.Get("Mcp-Protocol-Version") == "" {
		req.Header.Set("Mcp-Protocol-Version", version)
	}
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		end()
		exchange.note(func(w *wire) { w.status, w.sent = 0, err })
		return nil, err
	}
	exchange.note(func(w *wire) { w.status, w.sent = resp.StatusCode, nil })
	over := c.conn.broke // the stream of events has messages of the whole connection
	if c.conn.way.transport == streamable {
		over = func(err error) { exchange.note(func(w *wire) { w.cut = err }) }
	}
	resp.Body = &bounded{Reader: resp.Body, body: resp.Body, limit: c.limit(resp), per: unit(resp), over: over, end: end}
	return resp, nil
}

// limit is how many bytes of a reply, or of one event of it, are read.
func (c *courier) limit(resp *http.Response) int64 {
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return maxRefusal
	}
	return messageBytes(c.conn.limits)
}

// messageBytes is how large a message may be: a result or a page of tools, and what is around it.
func messageBytes(set *limits.Set) int64 {
	return max(set[limits.ToolResultBytes], set[limits.ToolBytes]) + maxRefusal
}

// A per says what a limit counts anew for.
type per uint8

const (
	perBody  per = iota
	perEvent     // ends with an empty line
	perLine
)

func unit(resp *http.Response) per {
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode < 300 && strings.HasPrefix(strings.ToLower(strings.TrimSpace(kind)), "text/event-stream") {
		return perEvent
	}
	return perBody
}

// A bounded reader ends with errTooLarge where a body, event or line has more bytes than it may.
type bounded struct {
	io.Reader
	body  io.Closer
	limit int64
	per   per
	over  func(error) // is told why reading ended before the end
	end   func()      // with Close

	count, line int64 // bytes of the unit, and of its last line
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.count > b.limit {
		return 0, errTooLarge
	}
	count, err := b.Reader.Read(p)
	for _, char := range p[:count] {
		b.count++
		// The bound is one message's: of a line, of an event up to its empty line, else of the
		// whole body.
		switch {
		case char == '\n' && (b.per == perLine || (b.per == perEvent && b.line == 0)):
			b.count, b.line = 0, 0
		case char == '\n':
			b.line = 0
		case char != '\r':
			b.line++
		}
		if b.count > b.limit {
			b.over(errTooLarge)
			return 0, errTooLarge
		}
	}
	if err != nil && err != io.EOF && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		b.over(err)
	}
	return count, err
}

// Close implements io.Closer.
func (b *bounded) Close() error {
	b.end()
	return b.body.Close()
}
