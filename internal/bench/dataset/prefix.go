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
func PrefixRepetition(o PrefixRepetitionOptions) ([]Query, error) {
	err := o.check(o.Prefix+o.Suffix, flag{"--prefix-repetition-prefix-len", o.Prefix, 0}, flag{"--prefix-repetition-suffix-len", o.Suffix, 0},
		flag{"--prefix-repetition-num-prefixes", o.Prefixes, 1}, flag{"--prefix-repetition-output-len", o.Output, 1})
	if err != nil {
		return nil, err
	}
	each := o.Prompts / o.Prefixes
	if each == 0 {
		return nil, fmt.Errorf("--num-prompts %d is less than --prefix-repetition-num-prefixes %d: no prefix would have a prompt", o.Prompts, o.Prefixes)
	}
	c, err := newCoder(o.Tokenizer)
	if err != nil {
		return nil, err
	}
	var queries []Query
	if o.Rules == VLLMRust {
		queries, err = prefixRust(&o, each, c)
	} else {
		queries, err = prefixNumpy(&o, each, c)
	}
	if err != nil {
		return nil, err
	}
	if !o.KeepOrder {
		o.shuffle(len(queries), func(i, j int) { queries[i], queries[j] = queries[j], queries[i] })
	}
	return queries, nil
}

// prefixNumpy follows vLLM's Python client.
func prefixNumpy(o *PrefixRepetitionOptions, each int, c *coder) ([]Query, error) {
	g, err := NewLegacy(o.Seed)
	if err != nil {
		return nil, err
	}
	exact := func(n int) []int32 { return c.exact(g, n, o.Rules == VLLM011) }
	queries := make([]Query, 0, each*o.Prefixes)
	for range o.Prefixes {
		prefix := exact(o.Prefix)
		for range each {
			ids := slices.Concat(prefix, exact(o.Suffix))
			queries = append(queries, Query{Prompt: c.bpe.Decode(ids), Input: len(ids), Output: o.Output})
		}
	}
	if o.Legacy != nil {
		*o.Legacy = *g // vLLM seeds the global generator again and leaves it like this
	}
	return queries, nil
}

// exact returns n random ids whose text encodes to as many, as far as that can be had.
// The old rule fills up what the first text lacks with texts of their own.
func (c *coder) exact(g *Legacy, n int, old bool) []int32 {
	draw := func() int32 { return int32(g.Randint(0, c.vocab)) }
	random := func(n int) []int32 {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = draw()
		}
		return ids
	}
	if !old {
		_, ids := c.fit(random(n), n, draw)
		return ids
	}
	var out []int32
	for tries := 0; len(out) < n && tries < 1000; tries++ {
		ids := c.encode(c.bpe.Decode(random(n - len(out))))
		out = append(out, ids[:min(len(ids), n-len(out))]...)
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
func SharedPrefix(o SharedPrefixOptions) ([]Query, error) {
	err := (&Common{Tokenizer: o.Tokenizer, Prompts: 1}).check(0, flag{"--gsp-num-groups", o.Groups, 1}, flag{"--gsp-prompts-per-group", o.PerGroup, 1},
		flag{"--gsp-system-prompt-len", o.System, 0}, flag{"--gsp-question-len", o.Question, 0}, flag{"--gsp-output-len", o.Output, 0})
	if err != nil {
		return nil, err
	}
	o.Prompts = o.Groups * o.PerGroup
	if err := o.check(o.System + o.Question); err != nil {
		return nil, err
	}
	c, err := newCoder(o.Tokenizer)
	if err != nil {
		return nil, err
	}
	pool, g := c.allowed(), NewPython(o.Seed)
	texts := func(count, tokens int) []string {
		list := make([]string, count)
		ids := make([]int32, tokens)
		for i := range list {
			for j := range ids {
				ids[j] = pool[g.Pick(len(pool))]
			}
			list[i] = c.bpe.Decode(ids)
		}
		return list
	}
	systems, questions := texts(o.Groups, o.System), texts(o.Prompts, o.Question)
	queries := make([]Query, o.Prompts)
	for i := range queries {
		text := systems[i/o.PerGroup] + "\n\n" + questions[i]
		queries[i] = Query{Prompt: text, Input: c.count(text), Output: o.Output, ID: o.id(i)}
	}
	g.Shuffle(len(queries), func(i, j int) { queries[i], queries[j] = queries[j], queries[i] })
	return queries, nil
}
