package run

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"ossian/internal/nearest"
)

// advised is the value of a sampling parameter for which the checkpoint's advice counts.
const advised = -1

// A setting is what /set changes in a chat: a value of the options, which the flags of the
// command set, too.
type setting struct {
	name   string
	values string // what may stand behind the name
	help   string
	other  []string // other tools' names of it
	get    func(a *answerer) string
	set    func(a *answerer, value string) error
}

// settings are all of them, in the order in which they are listed.
func settings() []setting {
	return []setting{
		{"system", `TEXT`, `system message, "" = none`, nil, func(a *answerer) string { return a.o.system },
			func(a *answerer, value string) error { a.o.system = messageOf(value); return nil }},
		{"effort", "low|medium|high|none|default", "how much to reason, for models whose template knows it", []string{"reasoning-effort", "reasoning", "think"},
			func(a *answerer) string { return a.o.effort }, setEffort},
		real32("temperature", "0 = always the most likely token", func(a *answerer) *float32 { return &a.o.sampling.Temperature }, "temp"),
		real32("top-p", "keep the likeliest tokens of that total probability", func(a *answerer) *float32 { return &a.o.sampling.TopP }),
		{"top-k", "N|default", "keep the N likeliest tokens, 0 = all", nil, func(a *answerer) string { return wholeUnlessAdvised(int64(a.o.sampling.TopK)) },
			func(a *answerer, value string) (err error) {
				a.o.sampling.TopK, err = wholeNumber(value, advised)
				return err
			}},
		real32("min-p", "drop tokens less likely than this times the likeliest", func(a *answerer) *float32 { return &a.o.sampling.MinP }),
		real32("repetition-penalty", "divide the logits of tokens seen before", func(a *answerer) *float32 { return &a.o.sampling.Repetition }, "repeat-penalty"),
		real32("frequency-penalty", "subtract per occurrence in the answer", func(a *answerer) *float32 { return &a.o.sampling.Frequency }),
		real32("presence-penalty", "subtract once if in the answer", func(a *answerer) *float32 { return &a.o.sampling.Presence }),
		{"seed", "N|default", "seed of the random draws, default = another one each time", nil, func(a *answerer) string { return wholeUnlessAdvised(a.o.sampling.Seed) },
			func(a *answerer, value string) error {
				seed, err := wholeNumber(value, advised)
				a.o.sampling.Seed = max(int64(seed), advised)
				return err
			}},
		{"max-tokens", "N|default", "produce at most N tokens, default = until the context is full", []string{"num-predict", "n-predict", "max-new-tokens"},
			func(a *answerer) string { return strconv.Itoa(a.o.max) }, func(a *answerer, value string) error {
				most, err := wholeNumber(value, 0)
				if err == nil && most < 0 {
					err = fmt.Errorf("%d: a number of tokens, or default, expected", most)
				}
				a.o.max = most
				return err
			}},
		onOff("verbose", "say after each answer what it took", func(a *answerer) *bool { return &a.o.quiet }, true),
		onOff("history", "keep what is typed for later chats", func(a *answerer) *bool { return &a.forgetful }, true),
	}
}

// real32 is the setting of a number that is -1, or "default", where the checkpoint's advice
// counts.
func real32(name, help string, at func(*answerer) *float32, other ...string) setting {
	return setting{name, "X|default", help, other, func(a *answerer) string { return unlessAdvised(float64(*at(a))) },
		func(a *answerer, value string) error {
			if value == "default" {
				*at(a) = advised
				if strings.HasSuffix(name, "y-penalty") { // no checkpoint gives advice on these two
					*at(a) = 0
				}
				return nil
			}
			number, err := strconv.ParseFloat(value, 32)
			if err != nil || math.IsNaN(number) {
				return fmt.Errorf("%.40q: a number or default expected", value)
			}
			*at(a) = float32(number)
			return nil
		}}
}

// onOff is a setting that is on or off; where the value that at points to says the opposite,
// inverted is true.
func onOff(name, help string, at func(*answerer) *bool, inverted bool) setting {
	return setting{name, "on|off", help, nil, func(a *answerer) string {
		if *at(a) != inverted {
			return "on"
		}
		return "off"
	}, func(a *answerer, value string) error {
		switch strings.ToLower(value) {
		case "", "on", "true", "1", "yes":
			*at(a) = !inverted
		case "off", "false", "0", "no":
			*at(a) = inverted
		default:
			return fmt.Errorf("%.40q: on or off expected", value)
		}
		return nil
	}}
}

// efforts are the values of --reasoning-effort; "" leaves it to the model.
var efforts = []string{"", "none", "low", "medium", "high"}

func setEffort(a *answerer, value string) error {
	value = strings.ToLower(value)
	switch value {
	case "default", "on", "true":
		value = ""
	case "off", "false":
		value = "none"
	}
	if !slices.Contains(efforts, value) {
		return fmt.Errorf("%.40q: low, medium, high, none or default expected%s", value, nearest.Hint(value, efforts[1:]))
	}
	a.o.effort = value
	return nil
}

// wholeNumber reads a number, or the word default.
func wholeNumber(text string, otherwise int) (int, error) {
	if text == "default" {
		return otherwise, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%.40q: a whole number or default expected", text)
	}
	return number, nil
}

// unlessAdvised is a number as /set takes it.
func unlessAdvised(number float64) string {
	if number == advised {
		return "default"
	}
	return strconv.FormatFloat(number, 'g', 6, 64)
}

// wholeUnlessAdvised is unlessAdvised of a whole number.
func wholeUnlessAdvised(number int64) string {
	if number == advised {
		return "default"
	}
	return strconv.FormatInt(number, 10)
}

// spelt are the forms of Ollama that have no value; those behind notHere have no counterpart.
var (
	spelt   = map[string]string{"quiet": "verbose off", "nothink": "effort none", "think": "effort default", "nohistory": "history off"}
	notHere = map[string]string{
		"format":     "an answer is held to JSON by the server alone: ossian serve, and response_format in the request",
		"noformat":   "answers have no form here: ossian serve holds them to one",
		"wordwrap":   "lines are wrapped by the terminal",
		"nowordwrap": "lines are wrapped by the terminal",
		"stop":       "stop strings belong to the server: ossian serve, and stop in the request",
		"num-ctx":    "the context is set before the weights are loaded: ossian run MODEL --max-model-len N",
		"ctx-size":   "the context is set before the weights are loaded: ossian run MODEL --max-model-len N",
		"num-gpu":    "there is one device, and nothing to split",
		"model":      "a chat has one model: ossian run MODEL begins another chat",
		"image":      noImages,
	}
)

// noImages says why a picture cannot be shown to a model.
const noImages = "models here read text only, no pictures"

// set changes a setting, or lists all. A value that cannot be is said, and changes nothing.
func (a *answerer) set(rest string) error {
	name, value := splitSetting(rest)
	if name == "parameter" { // as Ollama has it
		name, value = splitSetting(value)
	}
	if name == "" {
		return a.listSettings()
	}
	if full, ok := spelt[name]; ok && value == "" {
		name, value = splitSetting(full)
	}
	if why, ok := notHere[name]; ok {
		return fmt.Errorf("/set %s: %s", name, why)
	}
	var known []string
	for _, one := range settings() {
		known = append(known, one.name)
		if one.name != name && !slices.Contains(one.other, name) {
			continue
		}
		if value == "" && one.values != "on|off" {
			return fmt.Errorf("/set %s %s: %s; now %s", one.name, one.values, one.help, orElse(one.get(a), "default"))
		}
		if err := a.change(func() error { return one.set(a, value) }); err != nil {
			return fmt.Errorf("/set %s: %w", one.name, err)
		}
		a.say("%s: %s", one.name, orElse(one.get(a), "default"))
		return nil
	}
	return fmt.Errorf("/set %.40s: there is no such setting%s /set lists them", name, orElse(nearest.Hint(name, known), ";"))
}

// splitSetting takes the name of a setting off its value. Underscores count as hyphens.
func splitSetting(text string) (name, value string) {
	end := strings.IndexAny(text, " \t\n")
	if end < 0 {
		end = len(text)
	}
	value = strings.TrimSpace(text[end:])
	if value == `""` {
		value = quotes + quotes
	}
	return strings.ReplaceAll(strings.ToLower(text[:end]), "_", "-"), value
}

// change changes options by the function and makes the new ones count. After an error
// everything is as it was.
func (a *answerer) change(by func() error) error {
	options, forgetful := *a.o, a.forgetful
	err := by()
	if err == nil {
		err = a.configure()
	}
	if err != nil {
		*a.o, a.forgetful = options, forgetful
		return errors.Join(err, a.configure())
	}
	return nil
}

// listSettings shows what can be set, and what is.
func (a *answerer) listSettings() error {
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, s := range settings() {
		fmt.Fprintf(table, "/set %s %s\t%s\n", s.name, s.values, s.help)
	}
	return table.Flush()
}

// showSettings shows the values in force.
func (a *answerer) showSettings() error {
	params := a.gen.Params
	inForce := map[string]string{
		"temperature": strconv.FormatFloat(float64(params.Temperature), 'g', 4, 32), "top-p": decimal(params.TopP), "top-k": decimal(float32(params.TopK)),
		"min-p": decimal(params.MinP), "repetition-penalty": decimal(params.RepetitionPenalty), "seed": "another one each time",
	}
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, one := range settings() {
		value := one.get(a)
		switch {
		case one.name == "system":
			continue // /show system
		case value == "default":
			value = inForce[one.name] + " (default)"
		case value == "" || (one.name == "max-tokens" && value == "0"):
			value = "default"
		}
		fmt.Fprintf(table, "%s\t%s\n", one.name, value)
	}
	return table.Flush()
}

// decimal writes a parameter; those that are 0 have no effect, but for the temperature.
func decimal(number float32) string {
	if number == 0 {
		return "off"
	}
	return strconv.FormatFloat(float64(number), 'g', 4, 32)
}
