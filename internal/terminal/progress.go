package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Unit is what a Progress counts.
type Unit uint8

// What is counted.
const (
	Bytes Unit = iota
	Tokens
)

// A Progress shows how far one long operation is: a bar on a terminal, a line
// now and then elsewhere. Set and Add may be called from any goroutine and only touch an
// atomic.
type Progress struct {
	title string
	unit  Unit
	total int64        // 0 = unknown
	done  atomic.Int64 // -1 before the first Set or Add

	quit     chan struct{}
	finished chan struct{}
	once     sync.Once
}

// NewProgress starts showing an operation of total units on out, normally
// os.Stderr; nil shows nothing. The first Set tells where the operation stands at
// its beginning and does not count for the rate. Done must be called before
// anything else is written to the same terminal.
func NewProgress(out io.Writer, title string, unit Unit, total int64) *Progress {
	progress := &Progress{title: title, unit: unit, total: total, quit: make(chan struct{}), finished: make(chan struct{})}
	if out == nil {
		close(progress.finished)
		return progress
	}
	progress.done.Store(-1)
	go func() {
		defer close(progress.finished)
		Watch(out, &progressView{p: progress}, rateWindow, progress.quit)
	}()
	return progress
}

// Set records that n units of the total are done.
func (p *Progress) Set(n int64) { p.done.Store(n) }

// Add records n more units.
func (p *Progress) Add(n int64) {
	p.done.CompareAndSwap(-1, 0)
	p.done.Add(n)
}

// Done removes the bar and returns when nothing more will be written. It may be called
// more than once.
func (p *Progress) Done() {
	p.once.Do(func() { close(p.quit) })
	<-p.finished
}

// A progressView is the View of a Progress.
type progressView struct {
	p     *Progress
	meter Meter
}

// Read implements View.
func (v *progressView) Read(now time.Time) { v.meter.Add(now, v.p.done.Load()) }

// Line implements View.
func (v *progressView) Line() string { return v.p.title + ": " + v.p.status(&v.meter) }

// Draw implements View. Where a bar has no room, there is none.
func (v *progressView) Draw(width int) string {
	status := v.p.status(&v.meter)
	room := width - len(v.p.title) - len(status) - 5
	if v.p.total <= 0 || room < 10 {
		return Clip(v.p.title+"  "+status, width-1)
	}
	return v.p.title + "  " + Bar(min(room, 40), float64(v.meter.done)/float64(v.p.total)) + "  " + status
}

// status is the text beside the bar: "45%  6.2 GB of 13.8 GB  110 MB/s  1m10s left".
func (p *Progress) status(meter *Meter) string {
	count, per := FormatBytes, "/s"
	if p.unit == Tokens {
		count, per = FormatCount, " tokens/s"
	}
	var out strings.Builder
	if p.total > 0 {
		fmt.Fprintf(&out, "%3d%%  %s of %s", 100*meter.done/p.total, count(meter.done), count(p.total))
	} else {
		out.WriteString(count(meter.done))
	}
	rate := meter.Rate()
	if rate > 0 {
		fmt.Fprintf(&out, "  %s%s", count(int64(rate)), per)
	}
	if left := float64(p.total - meter.done); rate > 0 && left > 0 {
		fmt.Fprintf(&out, "  %s left", FormatDuration(time.Duration(left/rate*float64(time.Second))))
	}
	return out.String()
}

// A LateProgress is a Progress of bytes whose total comes with the first report.
type LateProgress struct {
	w     io.Writer
	title string
	mu    sync.Mutex // guards p, until Done is called
	p     *Progress  // nil before the first report
}

// NewLateProgress returns a progress that shows nothing before its first report. A nil w
// shows nothing at all.
func NewLateProgress(w io.Writer, title string) *LateProgress {
	return &LateProgress{w: w, title: title}
}

// Report records that done bytes of total are done. It may be called from any goroutine.
func (l *LateProgress) Report(done, total int64) {
	l.mu.Lock()
	if l.p == nil {
		l.p = NewProgress(l.w, l.title, Bytes, total)
	}
	p := l.p
	l.mu.Unlock()
	p.Set(done)
}

// Done removes the bar. All reports must have returned.
func (l *LateProgress) Done() {
	if l.p != nil {
		l.p.Done()
	}
}
