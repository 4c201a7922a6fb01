package planfile

import (
	"slices"
	"strings"
)

// places are words that the lab itself replaces in commands, with what they stand for and the usual names
// of flags that set the same.
var places = []struct {
	word, what, change string
	flags              []string
}{
	{"{port}", "the port", "the lab chooses a free one for each start", []string{"port"}},
	{"{host}", "the address", "the lab talks to its servers over loopback alone", []string{"host"}},
	{"{model}", "the model", "name models under model or models", []string{"model", "model-path"}},
}

// owned complains about a flag that the lab sets itself: another value would be one of a server that the lab
// does not reach, or of another model.
func (r *planReader) owned(engine *Engine, e entry) {
	flag := strings.TrimLeft(e.name, "-")
	words := engine.Start
	if engine.Container != nil {
		words = engine.Container.Args
	}
	if engine.Shell {
		words = strings.Fields(strings.Join(words, " "))
	}
	for _, place := range places {
		usual := strings.Contains(engine.words(), place.word) && slices.ContainsFunc(place.flags, func(name string) bool { return sameFlag(name, flag) })
		mine := slices.ContainsFunc(engine.settersOf(words, place.word), func(name string) bool { return sameFlag(name, flag) })
		if mine || usual {
			r.failAt(e.key, e.line, "no flag for "+place.what+" expected: "+place.change+" ("+place.word+" in the command of engine "+engine.Name+"); take "+flag+" out", "")
			return
		}
	}
}

// settersOf are the names of flags, or of variables, that hold a place in a command.
func (e *Engine) settersOf(words []string, place string) (out []string) {
	for i, word := range words {
		if !strings.Contains(word, place) {
			continue
		}
		if name, _, is := strings.Cut(word, "="); is && strings.HasPrefix(name, "-") {
			out = append(out, name)
		} else if i > 0 && strings.HasPrefix(words[i-1], "-") {
			out = append(out, words[i-1])
		}
	}
	for name, value := range e.Env {
		if e.FlagsInEnv && strings.Contains(value, place) {
			out = append(out, name)
		}
	}
	return out
}

// sameFlag compares names as tools do to whom hyphens and underscores are the same.
func sameFlag(a, b string) bool {
	plain := func(name string) string { return strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-") }
	return plain(a) == plain(b)
}
