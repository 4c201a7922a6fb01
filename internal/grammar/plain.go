package grammar

import (
	"slices"

	"ossian/internal/grammar/runes"
	"ossian/internal/grammar/vocab"
)

// Plain tokens are whole characters that a JSON string holds as they are, and nearly all
// tokens are plain. Inside a string without a pattern they are allowed by their length
// alone. What is here finds out where that is so.

// isPlainLoop reports whether all plain characters lead back to start, each with one
// repetition more, and without looking ahead.
func (a *automaton) isPlainLoop(start int32) bool {
	from := &a.states[start]
	to, all, _ := a.plainNext(start)
	return all && to == start && from.edges[0].count&countMore != 0 && (from.edges[0].count&countCheck == 0 || (from.low == 0 && from.high == unlimited))
}

// plainShapes spells the characters of plain tokens in bytes.
var plainShapes = [][]runes.Bytes{
	{{0x20, 0x21}}, {{0x23, 0x5b}}, {{0x5d, 0x7f}},
	{{0xc2, 0xdf}, {0x80, 0xbf}},
	{{0xe0, 0xe0}, {0xa0, 0xbf}, {0x80, 0xbf}},
	{{0xe1, 0xe1}, {0x80, 0xbf}, {0x80, 0xbf}},
	{{0xe2, 0xe2}, {0x80, 0x80}, {0x80, 0xa7}}, {{0xe2, 0xe2}, {0x80, 0x80}, {0xaa, 0xbf}}, // not the ends of lines
	{{0xe2, 0xe2}, {0x81, 0xbf}, {0x80, 0xbf}},
	{{0xe3, 0xec}, {0x80, 0xbf}, {0x80, 0xbf}},
	{{0xed, 0xed}, {0x80, 0x9f}, {0x80, 0xbf}},
	{{0xee, 0xef}, {0x80, 0xbf}, {0x80, 0xbf}},
	{{0xf0, 0xf0}, {0x90, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}},
	{{0xf1, 0xf3}, {0x80, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}},
	{{0xf4, 0xf4}, {0x80, 0x8f}, {0x80, 0xbf}, {0x80, 0xbf}},
}

// afterPlain returns the states behind one plain character, if every one may follow from, and
// from neither ends its rule, where others could go on, nor calls or begins to count.
func (a *automaton) afterPlain(from int32) (to []int32, ok bool) {
	if here := &a.states[from]; len(here.calls) > 0 || (here.accept && len(a.start) > 1) {
		return nil, false
	}
	at := []int32{from}
	// Each shape is one that a character's UTF-8 may have: all of them have to lead somewhere.
	for _, shape := range plainShapes {
		at = append(at[:0], from)
		for _, bytes := range shape {
			var next []int32
			for _, state := range at {
				if next, ok = a.all(next, state, bytes); !ok {
					return nil, false
				}
			}
			at = next
		}
		for _, state := range at {
			if !slices.Contains(to, state) {
				to = append(to, state)
			}
		}
	}
	return to, true
}

// all adds to next the states behind each of bytes. Not ok: some of them lead nowhere.
func (a *automaton) all(next []int32, from int32, bytes runes.Bytes) ([]int32, bool) {
	lo := int(bytes[0])
	for _, edge := range a.states[from].edges {
		if int(edge.hi) < lo {
			continue
		}
		if int(edge.lo) > lo || edge.count&countEnter != 0 {
			return next, false
		}
		if !slices.Contains(next, edge.to) {
			next = append(next, edge.to)
		}
		if lo = int(edge.hi) + 1; lo > int(bytes[1]) {
			return next, true
		}
	}
	return next, false
}

// plain reports whether the plain tokens that may follow at are exactly those with at most
// so many characters, or all of them (vocab.MaxPlain).
func (m *masker) plain(at int32) (chars int, ok bool) {
	if m.anyPlain(at) == vocab.MaxPlain {
		return vocab.MaxPlain, true
	}
	return m.parser.automaton.plain(at)
}

// plain reports whether the plain tokens that may follow at are exactly those with at most
// so many characters, or all of them (vocab.MaxPlain). It is not so where characters differ, or
// where more may follow from other rules.
func (a *automaton) plain(at int32) (chars int, ok bool) {
	// Character by character, as long as all lead to the same state, until none leads on.
	alone := true
	for chars = 0; chars < vocab.MaxPlain; chars++ {
		from := &a.states[at]
		alone = alone && len(from.calls) == 0 && (chars == 0 || !from.accept)
		to, all, none := a.plainNext(at)
		switch {
		case none:
			return chars, alone
		case !all || from.edges[0].count != 0:
			return 0, false
		case to == at:
			return vocab.MaxPlain, true
		}
		at = to
	}
	return vocab.MaxPlain, true
}

// plainNext returns the state behind one plain character, if all characters lead to
// the same one, or whether none lead anywhere.
func (a *automaton) plainNext(from int32) (to int32, all, none bool) {
	all, none, to = true, true, -1
	// Each shape must lead to one state for all its bytes, and all shapes to the same. A
	// shape that fails at its first byte leads nowhere; later, some characters do.
	for _, shape := range plainShapes {
		at, ok := from, true
		for i, bytes := range shape {
			var some bool
			if at, ok, some = a.through(at, bytes); !ok {
				none = none && i == 0 && !some
				break
			}
		}
		if !ok {
			all = false
			continue
		}
		none = false
		all = all && (to < 0 || to == at)
		to = at
	}
	return to, all, none
}

// through returns the state behind each byte of bytes if it is the same for all of them,
// otherwise whether some of them lead anywhere.
func (a *automaton) through(from int32, bytes runes.Bytes) (to int32, ok, some bool) {
	next, to := int(bytes[0]), int32(-1)
	for _, edge := range a.states[from].edges {
		if edge.hi < bytes[0] || edge.lo > bytes[1] {
			continue
		}
		if int(edge.lo) > next || (to >= 0 && to != edge.to) {
			return 0, false, true
		}
		next, to = int(edge.hi)+1, edge.to
	}
	return to, to >= 0 && next > int(bytes[1]), to >= 0
}

// A plainLoop is a state that characters lead to and back to: a class repeated, or the rest of a
// text that is searched. Any number of plain characters of the groups may follow there.
type plainLoop struct {
	to     int32
	groups uint64 // as Vocabulary.below; 0 = there is no such state
	count  counting
}

// loopAt returns the loop that most plain characters lead to from at.
func (m *masker) loopAt(at int32) plainLoop {
	made, ok := m.loops[at]
	if !ok {
		made = m.findLoop(at)
		m.loops[at] = made
		m.bytes += 40
	}
	return made
}

// findLoop is loopAt, made anew.
func (m *masker) findLoop(at int32) plainLoop {
	automaton := m.parser.automaton
	if here := &automaton.states[at]; len(here.calls) > 0 || (here.accept && len(automaton.start) > 1) {
		return plainLoop{}
	}
	// Where most characters lead; those of letters are enough to find it.
	table := m.table(at)
	votes, entry := map[int32]int{}, int32(nowhere)
	for b := 0x20; b < 0x80; b++ {
		if votes[table[b]]++; table[b] != nowhere && votes[table[b]] > votes[entry] {
			entry = table[b]
		}
	}
	out := plainLoop{to: entry >> entryShift, count: counting(entry >> entryCount & entryCounts)}
	if entry == nowhere || entry&entrySimple == 0 || (entry&entryEnds != 0 && len(automaton.start) > 1) || out.count&^(countMore|countCheck) != 0 {
		return plainLoop{}
	}
	to := &automaton.states[out.to]
	if out.count&countCheck != 0 && to.high != unlimited {
		return plainLoop{}
	}
	loop := m.table(out.to)
	leads := func(b int) bool { return b == '"' || b == '\\' || (table[b] == entry && loop[b] == entry) }
	for b := 0x20; b < 0x80; b += 2 {
		if leads(b) && leads(b+1) {
			out.groups |= vocab.GroupOf(byte(b))
		}
	}
	if automaton.wide(at, out) && automaton.wide(out.to, out) {
		out.groups |= vocab.GroupOf(0x80)
	}
	return out
}

// wide reports whether all plain characters beyond ASCII lead from a state to loop.
func (a *automaton) wide(from int32, loop plainLoop) bool {
	for _, shape := range plainShapes[3:] {
		at, ok := from, true
		for i, bytes := range shape {
			want := counting(0)
			if i == 0 {
				// A character is counted with its first byte.
				want = loop.count & countMore
			}
			for _, edge := range a.states[at].edges {
				if edge.hi >= bytes[0] && edge.lo <= bytes[1] && edge.count&^countCheck != want {
					return false
				}
			}
			if at, ok, _ = a.through(at, bytes); !ok || (i+1 < len(shape) && (a.states[at].accept || len(a.states[at].calls) > 0)) {
				return false
			}
		}
		if at != loop.to {
			return false
		}
	}
	return true
}
