package server

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/engine"
	"ossian/internal/limits"
	"ossian/internal/runner"
	"ossian/internal/sched"
	"ossian/internal/soak"
)

// TestMetricIdentities holds the totals to each other after random requests, of which some are
// refused, some are given up, and many are preempted: operations.md 2. What the server asks of its
// engine by itself, to warm up, is in none of them.
func TestMetricIdentities(t *testing.T) {
	g := start(t, setup{cost: 200 * time.Microsecond, info: runner.Info{Depth: 2, BlockSize: 4, MaxSeqs: 6, MaxTokens: 64, MaxLen: 256, Groups: []runner.Group{{Blocks: 70}}},
		engine: engine.Config{Sched: sched.Config{MaxQueue: 12, NoReserve: true}}, limits: map[limits.ID]int64{limits.Queue: 12}})
	model := g.model.Metrics
	if model == nil {
		t.Fatal("a model without metrics")
	}
	for name, v := range samples(t, g.do("GET", "/metrics", "").body) {
		if v != 0 && (strings.Contains(name, "tokens") && strings.HasPrefix(name, "vllm:") || strings.HasPrefix(name, "ossian_steps_total")) {
			t.Errorf("after warming up %s is %v", name, v)
		}
	}
	n := soak.Cases(t, 300, 10_000)
	var left, refused atomic.Int64
	var clients sync.WaitGroup
	for client := range 8 {
		rng := rand.New(rand.NewPCG(uint64(client), 11))
		clients.Go(func() {
			for range n / 8 {
				switch g.random(rng) {
				case 0:
					left.Add(1)
				case http.StatusTooManyRequests, http.StatusBadRequest:
					refused.Add(1)
				}
			}
		})
	}
	clients.Wait()
	got := g.agree()
	const labels = `{engine="0",model_name="test-model"}`
	preempted, cached, asked := got["vllm:num_preemptions_total"+labels], got["vllm:prompt_tokens_cached_total"+labels], got["vllm:prompt_tokens_total"+labels]
	if left.Load() == 0 || refused.Load() == 0 || preempted == 0 || cached == 0 || asked == 0 {
		t.Errorf("%d clients left, %d were refused, %v preemptions, %v of %v prompt tokens cached: too little happened", left.Load(), refused.Load(), preempted, cached, asked)
	}
	t.Logf("%d requests, %d given up, %d refused, %v preemptions: the totals agree", n/8*8, left.Load(), refused.Load(), preempted)
}

// agree waits until the totals agree with each other, and returns them.
func (g *rig) agree(header ...string) map[string]float64 {
	g.t.Helper()
	g.idle()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) { // requests are counted when their reply has left
		got := samples(g.t, g.do("GET", "/metrics", "", header...).body)
		wrong := identities(got)
		if wrong == "" {
			return got
		}
		if time.Now().After(deadline) {
			g.t.Error(wrong)
			return got
		}
	}
}

// random sends a request that may be refused or given up, and returns its status, 0 if it left.
func (g *rig) random(rng *rand.Rand) int {
	words := 1 + rng.IntN(60)
	if rng.IntN(20) == 0 {
		words = 1000 // has no room
	}
	body := fmt.Sprintf(`{"prompt":"%s","max_tokens":%d,"n":%d,"stream":%v,"stop":["e"],"seed":%d}`,
		strings.Repeat("word ", words), 1+rng.IntN(90), 1+rng.IntN(3), rng.IntN(2) == 0, rng.IntN(3))
	if rng.IntN(2) == 0 {
		body = strings.Replace(body, `"stop":["e"],`, "", 1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rng.IntN(4) == 0 {
		defer time.AfterFunc(time.Duration(rng.IntN(20))*time.Millisecond, cancel).Stop()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := g.client.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return 0
	}
	return res.StatusCode
}

// identities returns what contradicts what in a scrape at rest, "" if nothing does.
func identities(got map[string]float64) string {
	sum := func(name string) (total float64) {
		for sample, v := range got {
			if strings.HasPrefix(sample, name+"{") {
				total += v
			}
		}
		return total
	}
	for _, pair := range []struct{ left, right string }{
		{"vllm:prompt_tokens_by_source_total", "vllm:prompt_tokens_total"},
		{"vllm:request_prompt_tokens_sum", "vllm:prompt_tokens_total"},
		{"vllm:prompt_tokens_cached_by_source_total", "vllm:prefix_cache_hits_total"},
		{"vllm:num_requests_waiting_by_reason", "vllm:num_requests_waiting"},
		{"vllm:request_num_preemptions_count", "vllm:request_success_total"},
	} {
		if left, right := sum(pair.left), sum(pair.right); left != right {
			return fmt.Sprintf("%s adds up to %v, %s to %v", pair.left, left, pair.right, right)
		}
	}
	computed, cached := sum("vllm:request_prefill_kv_computed_tokens_sum"), sum("vllm:prompt_tokens_cached_total")
	if asked := sum("vllm:prompt_tokens_total"); computed+cached != asked {
		return fmt.Sprintf("%v prompt tokens computed and %v cached, of %v", computed, cached, asked)
	}
	if each, all := sum("vllm:request_num_preemptions_sum"), sum("vllm:num_preemptions_total"); each > all || each == 0 && all > 10 { // who gave up may have been preempted since its last token
		return fmt.Sprintf("%v preemptions, those of all sequences add up to %v", all, each)
	}
	ended, accepted := sum("vllm:request_success_total"), sum("ossian_requests_accepted_total")
	if there := sum("vllm:num_requests_running") + sum("vllm:num_requests_waiting"); ended != accepted-there {
		return fmt.Sprintf("%v sequences accepted, %v ended, %v are there", accepted, ended, there)
	}
	return ""
}

// TestGaugesLead: autoscalers go by how many requests wait, for that shows a burst before a latency
// does. A burst of a recorded kind, three requests one behind the other and then twelve at once on two
// places, is stopped in the middle of a step: the gauges have it, and no histogram has.
func TestGaugesLead(t *testing.T) {
	const places, burst = 2, 12
	var gate atomic.Pointer[chan struct{}] // nil = steps go on
	g := start(t, setup{reply: hello, launch: func(int, *runner.Batch) {
		if closed := gate.Load(); closed != nil {
			<-*closed
		}
	}, info: runner.Info{BlockSize: 16, MaxSeqs: places, MaxTokens: 2048, MaxLen: 512, Groups: []runner.Group{{Blocks: 64}}}})
	ask := func() {
		if r := g.post("/v1/completions", `{"prompt":"a","max_tokens":4}`); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	for range 3 {
		ask()
	}
	if n := g.metric("vllm:num_requests_waiting"); n != 0 {
		t.Errorf("%v wait of requests one behind the other", n)
	}
	latencies := func() (all string) {
		for _, name := range []string{"vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds", "vllm:time_to_first_token_seconds"} {
			all += fmt.Sprint(g.metric(name+"_count"), " ", g.metric(name+"_sum"), ";")
		}
		return all
	}
	before, stopped := latencies(), make(chan struct{})
	gate.Store(&stopped)
	var clients sync.WaitGroup
	for range burst {
		clients.Go(ask)
	}
	eventually(t, time.Minute, "the burst is seen", func() bool {
		return g.metric("vllm:num_requests_waiting")+g.metric("vllm:num_requests_running") == burst
	})
	if waiting := g.metric("vllm:num_requests_waiting"); waiting < burst-places {
		t.Errorf("%v wait of %d on %d places", waiting, burst, places)
	}
	if now := latencies(); now != before {
		t.Errorf("latencies %s, before the burst %s", now, before)
	}
	gate.Store(nil)
	close(stopped)
	clients.Wait()
	g.idle()
	if n := g.metric("vllm:e2e_request_latency_seconds_count"); n != 3+burst || latencies() == before {
		t.Errorf("%v requests in the latencies %s", n, latencies())
	}
	if waiting := g.metric("vllm:num_requests_waiting"); waiting != 0 {
		t.Errorf("%v wait behind the burst", waiting)
	}
}
