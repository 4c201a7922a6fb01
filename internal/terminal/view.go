package terminal

import (
	"fmt"
	"io"
	"os"
	"time"

	"charm.land/bubbles/v2/progress"
	tea "charm.land/bubbletea/v2"
)

const (
	viewDelay = 200 * time.Millisecond // work shorter than this shows nothing and costs nothing
	viewFrame = 100 * time.Millisecond // between redraws on a terminal
	viewLine  = 10 * time.Second       // between lines when the output is no terminal
)

// A View is what Watch shows. One goroutine calls its methods.
type View interface {
	// Read takes a reading of what is shown.
	Read(now time.Time)
	// Draw returns what a terminal of that many columns shows of the last reading; a
	// width of 0 is not known yet.
	Draw(width int) string
	// Line returns what a log shows of the last reading, without its end.
	Line() string
}

// Watch shows view on out until quit is closed: a drawing that is renewed in its place on a
// terminal, which is removed at the end, a line now and then elsewhere. Readings are each
// apart where lines are written. When Watch returns nothing more will be written.
func Watch(out io.Writer, view View, each time.Duration, quit <-chan struct{}) {
	first := time.NewTimer(viewDelay)
	defer first.Stop()
	select {
	case <-quit:
		return
	case <-first.C:
	}
	view.Read(time.Now())
	if f, ok := out.(*os.File); ok && drawable(f) {
		draw(f, view, quit)
		return
	}
	writeLines(out, view, each, quit)
}

// writeLines writes a line every viewLine.
func writeLines(out io.Writer, view View, each time.Duration, quit <-chan struct{}) {
	readings := time.NewTicker(each)
	defer readings.Stop()
	last := time.Now()
	for {
		select {
		case <-quit:
			return
		case now := <-readings.C:
			view.Read(now)
			if now.Sub(last) >= viewLine {
				last = now
				fmt.Fprintln(out, view.Line())
			}
		}
	}
}

// draw shows v on a terminal until quit. Errors of the terminal end the display only.
func draw(f *os.File, v View, quit <-chan struct{}) {
	program := tea.NewProgram(&drawing{view: v, quit: quit}, tea.WithOutput(f), tea.WithInput(nil), tea.WithoutSignalHandler(),
		tea.WithEnvironment(quietTerminal(os.Getenv)))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		program.Run()
	}()
	select {
	case <-quit:
		program.Quit()
	case <-ended:
	}
	<-ended
}

// A drawing is a View as the renderer wants it.
type drawing struct {
	view  View
	width int // columns of the terminal
	quit  <-chan struct{}
}

// A frame is the time to draw again.
type frame time.Time

func nextFrame() tea.Cmd {
	return tea.Tick(viewFrame, func(t time.Time) tea.Msg { return frame(t) })
}

// Init implements tea.Model.
func (d *drawing) Init() tea.Cmd { return nextFrame() }

// Update implements tea.Model.
func (d *drawing) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		d.width = msg.Width
	case frame:
		d.view.Read(time.Time(msg))
		return d, nextFrame()
	}
	return d, nil
}

// View implements tea.Model.
func (d *drawing) View() tea.View {
	// The cursor stays visible, and in the user's style: shape -1 encodes as "no change".
	out := tea.View{DisableBracketedPasteMode: true, Cursor: &tea.Cursor{Shape: -1}}
	select {
	case <-d.quit:
		return out // empty: leaves a clean line
	default:
	}
	out.Content = d.view.Draw(d.width)
	return out
}

// Bar draws a bar of that many columns of which a share from 0 to 1 is full.
func Bar(columns int, share float64) string {
	bar := progress.New(progress.WithoutPercentage(), progress.WithFillCharacters('█', '░'))
	bar.SetWidth(columns)
	return bar.ViewAs(share)
}
