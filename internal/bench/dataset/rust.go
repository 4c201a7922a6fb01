package dataset

import (
	"fmt"
	"math"
)

// A rustCoder is what the compiled client does otherwise with its tokenizer: added tokens
// that are no control tokens may be drawn, control tokens are not decoded.
type rustCoder struct {
	*textCoder
	size int     // with added tokens
	pool []int32 // ids to draw from
}

// newRustCoder returns the compiled client's view of a tokenizer.
func newRustCoder(coder *textCoder) *rustCoder {
	compiled := &rustCoder{textCoder: coder, size: coder.bpe.Vocab()}
	for compiled.size > 0 && coder.bpe.Text(int32(compiled.size-1)) == "" {
		compiled.size--
	}
	for id := range int32(compiled.size) {
		if !coder.bpe.IsControl(id) && coder.bpe.Text(id) != "" {
			compiled.pool = append(compiled.pool, id)
		}
	}
	return compiled
}

// decode is the text of ids, without control tokens.
func (r *rustCoder) decode(ids []int32) string {
	shown := make([]int32, 0, len(ids))
	for _, id := range ids {
		if !r.bpe.IsControl(id) {
			shown = append(shown, id)
		}
	}
	return r.bpe.Decode(shown)
}

// exact returns want random ids whose text encodes to as many.
func (r *rustCoder) exact(seed int64, want int) ([]int32, error) {
	rng, ids := NewRust(uint64(seed)), make([]int32, want)
	for i := range ids {
		ids[i] = r.pool[rng.Below(len(r.pool))]
	}
	if ids = r.refit(ids, want); len(ids) != want {
		return nil, fmt.Errorf("no text of %d random tokens encodes to as many; take another length or --prompt-token-ids", want)
	}
	return ids, nil
}

// refit decodes and encodes ids until there are want, if 21 times are enough.
func (r *rustCoder) refit(ids []int32, want int) []int32 {
	for left := 20; ; left-- {
		ids = r.encode(r.decode(ids))
		if left == 0 || len(ids) == want {
			return ids
		}
		for j := 0; len(ids) < want; j++ {
			ids = append(ids, r.pool[(len(ids)+j)%len(r.pool)])
		}
		ids = ids[:want]
	}
}

// randomRust follows vLLM's compiled client.
func randomRust(opts *RandomOptions, in, out span, coder *textCoder) ([]Query, error) {
	compiled, rng := newRustCoder(coder), NewRust(uint64(opts.Seed))
	cached, shared := opts.CacheHits > 0 && opts.CacheShare > 0, opts.Prefix
	if cached {
		shared = int(math.Ceil(float64(in.high) * opts.CacheShare))
	}
	prefix, err := compiled.exact(opts.Seed+0xdead, shared)
	if err != nil {
		return nil, err
	}
	queries := make([]Query, opts.Prompts)
	for i := range queries {
		output, offset, own := rng.within(out), rng.Below(compiled.size), rng.within(in)
		if cached { // the prompt is as long as it would be; what is shared stands for its beginning
			shared = 0
			if rng.Float64() < opts.CacheHits {
				shared = min(int(math.Round(float64(own)*opts.CacheShare)), len(prefix))
			}
			own -= shared
		}
		ids := append(make([]int32, 0, shared+own), prefix[:shared]...)
		for j := range own {
			ids = append(ids, compiled.pool[(offset+i+j)%len(compiled.pool)])
		}
		query := Query{IDs: ids, Input: len(ids), Output: output, ID: opts.id(i)}
		if !opts.IDs {
			ids = compiled.encode(compiled.decode(ids))
			ids = ids[:min(len(ids), shared+own)]
			query.IDs, query.Prompt, query.Input = nil, compiled.decode(ids), len(ids)
		}
		queries[i] = query
	}
	return queries, nil
}

// prefixRust follows vLLM's compiled client.
func prefixRust(opts *PrefixRepetitionOptions, each int, coder *textCoder) ([]Query, error) {
	compiled, queries := newRustCoder(coder), make([]Query, each*opts.Prefixes)
	// Each prefix and each suffix has a seed of its own, so their order does not matter.
	var prefix []int32
	for i := range queries {
		var err error
		if i%each == 0 {
			if prefix, err = compiled.exact(opts.Seed+0xf1f0+int64(i/each), opts.Prefix); err != nil {
				return nil, err
			}
		}
		suffix, err := compiled.exact(opts.Seed+0xbeef+int64(i), opts.Suffix)
		if err != nil {
			return nil, err
		}
		ids := append(prefix[:len(prefix):len(prefix)], suffix...)
		queries[i] = Query{Prompt: compiled.decode(ids), Input: len(ids), Output: opts.Output, ID: opts.id(i)}
	}
	return queries, nil
}
