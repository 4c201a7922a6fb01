package offline

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ossian/internal/bench/dataset"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/sim"
)

// slow is the cost of a step: a second, and a millisecond for each token.
func slow(b *runner.Batch) time.Duration {
	return time.Second + time.Duration(len(b.Tokens))*time.Millisecond
}

// script is a runner that plays one id for ever, which ends nothing.
func script(t *testing.T, c sim.Config) runner.Runner {
	t.Helper()
	c.Verify = true
	c.Next = sim.List(7)
	s, err := sim.NewScript(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t *testing.T, cfg Config) *Rig {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	g, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *Rig) stop(t *testing.T) {
	t.Helper()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// The steps that a batch takes together are known: one for the prompts, one for each
// token behind the first. A sequence that came a step later would make one more, and
// steps of both kinds.
func TestLatencyKeepsTheBatchTogether(t *testing.T) {
	for _, c := range []struct {
		name     string
		depth, n int
		want     float64 // seconds of a batch of 8 prompts of 32 tokens with 10 of output
	}{
		{name: "steps one by one", depth: 1, n: 1, want: 1.256 + 9*1.008},
		{name: "steps overlap", depth: 2, n: 1, want: 1.256 + 9*1.008},
		{name: "two answers each", depth: 1, n: 2, want: 1.512 + 9*1.016},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := start(t, Config{Runner: script(t, sim.Config{Cost: slow, Info: runner.Info{Depth: c.depth}}), NoPrefixCache: true})
				defer g.stop(t)
				queries, err := Uniform(0, 8, 32, 10, 512)
				if err != nil {
					t.Fatal(err)
				}
				tokens := 0
				const iterations = 20
				r, err := g.Latency(t.Context(), Load{Queries: queries, N: c.n, Progress: func(n int) { tokens += n }}, iterations)
				if err != nil {
					t.Fatal(err)
				}
				for i, s := range r.Latencies {
					if !near(s, c.want) {
						t.Errorf("batch %d took %v s, want %v", i, s, c.want)
					}
				}
				x := &r.Ossian
				want := Steps{Prefill: Phase{Steps: iterations, Prompt: iterations * 256 * c.n}, Decode: Phase{Steps: 9 * iterations, Decode: 9 * iterations * 8 * c.n}}
				if got := counts(x.Steps); got != want {
					t.Errorf("steps %+v, want %+v", got, want)
				}
				if len(r.Latencies) != iterations || !near(r.Mean, c.want) || !near(r.Std, 0) || !near(r.Percentiles["99"], c.want) || x.Interval == nil {
					t.Errorf("%d latencies, mean %v, deviation %v, P99 %v, interval %v", len(r.Latencies), r.Mean, r.Std, r.Percentiles["99"], x.Interval)
				}
				first := 1000 + 256*float64(c.n)
				if x.TTFT.N != 8*c.n*iterations || !near(x.TTFT.Max, first) || !near(x.TPOT.Mean, (c.want*1000-first)/9) || !near(x.E2EL.Median, c.want*1000) {
					t.Errorf("TTFT %+v, TPOT %+v, E2EL %+v", x.TTFT, x.TPOT, x.E2EL)
				}
				if x.Prompt != iterations*256 || x.Output != iterations*80*c.n || tokens != iterations*(256+72)*c.n || !near(x.OutputRate, float64(80*c.n)/c.want) {
					t.Errorf("%d prompt, %d output tokens, %v/s, progress of %d", x.Prompt, x.Output, x.OutputRate, tokens)
				}
				if x.Workload.Batches != iterations || x.Workload.Prompts != 8 || x.Workload.N != c.n || x.Workload.Hash != dataset.Hash(queries) {
					t.Errorf("workload %+v", x.Workload)
				}
			})
		})
	}
}

// counts are steps without times.
func counts(s Steps) Steps {
	for _, p := range []*Phase{&s.Prefill, &s.Mixed, &s.Decode} {
		*p = Phase{Steps: p.Steps, Prompt: p.Prompt, Decode: p.Decode}
	}
	return s
}

// Time passes in steps only, so they add up to the whole; every token is in one of them.
func TestThroughput(t *testing.T) {
	for _, c := range []struct {
		name    string
		caching bool
		info    runner.Info
	}{
		{name: "all run at once"},
		{name: "most wait", info: runner.Info{MaxSeqs: 3, MaxTokens: 40}},
		{name: "steps overlap", info: runner.Info{MaxSeqs: 5, Depth: 2}},
		{name: "prefix cache", caching: true, info: runner.Info{MaxSeqs: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				load := Load{N: 2, Seed: 4, IDs: func(q *dataset.Query) ([]int32, error) { return q.IDs[:q.Input], nil }}
				prompt, output := 0, 0
				for i := range 20 {
					ids := slices.Repeat([]int32{int32(i)}, 60)
					q := dataset.Query{IDs: ids, Input: 20 + i, Output: 1 + i%5}
					prompt, output = prompt+q.Input, output+2*q.Output
					load.Queries = append(load.Queries, q)
				}
				tokens := 0
				load.Progress = func(n int) { tokens += n }
				g := start(t, Config{Runner: script(t, sim.Config{Cost: slow, Info: c.info}), NoPrefixCache: !c.caching, Waiting: 40})
				defer g.stop(t)
				r, err := g.Throughput(t.Context(), load)
				if err != nil {
					t.Fatal(err)
				}
				x := &r.Ossian
				s := x.Steps
				if r.Requests != 20 || x.Prompt != prompt || x.Output != output || r.Tokens != prompt+output || x.E2EL.N != 40 {
					t.Errorf("%d requests, %d prompt and %d output tokens, %d in all, %d answers", r.Requests, x.Prompt, x.Output, r.Tokens, x.E2EL.N)
				}
				if sum := s.Prefill.Seconds + s.Mixed.Seconds + s.Decode.Seconds; !near(sum, r.Elapsed) || !near(r.TokenRate, float64(r.Tokens)/sum) || !near(x.OutputRate, float64(output)/sum) || !near(r.RequestRate, 20/sum) {
					t.Errorf("steps of %v s in %v s; rates %v, %v, %v", sum, r.Elapsed, r.TokenRate, x.OutputRate, r.RequestRate)
				}
				computed, decoded := s.Prefill.Prompt+s.Mixed.Prompt, s.Mixed.Decode+s.Decode.Decode
				if computed != 2*prompt-x.Cached || decoded != output-40 || tokens != computed+decoded || s.Prefill.Decode != 0 || s.Decode.Prompt != 0 {
					t.Errorf("%d prompt tokens computed, %d found, %d of answers, progress of %d: %+v", computed, x.Cached, decoded, tokens, s)
				}
				if x.Cached > 0 != c.caching {
					t.Errorf("%d tokens found in the prefix cache", x.Cached)
				}
			})
		})
	}
}

// A second measurement knows nothing of the first.
func TestMeasurementsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, Config{Runner: script(t, sim.Config{Cost: slow}), NoPrefixCache: true})
		defer g.stop(t)
		queries, _ := Uniform(1, 4, 16, 5, 512)
		load := Load{Queries: queries, N: 1}
		want, err := g.Latency(t.Context(), load, 3)
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.Latency(t.Context(), load, 3)
		if err != nil {
			t.Fatal(err)
		}
		if got.Console() != want.Console() || got.OssianConsole() != want.OssianConsole() {
			t.Errorf("got\n%s%swant\n%s%s", got.Console(), got.OssianConsole(), want.Console(), want.OssianConsole())
		}
	})
}

func TestErrors(t *testing.T) {
	fault := errors.New("the device is gone")
	from := func(n int) func(int, *runner.Batch) error {
		return func(step int, _ *runner.Batch) error {
			if step < n {
				return nil
			}
			return fault
		}
	}
	query := func(in, out int) []dataset.Query { return []dataset.Query{{IDs: make([]int32, in), Output: out}} }
	small := runner.Info{MaxLen: 64, MaxSeqs: 4}
	for _, c := range []struct {
		name    string
		sim     sim.Config
		load    Load
		latency bool
		cancel  bool   // after 5 s
		want    string // in the error
		broken  bool   // the engine too
	}{
		{name: "too long", load: Load{Queries: query(60, 5), N: 1}, want: "--max-model-len"},
		{name: "no output", load: Load{Queries: query(6, 0), N: 1}, want: "expected 1 or more"},
		{name: "no prompt", load: Load{Queries: query(0, 3), N: 1}, want: "prompt of 0 tokens"},
		{name: "id outside of the vocabulary", load: Load{Queries: []dataset.Query{{IDs: []int32{512}, Output: 1}}, N: 1}, want: "prompt 0"},
		{name: "prompt that cannot be made", load: Load{Queries: query(1, 1), N: 1, IDs: func(*dataset.Query) ([]int32, error) { return nil, fault }}, want: "prompt 0: the device"},
		{name: "batch too large", latency: true, load: Load{Queries: query(1, 1), N: 5}, want: "--max-num-seqs"},
		{name: "batch too long", latency: true, load: Load{Queries: query(64, 1), N: 1}, want: "--max-model-len"},
		{name: "interrupted", cancel: true, load: Load{Queries: query(4, 50), N: 2}, want: "context canceled"},
		{name: "interrupted batch", latency: true, cancel: true, load: Load{Queries: query(4, 50), N: 2}, want: "context canceled"},
		{name: "device lost", sim: sim.Config{OnCollect: from(5)}, load: Load{Queries: query(4, 50), N: 2}, want: "interrupted", broken: true},
		{name: "device lost in a batch", latency: true, sim: sim.Config{OnCollect: from(5)}, load: Load{Queries: query(4, 50), N: 2}, want: "interrupted", broken: true},
		{name: "device lost before a batch", latency: true, sim: sim.Config{OnCollect: from(1)}, load: Load{Queries: query(4, 50), N: 2}, want: "stopped", broken: true},
		{name: "device lost at a launch before a batch", latency: true, sim: sim.Config{OnLaunch: from(1)}, load: Load{Queries: query(4, 50), N: 2}, want: "stopped", broken: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.sim.Info, c.sim.Cost = small, slow
				g := start(t, Config{Runner: script(t, c.sim)})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel {
					time.AfterFunc(5*time.Second, cancel)
				}
				var err error
				if c.latency {
					_, err = g.Latency(ctx, c.load, 2)
				} else {
					_, err = g.Throughput(ctx, c.load)
				}
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if err := g.Close(); errors.Is(err, fault) != c.broken {
					t.Errorf("Close: %v", err)
				}
			})
		})
	}
}

// closing notes that a runner was closed.
type closing struct {
	runner.Runner
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return c.Runner.Close()
}

func TestStartErrors(t *testing.T) {
	fault := errors.New("the device is gone")
	for _, c := range []struct {
		name string
		sim  sim.Config
		want string
	}{
		{name: "no room", sim: sim.Config{Info: runner.Info{MaxLen: 1}}, want: "not even two tokens"},
		{name: "first step", sim: sim.Config{OnCollect: func(int, *runner.Batch) error { return fault }}, want: "warming up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &closing{Runner: script(t, c.sim)}
				_, err := Start(t.Context(), Config{Runner: r, Log: slog.New(slog.DiscardHandler)})
				if err == nil || !strings.Contains(err.Error(), c.want) || r.closed != 1 {
					t.Errorf("got %v, want %q; closed %d times", err, c.want, r.closed)
				}
			})
		})
	}
}

// Rows are told apart by where they are.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		params := &sample.Params{Prompt: 10}
		row := func(start, n int, last bool) runner.Row {
			return runner.Row{Start: start, Len: n, Sample: last, Params: params}
		}
		m := &meter{Runner: &still{}}
		for _, rows := range [][]runner.Row{
			{row(0, 10, true)},                  // a whole prompt
			{row(0, 4, false), row(9, 1, true)}, // parts of prompts
			{row(10, 1, true), row(40, 1, true)},
			{row(10, 1, true), row(0, 10, true)},
			{row(0, 14, true)}, // computed again after preemption
		} {
			if err := m.Launch(&runner.Batch{Rows: rows}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if _, err := m.Collect(); err != nil {
				t.Fatal(err)
			}
		}
		want := Steps{Prefill: Phase{Steps: 3, Prompt: 29, Seconds: 3, PromptRate: 29. / 3}, Mixed: Phase{Steps: 1, Prompt: 10, Decode: 1, Seconds: 1, PromptRate: 10, DecodeRate: 1},
			Decode: Phase{Steps: 1, Decode: 2, Seconds: 1, DecodeRate: 2}}
		got := m.read()
		for _, p := range []*Phase{&got.Prefill, &got.Mixed, &got.Decode} {
			p.took = 0
		}
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if m.reset(nil); m.read() != (Steps{}) {
			t.Errorf("after reset: %+v", m.read())
		}
	})
}

// still is a runner that does nothing.
type still struct{}

func (*still) Info() runner.Info                { return runner.Info{} }
func (*still) Launch(*runner.Batch) error       { return nil }
func (*still) Collect() (*runner.Result, error) { return &runner.Result{}, nil }
func (*still) Close() error                     { return nil }

// numpy 2: np.random.seed(s); np.random.randint(10000, size=(2, 4)); the last with 1706.
func TestUniform(t *testing.T) {
	for _, c := range []struct {
		seed  int64
		vocab int
		want  [][]int32
	}{
		{0, 200000, [][]int32{{2732, 9845, 3264, 4859}, {9225, 7891, 4373, 5874}}},
		{42, 200000, [][]int32{{7270, 860, 5390, 5191}, {5734, 6265, 466, 4426}}},
		{0, 1706, [][]int32{{684, 559, 1653, 1216}, {835, 763, 1383, 1033}}},
	} {
		got, err := Uniform(c.seed, 2, 4, 3, c.vocab)
		if err != nil {
			t.Fatal(err)
		}
		for i, q := range got {
			if !slices.Equal(q.IDs, c.want[i]) || q.Input != 4 || q.Output != 3 {
				t.Errorf("seed %d, vocabulary %d, prompt %d: %+v, want %v", c.seed, c.vocab, i, q, c.want[i])
			}
		}
	}
	if _, err := Uniform(-1, 1, 1, 1, 10); err == nil || !strings.Contains(err.Error(), "--seed") {
		t.Errorf("seed -1: %v", err)
	}
}
