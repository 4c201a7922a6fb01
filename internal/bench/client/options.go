package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/report"
	"ossian/internal/bench/scripted"
)

// Options say what is measured, and how. Defaults returns those of a profile; what is wrong in
// them is named by the flags of `ossian bench serve`, which are vLLM's.
type Options struct {
	// What is measured, and whose rules count.
	Profile       bench.Profile
	Backend       string // "" = openai, of conversations openai-chat; also the names of lmdeploy and sglang
	Dialect       string // what the server is, where servers differ; "" = vllm
	BaseURL       string // of the server
	Endpoint      string // path; "" = what the backend has
	Access        bench.Access
	Local         bool    // the server is in this process: Model is what it serves, its list names it
	Model         string  // in requests; "" = the first that the server lists
	Served        string  // in requests instead of Model
	Tokenizer     string  // "" = that of the model
	Tokens        *Tokens // an open one instead, which stays open
	SkipTokenizer bool    // no tokenizer: token counts are the server's
	Seed          int64   // of prompts and arrivals

	// What is sent, and when.
	Data           Data
	Conversations  Conversations
	MaxLen         int // leave out requests of more tokens, prompt and output together; 0 = none
	Arrivals       bench.Arrivals
	Untimed        bool // a trace is sent at Arrivals.Rate and not at its own times
	ProbeRate      float64
	Shard          *bench.Shard // the part of the run that this client has; nil = all of it
	IgnoreEOS      *bool        // nil = as the profile has it for the data set
	NoStream       bool
	Warmups        int           // requests before a run
	Ready          time.Duration // how long to wait for the server; 0 = do not ask
	LoRA           []string      // names of adapters, one of which each request asks for
	LoRAAssignment string        // random or round-robin
	Sampling       []bench.Member
	Logprobs       *int   // nil = none
	Extra          string // JSON object whose members join the body; "" = none
	TemplateVars   string // JSON object for chat templates that are applied here; "" = none
	IDPrefix       string // of x-request-id; "" = bench- and 8 random digits, bench.NoRequestIDs = none is sent
	Profiler       bool   // the server's runs during the measurement

	// Against a warm cache (bench.md 6, item 6).
	Cache      Cache  // what is done about it; "" = what the others say
	Salt       string // replaces the beginnings of prompts, in every run others; "" = none, RandomSalt = one that nobody had
	ResetCache bool   // the server empties its prefix cache before each run
	FlushCache bool   // the same by sglang's path

	// What is reported.
	Label       string
	Metadata    []bench.Pair
	Metrics     []string // nil = the profile's
	Percentiles []float64
	Goodput     []bench.SLO
	Steady      bench.Steady
	Args        []string // the command line as it is recorded, secrets hidden
	Version     string   // of the measuring program

	// Who listens. Out gets what the profile's tool prints before its report, Log notes; nil =
	// nobody. Watch is called when the clock of a run starts, and what it returns when it stops;
	// Warming counts what comes of requests before that.
	Out, Log io.Writer
	Watch    func(live *bench.Live) (stop func())
	Warming  *bench.Live
}

// Cache says what is done about the server's prefix cache before each run. Workloads that share a
// seed share prefixes, so without it their order changes results (lab.md 4.4).
type Cache string

// The values of Cache.
const (
	CacheReset Cache = "reset" // the server empties it
	CacheSalt  Cache = "salt"  // prompts begin with what no run had before
	CacheCarry Cache = "carry" // nothing: runs find what those before left, as in published sequences
	CacheAuto  Cache = "auto"  // reset where the server can, else salt
)

// ParseCache reads the name of one.
func ParseCache(name string) (Cache, error) {
	if all := []Cache{CacheReset, CacheSalt, CacheCarry, CacheAuto}; slices.Contains(all, Cache(name)) {
		return Cache(name), nil
	}
	return "", fmt.Errorf("%q: want reset, salt, carry, or auto for reset where the server can and else salt", name)
}

// checkCache has Cache and the older options say the same, and the run record it.
func (o *Options) checkCache(setup *bench.Setup) error {
	resets := o.ResetCache || o.FlushCache
	if (o.Cache == CacheSalt && resets) || (o.Cache == CacheReset && o.Salt != "") || ((o.Cache == CacheCarry || o.Cache == CacheAuto) && (resets || o.Salt != "")) {
		return fmt.Errorf("--cache %s: leave out --salt, --reset-prefix-cache and --flush-cache, of which one says otherwise", o.Cache)
	}
	switch {
	case o.Cache == CacheReset && !resets:
		o.ResetCache = true
	case o.Cache == CacheSalt && o.Salt == "":
		o.Salt = RandomSalt
	}
	if o.Salt == RandomSalt {
		o.Salt = fmt.Sprintf("%016x", rand.Uint64())
	}
	switch setup.Cache = string(o.Cache); {
	case o.Cache == CacheAuto: // Connect finds out
		setup.Cache = ""
	case o.Salt != "":
		setup.Cache = string(CacheSalt)
	case o.ResetCache || o.FlushCache:
		setup.Cache = string(CacheReset)
	}
	return nil
}

// RandomSalt stands for a salt that no run had before.
const RandomSalt = "random"

// Defaults returns the options that the tool of a profile has where nothing is given.
func Defaults(profile bench.Profile) Options {
	options := Options{Profile: profile, Data: NewData("random"), Arrivals: bench.Arrivals{Rate: math.Inf(1), Burstiness: 1},
		Conversations: Conversations{Turns: 3}, LoRAAssignment: "random", Percentiles: []float64{99}, Steady: bench.Steady{Threshold: report.SteadyThreshold}}
	switch profile {
	case bench.LMDeploy, bench.SGLang:
		options.Data.Name, options.Seed, options.Warmups = "sharegpt", 1, 1
	case bench.VLLM011:
		options.Ready = 600 * time.Second
	}
	if profile == bench.SGLang {
		options.Data.Random.Output = 1024
	}
	return options
}

// ignoresEOS reports whether answers are to be as long as asked for: plain are the tools that
// are not vLLM's, old those and vLLM before it had answers to random prompts be so.
func (o *Options) ignoresEOS() bool {
	if o.IgnoreEOS != nil {
		return *o.IgnoreEOS
	}
	plain := o.Profile == bench.LMDeploy || o.Profile == bench.SGLang
	timed := strings.HasPrefix(o.Data.Name, "random") || o.Data.Name == "timed_trace"
	return plain || (timed && o.Profile != bench.VLLM011 && !o.Conversations.On)
}

// Timed reports whether the workload says when its requests are sent.
func (o *Options) Timed() bool { return o.Data.Name == "timed_trace" && !o.Untimed }

// setup checks the options and returns what reports say of a run with them, as far as that is
// known before the server is asked.
func (o *Options) setup() (*bench.Setup, error) {
	if all := scripted.Dialects(); o.Dialect != "" && !slices.Contains(all, o.Dialect) {
		return nil, fmt.Errorf("--dialect %q: one of %s expected", o.Dialect, strings.Join(all, ", "))
	}
	backend := "openai"
	if o.Conversations.On {
		backend = "openai-chat"
	}
	setup := &bench.Setup{Profile: o.Profile, Backend: cmp.Or(o.Backend, backend), Steady: o.Steady, Dialect: cmp.Or(o.Dialect, "vllm"), Dataset: o.Data.Name, Label: o.Label, Seed: o.Seed,
		Metadata: o.Metadata, Arrivals: o.Arrivals, Shard: o.Shard, IgnoreEOS: o.ignoresEOS(), Stream: !o.NoStream, Metrics: o.Metrics, Percentiles: o.Percentiles, Goodput: o.Goodput, Args: o.Args}
	setup.Arrivals.Timed = o.Timed()
	// Each option alone, before what follows from several.
	for _, check := range []func() error{o.checkTraffic, o.checkShard, o.checkReport} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	if setup.Metrics == nil {
		setup.Metrics = []string{"ttft", "tpot", "itl"}
		if setup.Profile == bench.VLLMRust {
			setup.Metrics = append(setup.Metrics, "e2el")
		}
	}
	if err := o.checkCache(setup); err != nil {
		return nil, err
	}
	return setup, o.Conversations.setup(setup)
}

// checkTraffic refuses times and numbers of requests that no run can have. Conditions are
// written so that NaN is refused.
func (o *Options) checkTraffic() error {
	arrivals := &o.Arrivals
	if !(arrivals.Rate > 0) {
		return fmt.Errorf("--request-rate %v: want a number above 0, or inf", arrivals.Rate)
	}
	if !(arrivals.Burstiness > 0) {
		return fmt.Errorf("--burstiness %v: want a number above 0, or inf", arrivals.Burstiness)
	}
	if arrivals.Concurrency < 0 {
		return fmt.Errorf("--max-concurrency %d: want a number above 0, or 0 for no bound", arrivals.Concurrency)
	}
	if o.Warmups < 0 || o.Warmups > 1e6 {
		return fmt.Errorf("--num-warmups %d: want 0 to 1000000", o.Warmups)
	}
	if o.Ready < 0 {
		return fmt.Errorf("--ready-check-timeout-sec %v: want 0 to 1e9", o.Ready.Seconds())
	}
	if r := o.ProbeRate; r != 0 && !(r >= 1e-6 && r <= 1e6) {
		return fmt.Errorf("--probe-request-rate %v: want 0 for none, or 1e-6 to 1e6", r)
	}
	// A ramp begins and ends at rates of its own.
	if arrivals.Ramp.Strategy != "" && !math.IsInf(arrivals.Rate, 1) {
		return errors.New("--ramp-up-strategy and --request-rate exclude each other: the ramp has its own rates")
	}
	if text := o.TemplateVars; text != "" && (!json.Valid([]byte(text)) || strings.TrimSpace(text)[0] != '{') {
		return fmt.Errorf("--chat-template-kwargs %q: want a JSON object", text)
	}
	return nil
}

// checkShard refuses what cannot be a part of a run.
func (o *Options) checkShard() error {
	shard := o.Shard
	switch {
	case shard == nil:
		return nil
	case shard.Of < 1 || shard.Index < 0 || shard.Index >= shard.Of:
		return fmt.Errorf("--shard %v: want 0/N to N-1/N", shard)
	case o.Local:
		return errors.New("--shard: each client would start a server of its own; --base-url says where the one of all is")
	case o.Arrivals.Concurrency > 0 && o.Arrivals.Concurrency < shard.Of:
		return fmt.Errorf("--max-concurrency %d: it is of all shards together, want %d for one each", o.Arrivals.Concurrency, shard.Of)
	case o.Salt == RandomSalt, o.Cache == CacheSalt && o.Salt == "", o.Cache == CacheAuto:
		return errors.New("--cache, --salt: shards need the same salt, --salt=TEXT, or --cache reset or carry")
	}
	return nil
}

// known are the metrics that can be selected.
var known = []string{"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"}

// checkReport refuses what cannot be reported.
func (o *Options) checkReport() error {
	for _, name := range o.Metrics {
		if !slices.Contains(known, name) {
			return fmt.Errorf("--percentile-metrics: %q is none of %s", name, strings.Join(known, ", "))
		}
	}
	if t := o.Steady.Threshold; !(t > 0 && t <= 1) || !(o.Steady.Shortest >= 0) {
		return fmt.Errorf("--steady-state-threshold %v, --steady-state-min-window %v: want a share above 0, at most 1, and seconds from 0", t, o.Steady.Shortest)
	}
	return nil
}
