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
	lookEvery  = 100 * time.Millisecond
	slowSteps  = 20 // median gaps without a token after which a run is hung, if that is more than Quiet
	leastSlow  = 3  // seconds that a run has before it can be too slow: a short one may meet a busy moment
	meterEvery = 30 // seconds: the counters of energy turn over after minutes
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

	warming bench.Live    // of what is sent before the clock of the run starts
	begun   chan struct{} // closed when it starts
	guarded chan struct{} // closed when guard looks no more; from then on gaps are look's
	gaps    *gaps

	mu    sync.Mutex // guards what follows: the client stops the watch, the trial reads the meter
	meter *meter     // of processors; nil: not measured
	cards *cards     // of cards; nil: not measured
	spent float64    // joules of both, once the run is over
	known bool
}

// guard looks at what comes before the run: a warm-up may hang, and its server may die, as well. It ends
// where begin takes over.
func (w *watch) guard() (stop func()) {
	w.begun, w.guarded = make(chan struct{}), make(chan struct{})
	w.gaps = newGaps(time.Now())
	quit := make(chan struct{})
	go func() {
		defer close(w.guarded)
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-w.begun:
				return
			case now := <-ticker.C:
				w.gaps.see(now, &w.warming)
				if err := w.stuck(now); err != nil {
					w.cancel(err)
					return
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-w.guarded
	}
}

// begin starts to watch when the clock of the run does, and returns what ends it.
func (w *watch) begin(live *bench.Live) (stop func()) {
	close(w.begun)
	<-w.guarded
	w.meter, w.cards = w.server.m.meters()
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
		w.spent, w.known = energyOf(w.meter, w.cards)
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
	w.gaps.again(begun)
	metered := begun
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-quit:
			return
		case now := <-ticker.C:
			w.gaps.see(now, live)
			if now.Sub(metered) > meterEvery*time.Second && w.meter != nil {
				metered = now
				w.meter.read()
			}
			err := w.stuck(now)
			if err == nil {
				err = w.slow(live, now.Sub(begun))
			}
			if err != nil {
				w.cancel(err)
				return
			}
		}
	}
}

// stuck says why nothing will come any more; nil: something may.
func (w *watch) stuck(now time.Time) error {
	if died := w.server.running.Died(); died != nil {
		return &diedError{died}
	}
	if silent := w.gaps.since(now); silent > w.gaps.limit(w.quiet) {
		return &hungError{silent}
	}
	return nil
}

// slow says that the end of a run is not worth waiting for; nil: it is.
func (w *watch) slow(live *bench.Live, elapsed time.Duration) error {
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

// gaps are times between tokens, of the load as a whole and not of a request, from the first warm-up on.
type gaps struct {
	last   time.Time       // of the latest token, or when nobody waited for one
	count  int64           // of tokens and ends of requests
	widths []time.Duration // the latest ones
}

func newGaps(begun time.Time) *gaps { return &gaps{last: begun} }

// again begins to count anew, as a run does behind its warm-ups, whose steps are known from then on.
func (g *gaps) again(begun time.Time) { g.last, g.count = begun, 0 }

// see takes in how far a load has come. Silence counts while a request is under way alone: between two of
// them, and while the client makes its prompts, nothing is owed.
func (g *gaps) see(now time.Time, live *bench.Live) {
	done := live.Done.Load()
	waiting := live.Released.Load() > done
	count := live.Tokens.Load() + done
	if count == g.count {
		if !waiting {
			g.last = now
		}
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

// limit is how long nothing may come: lab.md 9, where the larger of the two counts.
func (g *gaps) limit(quiet time.Duration) time.Duration {
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
