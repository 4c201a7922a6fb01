package grammar

// Lists whose elements must differ, while matching. An element ends where its rule does
// (parser.close): if its text is that of an earlier one of the list, nobody goes on behind it.
// Masks are made without regard to that, since what they are put together from serves all
// outputs; prune takes out the tokens that end such an element, or lead to where only such
// ones are left. These are few: they follow the text of an earlier element.

import (
	"slices"
	"strings"

	"ossian/internal/grammar/past"
	"ossian/internal/grammar/vocab"
)

// listOf returns the call of the list that an item is within, nil if its elements need not
// differ.
func (p *parser) listOf(at *origin) *origin {
	for range maxNesting {
		if at == p.base || p.automaton.differ[at.rule] {
			break
		}
		at = at.callers[0].origin // all callers are in the same list
	}
	if at == p.base {
		return nil
	}
	return at
}

// repeats reports whether the element that ended, and behind which caller goes on, was there
// before.
func (p *parser) repeats(caller item) bool {
	if p.past == nil || !p.automaton.states[caller.state].element {
		return false
	}
	within := p.listOf(caller.origin)
	return within != nil && p.past.Twice(within.offset)
}

// openLists returns where the lists begin whose elements must differ and that are open at from.
func (p *parser) openLists(from *set) (starts []int) {
	var seen []*origin
	add := func(items []item) {
		for _, it := range items {
			if it.origin != p.base && !slices.Contains(seen, it.origin) {
				seen = append(seen, it.origin)
			}
		}
	}
	add(from.items)
	for i := 0; i < len(seen); i++ { // it grows
		if p.automaton.differ[seen[i].rule] && !slices.Contains(starts, seen[i].offset) {
			starts = append(starts, seen[i].offset)
		}
		add(seen[i].callers)
	}
	return starts
}

// A pruner takes tokens out of a mask that lead to elements that were there before.
type pruner struct {
	*parser
	vocab *vocab.Vocabulary
	dst   []uint64
}

// prune takes out of dst the tokens behind which nothing can come but elements that were there.
func (m *Matcher) prune(dst []uint64) {
	pruner := pruner{parser: &m.parser, vocab: m.grammar.masker.vocab, dst: dst}
	starts := pruner.openLists(&m.at)
	pruner.past.Back()
	for _, f := range pruner.past.Fronts(starts) {
		pruner.below(0, &m.at, f)
		pruner.below(pruner.vocab.Rest, &m.at, f)
	}
	for _, start := range starts {
		pruner.several(m, start)
	}
}

// below looks at the tokens below parent as far as they follow f.
func (p *pruner) below(parent int32, from *set, f past.Front) {
	nodes := p.vocab.Nodes
	whole := f.Whole() // what is behind it must not be the end of it
	for at := parent + 1; at < nodes[parent].End; at = nodes[at].End {
		left := f.Following(nodes[at].Byte)
		if len(left.Rest) == 0 && !whole {
			continue
		}
		to := &set{}
		p.work = 0 // bounded by the texts that are followed
		if !p.step(to, from, nodes[at].Byte, anyByte) {
			// What cannot come first is not in the mask.
			for below := at; below < nodes[at].End && nodes[at].Depth > 1; below++ {
				p.drop(nodes[below].ID)
			}
			continue
		}
		if len(left.Rest) == 0 {
			continue
		}
		if nodes[at].ID >= 0 && p.ways(to, 0, 1) == 0 {
			p.drop(nodes[at].ID)
		}
		p.below(at, to, left)
	}
}

// drop takes a token out of the mask, with those of the same text.
func (p *pruner) drop(id int32) {
	if id < 0 {
		return
	}
	for _, id := range append([]int32{id}, p.vocab.Same[id]...) {
		if int(id/64) < len(p.dst) {
			p.dst[id/64] &^= 1 << (id % 64)
		}
	}
}

// maxSpace is how much space ways looks behind.
const maxSpace = 3

// ways counts, up to want, the different texts that may follow from, which the text has led to,
// and begin no element that was there of any list that is open. space is what is before.
func (p *pruner) ways(from *set, space, want int) (found int) {
	fronts := p.past.Fronts(p.openLists(from))
	if from.exit || len(fronts) == 0 {
		return want
	}
	may, _ := p.bytes(from)
	to := &set{}
	for _, away := range []bool{true, false} { // what leads away from all of them first
		for char, possible := range may {
			if !possible {
				continue
			}
			around, free := space, true
			for _, f := range fronts {
				left := f.Following(byte(char))
				if free = free && len(left.Rest) == 0; left.Have == 0 {
					around = space + 1
				}
			}
			if free != away || around > maxSpace || !p.step(to, from, byte(char), anyByte) {
				continue
			}
			if free {
				found++
			} else {
				found += p.ways(to, around, want-found)
			}
			if found >= want {
				return found
			}
		}
	}
	return found
}

// several looks at the tokens of the mask that may end an element and go on: there may be no other
// one left, or the token has more than one.
func (p *pruner) several(matcher *Matcher, start int) {
	p.past.Back()
	inString := p.past.InString(start)
	wide := map[string]bool{} // beginnings of the element behind that have two ways: one that ends in the token takes one
	for _, id := range p.vocab.Several {
		text := p.vocab.Texts[id]
		if int(id/64) >= len(p.dst) || p.dst[id/64]>>(id%64)&1 == 0 || (inString && strings.IndexByte(text, '"') < 0) {
			continue
		}
		p.work = 0
		to := matcher.run(&matcher.at, text)
		if to == nil {
			p.drop(id)
			continue
		}
		begun, single := p.past.Begun(start)
		if single && wide[begun] {
			continue
		}
		switch p.ways(to, 0, 2) {
		case 0:
			p.drop(id)
		case 2:
			wide[begun] = wide[begun] || single
		}
	}
}
