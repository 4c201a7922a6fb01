package check

// The load of --measure: one request at a time, then several, each a few runs of random prompts
// that no cache has; and what of this machine and of the model's files makes a bound of it.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/client"
	"ossian/internal/lab/check"
	"ossian/internal/lab/engines"
	"ossian/internal/load"
	"ossian/internal/plan"
	"ossian/internal/tensor"
	"ossian/internal/tiny"
)

const (
	loadTime   = 60 * time.Second // all load together, tokenizers included
	leastRuns  = 5                // of a workload
	inputLen   = 128              // tokens of a prompt
	outputLen  = 64               // of an answer
	several    = 8                // requests at once in the second workload
	warmups    = 1
	mostPerRun = 200
)

// runTime is how long a run lasts on a server that is fast enough; tests are in a hurry.
var runTime = 2 * time.Second

// A sender measures one server.
type sender struct {
	options   *options
	access    bench.Access
	note      io.Writer
	bandwidth float64 // bytes per second of this machine, measured; 0 = was not
}

// measure sends load until it has a few runs of both workloads, or the time is over.
func (l *sender) measure(ctx context.Context, server *check.Server) ([]check.Measurement, error) {
	if onProcessor(server) && l.options.bandwidth == 0 {
		threads, _ := strconv.Atoi(server.Settings["threads"])
		if threads <= 0 {
			threads = plan.ThisProcess().Threads
		}
		var err error
		if l.bandwidth, err = load.Bandwidth(ctx, threads); err != nil {
			return nil, fmt.Errorf("measuring memory bandwidth: %w", err)
		}
	}
	until, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	first, err := l.connect(until, server)
	if err != nil {
		return nil, err
	}
	defer first.Close()
	var out []check.Measurement
	for _, concurrency := range []int{1, several} {
		one, err := l.workload(until, first, concurrency)
		if one.Runs > 0 {
			out = append(out, one)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if until.Err() != nil {
			break // the time is over: what there is counts
		}
		if err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no run of %d requests ended within %v", warmups+1, loadTime)
	}
	return out, nil
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
	options.Arrivals.Concurrency, options.Warmups, options.Salt = concurrency, warmups, client.RandomSalt
	options.Metrics = []string{"ttft", "tpot", "itl"}
	return options
}

// reported are the numbers of a workload, in the report's order.
var reported = []string{"output_throughput", "total_token_throughput", "mean_ttft_ms", "mean_tpot_ms"}

// workload runs one workload: a short run says how long a run of so many requests takes, the others
// are measured.
func (l *sender) workload(ctx context.Context, first *client.Client, concurrency int) (check.Measurement, error) {
	name := fmt.Sprintf("random %d/%d, %d at once, prompts salted", inputLen, outputLen, concurrency)
	runs, findings := map[string][]float64{}, []string{}
	var input, output, requests float64
	prompts := concurrency + 1
	for index := 0; len(runs[reported[0]]) < leastRuns; index++ {
		result, err := l.one(ctx, first, concurrency, prompts, index)
		if err != nil {
			return check.NewMeasurement(name, concurrency, int(requests), input/max(requests, 1), output/max(requests, 1), reported, runs), err
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
		for _, key := range reported {
			if value, ok := result.Values[key]; ok {
				runs[key] = append(runs[key], value)
			}
		}
		requests += result.Values["completed"]
		input += result.Values["total_input_tokens"]
		output += result.Values["total_output_tokens"]
		for _, finding := range result.Findings() {
			if text := fmt.Sprintf("%s: %.4g %s", finding.ID, finding.Measured, finding.What); !slices.Contains(findings, text) {
				findings = append(findings, text)
			}
		}
	}
	made := check.NewMeasurement(name, concurrency, int(requests), input/requests, output/requests, reported, runs)
	made.Findings = findings
	return made, nil
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

// one makes one run.
func (l *sender) one(ctx context.Context, first *client.Client, concurrency, prompts, index int) (*client.Result, error) {
	options := first.Options
	options.Arrivals.Concurrency, options.Data.Prompts, options.Salt = concurrency, prompts, client.RandomSalt
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
	if !server.Local {
		return false
	}
	offloaded, told := server.Settings["offloaded"]
	return server.Engine == engines.Ossian || (server.Engine == engines.LlamaCpp && told && offloaded == "0")
}

// hardware is what reads the weights: what was given, else this machine as it was measured.
func (l *sender) hardware(server *check.Server) check.Hardware {
	out := check.Hardware{Devices: l.options.devices, Card: !onProcessor(server)}
	switch {
	case l.options.bandwidth > 0:
		out.Bandwidth, out.Origin = l.options.bandwidth*1e9, "given: --bandwidth"
	case l.bandwidth > 0:
		out.Bandwidth, out.Origin = l.bandwidth, "measured: reading weights with the threads of the server"
	}
	return out
}

// reads says what a decoding step reads: what was given, else by the headers of the model's files.
func (o *options) reads(server *check.Server) (check.Reads, error) {
	if o.bytes > 0 {
		return check.Reads{Origin: "given: --bytes-per-token", Step: func(batch, _ int) float64 { return o.bytes * 1e9 * float64(batch) }}, nil
	}
	name := o.model
	if name == "" {
		if !server.Local || server.Root == "" {
			return check.Reads{}, errors.New("the server's model is not on this machine; --model names its files")
		}
		name = server.Root
	}
	checkpoint, err := load.OpenModel(name)
	if err != nil {
		return check.Reads{}, err
	}
	defer checkpoint.Close()
	params, as := checkpoint.Params, "as in its files"
	if server.Engine == engines.Ossian { // which may keep weights in another type
		if params, err = load.Planned(runtime.NumCPU(), server.Settings["cpu_weights"]).Kept(checkpoint); err != nil {
			return check.Reads{}, err
		}
		as = "as the server keeps them"
	}
	count, err := plan.New(checkpoint.Spec, params)
	if err != nil {
		return check.Reads{}, err
	}
	switch kind := strings.ToLower(server.Settings["kv_dtype"] + server.Settings["kv_cache_dtype"]); {
	case strings.Contains(kind, "8"):
		count.KV = tensor.F8_E4M3
	case kind == "f32":
		count.KV = tensor.F32
	}
	return check.Reads{Origin: "counted: weights of " + name + " " + as + ", keys and values", Step: func(batch, context int) float64 {
		bytes, _ := count.Decode(batch, context)
		return float64(bytes)
	}}, nil
}
