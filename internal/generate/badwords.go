package generate

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"ossian/internal/host"
	"ossian/internal/sched"
)

// badWords returns the constraint that keeps words out of an answer, nil without
// any. Like vLLM it forbids what the tokenizer makes of a word at the start of a
// text and behind a space, not every spelling.
func badWords(model *host.Model, words []string) Constraints {
	var bad [][]int32
	longest := 0
	for _, word := range words {
		for _, text := range []string{word, " " + strings.TrimLeft(word, " ")} {
			if ids := model.Tokenizer.Encode(nil, text); len(ids) > 0 {
				bad = append(bad, ids)
				longest = max(longest, len(ids))
			}
		}
	}
	if bad == nil {
		return nil
	}
	return func() sched.Constraint { return &filter{bad: bad, window: longest - 1} }
}

// A filter keeps id sequences out of an output.
type filter struct {
	bad    [][]int32
	tail   []int32 // the output's last ids
	window int     // how many of them may begin a sequence
}

// Mask implements sched.Constraint.
func (f *filter) Mask(dst []uint64) error {
	for i := range dst {
		dst[i] = math.MaxUint64
	}
	for _, ids := range f.bad {
		last := len(ids) - 1
		if last <= len(f.tail) && slices.Equal(f.tail[len(f.tail)-last:], ids[:last]) {
			dst[ids[last]/64] &^= 1 << (ids[last] % 64)
		}
	}
	return nil
}

// Accept implements sched.Constraint.
func (f *filter) Accept(id int32) error {
	f.tail = append(f.tail, id)
	if len(f.tail) > f.window {
		f.tail = slices.Delete(f.tail, 0, len(f.tail)-f.window)
	}
	return nil
}

// merge returns what makes constraints of both a and b, of which either may be nil.
func merge(a, b Constraints) Constraints {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return func() sched.Constraint { return &both{a: a(), b: b()} }
}

// A both constraint allows what two of them do.
type both struct {
	a, b sched.Constraint
	mask []uint64 // scratch
}

// Mask implements sched.Constraint.
func (c *both) Mask(dst []uint64) error {
	if c.mask == nil {
		c.mask = make([]uint64, len(dst))
	}
	if err := cmp.Or(c.a.Mask(dst), c.b.Mask(c.mask)); err != nil {
		return err
	}
	for i := range dst {
		dst[i] &= c.mask[i]
	}
	return nil
}

// Accept implements sched.Constraint.
func (c *both) Accept(id int32) error {
	if err := c.a.Accept(id); err != nil {
		return err
	}
	return c.b.Accept(id)
}
