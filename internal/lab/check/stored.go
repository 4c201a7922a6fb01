package check

// Stored results of the same model beside what was measured now. Numbers of other workloads are
// shown and not compared.

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"strings"

	"ossian/internal/bench/resultfile"
	"ossian/internal/stat"
)

// Stored is a result of a file.
type Stored struct {
	Source   string   `json:"source"` // FILE#N
	Model    string   `json:"model,omitempty"`
	Workload string   `json:"workload"`
	Values   []Figure `json:"values"`
	Against  []Figure `json:"measured_against,omitempty"` // measured now, in percent of the stored
	Note     string   `json:"note,omitempty"`
}

// compared are the numbers of a stored result that are shown.
var compared = []struct{ key, unit string }{
	{"output_throughput", "tok/s"}, {"total_token_throughput", "tok/s"}, {"mean_ttft_ms", "ms"}, {"mean_tpot_ms", "ms"},
}

// stored reads result files and keeps what is of the model.
func stored(files []string, model string, measured []Measurement) (out []Stored, err error) {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		results, err := resultfile.Read(data, func(r *resultfile.Result) (*resultfile.Result, error) { return r, nil })
		if err != nil {
			return nil, fmt.Errorf("--compare %s: %w", file, err)
		}
		for i, result := range results {
			one := Stored{Source: fmt.Sprintf("%s#%d", file, i+1), Model: clip(cmp.Or(result.Info["model_id"], result.Info["model"]))}
			if one.Model != "" && !sameModel(one.Model, model) {
				continue
			}
			if one.Model == "" {
				one.Note = "the result does not name its model"
			}
			input, output := fill(&one, result)
			against(&one, input, output, result.Values["max_concurrency"], measured)
			out = append(out, one)
		}
	}
	return out, nil
}

// fill takes workload and numbers from a result.
func fill(one *Stored, result *resultfile.Result) (input, output float64) {
	done := result.Values["completed"]
	if done > 0 {
		input, output = result.Values["total_input_tokens"]/done, result.Values["total_output_tokens"]/done
	}
	one.Workload = fmt.Sprintf("%s requests of %s/%s tokens", formatNumber(done), formatNumber(math.Round(input)), formatNumber(math.Round(output)))
	if most := result.Values["max_concurrency"]; most > 0 {
		one.Workload += fmt.Sprintf(", at most %s at once", formatNumber(most))
	} else if rate := result.Info["request_rate"]; rate != "" {
		one.Workload += ", rate " + clip(rate)
	}
	for _, key := range compared {
		if value, ok := result.Values[key.key]; ok {
			one.Values = append(one.Values, figure(key.key, value, key.unit, "file "+one.Source))
		}
	}
	return input, output
}

// against compares with a measurement of the same lengths and concurrency.
func against(one *Stored, input, output, most float64, measured []Measurement) {
	near := func(a, b float64) bool { return a > 0 && math.Abs(a-b) <= 0.05*a }
	for i := range measured {
		now := &measured[i]
		if !near(now.Input, input) || !near(now.Output, output) || int(most) != now.Concurrency {
			continue
		}
		for _, old := range one.Values {
			if value, ok := now.value(old.Name); ok && old.Value > 0 {
				one.Against = append(one.Against, figure(old.Name, 100*value.Value/old.Value, "%", "computed: measured / stored"))
			}
		}
		return
	}
	if one.Note == "" {
		one.Note = "another workload than what was measured: not compared"
		if len(measured) == 0 {
			one.Note = "nothing was measured now: not compared"
		}
	}
}

// sameModel reports whether names are of one model: whoever published it, and in whatever folder it lies.
func sameModel(a, b string) bool {
	base := func(name string) string {
		name = strings.TrimRight(strings.ToLower(name), "/")
		return strings.TrimSuffix(name[strings.LastIndexAny(name, `/\`)+1:], ".gguf")
	}
	return base(a) == base(b)
}

// leastSamples is how many runs an interval needs: that of two runs is wider than any use.
const leastSamples = 3

// repeated is the mean of runs with Student's interval of 95 %.
func repeated(name string, samples []float64) Figure {
	unit := ""
	switch {
	case strings.HasSuffix(name, "_ms"):
		unit = "ms"
	case strings.HasSuffix(name, "throughput"):
		unit = "tok/s"
	}
	out := figure(name, stat.Mean(samples), unit, fmt.Sprintf("%s: mean of %d runs", Measured, len(samples)))
	if interval, ok := stat.MeanInterval(samples, 0.95); ok && len(samples) >= leastSamples {
		out.Interval = &[2]float64{digits(interval.Low, 3), digits(interval.High, 3)}
	}
	return out
}
