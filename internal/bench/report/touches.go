package report

import (
	"slices"
	"strings"
)

// A finding is about metrics, not about a run as a whole: what came late or together spoils the
// gaps of a stream and its fullest second, and neither its end nor the tokens of the run
// (lab.md 4.4). This file says which metrics a finding touches.

// Everything stands for all metrics in Finding.Touches.
const Everything = "*"

// Groups of metrics that faults touch together.
var (
	gapMetrics     = []string{"itl", "max_output_tokens_per_s", "steady_output_throughput", "steady_total_token_throughput"} // what is counted event by event
	latencyMetrics = []string{"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue", "request_goodput"}
	countMetrics   = []string{"total_output_tokens", "output_throughput", "total_token_throughput", "max_output_tokens_per_s", "tpot", "request_goodput"} // of output tokens
	rateMetrics    = []string{"request_throughput", "input_throughput", "output_throughput", "total_token_throughput", "request_goodput", "duration"}
)

// touchedBy are the metrics that the fault touches wherever it is found. What is not here
// touches everything: success below 95 %, outputs that are not as long as asked, a load that
// was not the one offered, caches that save the work, runs that are not whole.
var touchedBy = map[string][]string{
	FaultBursts:     gapMetrics,
	FaultPeakLow:    countMetrics,
	FaultPeakHigh:   gapMetrics,
	FaultStreamTime: {"e2el", "tpot", "e2el_including_client_queue", "request_goodput"},
	FaultLag:        append([]string{"ttft"}, gapMetrics...), // the first event, too, may have the time of the second
	FaultLate:       latencyMetrics,
	FaultEmpty:      {"completed", "request_throughput", "request_goodput", "ttft", "e2el", "e2el_including_client_queue"},
	FaultEarly:      {"ttft", "tpot", "itl", "request_goodput"},
}

// touchesOf are the metrics that a finding of a kind touches.
func touchesOf(id string) []string {
	if metrics, ok := touchedBy[id]; ok {
		return slices.Clone(metrics)
	}
	return []string{Everything}
}

// TouchesMetric reports whether the finding is about the metric of a key of bench.md 1.8, such
// as p99_itl_ms or output_throughput; steady_ before it makes no difference.
func (f Finding) TouchesMetric(key string) bool {
	steady, metric := strings.HasPrefix(key, "steady_"), metricOf(key)
	return slices.ContainsFunc(f.Touches, func(touched string) bool {
		return touched == Everything || touched == metric || (steady && touched == key)
	})
}

// Touched names the metrics for people.
func (f Finding) Touched() string {
	switch {
	case slices.Contains(f.Touches, Everything):
		return "every metric"
	case len(f.Touches) == 0:
		return "no metric"
	}
	return strings.Join(f.Touches, ", ")
}

// metricOf is the name in Finding.Touches for a key: of a latency without its statistic.
func metricOf(key string) string {
	key = strings.TrimPrefix(key, "steady_")
	switch key { // the lists of a detailed result
	case "ttfts":
		return "ttft"
	case "itls":
		return "itl"
	case "latencies":
		return "e2el"
	case "queue_times":
		return "client_queue_time"
	case "output_lens":
		return "total_output_tokens"
	}
	if _, latency := latencyKey(key); latency {
		_, rest, _ := strings.Cut(key, "_")
		return strings.TrimSuffix(rest, "_ms")
	}
	return key
}

// against are the findings of a list that make a metric invalid; warnings do not.
func against(list []Finding, key string) (out []Finding) {
	for _, finding := range list {
		if !finding.Warning && finding.TouchesMetric(key) {
			out = append(out, finding)
		}
	}
	return out
}

// Stands reports whether nothing but warnings speaks against a metric of the run, by its key
// in bench.md 1.8. A run that is not valid may have metrics that stand; it is refused for
// publication all the same (bench.md 6, item 7).
func (s *Summary) Stands(key string) bool { return len(against(s.Ossian.Findings, key)) == 0 }

// Stands is Summary.Stands of a result, whatever tool wrote it.
func (r *Result) Stands(key string) bool { return len(r.Against(key)) == 0 }

// Against are the findings because of which a metric does not stand.
func (r *Result) Against(key string) []Finding { return against(r.Findings(), key) }

// Findings are what speaks against the result: what Ossian's client found, and of results of
// other tools what their numbers show.
func (r *Result) Findings() []Finding {
	if r.Ossian != nil {
		return r.Ossian.Findings
	}
	found := new(ledger)
	completed, ended := r.Values["completed"], r.Values["completed"]+r.Values["failed"]
	if prompts := r.Values["num_prompts"]; prompts > ended { // tools that count no failures
		ended = prompts
	}
	found.refuse(FaultFailures, ended > 0 && completed/ended < 0.95, 100*completed/max(1, ended), 95, "percent of the requests succeeded: %.0f of %.0f", completed, ended)
	itl, hasGaps := r.Values["median_itl_ms"]
	tpot := r.Values["median_tpot_ms"]
	found.refuse(FaultBursts, hasGaps && completed > 0 && itl < 0.01 && tpot >= 1, itl, 0.01, "ms between events at the median, with %.2f ms per output token: events come in bursts", tpot)
	most := 1000 * r.Values["max_concurrent_requests"]
	peak := r.Values["max_output_tokens_per_s"]
	found.refuse(FaultPeakHigh, most > 0 && peak > most, peak, most, "peak tokens/s with at most %.0f requests at once", most/1000)
	return found.list
}

// completeFindings gives findings of files that are older than Finding.Touches the metrics
// that their kind touches.
func completeFindings(list []Finding) {
	for i := range list {
		if list[i].Touches == nil {
			list[i].Touches = touchesOf(list[i].ID)
		}
	}
}
