package outbound

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// proxied is what the proxy of the tests' environment was asked; net/http reads the environment
// once, so it is set for all tests, and all but one show that it is not used.
var proxied = make(chan *http.Request, 16)

func TestMain(m *testing.M) {
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { proxied <- req }))
	os.Setenv("HTTP_PROXY", strings.Replace(proxy.URL, "http://", "http://user:secret@", 1))
	os.Unsetenv("NO_PROXY")
	os.Unsetenv("no_proxy")
	os.Exit(m.Run())
}

// serve starts a server and returns it with HOST:PORT.
func serve(t *testing.T, handle http.HandlerFunc) (address string) {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// get fetches a page from servers that are allowed.
func get(t *testing.T, opts Options, url string, allow ...string) (*Answer, error) {
	t.Helper()
	opts.Allow = allow
	return Fetch(Client(opts), request(t, url))
}

func want(t *testing.T, what string, err error, text string) {
	t.Helper()
	if err == nil || err.Error() != text {
		t.Errorf("%s: %v, want %q", what, err, text)
	}
}

func TestClient(t *testing.T) {
	at := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/first" {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
			http.Redirect(w, req, "/second", http.StatusFound)
			return
		}
		fmt.Fprintf(w, "%s %s|%s|%s|%s", req.Method, req.UserAgent(), req.Header.Get("Cookie"), req.Referer(), req.Header.Get("X-Api-Key"))
	})
	opts := Options{Version: "1.2.3", Allow: []string{at}}
	req := request(t, "http://"+at+"/first")
	req.Header.Set("X-Api-Key", "key")
	answer, err := Fetch(Client(opts), req)
	if err != nil || string(answer.Body) != "GET ossian/1.2.3|||key" || answer.URL.Path != "/second" {
		t.Errorf("%+v, %v", answer, err)
	}
	_, err = get(t, Options{}, "http://"+at)
	want(t, "a loopback address", err, notPublic.Reason)
	_, err = get(t, Options{}, "http://"+at, "127.0.0.1:1")
	want(t, "another port is allowed", err, notPublic.Reason)
	_, err = get(t, Options{}, "http://localhost:"+at[strings.LastIndex(at, ":")+1:])
	want(t, "localhost", err, notPublic.Reason)
	_, err = get(t, Options{}, "http://169.254.169.254/latest/meta-data/")
	want(t, "metadata", err, notPublic.Reason)
	select {
	case req := <-proxied:
		t.Errorf("the environment's proxy was used: %v", req.URL)
	default:
	}
}

func TestRedirects(t *testing.T) {
	inside := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("what is not allowed was asked") })
	var hops atomic.Int64
	at := serve(t, func(w http.ResponseWriter, req *http.Request) {
		target := req.URL.Query().Get("to")
		if req.URL.Path == "/loop" {
			hops.Add(1)
			target = "/loop"
		}
		var n int
		if _, err := fmt.Sscanf(req.URL.Path, "/%d", &n); err == nil && n > 0 {
			target = fmt.Sprintf("/%d", n-1)
		}
		if target != "" {
			w.Header().Set("Location", target)
			w.WriteHeader(http.StatusFound)
		}
	})
	for _, c := range []struct{ path, err string }{
		{"/5", ""},
		{"/6", "more than 5 redirects"},
		{"/loop", "more than 5 redirects"},
		{"/?to=http://" + inside + "/", notPublic.Reason},
		{"/?to=http://[::1]:80/", notPublic.Reason},
		{"/?to=http://[::ffff:169.254.169.254]/", notPublic.Reason},
		{"/?to=file:///etc/passwd", `only http and https addresses are opened, not "file:"`},
		{"/?to=gopher://" + inside + "/_x", `only http and https addresses are opened, not "gopher:"`},
		{"/?to=http://u:p@" + at + "/", "it redirects to an address with a user name"},
	} {
		_, err := get(t, Options{}, "http://"+at+c.path, at)
		switch {
		case c.err == "" && err != nil:
			t.Errorf("%s: %v", c.path, err)
		case c.err != "":
			want(t, c.path, err, c.err)
		}
	}
	if hops.Load() != 6 {
		t.Errorf("a loop was followed %d times, want 6 requests", hops.Load())
	}
	_, err := get(t, Options{Redirects: -1}, "http://"+at+"/1", at)
	want(t, "no redirects", err, "it redirects elsewhere, which is not followed here")
}

// TestRedirectHeaders: a key stays with the origin that it is for.
func TestRedirectHeaders(t *testing.T) {
	seen := make(chan http.Header, 1)
	other := serve(t, func(_ http.ResponseWriter, req *http.Request) { seen <- req.Header })
	at := serve(t, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, "http://"+other, http.StatusTemporaryRedirect)
	})
	req := request(t, "http://"+at)
	for _, name := range []string{"X-Api-Key", "Authorization", "Mcp-Session-Id", "Accept"} {
		req.Header.Set(name, "x")
	}
	if _, err := Fetch(Client(Options{Allow: []string{at, other}}), req); err != nil {
		t.Fatal(err)
	}
	header := <-seen
	delete(header, "Accept-Encoding")
	delete(header, "User-Agent")
	if len(header) != 1 || header.Get("Accept") != "x" {
		t.Errorf("the other origin was sent %v", header)
	}
}

// TestTLS: pages go on from https to http, and certificates are verified.
func TestTLS(t *testing.T) {
	plain := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "plain") })
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, "http://"+plain, http.StatusFound)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	at := server.Listener.Addr().String()
	made := Client(Options{Allow: []string{at, plain}})
	_, err := Fetch(made, request(t, "https://"+at))
	want(t, "a certificate of nobody", err, "its certificate is signed by nobody who is known here")
	_, err = Fetch(made, request(t, "https://"+plain))
	want(t, "https where http is spoken", err, "it speaks http, not https")
	made.Transport.(*guard).next.(*http.Transport).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	made.CloseIdleConnections()
	answer, err := Fetch(made, request(t, "https://"+at))
	if err != nil || string(answer.Body) != "plain" {
		t.Errorf("%v, %v", answer, err)
	}
}

// dns is a resolver that answers each look-up of a name with the next of its addresses, all of
// one at once.
func dns(t *testing.T, answers ...[][4]byte) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 512)
		for next := 0; ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var msg dnsmessage.Message
			if err := msg.Unpack(buf[:n]); err != nil {
				continue
			}
			msg.Response, msg.RecursionAvailable, msg.Additionals = true, true, nil
			if len(answers) == 0 {
				msg.RCode = dnsmessage.RCodeNameError
			}
			if q := msg.Questions[0]; q.Type == dnsmessage.TypeA && next < len(answers) {
				for _, address := range answers[next] {
					msg.Answers = append(msg.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
						Body: &dnsmessage.AResource{A: address}})
				}
				next++
			}
			packed, err := msg.Pack()
			if err == nil {
				_, _ = conn.WriteTo(packed, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// TestRebinding: a name that is at a good address first and at a bad one next is refused when the
// bad one is connected to, between requests as between redirects.
func TestRebinding(t *testing.T) {
	good, bad := [4]byte{127, 0, 0, 1}, [4]byte{127, 0, 0, 2}
	var port string
	at := serve(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Connection", "close")
		if strings.HasPrefix(req.Host, "127.0.0.2") {
			t.Error("what is not allowed was asked")
		}
		if req.URL.Path == "/again" {
			http.Redirect(w, req, "http://two.example:"+port+"/", http.StatusFound)
		}
	})
	_, port, _ = net.SplitHostPort(at)
	opts := Options{Allow: []string{"127.0.0.1"}}
	made := client(opts, dns(t, [][4]byte{good}, [][4]byte{bad}))
	if _, err := Fetch(made, request(t, "http://one.example:"+port)); err != nil {
		t.Errorf("first: %v", err)
	}
	_, err := Fetch(made, request(t, "http://one.example:"+port))
	want(t, "then", err, notPublic.Reason)

	made = client(opts, dns(t, [][4]byte{good}, [][4]byte{bad}))
	_, err = Fetch(made, request(t, "http://one.example:"+port+"/again"))
	want(t, "behind a redirect", err, notPublic.Reason)

	made = client(opts, dns(t, [][4]byte{bad, good}))
	if _, err = Fetch(made, request(t, "http://one.example:"+port)); err != nil {
		t.Errorf("one of two addresses is good: %v", err)
	}
	made = client(opts, dns(t))
	_, err = Fetch(made, request(t, "http://none.example:"+port))
	want(t, "no such name", err, "there is no host of that name")
}

func bomb(t *testing.T, size int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.CopyN(w, zeros{}, int64(size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) { clear(into); return len(into), nil }

func TestLimits(t *testing.T) {
	packed := bomb(t, 16<<20)
	at := serve(t, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/exact":
			w.Write(make([]byte, DefaultBytes))
		case "/chunked":
			w.Write(make([]byte, DefaultBytes))
			w.(http.Flusher).Flush()
			w.Write([]byte{1})
		case "/told":
			w.Header().Set("Content-Length", fmt.Sprint(DefaultBytes+1))
			w.Write(make([]byte, DefaultBytes+1))
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(packed)
		case "/damaged":
			w.Header().Set("Content-Encoding", "gzip")
			w.Write([]byte("no gzip at all"))
		case "/endless":
			for req.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		case "/slow":
			for req.Context().Err() == nil {
				w.Write([]byte("."))
				w.(http.Flusher).Flush()
				time.Sleep(5 * time.Millisecond)
			}
		case "/silent":
			<-req.Context().Done()
		case "/header":
			w.Header().Set("X", strings.Repeat("x", headerBytes))
		case "/short":
			conn, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
			conn.Close()
		case "/garbage":
			conn, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(conn, "SSH-2.0-OpenSSH_9.9\r\n")
			conn.Close()
		}
	})
	for path, text := range map[string]string{
		"/chunked": "its answer is longer than 10 MiB",
		"/told":    "its answer is longer than 10 MiB",
		"/bomb":    "its answer is longer than 10 MiB",
		"/endless": "its answer is longer than 10 MiB",
		"/damaged": "its compressed content is damaged",
		"/header":  "the request failed",
		"/short":   "the connection ended before the answer did",
		"/garbage": "its answer is not HTTP",
	} {
		_, err := get(t, Options{Time: time.Hour}, "http://"+at+path, at)
		want(t, path, err, text)
	}
	for _, path := range []string{"/slow", "/silent"} {
		_, err := get(t, Options{Time: 100 * time.Millisecond}, "http://"+at+path, at)
		want(t, path, err, "there was no complete answer in time")
	}
	if answer, err := get(t, Options{Time: time.Hour}, "http://"+at+"/exact", at); err != nil || len(answer.Body) != DefaultBytes {
		t.Errorf("10 MiB: %v", err)
	}
	if answer, err := get(t, Options{Time: time.Hour, Bytes: -1}, "http://"+at+"/bomb", at); err != nil || len(answer.Body) != 16<<20 {
		t.Errorf("without a limit: %v", err)
	}
	_, err := get(t, Options{Bytes: 100}, "http://"+at+"/exact", at)
	want(t, "100 bytes", err, "its answer is longer than 100 bytes")
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	at := serve(t, func(_ http.ResponseWriter, req *http.Request) { cancel(); <-req.Context().Done() })
	_, err := Fetch(Client(Options{Allow: []string{at}}), request(t, "http://"+at).WithContext(ctx))
	want(t, "cancelled", err, "it was cancelled")
}

func TestAttempts(t *testing.T) {
	var mu sync.Mutex // guards seen
	seen := map[string]int{}
	at := serve(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		mu.Lock()
		seen[req.URL.Path]++
		n := seen[req.URL.Path]
		mu.Unlock()
		if _, sent := req.Header["Idempotency-Key"]; sent || (req.Method == http.MethodPost && string(body) != "body") {
			t.Errorf("%s: body %q, header %v", req.URL.Path, body, req.Header)
		}
		switch req.URL.Path {
		case "/503", "/post503", "/marked503":
			w.WriteHeader(503)
		case "/501":
			w.WriteHeader(501)
		case "/404":
			w.WriteHeader(404)
		case "/429":
			w.WriteHeader(429)
		case "/once":
			if n == 1 {
				w.WriteHeader(500)
			}
		case "/broken":
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Close()
		case "/short":
			if n == 1 {
				conn, _, _ := w.(http.Hijacker).Hijack()
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
				conn.Close()
			}
		}
	})
	for _, c := range []struct {
		path   string
		status int
		times  int
		err    string
	}{
		{"/503", 503, 3, "the server answered 503 Service Unavailable"},
		{"/501", 501, 1, "the server answered 501 Not Implemented"},
		{"/404", 404, 1, "the server answered 404 Not Found"},
		{"/429", 429, 1, "the server answered 429 Too Many Requests"},
		{"/once", 0, 2, ""},
		{"/short", 0, 2, ""},
		{"/broken", 0, 3, "the connection ended before the answer did"},
		{"/post503", 503, 1, "the server answered 503 Service Unavailable"},
		{"/marked503", 503, 3, "the server answered 503 Service Unavailable"},
	} {
		t.Run(c.path[1:], func(t *testing.T) {
			t.Parallel()
			req := request(t, "http://"+at+c.path)
			if strings.Contains(c.path, "post") || strings.Contains(c.path, "marked") {
				req, _ = http.NewRequestWithContext(t.Context(), http.MethodPost, req.URL.String(), strings.NewReader("body"))
			}
			if strings.Contains(c.path, "marked") {
				req.Header["Idempotency-Key"] = nil
			}
			_, err := Fetch(Client(Options{Allow: []string{at}, Time: time.Hour}), req)
			if c.err != "" {
				want(t, c.path, err, c.err)
			} else if err != nil {
				t.Error(err)
			}
			if known, ok := errors.AsType[*Error](err); ok && known.Status != c.status {
				t.Errorf("status %d, want %d", known.Status, c.status)
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[c.path] != c.times {
				t.Errorf("asked %d times, want %d", seen[c.path], c.times)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().String()
	listener.Close()
	_, err = get(t, Options{}, "http://"+at, at)
	want(t, "a closed port", err, "the server refuses connections")
}

// TestProxy: the environment's proxy is used where that is asked for, although its address is not
// public, and its password is told to nobody else.
func TestProxy(t *testing.T) {
	made := Client(Options{Proxy: true})
	if _, err := Fetch(made, request(t, "http://page.example/")); err != nil {
		t.Fatal(err)
	}
	req := <-proxied
	if req.URL.String() != "http://page.example/" || req.Header.Get("Proxy-Authorization") == "" || req.Header.Get("Authorization") != "" {
		t.Errorf("the proxy was asked %s with %v", req.URL, req.Header)
	}
	_, err := Fetch(made, request(t, "http://127.0.0.1:1/")) // never through a proxy
	want(t, "a loopback address", err, notPublic.Reason)
}
