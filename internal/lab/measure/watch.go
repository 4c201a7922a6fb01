package measure

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"ossian/internal/bench"
)

const (
	lookEvery   = 100 * time.Millisecond
	slowSteps   = 20 // median gaps without a token after which a run is hung, if that is more than Quiet
	firstFactor = 5  // so many times Quiet before the first token: prompts are read
	leastSlow   = 3  // seconds that a run has before it can be too slow: a short one may meet a busy moment
	meterEvery  = 30 // seconds: the counters of energy turn over after minutes
)

// earlyError: a run was so slow that its end was not worth waiting for.
type earlyError struct {
	rate  float64 // requests per second, from the tokens so far
	floor float64
}

func (e *earlyError) Error() string {
	return fmt.Sprintf("about %.3g requests/s, the best has more than %.3g times that", e.rate, e.floor/e.rate)
}

// hungError: nothing came any more.
type hungError struct{ after time.Duration }

func (e *hungError) Error() string {
	return fmt.Sprintf("hung: no token for %v", e.after.Round(time.Second))
}

// diedError: the server is gone.
type diedError struct{ why error }

func (e *diedError) Error() string { return e.why.Error() }

// watch looks at a run while it goes on: it ends one that hangs, that is far too slow, or whose server
// has died, and reads the counters of energy.
type watch struct {
	server *server
	floor  float64 // requests per second; 0: none
	tokens float64 // of an answer, where the workload says so; 0: not known
	quiet  time.Duration
	cancel context.CancelCauseFunc
	begun  chan struct{} // closed when the clock of the run starts

	mu    sync.Mutex // guards what follows: the client stops the watch, the trial reads the meter
	meter *meter     // nil: energy is not measured
	spent float64    // joules, once the run is over
	known bool
}

// guard looks at what comes before the run: a warm-up may hang, and its server may die, as well.
func (w *watch) guard() (stop func()) {
	w.begun = make(chan struct{})
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		limit := time.NewTimer(firstFactor * w.quiet)
		defer limit.Stop()
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-w.begun:
				return
			case <-limit.C:
				w.cancel(&hungError{firstFactor * w.quiet})
				return
			case <-ticker.C:
				if died := w.server.running.Died(); died != nil {
					w.cancel(&diedError{died})
					return
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

// begin starts to watch when the clock of the run does, and returns what ends it.
func (w *watch) begin(live *bench.Live) (stop func()) {
	close(w.begun)
	if w.server.m.Power != "off" {
		w.meter = newMeter(sysRoot)
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		w.look(live, quit)
	}()
	return func() {
		close(quit)
		<-ended
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.meter != nil {
			w.spent, w.known = w.meter.joules()
		}
	}
}

// joules are those of the run; nil: not measured.
func (w *watch) joules() *float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.known {
		return nil
	}
	return &w.spent
}

// look looks until the run is over or has to end.
func (w *watch) look(live *bench.Live, quit <-chan struct{}) {
	begun := time.Now()
	gaps, metered := newGaps(begun), begun
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-quit:
			return
		case now := <-ticker.C:
			gaps.see(now, live.Tokens.Load()+live.Done.Load())
			if now.Sub(metered) > meterEvery*time.Second && w.meter != nil {
				metered = now
				w.meter.read()
			}
			if err := w.over(live, now.Sub(begun), gaps.since(now), gaps.limit(w.quiet)); err != nil {
				w.cancel(err)
				return
			}
		}
	}
}

// over says why a run has to end now; nil: it need not.
func (w *watch) over(live *bench.Live, elapsed, silent, limit time.Duration) error {
	if died := w.server.running.Died(); died != nil {
		return &diedError{died}
	}
	if silent > limit {
		return &hungError{silent}
	}
	total, done := float64(live.Total.Load()), float64(live.Done.Load())
	// Requests that are sent together end together: how many have ended says little about the rate of a
	// run under way. That it has taken longer than a run at the floor takes in all is certain.
	if w.floor > 0 && total > 0 && done < total && elapsed.Seconds() > max(min(leastSlow, w.quiet.Seconds()), total/w.floor) {
		if w.tokens > 0 { // answers under way count by what there is of them
			done = max(done, float64(live.Tokens.Load())/w.tokens)
		}
		return &earlyError{rate: max(done, 0.5) / elapsed.Seconds(), floor: w.floor}
	}
	return nil
}

// gaps are times between tokens, of the run and not of a request.
type gaps struct {
	last   time.Time
	count  int64
	widths []time.Duration // the latest ones
}

func newGaps(begun time.Time) *gaps { return &gaps{last: begun} }

// see takes in how many tokens there are.
func (g *gaps) see(now time.Time, count int64) {
	if count == g.count {
		return
	}
	if g.count > 0 {
		g.widths = append(g.widths, now.Sub(g.last))
		if len(g.widths) > 1000 {
			g.widths = g.widths[500:]
		}
	}
	g.last, g.count = now, count
}

// since is how long nothing has come.
func (g *gaps) since(now time.Time) time.Duration { return now.Sub(g.last) }

// limit is how long nothing may come.
func (g *gaps) limit(quiet time.Duration) time.Duration {
	if g.count == 0 {
		return firstFactor * quiet
	}
	if len(g.widths) == 0 {
		return quiet
	}
	sorted := slices.Clone(g.widths)
	slices.Sort(sorted)
	return max(quiet, slowSteps*sorted[len(sorted)/2])
}

func sorted(words []string) []string {
	slices.Sort(words)
	return words
}
