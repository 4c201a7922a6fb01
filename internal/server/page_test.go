package server

import (
	"strings"
	"testing"

	"ossian/internal/web"
)

// TestPage: the page needs no key, for its files hold no secret, but a Host that this server
// answers to; everything behind it needs the key as before.
func TestPage(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{Keys: []string{"k"}, Page: true}})
	for path, want := range map[string]int{"/": 200, "/ui/nothing.js": 404, "/ui/a/b": 404, "/v1/models": 401, "/metrics": 401, "/uix": 401, "/index.html": 401} {
		for _, method := range []string{"GET", "HEAD"} {
			r := g.do(method, path, "")
			if r.status != want {
				t.Errorf("%s %s: %d, want %d", method, path, r.status, want)
			}
			if secured := r.header.Get("Content-Security-Policy") != ""; secured != (want == 200) {
				t.Errorf("%s %s: policy %q", method, path, r.header.Get("Content-Security-Policy"))
			}
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
		if r := g.do(method, "/", ""); r.status != 405 || r.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s /: %d, Allow %q", method, r.status, r.header.Get("Allow"))
		}
	}
	if r := g.do("GET", "/ui/nothing.js", ""); !strings.Contains(r.body, `"code":"not_found"`) {
		t.Errorf("a file that is not there: %s", r.body)
	}
}

// TestPageHost: a page whose name resolves to this machine gets neither page nor data (SEC-3).
func TestPageHost(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{Page: true}})
	for host, want := range map[string]int{"localhost": 200, "127.0.0.1": 200, "evil.example": 403} {
		for _, path := range []string{"/", "/v1/models"} {
			status, reply := g.raw("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
			if status != want {
				t.Errorf("Host %s, %s: %d %.200s, want %d", host, path, status, reply, want)
			}
		}
	}
}

// TestNoPage: without the page nothing is there that was not there before it.
func TestNoPage(t *testing.T) {
	g := start(t, setup{reply: hello})
	for _, path := range []string{"/", "/ui/", "/ui/page.js", "/index.html"} {
		if r := g.do("GET", path, ""); r.status != 404 {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	with := (&Server{page: web.New()}).table()
	if without := new(Server).table(); len(with) != len(without)+2 {
		t.Errorf("%d routes with the page, %d without", len(with), len(without))
	}
}
