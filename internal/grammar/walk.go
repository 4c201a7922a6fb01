package grammar

// How a fragment is read off the trees of tokens. Most of a walk is inside of one rule, at
// a state that calls and counts nothing: there a step is one look into a table of 256
// entries (table), and no set is made. Where any text of whole characters can follow for
// longer than the tokens below a node are, they are taken as they stand (anyPlain).

import "ossian/internal/grammar/vocab"

// An entry of a table is where a byte leads, with what has to be known of the way: the state
// is entry >> entryShift, the edge's counting entry >> entryCount & entryCounts. A negative
// entry leads nowhere.
const (
	entrySimple = 1 << 0 // the state calls nothing, and no counts begin there
	entryEnds   = 1 << 1 // the rule has matched there
	entryCount  = 2
	entryCounts = 15
	entryShift  = 6
	nowhere     = -1
)

// maxTables bounds the memory of tables, a kilobyte each.
const maxTables = 4096

// table returns the table of a state, made when it is first asked for.
func (m *masker) table(at int32) *[256]int32 {
	if made := m.tables[at]; made != nil {
		return made
	}
	// All go where there are too many: those in use are made again.
	if m.tabled++; m.tabled > maxTables {
		clear(m.tables)
		m.bytes, m.tabled = m.bytes-1024*maxTables, 1
	}
	made := &[256]int32{}
	for b := range made {
		made[b] = nowhere
	}
	states := m.parser.automaton.states
	for _, by := range states[at].edges {
		to := &states[by.to]
		entry := by.to<<entryShift | int32(by.count)<<entryCount
		if len(to.calls) == 0 && by.count&countEnter == 0 {
			entry |= entrySimple
		}
		if to.accept {
			entry |= entryEnds
		}
		for b := int(by.lo); b <= int(by.hi); b++ {
			made[b] = entry
		}
	}
	m.tables[at] = made
	m.bytes += 1024
	return made
}

// free reports whether counts do not matter to an item at s for so many characters: there
// are none, or nothing is needed and there is room.
func (s *state) free(need, room int32, chars int) bool {
	return !s.counted || (need == 0 && (room == unlimited || room >= int32(chars)+s.margin))
}

// alone returns the state of the only item of a set if it calls nothing, its counts do not
// matter, and it is of the rule whose fragment is read, otherwise nowhere.
func (m *masker) alone(at *set) int32 {
	if len(at.items) != 1 || at.items[0].origin != m.parser.base {
		return nowhere
	}
	it := &at.items[0]
	if state := &m.parser.automaton.states[it.state]; len(state.calls) > 0 || !state.free(it.need, it.room, m.vocab.Longest) {
		return nowhere
	}
	return it.state
}

// itemAt is the item that only has at a state.
func (m *masker) itemAt(at int32) item {
	out := item{state: at, origin: m.parser.base}
	if m.parser.automaton.states[at].counted {
		out.room = unlimited
	}
	return out
}

// read adds to fragment the tokens below roots that can be read from the first of sets on, or where
// only has it from a state, and the nodes where the rule may end within a token.
func (m *masker) read(fragment *fragment, roots []int32) {
	m.marks[1] = m.parser.used
	// Two looks before anything is read: which bytes may come first, and whether the root
	// has a child for one of them.
	may, kids := m.parser.bytes(&m.sets[0])
	m.parser.work += len(roots) / 8
	for _, root := range roots {
		if m.vocab.Nodes[root].Kids&kids != 0 && !m.takeBelow(fragment, root, 0) { // most words that may end anywhere go on otherwise
			m.below(fragment, root, &may)
		}
	}
	if fragment.dense != nil || len(fragment.ids) > 2*m.vocab.Words() {
		fragment.makeDense(m.vocab.Words())
	}
}

// below reads the nodes below root. The tree lies in preorder: a node that cannot be read is
// skipped with all below it. What the path to the parent leaves is still at depth-1, in only
// or in sets, and origins made for the nodes between are free again.
func (m *masker) below(fragment *fragment, root int32, may *[256]bool) {
	nodes := m.vocab.Nodes
	top, end := nodes[root].Depth, nodes[root].End
	seen := 0 // nodes; a look into a table is a quarter of a look at an item
	for at := root + 1; at < end && m.parser.work+seen/4 <= maxWork; {
		node := &nodes[at]
		depth := int(node.Depth - top)
		from, entry, ends := m.only[depth-1], int32(0), false
		if seen++; from != nowhere {
			entry = m.table(from)[node.Byte]
		}
		switch {
		case entry == nowhere || (depth == 1 && !may[node.Byte]):
			at = node.End
			continue
		case entry&entrySimple != 0:
			m.only[depth], m.marks[depth+1], ends = entry>>entryShift, m.marks[depth], entry&entryEnds != 0
		default:
			if !m.step(node, depth) {
				at = node.End
				continue
			}
			ends = m.sets[depth].exit
		}
		if node.ID >= 0 {
			fragment.ids = append(append(fragment.ids, node.ID), m.vocab.Same[node.ID]...)
		}
		if ends && node.End > at+1 {
			fragment.exits = append(fragment.exits, at)
		}
		if at++; m.takeBelow(fragment, at-1, depth) {
			at = node.End
		}
	}
	m.parser.work += seen / 4
}

// step reads node with the set of its parent, which it makes if there was none, and reports
// whether anything is left.
func (m *masker) step(node *vocab.Node, depth int) bool {
	src, dst := &m.sets[depth-1], &m.sets[depth]
	if from := m.only[depth-1]; from != nowhere {
		src.items = append(src.items[:0], m.itemAt(from))
	}
	m.parser.used = m.marks[depth]
	if !m.parser.step(dst, src, node.Byte, node.Kids) {
		return false
	}
	m.marks[depth+1] = m.parser.used
	m.only[depth] = m.alone(dst)
	return true
}

// takeBelow adds all tokens below a node of plain tokens, if none of them can fail behind what is at
// depth, and reports whether they cannot.
func (m *masker) takeBelow(fragment *fragment, at int32, depth int) bool {
	height := m.vocab.Nodes[at].Height
	if height == 0 || height > vocab.MaxPlain {
		return false
	}
	if from := m.only[depth]; from != nowhere {
		if int(height) > m.anyPlain(from) && m.vocab.Below[at]&^m.loopAt(from).groups != 0 {
			return false
		}
	} else if set := &m.sets[depth]; height == vocab.MaxPlain || len(set.items) != 1 || set.items[0].origin != m.parser.base || !m.stays(&set.items[0], at) {
		return false
	}
	from, to := m.vocab.TokensBelow(at)
	tokens := m.vocab.Order[from:to]
	if len(fragment.ids)+len(tokens) > m.vocab.Words() {
		fragment.makeDense(m.vocab.Words())
	}
	if fragment.dense == nil {
		fragment.ids = append(fragment.ids, tokens...)
		return true
	}
	for _, id := range tokens {
		fragment.dense[id/64] |= 1 << (id % 64)
	}
	return true
}

// stays reports whether all tokens below a node of plain tokens keep it in a loop, with counts that
// have room for them.
func (m *masker) stays(it *item, node int32) bool {
	loop := m.loopAt(it.state)
	if m.vocab.Below[node]&^loop.groups != 0 {
		return false
	}
	room := int32(0) // that is asked for
	if loop.count&countMore != 0 {
		room = int32(m.vocab.Nodes[node].Height)
	}
	if loop.count&countCheck != 0 {
		room += m.parser.automaton.states[loop.to].low
	}
	return it.room == unlimited || it.room >= room
}

// anyPlain returns how many plain characters may follow a state whatever they are, up to
// vocab.MaxPlain, without that its rule ends or calls another one; its counts do not matter.
func (m *masker) anyPlain(at int32) int {
	if known := m.freedom[at]; known > 0 {
		return int(known) - 1
	}
	automaton := m.parser.automaton
	reached := map[int32]bool{at: true}
	layer := []int32{at} // the states behind so many characters, without those met before
	chars := 0
	for ; chars < vocab.MaxPlain && len(layer) > 0 && len(reached) <= maxReached; chars++ {
		var next []int32
		for _, from := range layer {
			to, ok := automaton.afterPlain(from)
			if !ok {
				m.freedom[at] = uint8(chars + 1)
				return chars
			}
			for _, state := range to {
				if !reached[state] {
					reached[state] = true
					next = append(next, state)
				}
			}
		}
		m.parser.work += 4 * len(layer)
		layer = next
	}
	// Nothing can fail among states that lead to each other only.
	if len(layer) == 0 {
		for state := range reached {
			m.freedom[state] = vocab.MaxPlain + 1
		}
		return vocab.MaxPlain
	}
	m.freedom[at] = uint8(chars + 1)
	return chars
}

// maxReached bounds the states that anyPlain looks at.
const maxReached = 128
