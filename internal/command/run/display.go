package run

import (
	"io"
	"strings"

	"ossian/internal/chat"
	"ossian/internal/terminal"
	"ossian/internal/token"
)

// A display writes an answer as its ids come. Reasoning is dim on a terminal, or between
// lines that say so where dim text cannot be or is not wanted, and left out elsewhere, so
// that a pipe gets the answer alone.
type display struct {
	w        io.Writer
	parser   chat.Parser
	terminal bool // w is one
	styled   bool // which shows dim text

	events             []chat.Event // scratch
	begun              bool         // a message whose first text is to come
	dim                bool         // what is written is reasoning now
	wrote              bool         // something is written
	over               bool         // the answer is complete
	reasoned           bool         // there was something that is not for the user
	content, reasoning strings.Builder
	err                error // the first of w
}

// What begins and ends reasoning on a terminal: codes for dim text, else words.
const (
	dim   = "\x1b[2m"
	plain = "\x1b[0m"
	think = "[reasoning]\n"
	speak = "[answer]\n"
)

// push shows one more id and reports whether the answer is complete.
func (d *display) push(id int32) (over bool) {
	d.events = d.parser.Push(d.events[:0], id)
	d.read()
	return d.over
}

// close shows what was held back and ends dim text.
func (d *display) close() {
	d.events = d.parser.Close(d.events[:0])
	d.read()
	if d.dim && d.styled {
		d.put(plain)
	}
}

// read keeps and shows what the events of the last id say. A call of a tool, which nobody
// here offers, is shown but not kept.
func (d *display) read() {
	for i := range d.events {
		event := &d.events[i]
		// What the model is shown again in later turns.
		switch {
		case event.Part.Visible():
			d.content.WriteString(event.Text)
		case event.Part == chat.Reasoning:
			d.reasoning.WriteString(event.Text)
		}
		// What the user sees.
		switch {
		case event.Kind == chat.TurnEnd:
			d.over = true
		case event.Kind == chat.Start:
			d.begun = true
		case event.Text != "":
			d.reasoned = d.reasoned || event.Part.Reasons()
			d.write(event.Text, event.Part.Reasons())
		}
	}
}

// write shows text of a message. Messages stand below each other, as in the content
// of an API; a blank line is between reasoning and answer.
func (d *display) write(text string, reasons bool) {
	if reasons && !d.terminal {
		return
	}
	// One line break for a new message, one for the change between reasoning and answer: with
	// both there is a blank line.
	if d.begun && d.wrote {
		d.put("\n")
	}
	if reasons != d.dim && d.wrote {
		d.put("\n")
	}
	switch {
	case reasons && !d.dim && d.styled:
		d.put(dim)
	case reasons && !d.dim:
		d.put(think)
	case d.dim && !reasons && d.styled:
		d.put(plain)
	case d.dim && !reasons:
		d.put(speak)
	}
	d.begun, d.wrote, d.dim = false, true, reasons
	if d.terminal {
		text = strings.Map(terminal.Printable, text)
	}
	d.put(text)
}

// put writes text and keeps the first error.
func (d *display) put(text string) {
	if _, err := io.WriteString(d.w, text); d.err == nil {
		d.err = err
	}
}

// verbatim reads answers without a format: all of it is text, control tokens by name.
type verbatim struct{ *token.Detok }

// Push implements chat.Parser.
func (v verbatim) Push(dst []chat.Event, id int32) []chat.Event {
	return append(dst, chat.Event{Kind: chat.Delta, Part: chat.Content, Text: v.Detok.Push(id), Count: 1})
}

// Close implements chat.Parser.
func (v verbatim) Close(dst []chat.Event) []chat.Event {
	return append(dst, chat.Event{Kind: chat.Delta, Part: chat.Content, Text: v.Flush()})
}
