package chart

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ossian/internal/bench/report"
)

// runColumns are those of the table of runs, in milliseconds where they are times.
var runColumns = []struct {
	name  string
	value func(*series) string
}{
	{"concurrency", func(s *series) string { return loadText(byConcurrency.of(s.Summary.Setup.Arrivals)) }},
	{"req/s offered", func(s *series) string { return loadText(s.Summary.Setup.Arrivals.Rate) }},
	{"failed", func(s *series) string { return strconv.Itoa(s.Summary.Failed) }},
	{"req/s", func(s *series) string { return fmt.Sprintf("%.2f", s.Summary.RequestRate) }},
	{"output tok/s", func(s *series) string { return fmt.Sprintf("%.2f", s.Summary.OutputRate) }},
	{"total tok/s", func(s *series) string { return fmt.Sprintf("%.2f", s.Summary.TotalRate) }},
	{"median TTFT", func(s *series) string { return milli(s.Summary.TTFT, s.Summary.TTFT.Median) }},
	{"P99 TTFT", func(s *series) string { return milli(s.Summary.TTFT, s.Summary.TTFT.P(99)) }},
	{"median TPOT", func(s *series) string { return milli(s.Summary.TPOT, s.Summary.TPOT.Median) }},
	{"P99 TPOT", func(s *series) string { return milli(s.Summary.TPOT, s.Summary.TPOT.P(99)) }},
	{"P99 E2EL", func(s *series) string { return milli(s.Summary.E2EL, s.Summary.E2EL.P(99)) }},
}

// milli writes a statistic of d in milliseconds; "–" where d has no values.
func milli(d report.Dist, v float64) string {
	if d.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", v)
}

func loadText(v float64) string {
	if math.IsInf(v, 1) {
		return "inf"
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// cards are the headline of a run.
func (s *series) cards() []pair {
	sum := s.Summary
	_, peak := s.inFlight()
	out := []pair{
		{"output tokens/s", fmt.Sprintf("%.1f", sum.OutputRate)},
		{"tokens/s, prompts included", fmt.Sprintf("%.1f", sum.TotalRate)},
		{"requests/s", fmt.Sprintf("%.2f", sum.RequestRate)},
		{"median TTFT", withUnit(sum.TTFT, sum.TTFT.Median)},
		{"P99 TTFT", withUnit(sum.TTFT, sum.TTFT.P(99))},
		{"median TPOT", withUnit(sum.TPOT, sum.TPOT.Median)},
		{"P99 ITL", withUnit(sum.ITL, sum.ITL.P(99))},
		{"median E2EL", withUnit(sum.E2EL, sum.E2EL.Median)},
		{"requests at once, at most", fmt.Sprintf("%.0f", peak)},
		{"requests succeeded", fmt.Sprintf("%d of %d", sum.Completed, sum.Completed+sum.Failed)},
	}
	if len(sum.Setup.Goodput) > 0 {
		out = append(out, pair{"requests/s within objectives", fmt.Sprintf("%.2f", sum.Goodput)})
	}
	return out
}

// withUnit writes milliseconds so that they read well.
func withUnit(d report.Dist, ms float64) string {
	switch {
	case d.N == 0:
		return "–"
	case ms >= 10_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 1:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.3f ms", ms)
}

// A metric is a row of the table of latencies.
type metric struct {
	Name   string
	N      int
	Values []string
}

// latencies returns the table of latencies: its columns, its rows, and a sentence about
// percentiles that the number of values does not certify, which bear a mark.
func latencies(s *report.Summary) (columns []string, rows []metric, uncertain string) {
	percentiles := append([]float64{90, 99}, s.Setup.Percentiles...)
	slices.Sort(percentiles)
	percentiles = slices.Compact(percentiles)
	columns = []string{"mean", "std", "median"}
	for _, p := range percentiles {
		columns = append(columns, "P"+strconv.FormatFloat(p, 'f', -1, 64))
	}
	columns = append(columns, "max")
	marked := map[string]map[float64]bool{}
	var needs []string
	for _, c := range s.Ossian.Certified {
		if c.Certified || c.N == 0 {
			continue
		}
		if marked[c.Metric] == nil {
			marked[c.Metric] = map[float64]bool{}
		}
		marked[c.Metric][c.P] = true
		if need := fmt.Sprintf("P%s needs %d", strconv.FormatFloat(c.P, 'f', -1, 64), c.Need); c.Need > 0 && !slices.Contains(needs, need) {
			needs = append(needs, need)
		}
	}
	x := &s.Ossian
	for _, m := range []struct {
		key, name string
		d         report.Dist
	}{
		{"ttft", "TTFT", s.TTFT}, {"tpot", "TPOT", s.TPOT}, {"itl", "ITL", s.ITL}, {"e2el", "E2EL", s.E2EL},
		{"", "first text or reasoning", x.FirstToken}, {"", "wait in the client for a slot", x.QueueWait},
		{"", "TTFT from the scheduled arrival", x.OpenLoop.FirstToken}, {"", "E2EL from the scheduled arrival", x.OpenLoop.E2EL},
	} {
		if m.d.N == 0 {
			continue
		}
		r := metric{m.name, m.d.N, []string{milli(m.d, m.d.Mean), milli(m.d, m.d.Std), milli(m.d, m.d.Median)}}
		for _, p := range percentiles {
			v := milli(m.d, m.d.P(p))
			if marked[m.key][p] {
				v += " *"
			}
			r.Values = append(r.Values, v)
		}
		r.Values = append(r.Values, milli(m.d, m.d.Max))
		rows = append(rows, r)
	}
	if len(marked) > 0 {
		uncertain = "* not certified with 99 % confidence by so few values"
		if len(needs) > 0 {
			uncertain += ": " + strings.Join(needs, ", ")
		}
	}
	return columns, rows, uncertain
}

// facts says how a run was measured.
func (s *series) facts() []pair {
	set := &s.Summary.Setup
	x := &s.Summary.Ossian
	out := []pair{
		{"profile", set.Profile.String()}, {"backend", set.Backend}, {"server dialect", set.Dialect}, {"endpoint", set.URL},
		{"model", set.ModelID}, {"tokenizer", set.Tokenizer}, {"workload", set.Dataset}, {"hash of the workload", set.Hash},
		{"seed", strconv.FormatInt(set.Seed, 10)},
		{"request rate", loadText(set.Arrivals.Rate) + " per second"},
		{"burstiness", loadText(set.Arrivals.Burstiness)},
		{"requests at once, at most", loadText(byConcurrency.of(set.Arrivals))},
		{"ignores the end of text", strconv.FormatBool(set.IgnoreEOS)},
		{"duration", time.Duration(s.Summary.Duration * float64(time.Second)).Round(time.Millisecond).String()},
		{"tokens", fmt.Sprintf("%d of prompts, %d of output", s.Summary.Input, s.Summary.Output)},
		{"prompt tokens from a cache", fmt.Sprintf("%.1f %%", x.Cache.HitPercent)},
		{"client", client(&x.Client)},
	}
	for _, m := range set.Metadata {
		out = append(out, pair{m.Key, m.Value})
	}
	for _, e := range s.Environment {
		out = append(out, pair{e.Key, e.Value})
	}
	for i := range out {
		out[i] = pair{clean(out[i].Key), clean(out[i].Value)}
	}
	return slices.DeleteFunc(out, func(p pair) bool { return p.Value == "" })
}

// client says what the measuring process did to the numbers.
func client(c *report.Client) string {
	if c.Threads == 0 {
		return ""
	}
	clock := "arrival times by its own clock"
	if c.Kernel {
		clock = "arrival times from the kernel"
	}
	text := fmt.Sprintf("%s; %.1f %% of a core, %d threads; %s; P99 lateness of sending %s", c.Verdict, c.CPUPercent, c.Threads, clock, withUnit(c.SendLate, c.SendLate.P(99)))
	if c.Shared {
		text += "; the server ran in the same process"
	}
	return text
}
