package bench

import (
	"github.com/spf13/pflag"

	"ossian/internal/bench/client"
)

// dataFlags say what is sent; names and defaults are vLLM's.
func dataFlags(data *client.Data, flags *pflag.FlagSet) {
	*data = client.NewData("")
	flags.StringVar(&data.Name, "dataset-name", "", "random, random-ids, sharegpt, sharegpt-synthetic, custom, prefix_repetition, generated-shared-prefix, sonnet, burstgpt or timed_trace; default: random, for lmdeploy and sglang sharegpt")
	flags.StringVar(&data.Path, "dataset-path", "", "`FILE` of the data set")
	flags.IntVar(&data.Prompts, "num-prompts", 1000, "requests")
	flags.IntVar(&data.Input, "input-len", 0, "prompt `TOKENS` of random")
	flags.IntVar(&data.Output, "output-len", 0, "output `TOKENS` of random, sharegpt, custom, prefix_repetition, and of rows of timed_trace that do not say")
	flags.BoolVar(&data.KeepOrder, "disable-shuffle", false, "take rows in the order of the file")
	flags.BoolVar(&data.NoOversample, "no-oversample", false, "send fewer requests where a file has too few rows")
	flags.BoolVar(&data.SkipTemplate, "skip-chat-template", false, "custom: send prompts as they are")
	flags.BoolVar(&data.ApplyTemplate, "apply-chat-template", false, "sharegpt: send prompts in the model's chat template")
	flags.BoolVar(&data.IDs, "prompt-token-ids", false, "random: send token ids instead of text; sglang: --tokenize-prompt")
	flags.IntVar(&data.Random.Input, "random-input-len", 1024, "prompt `TOKENS`")
	flags.IntVar(&data.Random.Output, "random-output-len", 128, "output `TOKENS`; sglang: 1024")
	flags.IntVar(&data.Random.Prefix, "random-prefix-len", 0, "`TOKENS` that all prompts begin with")
	flags.StringVar(&data.Random.Ratio, "random-range-ratio", "0.0", "spread of the lengths: `R`, or {\"input\":A,\"output\":B}; what it means differs by --compat")
	flags.Float64Var(&data.Random.Hits, "random-cache-hit-fraction", 0, "vllm-rs: share of the prompts that begin alike")
	flags.Float64Var(&data.Random.Share, "random-cache-ratio", 0, "vllm-rs: share of their tokens that is alike")
	flags.IntVar(&data.ShareGPTOutput, "sharegpt-output-len", 0, "output `TOKENS`; 0 = those of the answer in the file")
	flags.IntVar(&data.ShareGPTContext, "sharegpt-context-len", 0, "sglang: leave out rows of more `TOKENS`")
	flags.IntVar(&data.CustomOutput, "custom-output-len", 256, "output `TOKENS`; -1 = output_tokens of each row")
	flags.IntVar(&data.PrefixRepetition.Prefix, "prefix-repetition-prefix-len", 256, "`TOKENS` that prompts share")
	flags.IntVar(&data.PrefixRepetition.Suffix, "prefix-repetition-suffix-len", 256, "`TOKENS` of one's own")
	flags.IntVar(&data.PrefixRepetition.Prefixes, "prefix-repetition-num-prefixes", 10, "different prefixes")
	flags.IntVar(&data.PrefixRepetition.Output, "prefix-repetition-output-len", 128, "output `TOKENS`")
	flags.IntVar(&data.SharedPrefix.Groups, "gsp-num-groups", 64, "generated-shared-prefix: groups that share one")
	flags.IntVar(&data.SharedPrefix.PerGroup, "gsp-prompts-per-group", 16, "prompts of a group")
	flags.IntVar(&data.SharedPrefix.System, "gsp-system-prompt-len", 2048, "`TOKENS` that a group shares")
	flags.IntVar(&data.SharedPrefix.Question, "gsp-question-len", 128, "`TOKENS` of one's own")
	flags.IntVar(&data.SharedPrefix.Output, "gsp-output-len", 256, "output `TOKENS`")
	flags.IntVar(&data.Sonnet.Input, "sonnet-input-len", 550, "most prompt `TOKENS`")
	flags.IntVar(&data.Sonnet.Output, "sonnet-output-len", 150, "output `TOKENS`")
	flags.IntVar(&data.Sonnet.Prefix, "sonnet-prefix-len", 200, "`TOKENS` that all prompts begin with")
	flags.IntVar(&data.Trace.Chunk, "timed-trace-chunk-hash-size", 16, "`TOKENS` that a hash id stands for")
	flags.Float64Var(&data.Trace.Unit, "timed-trace-sec-multiplier", 1, "`SECONDS` that 1 of a time stamp is")
	flags.StringVar(&data.Trace.Timestamp, "timed-trace-label-timestamp", "", "`NAME` of that field; default timestamp")
	flags.StringVar(&data.Trace.InputLength, "timed-trace-label-input-length", "", "`NAME` of that field; default input_length")
	flags.StringVar(&data.Trace.OutputLength, "timed-trace-label-output-length", "", "`NAME` of that field; default output_length")
	flags.StringVar(&data.Trace.HashIDs, "timed-trace-label-hash-ids", "", "`NAME` of that field; default hash_ids")
}

// turnFlags say how conversations go; names and defaults are those of vLLM's compiled client.
func (o *clientOptions) turnFlags(flags *pflag.FlagSet) {
	turns := &o.Conversations
	flags.BoolVar(&turns.On, "multi-turn", false, "have conversations: --num-prompts of them, each turn with the history and its real answers")
	flags.IntVar(&turns.Turns, "multi-turn-num-turns", 3, "turns of a conversation of random content")
	flags.IntVar(&turns.Least, "multi-turn-min-turns", 0, "fewest turns; 0 = --multi-turn-num-turns, of ShareGPT 2")
	flags.IntVar(&turns.Most, "multi-turn-max-turns", 0, "most turns; 0 = --multi-turn-num-turns, of ShareGPT no bound")
	flags.IntVar(&turns.Concurrency, "multi-turn-concurrency", 0, "most requests at once; 0 = --max-concurrency")
	flags.IntVar(&o.delay, "multi-turn-delay-ms", 0, "from an answer to the next turn")
	flags.IntVar(&turns.Next, "per-turn-input-len", 0, "`TOKENS` of turns behind the first; 0 = as the first")
	flags.Float64Var(&turns.Global, "multi-turn-prefix-global-ratio", 0, "share of every turn that all conversations have; above 0, turns go without the history")
	flags.Float64Var(&turns.Own, "multi-turn-prefix-conversation-ratio", 0, "share that all turns of a conversation have; above 0, turns go without the history")
}
