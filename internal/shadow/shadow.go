// Package shadow lets a second, smaller program guess what a runner will draw next. Its users get
// one runner; they need not know that two compute, nor what of a sequence the second has read.
//
// The second program runs beside the first, its shadow: it has keys and values of its own under
// the block ids of the first. So what a sequence finds in the prefix cache, what it loses by
// preemption, and how its prompt is cut into chunks is the same for both, and no planner knows of
// the second. Behind each step the rows that ask for guesses (runner.Row.Ahead) are followed: what
// the step has computed, and the ids that it has drawn, are read by the shadow as well, which then
// goes on alone, one id at a time. What it writes behind the blocks of a row lies in blocks that no
// table has, a few for each slot, and is read again where it came true.
//
// Guesses are the likeliest ids. What is guessed changes no output, so whatever goes wrong here ends
// guessing and nothing else.
package shadow

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A Head is a program that reads, besides a token, what the target has made of the one before it.
// Its entry for a position holds the token behind that position.
type Head interface {
	runner.Runner
	// Take says what the next Launch reads besides its tokens, one place for each: what the target
	// made of that token of its last step, or, with own, what the head itself made of that row of
	// those that it last drew in.
	Take(places []int32, own bool)
}

// Config says how a shadow goes with a target.
type Config struct {
	Tokens int   // most ids that are guessed behind a sequence
	Groups []int // [group of the shadow] the target's group whose block tables it takes
}

// ScratchBlocks is how many blocks behind those of the target's pool a shadow needs for each slot in
// each of its groups, to guess so many ids.
func ScratchBlocks(tokens, blockSize int) int { return (tokens + blockSize - 1) / blockSize }

// A pair is the runner of target and shadow.
type pair struct {
	runner.Runner // the target
	shadow        runner.Runner
	head          Head // the shadow, if it is one; else nil
	info          runner.Info
	limits        runner.Info // of the shadow
	cfg           Config
	scratch       int       // blocks of a slot
	filled        [][]int32 // [group][block of the target]: entries, from the first on, that hold the shadow's part of what the target has there
	batch         *runner.Batch
	off           bool // something went wrong

	step    runner.Batch // of the shadow
	rows    []follower   // [row of step]
	tables  [][]runner.BlockID
	ids     []int32   // scratch: of a row
	guesses [][]int32 // [row of batch]
	places  []int32
}

// A follower is a row of the target in the shadow's step.
type follower struct {
	row  int // in the target's batch
	end  int // position of the first guess
	more int // ids still to be guessed
}

// greedy chooses the likeliest id.
var greedy = &sample.Params{}

// New returns a runner that is target, with guesses of shadow, and owns both. The shadow has the
// target's slots and block size, and in each group the blocks of the target's group and, behind them,
// ScratchBlocks for each slot. Its steps have room for those of the target, as its batches do.
func New(target, shadow runner.Runner, cfg Config) (runner.Runner, error) {
	info, limits := target.Info(), shadow.Info()
	p := &pair{Runner: target, shadow: shadow, limits: limits, cfg: cfg, scratch: ScratchBlocks(cfg.Tokens, info.BlockSize)}
	p.head, _ = shadow.(Head)
	if cfg.Tokens < 1 || limits.MaxSeqs < info.MaxSeqs || limits.BlockSize != info.BlockSize || len(cfg.Groups) != len(limits.Groups) {
		return nil, fmt.Errorf("shadow: %d ids to guess, %d slots of %d, blocks of %d tokens beside %d, groups %v for %d: they have to agree",
			cfg.Tokens, limits.MaxSeqs, info.MaxSeqs, limits.BlockSize, info.BlockSize, cfg.Groups, len(limits.Groups))
	}
	for group, of := range cfg.Groups {
		if of < 0 || of >= len(info.Groups) || limits.Groups[group].Blocks < info.Groups[of].Blocks+info.MaxSeqs*p.scratch {
			return nil, fmt.Errorf("shadow: group %d has %d blocks, of group %d of the target: the target's and %d for each of %d slots expected", group, limits.Groups[group].Blocks, of, p.scratch, info.MaxSeqs)
		}
		p.filled = append(p.filled, make([]int32, info.Groups[of].Blocks))
	}
	p.guesses = make([][]int32, info.MaxSeqs)
	blocks := (info.MaxLen+cfg.Tokens+info.BlockSize-1)/info.BlockSize + 1
	for range info.MaxSeqs * len(cfg.Groups) {
		p.tables = append(p.tables, make([]runner.BlockID, 0, min(blocks, 1024)))
	}
	info.Depth, info.Ahead = 1, cfg.Tokens // what is drawn has to be known before it is followed
	p.info = info
	return p, nil
}

// Info implements runner.Runner.
func (p *pair) Info() runner.Info {
	info := p.info
	info.Name = p.Runner.Info().Name
	return info
}

// Launch implements runner.Runner.
func (p *pair) Launch(batch *runner.Batch) error {
	p.batch = batch
	return p.Runner.Launch(batch)
}

// Collect implements runner.Runner: guessing is part of it.
func (p *pair) Collect() (*runner.Result, error) {
	result, err := p.Runner.Collect()
	if err != nil || p.off {
		return result, err
	}
	began := time.Now()
	if fault := p.protect(func() error { return p.guess(p.batch, result) }); fault != nil {
		p.off, result.Guesses, result.GuessFault = true, nil, fault
	}
	result.Guessing = time.Since(began)
	return result, nil
}

// protect runs what guesses, and returns why it failed.
func (p *pair) protect(what func() error) (fault *runner.GuessFault) {
	defer func() {
		if value := recover(); value != nil {
			fault = &runner.GuessFault{Value: value, Stack: debug.Stack()}
		}
	}()
	if err := what(); err != nil {
		return &runner.GuessFault{Value: err}
	}
	return nil
}

// Close implements runner.Runner.
func (p *pair) Close() error { return errors.Join(p.shadow.Close(), p.Runner.Close()) }

// guess follows the rows of a step that ask for it, and sets what it guesses behind them.
func (p *pair) guess(batch *runner.Batch, result *runner.Result) error {
	wanted := false
	for i := range batch.Rows {
		p.forget(&batch.Rows[i])
		p.guesses[i] = p.guesses[i][:0]
		wanted = wanted || batch.Rows[i].Ahead > 0
	}
	if !wanted {
		return nil
	}
	result.Guesses = p.guesses[:len(batch.Rows)]
	// The first turn reads what the target has computed, each further one what the turn before it guessed.
	own := false
	p.step.Pulse = batch.Pulse
	for p.gather(batch, result); len(p.step.Rows) > 0; p.advance(batch) {
		if p.head != nil {
			p.head.Take(p.places, own)
			own = true
		}
		if err := p.shadow.Launch(&p.step); err != nil {
			return fmt.Errorf("shadow: %w", err)
		}
		drawn, err := p.shadow.Collect()
		if err != nil {
			return fmt.Errorf("shadow: %w", err)
		}
		for i, follower := range p.rows {
			if p.step.Rows[i].Sample {
				p.guesses[follower.row] = append(p.guesses[follower.row], drawn.Tokens[i][0])
			}
		}
	}
	return nil
}
