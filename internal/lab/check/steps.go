package check

// What is worth doing: effects of what is off, from a prediction where there is one, and the next
// steps that follow. Gains never add up: that of all steps together is one prediction of its own.

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// A Predictor says what changes of the settings would do to a server.
type Predictor interface {
	// Gain predicts the changes together, against the server as it is, for a workload; nil = a usual
	// one. An error says why it cannot: the effect is then unknown.
	Gain(ctx context.Context, server *Server, changes []*Change, workload *Measurement) (Effect, error)
}

// A Step is one thing to do.
type Step struct {
	Name    string `json:"name"`
	Do      string `json:"do,omitempty"` // in words
	Command string `json:"command,omitempty"`
	Effect  Effect `json:"effect"`
}

// leastGain is how many percent the interval of a gain has to lie above (lab.md 6).
const leastGain = 1

// effects fills in what the rows that are off would give, and the steps.
func effects(ctx context.Context, options *Options, s *seen, report *Report) {
	server := s.server()
	var workload *Measurement
	if len(report.Now.Measured) > 0 {
		workload = &report.Now.Measured[len(report.Now.Measured)-1]
	}
	var changes []*Change
	unknown := 0
	for i := range report.Rows {
		row := &report.Rows[i]
		if row.State != Off {
			continue
		}
		row.Effect = predicted(ctx, options.Predictor, server, workload, row.Change)
		if row.Effect.Origin == NotKnown {
			unknown++
		}
		if row.Effect.Origin != NotKnown && row.Effect.Low > leastGain && row.Do != "" {
			report.Steps = append(report.Steps, Step{Name: row.Area + ": " + row.Name, Do: row.Do, Command: row.Command, Effect: row.Effect})
			changes = append(changes, row.Change)
		}
	}
	slices.SortStableFunc(report.Steps, func(a, b Step) int { return cmp.Compare(b.Effect.Percent, a.Effect.Percent) })
	if len(changes) > 1 {
		all := joined(changes)
		if effect := predicted(ctx, options.Predictor, server, workload, all); effect.Origin != NotKnown {
			do, command := s.remedy(all)
			report.Steps = append(report.Steps, Step{Name: "all of them together", Do: do, Command: command, Effect: effect})
		}
	}
	report.StepNote = note(len(report.Steps), unknown)
}

// note is what is said where the steps are few.
func note(steps, unknown int) string {
	switch {
	case steps == 0 && unknown == 0:
		return fmt.Sprintf("nothing worth doing: no gain whose interval lies above %d %% is known", leastGain)
	case steps == 0:
		return fmt.Sprintf("none can be named: what the %d missing optimisations would give is neither measured nor predicted", unknown)
	case unknown > 0:
		return fmt.Sprintf("of %d missing optimisations the effect is unknown", unknown)
	}
	return ""
}

// predicted is the effect of a change.
func predicted(ctx context.Context, predictor Predictor, server *Server, workload *Measurement, change *Change) Effect {
	switch {
	case change == nil:
		return Effect{Origin: NotKnown, Why: "no single flag turns it on"}
	case predictor == nil:
		return Effect{Origin: NotKnown, Why: "not measured, and no prediction for this engine, model and machine"}
	case change.Shell != "":
		return Effect{Origin: NotKnown, Why: "outside what is predicted"}
	}
	effect, err := predictor.Gain(ctx, server, []*Change{change}, workload)
	if err != nil {
		return Effect{Origin: NotKnown, Why: clip(err.Error())}
	}
	effect.Percent, effect.Low, effect.High = digits(effect.Percent, 3), digits(effect.Low, 3), digits(effect.High, 3)
	return effect
}

// joined is all changes in one.
func joined(changes []*Change) *Change {
	all := &Change{Set: map[string]string{}}
	for _, one := range changes {
		for name, value := range one.Set {
			all.Set[name] = value
		}
		all.Remove = append(all.Remove, one.Remove...)
		all.Env = append(all.Env, one.Env...)
	}
	return all
}
