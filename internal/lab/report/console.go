package report

import (
	"fmt"
	"strings"
)

// console writes a trial's metrics as the client of the published reports prints them (bench.md 1.7), so
// that a reader of those finds every number where it is used to be. What a trial has no figure for has no
// row.
func console(metrics map[string]float64) string {
	var out strings.Builder
	row := func(label, key string, whole bool) {
		value, there := metrics[key]
		switch {
		case there && whole:
			fmt.Fprintf(&out, "%-40s %-10.0f\n", label, value)
		case there:
			fmt.Fprintf(&out, "%-40s %-10.2f\n", label, value)
		}
	}
	out.WriteString(centred(" Serving Benchmark Result ", '=') + "\n")
	row("Successful requests:", "completed", true)
	row("Failed requests:", "failed", true)
	row("Benchmark duration (s):", "duration", false)
	row("Total input tokens:", "total_input_tokens", true)
	row("Total generated tokens:", "total_output_tokens", true)
	row("Request throughput (req/s):", "request_throughput", false)
	row("Request goodput (req/s):", "request_goodput", false)
	row("Output token throughput (tok/s):", "output_throughput", false)
	row("Peak output token throughput (tok/s):", "max_output_tokens_per_s", false)
	row("Peak concurrent requests:", "max_concurrent_requests", false)
	row("Total token throughput (tok/s):", "total_token_throughput", false)
	for _, section := range []struct{ title, name, key string }{
		{"Time to First Token", "TTFT", "ttft"}, {"Time per Output Token (excl. 1st token)", "TPOT", "tpot"},
		{"Inter-token Latency", "ITL", "itl"}, {"End-to-end Latency", "E2EL", "e2el"},
	} {
		if _, there := metrics["mean_"+section.key+"_ms"]; !there {
			continue
		}
		out.WriteString(centred(section.title, '-') + "\n")
		row("Mean "+section.name+" (ms):", "mean_"+section.key+"_ms", false)
		row("Median "+section.name+" (ms):", "median_"+section.key+"_ms", false)
		row("P99 "+section.name+" (ms):", "p99_"+section.key+"_ms", false)
	}
	out.WriteString(strings.Repeat("=", frame))
	return trimmed(out.String())
}

// frame is the width of the published console report.
const frame = 50

// centred puts a title into a line; an odd fill is longer on the right.
func centred(title string, fill rune) string {
	room := max(0, frame-len(title))
	left := room / 2
	return strings.Repeat(string(fill), left) + title + strings.Repeat(string(fill), room-left)
}

// trimmed takes the spaces at ends of lines off, which the tools print and no document should hold.
func trimmed(block string) string {
	lines := strings.Split(block, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}
