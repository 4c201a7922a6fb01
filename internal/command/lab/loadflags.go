package lab

// The load of a prediction, from flags.

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"ossian/internal/lab/forecast"
	"ossian/internal/lab/planfile"
	"ossian/internal/lab/predict"
)

// loadFlags say what a client sends.
type loadFlags struct {
	workload       string
	input, output  int
	prompts        int
	rate           float64
	concurrency    int
	seed           int64
	completions    bool
	chat           bool
	rateIsTheirOwn bool           // of a command that has a flag for the rate of all replicas
	command        *cobra.Command // whose flags they are
}

func (f *loadFlags) add(c *cobra.Command) {
	flags := c.Flags()
	f.command = c
	flags.StringVar(&f.workload, "workload", "", "`NAME`: sharegpt, short, medium, long, very-long, or lengths as 1024/128 (default 1024/128)")
	flags.IntVar(&f.input, "input-len", 0, "`TOKENS` of a prompt, in place of the workload's")
	flags.IntVar(&f.output, "output-len", 0, "`TOKENS` of an answer, in place of the workload's")
	flags.Int64Var(&f.seed, "seed", 42, "of prompts and arrivals")
	flags.BoolVar(&f.completions, "completions", false, "requests go to the completions API: no template, no front end of chats (default for lengths)")
	flags.BoolVar(&f.chat, "chat", false, "requests go to the chat API, as those of a plan do unless it says otherwise (default for named workloads)")
	c.MarkFlagsMutuallyExclusive("chat", "completions")
	if !f.rateIsTheirOwn {
		flags.IntVar(&f.prompts, "num-prompts", 0, "`N` requests (default the workload's)")
		flags.Float64Var(&f.rate, "request-rate", math.Inf(1), "requests per second; inf = all at once")
		flags.IntVar(&f.concurrency, "max-concurrency", 0, "`N` requests at once at most; 0 = any number")
	}
}

// zeros refuses a 0 that was given: it is not the default that a 0 stands for.
func (f *loadFlags) zeros() error {
	for _, flag := range []struct {
		name string
		zero bool
	}{{"input-len", f.input == 0}, {"output-len", f.output == 0}, {"num-prompts", f.prompts == 0}, {"request-rate", f.rate == 0}} {
		if flag.zero && f.command.Flags().Changed(flag.name) {
			return fmt.Errorf("--%s 0: a number above 0 expected; without the flag it is the workload's", flag.name)
		}
	}
	return nil
}

// plan is the workload that the flags name.
func (f *loadFlags) plan() (planfile.Workload, error) {
	name := f.workload
	if name == "" {
		name = "1024/128"
	}
	load, err := forecast.Named(name)
	if err != nil {
		return load, err
	}
	if err := f.zeros(); err != nil {
		return load, err
	}
	switch {
	case f.input < 0 || f.output < 0 || f.prompts < 0 || f.concurrency < 0:
		return load, fmt.Errorf("--input-len %d, --output-len %d, --num-prompts %d, --max-concurrency %d: no negative numbers expected", f.input, f.output, f.prompts, f.concurrency)
	case math.IsNaN(f.rate) || f.rate < 0:
		return load, fmt.Errorf("--request-rate %v: requests per second, or inf, expected", f.rate)
	case f.input > 0 && load.Dataset != "random":
		return load, fmt.Errorf("--input-len %d: %s has prompts of its own lengths", f.input, load.Name)
	}
	if f.input > 0 {
		load.InputLen = f.input
	}
	if f.output > 0 {
		load.OutputLen = f.output
	}
	// The name says the lengths, so it follows them where flags change them.
	if load.Dataset == "random" && (f.input > 0 || f.output > 0) {
		load.Name = fmt.Sprintf("%d/%d", load.InputLen, load.OutputLen)
	}
	if f.prompts > 0 {
		load.NumPrompts = f.prompts
	}
	if !math.IsInf(f.rate, 1) {
		load.RequestRate = f.rate
	}
	load.MaxConcurrency = f.concurrency
	switch {
	case f.completions:
		load.Endpoint = "completions"
	case f.chat:
		load.Endpoint = "chat"
	}
	return load, nil
}

// load returns the requests.
func (f *loadFlags) load() (predict.Workload, error) {
	load, err := f.plan()
	if err != nil {
		return predict.Workload{}, err
	}
	return forecast.Workload(load, f.seed)
}
