package simulate

import (
	"math"
	"strings"
	"time"

	"ossian/internal/lab"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

// usualRate is an engine's at its defaults where neither the world nor a prediction says one, in tokens
// per second.
const usualRate = 1000

// speed is how many times as fast a setting is here as it is predicted to be: what the world plants,
// noise apart.
func (s *server) speed(elapsed time.Duration) float64 {
	speed := 1.0
	if factor := s.World.Engines[s.Engine.Name].Factor; factor > 0 {
		speed = factor
	}
	for _, word := range words(s.Setting) {
		speed *= 1 + s.World.Effects[word]
	}
	for _, joint := range s.World.Joint {
		if has(s.Setting, joint.Flags) {
			for _, word := range joint.Flags {
				speed /= 1 + s.World.Effects[word]
			}
			speed *= 1 + joint.Effect
		}
	}
	if drift := s.World.Drift; drift.Change != 0 {
		gone := 1.0
		if drift.Over > 0 {
			gone = min(1, elapsed.Seconds()/drift.Over.Seconds())
		}
		speed *= 1 + drift.Change*gone
	}
	return speed
}

// figures are those of a run at a speed: the predictor's, each kind as the speed changes it, and even
// ones where it has none.
func (s *server) figures(workload planfile.Workload, speed float64) map[string]float64 {
	predicted := s.foreseen(workload)
	rate := s.World.Rate
	if rate == 0 {
		rate = usualRate
	}
	if total, known := predicted["total_token_throughput"]; known {
		rate = total.Value
	}
	metrics := even(workload, rate*speed)
	at := slowed(predicted, s.atOnce(workload), workload, speed)
	for name, interval := range predicted {
		switch {
		case name == "duration":
			metrics[name] = at
		case planfile.IsTime(name):
			metrics[name] = interval.Value / speed
		case strings.HasSuffix(name, "_throughput"):
			metrics[name] = interval.Value * speed
			if duration, known := predicted["duration"]; known { // the same requests in another time
				metrics[name] = interval.Value * duration.Value / at
			}
		default: // counts do not depend on the speed
			metrics[name] = interval.Value
		}
	}
	return metrics
}

// slowed is a predicted duration at another speed. A server that waits for requests is not faster for
// being able to: only what follows the last arrival, and a run that all requests at once would lengthen,
// depend on it.
func slowed(predicted, atOnce map[string]ledger.Interval, workload planfile.Workload, speed float64) float64 {
	duration := predicted["duration"].Value
	if workload.RequestRate <= 0 {
		return duration / speed
	}
	arriving := min(duration, float64(workload.NumPrompts)/workload.RequestRate)
	return max(arriving+(duration-arriving)/speed, atOnce["duration"].Value/speed)
}

// atOnce is what is predicted of a workload without times between its requests.
func (s *server) atOnce(workload planfile.Workload) map[string]ledger.Interval {
	if workload.RequestRate <= 0 {
		return nil
	}
	workload.RequestRate = 0
	return s.foreseen(workload)
}

// foreseen is what the predictor says of a workload on this server; none: it knows nothing. Flags outside
// its model do nothing but what the world plants, so that it is asked without them.
func (m *Measurer) foreseen(request lab.Request, workload planfile.Workload) map[string]ledger.Interval {
	if m.Predictor == nil {
		return nil
	}
	ask := func(flags map[string]string) map[string]ledger.Interval {
		setting := ledger.Setting{Engine: request.Setting.Engine, Flags: flags}
		return m.Predictor.Predict(request.Engine, setting, request.Model, workload).Metrics
	}
	if all := ask(request.Setting.Flags); len(all) > 0 {
		return all
	}
	modelled := map[string]string{}
	for flag, value := range request.Setting.Flags {
		if len(ask(map[string]string{flag: value})) > 0 {
			modelled[flag] = value
		}
	}
	return ask(modelled)
}

// foreseen is the same of a server that runs.
func (s *server) foreseen(workload planfile.Workload) map[string]ledger.Interval {
	return s.Measurer.foreseen(s.Request, workload)
}

// misfit is why a setting cannot run on the machine that is predicted; empty: it can, or nobody knows. It
// does not depend on the workload.
func (m *Measurer) misfit(request lab.Request) string {
	if m.Predictor == nil {
		return ""
	}
	return m.Predictor.Predict(request.Engine, request.Setting, request.Model, probe).Misfit
}

// probe is a small workload that every predictor knows.
var probe = planfile.Workload{Name: "probe", Dataset: "random", InputLen: 16, OutputLen: 2, NumPrompts: 1, Endpoint: "completions"}

// even are figures of a run that agree with each other: as many requests at once as the workload allows,
// each the same, a tenth of a request's time before its first token. The rate is that of all tokens,
// input and output, in a second.
func even(workload planfile.Workload, rate float64) map[string]float64 {
	requests, input, output := float64(workload.NumPrompts), float64(workload.InputLen), float64(workload.OutputLen)
	if input+output == 0 {
		input, output = 220, 200
	}
	duration := requests * (input + output) / rate
	together := requests
	if workload.MaxConcurrency > 0 {
		together = min(together, float64(workload.MaxConcurrency))
	}
	if workload.RequestRate > 0 {
		duration = max(duration, requests/workload.RequestRate)
		rate = requests * (input + output) / duration
	}
	latency := 1000 * duration * together / requests
	first := latency / 10
	metrics := map[string]float64{
		"completed": requests, "failed": 0, "duration": duration, "total_input_tokens": requests * input, "total_output_tokens": requests * output,
		"request_throughput": requests / duration, "output_throughput": requests * output / duration, "total_token_throughput": rate,
		"max_concurrent_requests": together,
	}
	between := (latency - first) / math.Max(1, output-1)
	for name, value := range map[string]float64{"ttft": first, "e2el": latency, "tpot": between, "itl": between} {
		for _, kind := range []string{"mean", "median", "p99"} {
			metrics[kind+"_"+name+"_ms"] = value
		}
	}
	return metrics
}
