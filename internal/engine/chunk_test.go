package engine

import (
	"testing"
	"time"
)

// TestChunker drives a model whose steps take base + perToken for each token of a
// prompt: chunks must settle where a step takes the target, from either side.
func TestChunker(t *testing.T) {
	const target = 500 * time.Millisecond
	for _, c := range []struct {
		name           string
		base, perToken time.Duration
		want           int // tokens
	}{
		{"fast", time.Millisecond, 10 * time.Microsecond, 512},
		{"even", 0, 5 * time.Millisecond, 100},
		{"with a base", 250 * time.Millisecond, 5 * time.Millisecond, 50},
		{"slow", 300 * time.Millisecond, 20 * time.Millisecond, leastChunk},
		{"too slow", 2 * time.Second, 20 * time.Millisecond, leastChunk},
	} {
		for _, first := range []int{512, 20} { // a prompt alone, of that many tokens
			k := newChunker(target, 512)
			step := func(n int) { k.learn(n, c.base+time.Duration(n)*c.perToken) }
			step(first)
			for range 30 {
				step(k.limit())
			}
			if got := k.limit(); got < c.want*9/10-1 || got > c.want*21/20 {
				t.Errorf("%s, first %d tokens: settles at %d tokens, want %d", c.name, first, got, c.want)
			}
		}
	}
}

// TestChunkers: with a crowd that waits steps are as long as CrowdTime allows, and as StepTime does
// at once when it is gone; each learns from the other's steps.
func TestChunkers(t *testing.T) {
	for _, c := range []struct {
		cfg            Config
		usual, crowded int // tokens, of 5 ms each
	}{
		{Config{StepTime: 500 * time.Millisecond, CrowdTime: 900 * time.Millisecond}, 100, 180},
		{Config{StepTime: 500 * time.Millisecond}, 100, 100},
		{Config{StepTime: 500 * time.Millisecond, CrowdTime: 100 * time.Millisecond}, 100, 100},
		{Config{CrowdTime: 900 * time.Millisecond}, 0, 0}, // any
	} {
		k := newChunkers(&c.cfg, 512)
		for i := range 40 { // a crowd now and then
			n := k.limit(i % 4)
			k.learn(n, time.Duration(n)*5*time.Millisecond)
		}
		for unanswered, want := range []int{c.usual, c.usual, c.crowded, c.crowded} {
			if got := k.limit(unanswered); got < want*9/10 || got > want {
				t.Errorf("%v and %v: %d tokens while %d wait, want %d", c.cfg.StepTime, c.cfg.CrowdTime, got, unanswered, want)
			}
		}
	}
}

func TestChunkerLearnsOnlyFromPrompts(t *testing.T) {
	k := newChunker(time.Second, 1000)
	k.learn(0, time.Minute) // a slow step of those who write
	k.learn(2, 100*time.Millisecond)
	if got := k.limit(); got != firstChunk {
		t.Errorf("%d tokens, want %d as before", got, firstChunk)
	}
	k.learn(1000, 10*time.Second)
	if got := k.limit(); got != 100 {
		t.Errorf("%d tokens after 1000 in 10 s, want 100", got)
	}
	k.learn(100, 100*time.Millisecond) // the others have ended: twice as much, not ten times
	if got := k.limit(); got != 200 {
		t.Errorf("%d tokens after 100 in 0.1 s, want 200", got)
	}
	if k := newChunker(0, 1000); k.limit() != 0 {
		t.Errorf("%d tokens without a target, want no limit", k.limit())
	}
}
