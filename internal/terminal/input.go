package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"
)

// What stands before the first line of a message and before its others.
const (
	prompt       = "> "
	continuation = "  "
)

// An Input reads messages that a person types. On a terminal that can be drawn on they are
// edited as in a shell, with several lines, and with the keys Up and Down for what was typed
// before; elsewhere they are read line by line. Only while Read runs is the terminal in raw
// mode: Ctrl-C is a key there, and a signal at other times.
type Input struct {
	keys    keyboard
	out     io.Writer
	screen  *os.File // out, where messages are edited; else nil
	typed   *os.File // the terminal of keys, where messages are edited
	history *History
}

// NewInput returns an Input that reads from in and writes prompts and what is typed to out.
func NewInput(in io.Reader, out io.Writer, history *History) *Input {
	made := &Input{keys: keyboard{in: in}, out: out, history: history}
	typed, isFile := in.(*os.File)
	screen, shows := out.(*os.File)
	if isFile && shows && Is(typed) && drawable(screen) {
		made.typed, made.screen = typed, screen
	}
	return made
}

// Read returns the next message. unfinished reports whether a text that ends with the key
// Enter goes on with another line. Errors are io.EOF where the input ends, by Ctrl-D too,
// ErrInterrupted for Ctrl-C while nothing is typed, that of ctx, and those of the terminal.
func (i *Input) Read(ctx context.Context, interrupt <-chan os.Signal, unfinished func(text string) bool) (string, error) {
	if i.screen == nil {
		return i.readLines(ctx, interrupt, unfinished)
	}
	before, err := term.MakeRaw(int(i.typed.Fd()))
	if err != nil {
		return "", fmt.Errorf("terminal: %w", err)
	}
	defer func() {
		fmt.Fprint(i.screen, dropPaste)
		_ = term.Restore(int(i.typed.Fd()), before)
	}()
	if err := showSequences(i.screen); err != nil {
		return "", fmt.Errorf("terminal: %w", err)
	}
	fmt.Fprint(i.screen, askPaste)
	return newEditor(i.screen, i.history).run(ctx, interrupt, &i.keys, unfinished)
}

// readLines is Read where nothing can be drawn. Ctrl-C drops the lines so far.
func (i *Input) readLines(ctx context.Context, interrupt <-chan os.Signal, unfinished func(string) bool) (string, error) {
	var text strings.Builder
	fmt.Fprint(i.out, prompt)
	for {
		line, err := i.keys.line(ctx, interrupt)
		switch {
		case err == io.EOF && text.Len() > 0:
			return text.String(), nil
		case err != nil:
			fmt.Fprintln(i.out)
			return "", err
		}
		text.WriteString(line)
		if !unfinished(text.String()) {
			return text.String(), nil
		}
		text.WriteByte('\n')
		fmt.Fprint(i.out, continuation)
	}
}

// tabStand is the tab of a text while it is edited: the editor would make blanks of tabs,
// and what is pasted must arrive as it was. It is the last character for private use, and is
// drawn as a blank.
const tabStand = "\U0010FFFD"

// mostLines is how many lines the library that edits holds: beyond them it drops some.
const mostLines = 10000

// An editor edits one message on a screen in raw mode. The drawing of its text begins in
// the line where the prompt is, and the cursor stands in line cursorRow of it.
type editor struct {
	screen    *os.File
	area      textarea.Model
	history   *History
	at        int    // the entry of history that is shown; len = none
	draft     string // what was typed before one was
	cursorRow int
	columns   int
	rows      int
}

func newEditor(screen *os.File, history *History) *editor {
	made := &editor{screen: screen, area: textarea.New(), history: history, at: len(history.entries)}
	area := &made.area
	area.SetStyles(textarea.Styles{}) // no colours
	area.SetVirtualCursor(false)
	area.ShowLineNumbers = false
	area.SetPromptFunc(len(prompt), func(line textarea.PromptInfo) string {
		if line.LineNumber == 0 {
			return prompt
		}
		return continuation
	})
	area.MaxWidth, area.MaxContentHeight = 0, 1<<30
	area.DynamicHeight = true
	// Enter is ours, and the system's clipboard is the terminal's business. A marked part
	// could not be seen without colours.
	keys := &area.KeyMap
	for _, binding := range []interface{ SetEnabled(bool) }{&keys.InsertNewline, &keys.Paste, &keys.CopySelection, &keys.SelectAll, &keys.SelectCharacterBackward,
		&keys.SelectCharacterForward, &keys.SelectLineDown, &keys.SelectLineUp, &keys.SelectWordBackward, &keys.SelectWordForward} {
		binding.SetEnabled(false)
	}
	area.Focus()
	return made
}

// run edits until a message is complete. What is on the screen then is the message as it
// was typed, and the cursor in the line below.
func (e *editor) run(ctx context.Context, interrupt <-chan os.Signal, keys *keyboard, unfinished func(string) bool) (string, error) {
	for {
		if !whole(keys.pending) { // what is typed or pasted at once is drawn once
			e.draw()
		}
		msg, err := keys.next(ctx, interrupt)
		if errors.Is(err, ErrInterrupted) && e.text() != "" { // a signal, as the key
			e.set("")
			continue
		}
		done := err != nil
		if err == nil {
			done, err = e.handle(msg, unfinished)
		}
		if !done {
			continue
		}
		text := e.text()
		e.leave(text)
		return text, err
	}
}

// handle does what a key or a paste asks for, and reports whether the message is complete.
func (e *editor) handle(msg tea.Msg, unfinished func(string) bool) (done bool, err error) {
	key, isKey := msg.(tea.KeyPressMsg)
	if !isKey {
		if paste, ok := msg.(tea.PasteMsg); ok {
			e.insert(paste.Content)
		}
		return false, nil
	}
	empty := e.text() == ""
	switch name := key.Keystroke(); name {
	case "enter", "kpenter", "ctrl+j", "ctrl+m": // a line feed is Enter that was typed ahead
		if !unfinished(e.text()) {
			return true, nil
		}
		e.area.MoveToEnd()
		e.insert("\n")
	case "alt+enter", "shift+enter":
		e.insert("\n")
	case "tab", "ctrl+i":
		e.insert("\t")
	case "ctrl+c":
		if empty {
			return true, ErrInterrupted
		}
		e.set("")
		e.at = len(e.history.entries)
	case "ctrl+d":
		if empty {
			return true, io.EOF
		}
		e.update(key)
	case "ctrl+l":
		fmt.Fprint(e.screen, "\x1b[2J\x1b[H")
		e.cursorRow = 0
	case "up", "ctrl+p":
		if e.area.Line() > 0 || e.area.LineInfo().RowOffset > 0 || !e.recall(e.at-1) {
			e.update(key)
		}
	case "down", "ctrl+n":
		info := e.area.LineInfo()
		if e.area.Line() < e.area.LineCount()-1 || info.RowOffset < info.Height-1 || !e.recall(e.at+1) {
			e.update(key)
		}
	default:
		e.update(key)
	}
	return false, nil
}

// update has the library act on a key.
func (e *editor) update(key tea.KeyPressMsg) { e.area, _ = e.area.Update(key) }

// recall shows an entry of the history, or behind the last one the draft, and reports
// whether there is one.
func (e *editor) recall(at int) bool {
	entries := e.history.entries
	if at < 0 || at > len(entries) {
		return false
	}
	if e.at == len(entries) {
		e.draft = e.text()
	}
	e.at = at
	if at == len(entries) {
		e.set(e.draft)
	} else {
		e.set(entries[at])
	}
	return true
}

// text is what has been typed.
func (e *editor) text() string { return strings.ReplaceAll(e.area.Value(), tabStand, "\t") }

// set replaces what has been typed.
func (e *editor) set(text string) {
	e.area.Reset()
	e.insert(text)
}

// insert puts text where the cursor is. Text of more lines than can be edited is refused.
func (e *editor) insert(text string) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\t", tabStand).Replace(text)
	if lines := e.area.LineCount() + strings.Count(text, "\n"); lines > mostLines {
		e.notice(fmt.Sprintf("%d lines, and %d can be edited: leave the chat and give the text on standard input (ossian run MODEL - < FILE)", lines, mostLines))
		return
	}
	e.area.InsertString(text)
	e.area, _ = e.area.Update(nil) // moves the visible part to the cursor
}

// notice writes a line above what is typed.
func (e *editor) notice(text string) {
	e.erase()
	fmt.Fprint(e.screen, text+"\r\n")
}

// erase removes the drawing; the cursor is then where it began.
func (e *editor) erase() {
	if e.cursorRow > 0 {
		fmt.Fprintf(e.screen, "\x1b[%dA", e.cursorRow)
	}
	fmt.Fprint(e.screen, "\r\x1b[J")
	e.cursorRow = 0
}

// draw draws the text in place of its last drawing, as wide as the screen is now but for
// its last column, behind which some terminals begin a new line.
func (e *editor) draw() {
	if columns, rows, err := term.GetSize(int(e.screen.Fd())); err == nil && (columns != e.columns || rows != e.rows) {
		e.columns, e.rows = columns, rows
		e.area.MaxHeight = max(rows-1, 1)
		e.area.SetWidth(max(columns-1, len(prompt)+1))
		e.area, _ = e.area.Update(nil)
	}
	lines := strings.Split(strings.ReplaceAll(e.area.View(), tabStand, " "), "\n")
	for n := range lines {
		lines[n] = strings.TrimRight(lines[n], " ")
	}
	cursor := e.area.Cursor()
	// In one write, so that no half of a drawing is seen.
	var out strings.Builder
	if e.cursorRow > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", e.cursorRow)
	}
	out.WriteString("\r\x1b[J" + strings.Join(lines, "\r\n"))
	if up := len(lines) - 1 - cursor.Y; up > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", up)
	}
	out.WriteString("\r")
	if cursor.X > 0 {
		fmt.Fprintf(&out, "\x1b[%dC", cursor.X)
	}
	e.cursorRow = cursor.Y
	_, _ = io.WriteString(e.screen, out.String()) // a screen that is gone ends the input, too
}

// leave writes the whole text in place of the drawing, which may show a part.
func (e *editor) leave(text string) {
	e.erase()
	text = strings.ReplaceAll(text, "\n", "\r\n"+continuation)
	fmt.Fprint(e.screen, prompt+strings.Map(keepReturn, text)+"\r\n")
}

// keepReturn is Printable for a terminal in raw mode, where a line ends with a return, too.
func keepReturn(r rune) rune {
	if r == '\r' {
		return r
	}
	return Printable(r)
}
