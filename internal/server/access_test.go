package server

import (
	"strings"
	"testing"
)

// TestSEC2Keys asks for every route with every kind of key, and for paths that try
// to look like others.
func TestSEC2Keys(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{Keys: []string{"first-key", "second-key"}}})
	keys := map[string][]string{
		"none": nil, "wrong": {"Authorization", "Bearer third-key"}, "prefix": {"Authorization", "Bearer first"}, "longer": {"Authorization", "Bearer first-key2"},
		"empty": {"Authorization", "Bearer "}, "basic": {"Authorization", "Basic first-key"}, "bare": {"Authorization", "first-key"}, "in api-key": {"api-key", "first-key"},
		"good": {"Authorization", "Bearer first-key"}, "other": {"Authorization", "bearer second-key"},
	}
	paths := []string{"/", "/nowhere", "/debug/pprof/", "/metrics/", "/Health", "/health/", "/health/../v1/models", "/health%2f..%2fv1/models", "//v1/models", "/./v1/models",
		"/v1//models", "/v1/models;/health", "/v1/models?x=/health", "/v1/models#/health", "/v1/models%00", "/v1/models/%2e%2e/%2e%2e/health", "/ping/../metrics", "/%761/models",
		"/v1/models/..", "/v1/models/../../health", "/health?key=first-key", "/ready", "/.well-known/x"}
	for _, r := range routes() {
		paths = append(paths, strings.TrimSuffix(r.path, "*"), r.path)
	}
	for name, header := range keys {
		for _, path := range paths {
			for _, method := range []string{"GET", "POST", "HEAD", "DELETE", "OPTIONS"} {
				req := append([]string{"Host", "evil.example"}, header...)
				r := g.do(method, path, "{}", req...)
				plain, _, _ := strings.Cut(path, "?")
				open := plain == "/health" || plain == "/ping"
				refused := r.status == 401
				if want := !open && name != "good" && name != "other"; refused != want {
					t.Errorf("%s %s with key %s: status %d", method, path, name, r.status)
				}
				if open && r.status == 200 && r.body != "" {
					t.Errorf("%s %s says %q", method, path, r.body)
				}
			}
		}
	}
	wantError(t, g.do("GET", "/v1/models", ""), 401, "invalid_request_error", "invalid_api_key", "")
}

// TestAnyKey: without configured keys clients may send what they like.
func TestAnyKey(t *testing.T) {
	g := start(t, setup{reply: hello})
	if r := g.do("GET", "/v1/models", "", "Authorization", "Bearer sk-anything"); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestSEC4 is what pages in a browser may try.
func TestSEC4(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{AllowedHosts: []string{"llm.example"}, AllowedOrigins: []string{"https://good.example"}}})
	body := `{` + hi + `}`
	port := g.addr[strings.LastIndex(g.addr, ":"):]
	for _, c := range []struct {
		name   string
		header []string
		status int
	}{
		{"address", []string{"Host", "127.0.0.1" + port}, 200},
		{"address of IPv6", []string{"Host", "[::1]" + port}, 200},
		{"localhost", []string{"Host", "LOCALHOST" + port}, 200},
		{"localhost with a dot", []string{"Host", "localhost."}, 200},
		{"allowed", []string{"Host", "llm.example"}, 200},
		{"rebound", []string{"Host", "evil.example" + port}, 403},
		{"suffix of an allowed one", []string{"Host", "notllm.example"}, 403},
		{"below an allowed one", []string{"Host", "x.llm.example"}, 403},
		{"localhost as a prefix", []string{"Host", "localhost.evil.example"}, 403},
		{"address as a prefix", []string{"Host", "127.0.0.1.evil.example"}, 403},
		{"own page", []string{"Origin", "http://" + g.addr}, 200},
		{"allowed page", []string{"Origin", "https://good.example"}, 200},
		{"other page", []string{"Origin", "https://evil.example"}, 403},
		{"same page without TLS", []string{"Origin", "http://good.example"}, 403},
		{"page without origin", []string{"Origin", "null"}, 403},
		{"simple form", []string{"Content-Type", "text/plain"}, 415},
		{"form", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		{"multipart", []string{"Content-Type", "multipart/form-data; boundary=application/json"}, 415},
		{"two types", []string{"Content-Type", "text/plain, application/json"}, 415},
		{"no type", []string{"Content-Type", ""}, 415},
	} {
		r := g.post("/v1/chat/completions", body, c.header...)
		if r.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, r.status, r.body, c.status)
		}
		if allow := r.header.Get("Access-Control-Allow-Origin"); (allow != "") != (c.name == "allowed page") {
			t.Errorf("%s: Access-Control-Allow-Origin %q", c.name, allow)
		}
	}
	r := g.do("OPTIONS", "/v1/chat/completions", "", "Origin", "https://good.example", "Access-Control-Request-Method", "POST")
	if r.status != 204 || !strings.Contains(r.header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight: %d %v", r.status, r.header)
	}
	if r := g.do("OPTIONS", "/v1/chat/completions", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST"); r.status < 400 {
		t.Errorf("preflight of another page: %d", r.status)
	}
}

func TestRequestID(t *testing.T) {
	g := start(t, setup{reply: hello})
	for sent, echoed := range map[string]bool{"abc-1": true, "": false, strings.Repeat("x", 257): false, "a b": false, "é": false} {
		r := g.do("GET", "/version", "", "X-Request-Id", sent)
		if id := r.header.Get("X-Request-Id"); (id == sent) != echoed || id == "" {
			t.Errorf("sent %q, got %q", sent, id)
		}
	}
}
