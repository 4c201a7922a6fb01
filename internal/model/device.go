package model

import (
	"fmt"

	"ossian/internal/runner"
	"ossian/internal/tensor"
)

// A Buf is a device's activation buffer, a Weight its form of a parameter. Both
// mean something to the device that made them only; nil means "none" where an
// operation allows it.
type (
	Buf    any
	Weight any
)

// A Use tells a device what an uploaded parameter is for: shapes alone do not,
// a router and the down biases of the experts are both [experts, hidden].
type Use uint8

const (
	AsMatrix    Use = iota // [out,in] or [experts,out,in] for Linear and Experts
	AsVector               // norms, biases and sinks: [n] or [experts,n]
	AsTable                // [rows,width] for Embed; its bytes must stay readable until Close
	AsTiedTable            // both a matrix and a table
)

// Limits size a device and the runner on it. Zero fields are refused by
// NewDecoder, except where stated.
type Limits struct {
	MaxSeqs   int   // rows per step and slots
	MaxTokens int   // new tokens per step
	MaxLen    int   // tokens per sequence
	BlockSize int   // tokens per KV block
	Blocks    []int // pool size of each KV group, in the order of Spec.Groups
	Depth     int   // launched and uncollected steps; 0 = 1
	Lookahead int   // guesses that a row may carry; 0 = none
}

// Outputs returns how many tokens of a step that has no prompts may have logits wanted: one for
// each row, and where rows carry guesses one behind each, as far as a step of 64 goes.
func (l *Limits) Outputs() int {
	return min(l.MaxTokens, max(l.MaxSeqs, min(l.MaxSeqs*(1+l.Lookahead), 64)))
}

// MaxLookahead is the largest Limits.Lookahead.
const MaxLookahead = 31

// Check reports limits of a device for spec that would make sizes overflow, or that are of another
// model.
func (l *Limits) Check(spec *Spec) error {
	for _, limit := range []struct {
		name     string
		now, max int
	}{
		{"rows", l.MaxSeqs, 1 << 16}, {"tokens per step", l.MaxTokens, 1 << 20},
		{"tokens per sequence", l.MaxLen, 1 << 30}, {"tokens per block", l.BlockSize, 1 << 16},
	} {
		if limit.now < 1 || limit.now > limit.max {
			return fmt.Errorf("limit of %s is %d, outside [1, %d]", limit.name, limit.now, limit.max)
		}
	}
	if l.Depth < 0 || l.Depth > 16 {
		return fmt.Errorf("depth %d, outside [0, 16]", l.Depth)
	}
	if l.Lookahead < 0 || l.Lookahead > MaxLookahead {
		return fmt.Errorf("lookahead %d, outside [0, %d]", l.Lookahead, MaxLookahead)
	}
	windows, _ := spec.Groups()
	if len(l.Blocks) != len(windows) {
		return fmt.Errorf("%d KV pool sizes for %d groups", len(l.Blocks), len(windows))
	}
	// Blocks times their tokens fit 30 bits, so that no index of a token in a pool overflows.
	for group, blocks := range l.Blocks {
		if blocks < 1 || blocks > 1<<30/l.BlockSize {
			return fmt.Errorf("KV group %d has %d blocks of %d tokens, outside [1, %d]", group, blocks, l.BlockSize, 1<<30/l.BlockSize)
		}
	}
	return nil
}

// A Device is built for one Spec and one set of Limits. Operations enqueue;
// they return no errors: shapes are checked when the decoder is built, and a
// device fault surfaces in End or Wait.
//
// Shapes: T = new tokens of the step, H = Hidden. A buffer holds rows of a fixed
// width; the number of rows is that of the operation that wrote it last.
//
// Logits are wanted of the tokens with targets, and of the last known token of each row
// that samples and its guesses: row after row, in a row the targets first. They are
// computed R at a time, as many as the buffer of logits holds.
type Device interface {
	Name() string
	// Alloc allocates buffers, float32 [rows, width] or what the device prefers, one for each width. Several
	// are for one Linears to write, then Rotate, Store and Attend to read: a device may lay their rows side
	// by side, and need not let other operations have them.
	Alloc(rows int, widths ...int) ([]Buf, error)
	Upload(t tensor.Tensor, use Use) (Weight, error) // the device picks its own layout
	// Beside announces the parameters of the next calls of Upload, in their order: Linears will take them
	// together. A device may lay them one behind the other; it reads their types and shapes only.
	Beside(t []tensor.Tensor, use Use) error
	Begin(b *runner.Batch) error
	End() error                    // enqueue the copy of results
	Wait() (*runner.Result, error) // oldest ended step
	Close() error

	Embed(dst Buf, table Weight)                // dst [T,H]
	AddNorm(dst, sum, x Buf, w Weight)          // sum += x (x may be nil); dst = rmsnorm(sum)·w; all [T,H]
	Linear(dst, x Buf, w, bias Weight)          // dst [rows,out] = x [rows,in]·wᵀ + bias (bias may be nil)
	Linears(dst []Buf, x Buf, w, bias []Weight) // Linear of the same x with each w, each bias (may be nil), into each dst
	Rotate(q, k Buf, qNorm, kNorm Weight)       // per head: optional rmsnorm (nil = none), then RoPE at each token's position
	Store(layer int, k, v Buf)                  // into the blocks of the step
	Attend(dst, q Buf, layer int, sinks Weight) // paged, causal, windowed where the layer says so; sinks may be nil
	GLU(dst, gateUp Buf)                        // the Spec's activation; gateUp [T,2I] holds gate0, up0, gate1, up1, …
	Route(ids, weights, logits Buf)             // top-k experts and their weights, ties to the lowest index; ids, weights [T,k], ids ascending
	Experts(dst, x, ids, weights Buf, up, upBias, down, downBias Weight)
	Select(dst, x Buf, from int) // [T,H] → [R,H]: the tokens whose logits are wanted, from that one on
	Sample(logits Buf, from int) // [R,Vocab] of the same tokens → ids and scores of the step
}

// A Narrower is a device on which Select keeps the bits of any buffer, whatever its width, and AddNorm
// takes the rows of sum: there what follows the last attention is computed of a part of a step's tokens.
type Narrower interface {
	Device
	Narrows()
}
