package grammar

import (
	"errors"
	"slices"
	"sync"
)

const (
	maxCache = 32 << 20 // bytes of fragments per grammar; beyond it they are made anew
	maxWork  = 1 << 20  // items looked at for one mask: some 10 ms (reliability.md GRM-3)
)

var errMaskWork = errors.New("grammar: too many parallel readings: make the grammar less ambiguous")

// A place is a state with its counts. Counts beyond a token's length are as good as
// that length, and stand as one value.
type place struct {
	q          int32
	need, room int32
}

// A fragment is the part of a mask that one rule knows: the tokens from a place on
// that the rule can read to their end, and the nodes where it may end before. What
// comes then is up to the callers: another fragment, from these nodes and the place
// behind the call on. A string has one dense fragment for all its positions in all
// its callers.
type fragment struct {
	dense []uint64 // nil: ids
	ids   []int32
	exits []int32
	next  map[place]*fragment // by place behind the call
}

// A masker makes and keeps fragments. One goroutine at a time uses it.
type masker struct {
	mu    sync.Mutex
	v     *Vocabulary
	p     parser
	sets  [maxToken + 1]set
	marks [maxToken + 2]int // by depth: nodes in use before its set
	cache map[place]*fragment
	loops map[int32]*loop // by state
	bytes int64
}

func newMasker(a *automaton, v *Vocabulary) *masker {
	return &masker{v: v, p: parser{a: a, base: &node{born: -1}, recycle: true}, cache: map[place]*fragment{}, loops: map[int32]*loop{}}
}

func placeOf(it item) place {
	pl := place{q: it.q, need: min(it.need, maxToken+1), room: it.room}
	if pl.room > maxToken {
		pl.room = unlimited
	}
	return pl
}

// keep puts a fragment into a cache, or returns nil when it took too much work.
func (m *masker) keep(cache map[place]*fragment, pl place, f *fragment) *fragment {
	if m.p.work > maxWork || m.p.overflow {
		return nil
	}
	cache[pl] = f
	m.bytes += 200 + int64(8*cap(f.dense)+4*cap(f.ids)+4*cap(f.exits))
	return f
}

// first returns the fragment of whole tokens from pl on, or nil.
func (m *masker) first(pl place) *fragment {
	if f, ok := m.cache[pl]; ok {
		return f
	}
	if m.bytes > maxCache {
		clear(m.cache)
		clear(m.loops)
		m.bytes = 0
	}
	if m.p.a.isLoop(pl.q) {
		return m.keep(m.cache, pl, m.loop(pl.q).fragment(pl, m.v))
	}
	f := &fragment{}
	root := int32(0)
	if n, ok := m.p.a.plain(pl.q); ok {
		root = m.v.rest
		if n > 0 {
			f.dense = slices.Clone(m.v.plain[n])
		}
	}
	m.read(f, pl, []int32{root})
	return m.keep(m.cache, pl, f)
}

// after returns the fragment of what is left of tokens where f's rule may end, from
// pl behind the call on, or nil.
func (m *masker) after(f *fragment, pl place) *fragment {
	if g, ok := f.next[pl]; ok {
		return g
	}
	g := &fragment{}
	m.read(g, pl, f.exits)
	if f.next == nil {
		f.next = map[place]*fragment{}
	}
	return m.keep(f.next, pl, g)
}

// read adds the tokens below roots to f.
func (m *masker) read(f *fragment, pl place, roots []int32) {
	m.walk(item{q: pl.q, need: pl.need, room: pl.room, node: m.p.base}, roots, func(i int32, d int) {
		n := &m.v.nodes[i]
		if n.id >= 0 {
			f.ids = append(append(f.ids, n.id), m.v.same[n.id]...)
		}
		if m.sets[d].exit && n.end > i+1 {
			f.exits = append(f.exits, i)
		}
	})
	if f.dense != nil || len(f.ids) > 2*m.v.Words() {
		f.makeDense(m.v.Words())
	}
}

// walk calls visit with each node below one of roots that can be read from start on,
// and its depth below the root. The set there is m.sets[depth].
func (m *masker) walk(start item, roots []int32, visit func(i int32, d int)) {
	m.p.used = 0
	m.p.begin(&m.sets[0], start)
	m.marks[1] = m.p.used
	may, kids := m.p.bytes(&m.sets[0])
	nodes := m.v.nodes
	m.p.work += len(roots) / 8
	for _, root := range roots {
		if nodes[root].kids&kids == 0 {
			continue // as for most words that may end anywhere
		}
		top := nodes[root].depth
		for i := root + 1; i < nodes[root].end && m.p.work <= maxWork; {
			n := &nodes[i]
			d := int(n.depth - top)
			m.p.used = m.marks[d]
			if d == 1 && !may[n.b] || !m.p.step(&m.sets[d], &m.sets[d-1], n.b, n.kids) {
				i = n.end
				continue
			}
			m.marks[d+1] = m.p.used
			visit(i, d)
			i++
		}
	}
}

// A loop is what a counted loop over characters, such as a string with maxLength,
// reads of the tokens that are not plain. It serves for all counts: these differ at
// every step of a string.
type loop struct{ tokens, exits []counted }

type counted struct {
	at    int32 // id, or node
	count uint8 // characters read
	left  bool  // the loop ended behind them
}

// isLoop reports whether q is the head of such a loop. What follows it is short and
// calls no rule: the closing quote.
func (a *automaton) isLoop(q int32) bool {
	s := &a.states[q]
	to, all, _ := a.plainNext(q)
	return all && to == q && s.edges[0].count == countMore && len(s.calls) == 0
}

func (m *masker) loop(q int32) *loop {
	l, ok := m.loops[q]
	if ok {
		return l
	}
	l = &loop{}
	const room = maxToken + 1
	var at [maxToken + 1]counted // by depth
	m.walk(item{q: q, room: room, node: m.p.base}, []int32{m.v.rest}, func(i int32, d int) {
		c := at[d-1]
		if it := m.sets[d].items[0]; it.room == 0 {
			c.left = true
		} else {
			c.count = uint8(room - it.room)
		}
		at[d] = c
		n := &m.v.nodes[i]
		if n.id >= 0 {
			for _, c.at = range append([]int32{n.id}, m.v.same[n.id]...) {
				l.tokens = append(l.tokens, c)
			}
		}
		if c.at = i; m.sets[d].exit && n.end > i+1 {
			l.exits = append(l.exits, c)
		}
	})
	if m.p.work > maxWork {
		return l // not all of it; the mask fails
	}
	m.loops[q] = l
	m.bytes += int64(8 * (cap(l.tokens) + cap(l.exits)))
	return l
}

// fragment selects what the counts of pl leave.
func (l *loop) fragment(pl place, v *Vocabulary) *fragment {
	room := int(pl.room)
	if pl.room == unlimited {
		room = maxToken
	}
	fits := func(c counted) bool { return int(c.count) <= room && (!c.left || int32(c.count) >= pl.need) }
	f := &fragment{dense: slices.Clone(v.plain[min(room, maxPlain)])}
	for _, c := range l.tokens {
		if fits(c) {
			f.dense[c.at/64] |= 1 << (c.at % 64)
		}
	}
	for _, c := range l.exits {
		if fits(c) {
			f.exits = append(f.exits, c.at)
		}
	}
	return f
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
	for i, w := range f.dense[:min(len(f.dense), len(dst))] {
		dst[i] |= w
	}
	for _, id := range f.ids {
		if int(id/64) < len(dst) {
			dst[id/64] |= 1 << (id % 64)
		}
	}
}

// mask sets dst to the tokens that may follow s, a set of p.
func (m *masker) mask(dst []uint64, s *set, p *parser) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(dst)
	m.p.work, m.p.overflow = 0, false
	for _, it := range s.items {
		if it.node.born == s.born {
			continue // a rule called here: its caller's fragment has it
		}
		if !m.add(dst, m.first(placeOf(it)), it.node, p) {
			clear(dst)
			return errMaskWork
		}
	}
	return nil
}

// add adds the tokens of f, a fragment of the call at, and those that go on with its
// callers. It calls itself once for each rule that ends within a token, at most a
// token's length deep.
func (m *masker) add(dst []uint64, f *fragment, at *node, p *parser) bool {
	if m.p.work++; f == nil || m.p.work > maxWork {
		return false
	}
	f.into(dst)
	if len(f.exits) == 0 || at == p.base {
		return true
	}
	back, _ := p.returns(at)
	for _, r := range back {
		if !m.add(dst, m.after(f, placeOf(r)), r.node, p) {
			return false
		}
	}
	return true
}

// warm makes the fragments that begin at each state until work is used up.
func (m *masker) warm(work int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for q := range m.p.a.states {
		if work <= 0 || m.bytes > maxCache/2 {
			return
		}
		m.p.work, m.p.overflow = 0, false
		s := &m.p.a.states[q]
		if counted := len(s.edges) > 0 && s.edges[0].count != countNone; !counted {
			m.first(place{q: int32(q)})
		}
		work -= m.p.work
	}
}

// plainShapes spells the characters of plain tokens in bytes.
var plainShapes = [][]byteRange{
	{{0x20, 0x21}}, {{0x23, 0x5b}}, {{0x5d, 0x7f}},
	{{0xc2, 0xdf}, {0x80, 0xbf}},
	{{0xe0, 0xe0}, {0xa0, 0xbf}, {0x80, 0xbf}},
	{{0xe1, 0xec}, {0x80, 0xbf}, {0x80, 0xbf}},
	{{0xed, 0xed}, {0x80, 0x9f}, {0x80, 0xbf}},
	{{0xee, 0xef}, {0x80, 0xbf}, {0x80, 0xbf}},
	{{0xf0, 0xf0}, {0x90, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}},
	{{0xf1, 0xf3}, {0x80, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}},
	{{0xf4, 0xf4}, {0x80, 0x8f}, {0x80, 0xbf}, {0x80, 0xbf}},
}

// plain reports whether the plain tokens that may follow q are exactly those with at
// most n characters, or all of them (maxPlain). It is not so where characters differ,
// or where more may follow from other rules.
func (a *automaton) plain(q int32) (n int, ok bool) {
	alone := true
	for n = 0; n < maxPlain; n++ {
		s := &a.states[q]
		alone = alone && len(s.calls) == 0 && (n == 0 || !s.accept)
		to, all, none := a.plainNext(q)
		switch {
		case none:
			return n, alone
		case !all || s.edges[0].count != countNone:
			return 0, false
		case to == q:
			return maxPlain, true
		}
		q = to
	}
	return maxPlain, true
}

// plainNext returns the state behind one plain character, if all characters lead to
// the same one, or whether none lead anywhere.
func (a *automaton) plainNext(from int32) (to int32, all, none bool) {
	all, none, to = true, true, -1
	for _, shape := range plainShapes {
		q, ok := from, true
		for i, r := range shape {
			var some bool
			if q, ok, some = a.through(q, r); !ok {
				none = none && i == 0 && !some
				break
			}
		}
		if !ok {
			all = false
			continue
		}
		none = false
		all = all && (to < 0 || to == q)
		to = q
	}
	return to, all, none
}

// through returns the state behind each byte of r if it is the same for all of them,
// otherwise whether some of them lead anywhere.
func (a *automaton) through(q int32, r byteRange) (to int32, ok, some bool) {
	next, to := int(r.lo), int32(-1)
	for _, e := range a.states[q].edges {
		if e.hi < r.lo || e.lo > r.hi {
			continue
		}
		if int(e.lo) > next || to >= 0 && to != e.to {
			return 0, false, true
		}
		next, to = int(e.hi)+1, e.to
	}
	return to, to >= 0 && next > int(r.hi), to >= 0
}
