// Package check says which optimisations a running server uses, which it does not, and what that
// costs (lab.md 6). Answers to GET requests, an argument vector, a start log, files of this
// machine and stored results go in; a Report comes out, whose every figure has an origin. Its
// users need not know how seven engines name their metrics, write their logs or spell their flags.
//
// What was not seen is unknown: that a library is installed, or that a version has a default,
// is no evidence that something is in use. Nothing but GET is sent; load is the business of whoever
// fills Options.Measure.
package check

import (
	"cmp"
	"context"
	"slices"

	"ossian/internal/bench"
)

// A State says whether an optimisation is in use.
type State string

// The states (lab.md 6).
const (
	On         State = "on"
	Off        State = "off"
	Impossible State = "not possible here"
	Unknown    State = "unknown"
)

// An Evidence is one thing that was seen, and where.
type Evidence struct {
	Source string `json:"source"` // metric NAME, route PATH, flag, log, file PATH, measured
	Text   string `json:"text"`
}

// Origins of figures and effects. There is no figure without one.
const (
	Measured  = "measured"
	Predicted = "predicted"
	NotKnown  = "unknown"
)

// An Effect is what an optimisation is worth: a change of throughput in percent, with its 95 %
// interval, or unknown.
type Effect struct {
	Origin   string  `json:"origin"` // Measured, Predicted, NotKnown
	Percent  float64 `json:"percent,omitempty"`
	Low      float64 `json:"low,omitempty"`
	High     float64 `json:"high,omitempty"`
	Metric   string  `json:"metric,omitempty"`   // of which the percentage is; by the keys of bench.md 1.8
	Workload string  `json:"workload,omitempty"` // for which it holds
	Why      string  `json:"why,omitempty"`      // it is unknown
}

// A Change is what to do to the start command: flags by name without dashes and their values; an
// empty value is a flag alone, Remove are flags that have to go.
type Change struct {
	Set    map[string]string `json:"set,omitempty"`
	Remove []string          `json:"remove,omitempty"`
	Env    []string          `json:"env,omitempty"`   // variables to be unset
	Shell  string            `json:"shell,omitempty"` // a command by itself, where nothing of the server changes
}

// A Row is an optimisation of the table.
type Row struct {
	Area     string     `json:"area"` // of Areas
	Name     string     `json:"name"`
	State    State      `json:"state"`
	Reason   string     `json:"reason,omitempty"` // of Impossible, or what is lost
	Evidence []Evidence `json:"evidence"`
	Effect   Effect     `json:"effect"`
	Change   *Change    `json:"change,omitempty"`  // what turns it on; nil = nothing that is known
	Do       string     `json:"do,omitempty"`      // the same in words: which flag to add or to drop
	Command  string     `json:"command,omitempty"` // the same, to be typed; empty: it is not known how the server was started
}

// Areas are those of lab.md 6, in the order of the table. Every one has at least one row.
var Areas = []string{
	areaParallel, areaWeights, areaAttention, areaGraphs, areaPrefix, areaBatch, areaSequences,
	areaAsync, areaKV, areaSpeculation, areaSampling, areaStream, areaFront, areaHost,
}

const (
	areaParallel    = "parallelism"
	areaWeights     = "weight type and kernel"
	areaAttention   = "attention backend"
	areaGraphs      = "graphs and compilation"
	areaPrefix      = "prefix cache"
	areaBatch       = "chunked prefill and batch budget"
	areaSequences   = "sequences at once"
	areaAsync       = "asynchronous scheduling"
	areaKV          = "keys and values"
	areaSpeculation = "speculation"
	areaSampling    = "sampling kernel"
	areaStream      = "stream interval"
	areaFront       = "front end"
	areaHost        = "host"
)

// Options say what is looked at.
type Options struct {
	URL    string       // of the server; "" = the usual ports of this machine
	Ports  []int        // instead of DefaultPorts
	Access bench.Access // only sent to a URL that was named
	PID    int          // of the server's process on this machine; 0 = not told
	Start  string       // the command that started it; "" = not told
	Log    string       // file with its start log; "" = none

	Hardware func(*Server) Hardware // what reads the weights; nil = not known. Asked behind Measure
	Compare  []string               // result files
	Root     string                 // of the file system whose /sys and /proc are read; "" = /
	SMI      string                 // the nvidia-smi to ask; "" = that of the path, "-" = none

	Measure   func(context.Context, *Server) (Load, error) // nil = no load is sent
	Bytes     func(*Server) (Reads, error)                 // what a token reads; nil = not known
	Predictor Predictor                                    // nil = effects that were not measured are unknown
}

// A Server is what Measure and Bytes are told of the one that was found.
type Server struct {
	URL, Engine, Version string
	Model, Root          string            // the name in requests, and what it goes back to
	Settings             map[string]string // by the engine's own names, as they were seen
	Local                bool              // on this machine
	Played               *Played           // nil = it computes
	Served               Served
}

// Served is the workload that clients have sent since the server's start, by its counters.
type Served struct {
	AtOnce        int     // requests that run and wait now
	Input, Output float64 // tokens of a request, on average; 0 = none has ended
}

// A Report is everything that was found, in the order of lab.md 6.
type Report struct {
	URL      string     `json:"url"`
	Engine   string     `json:"engine"`
	Version  string     `json:"version,omitempty"`
	Model    string     `json:"model,omitempty"`
	Played   *Played    `json:"played,omitempty"` // what a simulated device plays: this is judged, and not Model
	Known    []Evidence `json:"known_by"`         // how the engine was recognised
	Others   []string   `json:"others,omitempty"`
	Asked    []Asked    `json:"asked"`
	Argv     []string   `json:"argv,omitempty"`
	Now      Now        `json:"now"`
	Roofline Roofline   `json:"roofline"`
	Rows     []Row      `json:"optimisations"`
	Missing  []Row      `json:"missing"`
	System   []Fact     `json:"system"`
	Steps    []Step     `json:"next_steps"`
	StepNote string     `json:"next_steps_note"`
	Stored   []Stored   `json:"stored,omitempty"`
	Notes    []string   `json:"notes,omitempty"`
}

// Run looks at a server and reports. The error says what to change; a server that answers little
// is no error.
func Run(ctx context.Context, options Options) (*Report, error) {
	seen, err := look(ctx, &options)
	if err != nil {
		return nil, err
	}
	server := seen.server()
	report := &Report{URL: seen.url, Engine: seen.engine, Version: seen.version, Model: seen.model, Played: server.Played, Known: seen.knownBy, Others: seen.others,
		Asked: seen.asked, Argv: seen.argv, Notes: seen.notes}
	report.Now = seen.counters()
	if options.Measure != nil {
		load, err := options.Measure(ctx, server)
		if err != nil {
			return nil, err
		}
		report.Now.Measured, report.Now.Differences = load.Measured, load.Differences
	}
	if len(report.Now.Measured) == 0 {
		report.Now.NotMeasured = "not measured: --measure sends load for at most 60 s"
	}
	// The host before the table: its last area sums up what the system says.
	report.System = seen.system(&options)
	report.Roofline = seen.roofline(&options, server, report.Now.Measured)
	report.Rows = seen.rows(report.System)
	for i := range report.Now.Differences {
		report.Now.Differences[i].tell(report.Rows)
	}
	effects(ctx, &options, seen, report)
	for _, row := range report.Rows {
		if row.State == Off {
			report.Missing = append(report.Missing, row)
		}
	}
	if len(report.Missing) > 0 && len(seen.argv)+len(seen.logged) == 0 {
		report.Notes = append(report.Notes, "how the server was started is not known: commands have the flag that changes, and lack the others; --pid or --start tells them")
	}
	if report.Stored, err = stored(options.Compare, seen.model, report.Now.Measured); err != nil {
		return nil, err
	}
	return report, nil
}

// rows are those of the engine, every area with at least one.
func (s *seen) rows(system []Fact) []Row {
	var out []Row
	for _, rule := range rulesOf(s.engine) {
		if row, ok := rule.row(s); ok {
			out = append(out, row)
		}
	}
	out = append(out, hostRows(system)...)
	for _, area := range Areas {
		if !slices.ContainsFunc(out, func(r Row) bool { return r.Area == area }) {
			out = append(out, Row{Area: area, Name: area, State: Unknown, Evidence: []Evidence{{"answers", "nothing that was asked says"}}})
		}
	}
	slices.SortStableFunc(out, func(a, b Row) int {
		return cmp.Compare(slices.Index(Areas, a.Area), slices.Index(Areas, b.Area))
	})
	for i := range out {
		row := &out[i]
		row.Effect = Effect{Origin: NotKnown}
		if row.Change != nil && row.State == Off {
			row.Do, row.Command = s.remedy(row.Change)
		}
	}
	return out
}
