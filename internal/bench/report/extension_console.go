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
	ext := &s.Ossian
	page := &consolePage{frame: 50}
	page.title(" Ossian: Can It Be Trusted ", "=")
	// The judgement first: who reads no further has read that.
	verdict := "valid"
	if !ext.Valid {
		verdict = "INVALID"
	}
	page.row("Run:", verdict)
	page.row("Client:", ext.Client.Verdict)
	for _, finding := range ext.Findings {
		kind := "invalid"
		if finding.Warning {
			kind = "warning"
		}
		fmt.Fprintf(page, "%s: %s: %s %s (bound %s)\n", kind, finding.ID, fourDigits(finding.Measured), finding.What, fourDigits(finding.Bound))
		if !finding.Warning {
			fmt.Fprintf(page, "  it touches %s\n", finding.Touched())
		}
	}
	page.title("Outcomes", "-")
	page.count("With output:", ext.Outcomes.Output)
	page.count("Empty (not averaged in):", ext.Outcomes.Empty)
	page.count("Failed before the first byte:", ext.Outcomes.Refused)
	page.count("Broken off while streaming:", ext.Outcomes.Aborted)
	for _, cause := range slices.Sorted(maps.Keys(ext.Outcomes.Causes)) {
		fmt.Fprintf(page, "  %d x %s\n", ext.Outcomes.Causes[cause], cause)
	}
	page.title("Tokens, Not Events", "-")
	page.number("Tokens per chunk:", ext.Stream.TokensPerChunk)
	page.number("Output token throughput (tok/s):", ext.Stream.Rate)
	page.number("Peak output token throughput (tok/s):", ext.Stream.Peak)
	page.count("Peak concurrent requests (exact):", ext.Stream.PeakRequests)
	if ext.Steady != nil {
		page.number("Steady-state output throughput (tok/s):", ext.Steady.OutputRate)
		page.number("Steady-state window (s):", ext.Steady.Window.Duration)
	}
	page.title("Waiting, Phase by Phase", "-")
	page.phase("First chunk", ext.FirstChunk)
	page.phase("First token", ext.FirstToken)
	page.phase("Last token", ext.Service)
	page.phase("Wait for a slot", ext.QueueWait)
	if s.openLoop() {
		page.phase("First token since due", ext.OpenLoop.FirstToken)
		page.phase("Last token since due", ext.OpenLoop.E2EL)
	}
	ext.Client.console(page)
	ext.Cache.console(page, ext.Workload.Cache)
	s.certifiedConsole(page)
	page.line("=")
	return page.String()
}

// fourDigits writes a number with at most four digits that matter.
func fourDigits(f float64) string { return fmt.Sprintf("%.4g", f) }

// phase writes mean, median and P99 of a distribution, if there is one.
func (p *consolePage) phase(name string, dist Dist) {
	if dist.N == 0 {
		return
	}
	p.row(name+" mean / p50 / p99 (ms):", fmt.Sprintf("%.2f / %.2f / %.2f", dist.Mean, dist.Median, dist.P99))
}

// console writes the section on the measuring process; CPU is not known of a log without an
// end.
func (c *Client) console(page *consolePage) {
	page.title("This Client", "-")
	page.row("Send lateness p50 / p99 / max (ms):", fmt.Sprintf("%.3f / %.3f / %.3f", c.SendLate.Median, c.SendLate.P99, c.SendLate.Max))
	if c.Lag.N > 0 {
		page.row("Kernel lag p50 / p99 / max (ms):", fmt.Sprintf("%.3f / %.3f / %.3f", c.Lag.Median, c.Lag.P99, c.Lag.Max))
	} else {
		page.row("Kernel lag:", "not known")
	}
	label := "CPU (% of one core):"
	if c.Shared {
		label = "CPU with the server's (% of one core):"
	}
	if c.Unknown {
		page.row(label, "not known")
		return
	}
	page.number(label, c.CPUPercent)
	page.number("CPU per event (us):", c.CPUPerEvent)
	page.number("Longest GC pause (ms):", c.MaxPause)
}

// console writes the section on the prefix cache, if anybody says something about one. before is
// what was done about it before the run.
func (c *Cache) console(page *consolePage, before string) {
	if c.Prompt == 0 && c.ServerQueries == 0 && before == "" {
		return
	}
	page.title("Prefix Cache", "-")
	if before != "" {
		page.row("Before the run (--cache):", before)
	}
	if c.Prompt == 0 && c.ServerQueries == 0 {
		return
	}
	if c.Prompt > 0 {
		page.count("Cached prompt tokens by usage:", c.Cached)
		page.count("Requests with cached tokens:", c.Requests)
	}
	if c.ServerQueries > 0 {
		page.row("Hits / lookups by the server (tokens):", fmt.Sprintf("%.0f / %.0f", c.ServerHits, c.ServerQueries))
	}
	page.number("Hit rate (%):", c.HitPercent)
}

// certifiedConsole writes the intervals of means, throughputs and percentiles, and the
// upper bounds of the latter.
func (s *Summary) certifiedConsole(page *consolePage) {
	ext := &s.Ossian
	if len(ext.Intervals) > 0 {
		page.title("95 % Intervals", "-")
	}
	for _, m := range comparedMetrics {
		if i, ok := ext.Intervals[m.key]; ok {
			page.row(m.label+":", intervalText(&i))
		}
	}
	page.title("Percentiles: 95 %, 99 % Sure Not Above", "-")
	for _, certified := range ext.Certified {
		text := fmt.Sprintf("%s, not certified: %d of %d samples", intervalText(certified.Interval), certified.N, certified.Need)
		if certified.Certified {
			text = fmt.Sprintf("%s, %.2f", intervalText(certified.Interval), *certified.Upper)
		}
		page.row(fmt.Sprintf("P%s %s (ms):", percentileName(certified.P), strings.ToUpper(certified.Metric)), text)
	}
}

// intervalText is an interval, or that there is none.
func intervalText(interval *stat.Interval) string {
	if interval == nil {
		return "[-, -]"
	}
	return fmt.Sprintf("[%.2f, %.2f]", interval.Low, interval.High)
}
