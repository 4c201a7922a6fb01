package size

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ossian/internal/lab/predict"
)

// An answer is what a preset comes to under an assumption about a machine that nobody measured.
type answer struct {
	given  string // the assumption, as a part of a sentence
	chosen string // the choice in short; empty: it cannot be predicted so
	used   bool   // it is the one that the choice rests on
}

// Depends says in one sentence what a choice on a machine without a calibration rests on, and what would
// change it: what the same preset comes to if kernels only had to do what the machine offers, and if they
// reached the shares that they reach on each machine with a calibration of the engine. lender is the one
// whose calibration the choice rests on; empty: the bound.
func Depends(ctx context.Context, wish Wish, choice *Choice, lender string) (string, error) {
	name := wish.Machine.Machine.Name
	answers := []answer{{given: "kernels at what the machine offers and a host that takes no time", used: lender == ""}}
	calibrations := []*predict.Calibration{nil}
	for _, c := range predict.ShippedElsewhere(name, wish.Engine.Name, wish.Engine.Version) {
		answers = append(answers, answer{given: "the shares and the host of " + c.Machine, used: lender == c.Machine})
		calibrations = append(calibrations, c.Lent(name))
	}
	if lender != "" && !slices.ContainsFunc(answers, func(a answer) bool { return a.used }) { // from a file
		answers = append(answers, answer{given: "the shares and the host of " + lender, used: true})
		calibrations = append(calibrations, nil)
	}
	var err error
	other := -1 // a calibration with another answer than the bound's
	for i := range answers {
		if answers[i].used {
			answers[i].chosen = choice.short()
		} else if answers[i].chosen, err = wish.shortWith(ctx, calibrations[i]); err != nil {
			return "", err
		}
		if i > 0 && calibrations[i] != nil && other < 0 && answers[i].chosen != "" && answers[i].chosen != answers[0].chosen {
			other = i
		}
	}
	why := ""
	if other > 0 {
		alone, err := wish.shortWith(ctx, calibrations[other].HostAlone())
		if err != nil {
			return "", err
		}
		why = "; the host's time alone makes it " + alone + ", and how far kernels stay below the machine the rest"
		if alone == answers[other].chosen {
			why = "; the host's time alone makes that difference"
		} else if alone == answers[0].chosen {
			why = "; how far kernels stay below the machine makes that difference, and not the host's time"
		}
	}
	return sentence(wish, answers) + why + fmt.Sprintf("; runs of %s decide (ossian lab calibrate --rows FILE), --kernels-as-on NAME assumes others", name), nil
}

// sentence is the answers side by side.
func sentence(wish Wish, answers []answer) string {
	var parts []string
	same := true
	for _, a := range answers {
		what := a.chosen
		if what == "" {
			what = "no answer"
		}
		if a.used {
			what += " (taken here)"
		}
		parts = append(parts, a.given+": "+what)
		same = same && a.chosen == answers[0].chosen
	}
	head := fmt.Sprintf("%s %s has no calibration on %s", wish.Engine.Name, wish.Engine.Version, wish.Machine.Machine.Name)
	switch {
	case len(answers) == 1:
		return head + ", nor on another machine to compare with: " + parts[0]
	case same:
		return head + ", and little depends on it: " + strings.Join(parts, "; ")
	}
	return head + ", and the answer depends on what is assumed: " + strings.Join(parts, "; ")
}

// shortWith is what the preset comes to with a calibration; empty: it comes to nothing, as where the
// calibration lacks a kernel of the model.
func (w Wish) shortWith(ctx context.Context, calibration *predict.Calibration) (string, error) {
	if calibration != nil { // only middles are wanted, and intervals take most of the time
		middles := *calibration
		middles.Spread = predict.Spread{}
		calibration, w.Strict = &middles, true
	}
	w.Machine.Calibration = calibration
	choice, err := Preset(ctx, w)
	if err != nil {
		return "", ctx.Err()
	}
	return choice.short(), nil
}

// short is a choice in a few words.
func (c *Choice) short() string {
	return fmt.Sprintf("tp %d with %d users", max(c.Point.Settings.TP, 1), c.Point.Users)
}
