package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// every calls f with each route, in a form that it has, and each method.
func every(f func(rt *route, path, method string)) (n int) {
	table := new(Server).table()
	for i := range table {
		rt := &table[i]
		path := strings.Replace(rt.path, "*", "resp_x", 1)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"} {
			f(rt, path, method)
			n++
		}
	}
	return n
}

// TestSEC3Admin: what is about the server as a whole is not to be had from elsewhere, and
// the usual places of such routes are empty.
func TestSEC3Admin(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{Keys: []string{"k"}}})
	key := "Authorization: Bearer k\r\n"
	admin := 0
	for _, rt := range new(Server).table() {
		if !rt.admin {
			continue
		}
		admin++
		if rt.open || rt.probe {
			t.Errorf("%s is open", rt.path)
		}
		if status, _ := g.raw("POST " + rt.path + " HTTP/1.1\r\nHost: x\r\n" + key + "Connection: close\r\n\r\n"); status != 200 {
			t.Errorf("%s from this machine: %d", rt.path, status)
		}
		for _, proxy := range []string{"X-Forwarded-For: 10.0.0.9", "Forwarded: for=10.0.0.9", "Via: 1.1 a", "X-Real-IP: 10.0.0.9", "X-Forwarded-Host: a"} {
			if status, reply := g.raw("POST " + rt.path + " HTTP/1.1\r\nHost: x\r\n" + key + proxy + "\r\nConnection: close\r\n\r\n"); status != 403 {
				t.Errorf("%s with %s: %d %s", rt.path, proxy, status, reply)
			}
		}
		own := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP("2001:db8::5"), Port: 8000})
		for remote, want := range map[string]bool{"[2001:db8::5]:1": true, "[2001:db8::6]:1": false, "10.0.0.9:1": false} {
			if got := fromHere((&http.Request{RemoteAddr: remote}).WithContext(own)); got != want {
				t.Errorf("from %q to an address of its own: %v", remote, got)
			}
		}
		for remote, want := range map[string]bool{"10.0.0.9:1": false, "[2001:db8::1]:1": false, "127.0.0.1:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "": false} {
			if got := fromHere(&http.Request{RemoteAddr: remote}); got != want {
				t.Errorf("from %q: %v", remote, got)
			}
		}
	}
	if admin != 1 {
		t.Errorf("%d routes are about the server as a whole, 1 expected", admin)
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/vars", "/admin", "/drain", "/shutdown", "/quit", "/sleep", "/wake_up", "/reload", "/reset_mm_cache",
		"/flush_cache", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/start_profile", "/stop_profile", "/server_info", "/collective_rpc", "/pause", "/resume", "/slots", "/props", "/update_weights", "/config", "/env", "/keys"} {
		for _, method := range []string{"GET", "POST"} {
			if r := g.do(method, path, "", "Authorization", "Bearer k"); r.status != 404 {
				t.Errorf("%s %s: %d", method, path, r.status)
			}
		}
	}
}

// TestSEC7Tenants: a key finds nothing in the prefix cache of what another has put there,
// and what it cached itself.
func TestSEC7Tenants(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{Keys: []string{"a", "b"}}})
	cached := func(key string, n int) any {
		body := fmt.Sprintf(`{"max_tokens":1,"prompt":"%s"}`, strings.Repeat(fmt.Sprint(n, " words "), 60))
		r := g.post("/v1/completions", body, "Authorization", "Bearer "+key)
		return at(parsed(t, r.body), "usage", "prompt_tokens_details", "cached_tokens")
	}
	for n := range 50 {
		if first, own, other := cached("a", n), cached("a", n), cached("b", n); first != 0.0 || own == 0.0 || own == nil || other != 0.0 {
			t.Fatalf("prompt %d: %v tokens cached at first, then %v, of another key %v", n, first, own, other)
		}
	}
}

// TestSEC4Routes: hosts, origins and types of content are looked at before every route, with
// every method: a page gets an answer of none but the bare probes, and changes nothing.
func TestSEC4Routes(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{AllowedOrigins: []string{"https://good.example"}}})
	body := `{` + hi + `,"prompt":"a","tokens":[1],"input":"x"}`
	cases := 0
	n := every(func(rt *route, path, method string) {
		ask := func(host, headers string) (int, string) {
			cases++
			return g.raw(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s", method, path, host, headers, len(body), body))
		}
		const json = "Content-Type: application/json\r\n"
		changes := method != "GET" && method != "HEAD"
		for _, host := range []string{"evil.example", "127.0.0.1.evil.example", "localhost.evil.example"} {
			if status, reply := ask(host, json); !rt.open && status != 403 {
				t.Errorf("%s %s as %s: %d %.200s", method, path, host, status, reply)
			}
		}
		for _, origin := range []string{"Origin: https://evil.example", "Origin: null", "Origin: http://localhost.evil.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"} {
			status, reply := ask("localhost", json+origin+"\r\n")
			if strings.Contains(reply, "Access-Control-Allow-Origin") || strings.Contains(reply, "Set-Cookie") || (changes && status != 403) {
				t.Errorf("%s %s with %s: %d %.200s", method, path, origin, status, reply)
			}
		}
		if rt.stays && method == "GET" { // it would not end
			return
		}
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", "application/jsonx", "text/plain;charset=application/json"} {
			status, reply := ask("localhost", "Content-Type: "+kind+"\r\n")
			if changes && !(rt.open && method == "POST") && status != 415 && status != 405 && status != 404 && status != 400 {
				t.Errorf("%s %s with %s: %d %.200s", method, path, kind, status, reply)
			}
		}
	})
	if got := g.model.Engine.Stats().Accepted; got != 0 {
		t.Errorf("%d requests reached the engine", got)
	}
	t.Logf("SEC-4: %d requests to %d routes with their methods", cases, n)
}
