package server

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/soak"
)

// raw sends text on a connection of its own and returns the first reply's status, 0
// without any, and all that came.
func (g *rig) raw(text string) (status int, reply string) {
	g.t.Helper()
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, text) // whom it does not reach has answered or left
	all, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		g.t.Errorf("%.200q: the connection stays open after %.200q", text, all)
	}
	_, _ = fmt.Sscanf(string(all), "HTTP/1.1 %d", &status)
	return status, string(all)
}

// pathTricks write a path, or the headers of a request for it, so that it may be taken
// for another one's.
var pathTricks = []func(path string) (target, header string){
	plain(func(p string) string { return p }),
	plain(func(p string) string { return p + "/" }),
	plain(func(p string) string { return "/" + p }),
	plain(func(p string) string { return "/." + p }),
	plain(func(p string) string { return p + "/." }),
	plain(func(p string) string { return p + "/.." }),
	plain(func(p string) string { return "/health/.." + p }),
	plain(func(p string) string { return "/ready/../." + p }),
	plain(func(p string) string { return "/health;" + p }),
	plain(func(p string) string { return p + ";/health" }),
	plain(func(p string) string { return p + ";jsessionid=1" }),
	plain(func(p string) string { return p + "?/health" }),
	plain(func(p string) string { return "/health?" + p }),
	plain(func(p string) string { return p + "#/health" }),
	plain(func(p string) string { return p + "%00" }),
	plain(func(p string) string { return p + "%00/health" }),
	plain(func(p string) string { return p + "%2f..%2fhealth" }),
	plain(func(p string) string { return p + "/..%2f..%2fhealth" }),
	plain(func(p string) string { return p + "/%2e%2e/%2e%2e/ping" }),
	plain(func(p string) string { return "/health%2f.." + p }),
	plain(func(p string) string { return "/health/%2e%2e" + p }),
	plain(func(p string) string { return "/%2e" + p }),
	plain(strings.ToUpper),
	plain(func(p string) string { return fmt.Sprintf("/%%%02x%s", p[1], p[2:]) }),
	plain(func(p string) string { return fmt.Sprintf("/%%25%02x%s", p[1], p[2:]) }),
	plain(func(p string) string { return strings.ReplaceAll(p, "/", "%2f") }),
	plain(func(p string) string { return strings.ReplaceAll(p, "/", `\`) }),
	plain(func(p string) string { return `/health\..` + p }),
	plain(func(p string) string { return p + "%20" }),
	plain(func(p string) string { return p + "%09" }),
	plain(func(p string) string { return p + "%0d%0aAuthorization:%20Bearer%20first-key" }),
	plain(func(p string) string { return p + ".json" }),
	plain(func(p string) string { return p + "%c0%af" }),
	plain(func(p string) string { return p + "/%c0%ae%c0%ae/health" }),
	plain(func(p string) string { return p + "%ef%bc%8fhealth" }),
	plain(func(p string) string { return "//health" + p }),
	plain(func(p string) string { return "http://localhost" + p }),
	plain(func(p string) string { return "http://health@localhost" + p }),
	plain(func(p string) string { return "http://localhost/health/.." + p }),
	plain(func(p string) string { return p + "?key=first-key&api_key=first-key&access_token=first-key" }),
	with("X-Original-URL: /health"), with("X-Rewrite-URL: /health"), with("X-Forwarded-Prefix: /health"), with("X-Forwarded-For: 127.0.0.1"),
	with("X-HTTP-Method-Override: OPTIONS"), with("Cookie: key=first-key; Authorization=Bearer first-key"), with("Proxy-Authorization: Bearer first-key"),
	with("Authorization : Bearer first-key"), with("X-Api-Key: third-key"), with("X-Api-Key: Bearer first-key"), with("Connection: close, Authorization"),
}

func plain(f func(string) string) func(string) (string, string) {
	return func(p string) (string, string) { return f(p), "" }
}

func with(header string) func(string) (string, string) {
	return func(p string) (string, string) { return p, header + "\r\n" }
}

// TestSEC2Routes asks for every route of the table without a key, with a wrong one and
// with one that was taken away, in words that try to look like a route that needs none.
func TestSEC2Routes(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{Keys: []string{"first-key", "old-key"}}})
	g.s.Reload([]string{"first-key"}, nil)
	open := map[string]bool{"/health": true, "/ping": true, "/ready": true} // reliability.md SEC-2: only the bare probes
	keys := map[string]string{"none": "", "empty": "Authorization: Bearer \r\n", "wrong": "Authorization: Bearer third-key\r\n",
		"a part": "Authorization: Bearer first\r\n", "longer": "Authorization: Bearer first-key2\r\n", "of another scheme": "Authorization: Basic first-key\r\n",
		"bare": "Authorization: first-key\r\n", "taken away": "Authorization: Bearer old-key\r\n"}
	n := 0
	for _, r := range append(new(Server).table(), route{path: "/nowhere"}) {
		path := strings.Replace(r.path, "*", "test-model", 1)
		for i, trick := range pathTricks {
			target, header := trick(path)
			meant, err := url.ParseRequestURI(target)
			public := err == nil && open[meant.Path]
			for name, key := range keys {
				if i > 0 && name != "none" && name != "wrong" && name != "taken away" {
					continue
				}
				for _, method := range []string{"GET", "POST", "OPTIONS"} {
					n++
					status, reply := g.raw(method + " " + target + " HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\nContent-Length: 2\r\n" + key + header + "Connection: close\r\n\r\n{}")
					_, body, _ := strings.Cut(reply, "\r\n\r\n")
					switch {
					case status == 400 || status == 401:
					case public && ((status == 200 && body == "") || status == 405):
					default:
						t.Errorf("%s %s with key %s: %d %.200s", method, target, name, status, body)
					}
					for _, secret := range []string{"test-model", "1.2.3", "vllm:", "server_load"} {
						if strings.Contains(body, secret) && !strings.Contains(target, secret) {
							t.Errorf("%s %s with key %s: %.200s", method, target, name, body)
						}
					}
				}
			}
		}
		if status, reply := g.raw("HEAD " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: bearer first-key\r\nConnection: close\r\n\r\n"); status == 401 || status == 0 {
			t.Errorf("%s with the right key: %d %.200s", path, status, reply)
		}
		if r.open != open[r.path] {
			t.Errorf("%s: open is %v", r.path, r.open)
		}
	}
	wantError(t, g.do("GET", "/v1/models", ""), 401, "invalid_request_error", "invalid_api_key", "")
	if t.Failed() {
		return
	}
	t.Logf("SEC-2: %d requests: %d routes and an unknown one x {none, wrong, taken away} x %d path tricks x 3 methods, 0 bypasses", n, len(new(Server).table()), len(pathTricks))
}

// TestAnyKey: without configured keys clients may send what they like.
func TestAnyKey(t *testing.T) {
	g := start(t, setup{reply: hello})
	if r := g.do("GET", "/v1/models", "", "Authorization", "Bearer sk-anything"); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// hostile are requests that a page in a browser may make of a server on the same machine:
// headers of a POST that has to be refused.
func hostile(port string) (all [][2]string) {
	const good, json = "Host: localhost\r\n", "Content-Type: application/json\r\n"
	for _, host := range []string{"evil.example", "evil.example" + port, "notllm.example", "x.llm.example", "llm.example.evil.example", "localhost.evil.example",
		"127.0.0.1.evil.example", "127.0.0.1.nip.io" + port, "localtest.me", "mylocalhost", "localhost-evil.example", "localhost.localdomain", "xlocalhost" + port,
		"0x7f.1", "127.1", "2130706433", "0177.0.0.1", "1.0.0.127.in-addr.arpa", "[::1].evil.example", "::1.evil.example", "host.docker.internal",
		"metadata.google.internal", "llm.example@evil.example", "evil.example#localhost", "evil.example?localhost", "localhost:80@evil.example", "localhost, evil.example",
		"llm.example:x:1", "*", ""} {
		all = append(all, [2]string{"host " + host, "Host: " + host + "\r\n" + json})
	}
	for _, origin := range []string{"https://evil.example", "http://evil.example" + port, "http://good.example", "https://good.example:444", "https://good.example.evil.example",
		"https://evil.example/https://good.example", "https://xgood.example", "https://GOOD.example", "null", "file://", "http://127.0.0.2", "http://127.0.0.1:1", "chrome-extension://abc",
		"https://good.example https://evil.example", "*", "javascript:", "http://localhost" + port + ".evil.example"} {
		all = append(all, [2]string{"origin " + origin, good + json + "Origin: " + origin + "\r\n"})
	}
	for _, kind := range []string{"", "text/plain", "text/plain;charset=application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=application/json",
		"text/plain, application/json", "application/json, text/plain", "application/jsonx", "xapplication/json", "application/json/x", "*/*", "application/*", "json", "text/json",
		"application/x-ndjson", "application/xml", "application/json; =", "image/png\r\nContent-Encoding: json"} {
		all = append(all, [2]string{"type " + kind, good + "Content-Type: " + kind + "\r\n"})
	}
	return append(all, [2]string{"no type", good})
}

// TestSEC4Pages is what pages in a browser may try against a server without keys.
func TestSEC4Pages(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{AllowedHosts: []string{"llm.example"}, AllowedOrigins: []string{"https://good.example"}}})
	body := `{` + hi + `}`
	port := g.addr[strings.LastIndex(g.addr, ":"):]
	post := func(headers string) (int, string) {
		return g.raw(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s", headers, len(body), body))
	}
	cases := hostile(port)
	for _, c := range cases {
		status, reply := post(c[1])
		if status != 400 && status != 403 && status != 415 {
			t.Errorf("%s: %d %.300s", c[0], status, reply)
		}
		if strings.Contains(reply, "Access-Control-Allow-Origin") || strings.Contains(reply, "Set-Cookie") {
			t.Errorf("%s: %.300s", c[0], reply)
		}
		if origin, ok := strings.CutPrefix(c[0], "origin "); ok {
			status, reply := g.raw("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: " + origin + "\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n")
			if status < 400 || strings.Contains(reply, "Access-Control-Allow-Origin") {
				t.Errorf("preflight of %s: %d %.300s", c[0], status, reply)
			}
		}
		if host, ok := strings.CutPrefix(c[0], "host "); ok {
			if status, reply := g.raw("GET /v1/models HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"); status != 400 && status != 403 {
				t.Errorf("reading as %s: %d %.300s", c[0], status, reply)
			}
		}
	}
	if n := g.model.Engine.Stats().Accepted; n != 0 {
		t.Errorf("%d requests reached the engine", n)
	}
	for _, headers := range []string{"Host: 127.0.0.1" + port, "Host: [::1]" + port, "Host: LOCALHOST" + port, "Host: localhost.", "Host: llm.example",
		"Host: " + g.addr + "\r\nOrigin: http://" + g.addr, "Host: localhost\r\nOrigin: https://good.example"} {
		status, reply := post(headers + "\r\nContent-Type: application/json\r\n")
		if allow := strings.Contains(reply, "\r\nAccess-Control-Allow-Origin: https://good.example\r\n"); status != 200 || allow != strings.Contains(headers, "good.example") {
			t.Errorf("%q: %d %.300s", headers, status, reply)
		}
	}
	r := g.do("OPTIONS", "/v1/chat/completions", "", "Origin", "https://good.example", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "authorization,content-type,x-stainless-lang")
	if r.status != 204 || !strings.Contains(r.header.Get("Access-Control-Allow-Headers"), "authorization,content-type,x-stainless-lang") {
		t.Errorf("preflight: %d %v", r.status, r.header)
	}
	t.Logf("SEC-4: %d hostile requests, %d reached the engine", len(cases), g.model.Engine.Stats().Accepted-7)
}

// TestSEC5Digests: the server remembers digests of keys, of which no key can be told.
func TestSEC5Digests(t *testing.T) {
	const secret = "key-that-nobody-should-see"
	g := start(t, setup{reply: hello, cfg: Config{Keys: []string{secret}}})
	if g.s.cfg.Keys != nil {
		t.Error("the configuration still has the keys")
	}
	if s := fmt.Sprintf("%#v %s", *g.s.live.Load(), g.s.live.Load().keys[0].sum); strings.Contains(s, secret) {
		t.Errorf("%s", s)
	}
}

// TestSEC5Timing tells keys apart by how long they are looked at: a known one from an
// unknown one, one that is nearly right from one that is not, the first of the list
// from the last. Welch's t of what no interruption has lengthened has to be small.
func TestSEC5Timing(t *testing.T) {
	name := func(c string) string { return "Bearer sk-" + strings.Repeat(c, 40) }
	var keys []string
	for c := 'a'; c <= 'h'; c++ {
		keys = append(keys, strings.TrimPrefix(name(string(c)), "Bearer "))
	}
	s := start(t, setup{reply: hello, cfg: Config{Keys: keys}}).s
	n := soak.Cases(t, 20_000, 1_000_000)
	near := name("a")
	near = near[:len(near)-1] + "x"
	for _, c := range []struct{ what, one, other string }{
		{"known and unknown", name("c"), name("x")},
		{"nearly right and wrong", near, name("x")},
		{"first and last of the list", name("a"), name("h")},
	} {
		var seen []float64
		for range 8 { // chance exceeds 4.5 once in 100,000 times, a busy machine more often; a difference always
			seen = append(seen, welch(n, [2]string{c.one, c.other}, func(key string) { s.tenant(key) }))
			if math.Abs(seen[len(seen)-1]) < 4.5 {
				break
			}
		}
		if last := seen[len(seen)-1]; math.Abs(last) >= 4.5 {
			t.Errorf("%s: t = %.1f, less than 4.5 wanted", c.what, seen)
		}
		t.Logf("SEC-5: %s: %d samples, t = %.1f", c.what, n, seen)
	}
}

// welch returns Welch's t of the times of f for two inputs, in random order, of n
// samples of eight calls. The slowest tenth is left out, of both by the same bound.
func welch(n int, inputs [2]string, f func(string)) float64 {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	took, kinds := make([]time.Duration, n), make([]int, n)
	for i := range took {
		kinds[i] = rng.IntN(2)
		in := strings.Clone(inputs[kinds[i]]) // where it lies says nothing, either
		began := time.Now()
		for range 8 {
			f(in)
		}
		took[i] = time.Since(began)
	}
	sorted := slices.Sorted(slices.Values(took))
	bound := sorted[n*9/10]
	var count, mean, squares [2]float64
	for i, d := range took {
		if d > bound {
			continue
		}
		k := kinds[i]
		count[k]++
		step := float64(d) - mean[k]
		mean[k] += step / count[k]
		squares[k] += step * (float64(d) - mean[k])
	}
	return (mean[0] - mean[1]) / math.Sqrt(squares[0]/(count[0]-1)/count[0]+squares[1]/(count[1]-1)/count[1])
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
