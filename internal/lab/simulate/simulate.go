// Package simulate stands in for servers: a clock with planted noise, drift, effects and failures. It is
// what `lab run --simulate` measures with, to say what a plan would cost and decide, and what the error
// rates of the method are tested with (lab.md 2, 4). Whatever it gives is a function of the world, the
// seed and what is asked, never of what was asked before: a campaign that was cut and goes on sees what
// one that was not cut would have seen.
package simulate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"ossian/internal/lab"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

// World is what is true of servers that are not there.
type World struct {
	Rate    float64                  // tokens per second, input and output, of an engine at its defaults where nobody predicts it
	Noise   float64                  // standard deviation of the logarithm of a run's rate
	Drift   Drift                    // of the machine
	Effects map[string]float64       // FLAG=VALUE → what it changes the rate by: 0.05 is 5 % more
	Joint   []Joint                  // combinations whose effect is not the product of their parts'
	Starts  map[string]time.Duration // FLAG=VALUE → what it adds to the time until a server is ready
	Engines map[string]Engine
	Failing []Failing
	Changed []string // FLAG=VALUE, or several in a text that do it together, that change answers
	Near    []string // FLAG=VALUE that change answers where two tokens are about as likely
	Seed    uint64   // of the noise
}

// Drift is a change of the machine's speed that is even over time, and stays at its end.
type Drift struct {
	Change float64       // -0.1: 10 % slower at the end
	Over   time.Duration // of measuring
}

// Joint is what several flags do together.
type Joint struct {
	Flags  []string // FLAG=VALUE
	Effect float64  // of all of them over none, in place of the product
}

// Engine is one kind of server.
type Engine struct {
	Factor  float64       // of World.Rate; 0: 1
	Start   time.Duration // until it is ready; 0: 1 s
	Version string        // as it says
	Fails   string        // why it does not start, in the words of the ledger; empty: it does
	Tail    []string      // of its log then
}

// Failing is a setting that does not start or not always end well.
type Failing struct {
	Flags  []string // FLAG=VALUE; none: every setting
	Reason string   // "out of memory: …", "start: …"; of runs that fail any
	Share  float64  // of the runs that fail; 0: it does not start
}

// A Measurer measures a world. Figures come from the predictor, where there is one, times what the world
// says.
type Measurer struct {
	World     World
	Predictor lab.Predictor
	Place     string        // name of the machine that is simulated; empty: none in particular
	clock     time.Duration // since the campaign began, idle time apart
}

// Now is the time of this world, which begins with the year 1970.
func (m *Measurer) Now() time.Time { return time.Unix(0, 0).UTC().Add(m.clock) }

// Machine implements lab.Measurer.
func (m *Measurer) Machine(context.Context) (ledger.Machine, error) {
	name := strings.TrimSpace("simulated " + m.Place) // what another machine gave is measured again
	return ledger.Machine{ID: name, CPU: name, Processors: 1, OS: "none", Power: "not measured"}, nil
}

// Assume gives an engine a version if the world says none, and reports whether it did.
func (m *Measurer) Assume(engine, version string) bool {
	known := m.World.Engines[engine]
	if known.Version != "" {
		return false
	}
	known.Version = version
	if m.World.Engines == nil {
		m.World.Engines = map[string]Engine{}
	}
	m.World.Engines[engine] = known
	return true
}

// Identify implements lab.Measurer.
func (m *Measurer) Identify(_ context.Context, request lab.Request) (lab.Identity, error) {
	return lab.Identity{Version: m.version(request), Argv: argv(request)}, nil
}

// version is what a server says of itself.
func (m *Measurer) version(request lab.Request) string {
	return cmp.Or(m.World.Engines[request.Engine.Name].Version, "simulated")
}

func argv(request lab.Request) []string {
	out := []string{request.Engine.Name, "serve", request.Model}
	for _, word := range words(request.Setting) {
		out = append(out, "--"+word)
	}
	return out
}

// words are a setting's flags as FLAG=VALUE, sorted.
func words(setting ledger.Setting) []string {
	var out []string
	for _, flag := range slices.Sorted(maps.Keys(setting.Flags)) {
		out = append(out, flag+"="+setting.Flags[flag])
	}
	return out
}

// Hash implements lab.Measurer.
func (m *Measurer) Hash(_ context.Context, workload planfile.Workload, _ string, seed uint64) (string, error) {
	workload.Line = 0
	sum := sha256.Sum256(fmt.Append(nil, seed, workload.Name, workload.Dataset, workload.Path, workload.InputLen, workload.OutputLen, workload.NumPrompts,
		workload.RangeRatio, workload.RequestRate, workload.MaxConcurrency, workload.Endpoint))
	return fmt.Sprintf("%x", sum[:8]), nil
}

// Room implements lab.Measurer: nothing is written.
func (m *Measurer) Room() error { return nil }

// Start implements lab.Measurer.
func (m *Measurer) Start(ctx context.Context, request lab.Request) (lab.Server, ledger.Start) {
	engine := m.World.Engines[request.Engine.Name]
	seconds := 1.0
	if engine.Start > 0 {
		seconds = engine.Start.Seconds()
	}
	for _, word := range words(request.Setting) {
		seconds += m.World.Starts[word].Seconds()
	}
	start := ledger.Start{Argv: argv(request), Version: m.version(request), State: ledger.StateOK, Seconds: seconds, Devices: max(1, request.Engine.Devices)}
	if request.Limit > 0 && seconds > request.Limit.Seconds() {
		start.State, start.Reason, start.Seconds = ledger.StateFailed, lab.ReasonBudget, request.Limit.Seconds()
		m.pass(start.Seconds)
		return nil, start
	}
	m.pass(seconds)
	reason, tail := engine.Fails, engine.Tail
	for _, failing := range m.World.Failing {
		if failing.Share == 0 && has(request.Setting, failing.Flags) {
			reason, tail = failing.Reason, []string{failing.Reason}
		}
	}
	if misfit := m.misfit(request); reason == "" && misfit != "" {
		reason, tail = "out of memory: "+misfit, []string{misfit}
	}
	if reason != "" || ctx.Err() != nil {
		start.State, start.Reason, start.Tail = ledger.StateFailed, reason, tail
		return nil, start
	}
	return &server{m, request}, start
}

func (m *Measurer) pass(seconds float64) { m.clock += time.Duration(seconds * float64(time.Second)) }

// has reports whether a setting has all of some flags.
func has(setting ledger.Setting, flags []string) bool {
	for _, word := range flags {
		flag, value, _ := strings.Cut(word, "=")
		if set, is := setting.Flags[flag]; !is || set != value {
			return false
		}
	}
	return true
}

// server is one that is not there.
type server struct {
	*Measurer
	lab.Request
}

// Stop implements lab.Server.
func (s *server) Stop() {}

// Measure implements lab.Server.
func (s *server) Measure(ctx context.Context, load lab.Load) (ledger.Trial, error) {
	if ctx.Err() != nil {
		return ledger.Trial{State: ledger.StateCut}, nil
	}
	// Noise is that of this trial, whoever was measured before it.
	dice := s.dice("noise", load.ID)
	workload := load.Workload
	requests := float64(workload.NumPrompts)
	if load.Share < 1 {
		requests = math.Ceil(requests * load.Share)
	}
	workload.NumPrompts = int(requests)
	metrics := s.figures(workload, s.speed(load.Elapsed)*math.Exp(s.World.Noise*dice.NormFloat64()))
	trial := ledger.Trial{State: ledger.StateOK, Devices: max(1, s.Engine.Devices), Metrics: metrics, Seconds: metrics["duration"]}
	for _, failing := range s.World.Failing {
		if failing.Share > 0 && has(s.Setting, failing.Flags) && dice.Float64() < failing.Share {
			trial = ledger.Trial{State: ledger.StateFailed, Reason: failing.Reason, Seconds: metrics["duration"] / 2}
		}
	}
	if trial.State == ledger.StateOK && metrics["request_throughput"] < load.Floor {
		trial.State = ledger.StateEarly
		trial.Reason = fmt.Sprintf("%.3g requests/s after a tenth of them, %.3g wanted", metrics["request_throughput"], load.Floor)
		trial.Seconds /= 10
	}
	if load.Limit > 0 && trial.Seconds > load.Limit.Seconds() {
		trial = ledger.Trial{State: ledger.StateCut, Reason: lab.ReasonBudget, Devices: trial.Devices, Seconds: load.Limit.Seconds()}
	}
	s.pass(trial.Seconds)
	return trial, nil
}

// dice is a generator of one purpose.
func (m *Measurer) dice(purpose ...string) *rand.Rand {
	sum := sha256.Sum256([]byte(strconv.FormatUint(m.World.Seed, 10) + "\x00" + strings.Join(purpose, "\x00")))
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])))
}

// Answers implements lab.Server: ids that depend on the prompt alone, but for flags that are said to
// change them.
func (s *server) Answers(ctx context.Context, prompts, tokens int) ([]lab.Answer, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	among := func(list []string) bool {
		return slices.ContainsFunc(list, func(words string) bool { return has(s.Setting, strings.Fields(words)) })
	}
	changed, near := among(s.World.Changed), among(s.World.Near)
	out := make([]lab.Answer, prompts)
	for prompt := range out {
		dice := s.dice("answer", s.Model, strconv.Itoa(prompt))
		for place := range tokens {
			id := dice.IntN(50000)
			token := lab.Token{ID: id, Top: map[string]float64{strconv.Itoa(id): -0.7, strconv.Itoa(id + 1): -0.75}}
			if changed {
				token.Top[strconv.Itoa(id+1)] = -4
			}
			if (changed || near) && prompt == 0 && place == tokens-1 {
				token.ID++
			}
			out[prompt].Tokens = append(out[prompt].Tokens, token)
			out[prompt].Text += strconv.Itoa(token.ID) + " "
		}
	}
	return out, nil
}
