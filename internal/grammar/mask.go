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

// ErrAmbiguous says that a text can be read in more ways at once than masks are made for.
var ErrAmbiguous = errors.New("grammar: too many parallel readings: make the grammar less ambiguous")

// A place is a state with its counts. Counts that no token can use up stand as one value.
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

	looped int64 // of bytes: those of loops
}

func newMasker(a *automaton, v *Vocabulary) *masker {
	return &masker{v: v, p: parser{a: a, base: &node{born: -1}, recycle: true}, cache: map[place]*fragment{}, loops: map[int32]*loop{}}
}

func (m *masker) place(it item) place {
	far := maxToken + m.p.a.states[it.q].slack
	pl := place{q: it.q, need: min(it.need, far+1), room: it.room}
	if pl.room > far {
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
		if m.bytes = m.looped; m.bytes > maxCache/2 {
			clear(m.loops)
			m.bytes, m.looped = 0, 0
		}
	}
	if m.p.a.states[pl.q].counted {
		if l := m.loop(pl.q); l != nil {
			return m.keep(m.cache, pl, l.fragment(pl))
		}
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
			if (d == 1 && !may[n.b]) || !m.p.step(&m.sets[d], &m.sets[d-1], n.b, n.kids) {
				i = n.end
				continue
			}
			m.marks[d+1] = m.p.used
			visit(i, d)
			i++
		}
	}
}

// A loop is what can be read from a state where counts matter, with the counts that each
// token asks for. It serves for all counts: these differ at every step of a string.
type loop struct {
	dense         [][]uint64 // [room]: the tokens that ask for no more, and for nothing else
	tokens, exits []counted  // the other tokens, and the nodes where the rule may end
}

// A counted is allowed with so much room or more, and so much need or less.
type counted struct {
	at         int32 // id, or node
	room, need uint16
}

// anyNeed is no bound of the need.
const anyNeed = 1<<16 - 1

// isLoop reports whether all plain characters lead back to q, once more each.
func (a *automaton) isLoop(q int32) bool {
	s := &a.states[q]
	to, all, _ := a.plainNext(q)
	return all && to == q && s.edges[0].count&countMore != 0 && (s.edges[0].count&countCheck == 0 || (s.low == 0 && s.high == unlimited))
}

// A tally reads bytes from a state on whose counts are not known.
type tally struct {
	item
	known      bool // by now they are, and are item's
	used       int32
	room, need int32 // that the counts have to have at the beginning
}

func (t *tally) take(e edge, to *state) bool {
	if t.known {
		return t.item.take(e, to)
	}
	t.q = e.to
	if e.count&countMore != 0 {
		t.used++
		t.room = max(t.room, t.used)
	}
	if e.count&countLeave != 0 {
		t.need, t.known = min(t.need, t.used), true
		t.item.need, t.item.room = 0, 0
	}
	if e.count&countEnter != 0 {
		t.known = true
		t.item.need, t.item.room = to.low, to.high
	}
	if e.count&countCheck != 0 && !t.known {
		t.room = max(t.room, t.used+to.low)
		if to.high != unlimited {
			t.need = min(t.need, t.used+to.high)
		}
	}
	return true
}

// loop returns the loop of q, or nil if its rule calls others.
func (m *masker) loop(q int32) *loop {
	l, ok := m.loops[q]
	if ok {
		return l
	}
	l = &loop{}
	root := int32(0)
	if m.p.a.isLoop(q) {
		l.dense, root = m.v.plain, m.v.rest
	}
	var at [maxToken + 2]tally // by depth
	at[0] = tally{item: item{q: q}, need: anyNeed}
	states, nodes := m.p.a.states, m.v.nodes
	for i := root + 1; i < nodes[root].end; {
		n := &nodes[i]
		t := at[n.depth-1]
		s := &states[t.q]
		if len(s.calls) > 0 {
			l = nil
			break
		}
		if m.p.work++; m.p.work > maxWork {
			return l // not all of it; the mask fails
		}
		e, ok := s.edge(n.b)
		if !ok || !t.take(e, &states[e.to]) {
			i = n.end
			continue
		}
		at[n.depth] = t
		c := counted{room: uint16(t.room), need: uint16(t.need)}
		if n.id >= 0 {
			for _, c.at = range append([]int32{n.id}, m.v.same[n.id]...) {
				l.tokens = append(l.tokens, c)
			}
		}
		if states[t.q].accept && n.end > i+1 && len(m.p.a.start) > 1 && (!t.known || t.item.need == 0) {
			c.at = i
			if !t.known {
				c.need = uint16(min(t.need, t.used))
			}
			l.exits = append(l.exits, c)
		}
		i++
	}
	m.loops[q] = l
	if l != nil {
		n := 8 * (cap(l.tokens) + cap(l.exits))
		if root == 0 && len(l.tokens) > 2*m.v.Words() {
			l.layer(m.v.Words())
			n = 8 * (cap(l.tokens) + cap(l.exits) + len(l.dense)*m.v.Words())
		}
		m.bytes, m.looped = m.bytes+int64(n), m.looped+int64(n)
	}
	return l
}

// layer moves the tokens that only ask for some room into dense.
func (l *loop) layer(words int) {
	alone := func(c counted) bool { return c.need == anyNeed && c.room <= maxPlain }
	last := uint16(0)
	for _, c := range l.tokens {
		if alone(c) {
			last = max(last, c.room)
		}
	}
	l.dense = make([][]uint64, last+1)
	for i := range l.dense {
		l.dense[i] = make([]uint64, words)
	}
	for _, c := range l.tokens {
		if alone(c) {
			l.dense[c.room][c.at/64] |= 1 << (c.at % 64)
		}
	}
	for i := 1; i < len(l.dense); i++ {
		for k, w := range l.dense[i-1] {
			l.dense[i][k] |= w
		}
	}
	l.tokens = slices.Clip(slices.Clone(slices.DeleteFunc(l.tokens, alone)))
}

// fragment selects what the counts of pl leave.
func (l *loop) fragment(pl place) *fragment {
	room := int(pl.room)
	if pl.room == unlimited {
		room = anyNeed
	}
	f := &fragment{}
	if l.dense != nil {
		f.dense = slices.Clone(l.dense[min(room, len(l.dense)-1)])
	}
	fits := func(c counted) bool { return int(c.room) <= room && int32(c.need) >= pl.need }
	for _, c := range l.tokens {
		switch {
		case !fits(c):
		case f.dense != nil:
			f.dense[c.at/64] |= 1 << (c.at % 64)
		default:
			f.ids = append(f.ids, c.at)
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
		if !m.add(dst, m.first(m.place(it)), it.node, p) {
			clear(dst)
			return ErrAmbiguous
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
		if !m.add(dst, m.after(f, m.place(r)), r.node, p) {
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
		if s.counted {
			m.loop(int32(q))
			m.p.work /= 4 // a step of these is short
		} else {
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
		case !all || s.edges[0].count != 0:
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
		if int(e.lo) > next || (to >= 0 && to != e.to) {
			return 0, false, true
		}
		next, to = int(e.hi)+1, e.to
	}
	return to, to >= 0 && next > int(r.hi), to >= 0
}
