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

// TestNoPage: without the page nothing is there that was not there before it, and what it asks is.
func TestNoPage(t *testing.T) {
	g := start(t, setup{reply: hello})
	for _, path := range []string{"/", "/ui/", "/ui/page.js", "/index.html"} {
		if r := g.do("GET", path, ""); r.status != 404 {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	if r := g.do("GET", "/info", ""); r.status != 200 {
		t.Errorf("/info: %d", r.status)
	}
	if _, ok := g.watch(t, "").next(); !ok {
		t.Error("/requests has no event")
	}
	with := (&Server{page: web.New()}).table()
	if without := new(Server).table(); len(with) != len(without)+2 {
		t.Errorf("%d routes with the page, %d without", len(with), len(without))
	}
}

// TestPageOpensNothing walks all routes, each in a form that it has, with every method, and what is
// no route: whoever has no key is answered alike with the page and without, but for the page's own
// files, and gets nothing but the probes.
func TestPageOpensNothing(t *testing.T) {
	open := map[string]bool{"GET /health": true, "GET /ping": true, "POST /ping": true, "GET /ready": true} // and HEAD
	for _, keys := range [][]string{{"k"}, nil} {
		with := start(t, setup{reply: hello, cfg: Config{Keys: keys, Page: true}})
		without := start(t, setup{reply: hello, cfg: Config{Keys: keys}})
		walked, given := 0, 0
		check := func(method, path string) {
			if path == "/requests" && keys == nil {
				return // an answer that does not end
			}
			walked++
			a, b := with.do(method, path, ""), without.do(method, path, "")
			if a.status != b.status && !strings.HasPrefix(path, "/ui/") {
				t.Errorf("keys %v, %s %s: %d with the page, %d without", keys, method, path, a.status, b.status)
			}
			allowed := keys == nil || open[strings.Replace(method, "HEAD", "GET", 1)+" "+path]
			if a.status < 400 {
				given++
			}
			if a.status < 400 && !allowed {
				t.Errorf("%s %s is answered with %d without a key: %.200s", method, path, a.status, a.body)
			}
		}
		every(func(_ *route, path, method string) { check(method, path) })
		for _, path := range []string{"/ui", "/uix", "/index.html", "/favicon.ico", "/robots.txt", "/static/page.js", "/dist/index.html", "/v1", "/api", "/ui/../v1/models", "/ui/%2e%2e/v1/models", "//v1/models", "/./v1/models", "/debug/pprof/"} {
			for _, method := range []string{"GET", "HEAD", "POST"} {
				check(method, path)
			}
		}
		t.Logf("keys %v: %d of %d requests were answered", keys, given, walked)
		if keys != nil && given != 7 {
			t.Errorf("%d requests were answered without a key, 7 for the probes expected", given)
		}
	}
}
