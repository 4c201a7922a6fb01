package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lab/ledger"
)

// metricNames are what keys of result files are called in tables (bench.md 1.7).
var metricNames = map[string]string{
	"request_throughput": "Request throughput (req/s)", "output_throughput": "Output TPS", "total_token_throughput": "Total TPS",
	"request_goodput": "Request goodput (req/s)", "duration": "Duration (s)",
	"mean_ttft_ms": "Mean TTFT(ms)", "median_ttft_ms": "Median TTFT(ms)", "mean_tpot_ms": "Mean TPOT(ms)", "median_tpot_ms": "Median TPOT(ms)",
	"mean_itl_ms": "Mean ITL(ms)", "mean_e2el_ms": "Mean E2EL(ms)",
}

// nameOf is a metric in a table; rates that are compared per device say so.
func (f *facts) nameOf(metric string) string {
	name, known := metricNames[metric]
	if !known {
		name = metric
		// p99.9_ttft_ms → P99.9 TTFT(ms)
		if stem, is := strings.CutSuffix(metric, "_ms"); is {
			first, rest, _ := strings.Cut(stem, "_")
			name = strings.ToUpper(first[:1]) + first[1:] + " " + strings.ToUpper(rest) + "(ms)"
		}
	}
	if f.perDevice(metric) {
		name += "/GPU"
	}
	return name
}

// number writes a value with the two decimals of the published reports.
func number(value float64) string { return strconv.FormatFloat(value, 'f', 2, 64) }

// percent writes a relative change with one decimal, from values as they are printed: so whoever
// computes it from the table comes to the same.
func percent(before, after float64) string {
	first, _ := strconv.ParseFloat(number(before), 64)
	second, _ := strconv.ParseFloat(number(after), 64)
	if first == 0 {
		return "-"
	}
	return share(second/first - 1)
}

// share writes a part of one as a signed percentage.
func share(part float64) string {
	text := strconv.FormatFloat(100*part, 'f', 1, 64)
	if text == "-0.0" {
		text = "0.0"
	}
	if !strings.HasPrefix(text, "-") {
		text = "+" + text
	}
	return text + "%"
}

// gained writes an effect on a metric as a gain with its interval, in the sign of tables of gains, and of
// what there is more or less.
func (f *facts) gained(metric string, effect *ledger.Interval) (name, value, interval string) {
	name, turned := f.nameOf(metric), ledger.Gained(metric, effect)
	if isTime(metric) {
		name = "less " + name
	}
	return name, share(turned.Value), bracket(turned)
}

// GainOf is what gains on a metric are called, in one way in tables and on consoles.
func GainOf(metric, name string) string {
	if isTime(metric) {
		return "Gain: less " + name
	}
	return "Gain: more " + name
}

// Gained is a decision's effect as a gain, above 0 where it is for the better; nil: there is none.
func Gained(decision *ledger.Decision) *ledger.Interval {
	return ledger.Gained(decision.Metric, decision.Effect)
}

// bracket writes an interval of relative changes.
func bracket(effect *ledger.Interval) string {
	if effect == nil {
		return "-"
	}
	return fmt.Sprintf("[%s, %s]", share(effect.Low), share(effect.High))
}

// isTime reports whether less of a metric is better.
func isTime(metric string) bool { return ledger.IsTime(metric) }

// measured is the word for how figures were had.
func (f *facts) measured() string {
	if f.campaign.Simulated {
		return "simulated"
	}
	return "measured"
}

// measuredHead is the same at the head of a column.
func (f *facts) measuredHead() string { return strings.ToUpper(f.measured()[:1]) + f.measured()[1:] }

// toneOf says whether a change of a metric is for the better; changes below a tenth of a percent are
// none.
func toneOf(metric string, before, after float64) tone {
	change := after/before - 1
	switch {
	case math.Abs(change) < 0.0005 || math.IsNaN(change):
		return plain
	case (change < 0) == isTime(metric):
		return better
	}
	return worse
}

// flagsOf writes what a setting adds to its engine; "defaults" where that is nothing.
func flagsOf(setting *ledger.Setting) string {
	if setting == nil || len(setting.Flags) == 0 {
		return "defaults"
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(setting.Flags)) {
		words = append(words, name+"="+setting.Flags[name])
	}
	return strings.Join(words, " ")
}

// commandOf writes an argument vector so that a shell takes it as it is.
func commandOf(argv []string) string {
	var words []string
	for _, word := range argv {
		if word == "" || strings.ContainsFunc(word, func(letter rune) bool {
			return !strings.ContainsRune("-_./=:,+@%{}", letter) && (letter < '0' || letter > '9') && (letter < 'A' || letter > 'Z') && (letter < 'a' || letter > 'z')
		}) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// loadOf writes a workload in words.
func loadOf(load ledger.Workload) string {
	lengths := ""
	if load.InputLen > 0 || load.OutputLen > 0 {
		lengths = fmt.Sprintf(", %d tokens in, %d out", load.InputLen, load.OutputLen)
		if load.InputLen == 0 {
			lengths = fmt.Sprintf(", %d tokens out", load.OutputLen)
		}
	}
	rate := "all at once"
	if load.Rate > 0 {
		rate = fmt.Sprintf("%g requests per second", load.Rate)
	}
	if load.Concurrent > 0 {
		rate += fmt.Sprintf(", at most %d at a time", load.Concurrent)
	}
	api := "completions"
	if load.Chat {
		api = "chat"
	}
	return fmt.Sprintf("%s, %d requests%s, %s, %s", load.Dataset, load.NumPrompts, lengths, rate, api)
}

// hardwareOf names the machine in a title: its cards, else its processor.
func (f *facts) hardwareOf() string {
	if f.machine == nil {
		return "an unknown machine"
	}
	var cards []string
	for _, card := range f.machine.Accelerators {
		cards = append(cards, fmt.Sprintf("%d x %s", card.Count, card.Name))
	}
	switch {
	case len(cards) > 0:
		return strings.Join(cards, ", ")
	case f.machine.CPU != "":
		return strings.Join(strings.Fields(f.machine.CPU), " ")
	}
	return fmt.Sprintf("%d processors", f.machine.Processors)
}

// plural counts things in words.
func plural(count int, one string) string {
	if count == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", count, one)
}
