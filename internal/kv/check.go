package kv

import (
	"fmt"

	"ossian/internal/runner"
)

// Check reports the first broken invariant (DET-4): reference counts are what the
// open tables hold, exactly the blocks that nobody holds are free, and index and
// blocks agree.
func (m *Manager) Check() error {
	for g := range m.pools {
		if err := m.checkPool(g); err != nil {
			return fmt.Errorf("kv: group %d: %w", g, err)
		}
	}
	used := 0 // of a shared memory
	for g := range m.pools {
		used += m.pools[g].size() - m.pools[g].free + m.pools[g].cached
	}
	if m.shared > 0 && used > m.shared {
		return fmt.Errorf("kv: %d blocks are held or cached, the groups share %d", used, m.shared)
	}
	// Every node with content is in its bucket, once, and nothing else is.
	indexed := 0
	for bucket, number := range m.index.buckets {
		for ; number != none; number = m.index.nodes[number].next {
			if node := &m.index.nodes[number]; node.serial == 0 || node.serial > m.index.serial || int(node.bucket) != bucket {
				return fmt.Errorf("kv: node %d with serial %d of bucket %d is in bucket %d", number, node.serial, node.bucket, bucket)
			}
			indexed++
		}
	}
	for number := range m.index.nodes {
		if m.index.nodes[number].serial != 0 {
			indexed--
		}
	}
	if indexed != 0 {
		return fmt.Errorf("kv: buckets hold %d nodes too many", indexed)
	}
	return nil
}

// Prefixes calls tell with each block that the index has, as an Observer was told of it, in no
// order; those whose parent is gone are among them.
func (m *Manager) Prefixes(tell func(serial, parent, salt uint64, tokens []int32)) {
	for number := range m.index.nodes {
		if node := &m.index.nodes[number]; node.serial != 0 {
			tell(node.serial, node.parent, node.salt, m.index.ids[number*m.blockSize:][:m.blockSize])
		}
	}
}

// CheckOwn reports a block of table, of those from the first-th on, that another table
// holds too (DET-4): a sequence writes to blocks of its own.
func (m *Manager) CheckOwn(table *Table, first int) error {
	for group := range m.pools {
		for i := max(first, table.first[group]); i < len(table.Blocks[group]); i++ {
			if refs := m.pools[group].blocks[table.Blocks[group][i]].refs; refs != 1 {
				return fmt.Errorf("kv: group %d: block %d is to be written and has %d holders", group, table.Blocks[group][i], refs)
			}
		}
	}
	return nil
}

// checkPool holds one group to what tables and index say of its blocks.
func (m *Manager) checkPool(group int) error {
	pool := &m.pools[group]
	refs := make([]int32, pool.size())
	for _, table := range m.tables {
		for i := table.first[group]; i < len(table.Blocks[group]); i++ {
			id := table.Blocks[group][i]
			if id < 0 || int(id) >= len(refs) {
				return fmt.Errorf("a table holds block %d, pool has %d", id, len(refs))
			}
			refs[id]++
		}
	}
	// The ring, which is to have all free blocks, once each.
	free := make([]bool, pool.size())
	listed, cached := 0, 0
	for id := pool.blocks[pool.sentinel()].next; id != pool.sentinel(); id = pool.blocks[id].next {
		if pool.blocks[pool.blocks[id].next].prev != id || (id != pool.boundary() && free[id]) {
			return fmt.Errorf("the list of free blocks is broken at %d", id)
		}
		if id != pool.boundary() {
			free[id] = true
			listed++
			if pool.blocks[id].node != none {
				cached++
			}
		}
	}
	if listed != pool.free || cached != pool.cached {
		return fmt.Errorf("%d blocks are free, %d with content, counted %d and %d", listed, cached, pool.free, pool.cached)
	}
	// Each block against its references, and against the node that it names.
	for id := range refs {
		block := &pool.blocks[id]
		if block.refs != refs[id] || free[id] != (block.refs == 0) {
			return fmt.Errorf("block %d counts %d references, tables hold %d, free: %v", id, block.refs, refs[id], free[id])
		}
		content := block.node != none && m.index.nodes[block.node].serial != 0 && m.block(group, block.node) == runner.BlockID(id)
		if (block.node != none && !content) || (group == m.anchor && (block.node != none) != (m.index.nodes[id].serial != 0)) {
			return fmt.Errorf("block %d and node %d of the index disagree", id, block.node)
		}
	}
	for number := range m.index.others[group] {
		if id := m.index.others[group][number]; id != runner.NoBlock && pool.blocks[id].node != int32(number) {
			return fmt.Errorf("node %d of the index names block %d, which belongs to node %d", number, id, pool.blocks[id].node)
		}
	}
	return nil
}
