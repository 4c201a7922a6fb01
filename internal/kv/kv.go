// Package kv decides which KV blocks hold which tokens. Its users see block tables
// grow and need not know who else reads a block, how equal prefixes are found, in
// which order blocks are reused, or that layers with a window need few of them.
package kv

import (
	"fmt"
	"slices"

	"ossian/internal/runner"
)

// A Manager hands out the blocks of all groups. A block that no table holds keeps
// its content until it is the least recently used one and somebody needs a block.
// It is used by one goroutine.
type Manager struct {
	size   int // tokens per block
	pools  []pool
	anchor int // the group whose blocks are the nodes of the index
	index  index
	cache  bool
	open   []*Table
	spare  []*Table // closed ones, for their memory
	path   []int32  // scratch of Open
}

// A Table says where the tokens of one sequence lie. Entries are only ever
// appended, so a launched batch may keep using what it was given.
type Table struct {
	Blocks [][]runner.BlockID // [group][block]; entries before the window have no meaning
	Cached int                // leading tokens that need no computing, a multiple of the block size

	salt      uint64
	first     []int // [group] the blocks from here on are held
	boundary  int   // leading blocks that others had computed before
	published int   // leading blocks known to the index
	last      place // of the last of these
	number    int   // index in Manager.open
}

// Stats describes one group.
type Stats struct {
	Tables  int    // open ones
	Blocks  int    // pool size
	Held    int    // blocks that tables hold
	Evicted uint64 // blocks of all groups whose cached content gave way to other tokens, since New
}

// Group says what the blocks of one group are used for; the sum is its pool.
type Group struct {
	Free   int // without content that could be found
	Cached int // that no table holds, with content for whoever begins alike
	Held   int // that tables hold
}

// New returns a manager for pools of that many blocks, each of blockSize tokens.
// Without cache no prefix is ever found.
func New(blockSize int, groups []runner.Group, cache bool) *Manager {
	m := &Manager{size: blockSize, cache: cache}
	for _, g := range groups {
		m.pools = append(m.pools, newPool(g))
	}
	// A group without a window: its tables hold all blocks from the first on, so
	// that a block outlives what follows it. With windows everywhere any group
	// will do, and long prefixes are lost sooner.
	m.anchor = max(slices.IndexFunc(groups, func(g runner.Group) bool { return g.Window == 0 }), 0)
	m.index = newIndex(blockSize, groups, m.anchor)
	return m
}

// ahead is how many blocks beyond its tokens a table has memory for.
const ahead = 64

// Open claims the longest cached prefix of tokens that leaves at least one token to
// compute. Only sequences opened with the same salt share prefixes.
func (m *Manager) Open(tokens []int32, salt uint64) *Table {
	t := m.newTable(salt)
	m.path = m.path[:0]
	for i := 0; (i+1)*m.size < len(tokens); i++ {
		n := m.index.find(t.last.serial, salt, tokens[i*m.size:(i+1)*m.size])
		if n == none {
			break
		}
		t.last = m.index.place(n)
		m.path = append(m.path, n)
	}
	n := m.usable(m.path)
	for g := range m.pools {
		p := &m.pools[g]
		t.first[g] = runner.FirstBlock(n*m.size, p.window, m.size)
		for i := range n {
			id := runner.NoBlock
			if i >= t.first[g] {
				id = m.block(g, m.path[i])
				p.claim(id)
			}
			t.Blocks[g] = append(t.Blocks[g], id)
		}
		t.Blocks[g] = slices.Grow(t.Blocks[g], len(tokens)/m.size+ahead)
	}
	t.Cached, t.published, t.last, t.boundary = n*m.size, n, place{}, len(m.path)
	if n > 0 {
		t.last = m.index.place(m.path[n-1])
	}
	return t
}

// usable returns how many leading blocks of a path can be taken over: whatever the
// next token sees must be there in every group.
func (m *Manager) usable(path []int32) int {
	n := len(path)
	for g := 0; g < len(m.pools); g++ {
		first := runner.FirstBlock(n*m.size, m.pools[g].window, m.size)
		for i := n - 1; i >= first; i-- {
			if m.block(g, path[i]) == runner.NoBlock {
				n, g = i, -1 // a shorter prefix needs other blocks: look again in all groups
				break
			}
		}
	}
	return n
}

// Fits returns the largest n with which Grow(t, n, all, keep) succeeds, at most all; 0 if
// there is none.
func (m *Manager) Fits(t *Table, all, keep int) int {
	n := all
	for g := range m.pools {
		room := (len(t.Blocks[g]) + max(m.pools[g].free-keep, 0)) * m.size
		if m.pools[g].window == 0 && room < all {
			return 0
		}
		n = min(n, room)
	}
	return n
}

// Grow makes room for n tokens, and in groups without a window for all, and leaves every
// group as many blocks as keep says, or changes nothing and returns false. A sequence that takes the blocks of its whole prompt
// at once will not be stuck halfway; of a window it needs only a part at a time.
func (m *Manager) Grow(t *Table, n, all, keep int) bool {
	if fits := m.Fits(t, all, keep); fits == 0 || fits < n {
		return false
	}
	for g := range m.pools {
		need := n
		if m.pools[g].window == 0 {
			need = all
		}
		for len(t.Blocks[g])*m.size < need {
			t.Blocks[g] = append(t.Blocks[g], m.take(g))
		}
	}
	return true
}

// Publish records that the KV of the first computed tokens is written: their full
// blocks are offered to others, and blocks are given back that lie before the window
// of all later tokens and of a sequence that goes on behind the last full block.
// tokens must have been those since Open.
func (m *Manager) Publish(t *Table, tokens []int32, computed int) {
	if t.last.serial != 0 && m.index.place(t.last.node) != t.last {
		t.published, t.last = 0, place{} // it was somebody else's and is gone: offer our own
	}
	for i := t.published; m.cache && (i+1)*m.size <= computed; i++ {
		ids := tokens[i*m.size : (i+1)*m.size]
		n := m.index.find(t.last.serial, t.salt, ids)
		if n == none {
			if i < t.first[m.anchor] {
				break // given back: nothing to offer
			}
			n = int32(t.Blocks[m.anchor][i])
			m.forget(m.anchor, n)
			m.index.insert(n, t.last.serial, t.salt, ids)
			m.pools[m.anchor].blocks[n].node = n
		}
		m.attach(t, i, n)
		t.published, t.last = i+1, m.index.place(n)
	}
	for g := range m.pools {
		p := &m.pools[g]
		for first := runner.FirstBlock(computed/m.size*m.size, p.window, m.size); t.first[g] < first; t.first[g]++ {
			p.release(t.Blocks[g][t.first[g]], m.worthKeeping(t, g, t.first[g]))
		}
	}
}

// worthKeeping reports whether a block that leaves the window is likely to be found
// again: one before the place where t parted from others, as the next one that
// begins alike will want it. Of the others a long prompt has so many that, kept,
// they would push all windows at the ends of conversations out of a small pool.
func (m *Manager) worthKeeping(t *Table, g, i int) bool {
	return g == m.anchor || (i < t.boundary && i >= runner.FirstBlock(t.boundary*m.size, m.pools[g].window, m.size))
}

// attach gives node n the i-th blocks of t in the groups where it has none.
func (m *Manager) attach(t *Table, i int, n int32) {
	for g := range m.pools {
		if g == m.anchor || i < t.first[g] || m.index.others[g][n] != runner.NoBlock {
			continue
		}
		id := t.Blocks[g][i]
		m.forget(g, int32(id))
		m.index.others[g][n] = id
		m.pools[g].blocks[id].node = n
	}
}

// Close gives every block of t back; the last blocks become evictable first, so
// that the tail of a conversation goes before its head.
func (m *Manager) Close(t *Table) {
	for g := range m.pools {
		for i := len(t.Blocks[g]) - 1; i >= t.first[g]; i-- {
			m.pools[g].release(t.Blocks[g][i], true)
		}
	}
	end := len(m.open) - 1
	m.open[t.number] = m.open[end]
	m.open[t.number].number = t.number
	m.open = m.open[:end]
	m.spare = append(m.spare, t)
}

// Forget drops the content of every block that no table holds, so that it is found no
// more, and returns how many blocks of all groups that were. Tables go on as they are.
func (m *Manager) Forget() (dropped int) {
	for g := range m.pools {
		dropped += m.pools[g].cached
	}
	for g := range m.pools {
		p := &m.pools[g]
		for id := p.blocks[p.end()].next; id != p.end(); id = p.blocks[id].next {
			m.forget(g, id)
		}
	}
	return dropped
}

// Holds reports whether t has a block for each of n tokens, or had: of a window they are
// given back.
func (m *Manager) Holds(t *Table, n int) bool {
	for g := range m.pools {
		if len(t.Blocks[g])*m.size < n {
			return false
		}
	}
	return true
}

// Free returns how many blocks every group can still give.
func (m *Manager) Free() int {
	free := m.pools[0].free
	for g := range m.pools {
		free = min(free, m.pools[g].free)
	}
	return free
}

// Stats describes the group of which the largest part is held.
func (m *Manager) Stats() Stats {
	s := Stats{Tables: len(m.open)}
	for g := range m.pools {
		p := &m.pools[g]
		s.Evicted += p.evicted
		if n, held := int(p.end()), int(p.end())-p.free; g == 0 || held*s.Blocks > s.Held*n {
			s.Blocks, s.Held = n, held
		}
	}
	return s
}

// Groups appends what the blocks of each group are used for.
func (m *Manager) Groups(dst []Group) []Group {
	for g := range m.pools {
		p := &m.pools[g]
		dst = append(dst, Group{Free: p.free - p.cached, Cached: p.cached, Held: int(p.end()) - p.free})
	}
	return dst
}

func (m *Manager) newTable(salt uint64) *Table {
	var t *Table
	if n := len(m.spare); n > 0 {
		t, m.spare = m.spare[n-1], m.spare[:n-1]
		for g := range t.Blocks {
			t.Blocks[g] = t.Blocks[g][:0]
		}
		*t = Table{Blocks: t.Blocks, first: t.first}
	} else {
		t = &Table{Blocks: make([][]runner.BlockID, len(m.pools)), first: make([]int, len(m.pools))}
	}
	t.salt, t.number = salt, len(m.open)
	m.open = append(m.open, t)
	return t
}

// block returns the block of group g with the content of a node, or NoBlock.
func (m *Manager) block(g int, node int32) runner.BlockID {
	if g == m.anchor {
		return runner.BlockID(node)
	}
	return m.index.others[g][node]
}

// take returns the block that has been free longest, without content.
func (m *Manager) take(g int) runner.BlockID {
	p := &m.pools[g]
	id := p.blocks[p.end()].next
	if id == p.mid() {
		id = p.blocks[id].next
	}
	if p.blocks[id].node != none {
		p.evicted++
		m.forget(g, id)
	}
	p.claim(runner.BlockID(id))
	return runner.BlockID(id)
}

// forget takes the content of a block out of the index.
func (m *Manager) forget(g int, id int32) {
	n := m.pools[g].blocks[id].node
	if n == none {
		return
	}
	m.pools[g].drop(id)
	if g != m.anchor {
		m.index.others[g][n] = runner.NoBlock
		return
	}
	m.index.remove(n)
	for g := range m.pools {
		if g != m.anchor && m.index.others[g][n] != runner.NoBlock {
			m.pools[g].drop(int32(m.index.others[g][n]))
			m.index.others[g][n] = runner.NoBlock
		}
	}
}

// A pool is the blocks of one group. Those that nobody holds form a ring in the
// order in which they will be reused, closed by one extra element: first those that
// nobody will miss, then, behind a second one, the rest.
type pool struct {
	window  int
	blocks  []block
	free    int
	cached  int // of these, with content
	evicted uint64
}

type block struct {
	refs       int32 // tables that hold it
	node       int32 // whose content it has, none = not to be found
	prev, next int32 // while free
}

const none int32 = -1

func newPool(g runner.Group) pool {
	p := pool{window: g.Window, blocks: make([]block, g.Blocks+2)}
	p.blocks[p.end()] = block{prev: p.mid(), next: p.mid(), node: none}
	p.blocks[p.mid()] = block{prev: p.end(), next: p.end(), node: none}
	for id := range p.end() {
		p.blocks[id].node = none
		p.link(id, p.blocks[p.mid()].prev)
	}
	return p
}

func (p *pool) end() int32 { return int32(len(p.blocks)) - 2 }
func (p *pool) mid() int32 { return int32(len(p.blocks)) - 1 }

// link puts a block behind another one of the ring.
func (p *pool) link(id, after int32) {
	b, next := &p.blocks[id], p.blocks[after].next
	b.prev, b.next = after, next
	p.blocks[after].next, p.blocks[next].prev = id, id
	p.free++
	if b.node != none {
		p.cached++
	}
}

func (p *pool) claim(id runner.BlockID) {
	b := &p.blocks[id]
	if b.refs == 0 {
		p.blocks[b.prev].next, p.blocks[b.next].prev = b.next, b.prev
		p.free--
		if b.node != none {
			p.cached--
		}
	}
	b.refs++
}

// drop takes its content from a block that has some.
func (p *pool) drop(id int32) {
	b := &p.blocks[id]
	b.node = none
	if b.refs == 0 {
		p.cached--
	}
}

// release gives one reference back. Blocks without findable content are reused
// before all others, then those that are not to be kept.
func (p *pool) release(id runner.BlockID, keep bool) {
	b := &p.blocks[id]
	b.refs--
	switch {
	case b.refs < 0:
		panic(fmt.Sprintf("kv: block %d freed with %d references", id, b.refs+1))
	case b.refs > 0:
	case b.node == none:
		p.link(int32(id), p.end())
	case keep:
		p.link(int32(id), p.blocks[p.end()].prev)
	default:
		p.link(int32(id), p.blocks[p.mid()].prev)
	}
}
