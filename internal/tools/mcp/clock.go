package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errLate ends a call that took too long.
var errLate = errors.New("the time of the call is over")

// A clock ends a call that says nothing for a time, or that goes on for too long.
type clock struct {
	token string // by which the server reports progress

	mu    sync.Mutex // guards timer
	timer *time.Timer
	quiet time.Duration // between signs of life
	began time.Time
	most  time.Duration
}

// newClock returns a clock and the context that it ends.
func newClock(ctx context.Context, token string, quiet time.Duration) (context.Context, *clock, func()) {
	ctx, end := context.WithCancelCause(ctx)
	c := &clock{token: token, quiet: quiet, began: time.Now(), most: max(quiet, longest)}
	c.timer = time.AfterFunc(quiet, func() { end(errLate) })
	return ctx, c, func() { c.timer.Stop(); end(nil) }
}

// tick gives the call more time.
func (c *clock) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer.Stop() { // else it has rung
		c.timer.Reset(max(0, min(c.quiet, c.most-time.Since(c.began))))
	}
}

// run counts the clock of a call in while the call runs.
func (c *connection) run(clock *clock, call func()) {
	c.mu.Lock()
	c.clocks[clock.token] = clock
	c.mu.Unlock()
	call()
	c.mu.Lock()
	delete(c.clocks, clock.token)
	c.mu.Unlock()
}

// progress is a sign of life of the call with a token.
func (c *connection) progress(token any) {
	c.mu.Lock()
	clock := c.clocks[fmt.Sprint(token)]
	c.mu.Unlock()
	if clock != nil {
		clock.tick()
	}
}
