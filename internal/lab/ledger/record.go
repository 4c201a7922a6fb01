// Package ledger keeps what a campaign of the performance lab did: an append-only file of lines, each
// of which holds the digest of the line before it. It is the only source of a report (lab.md 3.2), so
// a figure that is not in it cannot be printed.
package ledger

import (
	"strings"
	"time"
)

// Kind says what a line is about.
type Kind string

const (
	KindCampaign Kind = "campaign" // the plan, once per start of the lab
	KindMachine  Kind = "machine"  // where it ran
	KindStart    Kind = "start"    // an engine was started, or could not be
	KindTrial    Kind = "trial"    // one workload against one setting: a line when it begins, one when it ends
	KindEquality Kind = "equality" // outputs of a setting compared with the baseline's
	KindDecision Kind = "decision" // what was concluded, from which trials, by which rule
	KindNote     Kind = "note"     // what a reader should know: resumed, clock jumped, line dropped
	KindEnd      Kind = "end"      // the campaign is over
)

// Line is one line of the file. Exactly the member that Kind names is set.
type Line struct {
	N    int       `json:"n"`  // from 1, without gaps
	At   time.Time `json:"at"` // UTC, milliseconds
	Kind Kind      `json:"kind"`
	ID   string    `json:"id,omitempty"`  // of a trial, a start, a decision: unique in the ledger but for the two lines of one trial
	Key  string    `json:"key,omitempty"` // of a trial: what has the same key is not measured again
	Prev string    `json:"prev"`          // SHA-256 of the line before, hex, without its line end; empty in the first

	Campaign *Campaign `json:"campaign,omitempty"`
	Machine  *Machine  `json:"machine,omitempty"`
	Start    *Start    `json:"start,omitempty"`
	Trial    *Trial    `json:"trial,omitempty"`
	Equality *Equality `json:"equality,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
	Note     *Note     `json:"note,omitempty"`
	End      *End      `json:"end,omitempty"`
}

// Campaign is what was planned, with every default filled in.
type Campaign struct {
	Name      string            `json:"name"`
	Models    []string          `json:"models"`
	Objective Objective         `json:"objective"`
	Engines   []string          `json:"engines"` // in the plan's order; the first is the baseline where nothing else decides
	Options   []Option          `json:"options,omitempty"`
	Workloads []Workload        `json:"workloads"`
	Rules     map[string]string `json:"rules"`               // method: test, interval, error rates, indifference, in words for the report
	Plan      string            `json:"plan"`                // SHA-256 of the plan as run
	Seed      uint64            `json:"seed"`                // of everything that is drawn
	Simulated bool              `json:"simulated,omitempty"` // every figure comes from a clock, none from a server
	Flags     []string          `json:"flags,omitempty"`     // of the command beside the plan, without which it would measure something else
	Version   string            `json:"version"`             // of Ossian: the client of every trial
	Compared  []Compared        `json:"compared,omitempty"`  // results of others, shown beside ours and never candidates
}

// Compared is a result that was measured elsewhere or before.
type Compared struct {
	Source  string             `json:"source"` // file, and which of its results
	Label   string             `json:"label"`  // what the result says of itself: model, engine, workload
	Metrics map[string]float64 `json:"metrics"`
}

// Objective is what the campaign improves.
type Objective struct {
	Metric   string             `json:"metric"` // a key of bench.md 1.8
	Maximize bool               `json:"maximize"`
	Workload string             `json:"workload"`
	Per      string             `json:"per,omitempty"` // "gpu": divided by the number of devices
	SLA      map[string]float64 `json:"sla,omitempty"` // metric → bound in the metric's unit, "at most" for times, "at least" for rates
}

// Option is one thing that is tried with one engine: every combination of its flags' values is one
// alternative.
type Option struct {
	Engine string              `json:"engine"`
	Name   string              `json:"name"`
	Flags  map[string][]string `json:"flags"`            // flag, without dashes → values; the engine's default is no value here
	Opaque bool                `json:"opaque,omitempty"` // the predictor cannot say what it does: never dropped without measuring
	Lossy  bool                `json:"lossy,omitempty"`  // may change answers and still win
}

// Workload is the load of a trial in words that a client understands.
type Workload struct {
	Name       string            `json:"name"`
	Dataset    string            `json:"dataset"`
	InputLen   int               `json:"input_len,omitempty"`  // tokens; 0 where the data set decides
	OutputLen  int               `json:"output_len,omitempty"` // tokens; 0 where the data set decides
	NumPrompts int               `json:"num_prompts"`
	Rate       float64           `json:"request_rate,omitempty"` // requests per second; 0: all at once
	Concurrent int               `json:"max_concurrency,omitempty"`
	Chat       bool              `json:"chat,omitempty"` // /v1/chat/completions, else /v1/completions
	Extra      map[string]string `json:"extra,omitempty"`
	Hash       string            `json:"hash"` // of the prompts and arrivals at the plan's seed
}

// Machine is where trials ran.
type Machine struct {
	ID           string        `json:"id"` // of this machine's hardware, stable over starts
	CPU          string        `json:"cpu"`
	Processors   int           `json:"processors"`
	MemoryBytes  int64         `json:"memory_bytes"`
	OS           string        `json:"os"`
	Accelerators []Accelerator `json:"accelerators,omitempty"`
	Load         float64       `json:"load"`                     // of the last minute, before anything was started
	Governor     string        `json:"governor,omitempty"`       // empty: cannot be read
	Power        string        `json:"power"`                    // "rapl", "nvidia-smi", both with "and", or "not measured: " and why
	PricePerHour float64       `json:"price_per_hour,omitempty"` // 0: not stated
}

// Accelerator is one kind of card.
type Accelerator struct {
	Name        string `json:"name"`
	Count       int    `json:"count"`
	MemoryBytes int64  `json:"memory_bytes"`
}

// Setting is an engine with flags that differ from its defaults in this campaign.
type Setting struct {
	Engine string            `json:"engine"`
	Flags  map[string]string `json:"flags,omitempty"` // flag → value, without dashes; none: the baseline of the engine
}

// Start is a server started with a setting, or not.
type Start struct {
	Setting Setting  `json:"setting"`
	Model   string   `json:"model"`
	Argv    []string `json:"argv,omitempty"`    // secrets never; none for a URL
	Env     []string `json:"env,omitempty"`     // names and plain values that the plan sets; of secrets only the name
	Version string   `json:"version,omitempty"` // as the engine says it
	State   string   `json:"state"`             // ok, failed
	Reason  string   `json:"reason,omitempty"`  // start, out of memory, never ready, port taken, refused: with the words for the report after a colon
	Exit    *int     `json:"exit,omitempty"`
	Log     string   `json:"log,omitempty"`  // file below the campaign's directory
	Tail    []string `json:"tail,omitempty"` // last lines of the log, at most 20
	Seconds float64  `json:"seconds"`        // until ready, or until it was given up
	Devices int      `json:"devices"`        // how many cards the setting takes; 1 for a CPU
}

// Roles of a trial in the method of lab.md 4.
const (
	RoleEngine      = "engine"      // which engine at its defaults
	RoleSmoke       = "smoke"       // does it start, answer and answer the same
	RoleRace        = "race"        // part of a block
	RoleInteraction = "interaction" // a point of a two-level design
	RoleGeneralise  = "generalise"  // baseline and winner on the other workloads
	RoleProbe       = "probe"       // a load or an estimate before the plan is printed
)

// States of a trial: begun → ok | invalid | failed | cut | stopped early.
const (
	StateBegun   = "begun"
	StateOK      = "ok"
	StateInvalid = "invalid"       // measured, and a finding touches the objective
	StateFailed  = "failed"        // no result: the server died, too few requests succeeded twice
	StateCut     = "cut"           // the lab itself ended, or nothing came any more
	StateEarly   = "stopped early" // so slow that the rest was not worth its time
)

// Trial is one workload against one setting.
type Trial struct {
	Setting    Setting             `json:"setting"`
	Model      string              `json:"model"`
	Workload   string              `json:"workload"`
	Role       string              `json:"role"`
	Block      int                 `json:"block,omitempty"` // from 1; trials of one block share a prompt seed that no other block uses
	Repetition int                 `json:"repetition,omitempty"`
	Seed       uint64              `json:"seed"`
	Start      string              `json:"start,omitempty"` // id of the start it ran against
	State      string              `json:"state"`
	Reason     string              `json:"reason,omitempty"`
	Metrics    map[string]float64  `json:"metrics,omitempty"` // keys of bench.md 1.8
	Findings   []Finding           `json:"findings,omitempty"`
	Predicted  map[string]Interval `json:"predicted,omitempty"` // by metric, made before it was measured
	Result     string              `json:"result,omitempty"`    // file below the campaign's directory
	Command    []string            `json:"command,omitempty"`   // repeats this trial's client against a running server
	Devices    int                 `json:"devices,omitempty"`
	Joules     *float64            `json:"joules,omitempty"` // over the run only; none: not measured
	Seconds    float64             `json:"seconds,omitempty"`
	Marks      []string            `json:"marks,omitempty"` // what happened to the machine meanwhile: load, steal, throttled, gap
}

// Finding is what is wrong with a measurement, and with which of its figures.
type Finding struct {
	Code    string   `json:"code"`
	Text    string   `json:"text"`
	Touches []string `json:"touches,omitempty"` // metrics; none: all
}

// Interval is a value and where it lies with 95 %.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Verdicts on outputs compared by token ids, or by text where ids are not given.
const (
	Identical     = "identical"
	NearTie       = "near tie" // both choices within 0.1 nat where the outputs part
	Different     = "different"
	NotComparable = "not comparable"
)

// Equality compares greedy outputs of a setting with the baseline's.
type Equality struct {
	Setting Setting `json:"setting"`
	Model   string  `json:"model"`
	Against Setting `json:"against"`
	Verdict string  `json:"verdict"`
	Prompts int     `json:"prompts"`
	Same    int     `json:"same"`
	Near    int     `json:"near"`
	Differ  int     `json:"differ"`
	By      string  `json:"by"` // "token ids" or "text"
	Lossy   bool    `json:"lossy,omitempty"`
	File    string  `json:"file,omitempty"`
	Text    string  `json:"text,omitempty"` // where and how the first difference lies
}

// Stages of decisions, in the order of the method.
const (
	StageEngine      = "engine"      // which engine the options are tried with
	StageFit         = "fit"         // what the memory plan drops
	StageScreen      = "screen"      // what the prediction drops
	StageSmoke       = "smoke"       // what does not start, answer, or answer the same
	StageRace        = "race"        // each option against the baseline
	StageService     = "service"     // whether a setting keeps the bounds of the plan
	StageInteraction = "interaction" // effects of pairs, products and joint gains
	StageWinner      = "winner"      // the setting that is recommended
	StageGeneralise  = "generalise"  // the winner on each workload
	StageDrift       = "drift"       // whether absolute values can be compared over time
)

// Verdicts of decisions.
const (
	Kept       = "kept"
	Rejected   = "rejected"
	Dropped    = "dropped" // not measured, with a reason
	NotDecided = "not decided"
	Found      = "found" // an interaction, a drift
	None       = "none"
	Works      = "works" // of a first run: nothing was compared yet
)

// Verdicts on bounds of the plan.
const (
	Met        = "met"         // by all of the interval
	NotMet     = "not met"     // by none of it
	NotCertain = "not certain" // the bound lies within it, or there is none
)

// Bound is an objective of service and what was measured of it.
type Bound struct {
	Metric   string    `json:"metric"`
	Limit    float64   `json:"limit"`              // times at most, rates at least, in the metric's unit
	Measured *Interval `json:"measured,omitempty"` // the mean over runs; none: no run has it; of one run both ends are the value
	Runs     int       `json:"runs"`
	Verdict  string    `json:"verdict"`
}

// Decision is a conclusion with what it rests on.
type Decision struct {
	Stage    string    `json:"stage"`
	Model    string    `json:"model,omitempty"`
	Subject  string    `json:"subject"`           // the option, pair, workload or engine it is about
	Setting  *Setting  `json:"setting,omitempty"` // what was measured for it
	Against  *Setting  `json:"against,omitempty"` // the baseline of Effect
	Workload string    `json:"workload,omitempty"`
	Metric   string    `json:"metric,omitempty"`
	Verdict  string    `json:"verdict"`
	Effect   *Interval `json:"effect,omitempty"`  // relative: 0.031 is 3.1 % more than Against
	Product  *float64  `json:"product,omitempty"` // of an interaction: what the single gains multiply to, relative
	Bounds   []Bound   `json:"bounds,omitempty"`  // of a decision on service
	Trials   []string  `json:"trials,omitempty"`  // ids
	Blocks   int       `json:"blocks,omitempty"`
	Rule     string    `json:"rule"`             // the test and its level, in words
	Reason   string    `json:"reason,omitempty"` // in words, for the table of what was not kept
}

// IsTime reports whether less of a metric is better.
func IsTime(metric string) bool { return strings.HasSuffix(metric, "_ms") || metric == "duration" }

// Gained turns an effect on a metric so that more is better: of a time it is how much less there is. nil
// stays nil.
func Gained(metric string, effect *Interval) *Interval {
	if effect == nil || !IsTime(metric) {
		return effect
	}
	return &Interval{Value: -effect.Value, Low: -effect.High, High: -effect.Low}
}

// Note is something a reader should know that is none of the above.
type Note struct {
	Text string `json:"text"`
}

// End is the last line of a campaign that is over.
type End struct {
	State  string             `json:"state"`            // done, budget, interrupted
	Winner map[string]Setting `json:"winner,omitempty"` // by model
	Exit   int                `json:"exit"`
	Text   string             `json:"text,omitempty"`
}
