// Package bench sends workloads to a server over HTTP and records when what came back.
// It knows no engine: it measures strangers the way it measures us. What the numbers
// mean is package report's; here are only facts.
package bench

import "time"

// A Client is what measuring cost the measuring process.
type Client struct {
	CPU      time.Duration // user and system time of the process during the run
	MaxPause time.Duration // longest stop of the garbage collector
	Threads  int           // GOMAXPROCS, without what a run adds for goroutines that sleep in the kernel
	Kernel   bool          // times of receipt come from the kernel
	Shared   bool          // the server runs in the same process: CPU is of both
}

// A Recording is a run: everything that its numbers are computed from. The same
// recording gives the same numbers for ever.
type Recording struct {
	Setup     Setup
	Began     time.Time // wall clock
	Duration  time.Duration
	Samples   []Sample // in the order of the queries
	Queries   int      // of the workload; Samples lacks those that were not sent; 0 = not known
	Cut       bool     // the run was ended before all was sent and answered
	Probes    []Probe
	RateSteps []RateStep         // of a ramp
	Before    map[string]float64 // counters of GET /metrics, by series; nil = none
	After     map[string]float64
	Client    Client

	Skipped      int   // broken lines of the log that this was read from
	FirstSkipped error // which of them was the first, and what is wrong with it
	Interrupted  bool  // read from a log without an end: what that says, After and most of Client, is not known
}

// A RateStep says when a ramp reached a new whole number of requests per second.
type RateStep struct {
	Rate int
	At   time.Time
}

// A Setup is what a run was asked to do, as far as reports name it.
type Setup struct {
	Profile     Profile
	Backend     string // openai, openai-chat, openai-responses, or the name that a profile uses
	Dialect     string // vllm, sglang, llama.cpp, ollama, tensorrt-llm, ossian
	URL         string // the endpoint
	Model       string // in the body
	ModelID     string // in reports
	Tokenizer   string // name; "" = none: tokens that the server does not count are unknown
	Dataset     string
	Hash        string // of the workload: first 16 hex digits of SHA-256 over its queries as JSON lines
	Repeats     int    // queries whose prompt an earlier query had
	Label       string
	Metadata    []Pair
	Seed        int64
	Arrivals    Arrivals
	Salt        string     `json:",omitempty"` // what prompts were changed with; Hash and Repeats are of those before that
	Cache       string     `json:",omitempty"` // what was done about the server's prefix cache before the run: reset, salt, carry; "" = nothing was asked for
	MultiTurn   *MultiTurn `json:",omitempty"` // nil = queries stand alone
	Shard       *Shard     `json:",omitempty"` // nil = one client sends all
	Steady      Steady
	IgnoreEOS   bool
	Stream      bool
	Percentiles []float64 // of --metric-percentiles
	Metrics     []string  // of --percentile-metrics
	Goodput     []SLO
	Args        []string          // the command line, secrets hidden
	Environment map[string]string `json:",omitempty"` // machines and versions, as far as known
}

// A Pair is one of --metadata.
type Pair struct{ Key, Value string }

// An SLO is one of --goodput: metric is ttft, tpot or e2el.
type SLO struct {
	Metric string
	Limit  time.Duration
}

// Steady says which part of a run counts as steady (bench.md 1.10).
type Steady struct {
	Off       bool
	Threshold float64 // share of the concurrency; 0 = 0.95
	Shortest  float64 // seconds below which there is a warning; 0 = 10 or a tenth of the run, the longer
}
