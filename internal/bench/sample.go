// Package bench sends workloads to a server over HTTP and records when what came back.
// It knows no engine: it measures strangers the way it measures us. What the numbers
// mean is package report's; here are only facts.
package bench

import (
	"time"

	"ossian/internal/bench/dataset"
)

// A Profile is the tool whose numbers a run reproduces (bench.md 0).
type Profile uint8

// The profiles.
const (
	VLLM     Profile = iota // current vllm bench serve, Python client
	VLLMRust                // the same with the compiled client
	VLLM011                 // vllm bench serve of autumn 2025
	LMDeploy                // profile_restful_api.py
	SGLang                  // bench_serving.py
	numProfiles
)

// profileNames are the values of --compat.
var profileNames = [numProfiles]string{"vllm", "vllm-rs", "vllm-0.11", "lmdeploy", "sglang"}

// String returns the name that --compat takes.
func (p Profile) String() string { return profileNames[p] }

// Kind says what a chunk had in it; the profiles differ in what they count.
type Kind uint8

// The bits of a Kind.
const (
	Choices   Kind = 1 << iota // a choices array that is not empty, or a token event of Responses
	Text                       // visible text that is not empty
	Reasoning                  // reasoning text that is not empty
	Usage                      // usage
	Done                       // [DONE], or the terminal event of Responses
	Output                     // choices that bring something: text, reasoning, a tool call, or an empty content without a role
)

// A Chunk is one event of a stream.
type Chunk struct {
	At     time.Duration // when the kernel received its end, since the run began; where it does not say, when it was handled
	Lag    int32         // nanoseconds from the kernel's receipt to the handling; -1 = the kernel does not say
	Tokens int16         // tokens in it, where the server says so; -1 = it does not
	Kind   Kind
}

// Counts are the tokens that a server reports for one request; -1 = it does not say.
type Counts struct {
	Prompt, Completion, Cached, Reasoning int
}

// A Sample is what became of one query. Times are since the run began, by the
// monotonic clock.
type Sample struct {
	Index     int           // of the query
	Scheduled time.Duration // when the arrival process wanted it
	Released  time.Duration // when the client took it up
	Sent      time.Duration // just before the request was written, with a free slot (--max-concurrency)
	Done      time.Duration // when nothing more came, or it failed
	Input     int           // tokens, as the workload counts them
	Asked     int           // tokens of output asked for
	Status    int           // of HTTP; 0 = none came
	Chunks    []Chunk
	Counts    Counts
	Text      string // visible text
	Thought   string // reasoning text
	Finish    string // finish_reason; "" = none came
	Err       string // why it failed; "" = it did not
	Session   string `json:",omitempty"` // the conversation that it is a turn of
	Turn      int    `json:",omitempty"` // of the conversation, from 0
}

// OK reports whether s succeeded: status 200 and no error.
func (s *Sample) OK() bool { return s.Err == "" && s.Status == 200 }

// A Probe is one request of the side stream (--probe-request-rate).
type Probe struct {
	Sent, Done time.Duration
	Err        string
}

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
	MultiTurn   *MultiTurn `json:",omitempty"` // nil = queries stand alone
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

// Arrivals is the arrival process (bench.md 1.3).
type Arrivals struct {
	Rate        float64 // requests per second; +Inf = all at once
	Burstiness  float64 // shape of the gamma distribution; 1 = Poisson, +Inf = even gaps
	Concurrency int     // most requests at once; 0 = no bound
	Ramp        Ramp
	Timed       bool // the queries say when they are sent
}

// A Ramp lets the rate rise; Strategy "" = none.
type Ramp struct {
	Strategy   string // linear, exponential
	Start, End float64
}

// A Workload is what a run sends.
type Workload []dataset.Query
