package config

// Several models of one server: --model NAME=MODEL, once for each.

import (
	"fmt"
	"slices"
	"strings"
)

// A Named is a model of the settings.
type Named struct {
	Name string // in requests; "" = served-model-name, or the model's own
	Path string // name or path
}

// named takes NAME=MODEL apart. Before the = stands no path: ./a=b is the path of a model without
// a name.
func named(text string) Named {
	name, path, ok := strings.Cut(text, "=")
	if !ok || name == "" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "~") || strings.ContainsAny(name, " \\") {
		return Named{Path: text}
	}
	return Named{Name: name, Path: path}
}

func isNamed(text string) bool { return named(text).Name != "" }

// addModel returns the models of a source that names another one. Those with names add up; of those
// without there is one, which may be named again.
func addModel(before []string, text string) ([]string, error) {
	first := slices.IndexFunc(before, func(text string) bool { return !isNamed(text) })
	switch {
	case isNamed(text) || first < 0:
		return append(slices.Clone(before), text), nil
	case before[first] == text:
		return before, nil
	}
	return nil, fmt.Errorf("one model expected, found %.100q and %.100q; of several each has a name: --model NAME=%.100s", before[first], text, text)
}

// models returns the path of the first model, and all.
func models(items []string) (first string, all []Named, err error) {
	known := map[string]bool{}
	for _, text := range items {
		model := named(text)
		if _, err := names([]string{model.Name + "x"}, "a name"); err != nil { // "" is one here
			return "", nil, err
		}
		switch {
		case model.Name == "" && known[""]:
			return "", nil, fmt.Errorf("%.100q: one model may be without a name, of several each has one: NAME=MODEL", text)
		case known[model.Name]:
			return "", nil, fmt.Errorf("two models are named %.100q", model.Name)
		case model.Path == "" && len(items) > 1, model.Path == "" && model.Name != "":
			return "", nil, fmt.Errorf("%.100q: a model expected behind the =", text)
		}
		known[model.Name] = true
		all = append(all, model)
	}
	if len(all) == 0 || (len(all) == 1 && all[0] == Named{}) {
		return "", nil, nil
	}
	return all[0].Path, all, nil
}

// checkModels finds settings that contradict several models, or the names that they have.
func (c *Config) checkModels() error {
	settings := &c.Settings
	if settings.Template != "" && len(settings.Models) > 1 {
		return fmt.Errorf("--chat-template is for one model, and there are %d: put it into their directories as chat_template.jinja", len(settings.Models))
	}
	if len(settings.ServedNames) == 0 || len(settings.Models) == 0 {
		return nil
	}
	if !slices.ContainsFunc(settings.Models, func(m Named) bool { return m.Name == "" }) {
		return fmt.Errorf("--served-model-name %s names no model: each of --model has a NAME= of its own", strings.Join(settings.ServedNames, " "))
	}
	for _, model := range settings.Models {
		if slices.Contains(settings.ServedNames, model.Name) {
			return fmt.Errorf("--served-model-name and --model %s=%s: two models have that name", model.Name, model.Path)
		}
	}
	return nil
}
