package server

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/limits"
	"ossian/internal/soak"
)

// TestOPS4Reloads changes keys and limits again and again under load: each change
// counts for the next request, none disturbs a request of a key that stays.
func TestOPS4Reloads(t *testing.T) {
	g := start(t, setup{reply: hello, cost: time.Millisecond, cfg: Config{Keys: []string{"stays", "goes"}}})
	reloads := soak.Cases(t, 30, 1000)
	tight := limits.Defaults()
	tight[limits.Choices] = 1
	want := anonymous(g.post("/v1/completions", `{"prompt":"a","max_tokens":20}`, "Authorization", "Bearer stays").body)
	before := g.model.Engine.Stats().Accepted
	through := make(chan got, 1) // a stream that began with a key that goes
	go func() {
		var r got
		defer func() { through <- r }()
		r = g.post("/v1/completions", `{"prompt":"a","max_tokens":500,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, "Authorization", "Bearer goes")
	}()
	eventually(t, time.Minute, "runs", func() bool { return g.model.Engine.Stats().Accepted > before })
	var (
		load   sync.WaitGroup
		done   = make(chan struct{})
		served atomic.Int64
	)
	for range 3 {
		load.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if r := g.post("/v1/completions", `{"prompt":"a","max_tokens":20}`, "Authorization", "Bearer stays"); r.status != 200 || anonymous(r.body) != want {
					t.Errorf("%d %s", r.status, r.body)
					return
				}
				served.Add(1)
			}
		})
	}
	for i := range reloads {
		keys, lim, status := []string{"stays", "goes"}, limits.Defaults(), 200
		if i%2 == 0 {
			keys, lim, status = []string{"new", "stays"}, tight, 401
		}
		g.s.Reload(keys, lim)
		if r := g.do("GET", "/version", "", "Authorization", "Bearer goes"); r.status != status {
			t.Fatalf("reload %d: status %d with a key that goes and comes, want %d", i, r.status, status)
		}
		r := g.post("/v1/completions", `{"prompt":"a","max_tokens":1,"n":2}`, "Authorization", "Bearer stays")
		if refused := r.status == 400 && strings.Contains(r.body, "--limit choices=N"); refused != (status == 401) {
			t.Fatalf("reload %d: 2 choices: %d %s", i, r.status, r.body)
		}
	}
	close(done)
	load.Wait()
	if r := <-through; r.status != 200 || !strings.HasSuffix(r.body, "data: [DONE]\n\n") || !strings.Contains(r.body, `"completion_tokens":500`) {
		t.Errorf("the stream that went through: %d %s", r.status, r.body[max(0, len(r.body)-500):])
	}
	g.idle()
	t.Logf("OPS-4: %d reloads, %d requests meanwhile, 0 errors", reloads, served.Load())
}

// A key's tenant is its own: nobody else gets the prefixes that it cached (SEC-7).
func TestReloadKeepsTenants(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{Keys: []string{"a", "b"}}})
	tenant := func(key string) uint32 { n, _ := g.s.tenant("Bearer " + key); return n }
	a, b := tenant("a"), tenant("b")
	g.s.Reload([]string{"b", "c", "b"}, nil)
	c := tenant("c")
	if a == 0 || b == 0 || c == 0 || a == b || c == a || c == b || tenant("b") != b || tenant("a") != 0 {
		t.Errorf("a %d, b %d, then b %d, c %d, a %d", a, b, tenant("b"), c, tenant("a"))
	}
	g.s.Reload(nil, nil)
	if n, ok := g.s.tenant(""); n != 0 || !ok {
		t.Errorf("without keys: %d, %v", n, ok)
	}
	g.s.Reload([]string{"d", "a"}, nil)
	if d, again := tenant("d"), tenant("a"); d <= c || again <= c || d == again {
		t.Errorf("numbers of others come back: d %d, a %d, after %d", d, again, c)
	}
}
