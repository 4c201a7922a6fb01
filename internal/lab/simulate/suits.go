package simulate

import (
	"fmt"
	"maps"
	"slices"

	"ossian/internal/lab/planfile"
	"ossian/internal/nearest"
)

// Suits refuses a world that says something of what a plan does not have: a misspelt flag would have no
// effect, and the simulation would seem to show that.
func (w *World) Suits(plan *planfile.Plan) error {
	flags, engines := map[string]bool{}, map[string]bool{}
	for _, option := range plan.Options {
		for _, flag := range option.Flags {
			for _, value := range flag.Values {
				flags[flag.Name+"="+value] = true
			}
		}
	}
	for _, engine := range plan.Engines {
		engines[engine.Name] = true
		for flag, value := range engine.Flags {
			flags[flag+"="+value] = true
		}
	}
	known := func(where string, words []string, have map[string]bool, what string) error {
		for _, word := range words {
			if !have[word] {
				names := slices.Sorted(maps.Keys(have))
				return fmt.Errorf("%s: the plan has no %s %q%s", where, what, word, nearest.Hint(word, names))
			}
		}
		return nil
	}
	const flag = "flag with a value, FLAG=VALUE,"
	for _, part := range []struct {
		where string
		words []string
	}{{"effects", slices.Sorted(maps.Keys(w.Effects))}, {"starts", slices.Sorted(maps.Keys(w.Starts))}, {"changed", w.Changed}, {"near", w.Near}} {
		if err := known(part.where, part.words, flags, flag); err != nil {
			return err
		}
	}
	for _, joint := range w.Joint {
		if err := known("joint", joint.Flags, flags, flag); err != nil {
			return err
		}
	}
	for _, failing := range w.Failing {
		if err := known("failing", failing.Flags, flags, flag); err != nil {
			return err
		}
	}
	return known("engines", slices.Sorted(maps.Keys(w.Engines)), engines, "engine")
}
