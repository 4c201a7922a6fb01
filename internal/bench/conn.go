package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const (
	idleLimit   = 60 * time.Second // how long a connection is kept; the Python client's limit
	readBuffer  = 16 << 10         // bytes of one read
	proxyHeader = "Proxy-Authorization"
)

// A conn is a connection to the server.
type conn struct {
	link
	reused bool      // it has carried a request before
	since  time.Time // idle since
}

// A link carries the bytes of a connection.
type link interface {
	io.Writer
	io.Closer
	// SetDeadline sets when writing and receiving fail.
	SetDeadline(t time.Time) error
	// alive reports whether the connection, which is idle, is still open, and the server
	// has sent nothing on it that would be taken for the next response.
	alive() bool
	// receive hands to x what comes until the response is complete.
	receive(x *exchange) error
}

// ordinary is a link that the runtime polls: TLS, whose bytes become events only after
// decryption, and systems without a poller of our own.
type ordinary struct {
	net.Conn
	tcp net.Conn // below TLS
}

func (o *ordinary) receive(x *exchange) error {
	b := x.h.buffers.Get().(*[readBuffer]byte)
	defer x.h.buffers.Put(b)
	for {
		n, err := o.Read(b[:])
		if n > 0 {
			done, err := x.received(b[:n], -1)
			if done || err != nil {
				return err
			}
		}
		if err != nil {
			return x.ended(err)
		}
	}
}

// A dialer opens connections to one server and keeps those that are idle, the last used
// first.
type dialer struct {
	address string      // host:port of the server
	tls     *tls.Config // nil = plain
	proxy   *url.URL    // nil = none
	known   atomic.Pointer[string]
	pollers pollers

	mu   sync.Mutex
	idle []*conn
}

// get returns an idle connection that is still open, or a new one.
func (d *dialer) get(ctx context.Context, fresh bool) (*conn, error) {
	for !fresh {
		d.mu.Lock()
		n := len(d.idle)
		if n == 0 {
			d.mu.Unlock()
			break
		}
		c := d.idle[n-1]
		d.idle = d.idle[:n-1]
		d.mu.Unlock()
		if time.Since(c.since) < idleLimit && c.alive() {
			c.reused = true
			return c, nil
		}
		c.Close()
	}
	return d.dial(ctx)
}

// put keeps c for another request.
func (d *dialer) put(c *conn) {
	c.since = time.Now()
	d.mu.Lock()
	d.idle = append(d.idle, c)
	d.mu.Unlock()
}

// closeIdle closes the connections that carry no request.
func (d *dialer) closeIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.idle {
		c.Close()
	}
	d.idle = nil
}

func (d *dialer) dial(ctx context.Context) (*conn, error) {
	address := d.address
	if d.proxy != nil {
		address = hostPort(d.proxy)
	}
	// A name is looked up once: thousands of lookups at the start of a run would be
	// part of its first tokens' times.
	if known := d.known.Load(); known != nil {
		address = *known
	}
	plain := net.Dialer{KeepAlive: -1}
	tcp, err := plain.DialContext(ctx, "tcp", address)
	if err != nil {
		d.known.Store(nil)
		return nil, err
	}
	if d.known.Load() == nil {
		found := tcp.RemoteAddr().String()
		d.known.Store(&found)
	}
	var l link
	if d.tls == nil {
		l, err = d.pollers.link(tcp)
	} else {
		l, err = d.secure(ctx, tcp)
	}
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return &conn{link: l}, nil
}

// secure starts TLS, through a tunnel where there is a proxy.
func (d *dialer) secure(ctx context.Context, tcp net.Conn) (link, error) {
	stop := context.AfterFunc(ctx, func() { tcp.SetDeadline(past) })
	defer stop()
	if d.proxy != nil {
		if err := d.tunnel(tcp); err != nil {
			return nil, err
		}
	}
	t := tls.Client(tcp, d.tls)
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return &ordinary{Conn: t, tcp: tcp}, nil
}

// past is a deadline that ends what waits for a connection.
var past = time.Unix(1, 0)

func (d *dialer) tunnel(c net.Conn) error {
	request := "CONNECT " + d.address + " HTTP/1.1\r\nHost: " + d.address + "\r\n" + proxyAuth(d.proxy) + "\r\n"
	if _, err := c.Write([]byte(request)); err != nil {
		return err
	}
	in := bufio.NewReader(c)
	r, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("proxy %s: %w", d.proxy.Host, err)
	}
	if r.StatusCode != http.StatusOK || in.Buffered() > 0 {
		return fmt.Errorf("proxy %s: %s to CONNECT %s; want 200 and nothing behind it", d.proxy.Host, r.Status, d.address)
	}
	return nil
}

// proxyAuth is the header line for the user in a proxy's address, or "".
func proxyAuth(proxy *url.URL) string {
	if proxy == nil || proxy.User == nil {
		return ""
	}
	password, _ := proxy.User.Password()
	return proxyHeader + ": Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password)) + "\r\n"
}

// hostPort is the host and the port of u, the port of its scheme where it names none.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}
