package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	bar "charm.land/bubbles/v2/progress"
	tea "charm.land/bubbletea/v2"

	"ossian/internal/bench"
)

// A benchView shows a benchmark while it runs: two lines on a terminal, a line now and
// then elsewhere. Like progress it leaves the terminal in its mode and takes no input,
// so Ctrl-C stays a signal and nothing needs restoring. It reads counters and slows
// nothing down.
type benchView struct {
	live   *bench.Live
	tokens meter
	began  time.Time // the last reading before a request was taken up; zero = none was
	now    time.Time // of the last reading, at first of the beginning
	bar    bar.Model
	width  int // columns of the terminal
	quit   chan struct{}
}

// watchBench shows the run that live counts on w, normally os.Stderr, until stop is
// called or ctx ends; not enabled, it does nothing. When stop returns the view is
// removed and nothing more will be written.
func watchBench(ctx context.Context, live *bench.Live, w io.Writer, enabled bool) (stop func()) {
	if !enabled {
		return func() {}
	}
	v := &benchView{live: live, now: time.Now(), quit: make(chan struct{}), bar: bar.New(bar.WithoutPercentage(), bar.WithFillCharacters('█', '░'))}
	finished := make(chan struct{})
	end := sync.OnceFunc(func() { close(v.quit) })
	release := context.AfterFunc(ctx, end)
	go func() {
		defer close(finished)
		select {
		case <-v.quit:
			return
		case <-time.After(progressDelay):
		}
		v.read(time.Now())
		if f, ok := w.(*os.File); ok && drawable(f) {
			draw(f, v, v.quit)
			return
		}
		v.lines(w)
	}()
	return func() {
		release()
		end()
		<-finished
	}
}

// lines writes a line every progressLine.
func (v *benchView) lines(w io.Writer) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-v.quit:
			return
		case now := <-t.C:
			v.read(now)
			if now.Sub(last) >= progressLine {
				last = now
				fmt.Fprintf(w, "benchmark: %s, %s\n", v.count(), strings.Join(v.details(), ", "))
			}
		}
	}
}

// Init implements tea.Model.
func (v *benchView) Init() tea.Cmd { return nextFrame() }

// Update implements tea.Model.
func (v *benchView) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		v.width = msg.Width
	case frame:
		v.read(time.Time(msg))
		return v, nextFrame()
	}
	return v, nil
}

// View implements tea.Model.
func (v *benchView) View() tea.View {
	out := tea.View{DisableBracketedPasteMode: true, Cursor: &tea.Cursor{Shape: -1}} // as in barView
	select {
	case <-v.quit:
		return out // empty: leaves a clean line
	default:
	}
	count := v.count()
	first := count
	if room := v.width - len(count) - 3; room >= 10 && v.live.Total.Load() > 0 {
		v.bar.SetWidth(min(room, 40))
		first = v.bar.ViewAs(float64(v.live.Done.Load())/float64(v.live.Total.Load())) + "  " + count
	}
	if len(count) >= v.width {
		first = clip(count, v.width-1)
	}
	out.Content = first + "\n" + clip(strings.Join(v.details(), "   "), v.width-1)
	return out
}

// read takes a reading of the counters.
func (v *benchView) read(now time.Time) {
	if v.began.IsZero() && v.live.Released.Load() > 0 {
		v.began = v.now
	}
	v.now = now
	v.tokens.add(now, v.live.Tokens.Load())
}

// count says how many requests are done.
func (v *benchView) count() string {
	done, total := v.live.Done.Load(), v.live.Total.Load()
	s := fmt.Sprintf("%d done", done)
	if total > 0 {
		s = fmt.Sprintf("%d of %d done (%d%%)", done, total, 100*done/total)
	}
	if n := v.live.Failed.Load(); n > 0 {
		s += fmt.Sprintf(", %d failed", n)
	}
	return s
}

// details are what else the counters say, as far as they say anything.
func (v *benchView) details() []string {
	l := v.live
	sent, done, total := l.Sent.Load(), l.Done.Load(), l.Total.Load()
	out := []string{fmt.Sprintf("%d sent", sent), fmt.Sprintf("%d in flight", max(0, sent-done))}
	elapsed := v.now.Sub(v.began)
	if v.began.IsZero() || elapsed <= 0 {
		return out
	}
	mean := float64(l.Tokens.Load()) / elapsed.Seconds()
	out = append(out, fmt.Sprintf("%s tokens/s (mean %s)", formatCount(int64(v.tokens.rate())), formatCount(int64(mean))))
	if n := l.First.Load(); n > 0 {
		ttft := time.Duration(l.FirstTime.Load() / n)
		out = append(out, fmt.Sprintf("mean TTFT %s", ttft.Round(100*time.Microsecond)))
	}
	out = append(out, formatDuration(elapsed))
	if left := float64(total - done); done > 0 && left > 0 {
		out[len(out)-1] += ", " + formatDuration(time.Duration(left/float64(done)*float64(elapsed))) + " left"
	}
	return out
}
