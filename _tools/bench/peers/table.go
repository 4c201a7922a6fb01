package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"ossian/internal/stat"
)

// settings are members of a result that say what was asked for, not what came of it.
var settings = []string{"num_prompts", "request_rate", "burstiness", "rtfx"}

// print writes the tables: what each client is off by and costs, then what each reports.
func (c *config) print(w io.Writer, parts []*part) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Scripted streams have a token every %v, answers of the live server %d tokens. Medians of the rounds, in which the clients took turns.\n", c.gap, c.liveTokens)
	b.WriteString("In parentheses the least and the most. CPU is what the process took (getrusage) less what it took for the same requests with one token each.\n")
	b.WriteString("* = in some round the client said itself that its numbers cannot be trusted.\n\n")
	b.WriteString("| server | streams | tokens | client | rounds | lost | TTFT error, mean ms | p99 | ITL error, p50 ms | p99 | max | CPU per event, µs | of the process, s | MB | server late, p99 ms |\n|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, p := range parts {
		for i := range c.peers {
			c.errorRow(&b, p, i)
		}
	}
	for _, name := range []string{"scripted", "live"} {
		c.metrics(&b, name, slices.DeleteFunc(slices.Clone(parts), func(p *part) bool { return p.name != name }))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// errorRow says what client i is off by and costs.
func (c *config) errorRow(b *strings.Builder, p *part, i int) {
	runs, name := p.runs[i], c.peers[i].name
	if slices.ContainsFunc(runs, func(r *run) bool { return r.refused }) {
		name += "*"
	}
	of := func(value func(*run) float64) []float64 {
		out := make([]float64, len(runs))
		for k, r := range runs {
			out[k] = value(r)
		}
		return stat.Sorted(out)
	}
	median := func(digits int, value func(*run) float64) string {
		return fmt.Sprintf("%.*f", digits, stat.Median(of(value)))
	}
	between := func(digits int, value func(*run) float64) string {
		v := of(value)
		if slices.ContainsFunc(v, math.IsNaN) {
			return "–"
		}
		return fmt.Sprintf("%.*f (%.*f to %.*f)", digits, stat.Median(v), digits, v[0], digits, v[len(v)-1])
	}
	cells := []string{p.name, fmt.Sprint(p.requests), fmt.Sprint(p.tokens), name, fmt.Sprint(len(runs))}
	if p.scripted {
		cells = append(cells, median(0, func(r *run) float64 { return float64(r.errors.Missed) }),
			between(3, func(r *run) float64 { return ms(r.errors.TTFT.Mean) }), median(3, func(r *run) float64 { return ms(r.errors.TTFT.P99) }),
			median(3, func(r *run) float64 { return ms(r.errors.Gap.P50) }), between(3, func(r *run) float64 { return ms(r.errors.Gap.P99) }),
			median(3, func(r *run) float64 { return ms(r.errors.Gap.Max) }))
	} else {
		cells = append(cells, "", "", "", "", "", "")
	}
	cells = append(cells, between(1, func(r *run) float64 { return r.perEvent }), median(2, func(r *run) float64 { return r.cpu.Seconds() }),
		median(0, func(r *run) float64 { return float64(r.memory) / 1e6 }))
	late := ""
	if p.scripted {
		late = median(3, func(r *run) float64 { return ms(r.late.P99) })
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join(append(cells, late), " | "))
}

// metrics has a row for every number that all clients report of parts, and columns for
// the clients, with the first one's share of theirs.
func (c *config) metrics(b *strings.Builder, server string, parts []*part) {
	if len(parts) == 0 {
		return
	}
	fmt.Fprintf(b, "\nWhat the clients report of the %s server; in parentheses how many times that of %s.", server, c.peers[0].name)
	if parts[0].scripted {
		fmt.Fprintf(b, " True is by the server's own times, while %s measured.", c.peers[0].name)
	}
	b.WriteString("\n\n| requests |")
	rule := "\n|---|"
	for _, p := range parts {
		for _, client := range c.peers {
			fmt.Fprintf(b, " %d, %s |", p.requests, client.name)
			rule += "--:|"
		}
		if p.scripted {
			fmt.Fprintf(b, " %d, true |", p.requests)
			rule += "--:|"
		}
	}
	b.WriteString(rule + "\n")
	for _, m := range c.common(parts) {
		fmt.Fprintf(b, "| `%s` |", m)
		for _, p := range parts {
			first := math.NaN()
			for i := range c.peers {
				v := p.median(i, m)
				if i == 0 {
					first = v
					fmt.Fprintf(b, " %s |", digits(v))
					continue
				}
				fmt.Fprintf(b, " %s%s |", digits(v), ratio(v, first))
			}
			if p.scripted {
				fmt.Fprintf(b, " %s |", p.true(m))
			}
		}
		b.WriteString("\n")
	}
}

// ratio says how many times first v is, where that says something.
func ratio(v, first float64) string {
	if first == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.3g)", v/first)
}

// common returns the names of the numbers that every client reports in every part.
func (c *config) common(parts []*part) []string {
	var out []string
	for name := range parts[0].runs[0][0].metrics {
		if slices.Contains(settings, name) {
			continue
		}
		everywhere := true
		for _, p := range parts {
			for i := range c.peers {
				everywhere = everywhere && !math.IsNaN(p.median(i, name))
			}
		}
		if everywhere {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// median returns that of a metric of client i; NaN where a run has none.
func (p *part) median(i int, metric string) float64 {
	var values []float64
	for _, r := range p.runs[i] {
		v, ok := r.metrics[metric].(float64)
		if !ok {
			return math.NaN()
		}
		values = append(values, v)
	}
	return stat.Median(stat.Sorted(values))
}

// true returns a metric by the server's own times, of the rounds of the first client.
func (p *part) true(metric string) string {
	var values []float64
	for _, r := range p.runs[0] {
		if v, ok := r.truth[metric]; ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return ""
	}
	return digits(stat.Median(stat.Sorted(values)))
}

// digits writes v with as many as one reads.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) && a < 1e9:
		return fmt.Sprintf("%.0f", v)
	case a >= 1000:
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
