// Package planfile reads PLAN.yaml, the plan of a campaign: which engines, options and workloads, to
// which end, and how long (lab.md 3.1). What it returns is checked and complete: every default is
// filled in, every name that is used is defined, and whoever works with a Plan asks nothing again.
package planfile

import "time"

// Plan is a campaign before it begins.
type Plan struct {
	Name        string
	Models      []string // one chapter of the report each
	Objective   Objective
	Budget      Budget
	Machine     Machine
	Engines     []Engine // in the file's order; the first is the baseline where nothing else decides
	Options     []Option
	Workloads   []Workload // those of the plan, then those that Generalise names and the plan does not have
	Generalise  []string   // workloads that baseline and winner run at the end
	Equality    Equality
	Compare     []string // result files and ledgers that become columns, never candidates
	CompareLine int      // in the file, for errors
	Cache       string   // CacheReset, CacheSalt or CacheCarry
	Seed        uint64   // of prompts, orders and noise
}

// How trials are kept from finding the prompts of earlier ones in the server's prefix cache.
const (
	CacheReset = "reset" // the server is told to forget, where it can be; else prompts are salted
	CacheSalt  = "salt"  // every prompt begins with tokens of this trial alone
	CacheCarry = "carry" // nothing is done, as published sequences have it
)

// Objective is what the campaign improves.
type Objective struct {
	Metric   string             // a key of bench.md 1.8
	Maximize bool               // else it is minimised
	On       string             // a workload
	Per      string             // "gpu": divided by the number of devices; or empty
	SLA      map[string]float64 // metric → bound: at most for times (ms), at least for rates
}

// Budget ends a campaign that is not decided.
type Budget struct {
	Time   time.Duration // of measuring; 0: none
	Trials int           // 0: none
}

// Machine is what the lab cannot find out by itself.
type Machine struct {
	PricePerHour float64 // 0: not stated
	Power        string  // "auto", "rapl", "nvml", "off"
}

// Engine is how a server is had. Exactly one of Start, Container and URL is set.
type Engine struct {
	Name         string
	Kind         string            // a built-in description: ossian, vllm, sglang, tensorrt-llm, llama.cpp, ollama; or "other"
	Start        []string          // argument vector with {model}, {port}, {flags}, {host} and {devices} in it
	Shell        bool              // Start is one text for sh -c
	Container    *Container        // instead of Start
	URL          string            // a server that runs already: no option can be tried
	KeyEnv       string            // variable of the environment with the key for URL; its value is never written
	Version      []string          // argument vector that prints the version; none: asked over HTTP
	Ready        string            // path that answers 200 when requests would be answered
	ReadyTimeout time.Duration     //
	Dialect      string            // how flags are written, by a Kind's name
	FlagsInEnv   bool              // its flags are variables of the environment, so that {flags} is not needed
	Env          map[string]string // added to the environment of the server
	SecretEnv    []string          // variables handed on from this environment, whose values are never written
	Flags        map[string]string // part of every setting of this engine, the baseline's too
	Devices      int               // cards that a setting takes unless a flag of parallelism says otherwise; 0: asked of the engine's description
	Line         int               // in the file, for errors
}

// Container is a server in a container of docker or podman.
type Container struct {
	Image   string
	Args    []string // of the image's entry point, with the same words in braces as Start
	Options []string // of the runtime's run command: --gpus all
	Runtime string   // docker or podman
}

// Option is something to try with an engine: every combination of its flags' values, one alternative
// each, against the engine without them.
type Option struct {
	Engine string
	Name   string
	Flags  []Flag
	Unless *Condition // alternatives left out
	Lossy  bool       // answers may change
	Opaque bool       // a prediction says nothing about it
	Line   int
}

// Flag is one flag and what it may be.
type Flag struct {
	Name   string   // without dashes
	Values []string // "true" and "false" are written as the dialect writes switches
}

// Condition compares a flag of a setting with a value: flags.NAME == VALUE or flags.NAME != VALUE.
type Condition struct {
	Flag  string
	Equal bool
	Value string
}

// Workload is one load.
type Workload struct {
	Name           string
	Dataset        string // random, sharegpt, custom, prefix_repetition, sonnet: a name of bench.md 2
	Path           string
	InputLen       int // tokens; 0 where the data set decides
	OutputLen      int
	NumPrompts     int
	RangeRatio     float64
	RequestRate    float64 // per second; 0: all at once
	MaxConcurrency int     // 0: no bound
	Seed           *uint64 // none: the seed of the block
	Endpoint       string  // "chat" or "completions"
	IgnoreEOS      *bool   // none: as the profile has it
	Extra          map[string]any
	Line           int
}

// Equality is how outputs are compared with the baseline's before a setting can win.
type Equality struct {
	Prompts int // 0: not compared
	Tokens  int // of each answer
}
