package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/bench"
)

// A page collects the lines of a console report.
type page struct {
	strings.Builder
	frame int // width
}

// row writes a label and a value in the columns of every report: 40 and 10 characters,
// left-justified, so that lines end in spaces (bench.md 1.7).
func (p *page) row(label, value string) { fmt.Fprintf(p, "%-40s %-10s\n", label, value) }

func (p *page) count(label string, n int) { p.row(label, strconv.Itoa(n)) }

func (p *page) number(label string, f float64) {
	text := fmt.Sprintf("%.2f", f)
	if math.IsNaN(f) {
		text = "nan"
	}
	p.row(label, text)
}

// title writes a title centred in the frame; an odd fill is longer on the right.
func (p *page) title(text, fill string) {
	space := max(0, p.frame-len(text))
	p.WriteString(strings.Repeat(fill, space/2) + text + strings.Repeat(fill, space-space/2) + "\n")
}

func (p *page) line(fill string) { p.WriteString(strings.Repeat(fill, p.frame) + "\n") }

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

// finite reports whether requests were to be sent at some rate rather than at once.
func (s *Summary) finite() bool { return !math.IsInf(s.Setup.Arrivals.Rate, 1) }

// open reports whether it was set beforehand when each request is due; else all are at
// once, or the turns of a conversation when there is an answer.
func (s *Summary) open() bool {
	a := &s.Setup.Arrivals
	return s.finite() || a.Timed || a.Ramp.Strategy != ""
}

// A metric is a latency with its names in the reports.
type metric struct {
	key, name, title string
	dist             Dist
}

// metrics returns the latencies to report, in order (bench.md 1.7).
func (s *Summary) metrics() []metric {
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
		if s.finite() {
			add(metric{"e2el_including_client_queue", "E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency", s.E2ELQueue})
		}
	}
	return out
}

// percentileName is how a percentile is called in labels and keys (bench.md 1.6).
func percentileName(p float64) string {
	if p == math.Trunc(p) && math.Abs(p) < 1e15 {
		return strconv.Itoa(int(p))
	}
	return PyFloat(p)
}

// vllmConsole is bench.md 1.7.
func (s *Summary) vllmConsole() string {
	p := &page{frame: 50}
	rust := s.Setup.Profile == bench.VLLMRust
	if rust {
		p.frame = 60
	}
	if s.Setup.Profile == bench.VLLM {
		s.failures(p)
	}
	p.title(" Serving Benchmark Result ", "=")
	s.vllmHead(p)
	if s.Probes != nil && s.Setup.Profile == bench.VLLM {
		p.title("Probe Requests", "-")
		p.count("Probe requests completed:", s.Probes.Completed)
		p.count("Probe requests failed:", s.Probes.Failed)
		p.number("Median probe E2EL (ms):", s.Probes.E2EL.Median)
		p.number("P99 probe E2EL (ms):", s.Probes.E2EL.P(99))
		p.number("Max probe E2EL (ms):", s.Probes.E2EL.Max)
	}
	for _, m := range s.metrics() {
		p.latency(m.title, m.name, m.dist, s.percentiles()...)
	}
	s.specSection(p)
	p.line("=")
	if rust && s.Steady != nil {
		s.Steady.console(&p.Builder)
	}
	return p.String()
}

// failures lists the first errors, as vLLM does before its report.
func (s *Summary) failures(p *page) {
	if s.Failed == 0 {
		return
	}
	p.WriteString("Failed requests during benchmark run detected (capping to 10):\n")
	n := 0
	for i := range s.Requests {
		if q := &s.Requests[i]; !q.OK && n < 10 {
			fmt.Fprintf(p, "Error %d: %s\n", n, bench.OneLine(q.Err))
			n++
		}
	}
}

// vllmHead writes the rows between the frame and the first section.
func (s *Summary) vllmHead(p *page) {
	old, rust := s.Setup.Profile == bench.VLLM011, s.Setup.Profile == bench.VLLMRust
	p.count("Successful requests:", s.Completed)
	if !old {
		p.count("Failed requests:", s.Failed)
	}
	if c := s.Setup.Arrivals.Concurrency; c > 0 {
		p.count("Maximum request concurrency:", c)
	}
	if s.finite() {
		p.number("Request rate configured (RPS):", s.Setup.Arrivals.Rate)
	}
	p.number("Benchmark duration (s):", s.Duration)
	p.count("Total input tokens:", s.Input)
	if s.hasTokens() {
		p.count("Total generated tokens:", s.Output)
	}
	p.number("Request throughput (req/s):", s.RequestRate)
	if len(s.Setup.Goodput) > 0 && !(rust && s.Goodput == 0) {
		p.number("Request goodput (req/s):", s.Goodput)
	}
	if s.hasTokens() {
		p.number("Output token throughput (tok/s):", s.OutputRate)
		p.number("Peak output token throughput (tok/s):", s.PeakTokens)
	}
	p.number("Peak concurrent requests:", float64(s.PeakRequests))
	if !s.hasTokens() {
		return
	}
	if old {
		p.number("Total Token throughput (tok/s):", s.TotalRate)
	} else {
		p.number("Total token throughput (tok/s):", s.TotalRate)
	}
}

// specSection is about speculative decoding; its frame is 50 in every profile.
func (s *Summary) specSection(p *page) {
	if s.Spec == nil || s.Setup.Profile == bench.VLLM011 {
		return
	}
	wide := p.frame
	p.frame = 50
	p.title("Speculative Decoding", "-")
	p.frame = wide
	p.number("Acceptance rate (%):", s.Spec.Rate)
	p.number("Acceptance length:", s.Spec.Length)
	p.count("Drafts:", s.Spec.Drafts)
	p.count("Draft tokens:", s.Spec.DraftTokens)
	p.count("Accepted tokens:", s.Spec.Accepted)
	if len(s.Spec.PerPosition) == 0 {
		return
	}
	p.WriteString("Per-position acceptance (%):\n")
	for i, rate := range s.Spec.PerPosition {
		p.number("  Position "+strconv.Itoa(i)+":", rate*100)
	}
}

// console writes the block that the compiled client prints below its report: frame 47,
// labels in 35 characters.
func (st *Steady) console(b *strings.Builder) {
	w := &st.Window
	if w.Warning != nil {
		fmt.Fprintf(b, "Warning: %s\n", *w.Warning)
	}
	p := &page{frame: 47}
	row := func(label, form string, values ...any) {
		fmt.Fprintf(p, "%-35s "+form+"\n", append([]any{label}, values...)...)
	}
	p.title(" Steady-State Metrics ", "=")
	row("Concurrency threshold:", ">= %.2f * %d = %d", w.Threshold, w.Concurrency, w.ThresholdAbs)
	row("Window:", "%.1fs -> %.1fs  (%.1fs)", w.Start, w.End, w.Duration)
	row("Observed peak concurrency:", "%d", w.Peak)
	row("Requests started in window:", "%d / %d (%.1f%%)", w.Started, w.Total, 100*float64(w.Started)/float64(max(1, w.Total)))
	row("Requests completed in window:", "%d", w.Completed)
	p.line("-")
	row("Request throughput (req/s):", "%.2f", st.RequestRate)
	row("Output token throughput (tok/s):", "%.2f", st.OutputRate)
	row("Input token throughput (tok/s):", "%.2f", st.InputRate)
	row("Total token throughput (tok/s):", "%.2f", st.TotalRate)
	if len(st.TTFT) > 0 || st.MeanTTFT > 0 {
		p.line("-")
		row("Mean TTFT (ms):", "%.2f", st.MeanTTFT)
		row("Median TTFT (ms):", "%.2f", st.MedianTTFT)
		for _, at := range st.TTFT {
			row(fmt.Sprintf("P%d TTFT (ms):", int(at.P)), "%.2f", at.Value)
		}
	}
	if st.MeanTPOT > 0 || st.MedianTPOT > 0 {
		p.line("-")
		row("Mean TPOT (ms):", "%.2f", st.MeanTPOT)
		row("Median TPOT (ms):", "%.2f", st.MedianTPOT)
		row("P90 TPOT (ms):", "%.2f", st.P90TPOT)
		row("P99 TPOT (ms):", "%.2f", st.P99TPOT)
	}
	p.line("=")
	b.WriteString(p.String())
}

// lmdeployConsole is bench.md 4.1, the rows of 2026.
func (s *Summary) lmdeployConsole() string {
	p := &page{frame: 50}
	s.profileHead(p)
	p.title("End-to-End Latency", "-")
	p.number("Mean E2E Latency (ms):", s.meanE2E())
	p.number("Median E2E Latency (ms):", s.meanE2E()-s.E2EL.Mean+s.E2EL.Median)
	p.latency("Time to First Token", "TTFT", s.TTFT, 99)
	p.latency("Time per Output Token (excl. 1st token)", "TPOT", s.TPOT, 99)
	p.latency("Inter-token Latency", "ITL", s.ITL, 99)
	p.line("=")
	return p.String()
}

// latency writes the section of one latency.
func (p *page) latency(title, name string, d Dist, percentiles ...float64) {
	p.title(title, "-")
	p.number("Mean "+name+" (ms):", d.Mean)
	p.number("Median "+name+" (ms):", d.Median)
	for _, at := range percentiles {
		p.number("P"+percentileName(at)+" "+name+" (ms):", d.P(at))
	}
}

// sglangConsole is bench.md 4.2 in the form of sglang 0.5.23, which prints more.
func (s *Summary) sglangConsole() string {
	p := &page{frame: 50}
	s.profileHead(p)
	p.number("Peak output token throughput (tok/s):", s.PeakTokens)
	p.count("Peak concurrent requests:", s.PeakRequests)
	p.number("Total token throughput (tok/s):", s.TotalRate)
	p.number("Concurrency:", s.Concurrency)
	s.attainment(p)
	p.latency("End-to-End Latency", "E2E Latency", s.E2EL, 90, 95, 99)
	p.latency("Time to First Token", "TTFT", s.TTFT, 90, 95, 99)
	p.latency("Time per Output Token (excl. 1st token)", "TPOT", s.TPOT, 90, 95, 99)
	p.latency("Inter-Token Latency", "ITL", s.ITL, 90, 95, 99)
	p.number("Max ITL (ms):", s.ITL.Max)
	p.line("=")
	return p.String()
}

// attainment is sglang's section on the objectives, in percent of all requests.
func (s *Summary) attainment(p *page) {
	slos := s.Setup.Goodput
	if len(slos) == 0 || len(s.Requests) == 0 {
		return
	}
	words := make([]string, len(slos))
	for i, slo := range slos {
		words[i] = fmt.Sprintf("%s:%.6g", slo.Metric, slo.Limit.Seconds()*1000)
	}
	percent := func(i int) float64 { return float64(s.Attained[i]) / float64(len(s.Requests)) * 100 }
	p.title("Goodput", "-")
	p.row("SLOs (ms):", strings.Join(words, " "))
	p.number("Request goodput (req/s):", s.Goodput)
	p.number("SLO attainment (%):", percent(len(slos)))
	for i, slo := range slos {
		p.number(strings.ToUpper(slo.Metric)+" SLO attainment (%):", percent(i))
	}
}

// profileHead writes the rows that lmdeploy and sglang have in common.
func (s *Summary) profileHead(p *page) {
	sglang := s.Setup.Profile == bench.SGLang
	p.WriteString("\n")
	p.title(" Serving Benchmark Result ", "=")
	p.row("Backend:", s.Setup.Backend)
	p.row("Traffic request rate:", PyFloat(s.Setup.Arrivals.Rate))
	if sglang {
		most := "not set"
		if c := s.Setup.Arrivals.Concurrency; c > 0 {
			most = strconv.Itoa(c)
		}
		p.row("Max request concurrency:", most)
	}
	p.count("Successful requests:", s.Completed)
	p.number("Benchmark duration (s):", s.Duration)
	p.count("Total input tokens:", s.Input)
	p.count("Total input text tokens:", s.Input)
	if !sglang {
		p.count("Total input vision tokens:", 0)
	}
	p.count("Total generated tokens:", s.Output)
	p.count("Total generated tokens (retokenized):", s.Retokenized)
	p.number("Request throughput (req/s):", s.RequestRate)
	p.number("Input token throughput (tok/s):", s.InputRate)
	p.number("Output token throughput (tok/s):", s.OutputRate)
}
