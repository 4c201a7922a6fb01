package check

// Where the server is: what load measured, and what its counters say since its start.

import (
	"math"
	"strings"

	"ossian/internal/stat"
)

// Now says where the server is.
type Now struct {
	NotMeasured string        `json:"not_measured,omitempty"` // why, and what would
	Measured    []Measurement `json:"measured,omitempty"`
	Differences []Difference  `json:"differences,omitempty"`
	Counters    []Figure      `json:"counters"` // since the start, of whatever clients sent
}

// A Load is what the load that was sent has shown.
type Load struct {
	Measured    []Measurement
	Differences []Difference
}

// A Difference is what two workloads show of an optimisation that tells them apart: prompts that were
// sent before are answered sooner where a prefix cache has them.
type Difference struct {
	Area   string `json:"area"`
	Effect Effect `json:"effect"` // measured; negative = a time that is shorter
}

// PrefixCache is the area of the difference between prompts that were sent before and others.
const PrefixCache = areaPrefix

// NewDifference makes a difference of pairs of runs, each with and without; the interval is that of the mean
// of their log ratios. False = too few pairs.
func NewDifference(area, metric, workload string, with, without []float64) (Difference, bool) {
	var logs []float64
	for i := range min(len(with), len(without)) {
		if with[i] > 0 && without[i] > 0 {
			logs = append(logs, math.Log(with[i]/without[i]))
		}
	}
	interval, ok := stat.MeanInterval(logs, 0.95)
	if !ok || len(logs) < leastSamples {
		return Difference{}, false
	}
	percent := func(log float64) float64 { return digits(100*math.Expm1(log), 3) }
	return Difference{area, Effect{Origin: Measured, Metric: metric, Workload: workload, Percent: percent(stat.Mean(logs)), Low: percent(interval.Low), High: percent(interval.High)}}, true
}

// sureDrop is how many percent shorter a time has to be at least, for the difference alone to say that an
// optimisation is on.
const sureDrop = 10

// tell has the rows of the difference's area know it. Of one that is off it is no effect: that would be
// what turning it on gives.
func (d *Difference) tell(rows []Row) {
	for i := range rows {
		row := &rows[i]
		if row.Area != d.Area {
			continue
		}
		row.Evidence = append(row.Evidence, Evidence{Measured, d.Effect.Workload + ": " + effectText(&d.Effect, On)})
		if row.State == Unknown && d.Effect.High < -sureDrop {
			row.State = On
		}
		if row.State == On {
			row.Effect = d.Effect
		}
	}
}

// A Measurement is several runs of one workload.
type Measurement struct {
	Workload    string   `json:"workload"`
	Concurrency int      `json:"concurrency"`
	Runs        int      `json:"runs"`
	Requests    int      `json:"requests"`      // of all runs, answered
	Input       float64  `json:"input_tokens"`  // of a request, on average
	Output      float64  `json:"output_tokens"` // likewise
	Values      []Figure `json:"values"`        // by the keys of bench.md 1.8, with intervals over runs
	Findings    []string `json:"findings,omitempty"`
}

// value is the figure of a name.
func (m *Measurement) value(name string) (Figure, bool) {
	for _, one := range m.Values {
		if one.Name == name {
			return one, true
		}
	}
	return Figure{}, false
}

// NewMeasurement makes a measurement of the values of runs, by name; order is that of the report.
func NewMeasurement(workload string, concurrency, requests int, input, output float64, order []string, runs map[string][]float64) Measurement {
	made := Measurement{Workload: workload, Concurrency: concurrency, Requests: requests, Input: digits(input, 4), Output: digits(output, 4)}
	for _, name := range order {
		samples := runs[name]
		if len(samples) == 0 {
			continue
		}
		made.Runs = len(samples)
		made.Values = append(made.Values, repeated(name, samples))
	}
	return made
}

// A counted figure is read from counters: a sum, or the mean of a histogram.
type counted struct {
	name, unit string
	scale      float64
	metrics    []string // the first that there is
	histogram  bool
}

var countedFigures = []counted{
	{"requests finished", "", 1, []string{"{prefix}:request_success_total", "sglang:num_requests_total", "lmdeploy:num_requests_finished", "trtllm_request_success_total"}, false},
	{"prompt tokens", "", 1, []string{"{prefix}:prompt_tokens_total", "sglang:prompt_tokens_total", "llamacpp:prompt_tokens_total", "lmdeploy:prompt_tokens_total"}, false},
	{"generated tokens", "", 1, []string{"{prefix}:generation_tokens_total", "sglang:generation_tokens_total", "llamacpp:tokens_predicted_total", "lmdeploy:generation_tokens_total"}, false},
	{"running", "", 1, []string{"{prefix}:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing", "lmdeploy:num_requests_running"}, false},
	{"waiting", "", 1, []string{"{prefix}:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred", "lmdeploy:num_requests_waiting"}, false},
	{"mean time to first token", "ms", 1000, []string{"{prefix}:time_to_first_token_seconds", "sglang:time_to_first_token_seconds", "lmdeploy:time_to_first_token_seconds", "trtllm_time_to_first_token_seconds"}, true},
	{"mean time between tokens", "ms", 1000, []string{"{prefix}:inter_token_latency_seconds", "{prefix}:time_per_output_token_seconds", "sglang:inter_token_latency_seconds", "lmdeploy:iter_token_latency"}, true},
	{"mean time in the queue", "ms", 1000, []string{"{prefix}:request_queue_time_seconds", "sglang:queue_time_seconds"}, true},
	{"tokens generated a second by one request", "tok/s", 1, []string{"llamacpp:predicted_tokens_seconds"}, false},
	{"slots busy in a step", "", 1, []string{"llamacpp:n_busy_slots_per_decode"}, false},
}

// counters are what the server has counted since its start.
func (s *seen) counters() (now Now) {
	names := strings.NewReplacer("{prefix}", s.prefix())
	for _, one := range countedFigures {
		for _, metric := range one.metrics {
			metric = names.Replace(metric)
			value, ok := s.metrics.Sum(metric)
			if one.histogram {
				var n float64
				value, _ = s.metrics.Sum(metric + "_sum")
				if n, ok = s.metrics.Sum(metric + "_count"); n == 0 {
					ok = false
				} else {
					value /= n
				}
			}
			if ok {
				now.Counters = append(now.Counters, figure(one.name, value*one.scale, one.unit, "metric "+metric))
				break
			}
		}
	}
	return now
}

// served is how many requests have ended since the start.
func (s *seen) served() float64 {
	_, n, _ := s.metrics.First(s.prefix()+":request_success_total", "sglang:num_requests_total", "lmdeploy:num_requests_finished", "llamacpp:n_decode_total")
	return n
}
