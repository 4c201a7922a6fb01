package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	bar "charm.land/bubbles/v2/progress"
	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"
)

const (
	progressDelay = 200 * time.Millisecond // work shorter than this shows nothing and costs nothing
	progressFrame = 100 * time.Millisecond // between redraws on a terminal
	progressLine  = 10 * time.Second       // between lines when the output is no terminal
	rateWindow    = 5 * time.Second        // the shown rate is the average over this
)

// A unit is what a progress counts.
type unit uint8

const (
	unitBytes unit = iota
	unitTokens
)

// A progress shows how far one long operation is: a bar on a terminal, a line
// now and then elsewhere. The terminal keeps its cooked mode, its cursor and its
// input throughout, so nothing needs restoring after a crash; Ctrl-C stays a
// signal. Set and Add may be called from any goroutine and only touch an atomic.
type progress struct {
	w     io.Writer
	title string
	unit  unit
	total int64        // 0 = unknown
	done  atomic.Int64 // -1 before the first Set or Add

	quit     chan struct{}
	finished chan struct{}
	once     sync.Once
}

// newProgress starts showing an operation of total units on w, normally
// os.Stderr; nil shows nothing. The first Set tells where the operation stands at
// its beginning and does not count for the rate. Done must be called before
// anything else is written to the same terminal.
func newProgress(w io.Writer, title string, u unit, total int64) *progress {
	p := &progress{w: w, title: title, unit: u, total: total, quit: make(chan struct{}), finished: make(chan struct{})}
	if w == nil {
		close(p.finished)
		return p
	}
	p.done.Store(-1)
	go p.run()
	return p
}

// Set records that n units of the total are done.
func (p *progress) Set(n int64) { p.done.Store(n) }

// Add records n more units.
func (p *progress) Add(n int64) {
	p.done.CompareAndSwap(-1, 0)
	p.done.Add(n)
}

// Done removes the bar and returns when nothing more will be written.
func (p *progress) Done() {
	p.once.Do(func() { close(p.quit) })
	<-p.finished
}

func (p *progress) run() {
	defer close(p.finished)
	m := &meter{}
	first := time.NewTimer(progressDelay)
	defer first.Stop()
	select {
	case <-p.quit:
		return
	case <-first.C:
	}
	m.add(time.Now(), p.done.Load())
	if f, ok := p.w.(*os.File); ok && drawable(f) {
		p.bar(f, m)
		return
	}
	p.lines(m)
}

// drawable reports whether f is a terminal that can move its cursor and knows its size.
func drawable(f *os.File) bool {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) || os.Getenv("TERM") == "dumb" {
		return false
	}
	columns, rows, err := term.GetSize(fd)
	return err == nil && columns > 0 && rows > 0
}

// lines writes a line every progressLine.
func (p *progress) lines(m *meter) {
	t := time.NewTicker(rateWindow)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-p.quit:
			return
		case now := <-t.C:
			m.add(now, p.done.Load())
			if now.Sub(last) >= progressLine {
				last = now
				fmt.Fprintf(p.w, "%s: %s\n", p.title, p.status(m))
			}
		}
	}
}

// bar draws on a terminal until quit.
func (p *progress) bar(f *os.File, m *meter) {
	view := &barView{p: p, m: m, bar: bar.New(bar.WithoutPercentage(), bar.WithFillCharacters('█', '░'))}
	draw(f, view, p.quit)
}

// draw shows view on a terminal until quit. Errors of the terminal end the display only.
func draw(f *os.File, view tea.Model, quit <-chan struct{}) {
	prog := tea.NewProgram(view, tea.WithOutput(f), tea.WithInput(nil), tea.WithoutSignalHandler(),
		tea.WithEnvironment(quietTerminal(os.Getenv)))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		prog.Run()
	}()
	select {
	case <-quit:
		prog.Quit()
	case <-ended:
	}
	<-ended
}

// quietTerminal returns the environment with which the renderer asks the
// terminal nothing: nobody reads its input, so answers would end up in the shell.
func quietTerminal(getenv func(string) string) []string {
	name := getenv("TERM")
	for _, asked := range []string{"ghostty", "wezterm", "alacritty", "kitty", "rio"} {
		if strings.Contains(name, asked) {
			name = "xterm-256color"
		}
	}
	env := []string{"TERM=" + name, "SSH_TTY=none"} // a remote terminal is not asked either
	if v := getenv("NO_COLOR"); v != "" {
		env = append(env, "NO_COLOR="+v)
	}
	return env
}

// barView is the model of the bar's program.
type barView struct {
	p     *progress
	m     *meter
	bar   bar.Model
	width int // columns of the terminal
}

type frame time.Time

func nextFrame() tea.Cmd {
	return tea.Tick(progressFrame, func(t time.Time) tea.Msg { return frame(t) })
}

func (v *barView) Init() tea.Cmd { return nextFrame() }

func (v *barView) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		v.width = msg.Width
	case frame:
		v.m.add(time.Time(msg), v.p.done.Load())
		return v, nextFrame()
	}
	return v, nil
}

func (v *barView) View() tea.View {
	// The cursor stays visible, and in the user's style: shape -1 encodes as "no change".
	out := tea.View{DisableBracketedPasteMode: true, Cursor: &tea.Cursor{Shape: -1}}
	select {
	case <-v.p.quit:
		return out // empty: leaves a clean line
	default:
	}
	status := v.p.status(v.m)
	room := v.width - len(v.p.title) - len(status) - 5
	if v.p.total <= 0 || room < 10 {
		out.Content = clip(v.p.title+"  "+status, v.width-1)
		return out
	}
	v.bar.SetWidth(min(room, 40))
	out.Content = v.p.title + "  " + v.bar.ViewAs(float64(v.m.done)/float64(v.p.total)) + "  " + status
	return out
}

// clip cuts text to a width in runes.
func clip(s string, width int) string {
	r := []rune(s)
	return string(r[:max(min(len(r), width), 0)])
}

// status is the text beside the bar: "45%  6.2 GB of 13.8 GB  110 MB/s  1m10s left".
func (p *progress) status(m *meter) string {
	count, per := formatBytes, "/s"
	if p.unit == unitTokens {
		count, per = formatCount, " tokens/s"
	}
	var b strings.Builder
	if p.total > 0 {
		fmt.Fprintf(&b, "%3d%%  %s of %s", 100*m.done/p.total, count(m.done), count(p.total))
	} else {
		b.WriteString(count(m.done))
	}
	rate := m.rate()
	if rate > 0 {
		fmt.Fprintf(&b, "  %s%s", count(int64(rate)), per)
	}
	if left := float64(p.total - m.done); rate > 0 && left > 0 {
		fmt.Fprintf(&b, "  %s left", formatDuration(time.Duration(left/rate*float64(time.Second))))
	}
	return b.String()
}

// A meter turns readings into a rate over the last rateWindow.
type meter struct {
	done    int64
	samples []reading // oldest first
}

type reading struct {
	at   time.Time
	done int64
}

// add takes a reading; a negative count means that the operation has not begun.
func (m *meter) add(at time.Time, done int64) {
	if done < 0 {
		return
	}
	m.done = done
	m.samples = append(m.samples, reading{at, done})
	for len(m.samples) > 2 && at.Sub(m.samples[1].at) >= rateWindow {
		m.samples = m.samples[1:]
	}
}

// rate returns units per second, 0 when unknown.
func (m *meter) rate() float64 {
	if len(m.samples) < 2 {
		return 0
	}
	a, b := m.samples[0], m.samples[len(m.samples)-1]
	s := b.at.Sub(a.at).Seconds()
	if s <= 0 || b.done <= a.done {
		return 0
	}
	return float64(b.done-a.done) / s
}

// formatBytes writes n with three digits and a decimal unit: "13.8 GB".
func formatBytes(n int64) string {
	return scaled(n, []string{" B", " kB", " MB", " GB", " TB", " PB", " EB"})
}

// formatCount writes n with three digits and a decimal suffix: "20.9B" parameters.
func formatCount(n int64) string { return scaled(n, []string{"", "k", "M", "B", "T", "e15", "e18"}) }

func scaled(n int64, units []string) string {
	if n < 1000 {
		return fmt.Sprintf("%d%s", n, units[0])
	}
	v, u := float64(n), 0
	for ; v >= 999.5 && u < len(units)-1; u++ {
		v /= 1000
	}
	digits := 2
	if v >= 9.995 {
		digits = 1
	}
	if v >= 99.95 {
		digits = 0
	}
	return fmt.Sprintf("%.*f%s", digits, v, units[u])
}

// formatDuration writes d to the second, at most 99 hours: "1m10s".
func formatDuration(d time.Duration) string {
	return min(max(d, time.Second), 99*time.Hour).Round(time.Second).String()
}
