//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ossian/internal/soak"
)

// scrapeEvery is how often endpoint pickers ask by default.
const scrapeEvery = 50 * time.Millisecond

// An endpoint is a server as a picker sees it: by its metrics, and by whether it is ready.
type endpoint struct {
	*process
	picked  atomic.Int64 // requests that were sent to it
	running atomic.Int64 // of these, without an answer yet

	mu              sync.Mutex // guards the rest: what the last scrape said
	ready           bool
	waiting, kv     float64
	scrapes, failed int
	slowest         time.Duration
}

// scrape asks an endpoint what it has to do.
func (e *endpoint) scrape(ctx context.Context, client *http.Client) {
	began := time.Now()
	values, err := exposed(ctx, client, e.url+"/metrics")
	took := time.Since(began)
	ready := e.status("/ready") == http.StatusOK
	e.mu.Lock()
	defer e.mu.Unlock()
	e.scrapes++
	e.ready = ready && err == nil
	if err != nil {
		e.failed++
		return
	}
	e.slowest = max(e.slowest, took)
	e.waiting, e.kv = values["vllm:num_requests_waiting"], values["vllm:kv_cache_usage_perc"]
}

// exposed reads the gauges that the model-server protocol of endpoint pickers asks for. It fails if
// one of them is missing or can be no such thing.
func exposed(ctx context.Context, client *http.Client, url string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	reply, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", reply.StatusCode)
	}
	values := map[string]float64{}
	lines := bufio.NewScanner(reply.Body)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), "{")
		_, number, _ := strings.Cut(rest, "} ")
		if value, err := strconv.ParseFloat(number, 64); err == nil {
			values[name] = value
		}
	}
	for name, most := range map[string]float64{"vllm:num_requests_waiting": math.Inf(1), "vllm:num_requests_running": math.Inf(1), "vllm:kv_cache_usage_perc": 1, "vllm:cache_config_info": 1} {
		if value, found := values[name]; !found || !(value >= 0 && value <= most) {
			return nil, fmt.Errorf("%s is %v, %v", name, value, found)
		}
	}
	return values, lines.Err()
}

// load is what a picker weighs: requests that wait by the last scrape, those that were sent since
// and before without an answer, and the share of the cache.
func (e *endpoint) load() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.ready {
		return math.Inf(1)
	}
	return e.waiting + float64(e.running.Load()) + e.kv
}

// pick returns the endpoint with the least to do that was not tried before; nil = none is ready.
func pick(all []*endpoint, tried map[*endpoint]bool) *endpoint {
	least, at := math.Inf(1), (*endpoint)(nil)
	for _, e := range all {
		if load := e.load(); load < least && !tried[e] {
			least, at = load, e
		}
	}
	return at
}

// A gateway sends requests to the endpoints that its picker picks, and what fails to another one.
type gateway struct {
	t       *testing.T
	all     []*endpoint
	client  *http.Client
	retried atomic.Int64
}

// ask sends a request until an endpoint has answered it wholly.
func (g *gateway) ask(ctx context.Context, body string) (told, error) {
	tried := map[*endpoint]bool{}
	for ctx.Err() == nil {
		e := pick(g.all, tried)
		if e == nil { // all were tried, or none is ready: a gateway says 503 then, and its client comes back
			clear(tried)
			time.Sleep(scrapeEvery)
			continue
		}
		e.picked.Add(1)
		e.running.Add(1)
		answer, err := g.send(ctx, e, body)
		e.running.Add(-1)
		if err == nil {
			return answer, nil
		}
		tried[e] = true
		g.retried.Add(1)
	}
	return told{}, ctx.Err()
}

// send sends a request to an endpoint. An answer that is not whole is an error.
func (g *gateway) send(ctx context.Context, e *endpoint, body string) (told, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return told{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	reply, err := g.client.Do(request)
	if err != nil {
		return told{}, err
	}
	if reply.StatusCode != http.StatusOK {
		reply.Body.Close()
		return told{}, fmt.Errorf("status %d", reply.StatusCode)
	}
	answer := listen(reply, nil)
	if !answer.done || answer.code != "" {
		return answer, errors.New("an answer that was cut")
	}
	return answer, nil
}

// An endpoint picker over three servers reads their metrics every 50 ms and sends each request to
// the one with the least to do. One server is killed and one is drained: no request is lost that
// was sent again, all answers are those of a server alone, and what runs on the drained one ends.
func TestEndpointPicker(t *testing.T) {
	requests := soak.Cases(t, 60, 2000)
	const tokens, clients = 120, 12
	g := &gateway{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
	defer g.client.CloseIdleConnections()
	for range 3 {
		g.all = append(g.all, &endpoint{process: serveProcess(t, "--max-num-seqs", "4", "--threads", "1", "--drain-timeout", "10m")})
	}
	for _, e := range g.all {
		e.process.ready()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var scrapers sync.WaitGroup
	defer scrapers.Wait()
	defer cancel()
	for _, e := range g.all {
		scrapers.Go(func() {
			for tick := time.NewTicker(scrapeEvery); ctx.Err() == nil; <-tick.C {
				e.scrape(ctx, g.client)
			}
		})
	}
	ask := func(i int) string {
		return fmt.Sprintf(`{"prompt":"%d+","max_tokens":%d,"ignore_eos":true,"stream":true,"return_token_ids":true,"temperature":0}`, 10+i%4, tokens)
	}
	var alone [4]told
	for i := range alone {
		var err error
		if alone[i], err = g.ask(ctx, ask(i)); err != nil || len(alone[i].ids) != tokens {
			t.Fatalf("%+v, %v", alone[i], err)
		}
	}
	killed, drained := g.all[0], g.all[1]
	var next, ended atomic.Int64
	var users sync.WaitGroup
	for range clients {
		users.Go(func() {
			for i := int(next.Add(1)) - 1; i < requests; i = int(next.Add(1)) - 1 {
				answer, err := g.ask(ctx, ask(i))
				if err != nil || !slices.Equal(answer.ids, alone[i%4].ids) {
					t.Errorf("request %d: %d tokens, %v; want those of a server alone", i, len(answer.ids), err)
				}
				switch int(ended.Add(1)) {
				case requests / 3:
					_ = killed.Process.Kill()
				case requests / 2:
					_ = drained.Process.Signal(syscall.SIGTERM)
				}
			}
		})
	}
	users.Wait()
	<-drained.ended
	if drained.err != nil {
		t.Errorf("the drained server ended with %v", drained.err)
	}
	if strings.Contains(drained.log.String(), `"cut"`) {
		t.Errorf("the drained server cut answers:\n%s", &drained.log)
	}
	var picked []int64
	for i, e := range g.all {
		picked = append(picked, e.picked.Load())
		if e.picked.Load() == 0 {
			t.Errorf("server %d got no request", i)
		}
	}
	g.all[2].mu.Lock()
	defer g.all[2].mu.Unlock()
	t.Logf("%d requests, sent to %v, %d sent again; %d scrapes of the server that stayed, %v at most", requests, picked, g.retried.Load(), g.all[2].scrapes, g.all[2].slowest)
	if g.all[2].failed > 0 {
		t.Errorf("%d of %d scrapes of the server that stayed failed", g.all[2].failed, g.all[2].scrapes)
	}
}
