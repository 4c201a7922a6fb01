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
	blockSize int // tokens per block
	pools     []pool
	anchor    int // the group whose blocks are the nodes of the index
	index     index
	cache     bool
	shared    int      // blocks of all groups together; 0 = each has its pool for itself
	clock     uint64   // of releases, to compare blocks of different groups
	tables    []*Table // open ones, in no order
	spare     []*Table // closed ones, for their memory
	path      []int32  // scratch of Open
	observer  Observer // nil = nobody is told
}

// An Observer is told what becomes of the index: which whole prefixes are to be found. What it is
// told of is the group whose blocks live longest; of others a prefix may lack some. Serials are
// never used twice in a Manager. It must not call the Manager, and keeps none of its arguments.
type Observer interface {
	// Stored tells of the content of a block behind that of parent, 0 = at the beginning. Prefixes
	// of different salts are different ones.
	Stored(serial, parent, salt uint64, tokens []int32)
	// Found tells that a sequence begins with what is in the block, and holds it.
	Found(serial uint64)
	// Removed tells that it is gone, and with it all behind it, of which it is told later or
	// never. The block is not used for other tokens before that.
	Removed(serial uint64)
}

// Observe tells observer of all that comes, and must come before the first Open.
func (m *Manager) Observe(observer Observer) { m.observer = observer }

// A Table says where the tokens of one sequence lie. Entries are only ever
// appended, so a launched batch may keep using what it was given.
type Table struct {
	Blocks [][]runner.BlockID // [group][block]; entries before the window have no meaning
	Cached int                // leading tokens that need no computing, a multiple of the block size

	salt      uint64
	first     []int // [group] the blocks from here on are held
	shared    int   // leading blocks that others had computed before
	published int   // leading blocks known to the index
	last      place // of the last of these
	openIndex int   // in Manager.tables
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
	manager := &Manager{blockSize: blockSize, cache: cache}
	for _, group := range groups {
		manager.pools = append(manager.pools, newPool(group))
	}
	// A group without a window: its tables hold all blocks from the first on, so
	// that a block outlives what follows it. With windows everywhere any group
	// will do, and long prefixes are lost sooner.
	manager.anchor = max(slices.IndexFunc(groups, func(group runner.Group) bool { return group.Window == 0 }), 0)
	manager.index = newIndex(blockSize, groups, manager.anchor)
	return manager
}

// Share makes the groups, each with a pool of total blocks, draw on one memory: together they
// never have more than total blocks held or cached, and what gives way is the least recently used
// block of all groups. It must come before the first Open; 0 changes nothing.
func (m *Manager) Share(total int) {
	m.shared = total
	for group := range m.pools {
		m.pools[group].gather = total > 0
	}
}

// unheld returns how many blocks all groups together may still take of a shared memory.
func (m *Manager) unheld() int {
	left := m.shared
	for group := range m.pools {
		left -= m.pools[group].size() - m.pools[group].free
	}
	return left
}

// ahead is how many blocks beyond its tokens a table has memory for.
const ahead = 64

// Open claims the longest cached prefix of tokens that leaves at least one token to
// compute. Only sequences opened with the same salt share prefixes.
func (m *Manager) Open(tokens []int32, salt uint64) *Table {
	table := m.newTable(salt)
	// The whole blocks that the index knows, each behind the one before.
	m.path = m.path[:0]
	for i := 0; (i+1)*m.blockSize < len(tokens); i++ {
		number := m.index.find(table.last.serial, salt, tokens[i*m.blockSize:(i+1)*m.blockSize])
		if number == none {
			break
		}
		table.last = m.index.place(number)
		m.path = append(m.path, number)
	}
	// Of these, as many as can be taken over; those before a window stay out.
	blocks := m.usable(m.path)
	for group := range m.pools {
		pool := &m.pools[group]
		table.first[group] = runner.FirstBlock(blocks*m.blockSize, pool.window, m.blockSize)
		for i := range blocks {
			id := runner.NoBlock
			if i >= table.first[group] {
				id = m.block(group, m.path[i])
				pool.claim(id)
			}
			table.Blocks[group] = append(table.Blocks[group], id)
		}
		table.Blocks[group] = slices.Grow(table.Blocks[group], len(tokens)/m.blockSize+ahead)
	}
	table.Cached, table.published, table.last, table.shared = blocks*m.blockSize, blocks, place{}, len(m.path)
	if blocks > 0 {
		table.last = m.index.place(m.path[blocks-1])
	}
	if m.observer != nil {
		for _, number := range m.path[:blocks] {
			m.observer.Found(m.index.nodes[number].serial)
		}
	}
	return table
}

// usable returns how many leading blocks of a path can be taken over: whatever the
// next token sees must be there in every group.
func (m *Manager) usable(path []int32) int {
	blocks := len(path)
	for group := 0; group < len(m.pools); group++ {
		first := runner.FirstBlock(blocks*m.blockSize, m.pools[group].window, m.blockSize)
		for i := blocks - 1; i >= first; i-- {
			if m.block(group, path[i]) == runner.NoBlock {
				blocks, group = i, -1 // a shorter prefix needs other blocks: look again in all groups
				break
			}
		}
	}
	return blocks
}

// Fits returns the largest n with which Grow(table, n, all, keep) succeeds, at most all; 0 if
// there is none.
func (m *Manager) Fits(table *Table, all, keep int) int {
	if m.shared > 0 {
		return m.fitsShared(table, all, keep)
	}
	fits := all
	for group := range m.pools {
		room := (len(table.Blocks[group]) + max(m.pools[group].free-keep, 0)) * m.blockSize
		if m.pools[group].window == 0 && room < all {
			return 0
		}
		fits = min(fits, room)
	}
	return fits
}

// fitsShared is Fits where the groups share a memory: those without a window take what they
// need of it, the others have the rest in equal parts.
func (m *Manager) fitsShared(table *Table, all, keep int) int {
	left, windowed := m.unheld()-keep*len(m.pools), 0
	for group := range m.pools {
		if m.pools[group].window > 0 {
			windowed++
			continue
		}
		left -= max((all+m.blockSize-1)/m.blockSize-len(table.Blocks[group]), 0)
	}
	if left < 0 {
		return 0
	}
	n := all
	for group := range m.pools {
		if m.pools[group].window > 0 {
			n = min(n, (len(table.Blocks[group])+left/windowed)*m.blockSize)
		}
	}
	return n
}

// Grow makes room for n tokens, and in groups without a window for all, and leaves every
// group as many blocks as keep says, or changes nothing and returns false. A sequence that
// takes the blocks of its whole prompt at once will not be stuck halfway; of a window it
// needs only a part at a time.
func (m *Manager) Grow(table *Table, n, all, keep int) bool {
	if fits := m.Fits(table, all, keep); fits == 0 || fits < n {
		return false
	}
	for group := range m.pools {
		need := n
		if m.pools[group].window == 0 {
			need = all
		}
		for len(table.Blocks[group])*m.blockSize < need {
			table.Blocks[group] = append(table.Blocks[group], m.take(group))
		}
	}
	return true
}

// Publish records that the KV of the first computed tokens is written: their full
// blocks are offered to others, and blocks are given back that lie before the window
// of all later tokens and of a sequence that goes on behind the last full block.
// tokens must have been those since Open.
func (m *Manager) Publish(table *Table, tokens []int32, computed int) {
	if table.last.serial != 0 && m.index.place(table.last.node) != table.last {
		table.published, table.last = 0, place{} // it was somebody else's and is gone: offer our own
	}
	// Each full block becomes a node, unless there is one with the same content already;
	// then that node gets our blocks where it has none.
	for i := table.published; m.cache && (i+1)*m.blockSize <= computed; i++ {
		ids := tokens[i*m.blockSize : (i+1)*m.blockSize]
		number := m.index.find(table.last.serial, table.salt, ids)
		if number == none {
			if i < table.first[m.anchor] {
				break // given back: nothing to offer
			}
			number = int32(table.Blocks[m.anchor][i])
			m.forget(m.anchor, number)
			m.index.insert(number, table.last.serial, table.salt, ids)
			m.pools[m.anchor].blocks[number].node = number
			if m.observer != nil {
				m.observer.Stored(m.index.serial, table.last.serial, table.salt, ids)
			}
		}
		m.attach(table, i, number)
		table.published, table.last = i+1, m.index.place(number)
	}
	// Of a window, what lies before it is given back.
	for group := range m.pools {
		pool := &m.pools[group]
		for first := runner.FirstBlock(computed/m.blockSize*m.blockSize, pool.window, m.blockSize); table.first[group] < first; table.first[group]++ {
			m.release(group, table.Blocks[group][table.first[group]], m.worthKeeping(table, group, table.first[group]))
		}
	}
}

// worthKeeping reports whether a block that leaves the window is likely to be found
// again: one before the place where table parted from others, as the next one that
// begins alike will want it. Of the others a long prompt has so many that, kept,
// they would push all windows at the ends of conversations out of a small pool.
func (m *Manager) worthKeeping(table *Table, group, i int) bool {
	return group == m.anchor || m.shared > 0 || (i < table.shared && i >= runner.FirstBlock(table.shared*m.blockSize, m.pools[group].window, m.blockSize))
}

// attach gives a node the i-th blocks of table in the groups where it has none.
func (m *Manager) attach(table *Table, i int, number int32) {
	for group := range m.pools {
		if group == m.anchor || i < table.first[group] || m.index.others[group][number] != runner.NoBlock {
			continue
		}
		id := table.Blocks[group][i]
		m.forget(group, int32(id))
		m.index.others[group][number] = id
		m.pools[group].blocks[id].node = number
	}
}

// Close gives every block of table back; the last blocks become evictable first, so
// that the tail of a conversation goes before its head.
func (m *Manager) Close(table *Table) {
	for group := range m.pools {
		for i := len(table.Blocks[group]) - 1; i >= table.first[group]; i-- {
			m.release(group, table.Blocks[group][i], true)
		}
	}
	end := len(m.tables) - 1
	m.tables[table.openIndex] = m.tables[end]
	m.tables[table.openIndex].openIndex = table.openIndex
	m.tables = m.tables[:end]
	m.spare = append(m.spare, table)
}

// release gives one reference to a block back, and says when.
func (m *Manager) release(group int, id runner.BlockID, keep bool) {
	m.clock++
	m.pools[group].blocks[id].released = m.clock
	m.pools[group].release(id, keep)
}

// Forget drops the content of every block that no table holds, so that it is found no
// more, and returns how many blocks of all groups that were. Tables go on as they are.
func (m *Manager) Forget() (dropped int) {
	for group := range m.pools {
		dropped += m.pools[group].cached
	}
	for group := range m.pools {
		pool := &m.pools[group]
		for id := pool.blocks[pool.sentinel()].next; id != pool.sentinel(); {
			next := pool.blocks[id].next // forget may move id
			m.forget(group, id)
			id = next
		}
	}
	return dropped
}

// Holds reports whether table has a block for each of n tokens, or had: of a window they are
// given back.
func (m *Manager) Holds(table *Table, n int) bool {
	for group := range m.pools {
		if len(table.Blocks[group])*m.blockSize < n {
			return false
		}
	}
	return true
}

// Free returns how many blocks every group can still give.
func (m *Manager) Free() int {
	if m.shared > 0 {
		return max(m.unheld(), 0) / len(m.pools)
	}
	free := m.pools[0].free
	for group := range m.pools {
		free = min(free, m.pools[group].free)
	}
	return free
}

// Stats describes the group of which the largest part is held.
func (m *Manager) Stats() Stats {
	stats := Stats{Tables: len(m.tables)}
	for group := range m.pools {
		pool := &m.pools[group]
		stats.Evicted += pool.evicted
		if size, held := pool.size(), pool.size()-pool.free; group == 0 || held*stats.Blocks > stats.Held*size {
			stats.Blocks, stats.Held = size, held
		}
	}
	if m.shared > 0 {
		stats.Blocks, stats.Held = m.shared, m.shared-m.unheld()
	}
	return stats
}

// Groups appends what the blocks of each group are used for.
func (m *Manager) Groups(dst []Group) []Group {
	for group := range m.pools {
		pool := &m.pools[group]
		dst = append(dst, Group{Free: pool.free - pool.cached, Cached: pool.cached, Held: pool.size() - pool.free})
	}
	return dst
}

// newTable returns an open table without blocks, in the memory of a closed one if there is
// one.
func (m *Manager) newTable(salt uint64) *Table {
	var table *Table
	if spare := len(m.spare); spare > 0 {
		table, m.spare = m.spare[spare-1], m.spare[:spare-1]
		for group := range table.Blocks {
			table.Blocks[group] = table.Blocks[group][:0]
		}
		*table = Table{Blocks: table.Blocks, first: table.first}
	} else {
		table = &Table{Blocks: make([][]runner.BlockID, len(m.pools)), first: make([]int, len(m.pools))}
	}
	table.salt, table.openIndex = salt, len(m.tables)
	m.tables = append(m.tables, table)
	return table
}

// block returns the block of a group with the content of a node, or NoBlock.
func (m *Manager) block(group int, node int32) runner.BlockID {
	if group == m.anchor {
		return runner.BlockID(node)
	}
	return m.index.others[group][node]
}

// take returns the block that has been free longest, without content.
func (m *Manager) take(group int) runner.BlockID {
	pool := &m.pools[group]
	if m.shared > 0 {
		m.makeRoom()
	}
	id := pool.blocks[pool.sentinel()].next
	if id == pool.boundary() {
		id = pool.blocks[id].next
	}
	if pool.blocks[id].node != none {
		pool.evicted++
		m.forget(group, id)
	}
	pool.claim(runner.BlockID(id))
	return runner.BlockID(id)
}

// makeRoom drops the content of the least recently used block of all groups if a shared memory is
// full.
func (m *Manager) makeRoom() {
	cached := 0
	for group := range m.pools {
		cached += m.pools[group].cached
	}
	if cached == 0 || m.unheld() > cached {
		return
	}
	oldest, owner := none, 0
	for group := range m.pools {
		pool := &m.pools[group]
		// With a shared memory every free block behind the boundary has content.
		id := pool.blocks[pool.boundary()].next
		if id != pool.sentinel() && (oldest == none || pool.blocks[id].released < m.pools[owner].blocks[oldest].released) {
			oldest, owner = id, group
		}
	}
	m.pools[owner].evicted++
	m.forget(owner, oldest)
}

// forget takes the content of a block out of the index. Without its block in the anchor
// group a node is gone, and so is the content in the others.
func (m *Manager) forget(group int, id int32) {
	// none: nobody can find the block, so nothing has to be taken back.
	number := m.pools[group].blocks[id].node
	if number == none {
		return
	}
	m.pools[group].drop(id)
	if group != m.anchor {
		m.index.others[group][number] = runner.NoBlock
		return
	}
	if m.observer != nil {
		m.observer.Removed(m.index.nodes[number].serial)
	}
	m.index.remove(number)
	for other := range m.pools {
		if other != m.anchor && m.index.others[other][number] != runner.NoBlock {
			m.pools[other].drop(int32(m.index.others[other][number]))
			m.index.others[other][number] = runner.NoBlock
		}
	}
}

// A pool is the blocks of one group. Those that nobody holds form a ring in the
// order in which they will be reused:
//
//	sentinel → blocks that nobody will miss → boundary → the others, least recently used first → sentinel
type pool struct {
	window  int
	blocks  []block // [BlockID], then the sentinel and the boundary of the ring
	free    int     // blocks that nobody holds
	cached  int     // of these, with content
	evicted uint64  // blocks whose content gave way to other tokens
	gather  bool    // what loses its content goes before the boundary: all behind it have some
}

// A block is held by tables, or free; with content of a node or without.
type block struct {
	refs       int32  // tables that hold it
	node       int32  // whose content it has, none = not to be found
	prev, next int32  // while free
	released   uint64 // when a table last gave it back, by Manager.clock
}

// none stands for no node.
const none int32 = -1

func newPool(group runner.Group) pool {
	made := pool{window: group.Window, blocks: make([]block, group.Blocks+2)}
	made.blocks[made.sentinel()] = block{prev: made.boundary(), next: made.boundary(), node: none}
	made.blocks[made.boundary()] = block{prev: made.sentinel(), next: made.sentinel(), node: none}
	// All blocks are free, in their order, between the two ends of the list.
	for id := range made.sentinel() {
		made.blocks[id].node = none
		made.link(id, made.blocks[made.boundary()].prev)
	}
	return made
}

func (p *pool) size() int       { return len(p.blocks) - 2 }
func (p *pool) sentinel() int32 { return int32(len(p.blocks)) - 2 }
func (p *pool) boundary() int32 { return int32(len(p.blocks)) - 1 }

// link puts a block behind another one of the ring.
func (p *pool) link(id, after int32) {
	block, next := &p.blocks[id], p.blocks[after].next
	block.prev, block.next = after, next
	p.blocks[after].next, p.blocks[next].prev = id, id
	p.free++
	if block.node != none {
		p.cached++
	}
}

// claim adds a reference, and takes a free block out of the ring.
func (p *pool) claim(id runner.BlockID) {
	block := &p.blocks[id]
	if block.refs == 0 {
		p.blocks[block.prev].next, p.blocks[block.next].prev = block.next, block.prev
		p.free--
		if block.node != none {
			p.cached--
		}
	}
	block.refs++
}

// drop takes its content from a block that has some.
func (p *pool) drop(id int32) {
	block := &p.blocks[id]
	block.node = none
	if block.refs > 0 {
		return
	}
	p.cached--
	if !p.gather {
		return
	}
	p.blocks[block.prev].next, p.blocks[block.next].prev = block.next, block.prev
	p.free--
	p.link(id, p.sentinel())
}

// release gives one reference back; the last makes the block free. Blocks without findable content are reused
// before all others, then those that are not to be kept.
func (p *pool) release(id runner.BlockID, keep bool) {
	block := &p.blocks[id]
	block.refs--
	switch {
	case block.refs < 0:
		panic(fmt.Sprintf("kv: block %d freed with %d references", id, block.refs+1))
	case block.refs > 0:
	case block.node == none:
		p.link(int32(id), p.sentinel())
	case keep:
		p.link(int32(id), p.blocks[p.sentinel()].prev)
	default:
		p.link(int32(id), p.blocks[p.boundary()].prev)
	}
}
