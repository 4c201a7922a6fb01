package shadow

import (
	"ossian/internal/runner"
)

// What of a sequence the shadow has read is known by blocks: how many entries of each, from the
// first on, hold its part of what the target has there. The target writes a block from its first
// entry on whenever it is given out anew, so an entry is right as long as no row has begun at it or
// before it without being followed. A small model reads what is missing; a head cannot, as what the
// target made of it is gone.

// forget notes that a row has written over what the shadow has from its first token on.
func (p *pair) forget(row *runner.Row) {
	size := p.info.BlockSize
	first, end := row.Start/size, p.covered(row)/size
	for group, of := range p.cfg.Groups {
		table := row.Tables[of]
		for block := first; block < end; block++ {
			entries := &p.filled[group][table[block]]
			*entries = min(*entries, int32(max(row.Start-block*size, 0)))
		}
	}
}

// covered is the position behind the last of the blocks that a row is sure to have.
func (p *pair) covered(row *runner.Row) int {
	size := p.info.BlockSize
	return (row.Start + row.Len + size - 1) / size * size
}

// note notes that the shadow has read the tokens of a row from position from up to to.
func (p *pair) note(row *runner.Row, from, to int) {
	size := p.info.BlockSize
	to = min(to, p.covered(row))
	for group, of := range p.cfg.Groups {
		for block := from / size; block*size < to; block++ {
			entries := &p.filled[group][row.Tables[of][block]]
			if int(*entries) >= max(from-block*size, 0) {
				*entries = max(*entries, int32(min(to-block*size, size)))
			}
		}
	}
}

// hole returns the first position before the row's first that the shadow has not read and would
// look at, the row's first where there is none; -1 = it lies in a block that was given back.
func (p *pair) hole(row *runner.Row) int {
	for hole, last := row.Start, -1; ; last = hole { // earlier windows may have holes of their own
		for group, of := range p.cfg.Groups {
			hole = min(hole, p.firstHole(row, group, of, hole))
		}
		if hole == last || hole == row.Start || hole < 0 {
			return hole
		}
	}
}

// firstHole is hole for a group, which is beside one of the target's, where the row is read from
// position at on.
func (p *pair) firstHole(row *runner.Row, group, of, at int) int {
	size := p.info.BlockSize
	first := runner.FirstBlock(at, p.limits.Groups[group].Window, size)
	if first < runner.FirstBlock(row.Start, p.info.Groups[of].Window, size) {
		return -1 // others may have it, whatever stands in the table
	}
	for block := first; block*size < at; block++ {
		if filled := int(p.filled[group][row.Tables[of][block]]); filled < min(size, at-block*size) {
			return block*size + filled
		}
	}
	return at
}

// gather makes the first step of the shadow: what rows with Ahead have computed and drawn.
func (p *pair) gather(batch *runner.Batch, result *runner.Result) {
	p.step.Tokens, p.step.Rows, p.rows, p.places = p.step.Tokens[:0], p.step.Rows[:0], p.rows[:0], p.places[:0]
	first := 0 // token of the batch
	for i := range batch.Rows {
		row := &batch.Rows[i]
		if row.Ahead > 0 {
			p.follow(batch, i, first, result.Tokens[i])
		}
		first += row.Len
	}
}

// follow appends a row of the target to the step: as many of its tokens as there is room for, and
// those before that are missing. first is the first of its tokens in the batch, drawn what came of it.
func (p *pair) follow(batch *runner.Batch, number, first int, drawn []int32) {
	row := &batch.Rows[number]
	from, known := p.hole(row), row.Start+row.Len-row.Guessed
	if from < 0 || (p.head != nil && from < row.Start) {
		return
	}
	ids := p.ids[:0]
	if p.head == nil {
		ids = append(ids, row.History[from:known]...)
	} else { // an entry holds the token behind its position
		if !row.Sample {
			known = min(known+1, len(row.History))
		}
		ids = append(ids, row.History[from+1:known]...)
	}
	ids = append(ids, drawn...)
	p.ids = ids
	// A step of the shadow has room for so many tokens: of a long prompt the rest is read with later ones.
	end := from + len(ids)
	ahead := min(row.Ahead, p.cfg.Tokens, p.limits.MaxLen-end)
	n := min(len(ids), p.limits.MaxTokens-len(p.step.Tokens))
	if n <= 0 || ahead < 1 || !p.knows(ids[:n]) {
		return
	}
	p.step.Tokens = append(p.step.Tokens, ids[:n]...)
	if p.head != nil {
		for k := range n {
			p.places = append(p.places, int32(first+k))
		}
	}
	p.note(row, from, from+n)
	p.add(row, follower{row: number, end: end, more: ahead}, runner.Row{Start: from, Len: n, Sample: row.Sample && from+n == end})
}

// knows reports whether ids are of the shadow's vocabulary, which may have fewer without a meaning.
func (p *pair) knows(ids []int32) bool {
	for _, id := range ids {
		if id < 0 || int(id) >= p.limits.Vocab {
			return false
		}
	}
	return true
}

// add appends a row of the step for a row of the target, with tables that go on into its slot's own
// blocks.
func (p *pair) add(of *runner.Row, follower follower, row runner.Row) {
	groups, size := len(p.cfg.Groups), p.info.BlockSize
	tables := p.tables[len(p.step.Rows)*groups:][:groups]
	need, own := (row.Start+row.Len+size-1)/size, p.covered(of)/size
	for group, target := range p.cfg.Groups {
		table := append(tables[group][:0], of.Tables[target][:min(own, need)]...)
		for block := own; block < need; block++ {
			table = append(table, runner.BlockID(len(p.filled[group])+of.Slot*p.scratch+block-own))
		}
		tables[group] = table
	}
	row.Slot, row.Tables, row.Params = of.Slot, tables, greedy
	p.step.Rows, p.rows = append(p.step.Rows, row), append(p.rows, follower)
}

// advance makes the next step of the shadow: a token of each row that has not guessed enough.
func (p *pair) advance(batch *runner.Batch) {
	before, rows := p.rows, p.step.Rows
	p.step.Tokens, p.step.Rows, p.rows, p.places = p.step.Tokens[:0], p.step.Rows[:0], p.rows[:0], p.places[:0]
	drew := int32(0) // rows so far
	for i, follower := range before {
		if !rows[i].Sample {
			continue
		}
		drew++
		follower.more--
		guesses := p.guesses[follower.row]
		if follower.more == 0 || !p.knows(guesses[len(guesses)-1:]) {
			continue
		}
		p.places = append(p.places, drew-1)
		p.step.Tokens = append(p.step.Tokens, guesses[len(guesses)-1])
		p.add(&batch.Rows[follower.row], follower, runner.Row{Start: follower.end + len(guesses) - 1, Len: 1, Sample: true})
	}
}
