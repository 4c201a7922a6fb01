package dataset

import "math"

// SyntheticOptions are the flags of data set sharegpt-synthetic.
type SyntheticOptions struct {
	Common
	Output int // --sharegpt-output-len; 0 = as the distribution has it
}

// A lognormal is a lognormal distribution of lengths, cut to 4 to 1024 tokens as vLLM cuts
// ShareGPT.
type lognormal struct{ mu, sigma float64 }

// The means are those of the published totals for 10,000 prompts of ShareGPT, 2,229,766
// tokens in and 1,959,361 out (bench.md 2.2). No published figure gives the spread: the
// sigmas are chosen, and put the medians at 125 and 122.
var (
	promptLengths = lognormal{5.173805419921877, 1.8}
	answerLengths = lognormal{4.873582763671875, 1.2}
)

const minLength, maxLength = 4, 1024

// lengths returns so many lengths that divide the distribution evenly, so that workloads
// of any seed have the same sums.
func (l lognormal) lengths(count int) []int {
	at := func(tokens float64) float64 { // share of lengths below
		return 0.5 * math.Erfc((l.mu-math.Log(tokens))/(l.sigma*math.Sqrt2))
	}
	// Each gets the middle of its part of the distribution between the two bounds.
	low, high := at(minLength-0.5), at(maxLength+0.5)
	list := make([]int, count)
	for i := range list {
		share := low + (high-low)*(float64(i)+0.5)/float64(count)
		length := math.Exp(l.mu + l.sigma*math.Sqrt2*math.Erfinv(2*share-1))
		list[i] = min(max(int(length+0.5), minLength), maxLength)
	}
	return list
}

// Synthetic returns prompts and lengths that are shaped like ShareGPT, for machines
// without its file. They are not ShareGPT: the words are random, and reports must call
// the workload synthetic.
func Synthetic(opts SyntheticOptions) ([]Query, error) {
	if err := opts.check(maxLength, flag{"--sharegpt-output-len", opts.Output, 0}); err != nil {
		return nil, err
	}
	coder, err := newCoder(opts.Tokenizer)
	if err != nil {
		return nil, err
	}
	rng := NewPython(opts.Seed)
	prompts, answers := promptLengths.lengths(opts.Prompts), answerLengths.lengths(opts.Prompts)
	// Lengths are the same for every seed; who has which is drawn.
	for _, list := range [][]int{prompts, answers} {
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	words := coder.words()
	draw := func() int32 { return words[rng.Pick(len(words))] }
	queries := make([]Query, opts.Prompts)
	for i := range queries {
		ids := make([]int32, prompts[i])
		for j := range ids {
			ids[j] = draw()
		}
		text, ids := coder.fit(ids, len(ids), draw)
		queries[i] = Query{Prompt: text, Input: len(ids), Output: answers[i], ID: opts.id(i)}
		if opts.Output > 0 {
			queries[i].Output = opts.Output
		}
	}
	return queries, nil
}

// words lists tokens that are a space and small letters: what is made of them encodes to
// the same tokens, as text is split before spaces. The first of a vocabulary are its
// commonest. Where there are too few, all ids will do.
func (c *textCoder) words() []int32 {
	const enough, few = 4096, 64
	var list []int32
	for _, id := range c.allowed() {
		text := c.bpe.Text(id)
		if isWord(text) && len(c.encode(text)) == 1 {
			list = append(list, id)
		}
		if len(list) == enough {
			return list
		}
	}
	if len(list) < few {
		return c.allowed()
	}
	return list
}

// isWord reports whether a text is a space and small letters, two at least.
func isWord(text string) bool {
	if len(text) < 3 || text[0] != ' ' {
		return false
	}
	for _, c := range []byte(text[1:]) {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}
