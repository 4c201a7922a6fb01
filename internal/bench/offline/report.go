package offline

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
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

	took time.Duration // becomes Seconds when it is read
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

// distOf is the distribution of milliseconds.
func distOf(ms []float64) Dist {
	sorted := stat.Sorted(ms)
	return Dist{len(sorted), stat.Mean(sorted), stat.Median(sorted), stat.Percentile(sorted, 90), stat.Percentile(sorted, 99), stat.Percentile(sorted, 100)}
}

// per is a count over seconds, 0 where no time has passed.
func per(count int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(count) / seconds
}

// A tally adds up answers; times are milliseconds.
type tally struct {
	prompt, cached, output int
	ttft, tpot, e2el       []float64
}

// add counts an answer; first says that it is the first one to its prompt.
func (t *tally) add(ended *answer, first bool) {
	if first {
		t.prompt += ended.usage.Prompt
	}
	t.cached += ended.usage.Cached
	t.output += ended.usage.Completion
	ms := func(from, to time.Time) float64 { return to.Sub(from).Seconds() * 1000 }
	t.ttft = append(t.ttft, ms(ended.times.Queued, ended.times.First))
	t.e2el = append(t.e2el, ms(ended.times.Queued, ended.times.Finished))
	if gaps := ended.usage.Completion - 1; gaps > 0 {
		t.tpot = append(t.tpot, ms(ended.times.First, ended.times.Finished)/float64(gaps))
	}
}

// extend says what the rig knows about a measurement of that many seconds.
func (g *Rig) extend(load *Load, answers *tally, seconds float64, preempted uint64) Extension {
	return Extension{
		Workload: Workload{Hash: dataset.Hash(load.Queries), Seed: load.Seed, Temp: load.Temp, Prompts: len(load.Queries), N: load.N, Batches: 1},
		Prompt:   answers.prompt, Cached: answers.cached, Output: answers.output, OutputRate: per(answers.output, seconds),
		Preemptions: g.eng.Stats().Preemptions - preempted, Steps: g.meter.read(),
		TTFT: distOf(answers.ttft), TPOT: distOf(answers.tpot), E2EL: distOf(answers.e2el),
	}
}

// percentages are those of Latency (bench.md 3.2).
var percentages = []float64{10, 25, 50, 75, 90, 99}

// summarise computes what follows from the latencies.
func (r *Latency) summarise() {
	sorted := stat.Sorted(r.Latencies)
	r.Mean, r.Std, r.Percentiles = stat.Mean(r.Latencies), stat.Std(r.Latencies), map[string]float64{}
	for _, percentage := range percentages {
		r.Percentiles[strconv.Itoa(int(percentage))] = stat.Percentile(sorted, percentage)
	}
	if interval, ok := stat.MeanInterval(r.Latencies, stat.Confidence); ok {
		r.Ossian.Interval = &interval
	}
}

// Console is what vllm bench throughput prints (bench.md 3.1).
func (r *Throughput) Console() string {
	return fmt.Sprintf("Throughput: %.2f requests/s, %.2f total tokens/s, %.2f output tokens/s\nTotal num prompt tokens:  %d\nTotal num output tokens:  %d\n",
		r.RequestRate, r.TokenRate, r.Ossian.OutputRate, r.Ossian.Prompt, r.Ossian.Output)
}

// Console is what vllm bench latency prints (bench.md 3.2).
func (r *Latency) Console() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Avg latency: %s seconds\nStd latency: %s seconds\n", shortest(r.Mean), shortest(r.Std))
	for _, percentage := range percentages {
		name := strconv.Itoa(int(percentage))
		fmt.Fprintf(&text, "%s%% percentile latency: %s seconds\n", name, shortest(r.Percentiles[name]))
	}
	return text.String()
}

// shortest writes a number as Python does: the fewest digits that name it, at least one of them
// behind the point.
func shortest(number float64) string {
	if size := math.Abs(number); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(number, 'e', -1, 64)
	}
	text := strconv.FormatFloat(number, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// OssianConsole is the block below that.
func (r *Throughput) OssianConsole() string { return r.Ossian.console() }

// OssianConsole is the block below that.
func (r *Latency) OssianConsole() string {
	text := fmt.Sprintf("Output: %.2f tokens/s\n", r.Ossian.OutputRate)
	if i := r.Ossian.Interval; i != nil {
		text += fmt.Sprintf("Avg latency, 95%% interval: %.6f to %.6f seconds\n", i.Low, i.High)
	}
	return text + r.Ossian.console()
}

// console is the block that both tools share; phases without a step are left out.
func (x *Extension) console() string {
	var text strings.Builder
	// Prompts and answers are computed in steps of three kinds, whose rates say different things.
	steps := &x.Steps
	if steps.Prefill.Steps > 0 {
		fmt.Fprintf(&text, "Prefill: %.2f prompt tokens/s (%d steps with prompts only)\n", steps.Prefill.PromptRate, steps.Prefill.Steps)
	}
	if steps.Decode.Steps > 0 {
		fmt.Fprintf(&text, "Decode: %.2f output tokens/s (%d steps with answers only)\n", steps.Decode.DecodeRate, steps.Decode.Steps)
	}
	if steps.Mixed.Steps > 0 {
		fmt.Fprintf(&text, "Mixed: %.2f prompt and %.2f output tokens/s (%d steps with both)\n", steps.Mixed.PromptRate, steps.Mixed.DecodeRate, steps.Mixed.Steps)
	}
	for _, dist := range []struct {
		name string
		Dist
	}{{"TTFT since submission", x.TTFT}, {"TPOT", x.TPOT}, {"E2EL since submission", x.E2EL}} {
		if dist.N > 0 {
			fmt.Fprintf(&text, "%s (ms): mean %.2f, P50 %.2f, P90 %.2f, P99 %.2f, max %.2f\n", dist.name, dist.Mean, dist.Median, dist.P90, dist.P99, dist.Max)
		}
	}
	if x.Cached > 0 {
		fmt.Fprintf(&text, "Prompt tokens found in the prefix cache: %d\n", x.Cached)
	}
	if x.Preemptions > 0 {
		fmt.Fprintf(&text, "Preemptions: %d; KV memory is short: fewer --max-num-seqs or shorter sequences avoid computing twice\n", x.Preemptions)
	}
	x.Environment.console(&text)
	return text.String()
}

// console writes what ran, and on what.
func (e *Environment) console(dst *strings.Builder) {
	caching := "off"
	if e.PrefixCaching {
		caching = "on"
	}
	fmt.Fprintf(dst, "Model: %s, weights %s, KV cache %s, prefix caching %s; at most %d tokens, %d sequences, %d tokens per step\n",
		e.Model, strings.Join(e.DTypes, " "), e.KVCache, caching, e.MaxLen, e.MaxSeqs, e.MaxTokens)
	fmt.Fprintf(dst, "Machine: %s, %d cores, %d threads, %s, %s, ossian %s, %s\n", e.Processor, e.Cores, e.Threads, e.Device, e.System, e.Version, e.Go)
}

// WriteFile writes a result as --output-json asks for, into a folder that it makes.
func WriteFile(path string, result any) error {
	text, err := json.MarshalIndent(result, "", "    ")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o666)
}
