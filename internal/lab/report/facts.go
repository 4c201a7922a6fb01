package report

import (
	"maps"
	"math"
	"slices"
	"strings"

	"ossian/internal/lab/ledger"
)

// facts are the lines of a ledger by what they are about. Every figure of a report is computed from
// them, so that the same ledger gives the same bytes (lab.md 8).
type facts struct {
	campaign  ledger.Campaign
	machine   *ledger.Machine
	starts    map[string]ledger.Start // by id
	startIDs  []string                // in the order of the ledger
	trials    []trial                 // that have ended, in the order of the ledger
	open      int                     // trials that began and did not end
	decisions []ledger.Decision
	equality  []ledger.Equality
	notes     []string
	end       *ledger.End
	first     ledger.Line
	last      ledger.Line
}

// A trial is one that has ended, with its id and where it stands in time.
type trial struct {
	id    string
	hours float64 // since the first line
	ledger.Trial
}

// gather sorts the lines of a ledger.
func gather(lines []ledger.Line) *facts {
	f := &facts{starts: map[string]ledger.Start{}}
	begun := map[string]bool{}
	for i, line := range lines {
		if i == 0 {
			f.first = line
		}
		f.last = line
		switch {
		case line.Campaign != nil:
			f.campaign = *line.Campaign
			f.end = nil // the lab went on
		case line.Machine != nil:
			f.machine = line.Machine
		case line.Start != nil:
			f.starts[line.ID] = *line.Start
			f.startIDs = append(f.startIDs, line.ID)
		case line.Trial != nil && line.Trial.State == ledger.StateBegun:
			begun[line.ID] = true
		case line.Trial != nil:
			delete(begun, line.ID)
			f.trials = append(f.trials, trial{line.ID, line.At.Sub(f.first.At).Hours(), *line.Trial})
		case line.Decision != nil:
			f.decide(*line.Decision)
		case line.Equality != nil:
			f.equality = append(f.equality, *line.Equality)
		case line.Note != nil:
			f.notes = append(f.notes, line.Note.Text)
		case line.End != nil:
			f.end = line.End
		}
	}
	f.open = len(begun)
	return f
}

// decide takes a decision in the place of an earlier one on the same question: a campaign that goes on
// decides again, with more trials.
func (f *facts) decide(decision ledger.Decision) {
	for i := range f.decisions {
		if old := &f.decisions[i]; old.Stage == decision.Stage && old.Model == decision.Model && old.Subject == decision.Subject &&
			old.Workload == decision.Workload && same(old.Setting, decision.Setting) {
			*old = decision
			return
		}
	}
	f.decisions = append(f.decisions, decision)
}

// same compares settings; nil is no setting.
func same(a, b *ledger.Setting) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Engine == b.Engine && maps.Equal(a.Flags, b.Flags)
}

// about are the decisions of one stage on one model.
func (f *facts) about(model, stage string) (out []ledger.Decision) {
	for _, decision := range f.decisions {
		if decision.Stage == stage && (decision.Model == model || decision.Model == "") {
			out = append(out, decision)
		}
	}
	return out
}

// of are the trials of one setting of a model that ran their whole workload and fit. A probe of a few
// requests measures another load.
func (f *facts) of(model string, setting ledger.Setting, fits func(*trial) bool) (out []*trial) {
	for i := range f.trials {
		trial := &f.trials[i]
		if trial.Model == model && same(&trial.Setting, &setting) && f.whole(trial) && fits(trial) {
			out = append(out, trial)
		}
	}
	return out
}

// whole reports whether a trial had all requests of its workload, as far as that is known.
func (f *facts) whole(t *trial) bool {
	requests := t.Metrics["completed"] + t.Metrics["failed"]
	for _, load := range f.campaign.Workloads {
		if load.Name == t.Workload && requests > 0 {
			return requests >= 0.9*float64(load.NumPrompts) // data sets may have fewer than asked for
		}
	}
	return true
}

// good reports whether a trial was measured and its figure for a metric can be believed.
func (t *trial) good(metric string) bool {
	if t.State != ledger.StateOK && t.State != ledger.StateInvalid {
		return false
	}
	value, there := t.Metrics[metric]
	if !there || !(value > 0) {
		return false
	}
	return !slices.ContainsFunc(t.Findings, func(finding ledger.Finding) bool {
		return len(finding.Touches) == 0 || slices.Contains(finding.Touches, metric)
	})
}

// A pairing is a setting against another on one workload, over the blocks that both have.
type pairing struct {
	before, after map[string]float64 // geometric means, by metric; missing: not measured
	trials        map[string]int     // pairs behind each
	behind        []*trial           // the trials behind the objective, in the order of their blocks
	beforeRun     *trial             // the one in the middle, by the objective
	afterRun      *trial
}

// pair computes the means of both settings over blocks in which both have a figure. A ratio of geometric
// means is the mean ratio of the blocks, so that table and interval speak of the same quantity.
func (f *facts) pair(model, workload string, before, after ledger.Setting, counts func(*trial) bool) pairing {
	out := pairing{before: map[string]float64{}, after: map[string]float64{}, trials: map[string]int{}}
	fits := func(t *trial) bool { return t.Workload == workload && counts(t) }
	old, fresh := f.of(model, before, fits), f.of(model, after, fits)
	metrics := map[string]bool{}
	for _, t := range old {
		for metric := range t.Metrics {
			metrics[metric] = true
		}
	}
	for _, metric := range slices.Sorted(maps.Keys(metrics)) {
		var first, second float64
		count := 0
		for _, a := range old {
			for _, b := range fresh {
				if a.Block == b.Block && a.good(metric) && b.good(metric) {
					first, second, count = first+math.Log(f.value(a, metric)), second+math.Log(f.value(b, metric)), count+1
					if metric == f.campaign.Objective.Metric {
						out.behind = append(out.behind, a)
						if a.id != b.id {
							out.behind = append(out.behind, b)
						}
					}
					break
				}
			}
		}
		if count > 0 {
			out.before[metric], out.after[metric] = math.Exp(first/float64(count)), math.Exp(second/float64(count))
			out.trials[metric] = count
		}
	}
	out.beforeRun, out.afterRun = f.middle(old), f.middle(fresh)
	return out
}

// value is a metric of a trial as the plan compares it: rates per device where it says so.
func (f *facts) value(t *trial, metric string) float64 {
	value := t.Metrics[metric]
	if f.perDevice(metric) && t.Devices > 1 {
		value /= float64(t.Devices)
	}
	return value
}

func (f *facts) perDevice(metric string) bool {
	return f.campaign.Objective.Per == "gpu" && strings.HasSuffix(metric, "_throughput")
}

// middle is the trial whose objective is the median: it stands for the others where one is shown.
func (f *facts) middle(trials []*trial) *trial {
	metric := f.campaign.Objective.Metric
	var fit []*trial
	for _, t := range trials {
		if t.good(metric) {
			fit = append(fit, t)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	slices.SortStableFunc(fit, func(a, b *trial) int {
		if a.Metrics[metric] < b.Metrics[metric] {
			return -1
		} else if a.Metrics[metric] > b.Metrics[metric] {
			return 1
		}
		return strings.Compare(a.id, b.id)
	})
	return fit[len(fit)/2]
}

// started is the start that shows best how a setting is served: the last one that was ready, else the
// last one.
func (f *facts) started(model string, setting ledger.Setting) (ledger.Start, bool) {
	var found ledger.Start
	has := false
	for _, id := range f.startIDs {
		start := f.starts[id]
		if start.Model == model && same(&start.Setting, &setting) && (!has || start.State == ledger.StateOK || found.State != ledger.StateOK) {
			found, has = start, true
		}
	}
	return found, has
}

// winner is the setting that is recommended for a model, and the decision that says so.
func (f *facts) winner(model string) (ledger.Setting, *ledger.Decision) {
	decisions := f.about(model, ledger.StageWinner)
	if len(decisions) == 0 || decisions[len(decisions)-1].Setting == nil {
		return ledger.Setting{}, nil
	}
	last := decisions[len(decisions)-1]
	return *last.Setting, &last
}

// engine is the one that options were tried with: the one of the decision on engines that was kept, else
// that of the options, else the first.
func (f *facts) engine(model string) string {
	for _, decision := range f.about(model, ledger.StageEngine) {
		if decision.Verdict == ledger.Kept && decision.Setting != nil {
			return decision.Setting.Engine
		}
	}
	if winner, decision := f.winner(model); decision != nil {
		return winner.Engine
	}
	if len(f.campaign.Options) > 0 {
		return f.campaign.Options[0].Engine
	}
	if len(f.campaign.Engines) > 0 {
		return f.campaign.Engines[0]
	}
	return ""
}
