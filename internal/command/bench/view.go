package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"ossian/internal/bench"
	"ossian/internal/terminal"
)

// A view shows a benchmark while it runs: two lines on a terminal, a line now and
// then elsewhere. It reads counters and slows nothing down.
type view struct {
	live   *bench.Live
	tokens terminal.Meter
	began  time.Time // the last reading before a request was taken up; zero = none was
	now    time.Time // of the last reading, at first of the beginning
}

// watch shows the run that live counts on out, normally os.Stderr, until stop is
// called or ctx ends; not enabled, it does nothing. When stop returns the view is
// removed and nothing more will be written.
func watch(ctx context.Context, live *bench.Live, out io.Writer, enabled bool) (stop func()) {
	if !enabled {
		return func() {}
	}
	quit, finished := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(quit) })
	release := context.AfterFunc(ctx, end)
	v := &view{live: live, now: time.Now()}
	go func() {
		defer close(finished)
		terminal.Watch(out, v, time.Second, quit)
	}()
	return func() {
		release()
		end()
		<-finished
	}
}

// Line implements terminal.View.
func (v *view) Line() string {
	return fmt.Sprintf("benchmark: %s, %s", v.count(), strings.Join(v.details(), ", "))
}

// Draw implements terminal.View.
func (v *view) Draw(width int) string {
	count := v.count()
	first := count
	if room := width - len(count) - 3; room >= 10 && v.live.Total.Load() > 0 {
		first = terminal.Bar(min(room, 40), float64(v.live.Done.Load())/float64(v.live.Total.Load())) + "  " + count
	}
	if len(count) >= width {
		first = terminal.Clip(count, width-1)
	}
	return first + "\n" + terminal.Clip(strings.Join(v.details(), "   "), width-1)
}

// Read implements terminal.View.
func (v *view) Read(now time.Time) {
	if v.began.IsZero() && v.live.Released.Load() > 0 {
		v.began = v.now
	}
	v.now = now
	v.tokens.Add(now, v.live.Tokens.Load())
}

// count says how many requests are done.
func (v *view) count() string {
	done, total := v.live.Done.Load(), v.live.Total.Load()
	text := fmt.Sprintf("%d done", done)
	if total > 0 {
		text = fmt.Sprintf("%d of %d done (%d%%)", done, total, 100*done/total)
	}
	if n := v.live.Failed.Load(); n > 0 {
		text += fmt.Sprintf(", %d failed", n)
	}
	return text
}

// details are what else the counters say, as far as they say anything.
func (v *view) details() []string {
	live := v.live
	sent, done, total := live.Sent.Load(), live.Done.Load(), live.Total.Load()
	out := []string{fmt.Sprintf("%d sent", sent), fmt.Sprintf("%d in flight", max(0, sent-done))}
	elapsed := v.now.Sub(v.began)
	if v.began.IsZero() || elapsed <= 0 {
		return out
	}
	mean := float64(live.Tokens.Load()) / elapsed.Seconds()
	out = append(out, fmt.Sprintf("%s tokens/s (mean %s)", terminal.FormatCount(int64(v.tokens.Rate())), terminal.FormatCount(int64(mean))))
	if n := live.First.Load(); n > 0 {
		ttft := time.Duration(live.FirstTime.Load() / n)
		out = append(out, fmt.Sprintf("mean TTFT %s", ttft.Round(100*time.Microsecond)))
	}
	out = append(out, terminal.FormatDuration(elapsed))
	if left := float64(total - done); done > 0 && left > 0 {
		out[len(out)-1] += ", " + terminal.FormatDuration(time.Duration(left/float64(done)*float64(elapsed))) + " left"
	}
	return out
}
