package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"ossian/internal/token"
)

// Rules says whose rules a workload follows where the tools differ (bench.md 0 and 4).
type Rules uint8

// The rules, by the tools that have them.
const (
	VLLM     Rules = iota // current vllm bench serve, Python client
	VLLMRust              // the same, compiled client; its generator too
	VLLM011               // vllm bench serve of autumn 2025
	LMDeploy              // profile_restful_api.py
	SGLang                // bench_serving.py
)

// Common is what every workload takes.
type Common struct {
	Tokenizer *token.BPE
	Rules     Rules
	Prompts   int   // --num-prompts
	Seed      int64 // --seed
	// Legacy is numpy's global generator, which random arrivals draw from after the
	// data set; nil = a new one from Seed.
	Legacy *Legacy
}

// Bounds of a workload: what is beyond them is a slip of the keyboard or a damaged
// file, and would take the memory of the machine.
const (
	maxPrompts = 10_000_000
	maxTokens  = 1 << 22 // of one prompt, or of one answer
	maxTotal   = 1 << 30 // tokens of all prompts together
)

// A flag is a number of tokens, or of other things, that a user gave.
type flag struct {
	name         string
	value, least int
}

// check refuses what no workload can be made of; longest is an upper bound of the
// tokens of a prompt.
func (opts *Common) check(longest int, flags ...flag) error {
	if opts.Tokenizer == nil {
		return errors.New("this data set is made of tokens: name a tokenizer with --tokenizer, drop --skip-tokenizer-init")
	}
	if opts.Prompts < 1 || opts.Prompts > maxPrompts {
		return fmt.Errorf("--num-prompts %d: want 1 to %d", opts.Prompts, maxPrompts)
	}
	for _, f := range flags {
		if f.value < f.least || f.value > maxTokens {
			return fmt.Errorf("%s %d: want %d to %d", f.name, f.value, f.least, maxTokens)
		}
	}
	if total := int64(opts.Prompts) * int64(longest); total > maxTotal {
		return fmt.Errorf("%d prompts of up to %d tokens: at most %d tokens in all are supported, ask for less or shorter prompts",
			opts.Prompts, longest, maxTotal)
	}
	return nil
}

// legacy is the generator that numpy's global functions draw from.
func (opts *Common) legacy() (*Legacy, error) {
	if opts.Legacy != nil {
		return opts.Legacy, nil
	}
	return NewLegacy(opts.Seed)
}

// id is the request id of query i; only vLLM's clients send one.
func (opts *Common) id(i int) string {
	if opts.Rules == LMDeploy || opts.Rules == SGLang {
		return ""
	}
	return strconv.Itoa(i)
}

// shuffle puts so many things in the order of the seed.
func (opts *Common) shuffle(count int, swap func(i, j int)) {
	if opts.Rules == VLLMRust {
		NewRust(uint64(opts.Seed)).Shuffle(count, swap)
		return
	}
	NewPython(opts.Seed).Shuffle(count, swap)
}

// oversample repeats queries that pick draws until there are as many as asked for
// (bench.md 2.2).
func (opts *Common) oversample(list []Query, pick func(n int) int) []Query {
	kept := len(list)
	for i := kept; i < opts.Prompts; i++ {
		query := list[pick(kept)]
		query.ID = opts.id(i)
		list = append(list, query)
	}
	return list
}

// Hash names a workload: the first 16 hex digits of SHA-256 over its queries as lines of
// JSON, so that two reports can be seen to have measured the same. Their Messages and
// Body have to be JSON.
func Hash(queries []Query) string {
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	enc.SetEscapeHTML(false)
	for i := range queries {
		if err := enc.Encode(&queries[i]); err != nil {
			panic(err) // no other field can be what JSON lacks, and a hash takes all bytes
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// A textCoder is a tokenizer as the tools have it, which is Hugging Face's: control tokens
// that are spelled in a text count as such.
type textCoder struct {
	bpe   *token.BPE
	vocab int     // ids without the added tokens at the end: vocab_size
	begin []int32 // what goes before a text with "special tokens"
}

// newCoder returns the coder of a tokenizer that has ids to draw from.
func newCoder(bpe *token.BPE) (*textCoder, error) {
	coder := &textCoder{bpe: bpe, vocab: bpe.Vocab()}
	added := map[int32]bool{}
	for _, a := range bpe.Added() {
		added[a.ID] = true
	}
	// Ids at the end that are added or have no text are no part of the vocabulary to draw from.
	for coder.vocab > 0 && (added[int32(coder.vocab-1)] || bpe.Text(int32(coder.vocab-1)) == "") {
		coder.vocab--
	}
	if coder.vocab == 0 {
		return nil, errors.New("the tokenizer has added tokens only: prompts need others, name another with --tokenizer")
	}
	if bos, add := bpe.BOS(); add {
		coder.begin = []int32{bos}
	}
	return coder, nil
}

// all lists the ids of the vocabulary.
func (c *textCoder) all() []int32 {
	list := make([]int32, c.vocab)
	for i := range list {
		list[i] = int32(i)
	}
	return list
}

// allowed lists the ids of the vocabulary that are text, in order. There is one at
// least: the last of the vocabulary.
func (c *textCoder) allowed() []int32 {
	return slices.DeleteFunc(c.all(), func(id int32) bool { return c.bpe.IsControl(id) || c.bpe.Text(id) == "" })
}

// encode returns the ids of text without special tokens.
func (c *textCoder) encode(text string) []int32 {
	p := c.bpe.Prompt()
	p.Markup(text)
	return p.IDs()
}

// count is how many tokens text has as a prompt of its own.
func (c *textCoder) count(text string) int { return len(c.begin) + len(c.encode(text)) }

// fit decodes and encodes ids until the text has want tokens (bench.md 2.3): where random
// tokens meet, the text seldom encodes to the same ones. draw gives tokens to add. After
// ten tries it returns what there is.
func (c *textCoder) fit(ids []int32, want int, draw func() int32) (string, []int32) {
	for left := 10; ; left-- {
		text := c.bpe.Decode(ids)
		ids = c.encode(text)
		if left == 0 || len(ids) == want {
			return text, ids
		}
		for len(ids) < want {
			ids = append(ids, draw())
		}
		ids = ids[:want]
	}
}
