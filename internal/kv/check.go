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
	indexed := 0
	for b, n := range m.index.buckets {
		for ; n != none; n = m.index.nodes[n].next {
			if d := &m.index.nodes[n]; d.serial == 0 || d.serial > m.index.serial || int(d.bucket) != b {
				return fmt.Errorf("kv: node %d with serial %d of bucket %d is in bucket %d", n, d.serial, d.bucket, b)
			}
			indexed++
		}
	}
	for n := range m.index.nodes {
		if m.index.nodes[n].serial != 0 {
			indexed--
		}
	}
	if indexed != 0 {
		return fmt.Errorf("kv: buckets hold %d nodes too many", indexed)
	}
	return nil
}

// CheckOwn reports a block of t, of those from the first-th on, that another table
// holds too (DET-4): a sequence writes to blocks of its own.
func (m *Manager) CheckOwn(t *Table, first int) error {
	for g := range m.pools {
		for i := max(first, t.first[g]); i < len(t.Blocks[g]); i++ {
			if refs := m.pools[g].blocks[t.Blocks[g][i]].refs; refs != 1 {
				return fmt.Errorf("kv: group %d: block %d is to be written and has %d holders", g, t.Blocks[g][i], refs)
			}
		}
	}
	return nil
}

func (m *Manager) checkPool(g int) error {
	p := &m.pools[g]
	refs := make([]int32, p.end())
	for _, t := range m.open {
		for i := t.first[g]; i < len(t.Blocks[g]); i++ {
			id := t.Blocks[g][i]
			if id < 0 || int(id) >= len(refs) {
				return fmt.Errorf("a table holds block %d, pool has %d", id, len(refs))
			}
			refs[id]++
		}
	}
	free := make([]bool, p.end())
	listed, cached := 0, 0
	for id := p.blocks[p.end()].next; id != p.end(); id = p.blocks[id].next {
		if p.blocks[p.blocks[id].next].prev != id || (id != p.mid() && free[id]) {
			return fmt.Errorf("the list of free blocks is broken at %d", id)
		}
		if id != p.mid() {
			free[id] = true
			listed++
			if p.blocks[id].node != none {
				cached++
			}
		}
	}
	if listed != p.free || cached != p.cached {
		return fmt.Errorf("%d blocks are free, %d with content, counted %d and %d", listed, cached, p.free, p.cached)
	}
	for id := range refs {
		b := &p.blocks[id]
		if b.refs != refs[id] || free[id] != (b.refs == 0) {
			return fmt.Errorf("block %d counts %d references, tables hold %d, free: %v", id, b.refs, refs[id], free[id])
		}
		content := b.node != none && m.index.nodes[b.node].serial != 0 && m.block(g, b.node) == runner.BlockID(id)
		if (b.node != none && !content) || (g == m.anchor && (b.node != none) != (m.index.nodes[id].serial != 0)) {
			return fmt.Errorf("block %d and node %d of the index disagree", id, b.node)
		}
	}
	for n := range m.index.others[g] {
		if id := m.index.others[g][n]; id != runner.NoBlock && p.blocks[id].node != int32(n) {
			return fmt.Errorf("node %d of the index names block %d, which belongs to node %d", n, id, p.blocks[id].node)
		}
	}
	return nil
}
