package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/bench/jsonstyle"
)

// A consolePage collects the lines of a console report.
type consolePage struct {
	strings.Builder
	frame int // width
}

// row writes a label and a value in the columns of every report: 40 and 10 characters,
// left-justified, so that lines end in spaces (bench.md 1.7).
func (p *consolePage) row(label, value string) { fmt.Fprintf(p, "%-40s %-10s\n", label, value) }

// count writes a whole number.
func (p *consolePage) count(label string, n int) { p.row(label, strconv.Itoa(n)) }

// number writes a number with two decimals, as Python does.
func (p *consolePage) number(label string, f float64) {
	text := fmt.Sprintf("%.2f", f)
	if math.IsNaN(f) {
		text = "nan"
	}
	p.row(label, text)
}

// title writes a title centred in the frame; an odd fill is longer on the right.
func (p *consolePage) title(text, fill string) {
	space := max(0, p.frame-len(text))
	p.WriteString(strings.Repeat(fill, space/2) + text + strings.Repeat(fill, space-space/2) + "\n")
}

// line writes a line of one character over the whole width.
func (p *consolePage) line(fill string) { p.WriteString(strings.Repeat(fill, p.frame) + "\n") }

// Console returns the report as the tool of the profile prints it.
func (s *Summary) Console() string {
	if s.Turns != nil {
		return s.turnsConsole()
	}
	switch s.Setup.Profile {
	case bench.LMDeploy:
		return s.lmdeployConsole()
	case bench.SGLang:
		return s.sglangConsole()
	}
	return s.vllmConsole()
}

// percentiles are those to report: P99 where none are named; the compiled client adds
// P90 where it is not.
func (s *Summary) percentiles() []float64 {
	out := slices.Clone(s.Setup.Percentiles)
	if len(out) == 0 {
		out = []float64{99}
	}
	if s.Setup.Profile == bench.VLLMRust && !slices.Contains(out, 90) {
		out = append(out, 90)
	}
	return out
}

// selected reports whether a metric is to be reported (bench.md 0, 1.1).
func (s *Summary) selected(metric string) bool {
	if len(s.Setup.Metrics) > 0 {
		return slices.Contains(s.Setup.Metrics, metric)
	}
	return metric == "ttft" || metric == "tpot" || metric == "itl" || (metric == "e2el" && s.Setup.Profile == bench.VLLMRust)
}

// hasTokens reports whether the rows that need a tokenizer are shown.
func (s *Summary) hasTokens() bool {
	return s.Setup.Tokenizer != "" || s.Setup.Profile == bench.VLLM011
}

// hasRate reports whether requests were to be sent at some rate rather than at once.
func (s *Summary) hasRate() bool { return !math.IsInf(s.Setup.Arrivals.Rate, 1) }

// openLoop reports whether it was set beforehand when each request is due; else all are at
// once, or the turns of a conversation when there is an answer.
func (s *Summary) openLoop() bool {
	a := &s.Setup.Arrivals
	return s.hasRate() || a.Timed || a.Ramp.Strategy != ""
}

// A metric is a latency with its names in the reports: in keys, in rows, above its section.
type metric struct {
	key, name, title string
	dist             Dist
}

// metrics returns the latencies to report, in order (bench.md 1.7).
func (s *Summary) metrics() []metric {
	// Without a tokenizer vLLM shows nothing that counts tokens.
	var out []metric
	add := func(m metric) {
		if s.selected(m.key) {
			out = append(out, m)
		}
	}
	if s.hasTokens() {
		add(metric{"ttft", "TTFT", "Time to First Token", s.TTFT})
		add(metric{"tpot", "TPOT", "Time per Output Token (excl. 1st token)", s.TPOT})
		add(metric{"itl", "ITL", "Inter-token Latency", s.ITL})
	}
	add(metric{"e2el", "E2EL", "End-to-end Latency", s.E2EL})
	if s.Setup.Profile == bench.VLLM && s.Setup.Arrivals.Concurrency > 0 {
		add(metric{"client_queue_time", "Client Queue Time", "Client-side Queueing", s.Queue})
		if s.hasRate() {
			add(metric{"e2el_including_client_queue", "E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency", s.E2ELQueue})
		}
	}
	return out
}

// percentileName is how a percentile is called in labels and keys (bench.md 1.6).
func percentileName(percentile float64) string {
	if percentile == math.Trunc(percentile) && math.Abs(percentile) < 1e15 {
		return strconv.Itoa(int(percentile))
	}
	return jsonstyle.PyFloat(percentile)
}

// vllmConsole is bench.md 1.7.
func (s *Summary) vllmConsole() string {
	page := &consolePage{frame: 50}
	rust := s.Setup.Profile == bench.VLLMRust
	if rust {
		page.frame = 60
	}
	if s.Setup.Profile == bench.VLLM { // the others say nothing of single failures
		s.failures(page)
	}
	page.title(" Serving Benchmark Result ", "=")
	s.vllmHead(page)
	if s.Probes != nil && s.Setup.Profile == bench.VLLM {
		page.title("Probe Requests", "-")
		page.count("Probe requests completed:", s.Probes.Completed)
		page.count("Probe requests failed:", s.Probes.Failed)
		page.number("Median probe E2EL (ms):", s.Probes.E2EL.Median)
		page.number("P99 probe E2EL (ms):", s.Probes.E2EL.P(99))
		page.number("Max probe E2EL (ms):", s.Probes.E2EL.Max)
	}
	for _, m := range s.metrics() {
		page.latency(m.title, m.name, m.dist, s.percentiles()...)
	}
	s.specSection(page)
	page.line("=")
	if rust && s.Steady != nil {
		s.Steady.console(&page.Builder)
	}
	return page.String()
}

// failures lists the first errors, as vLLM does before its report.
func (s *Summary) failures(page *consolePage) {
	if s.Failed == 0 {
		return
	}
	page.WriteString("Failed requests during benchmark run detected (capping to 10):\n")
	shown := 0
	for i := range s.Requests {
		if q := &s.Requests[i]; !q.OK && shown < 10 {
			fmt.Fprintf(page, "Error %d: %s\n", shown, bench.OneLine(q.Err))
			shown++
		}
	}
}

// vllmHead writes the rows between the frame and the first section.
func (s *Summary) vllmHead(page *consolePage) {
	// Rows appear and change their spelling from one version of the tool to the next.
	old, rust := s.Setup.Profile == bench.VLLM011, s.Setup.Profile == bench.VLLMRust
	page.count("Successful requests:", s.Completed)
	if !old {
		page.count("Failed requests:", s.Failed)
	}
	if c := s.Setup.Arrivals.Concurrency; c > 0 {
		page.count("Maximum request concurrency:", c)
	}
	if s.hasRate() {
		page.number("Request rate configured (RPS):", s.Setup.Arrivals.Rate)
	}
	page.number("Benchmark duration (s):", s.Duration)
	page.count("Total input tokens:", s.Input)
	if s.hasTokens() {
		page.count("Total generated tokens:", s.Output)
	}
	page.number("Request throughput (req/s):", s.RequestRate)
	if len(s.Setup.Goodput) > 0 && !(rust && s.Goodput == 0) {
		page.number("Request goodput (req/s):", s.Goodput)
	}
	if s.hasTokens() {
		page.number("Output token throughput (tok/s):", s.OutputRate)
		page.number("Peak output token throughput (tok/s):", s.PeakTokens)
	}
	page.number("Peak concurrent requests:", float64(s.PeakRequests))
	if !s.hasTokens() {
		return
	}
	if old {
		page.number("Total Token throughput (tok/s):", s.TotalRate)
	} else {
		page.number("Total token throughput (tok/s):", s.TotalRate)
	}
}

// specSection is about speculative decoding; its frame is 50 in every profile.
func (s *Summary) specSection(page *consolePage) {
	if s.Spec == nil || s.Setup.Profile == bench.VLLM011 {
		return
	}
	wide := page.frame // 60 for the compiled client
	page.frame = 50
	page.title("Speculative Decoding", "-")
	page.frame = wide
	page.number("Acceptance rate (%):", s.Spec.Rate)
	page.number("Acceptance length:", s.Spec.Length)
	page.count("Drafts:", s.Spec.Drafts)
	page.count("Draft tokens:", s.Spec.DraftTokens)
	page.count("Accepted tokens:", s.Spec.Accepted)
	if len(s.Spec.PerPosition) == 0 {
		return
	}
	page.WriteString("Per-position acceptance (%):\n")
	for i, rate := range s.Spec.PerPosition {
		page.number("  Position "+strconv.Itoa(i)+":", rate*100)
	}
}

// console writes the block that the compiled client prints below its report: frame 47,
// labels in 35 characters.
func (st *Steady) console(dst *strings.Builder) {
	window := &st.Window
	if window.Warning != nil {
		fmt.Fprintf(dst, "Warning: %s\n", *window.Warning)
	}
	page := &consolePage{frame: 47}
	row := func(label, form string, values ...any) {
		fmt.Fprintf(page, "%-35s "+form+"\n", append([]any{label}, values...)...)
	}
	page.title(" Steady-State Metrics ", "=")
	row("Concurrency threshold:", ">= %.2f * %d = %d", window.Threshold, window.Concurrency, window.ThresholdAbs)
	row("Window:", "%.1fs -> %.1fs  (%.1fs)", window.Start, window.End, window.Duration)
	row("Observed peak concurrency:", "%d", window.Peak)
	row("Requests started in window:", "%d / %d (%.1f%%)", window.Started, window.Total, 100*float64(window.Started)/float64(max(1, window.Total)))
	row("Requests completed in window:", "%d", window.Completed)
	page.line("-")
	row("Request throughput (req/s):", "%.2f", st.RequestRate)
	row("Output token throughput (tok/s):", "%.2f", st.OutputRate)
	row("Input token throughput (tok/s):", "%.2f", st.InputRate)
	row("Total token throughput (tok/s):", "%.2f", st.TotalRate)
	// Sections of what the window does not have are left out.
	if len(st.TTFT) > 0 || st.MeanTTFT > 0 {
		page.line("-")
		row("Mean TTFT (ms):", "%.2f", st.MeanTTFT)
		row("Median TTFT (ms):", "%.2f", st.MedianTTFT)
		for _, at := range st.TTFT {
			row(fmt.Sprintf("P%d TTFT (ms):", int(at.P)), "%.2f", at.Value)
		}
	}
	if st.MeanTPOT > 0 || st.MedianTPOT > 0 {
		page.line("-")
		row("Mean TPOT (ms):", "%.2f", st.MeanTPOT)
		row("Median TPOT (ms):", "%.2f", st.MedianTPOT)
		row("P90 TPOT (ms):", "%.2f", st.P90TPOT)
		row("P99 TPOT (ms):", "%.2f", st.P99TPOT)
	}
	page.line("=")
	dst.WriteString(page.String())
}

// lmdeployConsole is bench.md 4.1, the rows of 2026.
func (s *Summary) lmdeployConsole() string {
	page := &consolePage{frame: 50}
	s.profileHead(page)
	page.title("End-to-End Latency", "-")
	page.number("Mean E2E Latency (ms):", s.meanE2E())
	page.number("Median E2E Latency (ms):", s.meanE2E()-s.E2EL.Mean+s.E2EL.Median)
	page.latency("Time to First Token", "TTFT", s.TTFT, 99)
	page.latency("Time per Output Token (excl. 1st token)", "TPOT", s.TPOT, 99)
	page.latency("Inter-token Latency", "ITL", s.ITL, 99)
	page.line("=")
	return page.String()
}

// latency writes the section of one latency.
func (p *consolePage) latency(title, name string, dist Dist, percentiles ...float64) {
	p.title(title, "-")
	p.number("Mean "+name+" (ms):", dist.Mean)
	p.number("Median "+name+" (ms):", dist.Median)
	for _, at := range percentiles {
		p.number("P"+percentileName(at)+" "+name+" (ms):", dist.P(at))
	}
}

// sglangConsole is bench.md 4.2 in the form of sglang 0.5.23, which prints more.
func (s *Summary) sglangConsole() string {
	page := &consolePage{frame: 50}
	s.profileHead(page)
	page.number("Peak output token throughput (tok/s):", s.PeakTokens)
	page.count("Peak concurrent requests:", s.PeakRequests)
	page.number("Total token throughput (tok/s):", s.TotalRate)
	page.number("Concurrency:", s.Concurrency)
	s.attainment(page)
	page.latency("End-to-End Latency", "E2E Latency", s.E2EL, 90, 95, 99)
	page.latency("Time to First Token", "TTFT", s.TTFT, 90, 95, 99)
	page.latency("Time per Output Token (excl. 1st token)", "TPOT", s.TPOT, 90, 95, 99)
	page.latency("Inter-Token Latency", "ITL", s.ITL, 90, 95, 99)
	page.number("Max ITL (ms):", s.ITL.Max)
	page.line("=")
	return page.String()
}

// attainment is sglang's section on the objectives, in percent of all requests.
func (s *Summary) attainment(page *consolePage) {
	slos := s.Setup.Goodput
	if len(slos) == 0 || len(s.Requests) == 0 {
		return
	}
	words := make([]string, len(slos))
	for i, slo := range slos {
		words[i] = fmt.Sprintf("%s:%.6g", slo.Metric, slo.Limit.Seconds()*1000)
	}
	// Attained has the requests that kept all objectives behind those of each.
	percent := func(i int) float64 { return float64(s.Attained[i]) / float64(len(s.Requests)) * 100 }
	page.title("Goodput", "-")
	page.row("SLOs (ms):", strings.Join(words, " "))
	page.number("Request goodput (req/s):", s.Goodput)
	page.number("SLO attainment (%):", percent(len(slos)))
	for i, slo := range slos {
		page.number(strings.ToUpper(slo.Metric)+" SLO attainment (%):", percent(i))
	}
}

// profileHead writes the rows that lmdeploy and sglang have in common.
func (s *Summary) profileHead(page *consolePage) {
	sglang := s.Setup.Profile == bench.SGLang // else lmdeploy
	page.WriteString("\n")
	page.title(" Serving Benchmark Result ", "=")
	page.row("Backend:", s.Setup.Backend)
	page.row("Traffic request rate:", jsonstyle.PyFloat(s.Setup.Arrivals.Rate))
	if sglang {
		most := "not set"
		if c := s.Setup.Arrivals.Concurrency; c > 0 {
			most = strconv.Itoa(c)
		}
		page.row("Max request concurrency:", most)
	}
	page.count("Successful requests:", s.Completed)
	page.number("Benchmark duration (s):", s.Duration)
	page.count("Total input tokens:", s.Input)
	page.count("Total input text tokens:", s.Input)
	if !sglang {
		page.count("Total input vision tokens:", 0)
	}
	page.count("Total generated tokens:", s.Output)
	page.count("Total generated tokens (retokenized):", s.Retokenized)
	page.number("Request throughput (req/s):", s.RequestRate)
	page.number("Input token throughput (tok/s):", s.InputRate)
	page.number("Output token throughput (tok/s):", s.OutputRate)
}
