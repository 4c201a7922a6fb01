package size

// What an objective may be. Latencies are bounded from above and limit what a replica keeps. Rates
// are bounded from below, and are those of all replicas together: with queues that do not grow the
// answers leave as fast as requests come, so that no number of machines changes them.

import (
	"fmt"
	"slices"
	"strings"

	"ossian/internal/bench/sweep"
	"ossian/internal/nearest"
)

// Latencies are the metrics that may be bounded from above, in milliseconds (keys of bench.md 1.8).
func Latencies() (keys []string) {
	for _, statistic := range []string{"mean", "median", "p99"} {
		for _, of := range []string{"ttft", "tpot", "itl", "e2el"} {
			keys = append(keys, statistic+"_"+of+"_ms")
		}
	}
	return keys
}

// Rates are the metrics that may be bounded from below, per second of all replicas together.
func Rates() []string {
	return []string{"request_throughput", "output_throughput", "total_token_throughput"}
}

// CheckObjectives refuses an objective that no server can keep or miss: of another metric, in the wrong
// direction, or with a bound that is not above 0. The error says what to write.
func CheckObjectives(sla sweep.SLA) error {
	for _, objective := range sla {
		latency, rate := slices.Contains(Latencies(), objective.Metric), slices.Contains(Rates(), objective.Metric)
		given := objectiveText(objective)
		switch more := objective.Op[0] == '>'; {
		case !latency && !rate:
			known := append(Latencies(), Rates()...)
			return fmt.Errorf("objective %s: %s is not predicted; one of %s expected%s", given, objective.Metric, strings.Join(known, ", "), nearest.Hint(objective.Metric, known))
		case !(objective.Target > 0):
			return fmt.Errorf("objective %s: the bound is not above 0, and no server is there; write one above 0, as %s%s%s", given, objective.Metric, objective.Op, map[bool]string{true: "40", false: "100"}[latency])
		case latency && more:
			return fmt.Errorf("objective %s: a latency is bounded from above; write %s<=%v", given, objective.Metric, objective.Target)
		case rate && !more:
			return fmt.Errorf("objective %s: a rate is bounded from below; write %s>=%v", given, objective.Metric, objective.Target)
		}
	}
	return nil
}

// objectiveText is an objective as it is written.
func objectiveText(c sweep.Criterion) string {
	return fmt.Sprintf("%s%s%v", c.Metric, c.Op, c.Target)
}

// latencies are the objectives that a replica's load is limited by. Those of rates must hold at the
// question's own rate: an error says which rate they take.
func (q *Question) latencies() (limiting sweep.SLA, err error) {
	if err := CheckObjectives(q.SLA); err != nil {
		return nil, err
	}
	var input, output float64 // tokens of a request in the mean
	for _, objective := range q.SLA {
		if slices.Contains(Latencies(), objective.Metric) {
			limiting = append(limiting, objective)
			continue
		}
		if output == 0 {
			if input, output, err = q.meanTokens(); err != nil {
				return nil, err
			}
		}
		each := map[string]float64{"request_throughput": 1, "output_throughput": output, "total_token_throughput": input + output}[objective.Metric]
		offered := q.Rate * each
		const rounding = 1e-9
		if offered < objective.Target*(1-rounding) || (objective.Op == ">" && offered <= objective.Target*(1+rounding)) {
			return nil, fmt.Errorf("objective %s: it is of all replicas together, and %v requests/s of %s a request are %s/s however many machines there are; a rate of %s requests/s or more, or a lower bound, expected",
				objectiveText(objective), q.Rate, unitOf(objective.Metric, each), digits(offered), digits(objective.Target/each))
		}
	}
	return limiting, nil
}

// unitOf is what a request adds to a rate, in words.
func unitOf(metric string, each float64) string {
	switch metric {
	case "output_throughput":
		return digits(each) + " answer tokens"
	case "total_token_throughput":
		return digits(each) + " tokens"
	}
	return "1"
}

// meanTokens are the tokens of a request in the mean, of the prompt and of the answer.
func (q *Question) meanTokens() (input, output float64, err error) {
	load, err := q.Load(leastThorough, q.Rate)
	if err != nil {
		return 0, 0, err
	}
	for _, request := range load.Requests {
		input += float64(len(request.Prompt))
		output += float64(request.Output)
	}
	n := float64(len(load.Requests))
	return input / n, output / n, nil
}
