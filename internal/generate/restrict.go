package generate

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"ossian/internal/chat"
	"ossian/internal/chat/mask"
	"ossian/internal/host"
	"ossian/internal/sched"
	"ossian/internal/wire"
)

// What a request keeps out of its answers, allowed_token_ids and bad_words, beside what a
// format holds them to. Where the format tells text from its own words and markers
// (chat.Framed), the request limits the text: a set that thought of no headers would leave
// answers that nobody can read. Elsewhere it limits every id, as in vLLM.

// limit returns what makes the constraint of a choice, nil = none, and the ids that may
// ever be sampled, nil = all.
func (s *Service) limit(gen *Generation) (func() sched.Constraint, []uint64, error) {
	allowed, err := s.allowed(gen.Model, gen.AllowedTokenIDs)
	if err != nil {
		return nil, nil, err
	}
	bad := badWords(gen.Model, gen.BadWords)
	if gen.AllowedTokenIDs == nil || gen.Constraint == nil || !isFramed(gen.Constraint()) {
		return merge(gen.Constraint, filters(bad, nil)), allowed, nil
	}
	tok := gen.Model.Tokenizer
	isText := func(id int32) bool { return !tok.IsControl(id) && tok.Text(id) != "" }
	if !slices.ContainsFunc(gen.AllowedTokenIDs, isText) {
		return nil, nil, wire.Invalid("allowed_token_ids", "none of these ids is text: they limit the text of an answer, which would have no word")
	}
	for id := range int32(gen.Model.Vocab) { // which of them may come, the format knows
		if tok.IsControl(id) {
			allowed[id/64] |= 1 << (id % 64)
		}
	}
	return merge(gen.Constraint, filters(bad, allowed)), s.meaningful(gen.Model), nil
}

func isFramed(constraint sched.Constraint) bool {
	_, ok := constraint.(chat.Framed)
	return ok
}

// badWords returns what the tokenizer makes of words at the start of a text and behind a
// space: like vLLM, not every spelling.
func badWords(model *host.Model, words []string) (bad [][]int32) {
	for _, word := range words {
		for _, text := range []string{word, " " + strings.TrimLeft(word, " ")} {
			if ids := model.Tokenizer.Encode(nil, text); len(ids) > 0 {
				bad = append(bad, ids)
			}
		}
	}
	return bad
}

// filters makes filters of the words, and of the ids that may come, nil = all; nil where
// they would let everything through.
func filters(bad [][]int32, only []uint64) Constraints {
	if bad == nil && only == nil {
		return nil
	}
	longest := 1
	for _, ids := range bad {
		longest = max(longest, len(ids))
	}
	return func() sched.Constraint { return &filter{bad: bad, only: only, window: longest - 1} }
}

// A filter keeps ids and sequences of them out of an output.
type filter struct {
	bad    [][]int32
	only   []uint64 // the ids that may come; nil = all
	tail   []int32  // the output's last ids
	window int      // how many of them may begin a sequence
}

// Mask implements sched.Constraint.
func (f *filter) Mask(dst []uint64) error {
	for i := range dst {
		dst[i] = math.MaxUint64
	}
	if f.only != nil {
		copy(dst, f.only)
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

// Ahead implements sched.Constraint.
func (f *filter) Ahead(guesses []int32, masks [][]uint64) int {
	return mask.Ahead(f.copy(), guesses, masks)
}

func (f *filter) copy() *filter {
	out := *f
	out.tail = slices.Clone(f.tail)
	return &out
}

// merge returns what makes constraints of a format, which may be nil, and of a filter of
// its texts, likewise.
func merge(format, filter Constraints) Constraints {
	if format == nil {
		return filter
	}
	if filter == nil {
		return format
	}
	return func() sched.Constraint {
		held := &both{format: format(), filter: filter()}
		held.framed, _ = held.format.(chat.Framed)
		return held
	}
}

// A both constraint allows what two of them do.
type both struct {
	format, filter sched.Constraint
	framed         chat.Framed // format, where it has more than text; else nil
	mask           []uint64    // scratch
}

// Mask implements sched.Constraint.
func (c *both) Mask(dst []uint64) error {
	if c.framed != nil && !c.framed.InText() {
		return c.format.Mask(dst)
	}
	if c.mask == nil {
		c.mask = make([]uint64, len(dst))
	}
	if err := cmp.Or(c.format.Mask(dst), c.filter.Mask(c.mask)); err != nil {
		return err
	}
	for i := range dst {
		dst[i] &= c.mask[i]
	}
	return nil
}

// Accept implements sched.Constraint.
func (c *both) Accept(id int32) error {
	if err := c.format.Accept(id); err != nil {
		return err
	}
	return c.filter.Accept(id)
}

// Ahead implements sched.Constraint.
func (c *both) Ahead(guesses []int32, masks [][]uint64) int {
	format, copies := c.format.(chat.Constraint)
	filter, narrows := c.filter.(*filter)
	if !copies || !narrows {
		return 0
	}
	ahead := &both{format: format.Copy(), filter: filter.copy()}
	ahead.framed, _ = ahead.format.(chat.Framed)
	return mask.Ahead(ahead, guesses, masks)
}
