package terminal

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
)

// What the model writes must not steer the terminal it is shown on.
func TestPrintable(t *testing.T) {
	const text = "a\x1b]52;c;aGk=\x07b\u009b31mc\r\n\td\x7f é😀"
	if got, want := strings.Map(Printable, text), "a]52;c;aGk=b31mc\n\td é😀"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestQuietTerminal(t *testing.T) {
	for _, name := range []string{"xterm-kitty", "xterm-ghostty", "alacritty", "wezterm", "rio"} {
		env := quietTerminal(func(k string) string {
			return map[string]string{"TERM": name, "NO_COLOR": "1", "TMUX": "x"}[k]
		})
		if got := strings.Join(env, " "); got != "TERM=xterm-256color SSH_TTY=none NO_COLOR=1" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// linesOf is a view that draws what it is told and the width it has.
type linesOf string

func (v linesOf) Read(time.Time)        {}
func (v linesOf) Draw(width int) string { return Clip(string(v), width) }
func (v linesOf) Line() string          { return string(v) }

// A view has the width of its terminal, and leaves nothing when it ends.
func TestDrawing(t *testing.T) {
	quit := make(chan struct{})
	d := &drawing{view: linesOf("0123456789"), quit: quit}
	d.Update(tea.WindowSizeMsg{Width: 4, Height: 24})
	if got := d.View().Content; got != "0123" {
		t.Errorf("got %q, want the first four digits", got)
	}
	close(quit)
	if left := d.View().Content; left != "" {
		t.Errorf("%q is left when it ends", left)
	}
}
