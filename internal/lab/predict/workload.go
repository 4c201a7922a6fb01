package predict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"ossian/internal/bench/dataset"
	"ossian/internal/sample"
)

// A Request is one prompt and the number of tokens that answer it.
type Request struct {
	At     time.Duration // when it is sent, since the run began
	Prompt []int32       // ids; requests that begin alike share prefixes
	Output int           // tokens of the answer, at least 1
}

// A Workload is what a client sends in one run.
type Workload struct {
	Name        string
	Requests    []Request
	Concurrency int      // most requests at once, 0 = no bound
	Chat        bool     // a template surrounds prompts, and requests pass the front end of chats
	Assumptions []string // what is not known of the workload and was made up, for the report
}

// ids are below this; a model's vocabulary folds them.
const idRange = 1 << 24

// Random returns n prompts of exactly input tokens whose ids depend on seed, on the number of the
// request and on the place alone: workloads of one seed share prefixes (lab.md 7, V-CARRY).
func Random(n, input, output int, seed int64) Workload {
	w := Workload{Name: fmt.Sprintf("random %d/%d", input, output)}
	for i := range n {
		w.Requests = append(w.Requests, Request{Prompt: prompt(uint64(seed), i, input), Output: output})
	}
	return w
}

// prompt draws ids by seed and number; shorter ones begin like longer ones.
func prompt(seed uint64, number, length int) []int32 {
	ids := make([]int32, length)
	random := rand.NewPCG(seed, uint64(number))
	for i := 0; i < length; i += 2 {
		draw := random.Uint64()
		ids[i] = int32(draw % idRange)
		if i+1 < length {
			ids[i+1] = int32((draw >> 32) % idRange)
		}
	}
	return ids
}

// Shorten gives answers that end before their limit lengths such that they have total tokens
// together: an answer ends at each token with the same chance, and at the limit in any case.
func (w *Workload) Shorten(total int, seed int64) {
	limit := 0
	for _, request := range w.Requests {
		limit += request.Output
	}
	if total <= 0 || total >= limit || len(w.Requests) == 0 {
		return
	}
	random := rand.New(rand.NewPCG(uint64(seed), 7))
	draws := make([]float64, len(w.Requests))
	for i := range draws {
		draws[i] = random.ExpFloat64()
	}
	// The mean length before the limit is found by halving; the last tokens go to those with room.
	lengths := func(mean float64) (sum int, each []int) {
		for i, request := range w.Requests {
			n := min(max(int(math.Ceil(draws[i]*mean)), 1), request.Output)
			sum, each = sum+n, append(each, n)
		}
		return sum, each
	}
	low, high := 0.0, 1e9
	for range 80 {
		middle := (low + high) / 2
		if sum, _ := lengths(middle); sum > total {
			high = middle
		} else {
			low = middle
		}
	}
	_, each := lengths(low)
	for i, n := range each {
		w.Requests[i].Output = n
	}
	w.Assumptions = append(w.Assumptions, "answers shorter than their limit: lengths exponential, with the total given")
}

// Spread of the lengths of first turns and answers of ShareGPT under the filter of the published
// tools (at least 4 tokens each, prompt at most 1,024, both at most 2,048): standard deviations of
// the logarithms of lognormal lengths. The totals are the caller's.
const (
	shareInputSpread  = 1.5
	shareOutputSpread = 0.9
)

// ShareGPT returns n requests with lengths as ShareGPT has them and these totals of tokens. The
// data set is not in the program, so the lengths are drawn; the workload says so.
func ShareGPT(n, inputTokens, outputTokens int, seed int64) Workload {
	w := Workload{Name: "sharegpt", Assumptions: []string{fmt.Sprintf(
		"ShareGPT's lengths are drawn: lognormal, spread %.2f of prompts and %.2f of answers, cut as the tools cut, totals as given", shareInputSpread, shareOutputSpread)}}
	random := rand.New(rand.NewPCG(uint64(seed), 11))
	inputs := scaled(random, n, inputTokens, shareInputSpread, 4, 1024)
	outputs := scaled(random, n, outputTokens, shareOutputSpread, 4, 1024)
	for i := range n {
		w.Requests = append(w.Requests, Request{Prompt: prompt(uint64(seed)+1<<32, i, inputs[i]), Output: outputs[i]})
	}
	return w
}

// scaled draws n lognormal lengths between low and high that add up to total.
func scaled(random *rand.Rand, n, total int, spread float64, low, high int) []int {
	draws := make([]float64, n)
	for i := range draws {
		draws[i] = math.Exp(spread * random.NormFloat64())
	}
	lengths := make([]int, n)
	fill := func(scale float64) (sum int) {
		for i, draw := range draws {
			lengths[i] = min(max(int(math.Round(scale*draw)), low), high)
			sum += lengths[i]
		}
		return sum
	}
	least, most := 0.0, 1e7
	for range 80 {
		if middle := (least + most) / 2; fill(middle) > total {
			most = middle
		} else {
			least = middle
		}
	}
	left := total - fill(least)
	for i := 0; left > 0 && i < n; i++ { // what rounding has left
		if lengths[i] < high {
			lengths[i]++
			left--
		}
	}
	return lengths
}

// FromQueries returns the workload of a data set whose prompts are ids.
func FromQueries(queries []dataset.Query) (Workload, error) {
	var w Workload
	for i, query := range queries {
		if len(query.IDs) == 0 {
			return w, fmt.Errorf("query %d: no token ids: make the data set with ids, or give lengths", i)
		}
		w.Requests = append(w.Requests, Request{At: query.At, Prompt: query.IDs, Output: max(query.Output, 1)})
	}
	return w, nil
}

// Lengths returns a workload of prompts that share nothing.
func Lengths(inputs, outputs []int, seed int64) (Workload, error) {
	if len(inputs) != len(outputs) {
		return Workload{}, fmt.Errorf("%d lengths of prompts, %d of answers: want as many", len(inputs), len(outputs))
	}
	w := Workload{Name: "lengths"}
	for i := range inputs {
		w.Requests = append(w.Requests, Request{Prompt: prompt(uint64(seed)+2<<32, i, inputs[i]), Output: outputs[i]})
	}
	return w, nil
}

// Arrive sets the times of the requests: gaps of a Poisson process of that many requests per
// second, rescaled so that the last is sent at n/rate (bench.md 1.3). rate <= 0 or infinite: all
// at once.
func (w *Workload) Arrive(rate float64, seed int64) {
	n := len(w.Requests)
	if rate <= 0 || math.IsInf(rate, 1) || n == 0 {
		for i := range w.Requests {
			w.Requests[i].At = 0
		}
		return
	}
	random := rand.New(rand.NewPCG(uint64(seed), 13))
	at := make([]float64, n)
	sum := 0.0
	for i := range at {
		sum += random.ExpFloat64()
		at[i] = sum
	}
	for i := range w.Requests {
		w.Requests[i].At = time.Duration(at[i] / sum * float64(n) / rate * float64(time.Second))
	}
}

// check refuses what no run is.
func (w *Workload) check() error {
	if len(w.Requests) == 0 {
		return fmt.Errorf("workload %q has no requests", w.Name)
	}
	for i, request := range w.Requests {
		if len(request.Prompt) == 0 || request.Output < 1 || request.At < 0 {
			return fmt.Errorf("workload %q: request %d: prompt of %d tokens, answer of %d, sent at %v: want at least 1 and 1, and no negative time", w.Name, i, len(request.Prompt), request.Output, request.At)
		}
	}
	if !slices.IsSortedFunc(w.Requests, func(a, b Request) int { return int(a.At - b.At) }) {
		return fmt.Errorf("workload %q: requests are not in the order of their times", w.Name)
	}
	return nil
}

// greedy are the parameters of every sequence in virtual time: nothing is sampled.
var greedy = &sample.Params{}
