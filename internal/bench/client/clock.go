package client

import (
	"context"
	"fmt"
	"time"
)

// compareClocks notes how far the server's clock is from this one's: shards on several machines
// begin together by their own.
func (c *Client) compareClocks(ctx context.Context) {
	if c.setup.Shard == nil {
		return
	}
	shard := *c.setup.Shard // which is another client's, too
	shard.Clock = clock(ctx, c.server.Now)
	said := "does not say its time"
	if ahead := shard.Clock; ahead != nil {
		said = fmt.Sprintf("has a clock that is %v ahead of this one", ahead.Round(time.Millisecond))
	}
	fmt.Fprintf(c.Log, "Shard %v: the server %s.\n", &shard, said)
	c.setup.Shard = &shard
}

const (
	clockEvery = 20 * time.Millisecond   // between questions for the server's time
	clockLimit = 1500 * time.Millisecond // of them: its seconds end once a second
)

// clock returns how far a clock that tells whole seconds is ahead of this one. It is asked until a
// second ends; the result is right to half of what an answer and the pause before it take. nil = it
// tells nothing.
func clock(ctx context.Context, ask func(context.Context) time.Time) *time.Duration {
	var before, last time.Time // when the last answer came, and what it said
	for began := time.Now(); time.Since(began) < clockLimit; {
		said := ask(ctx)
		now := time.Now()
		switch {
		case said.IsZero():
			return nil
		case !last.IsZero() && said.After(last):
			ahead := said.Sub(before.Add(now.Sub(before) / 2))
			return &ahead
		}
		before, last = now, said
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(clockEvery):
		}
	}
	return nil
}
