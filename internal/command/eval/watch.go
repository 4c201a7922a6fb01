package eval

import (
	"fmt"
	"io"
	"sync"
	"time"

	"ossian/internal/eval"
	"ossian/internal/eval/report"
	"ossian/internal/terminal"
)

// A watch shows how far a run is.
type watch struct {
	out  io.Writer
	quit chan struct{}
	gone sync.WaitGroup
}

func newWatch(out io.Writer) *watch { return &watch{out: out, quit: make(chan struct{})} }

// begin starts to show a run; nothing else may write to the terminal until end.
func (w *watch) begin(live *eval.Live) {
	w.gone.Go(func() { terminal.Watch(w.out, &view{live: live}, time.Second, w.quit) })
	w.gone.Go(func() { w.expect(live) })
}

// expect says what the first answers tell of the rest, once there are enough of them.
func (w *watch) expect(live *eval.Live) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-tick.C:
		}
		state := live.State()
		if state.Expected == nil {
			continue
		}
		if state.Expected.Time > time.Minute { // a short wait needs no words
			fmt.Fprintf(w.out, "the first answers say: some %s tokens and %s to go\n", terminal.FormatCount(int64(state.Expected.Tokens)), report.Duration(state.Expected.Time))
		}
		return
	}
}

// end removes what is shown.
func (w *watch) end() {
	close(w.quit)
	w.gone.Wait()
}

// A view draws a run.
type view struct {
	live  *eval.Live
	state eval.State
}

// Read implements terminal.View.
func (v *view) Read(time.Time) { v.state = v.live.State() }

// Line implements terminal.View.
func (v *view) Line() string {
	s := &v.state
	text := fmt.Sprintf("%d of %d answers, %d on their way, %s tokens", s.Done, s.Total, s.Running, terminal.FormatCount(int64(s.Tokens)))
	if s.Left > 0 {
		text += ", some " + report.Duration(s.Left) + " left"
	}
	return text
}

// Draw implements terminal.View.
func (v *view) Draw(width int) string {
	if v.state.Total == 0 {
		return ""
	}
	bar := terminal.Bar(min(30, max(width-len(v.Line())-4, 0)), float64(v.state.Done)/float64(v.state.Total))
	return terminal.Clip(bar+"  "+v.Line(), width-1)
}
