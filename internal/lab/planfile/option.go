package planfile

import (
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lazyregexp"
	"ossian/internal/nearest"
)

// flagName is what a flag may be called, its hyphens in front taken off; dots reach into objects.
var flagName = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_.-]*$`)

func (r *planReader) options(e entry) {
	for _, item := range r.items(e, "a list of options") {
		option := r.readOption(item)
		for _, other := range r.plan.Options {
			if option.Name != "" && other.Name == option.Name && other.Engine == option.Engine {
				r.failAt(item.key+".name", item.line, "another name expected: "+strconv.Quote(option.Name)+" is taken in line "+strconv.Itoa(other.Line), "")
			}
		}
		r.plan.Options = append(r.plan.Options, option)
	}
}

// readOption reads one thing to try.
func (r *planReader) readOption(e entry) Option {
	option := Option{Line: e.line}
	var unless *entry
	var given []entry
	r.fields(e.key, e.node, "engine, name and flags", map[string]func(entry){
		"engine": func(e entry) { option.Engine = r.text(e, "an engine of the plan"); r.engineFor(e, option.Engine) },
		"name":   func(e entry) { option.Name = r.text(e, "a name") },
		"flags":  func(e entry) { option.Flags, given = r.flags(e) },
		"unless": func(e entry) { unless = &e },
		"lossy":  func(e entry) { option.Lossy = r.boolean(e) },
		"opaque": func(e entry) { option.Opaque = r.boolean(e) },
	})
	if option.Engine == "" && len(r.plan.Engines) == 1 {
		option.Engine = r.plan.Engines[0].Name
		r.engineFor(e, option.Engine)
	}
	switch {
	case option.Engine == "" && len(r.plan.Engines) > 1:
		r.failAt(e.key+".engine", e.line, "the engine expected, because the plan has several", "")
	case len(option.Flags) == 0:
		r.failAt(e.key+".flags", e.line, "a mapping of flags to values expected, such as {max-num-seqs: [128, 512]}", "")
	case option.Name == "":
		option.Name = option.Flags[0].Name
	}
	for i := range r.plan.Engines {
		for _, e := range given {
			if r.plan.Engines[i].Name == option.Engine {
				r.owned(&r.plan.Engines[i], e)
			}
		}
	}
	if unless != nil {
		option.Unless = r.condition(*unless)
	}
	return option
}

// engineFor complains about an engine with which nothing can be tried.
func (r *planReader) engineFor(e entry, name string) {
	var names []string
	for _, engine := range r.plan.Engines {
		if engine.Name != name {
			names = append(names, engine.Name)
			continue
		}
		words := engine.words()
		if engine.URL != "" {
			r.failAt(e.key, e.line, "an engine that the lab starts expected: no option can be tried with a server that runs already", strconv.Quote(name))
		} else if !strings.Contains(words, "{flags}") && !engine.FlagsInEnv {
			r.failAt(e.key, e.line, "{flags} in the command of engine "+name+" expected, where options go", strconv.Quote(words))
		}
		return
	}
	if name != "" {
		r.fail(e.key, e.node, "an engine of the plan ("+strings.Join(names, ", ")+") expected"+nearest.Hint(name, names))
	}
}

// flags reads those of an option, each with one value or several, and returns their entries too.
func (r *planReader) flags(e entry) (out []Flag, given []entry) {
	for _, e := range r.entries(e.key, e.node, "a mapping of flags to values expected, such as {max-num-seqs: [128, 512]}") {
		values := r.texts(e, "one value or a list of values")
		if len(slices.Compact(slices.Sorted(slices.Values(values)))) < len(values) {
			r.fail(e.key, e.node, "each value once expected")
		}
		out, given = append(out, Flag{Name: r.flagName(e), Values: values}), append(given, e)
	}
	return out, given
}

// flagValues reads flags with one value each, and returns their entries too.
func (r *planReader) flagValues(e entry) (out map[string]string, given []entry) {
	out = map[string]string{}
	for _, e := range r.entries(e.key, e.node, "a mapping of flags to values expected") {
		out[r.flagName(e)], given = r.text(e, "a value"), append(given, e)
	}
	return out, given
}

func (r *planReader) flagName(e entry) string {
	name := strings.TrimLeft(e.name, "-")
	if !flagName.MatchString(name) {
		r.failAt(e.key, e.line, "the name of a flag expected", "")
	}
	return name
}

// condition reads flags.NAME == VALUE.
func (r *planReader) condition(e entry) *Condition {
	text := r.text(e, "a condition")
	for _, operator := range []string{"==", "!="} {
		left, right, ok := strings.Cut(text, operator)
		flag, named := strings.CutPrefix(strings.TrimSpace(left), "flags.")
		value := strings.Trim(strings.TrimSpace(right), `'"`)
		if ok && named && flagName.MatchString(flag) && value != "" {
			return &Condition{Flag: flag, Equal: operator == "==", Value: value}
		}
	}
	if text != "" {
		r.fail(e.key, e.node, "flags.NAME == VALUE or flags.NAME != VALUE expected")
	}
	return nil
}

// Holds reports whether a setting's flags meet the condition. A flag that is not given equals nothing.
func (c *Condition) Holds(flags map[string]string) bool {
	value, given := flags[c.Flag]
	return given && (value == c.Value) == c.Equal
}
