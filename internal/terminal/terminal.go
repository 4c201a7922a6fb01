// Package terminal writes for people at a terminal and reads what they type: how far
// something is, bytes and times in few digits, text that must not steer the screen, messages
// that are edited. It knows no models and hides the libraries that draw.
//
// A terminal keeps its cooked mode, its cursor and its input, so nothing needs restoring
// after a crash and Ctrl-C is a signal, but for the time in which Input.Read waits for a
// message.
package terminal

import (
	"os"
	"strings"

	"golang.org/x/term"
)

// Is reports whether stream, a reader or a writer, is a terminal.
func Is(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Styled reports whether stream is a terminal that shows text in several styles, and whose
// user has not asked for none (no-color.org).
func Styled(stream any) bool {
	return Is(stream) && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""
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

// Printable, a function for strings.Map, drops what would steer the terminal: a model, or
// a name in a file, must not move the cursor, ring bells or write to the clipboard.
func Printable(r rune) rune {
	if (r < ' ' && r != '\n' && r != '\t') || (r >= 0x7f && r < 0xa0) {
		return -1
	}
	return r
}

// Clip cuts text to a width in runes.
func Clip(text string, width int) string {
	runes := []rune(text)
	return string(runes[:max(min(len(runes), width), 0)])
}
