package engine

import (
	"fmt"
	"io"
	"sync"
	"testing"

	"ossian/internal/runner"
	"ossian/internal/sim"
)

// told keeps what an engine told of its prefixes, and when it was passed on.
type told struct {
	mu              sync.Mutex
	stored, flushed int // blocks
	gone, all       int // blocks that are gone and not passed on; all of them
}

func (o *told) Stored(_, _, _ uint64, _ []int32) { o.stored++ }
func (o *told) Found(uint64)                     {}
func (o *told) Removed(uint64)                   { o.gone++; o.all++ }
func (o *told) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flushed, o.gone = o.stored, 0
}

// Blocks are told of before the first token that rests on them is given out, and that they are gone
// before they are written again (operations.md 4).
func TestPrefixOrder(t *testing.T) {
	observer := &told{}
	info := runner.Info{Depth: 2, BlockSize: 4, MaxSeqs: 4, MaxTokens: 16, MaxLen: 64, Groups: []runner.Group{{Blocks: 16}}}
	run := script(t, sim.Config{Info: info, OnLaunch: func(int, *runner.Batch) error {
		if observer.gone > 0 { // the loop itself calls this
			return fmt.Errorf("%d blocks are used again without a word", observer.gone)
		}
		return nil
	}})
	g := start(t, run, Config{Prefixes: func() PrefixObserver { return observer }, Restarts: -1})
	for seed := range 20 {
		observer.mu.Lock()
		before := observer.flushed // the loop rests
		observer.mu.Unlock()
		s, err := g.Submit(t.Context(), Request{Tokens: ids(seed, 40), MaxTokens: 3})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(t.Context()); err != nil {
			t.Fatal(err)
		}
		observer.mu.Lock()
		if n := observer.flushed - before; n < 10 {
			t.Errorf("request %d: %d of the 10 blocks of its prompt were told of with its first token", seed, n)
		}
		observer.mu.Unlock()
		if _, err := read(s); err != io.EOF {
			t.Fatal(err)
		}
	}
	if _, err := g.ForgetPrefixes(t.Context()); err != nil || observer.all < 100 {
		t.Errorf("%d blocks are gone: %v", observer.all, err)
	}
}
