package dataset

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// RandomOptions are the flags of data set random (bench.md 2.3, 4.1). LMDeploy and
// SGLang make it of the first turns of ShareGPT, the others of vocabulary ids.
type RandomOptions struct {
	Common
	Input, Output           int     // --random-input-len, --random-output-len: tokens
	InputRange, OutputRange float64 // --random-range-ratio; what it means differs (bench.md 0)
	Prefix                  int     // --random-prefix-len: tokens that all prompts begin with; vLLM
	Path                    string  // ShareGPT's file; LMDeploy and SGLang
	Raw                     bool    // random-ids: SGLang's without ShareGPT
	IDs                     bool    // --prompt-token-ids, --tokenize-prompt: prompts are ids
	// CacheHits of the prompts begin with the same tokens, CacheShare of their length;
	// VLLMRust with IDs (--random-cache-hit-fraction, --random-cache-ratio). 0 = off.
	CacheHits, CacheShare float64
}

// ParseRanges reads --random-range-ratio: a number, or {"input":A,"output":B}.
func ParseRanges(text string) (in, out float64, err error) {
	if ratio, err := strconv.ParseFloat(text, 64); err == nil {
		return ratio, ratio, nil
	}
	var both struct{ Input, Output *float64 }
	if err := json.Unmarshal([]byte(text), &both); err != nil || both.Input == nil || both.Output == nil {
		return 0, 0, fmt.Errorf(`%q: want a number or {"input":A,"output":B}`, text)
	}
	return *both.Input, *both.Output, nil
}

// Random returns prompts of random content and lengths.
func Random(opts RandomOptions) ([]Query, error) {
	longest := opts.Prefix + int(float64(opts.Input)*(1+opts.InputRange)) + 1
	err := opts.check(longest, flag{"--random-input-len", opts.Input, 0}, flag{"--random-output-len", opts.Output, 0}, flag{"--random-prefix-len", opts.Prefix, 0})
	if err != nil {
		return nil, err
	}
	if opts.Rules == LMDeploy || opts.Rules == SGLang {
		return randomText(&opts)
	}
	return randomIDs(&opts)
}

// A span is the whole numbers from low to high.
type span struct{ low, high int }

// around is the span of lengths that vLLM draws from.
func around(length int, ratio float64) span {
	return span{int(math.Floor(float64(length) * (1 - ratio))), int(math.Ceil(float64(length) * (1 + ratio)))}
}

// spans returns the bounds of the lengths of prompts and answers; special is how many
// tokens the server will put in front.
func (opts *RandomOptions) spans(special int) (in, out span, err error) {
	for _, ratio := range []float64{opts.InputRange, opts.OutputRange} {
		if !(ratio >= 0 && ratio < 1) {
			return in, out, fmt.Errorf("--random-range-ratio %v: want 0 or more, less than 1", ratio)
		}
	}
	in, out = around(max(0, opts.Input-special), opts.InputRange), around(opts.Output, opts.OutputRange)
	out.low = max(out.low, 1)
	if opts.Rules != VLLM011 {
		out.high = max(out.high, 1)
	}
	if out.high < out.low {
		return in, out, fmt.Errorf("--random-output-len %d: want 1 or more", opts.Output)
	}
	// With a cache the first tokens of the prompt are the shared ones, and Prefix does not count.
	if opts.CacheHits > 0 && opts.CacheShare > 0 {
		if opts.Rules != VLLMRust || !opts.IDs || !(opts.CacheHits <= 1 && opts.CacheShare <= 1) {
			return in, out, fmt.Errorf("--random-cache-hit-fraction %v and --random-cache-ratio %v: want 0 to 1, with --compat vllm-rs and --prompt-token-ids",
				opts.CacheHits, opts.CacheShare)
		}
		return in, out, nil
	}
	if opts.Rules != VLLM011 && opts.Prefix+in.low < 1 {
		return in, out, fmt.Errorf("--random-input-len %d with --random-range-ratio %v and %d special tokens can give an empty prompt: raise it or --random-prefix-len",
			opts.Input, opts.InputRange, special)
	}
	return in, out, nil
}

// randomIDs follows vLLM: prompt i is a run of the vocabulary from a random place.
func randomIDs(opts *RandomOptions) ([]Query, error) {
	coder, err := newCoder(opts.Tokenizer)
	if err != nil {
		return nil, err
	}
	in, out, err := opts.spans(len(coder.begin))
	if err != nil {
		return nil, err
	}
	if opts.Rules == VLLMRust {
		return randomRust(opts, in, out, coder)
	}
	rng, err := NewPCG64(opts.Seed)
	if err != nil {
		return nil, err
	}
	// numpy draws whole arrays: all inputs, all outputs, all offsets.
	draw := func(within span) []int {
		list := make([]int, opts.Prompts)
		for i := range list {
			list[i] = rng.Integers(within.low, within.high+1)
		}
		return list
	}
	inputs, outputs, offsets := draw(in), draw(out), draw(span{0, coder.vocab - 1})
	pool := coder.allowed() // the older client draws control tokens too
	if opts.Rules == VLLM011 {
		pool = coder.all()
	}
	another := func() int32 { return int32(rng.Integers(0, coder.vocab)) }
	prefix := make([]int32, opts.Prefix)
	for i := range prefix {
		prefix[i] = pool[rng.Integers(0, len(pool))]
	}
	if opts.Rules == VLLM {
		_, prefix = coder.fit(prefix, opts.Prefix, another)
	}
	queries := make([]Query, opts.Prompts)
	for i := range queries {
		ids := append(make([]int32, 0, len(prefix)+inputs[i]), prefix...)
		for j := range inputs[i] {
			ids = append(ids, pool[(offsets[i]+i+j)%len(pool)])
		}
		queries[i] = opts.prompt(coder, ids, opts.Prefix+inputs[i], another)
		queries[i].Output, queries[i].ID = outputs[i], opts.id(i)
	}
	return queries, nil
}

// prompt makes a query of ids that is to have want tokens.
func (opts *RandomOptions) prompt(coder *textCoder, ids []int32, want int, another func() int32) Query {
	if opts.IDs {
		return Query{IDs: ids, Input: len(ids)}
	}
	if opts.Rules == VLLM {
		text, ids := coder.fit(ids, want, another)
		return Query{Prompt: text, Input: len(ids)}
	}
	ids = coder.encode(coder.bpe.Decode(ids))
	ids = ids[:min(want, len(ids))]
	return Query{Prompt: coder.bpe.Decode(ids), Input: len(ids)}
}

// lengths draws so many lengths as lmdeploy and sglang do: ratio of them at least.
func lengths(rng *Legacy, count, longest int, ratio float64) []int {
	list := make([]int, count)
	for i := range list {
		if longest > 0 {
			list[i] = rng.Randint(max(int(float64(longest)*ratio), 1), longest+1)
		}
	}
	return list
}

// randomText follows lmdeploy and sglang: a prompt is a first turn of ShareGPT, cut or
// repeated to its length in tokens. The length counts, whatever the text encodes to.
func randomText(opts *RandomOptions) ([]Query, error) {
	for _, ratio := range []float64{opts.InputRange, opts.OutputRange} {
		if !(ratio >= 0 && ratio <= 1) {
			return nil, fmt.Errorf("--random-range-ratio %v: want 0 to 1", ratio)
		}
	}
	rng, err := opts.legacy()
	if err != nil {
		return nil, err
	}
	coder, err := newCoder(opts.Tokenizer)
	if err != nil {
		return nil, err
	}
	inputs, outputs := lengths(rng, opts.Prompts, opts.Input, opts.InputRange), lengths(rng, opts.Prompts, opts.Output, opts.OutputRange)
	if opts.Rules == SGLang && !opts.IDs { // leaves room for what the server puts in front
		for i := range inputs {
			inputs[i] = max(1, inputs[i]-len(coder.begin))
		}
	}
	var next func(i int) []int32 // the ids that prompt i begins with; nil = no more
	if opts.Raw {
		next = opts.rawIDs(coder, rng, inputs)
	} else if next, err = opts.firstTurns(coder); err != nil {
		return nil, err
	}
	var queries []Query
	for i := range opts.Prompts {
		ids := next(i)
		if ids == nil {
			break
		}
		for len(ids) < inputs[i] {
			ids = append(ids, ids[:min(len(ids), inputs[i]-len(ids))]...)
		}
		ids = ids[:inputs[i]]
		query := Query{IDs: ids, Input: inputs[i], Output: outputs[i], ID: opts.id(i)}
		if !opts.IDs {
			query.IDs, query.Prompt = nil, coder.bpe.Decode(ids)
		}
		queries = append(queries, query)
	}
	return queries, nil
}

// rawIDs returns runs of the vocabulary from random places.
func (opts *RandomOptions) rawIDs(coder *textCoder, rng *Legacy, inputs []int) func(i int) []int32 {
	offsets := make([]int, opts.Prompts)
	for i := range offsets {
		offsets[i] = rng.Randint(0, coder.vocab)
	}
	return func(i int) []int32 {
		ids := make([]int32, inputs[i])
		for j := range ids {
			ids[j] = int32((offsets[i] + i + j) % coder.vocab)
		}
		return ids
	}
}

// firstTurns returns the first turns of ShareGPT that are not empty, in random order.
func (opts *RandomOptions) firstTurns(coder *textCoder) (func(int) []int32, error) {
	if opts.Path == "" {
		return nil, fmt.Errorf("random prompts of this tool are made of ShareGPT: give its file with --dataset-path, or take --dataset-name random-ids")
	}
	list, err := openExchanges(opts.Path, opts.Rules)
	if err != nil {
		return nil, err
	}
	NewPython(opts.Seed).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return func(int) []int32 {
		for len(list) > 0 {
			ids := append(slices.Clone(coder.begin), coder.encode(list[0].prompt)...)
			if list = list[1:]; len(ids) > 0 {
				return ids
			}
		}
		return nil
	}, nil
}
