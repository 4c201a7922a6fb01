package grammar

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/soak"
)

// A reading is a matcher with the ids that it has read.
type reading struct {
	*Matcher
	ids []int32
}

// again is a matcher that has read the same ids from the beginning, each behind its mask.
func (r *reading) again(t *testing.T, mask []uint64) *Matcher {
	t.Helper()
	m := r.grammar.Matcher()
	for _, id := range r.ids {
		if err := m.Mask(mask); err != nil {
			t.Fatalf("read again: %v", err)
		}
		if err := m.Accept(id); err != nil {
			t.Fatalf("read again: %v", err)
		}
	}
	return m
}

// step reads an id that the mask allows, and reports whether there was one.
func (r *reading) step(mask []uint64, rng *rand.Rand) bool {
	if r.Mask(mask) != nil {
		return false
	}
	ids := tokensOf(mask)
	if len(ids) == 0 {
		return false
	}
	id := ids[rng.IntN(len(ids))]
	if rng.IntN(2) == 0 {
		id = closing(r.grammar.masker.vocab, ids, rng)
	}
	r.ids = append(r.ids, id)
	return r.Accept(id) == nil
}

// sameMask compares what two matchers allow.
func sameMask(t *testing.T, what string, a, b *Matcher) {
	t.Helper()
	words := a.grammar.masker.vocab.Words()
	one, other := make([]uint64, words), make([]uint64, words)
	if errA, errB := a.Mask(one), b.Mask(other); errA != errB || !slices.Equal(one, other) || a.Done() != b.Done() {
		t.Fatalf("%s: another mask (%v, %v), done %t and %t", what, errA, errB, a.Done(), b.Done())
	}
}

// readAhead reads on with copies while an output comes, and compares: a copy with a matcher that
// has read all from the beginning, the original with one that was never copied.
func readAhead(t *testing.T, g *Grammar, seed uint64) (ahead int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 23))
	mask := make([]uint64, g.masker.vocab.Words())
	original := &reading{Matcher: g.Matcher()}
	for range 12 {
		for range 2 {
			copied := &reading{original.Copy(), slices.Clone(original.ids)}
			for range 1 + rng.IntN(5) {
				if !copied.step(mask, rng) {
					break
				}
				ahead++
				sameMask(t, "a copy", copied.Matcher, copied.again(t, mask))
			}
		}
		sameMask(t, "the original", original.Matcher, original.again(t, mask))
		if !original.step(mask, rng) {
			break
		}
	}
	return ahead
}

// SPC-4: copies of a matcher read on as it would, and it does not notice: grammars met outside,
// lists whose elements differ, hostile sources.
func TestSPC4Copy(t *testing.T) {
	type form struct{ Kind, Text string }
	ahead := 0
	for i, f := range lines[form](t, "forms.jsonl") {
		ahead += readAhead(t, compiled(t, Source{Kind: kindNames[f.Kind], Text: f.Text}, small()), uint64(i))
	}
	for i, source := range uniqueSchemas {
		for seed := range uint64(3) {
			ahead += readAhead(t, compiled(t, Source{Text: source}, pairs()), uint64(i)<<8+seed)
		}
	}
	hostile := 0
	for i := range soak.Cases(t, 45, 3000) {
		_, src := corpus(i)
		b := &budget{left: maxUnits / 8, stop: t.Context().Err}
		if g, err := compileWithin(b, src, small()); err == nil {
			ahead += readAhead(t, g, uint64(i))
			hostile++
		}
	}
	t.Logf("SPC-4: %d ids read ahead, %d hostile grammars", ahead, hostile)
	if ahead < 1000 || hostile < 10 {
		t.Errorf("%d ids read ahead, %d hostile grammars", ahead, hostile)
	}
	if (*Matcher)(nil).Copy() != nil {
		t.Error("a copy of no matcher")
	}
}

// What guesses cost: a copy in the middle of an object, and eight masks.
func BenchmarkAhead(b *testing.B) {
	g := compiled(b, Source{Kind: Object}, harmony())
	m := g.Matcher()
	if err := m.accept(`{"name": "Ada", "list": [1, 2, {"deep": "`); err != nil {
		b.Fatal(err)
	}
	mask := make([]uint64, g.masker.vocab.Words())
	b.ReportAllocs()
	for b.Loop() {
		ahead := m.Copy()
		for range 8 {
			if ahead.accept("word") != nil || ahead.Mask(mask) != nil {
				b.Fatal("not allowed")
			}
		}
	}
}
