package engine

import (
	"time"

	"ossian/internal/runner"
)

// A chunker finds how many tokens of prompts a step may have beside sequences that are
// writing, so that these do not wait much longer than target for their next token. It
// learns from every step with a prompt, and needs no knowledge of model or machine.
type chunker struct {
	target time.Duration // 0 = no limit
	tokens int           // that it allows now
	most   int           // that a step has room for
}

// What a chunker begins with, until steps have shown more, and the least that it allows: a
// prompt goes on however long steps take.
const (
	firstChunk = 64
	leastChunk = 16
)

// chunkers are the two that there are: for steps as they should be, and for those while a crowd
// waits for its first token. Both learn from every step: what a chunk takes does not depend on why
// it is so long.
type chunkers struct{ usual, crowded chunker }

// aCrowd is how many have to wait for their first token for longer steps: one has the step to itself.
const aCrowd = 2

func newChunkers(cfg *Config, most int) chunkers {
	return chunkers{newChunker(cfg.StepTime, most), newChunker(max(cfg.StepTime, cfg.CrowdTime), most)}
}

// limit returns the tokens for Scheduler.LimitPrompts, if so many wait for their first one.
func (c *chunkers) limit(unanswered int) int {
	if unanswered >= aCrowd && c.usual.target > 0 {
		return c.crowded.limit()
	}
	return c.usual.limit()
}

// learn is chunker.learn.
func (c *chunkers) learn(prompt int, took time.Duration) {
	c.usual.learn(prompt, took)
	c.crowded.learn(prompt, took)
}

func newChunker(target time.Duration, most int) chunker {
	return chunker{target: target, tokens: min(firstChunk, most), most: most}
}

// limit returns the tokens for Scheduler.LimitPrompts.
func (c *chunker) limit() int {
	if c.target <= 0 {
		return 0
	}
	return c.tokens
}

// learn takes over the time of a step with that many tokens of prompts.
func (c *chunker) learn(prompt int, took time.Duration) {
	if c.target <= 0 || prompt == 0 {
		return
	}
	fits := int(float64(prompt) * float64(c.target) / float64(max(took, time.Microsecond)))
	switch {
	case took > c.target:
		c.tokens = max(fits, leastChunk)
	case 2*prompt > c.tokens: // a short chunk says nothing about long ones
		c.tokens = max(c.tokens, min(fits, 2*max(c.tokens, prompt)))
	}
	c.tokens = min(c.tokens, c.most)
}

// promptTokens returns the tokens of prompts in a batch, but for last ones that come
// alone.
func promptTokens(batch *runner.Batch) (n int) {
	for i := range batch.Rows {
		if row := &batch.Rows[i]; row.Len-row.Guessed > 1 {
			n += row.Len - row.Guessed
		}
	}
	return n
}
