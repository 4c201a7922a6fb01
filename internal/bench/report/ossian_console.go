package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"ossian/internal/stat"
)

// OssianConsole is the second block of the report: what the profile's tool does not say
// (bench.md 6), in the same columns.
func (s *Summary) OssianConsole() string {
	x := &s.Ossian
	p := &page{frame: 50}
	p.title(" Ossian: Can It Be Trusted ", "=")
	verdict := "valid"
	if !x.Valid {
		verdict = "INVALID"
	}
	p.row("Run:", verdict)
	p.row("Client:", x.Client.Verdict)
	for _, f := range x.Findings {
		kind := "invalid"
		if f.Warning {
			kind = "warning"
		}
		fmt.Fprintf(p, "%s: %s: %s %s (bound %s)\n", kind, f.ID, short(f.Measured), f.What, short(f.Bound))
	}
	p.title("Outcomes", "-")
	p.count("With output:", x.Outcomes.Output)
	p.count("Empty (not averaged in):", x.Outcomes.Empty)
	p.count("Failed before the first byte:", x.Outcomes.Refused)
	p.count("Broken off while streaming:", x.Outcomes.Aborted)
	for _, cause := range slices.Sorted(maps.Keys(x.Outcomes.Causes)) {
		fmt.Fprintf(p, "  %d x %s\n", x.Outcomes.Causes[cause], cause)
	}
	p.title("Tokens, Not Events", "-")
	p.number("Tokens per chunk:", x.Stream.TokensPerChunk)
	p.number("Output token throughput (tok/s):", x.Stream.Rate)
	p.number("Peak output token throughput (tok/s):", x.Stream.Peak)
	p.count("Peak concurrent requests (exact):", x.Stream.PeakRequests)
	if x.Steady != nil {
		p.number("Steady-state output throughput (tok/s):", x.Steady.OutputRate)
		p.number("Steady-state window (s):", x.Steady.Window.Duration)
	}
	p.title("Waiting, Phase by Phase", "-")
	p.phase("First chunk", x.FirstChunk)
	p.phase("First token", x.FirstToken)
	p.phase("Last token", x.Service)
	p.phase("Wait for a slot", x.QueueWait)
	if s.open() {
		p.phase("First token since due", x.OpenLoop.FirstToken)
		p.phase("Last token since due", x.OpenLoop.E2EL)
	}
	x.Client.console(p)
	x.Cache.console(p)
	s.certifiedConsole(p)
	p.line("=")
	return p.String()
}

// short writes a number with at most four digits that matter.
func short(f float64) string { return fmt.Sprintf("%.4g", f) }

// phase writes mean, median and P99 of a distribution, if there is one.
func (p *page) phase(name string, d Dist) {
	if d.N == 0 {
		return
	}
	p.row(name+" mean / p50 / p99 (ms):", fmt.Sprintf("%.2f / %.2f / %.2f", d.Mean, d.Median, d.P99))
}

func (c *Client) console(p *page) {
	p.title("This Client", "-")
	p.row("Send lateness p50 / p99 / max (ms):", fmt.Sprintf("%.3f / %.3f / %.3f", c.SendLate.Median, c.SendLate.P99, c.SendLate.Max))
	if c.Lag.N > 0 {
		p.row("Kernel lag p50 / p99 / max (ms):", fmt.Sprintf("%.3f / %.3f / %.3f", c.Lag.Median, c.Lag.P99, c.Lag.Max))
	} else {
		p.row("Kernel lag:", "not known")
	}
	label := "CPU (% of one core):"
	if c.Shared {
		label = "CPU with the server's (% of one core):"
	}
	if c.Unknown {
		p.row(label, "not known")
		return
	}
	p.number(label, c.CPUPercent)
	p.number("CPU per event (us):", c.CPUPerEvent)
	p.number("Longest GC pause (ms):", c.MaxPause)
}

func (c *Cache) console(p *page) {
	if c.Prompt == 0 && c.ServerQueries == 0 {
		return
	}
	p.title("Prefix Cache", "-")
	if c.Prompt > 0 {
		p.count("Cached prompt tokens by usage:", c.Cached)
		p.count("Requests with cached tokens:", c.Requests)
	}
	if c.ServerQueries > 0 {
		p.row("Hits / lookups by the server (tokens):", fmt.Sprintf("%.0f / %.0f", c.ServerHits, c.ServerQueries))
	}
	p.number("Hit rate (%):", c.HitPercent)
}

// certifiedConsole writes the intervals of means, throughputs and percentiles, and the
// upper bounds of the latter.
func (s *Summary) certifiedConsole(p *page) {
	x := &s.Ossian
	if len(x.Intervals) > 0 {
		p.title("95 % Intervals", "-")
	}
	for _, m := range compared {
		if i, ok := x.Intervals[m.key]; ok {
			p.row(m.label+":", between(&i))
		}
	}
	p.title("Percentiles: 95 %, 99 % Sure Not Above", "-")
	for _, c := range x.Certified {
		text := fmt.Sprintf("%s, not certified: %d of %d samples", between(c.Interval), c.N, c.Need)
		if c.Certified {
			text = fmt.Sprintf("%s, %.2f", between(c.Interval), *c.Upper)
		}
		p.row(fmt.Sprintf("P%s %s (ms):", percentileName(c.P), strings.ToUpper(c.Metric)), text)
	}
}

func between(i *stat.Interval) string {
	if i == nil {
		return "[-, -]"
	}
	return fmt.Sprintf("[%.2f, %.2f]", i.Low, i.High)
}
