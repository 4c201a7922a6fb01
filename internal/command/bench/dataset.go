package bench

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"ossian/internal/bench"
	"ossian/internal/bench/dataset"
)

// dataOptions are the flags that say what is sent; names and defaults are vLLM's.
type dataOptions struct {
	name, path         string
	prompts            int
	input, output      int // 0 = what the data set's own flag says
	keepOrder          bool
	noOversample       bool
	skipTemplate, asID bool
	applyTemplate      bool

	random struct {
		input, output, prefix int
		ratio                 string
		hits, share           float64 // of prompts, of their tokens
	}
	sharegptOutput, sharegptContext int
	customOutput                    int
	prefix                          dataset.PrefixRepetitionOptions
	shared                          dataset.SharedPrefixOptions
	sonnet                          dataset.SonnetOptions
	trace                           dataset.TraceOptions

	gaps dataset.TraceGaps // what the trace of the last workload leaves out
}

func (d *dataOptions) flags(flags *pflag.FlagSet) {
	flags.StringVar(&d.name, "dataset-name", "", "random, random-ids, sharegpt, sharegpt-synthetic, custom, prefix_repetition, generated-shared-prefix, sonnet, burstgpt or timed_trace; default: random, for lmdeploy and sglang sharegpt")
	flags.StringVar(&d.path, "dataset-path", "", "`FILE` of the data set")
	flags.IntVar(&d.prompts, "num-prompts", 1000, "requests")
	flags.IntVar(&d.input, "input-len", 0, "prompt `TOKENS` of random")
	flags.IntVar(&d.output, "output-len", 0, "output `TOKENS` of random, sharegpt, custom, prefix_repetition, and of rows of timed_trace that do not say")
	flags.BoolVar(&d.keepOrder, "disable-shuffle", false, "take rows in the order of the file")
	flags.BoolVar(&d.noOversample, "no-oversample", false, "send fewer requests where a file has too few rows")
	flags.BoolVar(&d.skipTemplate, "skip-chat-template", false, "custom: send prompts as they are")
	flags.BoolVar(&d.applyTemplate, "apply-chat-template", false, "sharegpt: send prompts in the model's chat template")
	flags.BoolVar(&d.asID, "prompt-token-ids", false, "random: send token ids instead of text; sglang: --tokenize-prompt")
	flags.IntVar(&d.random.input, "random-input-len", 1024, "prompt `TOKENS`")
	flags.IntVar(&d.random.output, "random-output-len", 128, "output `TOKENS`; sglang: 1024")
	flags.IntVar(&d.random.prefix, "random-prefix-len", 0, "`TOKENS` that all prompts begin with")
	flags.StringVar(&d.random.ratio, "random-range-ratio", "0.0", "spread of the lengths: `R`, or {\"input\":A,\"output\":B}; what it means differs by --compat")
	flags.Float64Var(&d.random.hits, "random-cache-hit-fraction", 0, "vllm-rs: share of the prompts that begin alike")
	flags.Float64Var(&d.random.share, "random-cache-ratio", 0, "vllm-rs: share of their tokens that is alike")
	flags.IntVar(&d.sharegptOutput, "sharegpt-output-len", 0, "output `TOKENS`; 0 = those of the answer in the file")
	flags.IntVar(&d.sharegptContext, "sharegpt-context-len", 0, "sglang: leave out rows of more `TOKENS`")
	flags.IntVar(&d.customOutput, "custom-output-len", 256, "output `TOKENS`; -1 = output_tokens of each row")
	flags.IntVar(&d.prefix.Prefix, "prefix-repetition-prefix-len", 256, "`TOKENS` that prompts share")
	flags.IntVar(&d.prefix.Suffix, "prefix-repetition-suffix-len", 256, "`TOKENS` of one's own")
	flags.IntVar(&d.prefix.Prefixes, "prefix-repetition-num-prefixes", 10, "different prefixes")
	flags.IntVar(&d.prefix.Output, "prefix-repetition-output-len", 128, "output `TOKENS`")
	flags.IntVar(&d.shared.Groups, "gsp-num-groups", 64, "generated-shared-prefix: groups that share one")
	flags.IntVar(&d.shared.PerGroup, "gsp-prompts-per-group", 16, "prompts of a group")
	flags.IntVar(&d.shared.System, "gsp-system-prompt-len", 2048, "`TOKENS` that a group shares")
	flags.IntVar(&d.shared.Question, "gsp-question-len", 128, "`TOKENS` of one's own")
	flags.IntVar(&d.shared.Output, "gsp-output-len", 256, "output `TOKENS`")
	flags.IntVar(&d.sonnet.Input, "sonnet-input-len", 550, "most prompt `TOKENS`")
	flags.IntVar(&d.sonnet.Output, "sonnet-output-len", 150, "output `TOKENS`")
	flags.IntVar(&d.sonnet.Prefix, "sonnet-prefix-len", 200, "`TOKENS` that all prompts begin with")
	flags.IntVar(&d.trace.Chunk, "timed-trace-chunk-hash-size", 16, "`TOKENS` that a hash id stands for")
	flags.Float64Var(&d.trace.Unit, "timed-trace-sec-multiplier", 1, "`SECONDS` that 1 of a time stamp is")
	flags.StringVar(&d.trace.Timestamp, "timed-trace-label-timestamp", "", "`NAME` of that field; default timestamp")
	flags.StringVar(&d.trace.InputLength, "timed-trace-label-input-length", "", "`NAME` of that field; default input_length")
	flags.StringVar(&d.trace.OutputLength, "timed-trace-label-output-length", "", "`NAME` of that field; default output_length")
	flags.StringVar(&d.trace.HashIDs, "timed-trace-label-hash-ids", "", "`NAME` of that field; default hash_ids")
}

// A renderer puts a prompt in the chat template of the model.
type renderer func(prompt string) (string, error)

// workload makes the data set. chat says that the server renders prompts.
func (d *dataOptions) workload(common dataset.Common, render renderer, chat bool) (bench.Workload, error) {
	// A file that is not read, or is missing, is an error before prompts are made.
	common.Prompts = d.prompts
	if strings.HasPrefix(d.name, "random") || d.name == "prefix_repetition" {
		if d.path != "" && ((common.Rules != dataset.LMDeploy && common.Rules != dataset.SGLang) || d.name != "random") {
			return nil, fmt.Errorf("--dataset-path %s: data set %s is made of random tokens and reads no file; --dataset-name says what the file is", d.path, d.name)
		}
	} else if d.path == "" && (d.name == "sharegpt" || d.name == "custom" || d.name == "sonnet" || d.name == "burstgpt" || d.name == "timed_trace") {
		return nil, fmt.Errorf("data set %s needs --dataset-path FILE; random and sharegpt-synthetic need none", d.name)
	}
	if d.skipTemplate {
		render = nil
	}
	switch d.name {
	case "random", "random-ids":
		return d.randomSet(common)
	case "sharegpt":
		options := dataset.ShareGPTOptions{Common: common, Path: d.path, Output: cmp.Or(d.output, d.sharegptOutput), Context: d.sharegptContext, KeepOrder: d.keepOrder, NoOversample: d.noOversample}
		if d.applyTemplate {
			if options.Render = render; render == nil {
				return nil, errors.New("--apply-chat-template: the model's chat template is not at hand; --tokenizer MODEL names a folder or a file that has it")
			}
		}
		return dataset.ShareGPT(options)
	case "sharegpt-synthetic":
		return dataset.Synthetic(dataset.SyntheticOptions{Common: common, Output: cmp.Or(d.output, d.sharegptOutput)})
	case "custom":
		return dataset.Custom(dataset.CustomOptions{Common: common, Path: d.path, Output: cmp.Or(d.output, d.customOutput), KeepOrder: d.keepOrder, NoOversample: d.noOversample, Render: render})
	case "prefix_repetition":
		options := d.prefix
		options.Common, options.Output, options.KeepOrder = common, cmp.Or(d.output, options.Output), d.keepOrder
		return dataset.PrefixRepetition(options)
	case "generated-shared-prefix":
		options := d.shared
		options.Common = common
		return dataset.SharedPrefix(options)
	case "sonnet":
		options := d.sonnet
		options.Common, options.Path, options.Render, options.Plain = common, d.path, render, chat
		return dataset.Sonnet(options)
	case "burstgpt":
		return dataset.BurstGPT(dataset.BurstGPTOptions{Common: common, Path: d.path})
	case "timed_trace":
		options := d.trace
		options.Common, options.Path, options.Output = common, d.path, cmp.Or(d.output, d.random.output)
		var queries bench.Workload
		var err error
		queries, d.gaps, err = dataset.TimedTrace(options)
		return queries, err
	}
	return nil, fmt.Errorf("--dataset-name %q: want random, random-ids, sharegpt, sharegpt-synthetic, custom, prefix_repetition, generated-shared-prefix, sonnet, burstgpt or timed_trace", d.name)
}

func (d *dataOptions) randomSet(common dataset.Common) (bench.Workload, error) {
	in, out, err := dataset.ParseRanges(d.random.ratio)
	if err != nil {
		return nil, fmt.Errorf("--random-range-ratio: %w", err)
	}
	return dataset.Random(dataset.RandomOptions{Common: common, Input: cmp.Or(d.input, d.random.input), Output: cmp.Or(d.output, d.random.output), InputRange: in, OutputRange: out,
		Prefix: d.random.prefix, Path: d.path, Raw: d.name == "random-ids", IDs: d.asID, CacheHits: d.random.hits, CacheShare: d.random.share})
}
