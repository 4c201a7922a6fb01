// Package runner is the contract between planning and execution: what one step
// is, and what comes back. Above it nothing knows about tensors or devices; below
// it nothing knows about requests.
package runner

import (
	"errors"
	"fmt"
	"sync/atomic"
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
	Lookahead int     // guesses that a row may carry (Row.Guessed); 0 = none
	Ahead     int     // most ids that the runner itself guesses behind a row (Row.Ahead); 0 = none
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
	Pulse  *atomic.Int64 // grows while the host gets on with the step, however slowly; nil = nobody watches
}

// Beat tells whoever watches that the step gets on.
func (b *Batch) Beat() {
	if b.Pulse != nil {
		b.Pulse.Add(1)
	}
}

// A Row is what one sequence does in a step.
type Row struct {
	Slot        int         // stable while the sequence is resident; unique in a batch
	Start       int         // position of the first new token
	Len         int         // number of new tokens, >= 1
	Tables      [][]BlockID // [group][block]; covers Start+Len tokens. In a windowed group, blocks wholly before the window of position Start are never read and may be NoBlock.
	Targets     []int32     // Targets[k], a known id, follows new token k: how likely was it? At most Len; needs Params
	Sample      bool        // choose a token after the last known one, and go on while guesses hold
	Guessed     int         // the last so many new tokens are guesses; needs Sample, < Len, no Targets
	OutputIndex uint64      // index of the token after the last known one in the output: the random counter
	Params      *sample.Params
	History     []int32    // prompt and output so far, for penalties and scripts; may lack tokens that are still pending
	Mask        []uint64   // ids allowed after the last known token, one bit each; nil = all
	Masks       [][]uint64 // [Guessed] ids allowed behind each guess, each as Mask; nil = Mask holds there too
	Ahead       int        // a wish: guess so many ids behind the last one drawn (Result.Guesses); where nothing is drawn, be ready to. Needs a whole History
}

// MaskAt returns the mask of a place of the row: 0 is behind the last known token, 1 behind the
// first guess.
func (r *Row) MaskAt(place int) []uint64 {
	if place == 0 || r.Masks == nil {
		return r.Mask
	}
	return r.Masks[place-1]
}

// Held returns how many of the ids drawn behind a row's last known token and behind each of its
// guesses are given: those up to the first that is not the guess in its place.
func Held(drawn, guesses []int32) int {
	held := 0
	for held < len(guesses) && drawn[held] == guesses[held] {
		held++
	}
	return held + 1
}

// A BlockID names a block of a group's pool.
type BlockID int32

// NoBlock stands in a table for a block that was given back.
const NoBlock BlockID = -1

// Pending in Batch.Tokens stands for the id that the previous batch samples
// for the same slot and that the host does not know yet. Behind a row with guesses
// there is none: where the next token lies is not known before it is collected.
const Pending int32 = -1

// A Result is what a step gave back.
//
// A row with guesses gives what as many rows of one token each would have given, one after
// another: behind the last known token and behind each guess an id is drawn with its own
// OutputIndex, history and mask, and those ids are given up to the first that is not the guess.
// Keys and values of guesses that did not hold stay in their blocks: the next row of the sequence
// starts at the first of them and writes over them.
type Result struct {
	Tokens   [][]int32          // [row]: none, or 1 to 1+Guessed ids
	Logprobs [][]sample.Logprob // [row]: of each id, one after another: itself first, then the most likely ones; nil when no row asked
	Scores   [][]sample.Score   // [row]: one for each target; nil when no row has any
	Elapsed  time.Duration

	// What the runner itself believes comes next, for rows with Ahead: see Row.Guessed of the next step.
	Guesses    [][]int32     // [row]: at most Ahead ids behind the last of Tokens; nil when it has guessed nothing
	Guessing   time.Duration // that guessing took, beside Elapsed
	GuessFault *GuessFault   // why nothing will be guessed any more, once; nil = it is as before
}

// A GuessFault is a panic or an error of what guesses. Nothing is guessed after it, and outputs are
// as they would be.
type GuessFault struct {
	Value any
	Stack []byte // nil = an error
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
		if err := checkGuesses(row, batch.Tokens[total-row.Len:total], info); err != nil {
			return fmt.Errorf("row %d: %w", number, err)
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
	case len(row.Targets) > 0 && row.Guessed > 0:
		return fmt.Errorf("%d targets beside %d guesses", len(row.Targets), row.Guessed)
	}
	for at, id := range row.Targets {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("target %d has id %d, vocabulary has %d", at, id, vocab)
		}
	}
	return nil
}

// checkGuesses checks what a row with these tokens guesses, and its masks.
func checkGuesses(row *Row, tokens []int32, info Info) error {
	// Guesses stand behind the row's own tokens, of which there is at least one.
	switch {
	case row.Guessed < 0 || row.Guessed > info.Lookahead || row.Guessed >= row.Len:
		return fmt.Errorf("%d of %d tokens are guesses, at most %d may be", row.Guessed, row.Len, min(info.Lookahead, row.Len-1))
	case row.Guessed > 0 && !row.Sample:
		return fmt.Errorf("%d guesses in a row that does not sample", row.Guessed)
	case row.Guessed > 0 && tokens[row.Len-1] == Pending:
		return errors.New("a guess is pending")
	case row.Ahead < 0:
		return fmt.Errorf("guess %d ids ahead", row.Ahead)
	case row.Ahead > 0 && len(row.History) < row.Start+row.Len-row.Guessed:
		return fmt.Errorf("guess ahead of %d tokens, history has %d", row.Start+row.Len-row.Guessed, len(row.History))
	case row.Masks != nil && len(row.Masks) != row.Guessed:
		return fmt.Errorf("%d masks behind %d guesses", len(row.Masks), row.Guessed)
	}
	words := (info.Vocab + 63) / 64
	if row.Mask != nil && len(row.Mask) < words {
		return fmt.Errorf("mask has %d words, vocabulary needs %d", len(row.Mask), words)
	}
	for at, mask := range row.Masks {
		if mask != nil && len(mask) < words {
			return fmt.Errorf("mask behind guess %d has %d words, vocabulary needs %d", at, len(mask), words)
		}
	}
	return nil
}

// checkTables checks that a row has every block that it reads or writes.
func checkTables(row *Row, info Info) error {
	if len(row.Tables) != len(info.Groups) {
		return fmt.Errorf("%d block tables, %d groups", len(row.Tables), len(info.Groups))
	}
	end := row.Start + row.Len
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
