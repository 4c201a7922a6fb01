package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

// smokeShare is the part of the workload that says whether a setting works at all (lab.md 4, item 3).
const smokeShare = 0.05

// Reasons of trials that were cut because the lab itself ended. They are repeated; a run that was cut
// because nothing came any more is an outcome.
const (
	reasonInterrupted = "the lab was interrupted; it is repeated"
	reasonKilled      = "the lab ended during it; it is repeated"
	reasonMachine     = "the lab's own machine failed during it; it is repeated"
)

// secondLook is the repetition of a first run that looked slow.
const secondLook = 2

// slowFactor: what is slower than the best by more is not measured to its end.
const slowFactor = 3

// A shot is a trial that is wanted.
type shot struct {
	setting    ledger.Setting
	workload   planfile.Workload
	role       string
	block      int // that it belongs to; 0: none
	repetition int // 1: again, because the first try failed
	share      float64
	floor      float64 // requests per second; 0: none
}

// outcome is a trial that has ended.
type outcome struct {
	id string
	ledger.Trial
}

// seed is that of the prompts of a block: shared by its trials, and by no other block. A plan that
// names a seed has it in every block.
func (c *chapter) seed(wanted shot) uint64 {
	if wanted.workload.Seed != nil {
		return *wanted.workload.Seed
	}
	// Generators of the published tools take 32 bits.
	return c.draw("prompts", wanted.role, wanted.workload.Name, strconv.Itoa(wanted.block)).Uint64() >> 33
}

// identity asks once what a server of a setting would be.
func (c *chapter) identity(ctx context.Context, setting ledger.Setting) (Identity, error) {
	server := serverOf(setting, c.model)
	if known, is := c.identities[server]; is {
		return known, nil
	}
	identity, err := c.Measurer.Identify(ctx, Request{Engine: c.engineOf(setting), Setting: setting, Model: c.model})
	if err != nil {
		return Identity{}, err
	}
	c.identities[server] = identity
	return identity, nil
}

// engineOf is the engine of a setting as the plan has it.
func (c *campaign) engineOf(setting ledger.Setting) planfile.Engine {
	at := slices.IndexFunc(c.plan.Engines, func(e planfile.Engine) bool { return e.Name == setting.Engine })
	return c.plan.Engines[at]
}

// key is what decides a trial's result, noise apart: what has the same key is not measured again
// (lab.md 3.2).
func (c *chapter) key(ctx context.Context, wanted shot) (string, error) {
	identity, err := c.identity(ctx, wanted.setting)
	if err != nil {
		return "", err
	}
	return digest(identity.Version, strings.Join(identity.Argv, "\x00"), strings.Join(identity.Env, "\x00"), wanted.setting.Engine, c.model,
		c.hashes[wanted.workload.Name], c.Version, c.machine.ID, wanted.role, strconv.FormatUint(c.seed(wanted), 10), strconv.Itoa(wanted.block), strconv.Itoa(wanted.repetition),
		strconv.FormatFloat(wanted.share, 'g', -1, 64), c.plan.Cache), nil
}

// trial measures what is wanted, or finds it in the ledger. Its error is that of ctx, of the ledger, or
// of a machine that cannot keep results: whatever goes wrong with a server is an outcome.
func (c *chapter) trial(ctx context.Context, wanted shot) (outcome, error) {
	key, err := c.key(ctx, wanted)
	if err != nil {
		return outcome{}, err
	}
	if line, ended := c.book.trials[key]; ended && c.stands(line.Trial) {
		c.account(*line.Trial)
		return c.counted(outcome{line.ID, *line.Trial})
	}
	if left, bounded := c.left(); bounded && left == 0 {
		return c.counted(outcome{"", ledger.Trial{Setting: wanted.setting, State: ledger.StateCut, Reason: ReasonBudget}})
	}
	if err := errors.Join(ctx.Err(), c.Measurer.Room()); err != nil {
		return outcome{}, err
	}
	id := fmt.Sprintf("%s-%s", wanted.role, key[:12])
	trial := ledger.Trial{Setting: wanted.setting, Model: c.model, Workload: wanted.workload.Name, Role: wanted.role, Block: wanted.block, Repetition: wanted.repetition,
		Seed: c.seed(wanted), State: ledger.StateBegun, Predicted: c.predicted(wanted)}
	if err := c.book.append(ledger.Line{Kind: ledger.KindTrial, ID: id, Key: key, Trial: &trial}); err != nil {
		return outcome{}, err
	}
	measured, err := c.measure(ctx, wanted, id)
	if _, own := errors.AsType[*MachineError](err); err != nil && !own {
		return outcome{}, err
	}
	failed := err // of this machine, and no finding on the server
	measured.Setting, measured.Model, measured.Workload, measured.Role = trial.Setting, trial.Model, trial.Workload, trial.Role
	measured.Block, measured.Repetition, measured.Seed, measured.Predicted = trial.Block, trial.Repetition, trial.Seed, trial.Predicted
	c.judge(&measured)
	if err := c.book.append(ledger.Line{Kind: ledger.KindTrial, ID: id, Key: key, Trial: &measured}); err != nil {
		return outcome{}, err
	}
	if err := cmp.Or(ctx.Err(), failed); err != nil {
		return outcome{}, err
	}
	c.account(measured)
	c.sayTrial(measured)
	return c.counted(outcome{id, measured})
}

// counted is an outcome with the error that says that the budget ended it.
func (c *chapter) counted(out outcome) (outcome, error) {
	if out.State == ledger.StateCut && out.Reason == ReasonBudget {
		c.exhausted = true
		return out, errBudgetEnded
	}
	return out, nil
}

// predicted is what a trial of the whole workload is expected to give.
func (c *chapter) predicted(wanted shot) map[string]ledger.Interval {
	if c.Predictor == nil || wanted.share < 1 {
		return nil
	}
	return c.Predictor.Predict(c.engineOf(wanted.setting), wanted.setting, c.model, wanted.workload).Metrics
}

// measure has the server of a shot and puts the load on it.
func (c *chapter) measure(ctx context.Context, wanted shot, id string) (ledger.Trial, error) {
	limit, _ := c.left()
	start, err := c.serve(ctx, wanted.setting, limit)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // the start was interrupted: so is the trial, which has begun
		return ledger.Trial{State: ledger.StateCut, Reason: reasonInterrupted}, nil
	}
	if err != nil {
		return ledger.Trial{}, err
	}
	if start != nil && start.State != ledger.StateOK && start.Reason == ReasonBudget {
		return cutByBudget(ledger.Trial{Start: c.startID, Seconds: start.Seconds}, limit), nil
	}
	if start != nil && start.State != ledger.StateOK {
		if err := c.Measurer.Room(); err != nil { // a server that cannot write its files does not start either
			return ledger.Trial{State: ledger.StateCut, Reason: reasonMachine, Start: c.startID}, &MachineError{err}
		}
		return ledger.Trial{State: ledger.StateFailed, Reason: start.Reason, Start: c.startID, Seconds: start.Seconds}, nil
	}
	limit, bounded := c.leftServing(serverOf(wanted.setting, c.model))
	if bounded && limit == 0 { // its start took all
		return cutByBudget(ledger.Trial{Start: c.startID}, 0), nil
	}
	measured, err := c.server.Measure(ctx, Load{ID: id, Workload: wanted.workload, Model: c.model, Seed: c.seed(wanted), Share: wanted.share, Floor: wanted.floor, Cache: c.plan.Cache, Elapsed: c.spent, Limit: limit})
	measured.Start = c.startID
	if measured.State != ledger.StateOK && measured.State != ledger.StateEarly {
		err = cmp.Or(err, c.Measurer.Room()) // what fails on a full disk may have failed for that
	}
	switch {
	case ctx.Err() != nil:
		measured.State, measured.Reason, err = ledger.StateCut, reasonInterrupted, nil
	case err != nil:
		measured.State, measured.Reason, err = ledger.StateCut, reasonMachine, &MachineError{err}
	case measured.State == ledger.StateCut && measured.Reason == ReasonBudget:
		measured = cutByBudget(measured, limit)
	}
	if measured.State == ledger.StateFailed || measured.State == ledger.StateCut {
		c.stopServer() // whatever it has become, the next trial begins with a fresh one
	}
	return measured, err
}

// serve has the server of a setting run, and returns what its start was; nil if it runs already. A start
// that ctx ended says nothing about the engine: it is no line of the ledger, and the error is that of ctx.
// limit is when it is given up; 0: the engine's own limit alone.
func (c *chapter) serve(ctx context.Context, setting ledger.Setting, limit time.Duration) (*ledger.Start, error) {
	server := serverOf(setting, c.model)
	if c.server != nil && c.serving == server {
		return nil, nil
	}
	c.stopServer()
	c.startID = fmt.Sprintf("start-%d", c.book.starts+1)
	running, start := c.Measurer.Start(ctx, Request{Engine: c.engineOf(setting), Setting: setting, Model: c.model, ID: c.startID, Limit: limit})
	if running == nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	start.Setting, start.Model = setting, c.model
	if err := c.book.append(ledger.Line{Kind: ledger.KindStart, ID: c.startID, Start: &start}); err != nil {
		if running != nil {
			running.Stop()
		}
		return nil, err
	}
	if start.State == ledger.StateOK {
		c.server, c.serving = running, server
	}
	return &start, nil
}

func (c *campaign) stopServer() {
	if c.server != nil {
		c.server.Stop()
		c.server, c.serving = nil, ""
	}
}

// lateReading is the finding that the client got to what the kernel had received late. It spoils times
// between tokens, and rates hardly (lab.md 4.4); as a failure it would throw settings out because the
// machine was busy.
const lateReading = "client-bound-reading"

// judge looks at what the campaign wants of a trial: figures that are none are taken out, and a finding
// that touches the objective makes it invalid (lab.md 4.4).
func (c *chapter) judge(trial *ledger.Trial) {
	for name, value := range trial.Metrics {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			delete(trial.Metrics, name)
		}
	}
	if trial.State != ledger.StateOK {
		return
	}
	if share, low := successShare(trial.Metrics); low {
		trial.State, trial.Reason = ledger.StateInvalid, fmt.Sprintf("%.0f %% of the requests succeeded: below 95 %%", 100*share)
		return
	}
	for _, finding := range trial.Findings {
		if finding.Code == lateReading && !planfile.IsTime(c.plan.Objective.Metric) {
			trial.Marks = append(trial.Marks, "late reading: the client read answers late, which delays the requests behind them")
			continue
		}
		if len(finding.Touches) == 0 || slices.Contains(finding.Touches, c.plan.Objective.Metric) {
			trial.State, trial.Reason = ledger.StateInvalid, finding.Text
			return
		}
	}
	if _, there := c.value(*trial); !there {
		trial.State, trial.Reason = ledger.StateInvalid, "it has no "+c.plan.Objective.Metric
	}
}

// successShare is the part of the requests that succeeded, and whether it is too low.
func successShare(metrics map[string]float64) (share float64, low bool) {
	completed, failed := metrics["completed"], metrics["failed"]
	if completed+failed == 0 {
		return 1, false // a measurer that does not count them
	}
	share = completed / (completed + failed)
	return share, share < 0.95
}

// value is the objective of a trial.
func (c *campaign) value(trial ledger.Trial) (float64, bool) {
	value, there := trial.Metrics[c.plan.Objective.Metric]
	if c.plan.Objective.Per == "gpu" && trial.Devices > 1 {
		value /= float64(trial.Devices)
	}
	return value, there && value > 0
}

// account adds a trial to what the budget has been spent on. Starts count by the setting's first good
// one, and only where the setting before was another: so a campaign that was cut, and started servers
// more often, decides as one that was not.
func (c *campaign) account(trial ledger.Trial) {
	server := serverOf(trial.Setting, trial.Model)
	seconds := trial.Seconds
	c.started[server] = c.book.ready[server]
	if server != c.lastUsed {
		seconds += c.book.ready[server]
	}
	c.lastUsed = server
	c.spent += time.Duration(seconds * float64(time.Second))
	c.trials++
	if trial.State == ledger.StateOK {
		seen := c.seen[trial.Workload]
		seen.seconds, seen.tokens = seen.seconds+trial.Seconds, seen.tokens+tokensOf(trial)
		if trial.Block > 0 { // those of no block are of a part of the workload
			seen.trials, seen.whole = seen.trials+1, seen.whole+trial.Seconds
		}
		c.seen[trial.Workload] = seen
	}
	c.marked = c.marked || len(trial.Marks) > 0
}

// attempt is a trial with one more try where the first one failed in a way that may not come again.
// What fails twice is returned with a reason that begins with "unstable".
func (c *chapter) attempt(ctx context.Context, wanted shot) (outcome, error) {
	first, err := c.trial(ctx, wanted)
	if err != nil || first.State == ledger.StateOK || first.State == ledger.StateEarly || lasting(first.Reason) {
		return first, err
	}
	wanted.repetition++
	second, err := c.trial(ctx, wanted)
	if err != nil || second.State == ledger.StateOK || second.State == ledger.StateEarly {
		return second, err
	}
	if second.State != ledger.StateInvalid && first.State != ledger.StateInvalid {
		second.Reason = "unstable: failed twice: " + second.Reason
	}
	return second, nil
}

// lasting reports whether a failure comes again whenever the same is tried.
func lasting(reason string) bool {
	for _, kind := range []string{"start", "out of memory", "never ready", "flag refused", "not supported", "model not found", "no such program"} {
		if reason == kind || strings.HasPrefix(reason, kind+":") {
			return true
		}
	}
	return false
}

// printFigure writes a measured value in about four digits, and never with an exponent.
func printFigure(value float64) string {
	if value >= 1000 || value <= -1000 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return fmt.Sprintf("%.4g", value)
}

// sayTrial writes the line of a trial that has just been measured.
func (c *chapter) sayTrial(trial ledger.Trial) {
	where := trial.Role
	if trial.Block > 0 {
		where += " " + strconv.Itoa(trial.Block)
	}
	what := trial.State
	if value, there := c.value(trial); there && trial.State == ledger.StateOK {
		what = printFigure(value) + " " + c.plan.Objective.Metric
	} else if trial.Reason != "" {
		what += ": " + trial.Reason
	}
	if len(trial.Marks) > 0 {
		what += " (" + strings.Join(trial.Marks, ", ") + ")"
	}
	c.Say(fmt.Sprintf("%3d  %-14s %-12s %s: %s", c.trials, where, trial.Workload, printSetting(trial.Setting), what))
}
