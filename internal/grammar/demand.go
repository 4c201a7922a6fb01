package grammar

// Where a loop counts, the tokens allowed differ with every repetition. So a token is
// read once with counts that are not known, noting what it asks of them: room for the
// repetitions it has, and a need that it satisfies where it leaves the loop. A fragment
// for given counts is then a selection, without reading anything.

import (
	"slices"

	"ossian/internal/grammar/vocab"
)

// Demands are the tokens that can be read from a state where counts matter, each with the
// counts that it asks for. They serve for all counts, which change with every step.
type demands struct {
	dense         [][]uint64 // [room]: the tokens that ask for so much or less, and for nothing else
	tokens, exits []demand   // the other tokens, and the tree's nodes where the rule may end
}

// A demand is met by so much room or more, and so much need or less.
type demand struct {
	at         int32 // id of the token, or node of the tree
	room, need uint16
}

// anyNeed is the need of a demand that any need meets: the token does not leave the loop.
const anyNeed = 1<<16 - 1

// A tally reads bytes from a state on whose counts are not known. Once an edge leaves the
// loop or enters another one, they are.
type tally struct {
	state            int32
	used             int32 // repetitions begun since
	room, need       int32 // what the counts have to have at the beginning
	nowNeed, nowRoom int32 // the counts, once they are known
	known            bool
	chars            int32 // that began in what was read
}

// take moves t along by, to the state to. It is item.take where the counts are known;
// before, it notes what it would have asked of them.
func (t *tally) take(by edge, to *state) bool {
	if t.known {
		it := item{state: t.state, need: t.nowNeed, room: t.nowRoom}
		ok := it.take(by, to)
		t.state, t.nowNeed, t.nowRoom = it.state, it.need, it.room
		return ok
	}
	t.state = by.to
	if by.count&countMore != 0 {
		t.used++
		t.room = max(t.room, t.used)
	}
	if by.count&countLeave != 0 {
		t.need, t.known = min(t.need, t.used), true
		t.nowNeed, t.nowRoom = 0, 0
	}
	if by.count&countEnter != 0 {
		t.known = true
		t.nowNeed, t.nowRoom = to.low, to.high
	}
	// With n of the repetitions used, room-n has to be low or more, and need-n high or less.
	if by.count&countCheck != 0 && !t.known {
		t.room = max(t.room, t.used+to.low)
		if to.high != unlimited {
			t.need = min(t.need, t.used+to.high)
		}
	}
	return true
}

// demandsOf returns the demands of state start, or nil if its rule calls others: those
// would have to be read with unknown counts, too.
func (m *masker) demandsOf(start int32) *demands {
	out, ok := m.demands[start]
	if ok {
		return out
	}
	out = &demands{}
	// In a loop over any character a plain token asks for as much room as it has characters:
	// the vocabulary has them sorted by that.
	roots := []int32{0, m.vocab.Rest}
	if m.parser.automaton.isPlainLoop(start) {
		out.dense, roots = m.vocab.Plain, roots[1:]
	}
	m.asked = m.asked[:0]
	for _, root := range roots {
		if !m.demand(out, start, root) {
			out = nil
			break
		}
	}
	if m.parser.work > maxWork {
		return &demands{} // not all of it; the mask fails
	}
	m.keepDemands(start, out, len(roots) > 1)
	return out
}

// demand adds to out the demands of the tokens below root, as masker.below does, with a tally
// instead of a set. It reports whether that can be done.
func (m *masker) demand(out *demands, start, root int32) bool {
	var at [vocab.MaxToken + 2]tally // by depth
	at[0] = tally{state: start, need: anyNeed}
	states, nodes := m.parser.automaton.states, m.vocab.Nodes
	seen := 0
	defer func() { m.parser.work += seen / 2 }()
	for i := root + 1; i < nodes[root].End && m.parser.work+seen/2 <= maxWork; {
		node := &nodes[i]
		now := &at[node.Depth]
		if *now = at[node.Depth-1]; node.Byte < 0x80 || node.Byte >= 0xc0 {
			now.chars++
		}
		if len(states[now.state].calls) > 0 {
			return false
		}
		seen++
		entry := m.table(now.state)[node.Byte]
		by := edge{count: counting(entry >> entryCount & entryCounts), to: entry >> entryShift}
		if entry == nowhere || !now.take(by, &states[by.to]) {
			i = node.End
			continue
		}
		asked := demand{at: node.ID, room: uint16(now.room), need: uint16(now.need)}
		if node.ID >= 0 {
			m.asked = append(m.asked, asked)
			for _, asked.at = range m.vocab.Same[node.ID] {
				m.asked = append(m.asked, asked)
			}
		}
		// The rule may end within longer tokens. Without other rules nobody goes on behind it.
		ends := states[now.state].accept && (!now.known || now.nowNeed == 0)
		longer := node.End > i+1 && len(m.parser.automaton.start) > 1
		if ends && longer {
			asked.at = i
			if !now.known {
				asked.need = uint16(min(now.need, now.used))
			}
			out.exits = append(out.exits, asked)
		}
		if m.askBelow(i, now) {
			i = node.End
			continue
		}
		i++
	}
	return true
}

// askBelow adds to asked the demands of all tokens below a node that at has led to, if none of
// them can fail but for counts, and reports whether that is so.
func (m *masker) askBelow(node int32, at *tally) bool {
	if height := m.vocab.Nodes[node].Height; height == 0 || height > vocab.MaxPlain || at.known {
		return false
	}
	loop := m.loopAt(at.state)
	if m.vocab.Below[node]&^loop.groups != 0 {
		return false
	}
	// Where the state counts, a token needs room for all of its characters.
	from, to := m.vocab.TokensBelow(node)
	for i := from; i < to; i++ {
		asked := demand{at: m.vocab.Order[i], room: uint16(at.room), need: uint16(at.need)}
		if loop.count&countMore != 0 {
			room := at.used + int32(m.vocab.Chars[i]) - at.chars
			if loop.count&countCheck != 0 {
				room += m.parser.automaton.states[loop.to].low
			}
			asked.room = uint16(max(at.room, room))
		}
		m.asked = append(m.asked, asked)
	}
	return true
}

// keepDemands keeps what demandsOf found, nil if nothing can be said. With all, the tokens
// are of the first tree: where they are many, layer makes them smaller and faster.
func (m *masker) keepDemands(start int32, out *demands, all bool) {
	m.demands[start] = out
	if out == nil {
		return
	}
	if all && len(m.asked) > 2*m.vocab.Words() {
		out.layer(m.asked, m.vocab.Words())
	} else {
		out.tokens = slices.Clone(m.asked)
	}
	size := 8 * (cap(out.tokens) + cap(out.exits))
	if all && out.dense != nil {
		size = 8 * (cap(out.tokens) + cap(out.exits) + len(out.dense)*m.vocab.Words())
	}
	m.bytes, m.demandBytes = m.bytes+int64(size), m.demandBytes+int64(size)
}

// layer puts the tokens that only ask for some room into dense, and the others into tokens:
// a fragment then copies most tokens inside a string instead of looking at each.
func (d *demands) layer(asked []demand, words int) {
	alone := func(token demand) bool { return token.need == anyNeed && token.room <= vocab.MaxPlain }
	last := uint16(0)
	for _, token := range asked {
		if alone(token) {
			last = max(last, token.room)
		}
	}
	d.dense = make([][]uint64, last+1)
	for room := range d.dense {
		d.dense[room] = make([]uint64, words)
	}
	for _, token := range asked {
		if !alone(token) {
			d.tokens = append(d.tokens, token)
		} else {
			d.dense[token.room][token.at/64] |= 1 << (token.at % 64)
		}
	}
	// Whoever has room for more has room for less.
	for room := 1; room < len(d.dense); room++ {
		for word, tokens := range d.dense[room-1] {
			d.dense[room][word] |= tokens
		}
	}
}

// fragment selects what the counts of pl allow.
func (d *demands) fragment(pl place) *fragment {
	room := int(pl.room)
	if pl.room == unlimited {
		room = anyNeed
	}
	out := &fragment{}
	if d.dense != nil {
		out.dense = slices.Clone(d.dense[min(room, len(d.dense)-1)])
	}
	fits := func(asked demand) bool { return int(asked.room) <= room && int32(asked.need) >= pl.need }
	for _, asked := range d.tokens {
		switch {
		case !fits(asked):
		case out.dense != nil:
			out.dense[asked.at/64] |= 1 << (asked.at % 64)
		default:
			out.ids = append(out.ids, asked.at)
		}
	}
	for _, asked := range d.exits {
		if fits(asked) {
			out.exits = append(out.exits, asked.at)
		}
	}
	return out
}
