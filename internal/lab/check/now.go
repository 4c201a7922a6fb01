package check

// Where the server is: what load measured, and what its counters say since its start.

import "strings"

// Now says where the server is.
type Now struct {
	NotMeasured string        `json:"not_measured,omitempty"` // why, and what would
	Measured    []Measurement `json:"measured,omitempty"`
	Counters    []Figure      `json:"counters"` // since the start, of whatever clients sent
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
			value, ok := s.metrics.sum(metric)
			if one.histogram {
				var n float64
				value, _ = s.metrics.sum(metric + "_sum")
				if n, ok = s.metrics.sum(metric + "_count"); n == 0 {
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
	_, n, _ := s.metrics.first(s.prefix()+":request_success_total", "sglang:num_requests_total", "lmdeploy:num_requests_finished", "llamacpp:n_decode_total")
	return n
}
