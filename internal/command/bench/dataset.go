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
}

func (d *dataOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&d.name, "dataset-name", "", "random, random-ids, sharegpt, sharegpt-synthetic, custom, prefix_repetition, generated-shared-prefix, sonnet, burstgpt or timed_trace; default: random, for lmdeploy and sglang sharegpt")
	f.StringVar(&d.path, "dataset-path", "", "`FILE` of the data set")
	f.IntVar(&d.prompts, "num-prompts", 1000, "requests")
	f.IntVar(&d.input, "input-len", 0, "prompt `TOKENS` of random")
	f.IntVar(&d.output, "output-len", 0, "output `TOKENS` of random, sharegpt, custom and prefix_repetition")
	f.BoolVar(&d.keepOrder, "disable-shuffle", false, "take rows in the order of the file")
	f.BoolVar(&d.noOversample, "no-oversample", false, "send fewer requests where a file has too few rows")
	f.BoolVar(&d.skipTemplate, "skip-chat-template", false, "custom: send prompts as they are")
	f.BoolVar(&d.applyTemplate, "apply-chat-template", false, "sharegpt: send prompts in the model's chat template")
	f.BoolVar(&d.asID, "prompt-token-ids", false, "random: send token ids instead of text; sglang: --tokenize-prompt")
	f.IntVar(&d.random.input, "random-input-len", 1024, "prompt `TOKENS`")
	f.IntVar(&d.random.output, "random-output-len", 128, "output `TOKENS`; sglang: 1024")
	f.IntVar(&d.random.prefix, "random-prefix-len", 0, "`TOKENS` that all prompts begin with")
	f.StringVar(&d.random.ratio, "random-range-ratio", "0.0", "spread of the lengths: `R`, or {\"input\":A,\"output\":B}; what it means differs by --compat")
	f.Float64Var(&d.random.hits, "random-cache-hit-fraction", 0, "vllm-rs: share of the prompts that begin alike")
	f.Float64Var(&d.random.share, "random-cache-ratio", 0, "vllm-rs: share of their tokens that is alike")
	f.IntVar(&d.sharegptOutput, "sharegpt-output-len", 0, "output `TOKENS`; 0 = those of the answer in the file")
	f.IntVar(&d.sharegptContext, "sharegpt-context-len", 0, "sglang: leave out rows of more `TOKENS`")
	f.IntVar(&d.customOutput, "custom-output-len", 256, "output `TOKENS`; -1 = output_tokens of each row")
	f.IntVar(&d.prefix.Prefix, "prefix-repetition-prefix-len", 256, "`TOKENS` that prompts share")
	f.IntVar(&d.prefix.Suffix, "prefix-repetition-suffix-len", 256, "`TOKENS` of one's own")
	f.IntVar(&d.prefix.Prefixes, "prefix-repetition-num-prefixes", 10, "different prefixes")
	f.IntVar(&d.prefix.Output, "prefix-repetition-output-len", 128, "output `TOKENS`")
	f.IntVar(&d.shared.Groups, "gsp-num-groups", 64, "generated-shared-prefix: groups that share one")
	f.IntVar(&d.shared.PerGroup, "gsp-prompts-per-group", 16, "prompts of a group")
	f.IntVar(&d.shared.System, "gsp-system-prompt-len", 2048, "`TOKENS` that a group shares")
	f.IntVar(&d.shared.Question, "gsp-question-len", 128, "`TOKENS` of one's own")
	f.IntVar(&d.shared.Output, "gsp-output-len", 256, "output `TOKENS`")
	f.IntVar(&d.sonnet.Input, "sonnet-input-len", 550, "most prompt `TOKENS`")
	f.IntVar(&d.sonnet.Output, "sonnet-output-len", 150, "output `TOKENS`")
	f.IntVar(&d.sonnet.Prefix, "sonnet-prefix-len", 200, "`TOKENS` that all prompts begin with")
	f.IntVar(&d.trace.Chunk, "timed-trace-chunk-hash-size", 16, "`TOKENS` that a hash id stands for")
	f.Float64Var(&d.trace.Unit, "timed-trace-sec-multiplier", 1, "`SECONDS` that 1 of a time stamp is")
	f.StringVar(&d.trace.Timestamp, "timed-trace-label-timestamp", "", "`NAME` of that field; default timestamp")
	f.StringVar(&d.trace.InputLength, "timed-trace-label-input-length", "", "`NAME` of that field; default input_length")
	f.StringVar(&d.trace.OutputLength, "timed-trace-label-output-length", "", "`NAME` of that field; default output_length")
	f.StringVar(&d.trace.HashIDs, "timed-trace-label-hash-ids", "", "`NAME` of that field; default hash_ids")
}

// A renderer puts a prompt in the chat template of the model.
type renderer func(prompt string) (string, error)

// workload makes the data set. chat says that the server renders prompts.
func (d *dataOptions) workload(c dataset.Common, render renderer, chat bool) (bench.Workload, error) {
	c.Prompts = d.prompts
	if strings.HasPrefix(d.name, "random") || d.name == "prefix_repetition" {
		if d.path != "" && ((c.Rules != dataset.LMDeploy && c.Rules != dataset.SGLang) || d.name != "random") {
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
		return d.randomSet(c)
	case "sharegpt":
		o := dataset.ShareGPTOptions{Common: c, Path: d.path, Output: cmp.Or(d.output, d.sharegptOutput), Context: d.sharegptContext, KeepOrder: d.keepOrder, NoOversample: d.noOversample}
		if d.applyTemplate {
			if o.Render = render; render == nil {
				return nil, errors.New("--apply-chat-template: the model's chat template is not at hand; --tokenizer MODEL names a folder or a file that has it")
			}
		}
		return dataset.ShareGPT(o)
	case "sharegpt-synthetic":
		return dataset.Synthetic(dataset.SyntheticOptions{Common: c, Output: cmp.Or(d.output, d.sharegptOutput)})
	case "custom":
		return dataset.Custom(dataset.CustomOptions{Common: c, Path: d.path, Output: cmp.Or(d.output, d.customOutput), KeepOrder: d.keepOrder, NoOversample: d.noOversample, Render: render})
	case "prefix_repetition":
		o := d.prefix
		o.Common, o.Output, o.KeepOrder = c, cmp.Or(d.output, o.Output), d.keepOrder
		return dataset.PrefixRepetition(o)
	case "generated-shared-prefix":
		o := d.shared
		o.Common = c
		return dataset.SharedPrefix(o)
	case "sonnet":
		o := d.sonnet
		o.Common, o.Path, o.Render, o.Plain = c, d.path, render, chat
		return dataset.Sonnet(o)
	case "burstgpt":
		return dataset.BurstGPT(dataset.BurstGPTOptions{Common: c, Path: d.path})
	case "timed_trace":
		o := d.trace
		o.Common, o.Path = c, d.path
		return dataset.TimedTrace(o)
	}
	return nil, fmt.Errorf("--dataset-name %q: want random, random-ids, sharegpt, sharegpt-synthetic, custom, prefix_repetition, generated-shared-prefix, sonnet, burstgpt or timed_trace", d.name)
}

func (d *dataOptions) randomSet(c dataset.Common) (bench.Workload, error) {
	in, out, err := dataset.ParseRanges(d.random.ratio)
	if err != nil {
		return nil, fmt.Errorf("--random-range-ratio: %w", err)
	}
	return dataset.Random(dataset.RandomOptions{Common: c, Input: cmp.Or(d.input, d.random.input), Output: cmp.Or(d.output, d.random.output), InputRange: in, OutputRange: out,
		Prefix: d.random.prefix, Path: d.path, Raw: d.name == "random-ids", IDs: d.asID, CacheHits: d.random.hits, CacheShare: d.random.share})
}
