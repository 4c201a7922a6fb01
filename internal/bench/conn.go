package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	idleLimit   = 60 * time.Second // how long a connection is kept; the Python client's limit
	readBuffer  = 16 << 10         // bytes of one read
	proxyHeader = "Proxy-Authorization"
)

// A conn is a connection to the server.
type conn struct {
	net.Conn
	raw    syscall.RawConn // of TCP below, for kernel times; nil = none to be had
	kernel bool            // raw tells when bytes came in
	reused bool            // it has carried a request before
	since  time.Time       // idle since
}

// A dialer opens connections to one server and keeps those that are idle, the last used
// first.
type dialer struct {
	address string      // host:port of the server
	tls     *tls.Config // nil = plain
	proxy   *url.URL    // nil = none
	known   atomic.Pointer[string]

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
		if time.Since(c.since) < idleLimit && c.alive(d.tls != nil) {
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
	c := &conn{Conn: tcp}
	if sc, ok := tcp.(syscall.Conn); ok {
		c.raw, _ = sc.SyscallConn() // without it times are the client's own
	}
	if d.tls == nil {
		c.kernel = c.stamp()
		return c, nil
	}
	if err := d.secure(ctx, c); err != nil {
		tcp.Close()
		return nil, err
	}
	return c, nil
}

// secure starts TLS on c, through a tunnel where there is a proxy. Received bytes
// become events only after decryption, so no kernel times are kept.
func (d *dialer) secure(ctx context.Context, c *conn) error {
	stop := context.AfterFunc(ctx, func() { c.Conn.SetDeadline(past) })
	defer stop()
	if d.proxy != nil {
		if err := d.tunnel(c.Conn); err != nil {
			return err
		}
	}
	t := tls.Client(c.Conn, d.tls)
	if err := t.HandshakeContext(ctx); err != nil {
		return err
	}
	c.Conn = t
	return nil
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

// readPlain hands to x what the connection brings until the response is complete.
func (c *conn) readPlain(x *exchange) error {
	b := x.h.buffers.Get().(*[readBuffer]byte)
	defer x.h.buffers.Put(b)
	for {
		n, err := c.Read(b[:])
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
