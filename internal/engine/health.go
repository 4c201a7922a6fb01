package engine

import (
	"context"
	"fmt"
	"math/bits"
	"time"
)

// A State is where an engine stands.
type State uint8

const (
	Starting   State = iota // no step has finished yet
	Running                 // takes requests
	Restarting              // after a fault, until the new loop runs
	Draining                // finishes what it has, takes nothing new
	Stopped                 // Run has returned, or is about to
)

// String returns s in one word.
func (s State) String() string {
	return [...]string{"starting", "running", "restarting", "draining", "stopped"}[s]
}

// Health is the state of an engine at one moment.
type Health struct {
	State        State
	Reason       string    // of the last fault; "" = none so far
	LastProgress time.Time // end of the last finished step; zero = none
	Restarts     int       // since Run was called
}

// Health returns where the engine stands. It waits for nothing.
func (e *Engine) Health() Health {
	e.mu.Lock()
	defer e.mu.Unlock()
	health := Health{State: e.phase, Reason: e.reason, Restarts: e.restarts}
	if at := e.progress.Load(); at != 0 {
		health.LastProgress = e.epoch.Add(time.Duration(at))
	}
	switch {
	case health.State == Running && health.LastProgress.IsZero():
		health.State = Starting
	case e.draining && health.State != Stopped:
		health.State = Draining
	}
	return health
}

// fresh is how long a finished step proves that the engine works, reliability.md HLT-2.
const fresh = 30 * time.Second

// Ready returns nil if the engine takes requests and a step has finished in the
// last 30 s. An idle engine shows it by a step: Ready then pushes a token through
// and waits for it.
func (e *Engine) Ready(ctx context.Context) error {
	e.mu.Lock()
	err := e.refusal(false)
	e.mu.Unlock()
	if err != nil || e.proven() {
		return err
	}
	select { // one probe serves all who ask
	case e.probing <- struct{}{}:
		defer func() { <-e.probing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.proven() {
		return nil
	}
	return e.Probe(ctx)
}

// proven reports whether a step has finished lately.
func (e *Engine) proven() bool {
	at := e.progress.Load()
	return at != 0 && e.elapsed() < time.Duration(at)+fresh
}

// Probe pushes one real token through the normal path, past the limits of the
// queue, and waits for it. It is the warm-up of a loaded model.
func (e *Engine) Probe(ctx context.Context) error {
	stream, err := e.submit(ctx, Request{Tokens: []int32{0}, MaxTokens: 1}, true)
	if err != nil {
		return err
	}
	defer stream.Stop()
	for {
		out, err := stream.Recv(ctx)
		if err != nil {
			return fmt.Errorf("engine: probe: %w", err)
		}
		if len(out) > 0 {
			return nil
		}
	}
}

// A pace counts durations by powers of two.
type pace struct {
	n       int
	buckets [64]int // [k]: durations of k bits, in ns
}

func (p *pace) add(d time.Duration) {
	p.n++
	p.buckets[bits.Len64(uint64(max(d, 0)))&63]++
}

// p99 returns a duration, at most twice too large, that 1 % of those counted exceed.
func (p *pace) p99() time.Duration {
	above := 0
	for k := len(p.buckets) - 1; k > 0; k-- {
		if above += p.buckets[k]; above*100 > p.n {
			return 1<<k - 1
		}
	}
	return 0
}
