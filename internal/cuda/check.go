package cuda

import (
	"fmt"
	"slices"

	"ossian/internal/runner"
)

// check reports what no operation could survive.
func (d *Device) check(batch *runner.Batch) error {
	if len(batch.Rows) == 0 || len(batch.Rows) > d.lim.MaxSeqs || len(batch.Tokens) > d.lim.MaxTokens {
		return fmt.Errorf("batch of %d rows and %d tokens, limits are %d and %d", len(batch.Rows), len(batch.Tokens), d.lim.MaxSeqs, d.lim.MaxTokens)
	}
	left := batch.Tokens // those of the rows not yet looked at
	for i := range batch.Rows {
		row := &batch.Rows[i]
		if row.Len < 1 || row.Len > len(left) || row.Start < 0 || row.Start > d.lim.MaxLen-row.Len {
			return fmt.Errorf("row %d: %d tokens at position %d, %d left in the batch, limit %d", i, row.Len, row.Start, len(left), d.lim.MaxLen)
		}
		if err := d.checkIDs(row, left[:row.Len]); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		left = left[row.Len:]
		if err := d.checkTables(row); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%d tokens belong to no row", len(left))
	}
	return nil
}

// checkIDs reports a row with ids that are none, or that asks for what it cannot get.
func (d *Device) checkIDs(row *runner.Row, tokens []int32) error {
	if row.Slot < 0 || row.Slot >= d.lim.MaxSeqs {
		return fmt.Errorf("slot %d outside [0, %d)", row.Slot, d.lim.MaxSeqs)
	}
	for k, id := range tokens {
		last := k == row.Len-1
		if (id < 0 || int(id) >= d.spec.Vocab) && (id != runner.Pending || !last) {
			return fmt.Errorf("token %d has id %d, vocabulary has %d", k, id, d.spec.Vocab)
		}
		if pos := row.Start + k; id == runner.Pending && !d.sampler.sampled(row.Slot, pos) {
			return fmt.Errorf("token of position %d is pending, slot %d sampled none for it", pos, row.Slot)
		}
	}
	if ((row.Sample || len(row.Targets) > 0) && row.Params == nil) || len(row.Targets) > row.Len {
		return fmt.Errorf("samples: %v, %d targets for %d tokens, parameters %v", row.Sample, len(row.Targets), row.Len, row.Params)
	}
	if guessed := row.Guessed; guessed < 0 || guessed >= row.Len || (guessed > 0 && (!row.Sample || len(row.Targets) > 0 || tokens[row.Len-1] == runner.Pending)) ||
		(row.Masks != nil && len(row.Masks) != guessed) {
		return fmt.Errorf("%d guesses among %d tokens, %d masks, samples: %v, %d targets: at most all but one, known, and no target beside them", guessed, row.Len, len(row.Masks), row.Sample, len(row.Targets))
	}
	if at := slices.IndexFunc(row.Targets, func(id int32) bool { return id < 0 || int(id) >= d.spec.Vocab }); at >= 0 {
		return fmt.Errorf("target %d has id %d, vocabulary has %d", at, row.Targets[at], d.spec.Vocab)
	}
	return nil
}

// checkTables reports a row whose block tables do not reach all tokens that it sees.
func (d *Device) checkTables(row *runner.Row) error {
	if len(row.Tables) != len(d.windows) {
		return fmt.Errorf("%d block tables for %d groups", len(row.Tables), len(d.windows))
	}
	need := d.blocksOf(row.Start + row.Len)
	for group, table := range row.Tables {
		if len(table) < need {
			return fmt.Errorf("group %d: table of %d blocks, %d needed", group, len(table), need)
		}
		for k := runner.FirstBlock(row.Start, d.windows[group], d.lim.BlockSize); k < need; k++ {
			if table[k] < 0 || int(table[k]) >= d.lim.Blocks[group] {
				return fmt.Errorf("group %d: block %d is %d, pool has %d", group, k, table[k], d.lim.Blocks[group])
			}
		}
	}
	return nil
}
