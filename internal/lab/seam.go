// Package lab carries out campaigns: which engine, which options and which of their combinations serve
// a model best, decided from measurements that are kept in a ledger (lab.md 4). A campaign is a
// function of its plan, its seed and the lines of its ledger: whoever runs it again over the same lines
// comes to the same decisions, which is also how one that was cut goes on.
//
// What measures is behind Measurer: processes and the client of ossian bench (package measure), or a
// clock with planted noise and effects (package simulate). This package starts no process, opens no
// connection and reads no clock but the one it is given.
package lab

import (
	"context"
	"time"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

// Measurer has servers, and says where and with what they would run. One campaign uses it, one call at
// a time.
type Measurer interface {
	// Machine describes where servers run, before any is started.
	Machine(ctx context.Context) (ledger.Machine, error)
	// Identify says what a server of a setting would be without starting it: what goes into the keys of
	// its trials. An engine whose program is missing has an empty version; Start says so.
	Identify(ctx context.Context, request Request) (Identity, error)
	// Hash is that of a workload's prompts and arrivals at a seed.
	Hash(ctx context.Context, workload planfile.Workload, model string, seed uint64) (string, error)
	// Start starts a server and waits until it answers. If the state of what it returns is not "ok"
	// there is no server, and nothing of it is left.
	Start(ctx context.Context, request Request) (Server, ledger.Start)
	// Room returns an error if the files of one more trial could not be kept.
	Room() error
}

// Tidier is a Measurer of which servers may outlive a lab that was killed. Tidy ends those of an earlier
// run in the campaign's directory. It is called once, behind the lock of the ledger: before that they
// may be servers of a campaign that runs.
type Tidier interface{ Tidy() }

// Server is one that runs: ready → stopped.
type Server interface {
	// Measure puts a load on the server and returns what was found: state, reason, metrics, findings,
	// files, energy, seconds and marks of a trial. It returns early, with state cut, if ctx ends. An error
	// is a fault of this machine, such as a full disk: it says nothing of the server.
	Measure(ctx context.Context, load Load) (ledger.Trial, error)
	// Answers returns greedy answers, of so many tokens at most, to fixed prompts: the same ones of
	// every server.
	Answers(ctx context.Context, prompts, tokens int) ([]Answer, error)
	// Stop ends the server and all that it started, and waits until its port is free.
	Stop()
}

// Predictor says what a measurement would give. What it does not know it says: nothing is dropped for
// that.
type Predictor interface {
	Predict(engine planfile.Engine, setting ledger.Setting, model string, workload planfile.Workload) Prediction
}

// Prediction is what is known of a setting before it is measured.
type Prediction struct {
	Metrics map[string]ledger.Interval // by key of bench.md 1.8; none: nothing is known
	Misfit  string                     // why it cannot run on this machine; empty: it can, or nobody knows
}

// ReasonBudget is why a start failed, or a run was cut, that took longer than its limit.
const ReasonBudget = "budget ended"

// Request is a server that is wanted.
type Request struct {
	Engine  planfile.Engine
	Setting ledger.Setting
	Model   string
	ID      string        // of the start: names its log
	Limit   time.Duration // until the start is given up with ReasonBudget; 0: the engine's own limit alone
}

// Identity is what decides what a server does, but for the machine.
type Identity struct {
	Version string   // of the engine, as it says
	Argv    []string // without the port; none for a URL
	Env     []string // names and values that the plan sets; of secrets only the name
}

// Load is what a server has to bear in a trial.
type Load struct {
	ID       string // of the trial: names its files
	Workload planfile.Workload
	Model    string
	Seed     uint64        // of prompts and arrivals
	Share    float64       // of the workload's requests; 1: all
	Floor    float64       // requests per second; a run that is slower after a tenth of its requests ends there; 0: none
	Cache    string        // planfile.CacheReset and its like
	Elapsed  time.Duration // of the campaign before this trial, measuring alone
	Limit    time.Duration // until the run is cut with ReasonBudget; 0: none
}

// Answer is what a server said to one prompt.
type Answer struct {
	Tokens []Token `json:"tokens,omitempty"` // none: the server names no tokens
	Text   string  `json:"text"`
}

// Token is one of an answer, with what else might have stood there.
type Token struct {
	ID   int                `json:"id"` // -1: only its text is known
	Text string             `json:"text,omitempty"`
	Top  map[string]float64 `json:"top,omitempty"` // natural log probabilities by Text, or by ID in decimal where texts are not given
}
