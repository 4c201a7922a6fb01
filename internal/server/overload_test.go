package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/engine"
	"ossian/internal/limits"
	"ossian/internal/sched"
	"ossian/internal/soak"
)

// answered is what became of a request.
type answered struct {
	status int // 0 = it failed
	took   time.Duration
	again  string // Retry-After
}

// send posts a request and reads the reply.
func send(c *http.Client, url, body string, header ...string) answered {
	began := time.Now()
	res, err := try(context.Background(), c, url, body, header...)
	if err != nil {
		return answered{}
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return answered{}
	}
	return answered{res.StatusCode, time.Since(began), res.Header.Get("Retry-After")}
}

func try(ctx context.Context, c *http.Client, url, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return c.Do(req)
}

// tokens streams a completion and calls each for every event but the last.
func tokens(c *http.Client, url, key, body string, each func()) error {
	res, err := try(context.Background(), c, url+"/v1/completions", body, "Authorization", "Bearer "+key)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	lines := bufio.NewScanner(res.Body)
	last := ""
	for lines.Scan() {
		if line := lines.Text(); line != "" {
			last = line
		}
		if strings.HasPrefix(lines.Text(), `data: {`) {
			each()
		}
	}
	if last != "data: [DONE]" {
		return fmt.Errorf("the stream ends with %q, %w", last, lines.Err())
	}
	return nil
}

// pooled returns a client that keeps n connections.
func (g *rig) pooled(n int) *http.Client {
	t := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: n}
	g.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// offer sends requests at a fixed rate, whether or not those before have been
// answered, and returns what became of them and the rate of those that were served
// behind the first fifth of the time.
func (g *rig) offer(c *http.Client, body string, perSecond float64, d time.Duration) (all []answered, goodput float64) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	served := 0
	began := time.Now()
	for i := 0; ; i++ {
		at := time.Duration(float64(i) / perSecond * float64(time.Second))
		if at > d {
			break
		}
		time.Sleep(time.Until(began.Add(at)))
		wg.Go(func() {
			a := send(c, g.url+"/v1/completions", body)
			end := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, a)
			if a.status == 200 && end > d/5 && end <= d {
				served++
			}
		})
	}
	wg.Wait()
	return all, float64(served) / (d * 4 / 5).Seconds()
}

// crowd has n clients for d that send one request after another, refused or not, and
// returns the same rate and how many were refused.
func (g *rig) crowd(c *http.Client, body string, n int, d time.Duration) (goodput float64, refused int) {
	var served, again atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range n {
		wg.Go(func() {
			for time.Since(began) < d {
				switch a, end := send(c, g.url+"/v1/completions", body), time.Since(began); {
				case a.status == 429:
					again.Add(1)
				case a.status != 200:
					g.t.Errorf("%+v", a)
					return
				case end > d/5 && end <= d:
					served.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return float64(served.Load()) / (d * 4 / 5).Seconds(), int(again.Load())
}

// overloaded is a server that does 8 requests of 10 tokens in a fifth of a second, and
// lets 8 more wait.
func overloaded(t *testing.T) (g *rig, body string) {
	processors(t)
	u := setup{reply: strings.Repeat("x", 64), cost: 20 * time.Millisecond, engine: engine.Config{Sched: sched.Config{MaxQueue: 8}}}
	u.info.MaxSeqs = 8
	return start(t, u), `{"prompt":"a","max_tokens":10,"ignore_eos":true}`
}

// TestADM4 offers ten times what the server can do: the rest is refused at once, and
// told when to come again.
func TestADM4(t *testing.T) {
	n := soak.Cases(t, 1000, 20_000)
	g, body := overloaded(t)
	const perSecond = 10 * 8 / 0.22
	all, _ := g.offer(g.pooled(64), body, perSecond, time.Duration(float64(n)/perSecond*float64(time.Second)))
	var refused []time.Duration
	for _, a := range all {
		if a.status == 429 {
			refused = append(refused, a.took)
		}
		if (a.status != 200 && a.status != 429) || (a.status == 429) != (a.again == "1") {
			t.Errorf("%+v", a)
		}
	}
	if len(refused) < len(all)/2 {
		t.Errorf("only %d of %d were refused: this shows nothing", len(refused), len(all))
	}
	at := p99(refused)
	within(t, "refused after", at, 20*time.Millisecond, time.Minute)
	g.idle()
	t.Logf("ADM-4: %d requests at 10 times the rate, %d refused, p99 %v, all with Retry-After", len(all), len(refused), at)
}

// TestADM4Unread: at a full queue headers are enough for a refusal.
func TestADM4Unread(t *testing.T) {
	g, _ := overloaded(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 16 {
		go func() {
			if res, err := try(ctx, g.client, g.url+"/v1/completions", `{"prompt":"a","max_tokens":4000,"ignore_eos":true}`); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		}()
	}
	eventually(t, 2*time.Minute, "the queue is full", func() bool { return g.model.Engine.Accepting() != nil })
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10000000\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != 429 {
		t.Errorf("%v %v, want 429 without a byte of the body", res, err)
	}
	cancel()
	g.idle()
}

// TestADM5 surges to ten times the load, of clients that come at their own pace and of
// clients that come again at once: as much as ever is done, and all is well soon after.
func TestADM5(t *testing.T) {
	d := time.Duration(soak.Cases(t, 3, 200)) * time.Second
	g, body := overloaded(t)
	c := g.pooled(400)
	alone := func() time.Duration {
		var took []time.Duration
		for range 3 {
			a := send(c, g.url+"/v1/completions", body)
			if a.status != 200 {
				return time.Hour
			}
			took = append(took, a.took)
		}
		slices.Sort(took)
		return took[1]
	}
	usual := alone()
	peak, refused := g.crowd(c, body, 16, min(d, 20*time.Second))
	if refused > 0 {
		t.Errorf("%d refused at the peak", refused)
	}
	calm := func() time.Duration {
		began := time.Now()
		slack := usual + time.Second // a busy machine
		if soaking() {
			slack = usual / 20
		}
		eventually(t, 2*time.Minute, "requests take as long as before", func() bool { return alone() <= usual+slack })
		return time.Since(began)
	}
	all, open := g.offer(c, body, 10*peak, d)
	openRecovery := calm()
	retrying, again := g.crowd(c, body, 160, d)
	retryRecovery := calm()
	if soaking() && min(open, retrying) < 0.9*peak { // on a busy machine clients that never wait leave little to serve with
		t.Errorf("%.1f requests/s served at 10 times the rate, %.1f with 10 times the clients, at least 90 %% of %.1f wanted", open, retrying, peak)
	}
	within(t, "as before after", max(openRecovery, retryRecovery), 10*time.Second, 2*time.Minute)
	t.Logf("ADM-5: %.1f requests/s at the peak; %v of 10 times the rate (%d requests): %.1f, as before after %v; %v of 160 clients that try again at once (%d refusals): %.1f, as before after %v",
		peak, d, len(all), open, openRecovery, d, again, retrying, retryRecovery)
}

// TestADM6Load floods the server with one key's long requests, and asks for something
// short with another. Then both flood.
func TestADM6Load(t *testing.T) {
	soak.Beside(t)
	long, short := soak.Cases(t, 60, 1000), soak.Cases(t, 8, 60)
	window, pause := 2*time.Second, 50*time.Millisecond
	if soaking() {
		window, pause = 60*time.Second, time.Second
	}
	const step = 10 * time.Millisecond // of a chunk of a prompt, too
	u := setup{cost: step, cfg: Config{Keys: []string{"a", "b"}}, limits: map[limits.ID]int64{limits.WriteStall: 600_000}}
	u.info.MaxSeqs, u.info.MaxTokens = 16, 64
	g := start(t, u)
	c := g.pooled(8)
	first := func(i int) time.Duration {
		began, took := time.Now(), time.Duration(0)
		err := tokens(c, g.url, "b", fmt.Sprintf(`{"prompt":[%s],"max_tokens":4,"ignore_eos":true,"stream":true}`, numbers(i, 20)), func() {
			if took == 0 {
				took = time.Since(began)
			}
		})
		if err != nil {
			t.Errorf("short request: %v", err)
		}
		return took
	}
	var isolated, beside []time.Duration
	for i := range short {
		isolated = append(isolated, first(i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var floods sync.WaitGroup
	var got [2]atomic.Int64
	flood := func(key string, clients int, count *atomic.Int64) {
		for i := range clients {
			floods.Go(func() {
				for k := 0; ctx.Err() == nil; k++ {
					body := fmt.Sprintf(`{"prompt":[%s],"max_tokens":30,"ignore_eos":true,"stream":true}`, numbers(1000*(k+1)+i, 300))
					res, err := try(ctx, g.client, g.url+"/v1/completions", body, "Authorization", "Bearer "+key)
					if err != nil {
						return // at the end
					}
					if res.StatusCode != 200 {
						t.Errorf("client %d of %s: %d", i, key, res.StatusCode)
					}
					for lines := bufio.NewScanner(res.Body); lines.Scan(); {
						if strings.HasPrefix(lines.Text(), "data: {") {
							count.Add(1)
						}
					}
					res.Body.Close()
				}
			})
		}
	}
	flood("a", long, &got[0])
	eventually(t, 2*time.Minute, "the flood is in", func() bool { st := g.model.Engine.Stats(); return st.Running+st.Waiting >= long })
	for i := range short {
		beside = append(beside, first(short+i))
		time.Sleep(pause)
	}
	flood("b", 24, &got[1])
	eventually(t, 2*time.Minute, "both flood", func() bool { return got[1].Load() > 100 })
	time.Sleep(window)
	a, b := got[0].Load(), got[1].Load()
	time.Sleep(window)
	// A busy machine has too few in that time to compare.
	eventually(t, 5*time.Minute, "there are tokens to count", func() bool { return got[0].Load()+got[1].Load() >= a+b+1000 })
	a, b = got[0].Load()-a, got[1].Load()-b
	cancel()
	floods.Wait()
	g.client.CloseIdleConnections()
	g.idle()
	at, with := p99(isolated), p99(beside)
	within(t, "first token beside a flood", with, 3*at+step, 3*at+time.Minute)
	apart := math.Abs(float64(a-b)) / float64(max(a+b, 1)) * 2
	most := 1.0
	if soaking() {
		most = 0.1
	}
	if apart > most {
		t.Errorf("tenants with the same right got %d and %d tokens", a, b)
	}
	t.Logf("ADM-6: %d short requests beside %d long ones of another key: first token p99 %v, alone %v; both flooding for %v: %d and %d tokens, %.1f %% apart",
		short, long, with, at, window, a, b, 100*apart)
}

// burn keeps every core busy for d, as a step of a model does.
func burn(d time.Duration) {
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			for end := time.Now().Add(d); time.Now().Before(end); {
			}
		})
	}
	wg.Wait()
}

// processors gives the server as many as package load does.
func processors(t *testing.T) {
	before := runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// computing is a server all of whose cores compute, with so many running and waiting
// requests at most.
func computing(t *testing.T, run, wait int, log io.Writer) *rig {
	processors(t)
	u := setup{reply: strings.Repeat("x", 64), fault: func(int) error { burn(computed); return nil },
		engine: engine.Config{Sched: sched.Config{MaxQueue: wait}}, cfg: Config{AccessLog: true}, log: log}
	u.info.MaxSeqs = run
	return start(t, u)
}

const computed = 20 * time.Millisecond // a step

// probes asks for path n times and returns how long each took.
func (g *rig) probes(c *http.Client, path string, n int) (took []time.Duration) {
	for range n {
		began := time.Now()
		res, err := c.Get(g.url + path)
		if err != nil {
			g.t.Error(err)
			continue
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		took = append(took, time.Since(began))
		if res.StatusCode != 200 {
			g.t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	return took
}

// A filler keeps a place in a server until it is told to leave.
type filler struct {
	id    string
	leave context.CancelFunc
}

func (g *rig) fill(wg *sync.WaitGroup, c *http.Client, id string) filler {
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		res, err := try(ctx, c, g.url+"/v1/completions", `{"prompt":"a","max_tokens":4000,"ignore_eos":true,"stream":true}`, "X-Request-Id", id)
		if err != nil {
			return // it has left
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	})
	return filler{id, cancel}
}

// TestADM8: at full compute and a full queue health, metrics and leaving take no
// longer than otherwise.
func TestADM8(t *testing.T) {
	n := soak.Cases(t, 60, 3000)
	log := new(ledger)
	const run, wait = 4, 16
	g := computing(t, run, wait, log)
	var all sync.WaitGroup
	c := g.pooled(run + wait)
	var places []filler
	add := func(i int) {
		before := g.model.Engine.Stats().Accepted
		places = append(places, g.fill(&all, c, fmt.Sprintf("place-%d", i)))
		eventually(t, 2*time.Minute, "a place is taken", func() bool { return g.model.Engine.Stats().Accepted > before })
	}
	for i := range run + wait {
		add(i)
	}
	if g.model.Engine.Accepting() == nil {
		t.Fatal("the queue is not full")
	}
	health, metric, load := g.probes(c, "/health", n), g.probes(c, "/metrics", n), g.probes(c, "/load", n)
	var left []time.Duration
	for i := range n / 4 {
		f := places[len(places)-1] // waits; every other time one that runs
		if i%2 == 0 {
			f = places[0]
			places = places[1:]
		} else {
			places = places[:len(places)-1]
		}
		began := time.Now()
		f.leave()
		left = append(left, log.settled(t, f.id).at.Sub(began))
		eventually(t, 2*time.Minute, "there is a place", func() bool { return g.model.Engine.Accepting() == nil })
		add(run + wait + i)
	}
	for _, f := range places {
		f.leave()
	}
	all.Wait()
	g.idle()
	h, m, l, x := p99(health), p99(metric), p99(load), p99(left)
	within(t, "health, metrics, load, cancel", max(h, m, l, x), 100*time.Millisecond, time.Minute)
	t.Logf("ADM-8: %d requests of each kind and %d that leave, with all cores computing and a full queue, p99: health %v, metrics %v, load %v, cancel %v", n, len(left), h, m, l, x)
}

// TestHLT3: compute does not starve the server.
func TestHLT3(t *testing.T) {
	n := soak.Cases(t, 60, 3000)
	g := computing(t, 4, 16, nil)
	var all sync.WaitGroup
	c := g.pooled(8)
	running := func(n int) func() bool {
		return func() bool { return g.model.Engine.Stats().Running == n }
	}
	var places []filler
	for range 4 {
		places = append(places, g.fill(&all, c, "place"))
	}
	eventually(t, 2*time.Minute, "all run", running(4))
	const pauses = "/sched/pauses/total/gc:seconds"
	before := histogram(pauses)
	health := g.probes(c, "/health", n)
	for range n / 4 {
		runtime.GC()
	}
	pause, collections := quantile(before, histogram(pauses), 0.99)
	var freed []time.Duration
	for range n / 4 {
		began := time.Now()
		places[0].leave()
		eventually(t, 2*time.Minute, "its place is free", running(3))
		freed = append(freed, time.Since(began))
		places = append(places[1:], g.fill(&all, c, "place"))
		eventually(t, 2*time.Minute, "it is taken again", running(4))
	}
	for _, f := range places {
		f.leave()
	}
	all.Wait()
	g.idle()
	h, f := p99(health), p99(freed)
	within(t, "health", h, 100*time.Millisecond, time.Minute)
	within(t, "from cancel to free", f, 2*computed+50*time.Millisecond, time.Minute) // the step that runs, and one that tells
	within(t, "pause of the collector", pause, 50*time.Millisecond, time.Minute)
	t.Logf("HLT-3: with all cores computing, p99: %d of health %v, %d from cancel to free %v with steps of %v, %d pauses of the collector at most %v",
		n, h, len(freed), f, computed, collections, pause)
}

func histogram(name string) *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	h := s[0].Value.Float64Histogram()
	return &metrics.Float64Histogram{Counts: slices.Clone(h.Counts), Buckets: slices.Clone(h.Buckets)}
}

// quantile returns the upper bound of what was counted between two histograms, and
// how much that is.
func quantile(before, after *metrics.Float64Histogram, q float64) (time.Duration, int) {
	n := uint64(0)
	for i := range after.Counts {
		n += after.Counts[i] - before.Counts[i]
	}
	seen := uint64(0)
	for i := range after.Counts {
		if seen += after.Counts[i] - before.Counts[i]; n > 0 && float64(seen) >= q*float64(n) {
			return time.Duration(min(after.Buckets[i+1], 3600) * float64(time.Second)), int(n)
		}
	}
	return 0, 0
}
