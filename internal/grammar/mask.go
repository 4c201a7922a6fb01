package grammar

// A mask is put together from fragments, each the share of one rule: for every item of
// the set, the tokens that the item's rule can read to their end, then, for tokens in
// which the rule may end, what its callers make of the rest, and so on (add). Which
// tokens these are depends on the item's place alone and not on its callers, so a
// fragment is made once, by reading the tree of all tokens, and serves every position
// and every output of the grammar.
//
// Fragments of states where counts matter are selected from the demands of the state
// (demand.go). Tokens of characters that a string takes as they are need not be read at
// all where any such character leads to the same state (plain.go).

import (
	"errors"
	"slices"
	"sync"

	"ossian/internal/grammar/vocab"
)

const (
	maxCache = 32 << 20 // bytes of fragments per grammar; beyond it they are made anew
	maxWork  = 1 << 20  // items looked at for one mask: some 10 ms (reliability.md GRM-3)
)

// ErrAmbiguous says that a text can be read in more ways at once than masks are made for.
var ErrAmbiguous = errors.New("grammar: too many parallel readings: make the grammar less ambiguous")

// A place is a state with its counts, without its callers. Counts that no token can use up
// stand as one value, so that the positions of a long string share a place.
type place struct {
	state      int32
	need, room int32
}

// A fragment is the part of a mask that one rule knows: the tokens from a place on
// that the rule can read to their end, and the nodes where it may end before. What
// comes then is up to the callers: another fragment, from these nodes and the place
// behind the call on. A string has one dense fragment for all its positions in all
// its callers.
type fragment struct {
	dense []uint64            // the tokens, one bit each; nil: they are in ids
	ids   []int32             // the tokens, while dense is nil
	exits []int32             // nodes of the tree inside tokens, where the rule may end
	next  map[place]*fragment // what fragmentAfter made, by place behind the call
}

// A masker makes and keeps fragments for all matchers of a grammar. mask and warm take the
// lock; what they call needs it held.
type masker struct {
	mu      sync.Mutex // guards all below and the fragments' next; held while a mask is made
	vocab   *Vocabulary
	parser  parser                    // reads the tree; it recycles its origins
	sets    [vocab.MaxToken + 1]set   // by depth in the tree: what the path to the present node leaves
	marks   [vocab.MaxToken + 2]int   // by depth: origins in use before its set
	only    [vocab.MaxToken + 1]int32 // by depth: the state of the only item, where no set is needed; else nowhere
	tables  []*[256]int32             // by state: where a byte leads (walk.go); nil = not made
	tabled  int                       // tables made
	freedom []uint8                   // by state: 1 + what anyPlain found; 0 = not looked for
	loops   map[int32]plainLoop       // by state
	cache   map[place]*fragment       // by place where a token begins
	demands map[int32]*demands        // by state
	asked   []demand                  // of the demands being made; used again
	bytes   int64                     // of fragments and demands, about

	demandBytes int64 // of bytes: those of demands
}

func newMasker(a *automaton, v *Vocabulary) *masker {
	return &masker{vocab: v, parser: parser{automaton: a, base: &origin{position: -1}, recycle: true}, cache: map[place]*fragment{}, demands: map[int32]*demands{}, loops: map[int32]plainLoop{},
		tables: make([]*[256]int32, len(a.states)), freedom: make([]uint8, len(a.states))}
}

// place is it without its callers. Need and room beyond the longest token are as good as
// any larger ones; slack is what edges with countCheck look ahead.
func (m *masker) place(it item) place {
	far := int32(m.vocab.Longest) + m.parser.automaton.states[it.state].slack
	pl := place{state: it.state, need: min(it.need, far+1), room: it.room}
	if pl.room > far {
		pl.room = unlimited
	}
	return pl
}

// keep puts a fragment into a cache, or returns nil when it took too much work to finish.
func (m *masker) keep(cache map[place]*fragment, pl place, f *fragment) *fragment {
	if m.parser.work > maxWork || m.parser.overflow {
		return nil
	}
	cache[pl] = f
	m.bytes += 200 + int64(8*cap(f.dense)+4*cap(f.ids)+4*cap(f.exits))
	return f
}

// fragmentAt returns the fragment of whole tokens from pl on, or nil: too much work.
func (m *masker) fragmentAt(pl place) *fragment {
	if made, ok := m.cache[pl]; ok {
		return made
	}
	// Demands take longest to make, and a few of them serve all counts: fragments go first.
	if m.bytes > maxCache {
		clear(m.cache)
		if m.bytes = m.demandBytes; m.bytes > maxCache/2 {
			clear(m.demands)
			m.bytes, m.demandBytes = 0, 0
		}
	}
	counted := m.parser.automaton.states[pl.state].counted
	if counted && pl.need == 0 && pl.room >= vocab.ShortToken+m.parser.automaton.states[pl.state].margin {
		return m.keep(m.cache, pl, m.roomy(pl))
	}
	if counted && (pl.need > 0 || pl.room != unlimited) {
		if counts := m.demandsOf(pl.state); counts != nil {
			return m.keep(m.cache, pl, counts.fragment(pl))
		}
	}
	// The plain tokens are known without reading; the second tree has the others.
	made := &fragment{}
	roots := []int32{0, m.vocab.Rest}
	if chars, ok := m.plain(pl.state); ok {
		roots = roots[1:]
		if chars > 0 {
			made.dense = slices.Clone(m.vocab.Plain[chars])
		}
	}
	// Rules that are called here are items of their own.
	m.sets[0].items = append(m.sets[0].items[:0], item{state: pl.state, need: pl.need, room: pl.room, origin: m.parser.base})
	m.parser.used, m.only[0] = 0, pl.state
	if counted && (pl.need > 0 || pl.room != unlimited) {
		m.only[0] = nowhere
	}
	m.read(made, roots)
	return m.keep(m.cache, pl, made)
}

// roomy makes the fragment of a place with room for all short tokens: what there is without
// bounds, but for long tokens that need more room.
func (m *masker) roomy(pl place) *fragment {
	all := m.fragmentAt(place{state: pl.state, room: unlimited})
	if all == nil {
		return &fragment{}
	}
	out := &fragment{ids: slices.Clone(all.ids), dense: slices.Clone(all.dense), exits: slices.Clone(all.exits)}
	for _, id := range m.vocab.Long {
		if m.parser.work > maxWork {
			return out // which is not kept
		}
		if out.has(id) && !m.reads(pl, m.vocab.Texts[id]) {
			out.remove(id)
		}
	}
	out.exits = slices.DeleteFunc(out.exits, func(at int32) bool {
		node := &m.vocab.Nodes[at]
		if node.Depth <= vocab.ShortToken {
			return false
		}
		text := m.vocab.Prefix(at)[:node.Depth]
		return vocab.Characters(text) > vocab.ShortToken && (m.parser.work > maxWork || !m.reads(pl, text))
	})
	return out
}

// reads reports whether text can be read from pl on.
func (m *masker) reads(pl place, text string) bool {
	m.parser.used = 0
	m.sets[0].items = append(m.sets[0].items[:0], item{state: pl.state, need: pl.need, room: pl.room, origin: m.parser.base})
	for i := range len(text) {
		if !m.parser.step(&m.sets[(i+1)%2], &m.sets[i%2], text[i], anyByte) {
			return false
		}
	}
	return true
}

// has reports whether f has a token.
func (f *fragment) has(id int32) bool {
	if f.dense != nil {
		return f.dense[id/64]>>(id%64)&1 == 1
	}
	return slices.Contains(f.ids, id)
}

// remove takes a token out of f.
func (f *fragment) remove(id int32) {
	if f.dense != nil {
		f.dense[id/64] &^= 1 << (id % 64)
	}
	f.ids = slices.DeleteFunc(f.ids, func(other int32) bool { return other == id })
}

// fragmentAfter returns the fragment of what is left of tokens where f's rule may end,
// from pl behind the call on, or nil.
func (m *masker) fragmentAfter(f *fragment, pl place) *fragment {
	if made, ok := f.next[pl]; ok {
		return made
	}
	made := &fragment{}
	m.parser.used = 0
	m.parser.begin(&m.sets[0], item{state: pl.state, need: pl.need, room: pl.room, origin: m.parser.base})
	m.only[0] = m.alone(&m.sets[0])
	m.read(made, f.exits)
	if f.next == nil {
		f.next = map[place]*fragment{}
	}
	return m.keep(f.next, pl, made)
}

func (f *fragment) makeDense(words int) {
	if f.dense == nil {
		f.dense = make([]uint64, words)
	}
	for _, id := range f.ids {
		f.dense[id/64] |= 1 << (id % 64)
	}
	f.ids = nil
}

// into adds f's tokens to dst, which may be longer or shorter than the vocabulary.
func (f *fragment) into(dst []uint64) {
	for word, tokens := range f.dense[:min(len(f.dense), len(dst))] {
		dst[word] |= tokens
	}
	for _, id := range f.ids {
		if int(id/64) < len(dst) {
			dst[id/64] |= 1 << (id % 64)
		}
	}
}

// mask sets dst to the tokens that may follow from, a set of the parser.
func (m *masker) mask(dst []uint64, from *set, parser *parser) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(dst)
	m.parser.work, m.parser.overflow = 0, false
	for _, it := range from.items {
		if !m.add(dst, m.fragmentAt(m.place(it)), it.origin, parser) {
			return m.singles(dst, from, parser)
		}
	}
	return nil
}

// singles sets dst to the tokens of one byte that may follow: what there is without a walk,
// where one takes too long. The output can go on with any text that way, in more tokens.
func (m *masker) singles(dst []uint64, from *set, parser *parser) error {
	clear(dst)
	var next set
	parser.overflow = false
	for _, root := range []int32{0, m.vocab.Rest} {
		nodes := m.vocab.Nodes
		for at := root + 1; at < nodes[root].End; at = nodes[at].End {
			if id := nodes[at].ID; id >= 0 && int(id/64) < len(dst) && parser.step(&next, from, nodes[at].Byte, anyByte) && !parser.overflow {
				dst[id/64] |= 1 << (id % 64)
			}
		}
	}
	if !slices.ContainsFunc(dst, func(word uint64) bool { return word != 0 }) {
		return ErrAmbiguous
	}
	return nil
}

// add adds the tokens of part, a fragment of the call at, and those that go on with its
// callers. It calls itself once for each rule that ends within a token, at most a token's
// length deep. It reports whether the work was within bounds.
func (m *masker) add(dst []uint64, part *fragment, at *origin, parser *parser) bool {
	if m.parser.work++; part == nil || m.parser.work > maxWork {
		return false
	}
	part.into(dst)
	if len(part.exits) == 0 || at == parser.base {
		return true
	}
	for _, caller := range parser.returns(at).resume {
		if !m.add(dst, m.fragmentAfter(part, m.place(caller)), caller.origin, parser) {
			return false
		}
	}
	return true
}

// warm makes the fragments that begin at each state until work is used up. Compile calls
// it, so that the first mask of an output seldom waits.
func (m *masker) warm(work int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := range m.parser.automaton.states {
		if work <= 0 || m.bytes > maxCache/2 {
			return
		}
		m.parser.work, m.parser.overflow = 0, false
		state := &m.parser.automaton.states[at]
		if state.counted {
			m.demandsOf(int32(at))
			m.parser.work /= 4 // a step of these is short
		} else {
			m.fragmentAt(place{state: int32(at)})
		}
		work -= m.parser.work
	}
}
