package client

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/bench/dataset"
)

// Data says what is sent: the flags of data sets, by vLLM's names (bench.md 2). NewData returns
// one with their defaults; a 0 that is not allowed there is an error.
type Data struct {
	Name          string // random, random-ids, sharegpt, sharegpt-synthetic, custom, prefix_repetition, generated-shared-prefix, sonnet, burstgpt, timed_trace
	Path          string // the file of those that read one
	Prompts       int    // requests; of conversations, how many of these
	Input, Output int    // tokens, over those of the data set's own; 0 = what that says
	KeepOrder     bool   // rows in the order of the file
	NoOversample  bool   // fewer requests where a file has too few rows
	SkipTemplate  bool   // custom: prompts as they are
	ApplyTemplate bool   // sharegpt: prompts in the model's chat template
	IDs           bool   // random: token ids instead of text

	Random           Random
	ShareGPTOutput   int // tokens; 0 = those of the answer in the file
	ShareGPTContext  int // sglang: leave out rows of more tokens
	CustomOutput     int // tokens; -1 = output_tokens of each row
	PrefixRepetition dataset.PrefixRepetitionOptions
	SharedPrefix     dataset.SharedPrefixOptions
	Sonnet           dataset.SonnetOptions
	Trace            dataset.TraceOptions

	gaps dataset.TraceGaps // what the trace of the last workload leaves out
}

// Random says what data set random is.
type Random struct {
	Input, Output, Prefix int     // tokens; of the beginning that all share
	Ratio                 string  // spread of the lengths: R, or {"input":A,"output":B}; what it means differs by profile
	Hits, Share           float64 // vllm-rs: share of the prompts that begin alike, and of their tokens
}

// NewData returns a data set with vLLM's defaults.
func NewData(name string) Data {
	return Data{Name: name, Prompts: 1000, CustomOutput: 256,
		Random:           Random{Input: 1024, Output: 128, Ratio: "0.0"},
		PrefixRepetition: dataset.PrefixRepetitionOptions{Prefix: 256, Suffix: 256, Prefixes: 10, Output: 128},
		SharedPrefix:     dataset.SharedPrefixOptions{Groups: 64, PerGroup: 16, System: 2048, Question: 128, Output: 256},
		Sonnet:           dataset.SonnetOptions{Input: 550, Output: 150, Prefix: 200},
		Trace:            dataset.TraceOptions{Chunk: 16, Unit: 1}}
}

// Workload makes the data set. Chat says that the server renders prompts, which render does for
// data sets that want it done here.
func (d *Data) Workload(common dataset.Common, render Renderer, chat bool) (bench.Workload, error) {
	// A file that is not read, or is missing, is an error before prompts are made.
	common.Prompts = d.Prompts
	if strings.HasPrefix(d.Name, "random") || d.Name == "prefix_repetition" {
		if d.Path != "" && ((common.Rules != dataset.LMDeploy && common.Rules != dataset.SGLang) || d.Name != "random") {
			return nil, fmt.Errorf("--dataset-path %s: data set %s is made of random tokens and reads no file; --dataset-name says what the file is", d.Path, d.Name)
		}
	} else if d.Path == "" && (d.Name == "sharegpt" || d.Name == "custom" || d.Name == "sonnet" || d.Name == "burstgpt" || d.Name == "timed_trace") {
		return nil, fmt.Errorf("data set %s needs --dataset-path FILE; random and sharegpt-synthetic need none", d.Name)
	}
	if d.SkipTemplate {
		render = nil
	}
	switch d.Name {
	case "random", "random-ids":
		return d.randomSet(common)
	case "sharegpt":
		options := dataset.ShareGPTOptions{Common: common, Path: d.Path, Output: cmp.Or(d.Output, d.ShareGPTOutput), Context: d.ShareGPTContext, KeepOrder: d.KeepOrder, NoOversample: d.NoOversample}
		if d.ApplyTemplate {
			if options.Render = render; render == nil {
				return nil, errors.New("--apply-chat-template: the model's chat template is not at hand; --tokenizer MODEL names a folder or a file that has it")
			}
		}
		return dataset.ShareGPT(options)
	case "sharegpt-synthetic":
		return dataset.Synthetic(dataset.SyntheticOptions{Common: common, Output: cmp.Or(d.Output, d.ShareGPTOutput)})
	case "custom":
		return dataset.Custom(dataset.CustomOptions{Common: common, Path: d.Path, Output: cmp.Or(d.Output, d.CustomOutput), KeepOrder: d.KeepOrder, NoOversample: d.NoOversample, Render: render})
	case "prefix_repetition":
		options := d.PrefixRepetition
		options.Common, options.Output, options.KeepOrder = common, cmp.Or(d.Output, options.Output), d.KeepOrder
		return dataset.PrefixRepetition(options)
	case "generated-shared-prefix":
		options := d.SharedPrefix
		options.Common = common
		return dataset.SharedPrefix(options)
	case "sonnet":
		options := d.Sonnet
		options.Common, options.Path, options.Render, options.Plain = common, d.Path, render, chat
		return dataset.Sonnet(options)
	case "burstgpt":
		return dataset.BurstGPT(dataset.BurstGPTOptions{Common: common, Path: d.Path})
	case "timed_trace":
		options := d.Trace
		options.Common, options.Path, options.Output = common, d.Path, cmp.Or(d.Output, d.Random.Output)
		var queries bench.Workload
		var err error
		queries, d.gaps, err = dataset.TimedTrace(options)
		return queries, err
	}
	return nil, fmt.Errorf("--dataset-name %q: want random, random-ids, sharegpt, sharegpt-synthetic, custom, prefix_repetition, generated-shared-prefix, sonnet, burstgpt or timed_trace", d.Name)
}

func (d *Data) randomSet(common dataset.Common) (bench.Workload, error) {
	in, out, err := dataset.ParseRanges(d.Random.Ratio)
	if err != nil {
		return nil, fmt.Errorf("--random-range-ratio: %w", err)
	}
	return dataset.Random(dataset.RandomOptions{Common: common, Input: cmp.Or(d.Input, d.Random.Input), Output: cmp.Or(d.Output, d.Random.Output), InputRange: in, OutputRange: out,
		Prefix: d.Random.Prefix, Path: d.Path, Raw: d.Name == "random-ids", IDs: d.IDs, CacheHits: d.Random.Hits, CacheShare: d.Random.Share})
}
