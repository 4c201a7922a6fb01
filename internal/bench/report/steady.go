package report

import (
	"encoding/json"
	"fmt"
	"math"

	"ossian/internal/stat"
)

// SteadyThreshold is the share of the concurrency that counts as steady.
const SteadyThreshold = 0.95

// A Window is where a run was steady: from the first moment with enough requests under
// way to the last moment at which they fell below that (bench.md 1.10). Times count from
// the first start.
type Window struct {
	Start        float64 `json:"start_s"`
	End          float64 `json:"end_s"`
	Duration     float64 `json:"duration_s"`
	Concurrency  int     `json:"target_concurrency"`
	Threshold    float64 `json:"threshold"`
	ThresholdAbs int     `json:"threshold_abs"`
	Peak         int     `json:"observed_peak"`
	Started      int     `json:"requests_started_in_window"`
	Completed    int     `json:"requests_completed_in_window"`
	Total        int     `json:"requests_total"` // that succeeded in the run
	Warning      *string `json:"warning"`        // nil = long enough
}

// A Steady is what a run did in its window.
type Steady struct {
	Window      Window       `json:"window"`
	RequestRate float64      `json:"request_throughput"`
	InputRate   float64      `json:"input_throughput"`  // prompt tokens of requests started inside, per second
	OutputRate  float64      `json:"output_throughput"` // tokens that came inside, per second
	TotalRate   float64      `json:"total_token_throughput"`
	MeanTTFT    float64      `json:"mean_ttft_ms"` // of requests started inside; milliseconds
	MedianTTFT  float64      `json:"median_ttft_ms"`
	TTFT        []percentile `json:"percentiles_ttft_ms"`
	MeanTPOT    float64      `json:"mean_tpot_ms"`
	MedianTPOT  float64      `json:"median_tpot_ms"`
	P90TPOT     float64      `json:"p90_tpot_ms"`
	P99TPOT     float64      `json:"p99_tpot_ms"`
}

// A percentile is written as [p, milliseconds].
type percentile struct{ P, Value float64 }

// MarshalJSON writes p as the tool has it.
func (p percentile) MarshalJSON() ([]byte, error) { return json.Marshal([]float64{p.P, p.Value}) }

// UnmarshalJSON reads what MarshalJSON writes.
func (p *percentile) UnmarshalJSON(text []byte) error {
	var pair []float64
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("a percentile is [p, milliseconds], found %s", text)
	}
	p.P, p.Value = pair[0], pair[1]
	return nil
}

// findSteady finds the window with at least threshold times the concurrency under way and
// measures in it. A window shorter than shortest seconds has a warning; 0 = 10 s or a
// tenth of the run, the longer. tokens are as they came, each at its time since the run
// began; nil = an event is a token, as for the compiled client. The result is nil
// without a bound on concurrency, at a finite rate, of conversations, where it is not
// wanted, or where the run never got there.
func (s *Summary) findSteady(threshold, shortest float64, tokens []arrival) *Steady {
	concurrency := s.Setup.Arrivals.Concurrency
	if concurrency <= 0 || !math.IsInf(s.Setup.Arrivals.Rate, 1) || s.Completed == 0 || s.Setup.Steady.Off || s.Setup.MultiTurn != nil {
		return nil
	}
	if shortest <= 0 {
		shortest = max(10, s.Duration/10)
	}
	window := Window{Concurrency: concurrency, Threshold: threshold, Total: s.Completed,
		ThresholdAbs: max(1, int(math.Ceil(threshold*float64(concurrency))))}
	if !window.find(s.Requests) {
		return nil
	}
	first, _, _ := firstAndLast(s.Requests)
	from, to := window.Start+first, window.End+first
	inside := func(at float64) bool { return at >= from && at < to }
	// Latencies and input are of requests that began inside, completions of those that ended
	// there, output of tokens that came there: three sets that overlap.
	var ttft, tpot []float64
	input, output := 0, 0.0
	for i := range s.Requests {
		request := &s.Requests[i]
		if !request.OK {
			continue
		}
		if inside(request.Start + request.Latency) {
			window.Completed++
		}
		if inside(request.Start) {
			window.Started++
			input += request.Input
			ttft = append(ttft, request.TTFT)
			if request.Usage > 1 {
				tpot = append(tpot, (request.Latency-request.TTFT)/float64(request.Usage-1))
			}
		}
		if tokens == nil && (request.Usage > 0 || len(request.ITL) > 0) {
			request.arrivals(func(at float64) {
				if inside(at) {
					output++
				}
			})
		}
	}
	if window.Started == 0 && window.Completed == 0 {
		return nil
	}
	for _, a := range tokens {
		if inside(a.at) {
			output += a.tokens
		}
	}
	if window.Duration < shortest {
		text := fmt.Sprintf("steady-state window is %.1fs (%.1f%% of run); may not be representative",
			window.Duration, 100*window.Duration/max(s.Duration, 1e-9))
		window.Warning = &text
	}
	return s.steadyIn(window, float64(input), output, ttft, tpot)
}

// steadyIn makes the numbers of a window.
func (s *Summary) steadyIn(window Window, input, output float64, ttft, tpot []float64) *Steady {
	long := max(window.Duration, 1e-9)
	firsts, gaps := NewDist(ttft), NewDist(tpot)
	out := &Steady{Window: window, RequestRate: float64(window.Completed) / long, InputRate: input / long, OutputRate: output / long,
		TotalRate: (input + output) / long, MeanTTFT: firsts.Mean, MedianTTFT: firsts.Median,
		MeanTPOT: gaps.Mean, MedianTPOT: gaps.Median, P90TPOT: gaps.P(90), P99TPOT: gaps.P(99), TTFT: []percentile{}}
	for _, p := range s.percentiles() {
		out.TTFT = append(out.TTFT, percentile{p, stat.Percentile(firsts.sorted, p) * 1000})
	}
	return out
}

// find sets the bounds of w by merging starts and ends, an end first where both are at
// once; false where the threshold is never reached.
func (w *Window) find(requests []Request) bool {
	starts, ends := startsAndEnds(requests)
	now, started, found := 0, 0, false // under way; starts passed; the window has begun
	var from, to float64
	for _, end := range ends {
		for started < len(starts) && starts[started] < end {
			now++
			w.Peak = max(w.Peak, now)
			if !found && now >= w.ThresholdAbs {
				from, found = starts[started], true
			}
			started++
		}
		if now == w.ThresholdAbs {
			to = end
		}
		now = max(0, now-1)
	}
	if !found || to < from {
		return false
	}
	w.Start, w.End = from-starts[0], to-starts[0]
	w.Duration = w.End - w.Start
	return true
}
