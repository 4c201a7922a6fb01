package lab

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

// An alternative is one way to set one option: a candidate of its own, and a part of combinations.
type alternative struct {
	option int // index among the options of the engine
	name   string
	flags  map[string]string
	lossy  bool
	opaque bool
}

// subject names an alternative in decisions: the option, and which values.
func (a *alternative) subject(options []planfile.Option) string {
	return options[a.option].Name + ": " + a.name
}

// optionsOf are those of the plan that an engine has.
func optionsOf(plan *planfile.Plan, engine string) []planfile.Option {
	var out []planfile.Option
	for _, option := range plan.Options {
		if option.Engine == engine {
			out = append(out, option)
		}
	}
	return out
}

// combinations counts the settings that the options of an engine span, the baseline among them,
// without making any: the product over options of one more than their alternatives. It is a float so
// that no plan overflows it.
func combinations(options []planfile.Option) float64 {
	total := 1.0
	for _, option := range options {
		alternatives := 1.0
		for _, flag := range option.Flags {
			alternatives *= float64(len(flag.Values))
		}
		total *= 1 + alternatives
	}
	return total
}

// CheckCandidates returns an error if an engine's options span more settings than limit. It is asked
// before anything starts.
func CheckCandidates(plan *planfile.Plan, limit int) error {
	for _, engine := range plan.Engines {
		options := optionsOf(plan, engine.Name)
		count := combinations(options) - 1
		if count <= float64(limit) {
			continue
		}
		return &UsageError{fmt.Sprintf("options of engine %s: %s combinations, and --max-candidates is %d: "+
			"take out options or values, or raise it", engine.Name, printCount(count), limit)}
	}
	return nil
}

func printCount(count float64) string {
	if count < 1e15 {
		return strconv.FormatFloat(count, 'f', 0, 64)
	}
	return fmt.Sprintf("about 10^%.0f", math.Log10(count))
}

// alternatives are those of all options, smaller values first within an option, so that what runs out
// of memory is found before what would take more. Those that a condition of their option leaves out
// are not among them.
func alternatives(engine planfile.Engine, options []planfile.Option) []alternative {
	var out []alternative
	for at, option := range options {
		sets := []map[string]string{{}}
		for _, flag := range option.Flags {
			var grown []map[string]string
			for _, set := range sets {
				for _, value := range ascending(flag.Values) {
					next := maps.Clone(set)
					next[flag.Name] = value
					grown = append(grown, next)
				}
			}
			sets = grown
		}
		for _, flags := range sets {
			if holds(option.Unless, engine, flags) {
				continue
			}
			out = append(out, alternative{option: at, name: printFlags(flags), flags: flags, lossy: option.Lossy, opaque: option.Opaque})
		}
	}
	return out
}

// ascending sorts numbers by size, and leaves values in the plan's order where one is not a number.
func ascending(values []string) []string {
	out := slices.Clone(values)
	for _, value := range out {
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return out
		}
	}
	slices.SortStableFunc(out, func(a, b string) int {
		x, _ := strconv.ParseFloat(a, 64)
		y, _ := strconv.ParseFloat(b, 64)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return out
}

// atLeast reports whether an alternative of the same option asks for no less than another: every flag
// is the same or a larger number, and one is larger.
func (a *alternative) atLeast(other *alternative) bool {
	if a.option != other.option || len(a.flags) != len(other.flags) {
		return false
	}
	larger := false
	for flag, value := range a.flags {
		before, both := other.flags[flag]
		if !both {
			return false
		}
		if before == value {
			continue
		}
		x, errX := strconv.ParseFloat(value, 64)
		y, errY := strconv.ParseFloat(before, 64)
		if errX != nil || errY != nil || x < y {
			return false
		}
		larger = true
	}
	return larger
}

// combine is the setting of several alternatives together; of the same flag the later one counts.
func combine(engine string, parts ...*alternative) ledger.Setting {
	setting := ledger.Setting{Engine: engine}
	for _, part := range parts {
		if setting.Flags == nil {
			setting.Flags = map[string]string{}
		}
		maps.Copy(setting.Flags, part.flags)
	}
	return setting
}

// allowed reports whether no option of a combination is left out by its condition.
func allowed(engine planfile.Engine, options []planfile.Option, parts []*alternative) bool {
	setting := combine(engine.Name, parts...)
	for _, part := range parts {
		if holds(options[part.option].Unless, engine, setting.Flags) {
			return false
		}
	}
	return true
}

// eachCombination calls visit with every choice of at most one alternative of each option, the
// empty one first, that conditions allow. The slice is visit's only until it returns.
func eachCombination(engine planfile.Engine, options []planfile.Option, all []alternative, visit func(parts []*alternative)) {
	byOption := make([][]*alternative, len(options))
	for i := range all {
		byOption[all[i].option] = append(byOption[all[i].option], &all[i])
	}
	var parts []*alternative
	var descend func(option int)
	descend = func(option int) {
		if option == len(options) {
			if allowed(engine, options, parts) {
				visit(parts)
			}
			return
		}
		descend(option + 1)
		for _, choice := range byOption[option] {
			parts = append(parts, choice)
			descend(option + 1)
			parts = parts[:len(parts)-1]
		}
	}
	descend(0)
}

// holds reports whether a condition is true of flags over those that the engine always has.
func holds(condition *planfile.Condition, engine planfile.Engine, flags map[string]string) bool {
	if condition == nil {
		return false
	}
	value, set := flags[condition.Flag]
	if !set {
		value = engine.Flags[condition.Flag]
	}
	return (value == condition.Value) == condition.Equal
}

// printFlags writes flags in a fixed order, as a reader would type them without dashes.
func printFlags(flags map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		words = append(words, name+"="+flags[name])
	}
	return strings.Join(words, " ")
}

// printSetting names a setting for people.
func printSetting(setting ledger.Setting) string {
	if len(setting.Flags) == 0 {
		return setting.Engine + " at its defaults"
	}
	return setting.Engine + " with " + printFlags(setting.Flags)
}
