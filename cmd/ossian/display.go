package main

import (
	"io"
	"slices"
	"strings"

	"ossian/internal/token"
)

// A display writes an answer as its ids come. Reasoning is dim on a terminal and
// left out elsewhere, so that a pipe gets the answer alone.
type display struct {
	w        io.Writer
	tok      *token.BPE
	detok    *token.Detok
	terminal bool
	raw      bool // everything, control tokens by name

	header    bool // between the start or channel marker of a harmony message and its text
	channel   bool // name is that of a channel
	name      strings.Builder
	reasoning bool
	answered  bool            // something that is not reasoning was written
	reasoned  bool            // reasoning was written or left out
	text      strings.Builder // the answer without reasoning and markers, to be given back to the template
	err       error           // the first of w
}

const (
	dim   = "\x1b[2m"
	plain = "\x1b[0m"
)

// newDisplay returns a display for what follows prompt. Some templates end a prompt
// with <think>: then the answer begins with reasoning.
func newDisplay(w io.Writer, tok *token.BPE, prompt []int32, terminal, raw bool) *display {
	d := &display{w: w, tok: tok, detok: tok.Detok(), terminal: terminal, raw: raw}
	for _, id := range slices.Backward(prompt) {
		name := tok.Text(id)
		if name == "<think>" && !raw {
			d.setReasoning(true)
		}
		if name == "<think>" || name == "</think>" {
			break
		}
	}
	return d
}

// push shows one more id.
func (d *display) push(id int32) {
	if d.raw {
		d.write(d.detok.Push(id))
		return
	}
	switch name := d.marker(id); name {
	case "":
		d.write(d.detok.Push(id))
	case "<|channel|>", "<|start|>":
		d.write(d.detok.Flush())
		d.header, d.channel = true, name == "<|channel|>"
		d.name.Reset()
	case "<|message|>":
		// harmony.md: everything but the final channel is for the model itself.
		d.write(d.detok.Flush())
		d.header = false
		d.setReasoning(d.channel && !strings.HasPrefix(strings.TrimSpace(d.name.String()), "final"))
	case "<think>":
		d.setReasoning(true)
	case "</think>":
		d.setReasoning(false)
	default:
		d.write(d.detok.Flush())
		if name == "<|end|>" && d.terminal {
			d.put("\n\n")
		}
	}
}

// marker returns the spelling of an id that is no ordinary text, or "".
func (d *display) marker(id int32) string {
	text := d.tok.Text(id)
	if d.tok.IsControl(id) || text == "<think>" || text == "</think>" {
		return text
	}
	return ""
}

func (d *display) setReasoning(on bool) {
	d.write(d.detok.Flush())
	if d.terminal && on != d.reasoning {
		code := plain
		if on {
			code = dim
		}
		d.put(code)
	}
	d.reasoning = on
}

func (d *display) write(s string) {
	switch {
	case s == "":
	case d.header:
		d.name.WriteString(s)
	case d.reasoning && !d.terminal:
		d.reasoned = true
	default:
		d.reasoned = d.reasoned || d.reasoning
		if !d.reasoning {
			d.text.WriteString(s)
			d.answered = true
		}
		if d.terminal {
			s = strings.Map(printable, s)
		}
		d.put(s)
	}
}

// printable drops what would steer the terminal: a model must not move the cursor,
// ring bells or write to the clipboard.
func printable(r rune) rune {
	if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
		return -1
	}
	return r
}

func (d *display) put(s string) {
	if _, err := io.WriteString(d.w, s); d.err == nil {
		d.err = err
	}
}

// close writes what was held back and ends dim text.
func (d *display) close() {
	d.write(d.detok.Flush())
	if d.reasoning && d.terminal {
		d.put(plain)
	}
}
