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
	Slot    int         // stable while the sequence is resident; unique in a batch
	Start   int         // position of the first new token
	Len     int         // number of new tokens, >= 1
	Tables  [][]BlockID // [group][block]; covers Start+Len (+Lookahead) tokens. In a windowed group, blocks wholly before the window of position Start are never read and may be NoBlock.
	Targets []int32     // Targets[k], a known id, follows new token k: how likely was it? At most Len; needs Params
	Sample  bool        // choose a token after the last new one
	Step    uint64      // index of that token in the output: the random counter
	Params  *sample.Params
	History []int32  // prompt and output so far, for penalties and scripts; may lack tokens that are still pending
	Mask    []uint64 // allowed ids, one bit each; nil = all
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

// Check reports the first way in which b breaks the contract for i.
// Test builds call it before every Launch.
func Check(b *Batch, i Info) error {
	if len(b.Rows) == 0 {
		return fmt.Errorf("batch has no rows")
	}
	if len(b.Rows) > i.MaxSeqs {
		return fmt.Errorf("batch has %d rows, at most %d allowed", len(b.Rows), i.MaxSeqs)
	}
	if len(b.Tokens) > i.MaxTokens {
		return fmt.Errorf("batch has %d tokens, at most %d allowed", len(b.Tokens), i.MaxTokens)
	}
	total := 0
	slots := make(map[int]bool, len(b.Rows))
	for n := range b.Rows {
		r := &b.Rows[n]
		if r.Slot < 0 || r.Slot >= i.MaxSeqs {
			return fmt.Errorf("row %d: slot %d outside [0, %d)", n, r.Slot, i.MaxSeqs)
		}
		if slots[r.Slot] {
			return fmt.Errorf("row %d: slot %d appears twice", n, r.Slot)
		}
		slots[r.Slot] = true
		if r.Len < 1 || r.Start < 0 {
			return fmt.Errorf("row %d: %d tokens at position %d", n, r.Len, r.Start)
		}
		if r.Len > len(b.Tokens)-total { // these differences, unlike sums, do not overflow
			return fmt.Errorf("row %d: %d tokens from %d of a batch of %d", n, r.Len, total, len(b.Tokens))
		}
		if r.Start > i.MaxLen-r.Len {
			return fmt.Errorf("row %d: %d tokens at position %d, sequences hold at most %d", n, r.Len, r.Start, i.MaxLen)
		}
		for k, id := range b.Tokens[total : total+r.Len] {
			if id == Pending && k == r.Len-1 && r.Start+k > 0 {
				continue
			}
			if id < 0 || int(id) >= i.Vocab {
				return fmt.Errorf("row %d: token %d has id %d, vocabulary has %d", n, k, id, i.Vocab)
			}
		}
		total += r.Len
		if err := checkTables(r, i); err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		if err := checkOutputs(r, i.Vocab); err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		if r.Mask != nil && len(r.Mask) < (i.Vocab+63)/64 {
			return fmt.Errorf("row %d: mask has %d words, vocabulary needs %d", n, len(r.Mask), (i.Vocab+63)/64)
		}
	}
	if total != len(b.Tokens) {
		return fmt.Errorf("rows cover %d tokens, batch has %d", total, len(b.Tokens))
	}
	return nil
}

func checkOutputs(r *Row, vocab int) error {
	switch {
	case r.Sample && r.Params == nil:
		return errors.New("samples without parameters")
	case len(r.Targets) > 0 && r.Params == nil:
		return errors.New("has targets without parameters")
	case len(r.Targets) > r.Len:
		return fmt.Errorf("%d targets for %d tokens", len(r.Targets), r.Len)
	}
	for k, id := range r.Targets {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("target %d has id %d, vocabulary has %d", k, id, vocab)
		}
	}
	return nil
}

func checkTables(r *Row, i Info) error {
	if len(r.Tables) != len(i.Groups) {
		return fmt.Errorf("%d block tables, %d groups", len(r.Tables), len(i.Groups))
	}
	end := r.Start + r.Len
	if r.Sample {
		end += i.Lookahead
	}
	need := (end + i.BlockSize - 1) / i.BlockSize
	for g, t := range r.Tables {
		if len(t) < need {
			return fmt.Errorf("group %d: table has %d blocks, %d tokens need %d", g, len(t), end, need)
		}
		for k := FirstBlock(r.Start, i.Groups[g].Window, i.BlockSize); k < need; k++ {
			if t[k] < 0 || int(t[k]) >= i.Groups[g].Blocks {
				return fmt.Errorf("group %d: block %d is %d, pool has %d", g, k, t[k], i.Groups[g].Blocks)
			}
		}
	}
	return nil
}
