package terminal

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ossian/internal/command/commandtest"
)

// A desk is a person at a terminal: what is typed there, and what is seen.
type desk struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	input  *Input
	mu     sync.Mutex // guards seen
	seen   strings.Builder
}

func newDesk(t *testing.T, history *History) *desk {
	t.Helper()
	t.Setenv("TERM", "xterm-256color")
	d := &desk{t: t}
	d.master, d.slave = commandtest.PTY(t)
	go func() {
		chunk := make([]byte, 4096)
		for {
			n, err := d.master.Read(chunk)
			if err != nil {
				return
			}
			d.mu.Lock()
			d.seen.Write(chunk[:n])
			d.mu.Unlock()
		}
	}()
	d.input = NewInput(d.slave, d.slave, history)
	return d
}

func (d *desk) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen.String()
}

// sees waits until a text is on the screen.
func (d *desk) sees(text string) {
	d.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if strings.Contains(d.text(), text) {
			return
		}
	}
	d.t.Errorf("the screen got %.2000q, without %q", d.text(), text)
}

// raw reports whether the terminal hands on each key as it is.
func (d *desk) raw() bool {
	state, err := unix.IoctlGetTermios(int(d.slave.Fd()), unix.TCGETS)
	return err == nil && state.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == 0
}

// read reads one message of what is typed once the terminal waits for it.
func (d *desk) read(ctx context.Context, typed string, interrupt chan os.Signal) (string, error) {
	d.t.Helper()
	if typed != "" { // else it was typed ahead
		go func() {
			for deadline := time.Now().Add(time.Minute); !d.raw() && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			_, _ = io.WriteString(d.master, typed)
		}()
	}
	text, err := d.input.Read(ctx, interrupt, func(text string) bool { return strings.HasSuffix(text, `\`) })
	if d.raw() {
		d.t.Errorf("%q: the terminal stays raw", typed)
	}
	return text, err
}

func TestInputEdits(t *testing.T) {
	history := &History{entries: []string{"first", "two\nlines", "last"}}
	d := newDesk(t, history)
	for _, c := range []struct{ name, typed, want string }{
		{"a line", "hello\r", "hello"},
		{"nothing", "\r", ""},
		{"wide characters", "世界é🙂\x7f\x7f!\r", "世界!"},
		{"beginning and end", "bc\x01a\x05d\r", "abcd"},
		{"Home and End", "bc\x1b[Ha\x1b[Fd\r", "abcd"},
		{"left and right", "ac\x1b[Db\x1b[Cd\r", "abcd"},
		{"among wide characters", "世界\x1b[D中\r", "世中界"},
		{"to the beginning", "abc def\x1b[D\x1b[D\x15X\r", "Xef"},
		{"to the end", "abc def\x01\x1b[C\x0bX\r", "aX"},
		{"a word", "abc def\x17X\r", "abc X"},
		{"words back and on", "abc def\x1bb\x1bbX\x1bfY\r", "XabcY def"},
		{"Ctrl-Left and Ctrl-Right", "abc def\x1b[1;5DX\r", "abc Xdef"},
		{"deletes", "abcd\x01\x04\x1b[3~\r", "cd"},
		{"clears the screen", "ab\x0cc\r", "abc"},
		{"clears what is typed", "nonsense\x03sense\r", "sense"},
		{"up", "\x1b[A\r", "last"},
		{"up by Ctrl-P", "\x10!\r", "last!"},
		{"up and up through two lines", "\x1b[A\x1b[A\x1b[A\x1b[A\r", "first"},
		{"up beyond the first", "\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A\r", "first"},
		{"down again", "draft\x1b[A\x1b[B!\r", "draft!"},
		{"goes on", "a\\\rb\r", "a\\\nb"},
		{"another line", "a\x1b\rb\r", "a\nb"},
		{"pasted", "x\x1b[200~a\tb\r\nc\nd\x1b[201~y\r", "xa\tb\nc\ndy"},
		{"pasted with what steers", "\x1b[200~a\x1b[31mb\x07c\x1b[201~\r", "a[31mbc"},
		{"a tab", "a\tb\r", "a\tb"},
		{"longer than the screen is wide", strings.Repeat("word ", 50) + "\x01X\r", "X" + strings.Repeat("word ", 50)},
		{"longer than the screen is high", "\x1b[200~" + strings.Repeat("line\n", 100) + "\x1b[201~end\r", strings.Repeat("line\n", 100) + "end"},
		{"keys without a meaning", "a\x1a\x1b[15~\x1b\x07b\r", "ab"},
	} {
		got, err := d.read(t.Context(), c.typed, nil)
		if got != c.want || err != nil {
			t.Errorf("%s: %q, %v; expected %q", c.name, got, err, c.want)
		}
	}
	d.sees("> hello\r\n")
	if seen := d.text(); strings.Contains(seen, tabStand) || strings.Contains(seen, "\x1b[3") || strings.Contains(seen, "\x07") {
		t.Errorf("the screen got %q", seen)
	}
}

// Two messages typed at once are two.
func TestInputTypedAhead(t *testing.T) {
	d := newDesk(t, &History{})
	for n, want := range []string{"one", "two", "three"} {
		typed := ""
		if n == 0 {
			typed = "one\rtwo\nthree\r"
		}
		if got, err := d.read(t.Context(), typed, nil); got != want || err != nil {
			t.Errorf("%q, %v; expected %q", got, err, want)
		}
	}
}

func TestInputEnds(t *testing.T) {
	for _, c := range []struct {
		name, typed string
		err         error
	}{
		{"Ctrl-D", "\x04", io.EOF},
		{"Ctrl-C with nothing typed", "\x03", ErrInterrupted},
		{"Ctrl-D in the middle deletes", "ab\x01\x04\x03\x04", io.EOF},
	} {
		if _, err := newDesk(t, &History{}).read(t.Context(), c.typed, nil); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, expected %v", c.name, err, c.err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := newDesk(t, &History{}).read(ctx, "half", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("at the end of its context: %v", err)
	}
	interrupt := make(chan os.Signal, 1)
	time.AfterFunc(50*time.Millisecond, func() { interrupt <- syscall.SIGINT })
	if _, err := newDesk(t, &History{}).read(t.Context(), "", interrupt); !errors.Is(err, ErrInterrupted) {
		t.Errorf("interrupted: %v", err)
	}
}

// What is too much to be edited is refused, not cut.
func TestInputTooManyLines(t *testing.T) {
	d := newDesk(t, &History{})
	got, err := d.read(t.Context(), "a\x1b[200~"+strings.Repeat("\n", mostLines)+"\x1b[201~b\r", nil)
	if got != "ab" || err != nil {
		t.Errorf("%.100q, %v", got, err)
	}
	d.sees("10001 lines, and 10000 can be edited")
}

// A terminal that cannot draw gets no escape sequences and keeps its mode.
func TestInputDumb(t *testing.T) {
	d := newDesk(t, &History{})
	t.Setenv("TERM", "dumb")
	d.input = NewInput(d.slave, d.slave, &History{})
	if _, err := io.WriteString(d.master, "one\ntwo\\\nlines\n\x04"); err != nil {
		t.Fatal(err)
	}
	unfinished := func(text string) bool { return strings.HasSuffix(text, `\`) }
	for _, want := range []string{"one", "two\\\nlines"} {
		if got, err := d.input.Read(t.Context(), nil, unfinished); got != want || err != nil {
			t.Errorf("%q, %v; expected %q", got, err, want)
		}
		if d.raw() {
			t.Error("the terminal is raw")
		}
	}
	if _, err := d.input.Read(t.Context(), nil, unfinished); err != io.EOF {
		t.Errorf("behind Ctrl-D: %v", err)
	}
	if strings.Contains(d.text(), "\x1b") {
		t.Errorf("the terminal got %q", d.text())
	}
}
