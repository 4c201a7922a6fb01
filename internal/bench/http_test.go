package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/bench/dataset"
)

// A wire server answers each request on a connection with what answer returns; "" means
// that it closes the connection instead. It lives until the test ends.
type wireServer struct {
	url   string
	conns atomic.Int32
}

func serve(t *testing.T, answer func(conn, request int, r *http.Request, body string) (response string, close bool)) *wireServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &wireServer{url: "http://" + l.Addr().String()}
	var all sync.WaitGroup
	var open sync.Map
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(c, nil)
			id := int(s.conns.Add(1))
			all.Go(func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for n := 1; ; n++ {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					body, err := io.ReadAll(r.Body)
					if err != nil {
						return
					}
					text, end := answer(id, n, r, string(body))
					if _, err := io.WriteString(c, text); err != nil || end {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		all.Wait()
	})
	return s
}

func target(t *testing.T, address string, change func(*HTTPConfig)) *HTTP {
	t.Helper()
	c := HTTPConfig{Setup: &Setup{Backend: "openai", Stream: true, URL: address + "/v1/completions", Model: "m"}}
	if change != nil {
		change(&c)
	}
	h, err := NewHTTP(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func do(h *HTTP) *Sample {
	s := new(Sample)
	h.Do(context.Background(), &dataset.Query{Prompt: "p", Output: 2, ID: "7"}, s, time.Now().Add(-time.Second), new(Live))
	return s
}

var good = chunked("data: "+textA+"\n\n", "data: "+usage2+"\n\n", "data: [DONE]\n\n")

func TestHTTPRequest(t *testing.T) {
	requests, bodies := make(chan *http.Request, 1), make(chan string, 1)
	s := serve(t, func(_, _ int, r *http.Request, b string) (string, bool) {
		requests <- r
		bodies <- b
		return good, false
	})
	h := target(t, s.url, func(c *HTTPConfig) {
		c.Key, c.IDPrefix = "k", "bench-"
		c.Header = []Pair{{"user-agent", "me"}, {"X-A", "b c"}}
	})
	before := time.Now()
	sample := do(h)
	if !sample.OK() || sample.Text != "aé" || len(sample.Chunks) != 3 {
		t.Fatalf("got %+v", sample)
	}
	if sample.Sent < time.Second || sample.Chunks[0].At < sample.Sent || sample.Done < sample.Chunks[2].At || sample.Done > time.Second+time.Since(before) {
		t.Errorf("sent %v, chunks %v, done %v", sample.Sent, sample.Chunks, sample.Done)
	}
	got, body := <-requests, <-bodies
	if got.Method != "POST" || got.RequestURI != "/v1/completions" || "http://"+got.Host != s.url {
		t.Errorf("%s %s at %s", got.Method, got.RequestURI, got.Host)
	}
	for name, want := range map[string]string{"Authorization": "Bearer k", "User-Agent": "me", "X-A": "b c", "X-Request-Id": "bench-7", "Content-Type": "application/json"} {
		if v := got.Header.Values(name); len(v) != 1 || v[0] != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	if !strings.HasPrefix(body, `{"model":"m","prompt":"p"`) || got.ContentLength != int64(len(body)) {
		t.Errorf("body %s of length %d", body, got.ContentLength)
	}
}

// TestNoRequestIDs: servers that want other ids get none.
func TestNoRequestIDs(t *testing.T) {
	ids := make(chan []string, 1)
	s := serve(t, func(_, _ int, r *http.Request, _ string) (string, bool) {
		ids <- r.Header.Values("X-Request-Id")
		return good, false
	})
	if sample := do(target(t, s.url, func(c *HTTPConfig) { c.IDPrefix = NoRequestIDs })); !sample.OK() {
		t.Fatalf("got %+v", sample)
	}
	if got := <-ids; len(got) > 0 {
		t.Errorf("x-request-id %q", got)
	}
}

// Connections are used again after whole responses, refusals included, but not by the
// profiles that open one each.
func TestHTTPConnections(t *testing.T) {
	answers := []string{good, "HTTP/1.1 500 x\r\nContent-Length: 3\r\n\r\nabc", good, strings.Replace(good, "\r\n", "\r\nConnection: close\r\n", 1), good}
	for _, c := range []struct {
		profile Profile
		want    int32
	}{{VLLM, 2}, {LMDeploy, 5}} {
		var n atomic.Int32
		s := serve(t, func(_, _ int, _ *http.Request, _ string) (string, bool) { return answers[n.Add(1)-1], false })
		h := target(t, s.url, func(config *HTTPConfig) { config.Setup.Profile = c.profile })
		for i := range answers {
			if got := do(h); got.OK() != (i != 1) {
				t.Errorf("%v: request %d: %+v", c.profile, i, got)
			}
		}
		if got := s.conns.Load(); got != c.want {
			t.Errorf("%v: %d connections, want %d", c.profile, got, c.want)
		}
	}
}

// An idle connection that the server has closed costs no failure.
func TestHTTPStale(t *testing.T) {
	for _, c := range []struct {
		name string
		rest time.Duration // until the second request: the close may have been seen or not
	}{{"seen", 50 * time.Millisecond}, {"perhaps unseen", 0}} {
		s := serve(t, func(_, _ int, _ *http.Request, _ string) (string, bool) { return good, true })
		h := target(t, s.url, nil)
		for i := range 3 {
			if got := do(h); !got.OK() {
				t.Errorf("%s: request %d: %+v", c.name, i, got)
			}
			time.Sleep(c.rest)
		}
	}
}

// A connection closed under a request is sent again by the compiled client only.
func TestHTTPRetries(t *testing.T) {
	for _, c := range []struct {
		profile Profile
		conns   int32
		ok      bool
	}{{VLLM, 1, false}, {VLLMRust, 4, true}} {
		s := serve(t, func(conn, _ int, _ *http.Request, _ string) (string, bool) {
			if conn < 4 {
				return "", true
			}
			return good, false
		})
		h := target(t, s.url, func(config *HTTPConfig) { config.Setup.Profile = c.profile })
		if got := do(h); got.OK() != c.ok || s.conns.Load() != c.conns {
			t.Errorf("%v: %+v over %d connections, want success %v over %d", c.profile, got, s.conns.Load(), c.ok, c.conns)
		}
	}
}

// A server that answers without reading a long request is heard.
func TestHTTPEarlyAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlong")
		c.(*net.TCPConn).CloseWrite()
		time.Sleep(200 * time.Millisecond)
		c.Close()
	}()
	h := target(t, "http://"+l.Addr().String(), nil)
	s := new(Sample)
	h.Do(context.Background(), &dataset.Query{Prompt: strings.Repeat("x", 16<<20)}, s, time.Now(), new(Live))
	if s.Status != 413 || s.Err != "413 Too Large: long" {
		t.Errorf("status %d, %q", s.Status, s.Err)
	}
}

func TestHTTPNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if s := do(target(t, "http://"+l.Addr().String(), nil)); s.Err == "" || s.Status != 0 || s.Done < s.Sent {
		t.Errorf("got %+v", s)
	}
}

// The end of the context ends a request wherever it waits.
func TestHTTPCanceled(t *testing.T) {
	block := make(chan struct{})
	for _, c := range []struct{ name, first string }{
		{"before the response", ""}, {"within a stream", okHead + "data: " + textA + "\n\n"},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		live, want := new(Live), strings.Count(c.first, "data")
		s := serve(t, func(_, _ int, _ *http.Request, _ string) (string, bool) {
			go func() {
				for live.First.Load() < int64(want) { // until the client has what comes
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
			if c.first == "" {
				<-block
			}
			return c.first, false
		})
		h := target(t, s.url, nil)
		got := new(Sample)
		h.Do(ctx, &dataset.Query{Prompt: "p"}, got, time.Now(), live)
		if got.Err != "context canceled" {
			t.Errorf("%s: %+v", c.name, got)
		}
		if len(got.Chunks) != want {
			t.Errorf("%s: %d chunks, want %d", c.name, len(got.Chunks), want)
		}
	}
	close(block)
}

func TestHTTPS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", textA)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it will say that its certificate is refused
	s.StartTLS()
	defer s.Close()
	if got := do(target(t, s.URL, nil)); got.OK() || !strings.Contains(got.Err, "certificate") {
		t.Errorf("without --insecure: %+v", got)
	}
	h := target(t, s.URL, func(c *HTTPConfig) { c.Insecure = true })
	for range 2 {
		if got := do(h); !got.OK() || got.Text != "aé" || got.Chunks[0].Lag != -1 {
			t.Errorf("with --insecure: %+v", got)
		}
	}
}

func TestHTTPProxy(t *testing.T) {
	asked := make(chan string, 2)
	proxy := serve(t, func(_, _ int, r *http.Request, _ string) (string, bool) {
		asked <- r.Method + " " + r.RequestURI + " " + r.Header.Get(proxyHeader)
		if r.Method == http.MethodConnect {
			return "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", true
		}
		return good, false
	})
	u, _ := url.Parse(proxy.url)
	u.User = url.UserPassword("u", "p")
	through := func(c *HTTPConfig) { c.Proxy = http.ProxyURL(u) }
	if got := do(target(t, "http://example.test", through)); !got.OK() {
		t.Errorf("got %+v", got)
	}
	if got := do(target(t, "https://example.test", through)); !strings.Contains(got.Err, "403 No to CONNECT example.test:443") {
		t.Errorf("got %+v", got)
	}
	for _, want := range []string{"POST http://example.test/v1/completions Basic dTpw", "CONNECT example.test:443 Basic dTpw"} {
		if got := <-asked; got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
	}
	config := HTTPConfig{Setup: &Setup{Backend: "openai", URL: "http://h/"}}
	config.Proxy = http.ProxyURL(&url.URL{Scheme: "socks5", Host: "h:1"})
	if _, err := NewHTTP(config); err == nil || !strings.Contains(err.Error(), "only http proxies") {
		t.Errorf("got %v", err)
	}
}

// Through a tunnel TLS reaches the server itself.
func TestHTTPTunnel(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "data: %s\n\n", textA)
	}))
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		up, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			return
		}
		defer up.Close()
		io.WriteString(c, "HTTP/1.1 200 Connected\r\n\r\n")
		go io.Copy(up, c)
		io.Copy(c, up)
	}()
	h := target(t, s.URL, func(c *HTTPConfig) {
		c.Insecure = true
		c.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: l.Addr().String()})
	})
	if got := do(h); !got.OK() || got.Text != "aé" {
		t.Errorf("got %+v", got)
	}
}
