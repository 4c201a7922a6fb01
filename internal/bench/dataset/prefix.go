package dataset

import (
	"fmt"
	"slices"
)

// PrefixRepetitionOptions are the flags of data set prefix_repetition (bench.md 2.5).
type PrefixRepetitionOptions struct {
	Common
	Prefix, Suffix int  // --prefix-repetition-prefix-len, -suffix-len: tokens
	Prefixes       int  // --prefix-repetition-num-prefixes
	Output         int  // --prefix-repetition-output-len
	KeepOrder      bool // --disable-shuffle
}

// PrefixRepetition returns prompts that share a few random prefixes: as many for each,
// so that there can be fewer than asked for.
func PrefixRepetition(opts PrefixRepetitionOptions) ([]Query, error) {
	err := opts.check(opts.Prefix+opts.Suffix, flag{"--prefix-repetition-prefix-len", opts.Prefix, 0}, flag{"--prefix-repetition-suffix-len", opts.Suffix, 0},
		flag{"--prefix-repetition-num-prefixes", opts.Prefixes, 1}, flag{"--prefix-repetition-output-len", opts.Output, 1})
	if err != nil {
		return nil, err
	}
	each := opts.Prompts / opts.Prefixes // what is left over is not sent, as in vLLM
	if each == 0 {
		return nil, fmt.Errorf("--num-prompts %d is less than --prefix-repetition-num-prefixes %d: no prefix would have a prompt", opts.Prompts, opts.Prefixes)
	}
	coder, err := newCoder(opts.Tokenizer)
	if err != nil {
		return nil, err
	}
	var queries []Query
	if opts.Rules == VLLMRust {
		queries, err = prefixRust(&opts, each, coder)
	} else {
		queries, err = prefixNumpy(&opts, each, coder)
	}
	if err != nil {
		return nil, err
	}
	if !opts.KeepOrder {
		opts.shuffle(len(queries), func(i, j int) { queries[i], queries[j] = queries[j], queries[i] })
	}
	return queries, nil
}

// prefixNumpy follows vLLM's Python client.
func prefixNumpy(opts *PrefixRepetitionOptions, each int, coder *textCoder) ([]Query, error) {
	rng, err := NewLegacy(opts.Seed)
	if err != nil {
		return nil, err
	}
	exact := func(count int) []int32 { return coder.exact(rng, count, opts.Rules == VLLM011) }
	queries := make([]Query, 0, each*opts.Prefixes)
	for range opts.Prefixes {
		prefix := exact(opts.Prefix)
		for range each {
			ids := slices.Concat(prefix, exact(opts.Suffix))
			queries = append(queries, Query{Prompt: coder.bpe.Decode(ids), Input: len(ids), Output: opts.Output})
		}
	}
	if opts.Legacy != nil {
		*opts.Legacy = *rng // vLLM seeds the global generator again and leaves it like this
	}
	return queries, nil
}

// exact returns so many random ids whose text encodes to as many, as far as that can be had.
// The old rule fills up what the first text lacks with texts of their own.
func (c *textCoder) exact(rng *Legacy, count int, old bool) []int32 {
	draw := func() int32 { return int32(rng.Randint(0, c.vocab)) }
	random := func(count int) []int32 {
		ids := make([]int32, count)
		for i := range ids {
			ids[i] = draw()
		}
		return ids
	}
	if !old {
		_, ids := c.fit(random(count), count, draw)
		return ids
	}
	// Fewer tokens may come back than were drawn; a vocabulary may never give the last.
	var out []int32
	for tries := 0; len(out) < count && tries < 1000; tries++ {
		ids := c.encode(c.bpe.Decode(random(count - len(out))))
		out = append(out, ids[:min(len(ids), count-len(out))]...)
	}
	return out
}

// SharedPrefixOptions are the flags of sglang's data set generated-shared-prefix
// (bench.md 4.2). Common.Prompts does not count.
type SharedPrefixOptions struct {
	Common
	Groups   int // --gsp-num-groups
	PerGroup int // --gsp-prompts-per-group
	System   int // --gsp-system-prompt-len: tokens that a group shares
	Question int // --gsp-question-len: tokens of one's own
	Output   int // --gsp-output-len
}

// SharedPrefix returns groups of prompts behind a shared system prompt, in random order.
// sglang draws from the vocabulary in the order of a hash table, which differs from run
// to run; here it is the order of the ids, without control tokens.
func SharedPrefix(opts SharedPrefixOptions) ([]Query, error) {
	err := (&Common{Tokenizer: opts.Tokenizer, Prompts: 1}).check(0, flag{"--gsp-num-groups", opts.Groups, 1}, flag{"--gsp-prompts-per-group", opts.PerGroup, 1},
		flag{"--gsp-system-prompt-len", opts.System, 0}, flag{"--gsp-question-len", opts.Question, 0}, flag{"--gsp-output-len", opts.Output, 0})
	if err != nil {
		return nil, err
	}
	opts.Prompts = opts.Groups * opts.PerGroup
	if err := opts.check(opts.System + opts.Question); err != nil {
		return nil, err
	}
	coder, err := newCoder(opts.Tokenizer)
	if err != nil {
		return nil, err
	}
	// All system prompts are drawn before the first question.
	pool, rng := coder.allowed(), NewPython(opts.Seed)
	texts := func(count, tokens int) []string {
		list := make([]string, count)
		ids := make([]int32, tokens)
		for i := range list {
			for j := range ids {
				ids[j] = pool[rng.Pick(len(pool))]
			}
			list[i] = coder.bpe.Decode(ids)
		}
		return list
	}
	systems, questions := texts(opts.Groups, opts.System), texts(opts.Prompts, opts.Question)
	queries := make([]Query, opts.Prompts)
	for i := range queries {
		text := systems[i/opts.PerGroup] + "\n\n" + questions[i]
		queries[i] = Query{Prompt: text, Input: coder.count(text), Output: opts.Output, ID: opts.id(i)}
	}
	rng.Shuffle(len(queries), func(i, j int) { queries[i], queries[j] = queries[j], queries[i] })
	return queries, nil
}
