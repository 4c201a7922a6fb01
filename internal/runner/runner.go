// Package runner is the contract between planning and execution: what one step
// is, and what comes back. Above it nothing knows about tensors or devices; below
// it nothing knows about requests.
package runner

import (
	"errors"
	"fmt"
	"time"

	"ossian/internal/sample"
)

// A Runner executes batches in the order they were launched.
// It is used by one goroutine.
type Runner interface {
	Info() Info                // constant after construction
	Launch(*Batch) error       // starts a step; at most Info().Depth may be uncollected
	Collect() (*Result, error) // finishes the oldest launched step
	Close() error              // waits for the device, then frees everything
}

// Info is what a runner can do.
type Info struct {
	Name      string  // "cpu/avx2", "cuda/sm90", "sim/h200"
	Vocab     int     // ids are in [0, Vocab)
	BlockSize int     // tokens per KV block
	Groups    []Group // KV groups, in the order of Row.Tables
	MaxSeqs   int     // rows per batch, also the number of slots
	MaxTokens int     // new tokens per batch
	MaxLen    int     // tokens per sequence, prompt and output
	Depth     int     // launched and uncollected batches, >= 1
	Lookahead int     // extra tokens a row may return (speculation); > 0 only with Depth 1
}

// A Group is a set of layers that share one pool of KV blocks.
type Group struct {
	Blocks int // pool size in blocks
	Window int // attention window in tokens, 0 = full attention
}

// A Batch is one step. What it covers stays unchanged until the step is
// collected: the planner appends behind Tables and History, never inside.
type Batch struct {
	Tokens []int32 // new tokens of all rows, one row after another
	Rows   []Row
}

// A Row is what one sequence does in a step.
type Row struct {
	Slot        int         // stable while the sequence is resident; unique in a batch
	Start       int         // position of the first new token
	Len         int         // number of new tokens, >= 1
	Tables      [][]BlockID // [group][block]; covers Start+Len (+Lookahead) tokens. In a windowed group, blocks wholly before the window of position Start are never read and may be NoBlock.
	Targets     []int32     // Targets[k], a known id, follows new token k: how likely was it? At most Len; needs Params
	Sample      bool        // choose a token after the last new one
	OutputIndex uint64      // index of that token in the output: the random counter
	Params      *sample.Params
	History     []int32  // prompt and output so far, for penalties and scripts; may lack tokens that are still pending
	Mask        []uint64 // allowed ids, one bit each; nil = all
}

// A BlockID names a block of a group's pool.
type BlockID int32

// NoBlock stands in a table for a block that was given back.
const NoBlock BlockID = -1

// Pending in Batch.Tokens stands for the id that the previous batch samples
// for the same slot and that the host does not know yet.
const Pending int32 = -1

// A Result is what a step gave back.
type Result struct {
	Tokens   [][]int32          // [row]: none, one, or up to 1+Lookahead ids
	Logprobs [][]sample.Logprob // [row]: chosen id first, then the most likely ones; nil when no row asked
	Scores   [][]sample.Score   // [row]: one for each target; nil when no row has any
	Elapsed  time.Duration
}

// FirstBlock returns the index of the first block that a row starting at
// position start reads in a group with that window: 0 for full attention.
func FirstBlock(start, window, blockSize int) int {
	if window == 0 {
		return 0
	}
	return max(start-window+1, 0) / blockSize
}

// Check reports the first way in which batch breaks the contract of a runner with that Info.
// Test builds call it before every Launch.
func Check(batch *Batch, info Info) error {
	if len(batch.Rows) == 0 {
		return fmt.Errorf("batch has no rows")
	}
	if len(batch.Rows) > info.MaxSeqs {
		return fmt.Errorf("batch has %d rows, at most %d allowed", len(batch.Rows), info.MaxSeqs)
	}
	if len(batch.Tokens) > info.MaxTokens {
		return fmt.Errorf("batch has %d tokens, at most %d allowed", len(batch.Tokens), info.MaxTokens)
	}
	total := 0 // tokens of the rows so far
	slots := make(map[int]bool, len(batch.Rows))
	for number := range batch.Rows {
		row := &batch.Rows[number]
		if row.Slot < 0 || row.Slot >= info.MaxSeqs {
			return fmt.Errorf("row %d: slot %d outside [0, %d)", number, row.Slot, info.MaxSeqs)
		}
		if slots[row.Slot] {
			return fmt.Errorf("row %d: slot %d appears twice", number, row.Slot)
		}
		slots[row.Slot] = true
		if row.Len < 1 || row.Start < 0 {
			return fmt.Errorf("row %d: %d tokens at position %d", number, row.Len, row.Start)
		}
		if row.Len > len(batch.Tokens)-total { // these differences, unlike sums, do not overflow
			return fmt.Errorf("row %d: %d tokens from %d of a batch of %d", number, row.Len, total, len(batch.Tokens))
		}
		if row.Start > info.MaxLen-row.Len {
			return fmt.Errorf("row %d: %d tokens at position %d, sequences hold at most %d", number, row.Len, row.Start, info.MaxLen)
		}
		for at, id := range batch.Tokens[total : total+row.Len] {
			if id == Pending && at == row.Len-1 && row.Start+at > 0 {
				continue
			}
			if id < 0 || int(id) >= info.Vocab {
				return fmt.Errorf("row %d: token %d has id %d, vocabulary has %d", number, at, id, info.Vocab)
			}
		}
		total += row.Len
		if err := checkTables(row, info); err != nil {
			return fmt.Errorf("row %d: %w", number, err)
		}
		if err := checkOutputs(row, info.Vocab); err != nil {
			return fmt.Errorf("row %d: %w", number, err)
		}
		if row.Mask != nil && len(row.Mask) < (info.Vocab+63)/64 {
			return fmt.Errorf("row %d: mask has %d words, vocabulary needs %d", number, len(row.Mask), (info.Vocab+63)/64)
		}
	}
	if total != len(batch.Tokens) {
		return fmt.Errorf("rows cover %d tokens, batch has %d", total, len(batch.Tokens))
	}
	return nil
}

// checkOutputs checks what a row asks for.
func checkOutputs(row *Row, vocab int) error {
	switch {
	case row.Sample && row.Params == nil:
		return errors.New("samples without parameters")
	case len(row.Targets) > 0 && row.Params == nil:
		return errors.New("has targets without parameters")
	case len(row.Targets) > row.Len:
		return fmt.Errorf("%d targets for %d tokens", len(row.Targets), row.Len)
	}
	for at, id := range row.Targets {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("target %d has id %d, vocabulary has %d", at, id, vocab)
		}
	}
	return nil
}

// checkTables checks that a row has every block that it reads or writes.
func checkTables(row *Row, info Info) error {
	if len(row.Tables) != len(info.Groups) {
		return fmt.Errorf("%d block tables, %d groups", len(row.Tables), len(info.Groups))
	}
	// The blocks of a lookahead are needed where ids may come back.
	end := row.Start + row.Len
	if row.Sample {
		end += info.Lookahead
	}
	need := (end + info.BlockSize - 1) / info.BlockSize
	for group, table := range row.Tables {
		if len(table) < need {
			return fmt.Errorf("group %d: table has %d blocks, %d tokens need %d", group, len(table), end, need)
		}
		for at := FirstBlock(row.Start, info.Groups[group].Window, info.BlockSize); at < need; at++ {
			if table[at] < 0 || int(table[at]) >= info.Groups[group].Blocks {
				return fmt.Errorf("group %d: block %d is %d, pool has %d", group, at, table[at], info.Groups[group].Blocks)
			}
		}
	}
	return nil
}
