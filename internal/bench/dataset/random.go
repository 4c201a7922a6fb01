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
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n, n, nil
	}
	var both struct{ Input, Output *float64 }
	if err := json.Unmarshal([]byte(text), &both); err != nil || both.Input == nil || both.Output == nil {
		return 0, 0, fmt.Errorf(`%q: want a number or {"input":A,"output":B}`, text)
	}
	return *both.Input, *both.Output, nil
}

// Random returns prompts of random content and lengths.
func Random(o RandomOptions) ([]Query, error) {
	longest := o.Prefix + int(float64(o.Input)*(1+o.InputRange)) + 1
	err := o.check(longest, flag{"--random-input-len", o.Input, 0}, flag{"--random-output-len", o.Output, 0}, flag{"--random-prefix-len", o.Prefix, 0})
	if err != nil {
		return nil, err
	}
	if o.Rules == LMDeploy || o.Rules == SGLang {
		return randomText(&o)
	}
	return randomIDs(&o)
}

// A span is the whole numbers from low to high.
type span struct{ low, high int }

// around is the span of lengths that vLLM draws from.
func around(length int, ratio float64) span {
	return span{int(math.Floor(float64(length) * (1 - ratio))), int(math.Ceil(float64(length) * (1 + ratio)))}
}

// spans returns the bounds of the lengths of prompts and answers; special is how many
// tokens the server will put in front.
func (o *RandomOptions) spans(special int) (in, out span, err error) {
	for _, r := range []float64{o.InputRange, o.OutputRange} {
		if !(r >= 0 && r < 1) {
			return in, out, fmt.Errorf("--random-range-ratio %v: want 0 or more, less than 1", r)
		}
	}
	in, out = around(max(0, o.Input-special), o.InputRange), around(o.Output, o.OutputRange)
	out.low = max(out.low, 1)
	if o.Rules != VLLM011 {
		out.high = max(out.high, 1)
	}
	if out.high < out.low {
		return in, out, fmt.Errorf("--random-output-len %d: want 1 or more", o.Output)
	}
	if o.CacheHits > 0 && o.CacheShare > 0 {
		if o.Rules != VLLMRust || !o.IDs || !(o.CacheHits <= 1 && o.CacheShare <= 1) {
			return in, out, fmt.Errorf("--random-cache-hit-fraction %v and --random-cache-ratio %v: want 0 to 1, with --compat vllm-rs and --prompt-token-ids",
				o.CacheHits, o.CacheShare)
		}
		return in, out, nil
	}
	if o.Rules != VLLM011 && o.Prefix+in.low < 1 {
		return in, out, fmt.Errorf("--random-input-len %d with --random-range-ratio %v and %d special tokens can give an empty prompt: raise it or --random-prefix-len",
			o.Input, o.InputRange, special)
	}
	return in, out, nil
}

// randomIDs follows vLLM: prompt i is a run of the vocabulary from a random place.
func randomIDs(o *RandomOptions) ([]Query, error) {
	c, err := newCoder(o.Tokenizer)
	if err != nil {
		return nil, err
	}
	in, out, err := o.spans(len(c.begin))
	if err != nil {
		return nil, err
	}
	if o.Rules == VLLMRust {
		return randomRust(o, in, out, c)
	}
	g, err := NewPCG64(o.Seed)
	if err != nil {
		return nil, err
	}
	draw := func(s span) []int {
		list := make([]int, o.Prompts)
		for i := range list {
			list[i] = g.Integers(s.low, s.high+1)
		}
		return list
	}
	inputs, outputs, offsets := draw(in), draw(out), draw(span{0, c.vocab - 1})
	pool := c.allowed()
	if o.Rules == VLLM011 {
		pool = c.all()
	}
	another := func() int32 { return int32(g.Integers(0, c.vocab)) }
	prefix := make([]int32, o.Prefix)
	for i := range prefix {
		prefix[i] = pool[g.Integers(0, len(pool))]
	}
	if o.Rules == VLLM {
		_, prefix = c.fit(prefix, o.Prefix, another)
	}
	queries := make([]Query, o.Prompts)
	for i := range queries {
		ids := append(make([]int32, 0, len(prefix)+inputs[i]), prefix...)
		for j := range inputs[i] {
			ids = append(ids, pool[(offsets[i]+i+j)%len(pool)])
		}
		queries[i] = o.prompt(c, ids, o.Prefix+inputs[i], another)
		queries[i].Output, queries[i].ID = outputs[i], o.id(i)
	}
	return queries, nil
}

// prompt makes a query of ids that is to have want tokens.
func (o *RandomOptions) prompt(c *coder, ids []int32, want int, another func() int32) Query {
	if o.IDs {
		return Query{IDs: ids, Input: len(ids)}
	}
	if o.Rules == VLLM {
		text, ids := c.fit(ids, want, another)
		return Query{Prompt: text, Input: len(ids)}
	}
	ids = c.encode(c.bpe.Decode(ids))
	ids = ids[:min(want, len(ids))]
	return Query{Prompt: c.bpe.Decode(ids), Input: len(ids)}
}

// lengths draws n lengths as lmdeploy and sglang do: ratio of them at least.
func lengths(g *Legacy, n, longest int, ratio float64) []int {
	list := make([]int, n)
	for i := range list {
		if longest > 0 {
			list[i] = g.Randint(max(int(float64(longest)*ratio), 1), longest+1)
		}
	}
	return list
}

// randomText follows lmdeploy and sglang: a prompt is a first turn of ShareGPT, cut or
// repeated to its length in tokens. The length counts, whatever the text encodes to.
func randomText(o *RandomOptions) ([]Query, error) {
	for _, r := range []float64{o.InputRange, o.OutputRange} {
		if !(r >= 0 && r <= 1) {
			return nil, fmt.Errorf("--random-range-ratio %v: want 0 to 1", r)
		}
	}
	g, err := o.legacy()
	if err != nil {
		return nil, err
	}
	c, err := newCoder(o.Tokenizer)
	if err != nil {
		return nil, err
	}
	inputs, outputs := lengths(g, o.Prompts, o.Input, o.InputRange), lengths(g, o.Prompts, o.Output, o.OutputRange)
	if o.Rules == SGLang && !o.IDs {
		for i := range inputs {
			inputs[i] = max(1, inputs[i]-len(c.begin))
		}
	}
	var next func(i int) []int32 // the ids that prompt i begins with; nil = no more
	if o.Raw {
		next = o.rawIDs(c, g, inputs)
	} else if next, err = o.turns(c); err != nil {
		return nil, err
	}
	var queries []Query
	for i := range o.Prompts {
		ids := next(i)
		if ids == nil {
			break
		}
		for len(ids) < inputs[i] {
			ids = append(ids, ids[:min(len(ids), inputs[i]-len(ids))]...)
		}
		ids = ids[:inputs[i]]
		q := Query{IDs: ids, Input: inputs[i], Output: outputs[i], ID: o.id(i)}
		if !o.IDs {
			q.IDs, q.Prompt = nil, c.bpe.Decode(ids)
		}
		queries = append(queries, q)
	}
	return queries, nil
}

// rawIDs returns runs of the vocabulary from random places.
func (o *RandomOptions) rawIDs(c *coder, g *Legacy, inputs []int) func(i int) []int32 {
	offsets := make([]int, o.Prompts)
	for i := range offsets {
		offsets[i] = g.Randint(0, c.vocab)
	}
	return func(i int) []int32 {
		ids := make([]int32, inputs[i])
		for j := range ids {
			ids[j] = int32((offsets[i] + i + j) % c.vocab)
		}
		return ids
	}
}

// turns returns the first turns of ShareGPT that are not empty, in random order.
func (o *RandomOptions) turns(c *coder) (func(int) []int32, error) {
	if o.Path == "" {
		return nil, fmt.Errorf("random prompts of this tool are made of ShareGPT: give its file with --dataset-path, or take --dataset-name random-ids")
	}
	list, err := openShareGPT(o.Path, o.Rules)
	if err != nil {
		return nil, err
	}
	NewPython(o.Seed).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return func(int) []int32 {
		for len(list) > 0 {
			ids := append(slices.Clone(c.begin), c.encode(list[0].prompt)...)
			if list = list[1:]; len(ids) > 0 {
				return ids
			}
		}
		return nil
	}, nil
}
