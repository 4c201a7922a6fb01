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

// How connections are kept and read.
const (
	idleLimit   = 60 * time.Second // how long a connection is kept; the Python client's limit
	readBuffer  = 16 << 10         // bytes of one read
	proxyHeader = "Proxy-Authorization"

	maxProxyHead = 64 << 10 // bytes of a proxy's answer to CONNECT
)

// A connection to the server is used by one exchange at a time: dialing → in use → idle →
// in use … → closed. While it is in use its exchange may do everything with it, and anybody
// may set a deadline; while it is idle it is the dialer's.
type connection struct {
	transport
	reused    bool // it has carried a request before
	idleSince time.Time
}

// A transport carries the bytes of a connection.
type transport interface {
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

// A runtimeTransport is one that the runtime polls: TLS, whose bytes become events only after
// decryption, and systems without a poller of our own.
type runtimeTransport struct {
	net.Conn
	tcp net.Conn // below TLS
}

func (r *runtimeTransport) receive(exchange *exchange) error {
	buffer := exchange.http.buffers.Get().(*[readBuffer]byte)
	defer exchange.http.buffers.Put(buffer)
	for {
		n, err := r.Read(buffer[:])
		if n > 0 {
			done, err := exchange.received(buffer[:n], -1)
			if done || err != nil {
				return err
			}
		}
		if err != nil {
			return exchange.ended(err)
		}
	}
}

// A dialer opens connections to one server and keeps those that are idle, the last used
// first.
type dialer struct {
	address  string                 // host:port of the server
	tls      *tls.Config            // nil = plain
	proxy    *url.URL               // nil = none
	resolved atomic.Pointer[string] // IP address and port that the last dial reached; nil = not known
	pollers  pollers

	mu   sync.Mutex // guards idle
	idle []*connection
}

// get returns an idle connection that is still open, or a new one; fresh = a new one.
func (d *dialer) get(ctx context.Context, fresh bool) (*connection, error) {
	for !fresh {
		d.mu.Lock()
		kept := len(d.idle)
		if kept == 0 {
			d.mu.Unlock()
			break
		}
		last := d.idle[kept-1]
		d.idle = d.idle[:kept-1]
		d.mu.Unlock()
		// Asking the kernel costs less than a request that has to be sent again.
		if time.Since(last.idleSince) < idleLimit && last.alive() {
			last.reused = true
			return last, nil
		}
		last.Close()
	}
	return d.dial(ctx)
}

// put keeps conn for another request.
func (d *dialer) put(conn *connection) {
	conn.idleSince = time.Now()
	d.mu.Lock()
	d.idle = append(d.idle, conn)
	d.mu.Unlock()
}

// closeIdle closes the connections that carry no request.
func (d *dialer) closeIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.idle {
		conn.Close()
	}
	d.idle = nil
}

// dial opens a connection, to the proxy where there is one.
func (d *dialer) dial(ctx context.Context) (*connection, error) {
	address := d.address
	if d.proxy != nil {
		address = hostPort(d.proxy)
	}
	// A name is looked up once: thousands of lookups at the start of a run would be
	// part of its first tokens' times.
	if known := d.resolved.Load(); known != nil {
		address = *known
	}
	plain := net.Dialer{KeepAlive: -1}
	tcp, err := plain.DialContext(ctx, "tcp", address)
	if err != nil {
		d.resolved.Store(nil) // the name may stand for another address by now
		return nil, err
	}
	if d.resolved.Load() == nil {
		found := tcp.RemoteAddr().String()
		d.resolved.Store(&found)
	}
	var made transport
	if d.tls == nil {
		made, err = d.pollers.transport(tcp)
	} else {
		made, err = d.secure(ctx, tcp)
	}
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return &connection{transport: made}, nil
}

// secure starts TLS, through a tunnel where there is a proxy.
func (d *dialer) secure(ctx context.Context, tcp net.Conn) (transport, error) {
	stop := context.AfterFunc(ctx, func() { tcp.SetDeadline(past) })
	defer stop()
	if d.proxy != nil {
		if err := d.tunnel(tcp); err != nil {
			return nil, err
		}
	}
	client := tls.Client(tcp, d.tls)
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return &runtimeTransport{Conn: client, tcp: tcp}, nil
}

// past is a deadline that ends what waits for a connection.
var past = time.Unix(1, 0)

// tunnel asks the proxy for a connection to the server.
func (d *dialer) tunnel(proxied net.Conn) error {
	request := "CONNECT " + d.address + " HTTP/1.1\r\nHost: " + d.address + "\r\n" + proxyAuth(d.proxy) + "\r\n"
	if _, err := proxied.Write([]byte(request)); err != nil {
		return err
	}
	// What is read too much would be missing from the handshake, see below.
	head := &io.LimitedReader{R: proxied, N: maxProxyHead}
	in := bufio.NewReader(head)
	answer, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil && head.N == 0 {
		err = fmt.Errorf("its answer to CONNECT has more than %d bytes", maxProxyHead)
	}
	if err != nil {
		return fmt.Errorf("proxy %s: %w", d.proxy.Host, err)
	}
	if answer.StatusCode != http.StatusOK || in.Buffered() > 0 {
		return fmt.Errorf("proxy %s: %s to CONNECT %s; want 200 and nothing behind it", d.proxy.Host, OneLine(brief([]byte(answer.Status))), d.address)
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

// hostPort is the host and the port of an address, the port of its scheme where it names none.
func hostPort(address *url.URL) string {
	port := address.Port()
	if port == "" {
		port = "80"
		if address.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(address.Hostname(), port)
}
