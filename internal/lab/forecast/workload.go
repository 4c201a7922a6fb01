package forecast

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"ossian/internal/lab/planfile"
	"ossian/internal/lab/predict"
	"ossian/internal/nearest"
)

// Tokens of a request of ShareGPT in the mean, prompts and answers, under the filter of the
// published tools: 215,312 and 194,171 of 1,000 requests with seed 0.
const (
	shareGPTInput  = 215.3
	shareGPTOutput = 194.2
)

// shareGPT is the workload of published reports whose prompts are drawn here: plans need its file.
var shareGPT = planfile.Workload{Name: "sharegpt", Dataset: "sharegpt", NumPrompts: 1000, Endpoint: "chat"}

// Named returns a workload by its name in bench.md 5, or by its lengths, INPUT/OUTPUT.
func Named(name string) (planfile.Workload, error) {
	known := planfile.Published()
	known[shareGPT.Name] = shareGPT
	if load, ok := known[strings.ToLower(name)]; ok {
		load.Seed = nil // whoever predicts says it
		return load, nil
	}
	load := planfile.Workload{Name: name, Dataset: "random", NumPrompts: 1000, Endpoint: "completions"}
	if n, err := fmt.Sscanf(name, "%d/%d", &load.InputLen, &load.OutputLen); n == 2 && err == nil && load.InputLen > 0 && load.OutputLen > 0 {
		return load, nil
	}
	names := slices.Sorted(maps.Keys(known))
	return load, fmt.Errorf("workload %q: one of %s, or lengths as 1024/128, expected%s", name, strings.Join(names, ", "), nearest.Hint(name, names))
}

// Workload returns the prompts and arrivals of a plan's workload with a seed, which that of the
// workload replaces. An error says that its prompts cannot be known without its file.
func Workload(load planfile.Workload, seed int64) (predict.Workload, error) {
	if load.Seed != nil {
		seed = int64(*load.Seed)
	}
	if load.NumPrompts < 1 || load.NumPrompts > maxPrompts {
		return predict.Workload{}, fmt.Errorf("workload %s: %d requests, 1 to %d expected", load.Name, load.NumPrompts, maxPrompts)
	}
	var out predict.Workload
	var err error
	switch {
	case load.Dataset == "sharegpt":
		output := shareGPTOutput
		if load.OutputLen > 0 {
			output = float64(load.OutputLen)
		}
		n := float64(load.NumPrompts)
		out = predict.ShareGPT(load.NumPrompts, int(n*shareGPTInput), int(n*output), seed)
	case load.Dataset == "random" && load.InputLen > 0 && load.OutputLen > 0:
		if tokens := float64(load.NumPrompts) * float64(load.InputLen); tokens > maxTokens {
			return out, fmt.Errorf("workload %s: %.3g prompt tokens, at most %.0g are simulated: fewer requests show the same", load.Name, tokens, float64(maxTokens))
		}
		out, err = random(load, seed)
	default:
		return out, fmt.Errorf("workload %s: prompts of the data set %q are in a file: sharegpt, or random with both lengths, expected", load.Name, load.Dataset)
	}
	if err != nil {
		return out, err
	}
	if load.Name != "" {
		out.Name = load.Name
	}
	out.Chat, out.Concurrency = load.Endpoint == "chat", load.MaxConcurrency
	out.Arrive(load.RequestRate, seed)
	if load.IgnoreEOS != nil && !*load.IgnoreEOS {
		out.Assumptions = append(out.Assumptions, "answers are as long as their limit: when a model ends by itself is not predicted")
	}
	return out, nil
}

// Limits of what is simulated; memory and time follow from them.
const (
	maxPrompts = 1_000_000
	maxTokens  = 500_000_000
)

// random are prompts of the lengths given, or of lengths around them.
func random(load planfile.Workload, seed int64) (predict.Workload, error) {
	if load.RangeRatio == 0 {
		return predict.Random(load.NumPrompts, load.InputLen, load.OutputLen, seed), nil
	}
	draw := rand.New(rand.NewPCG(uint64(seed), 17))
	// Lengths are uniform from (1 − r) to (1 + r) times the middle, as in vLLM's client.
	uniform := func(middle int) int {
		low := math.Floor(float64(middle) * (1 - load.RangeRatio))
		high := math.Ceil(float64(middle) * (1 + load.RangeRatio))
		return max(int(low)+draw.IntN(int(high-low)+1), 1)
	}
	inputs, outputs := make([]int, load.NumPrompts), make([]int, load.NumPrompts)
	for i := range inputs {
		inputs[i], outputs[i] = uniform(load.InputLen), uniform(load.OutputLen)
	}
	out, err := predict.Lengths(inputs, outputs, seed)
	out.Assumptions = append(out.Assumptions, "lengths drawn uniformly within the range, not as the client's generator draws them")
	return out, err
}
