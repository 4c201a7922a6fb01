package check

// The load of --measure: one request at a time, then several, each a few runs of random prompts
// that no cache has; and what of this machine and of the model's files makes a bound of it.

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/client"
	"ossian/internal/bench/report"
	"ossian/internal/lab/check"
	"ossian/internal/lab/engines"
	"ossian/internal/load"
	"ossian/internal/plan"
	"ossian/internal/tiny"
)

const (
	leastRuns    = 5   // of a workload
	inputLen     = 128 // tokens of a prompt
	outputLen    = 64  // of an answer
	pairs        = 5   // of runs with prompts that are new, and sent again
	againPrompts = 8
	several      = 8 // requests at once in the second workload
	mostPerRun   = 200
)

// loadTime is how long all load together may take, tokenizers included, and runTime, how long a run
// lasts on a server that is fast enough. Tests are in a hurry, and their machines may be slow.
var (
	loadTime = 60 * time.Second
	runTime  = 2 * time.Second
)

// A sender measures one server.
type sender struct {
	options   *options
	access    bench.Access
	note      io.Writer
	bandwidth float64 // bytes per second of this machine, measured; 0 = was not
}

// measure sends load until it has a few runs of both workloads, or the time is over.
func (l *sender) measure(ctx context.Context, server *check.Server) (out check.Load, err error) {
	if onProcessor(server) && l.options.bandwidth == 0 {
		threads, _ := strconv.Atoi(server.Settings["threads"])
		if threads <= 0 {
			threads = plan.ThisProcess().Threads
		}
		if l.bandwidth, err = load.Bandwidth(ctx, threads); err != nil {
			return out, fmt.Errorf("measuring memory bandwidth: %w", err)
		}
	}
	until, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	first, err := l.connect(until, server)
	if err != nil {
		return out, err
	}
	defer first.Close()
	for _, concurrency := range []int{1, several} {
		one, failed := l.workload(until, first, concurrency)
		if one.Runs > 0 {
			out.Measured = append(out.Measured, one)
		}
		if err = failed; err != nil {
			break
		}
	}
	if err == nil {
		err = l.again(until, first, &out)
	}
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case until.Err() == nil && err != nil:
		return out, err
	case len(out.Measured) == 0: // the time is over; what there is counts
		return out, fmt.Errorf("no run ended within %v", loadTime)
	}
	return out, nil
}

// again sends prompts twice, in pairs of runs, and keeps what the second time shows of a prefix cache.
func (l *sender) again(ctx context.Context, first *client.Client, out *check.Load) error {
	var once, twice []float64
	for pair := range pairs {
		salt := fmt.Sprintf("%016x", rand.Uint64())
		for _, into := range []*[]float64{&once, &twice} {
			result, err := l.one(ctx, first, 1, againPrompts, 0, salt)
			if err != nil {
				return err
			}
			if value, ok := result.Values["mean_ttft_ms"]; ok && len(*into) == pair {
				*into = append(*into, value)
			}
		}
	}
	workload := fmt.Sprintf("%d prompts of %d tokens sent again, one at once", againPrompts, inputLen)
	if difference, ok := check.NewDifference(check.PrefixCache, "mean_ttft_ms", workload, twice, once); ok {
		out.Differences = append(out.Differences, difference)
	}
	return nil
}

// connect finds model and tokenizer. Where the model's tokenizer is not at hand, that of the built-in
// model makes the prompts: their lengths are then the server's count.
func (l *sender) connect(ctx context.Context, server *check.Server) (*client.Client, error) {
	options := l.clientOptions(server, 1, 1)
	options.Tokenizer = l.options.model
	made, err := client.New(options)
	if err != nil {
		return nil, err
	}
	if err = made.Connect(ctx); err == nil {
		return made, nil
	}
	// Connect failed. The tokenizer is the one cause that can be helped; any other comes back
	// below.
	made.Close()
	options.Tokenizer = tiny.Name
	if made, err = client.New(options); err != nil {
		return nil, err
	}
	if err := made.Connect(ctx); err != nil {
		made.Close()
		return nil, err
	}
	fmt.Fprintln(l.note, "The model's tokenizer is not on this machine: prompts are made with another, and counted by the server.")
	return made, nil
}

// clientOptions are those of a run.
func (l *sender) clientOptions(server *check.Server, concurrency, prompts int) client.Options {
	options := client.Defaults(bench.VLLM)
	options.BaseURL, options.Model, options.Access = server.URL, server.Model, l.access
	options.Data.Input, options.Data.Output, options.Data.Prompts = inputLen, outputLen, prompts
	options.Arrivals.Concurrency, options.Salt = concurrency, client.RandomSalt
	options.Warmups = 0 // it would send a prompt of the run, which a cache then has: the first run warms up
	options.Metrics = []string{"ttft", "tpot", "itl"}
	return options
}

// reported are the numbers of a workload, in the report's order.
var reported = []string{"output_throughput", "total_token_throughput", "mean_ttft_ms", "mean_tpot_ms"}

// workload runs one workload: a short run says how long a run of so many requests takes, the others
// are measured.
func (l *sender) workload(ctx context.Context, first *client.Client, concurrency int) (check.Measurement, error) {
	name := fmt.Sprintf("random %d/%d, %d at once, prompts salted", inputLen, outputLen, concurrency)
	done := 0
	runs, found := map[string][]float64{}, findings{}
	var input, output, requests float64
	made := func() check.Measurement {
		one := check.NewMeasurement(name, concurrency, int(requests), input/max(requests, 1), output/max(requests, 1), reported, runs)
		one.Runs, one.Findings = done, found.lines(done)
		return one
	}
	prompts := concurrency + 1
	for index := 0; index <= leastRuns; index++ {
		result, err := l.one(ctx, first, concurrency, prompts, index, client.RandomSalt)
		if err != nil {
			return made(), err
		}
		if index == 0 { // only its duration counts
			if seconds := result.Values["duration"]; seconds > 0 {
				prompts = min(max(int(float64(prompts)*runTime.Seconds()/seconds), concurrency), mostPerRun)
			}
			continue
		}
		if result.Values["completed"] == 0 {
			return check.Measurement{}, fmt.Errorf("none of %d requests was answered: %s", prompts, firstError(result.Recording))
		}
		done++
		for _, key := range reported {
			if value, ok := result.Values[key]; ok && result.Stands(key) { // findings spoil what they touch, not the run
				runs[key] = append(runs[key], value)
			}
		}
		requests += result.Values["completed"]
		input += result.Values["total_input_tokens"]
		output += result.Values["total_output_tokens"]
		found.add(result.Findings())
	}
	return made(), nil
}

// firstError is why a request failed.
func firstError(recording *bench.Recording) string {
	for i := range recording.Samples {
		if sample := &recording.Samples[i]; !sample.OK() {
			return bench.OneLine(fmt.Sprintf("status %d %s", sample.Status, sample.Err))
		}
	}
	return "no answer"
}

// one makes one run. Runs of one salt and index have the same prompts.
func (l *sender) one(ctx context.Context, first *client.Client, concurrency, prompts, index int, salt string) (*client.Result, error) {
	options := first.Options
	options.Arrivals.Concurrency, options.Data.Prompts, options.Salt = concurrency, prompts, salt
	made, err := first.With(options)
	if err != nil {
		return nil, err
	}
	defer made.Close()
	if err := made.Prepare(ctx); err != nil {
		return nil, err
	}
	return made.Run(ctx, index, client.Files{})
}

// onProcessor reports whether the server computes with this machine's processor.
func onProcessor(server *check.Server) bool {
	if !server.Local || server.Played != nil {
		return false
	}
	offloaded, told := server.Settings["offloaded"]
	return server.Engine == engines.Ossian || (server.Engine == engines.LlamaCpp && told && offloaded == "0")
}

// findings are what spoke against runs, by id: each is told once, with its largest figure.
type findings map[string]*struct {
	runs  int
	worst report.Finding
}

func (f findings) add(all []report.Finding) {
	for _, one := range all {
		if f[one.ID] == nil {
			f[one.ID] = &struct {
				runs  int
				worst report.Finding
			}{worst: one}
		}
		entry := f[one.ID]
		entry.runs++
		if one.Measured > entry.worst.Measured {
			entry.worst = one
		}
	}
}

func (f findings) lines(runs int) (out []string) {
	for _, id := range slices.Sorted(maps.Keys(f)) {
		one := f[id]
		out = append(out, fmt.Sprintf("%s in %d of %d runs, at most: %.4g %s", id, min(one.runs, runs), runs, one.worst.Measured, one.worst.What))
	}
	return out
}
