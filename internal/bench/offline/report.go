package offline

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"ossian/internal/bench/dataset"
	"ossian/internal/stat"
)

// A Throughput is the result of vllm bench throughput, with its keys in its order, and
// "ossian" behind them.
type Throughput struct {
	Elapsed     float64   `json:"elapsed_time"` // seconds
	Requests    int       `json:"num_requests"`
	Tokens      int       `json:"total_num_tokens"` // of prompts and answers
	RequestRate float64   `json:"requests_per_second"`
	TokenRate   float64   `json:"tokens_per_second"`
	Ossian      Extension `json:"ossian"`
}

// A Latency is the result of vllm bench latency, likewise.
type Latency struct {
	Mean        float64            `json:"avg_latency"` // seconds, as all here
	Std         float64            `json:"std_latency"`
	Latencies   []float64          `json:"latencies"`
	Percentiles map[string]float64 `json:"percentiles"` // keys sort as the numbers do
	Ossian      Extension          `json:"ossian"`
}

// An Extension is what vLLM's tools do not say.
type Extension struct {
	Environment Environment    `json:"environment"`
	Workload    Workload       `json:"workload"`
	Prompt      int            `json:"prompt_tokens"`
	Cached      int            `json:"cached_prompt_tokens"` // found in the prefix cache; each answer looks for its own
	Output      int            `json:"output_tokens"`
	OutputRate  float64        `json:"output_tokens_per_second"`
	Preemptions uint64         `json:"preemptions"` // sequences computed again for lack of KV memory
	Steps       Steps          `json:"steps"`
	TTFT        Dist           `json:"ttft"` // since submission, so the wait is in it
	TPOT        Dist           `json:"tpot"`
	E2EL        Dist           `json:"e2el"`
	Interval    *stat.Interval `json:"avg_latency_interval,omitempty"` // of the mean, 95 %; Latency of two batches or more
}

// An Environment says what ran, and on what.
type Environment struct {
	Version       string   `json:"version"`
	Go            string   `json:"go"`
	System        string   `json:"system"` // "linux/amd64"
	Processor     string   `json:"processor"`
	Cores         int      `json:"cores"`
	Threads       int      `json:"threads"` // that compute
	Device        string   `json:"device"`  // "cpu/avx512"
	Model         string   `json:"model"`
	DTypes        []string `json:"dtypes"` // of the weights, those with most bytes first
	KVCache       string   `json:"kv_cache_dtype"`
	MaxLen        int      `json:"max_model_len"`
	MaxSeqs       int      `json:"max_num_seqs"`
	MaxTokens     int      `json:"max_num_batched_tokens"`
	PrefixCaching bool     `json:"enable_prefix_caching"`
	Args          []string `json:"args"`
}

// A Workload names what was submitted.
type Workload struct {
	Dataset string  `json:"dataset"`
	Hash    string  `json:"hash"` // of the queries
	Seed    int64   `json:"seed"`
	Temp    float32 `json:"temperature"`
	Prompts int     `json:"prompts"`
	N       int     `json:"n"`       // answers to each
	Batches int     `json:"batches"` // how often
}

// Steps are the steps of a measurement by what they held.
type Steps struct {
	Prefill Phase `json:"prefill"` // prompts only
	Mixed   Phase `json:"mixed"`
	Decode  Phase `json:"decode"` // one token for each of some answers
}

// A Phase adds up steps. The first token of an answer comes with the end of its prompt
// and is none of the decode tokens.
type Phase struct {
	Steps      int     `json:"steps"`
	Seconds    float64 `json:"seconds"`
	Prompt     int     `json:"prompt_tokens"` // computed, again after preemption too
	Decode     int     `json:"decode_tokens"`
	PromptRate float64 `json:"prompt_tokens_per_second"`
	DecodeRate float64 `json:"decode_tokens_per_second"`

	took time.Duration
}

// A Dist summarises times in milliseconds.
type Dist struct {
	N      int     `json:"n"`
	Mean   float64 `json:"mean_ms"`
	Median float64 `json:"median_ms"`
	P90    float64 `json:"p90_ms"`
	P99    float64 `json:"p99_ms"`
	Max    float64 `json:"max_ms"`
}

func distOf(ms []float64) Dist {
	s := stat.Sorted(ms)
	return Dist{len(s), stat.Mean(s), stat.Median(s), stat.Percentile(s, 90), stat.Percentile(s, 99), stat.Percentile(s, 100)}
}

// per is n over seconds, 0 where no time has passed.
func per(n int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

// A tally adds up answers; times are milliseconds.
type tally struct {
	prompt, cached, output int
	ttft, tpot, e2el       []float64
}

// add counts an answer; first says that it is the first one to its prompt.
func (t *tally) add(a *answer, first bool) {
	if first {
		t.prompt += a.usage.Prompt
	}
	t.cached += a.usage.Cached
	t.output += a.usage.Completion
	ms := func(from, to time.Time) float64 { return to.Sub(from).Seconds() * 1000 }
	t.ttft = append(t.ttft, ms(a.times.Queued, a.times.First))
	t.e2el = append(t.e2el, ms(a.times.Queued, a.times.Finished))
	if n := a.usage.Completion - 1; n > 0 {
		t.tpot = append(t.tpot, ms(a.times.First, a.times.Finished)/float64(n))
	}
}

// extend says what the rig knows about a measurement of that many seconds.
func (g *Rig) extend(l *Load, t *tally, seconds float64, preempted uint64) Extension {
	return Extension{
		Workload: Workload{Hash: dataset.Hash(l.Queries), Seed: l.Seed, Temp: l.Temp, Prompts: len(l.Queries), N: l.N, Batches: 1},
		Prompt:   t.prompt, Cached: t.cached, Output: t.output, OutputRate: per(t.output, seconds),
		Preemptions: g.eng.Stats().Preemptions - preempted, Steps: g.meter.read(),
		TTFT: distOf(t.ttft), TPOT: distOf(t.tpot), E2EL: distOf(t.e2el),
	}
}

// percentages are those of Latency (bench.md 3.2).
var percentages = []float64{10, 25, 50, 75, 90, 99}

// summarise computes what follows from the latencies.
func (r *Latency) summarise() {
	sorted := stat.Sorted(r.Latencies)
	r.Mean, r.Std, r.Percentiles = stat.Mean(r.Latencies), stat.Std(r.Latencies), map[string]float64{}
	for _, p := range percentages {
		r.Percentiles[strconv.Itoa(int(p))] = stat.Percentile(sorted, p)
	}
	if i, ok := stat.MeanInterval(r.Latencies, stat.Confidence); ok {
		r.Ossian.Interval = &i
	}
}

// Console is what vllm bench throughput prints (bench.md 3.1).
func (r *Throughput) Console() string {
	return fmt.Sprintf("Throughput: %.2f requests/s, %.2f total tokens/s, %.2f output tokens/s\nTotal num prompt tokens:  %d\nTotal num output tokens:  %d\n",
		r.RequestRate, r.TokenRate, r.Ossian.OutputRate, r.Ossian.Prompt, r.Ossian.Output)
}

// Console is what vllm bench latency prints (bench.md 3.2).
func (r *Latency) Console() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Avg latency: %s seconds\nStd latency: %s seconds\n", shortest(r.Mean), shortest(r.Std))
	for _, p := range percentages {
		name := strconv.Itoa(int(p))
		fmt.Fprintf(&b, "%s%% percentile latency: %s seconds\n", name, shortest(r.Percentiles[name]))
	}
	return b.String()
}

// shortest writes f as Python does: the fewest digits that name it, at least one of them
// behind the point.
func shortest(f float64) string {
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// OssianConsole is the block below that.
func (r *Throughput) OssianConsole() string { return r.Ossian.console() }

// OssianConsole is the block below that.
func (r *Latency) OssianConsole() string {
	s := fmt.Sprintf("Output: %.2f tokens/s\n", r.Ossian.OutputRate)
	if i := r.Ossian.Interval; i != nil {
		s += fmt.Sprintf("Avg latency, 95%% interval: %.6f to %.6f seconds\n", i.Low, i.High)
	}
	return s + r.Ossian.console()
}

func (x *Extension) console() string {
	var b strings.Builder
	s := &x.Steps
	if s.Prefill.Steps > 0 {
		fmt.Fprintf(&b, "Prefill: %.2f prompt tokens/s (%d steps with prompts only)\n", s.Prefill.PromptRate, s.Prefill.Steps)
	}
	if s.Decode.Steps > 0 {
		fmt.Fprintf(&b, "Decode: %.2f output tokens/s (%d steps with answers only)\n", s.Decode.DecodeRate, s.Decode.Steps)
	}
	if s.Mixed.Steps > 0 {
		fmt.Fprintf(&b, "Mixed: %.2f prompt and %.2f output tokens/s (%d steps with both)\n", s.Mixed.PromptRate, s.Mixed.DecodeRate, s.Mixed.Steps)
	}
	for _, d := range []struct {
		name string
		Dist
	}{{"TTFT since submission", x.TTFT}, {"TPOT", x.TPOT}, {"E2EL since submission", x.E2EL}} {
		if d.N > 0 {
			fmt.Fprintf(&b, "%s (ms): mean %.2f, P50 %.2f, P90 %.2f, P99 %.2f, max %.2f\n", d.name, d.Mean, d.Median, d.P90, d.P99, d.Max)
		}
	}
	if x.Cached > 0 {
		fmt.Fprintf(&b, "Prompt tokens found in the prefix cache: %d\n", x.Cached)
	}
	if x.Preemptions > 0 {
		fmt.Fprintf(&b, "Preemptions: %d; KV memory is short: fewer --max-num-seqs or shorter sequences avoid computing twice\n", x.Preemptions)
	}
	x.Environment.console(&b)
	return b.String()
}

func (e *Environment) console(b *strings.Builder) {
	caching := "off"
	if e.PrefixCaching {
		caching = "on"
	}
	fmt.Fprintf(b, "Model: %s, weights %s, KV cache %s, prefix caching %s; at most %d tokens, %d sequences, %d tokens per step\n",
		e.Model, strings.Join(e.DTypes, " "), e.KVCache, caching, e.MaxLen, e.MaxSeqs, e.MaxTokens)
	fmt.Fprintf(b, "Machine: %s, %d cores, %d threads, %s, %s, ossian %s, %s\n", e.Processor, e.Cores, e.Threads, e.Device, e.System, e.Version, e.Go)
}

// WriteFile writes a result as --output-json asks for.
func WriteFile(path string, result any) error {
	text, err := json.MarshalIndent(result, "", "    ")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o666)
}
