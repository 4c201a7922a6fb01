package hub

import (
	"net/http"
	"strings"
	"testing"
)

// An answer that is malformed is not asked for again, wherever in a pull it comes, and what it
// held cannot steer a terminal.
func TestMalformed(t *testing.T) {
	const fine = "HTTP/1.1 200 OK\r\n"
	for _, c := range []struct{ name, answer string }{
		{"control character in a header", "HTTP/1.1 404 Not Found\r\nX-Error-Message: \x1b[31mred\r\nContent-Length: 0\r\n\r\n"},
		{"header without a colon", fine + "nothing\r\n\r\n"},
		{"no HTTP", "SSH-2.0-OpenSSH_9.6\r\n\r\n"},
		{"no status", "HTTP/1.1 abc OK\r\n\r\n"},
		{"no version", "HTTP/x 200 OK\r\n\r\n"},
		{"length that is none", fine + "Content-Length: x\r\n\r\n"},
		{"lengths that differ", fine + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
		{"unknown encoding", fine + "Transfer-Encoding: zip\r\n\r\n"},
		{"headers without end", fine + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 12000)},
		{"redirection to what is no address", "HTTP/1.1 302 Found\r\nLocation: http://%zz?signature=secret\r\nContent-Length: 0\r\n\r\n"},
		{"redirection to another protocol", "HTTP/1.1 302 Found\r\nLocation: gopher://x/\r\nContent-Length: 0\r\n\r\n"},
		{"chunk without end", fine + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n"},
		{"chunks that are none", fine + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"},
	} {
		for _, place := range []string{"metadata", "file"} {
			t.Run(c.name+" in "+place, func(t *testing.T) {
				h := newFakeHub(t)
				asked := 0
				answer := func(w http.ResponseWriter) bool {
					asked++
					conn, _, err := w.(http.Hijacker).Hijack()
					if err != nil {
						t.Fatal(err)
					}
					_, _ = conn.Write([]byte(c.answer)) // the client may have seen enough
					_ = conn.Close()
					return true
				}
				if place == "metadata" {
					h.api = func(w http.ResponseWriter, r *http.Request) bool { return answer(w) }
				} else {
					h.content = func(w http.ResponseWriter, r *http.Request, name string, _ int) bool {
						return name == "config.json" && answer(w)
					}
				}
				cfg, slept := h.config()
				_, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
				if err == nil || !strings.Contains(err.Error(), "is not HTTP") || strings.ContainsAny(err.Error(), "\x1b\r\n") || strings.Contains(err.Error(), "secret") {
					t.Errorf("got %q", err)
				}
				if asked != 1 || len(*slept) != 0 {
					t.Errorf("asked %d times, waited %v", asked, *slept)
				}
			})
		}
	}
}

// So is one in the clear where TLS was asked for.
func TestMalformedTLS(t *testing.T) {
	h := newFakeHub(t)
	cfg, slept := h.config()
	cfg.Endpoint = strings.Replace(cfg.Endpoint, "http:", "https:", 1)
	_, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
	if err == nil || !strings.Contains(err.Error(), "HTTP response to HTTPS client") || len(*slept) != 0 {
		t.Errorf("got %v, waited %v", err, *slept)
	}
}
