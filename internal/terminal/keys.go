package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	uv "github.com/charmbracelet/ultraviolet"
)

const (
	escapeTime = 50 * time.Millisecond // in which the rest of a key's sequence comes; else it was the key Esc
	maxTyped   = 16 << 20              // bytes of a line or of pasted text
)

// What a terminal writes around pasted text once it is asked to.
const (
	askPaste  = "\x1b[?2004h"
	dropPaste = "\x1b[?2004l"
	pasteEnd  = "\x1b[201~"
)

// ErrInterrupted is what Input.Read returns for Ctrl-C where there is nothing to clear.
var ErrInterrupted = errors.New("interrupted")

// errLater says that nothing more has come in time.
var errLater = errors.New("nothing came in time")

// A keyboard is what comes from a terminal: bytes, and the keys and pastes that they stand
// for. What was typed ahead stays in pending until somebody asks. One goroutine uses it; a
// read of the terminal cannot be cut short, so another one reads, until the process ends.
type keyboard struct {
	in      io.Reader
	arrived chan []byte // closed at the end of in; nil before the first read
	pending []byte
	decoder uv.EventDecoder
}

// fill adds the bytes that come next to pending. It returns io.EOF at the end of the input,
// and errLater when within is over; a within of 0 waits for ever.
func (k *keyboard) fill(ctx context.Context, interrupt <-chan os.Signal, within time.Duration) error {
	// A read cannot be given up, so it has a goroutine of its own and goes on into the next call.
	if k.arrived == nil {
		k.arrived = make(chan []byte)
		go k.read()
	}
	if len(k.pending) > maxTyped {
		return fmt.Errorf("more than %d bytes without an end were typed or pasted; a file can be given on standard input: ossian run MODEL - < FILE", maxTyped)
	}
	var late <-chan time.Time
	if within > 0 {
		timer := time.NewTimer(within)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case more, open := <-k.arrived:
		if !open {
			return io.EOF
		}
		k.pending = append(k.pending, more...)
		return nil
	case <-interrupt:
		return ErrInterrupted
	case <-late:
		return errLater
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read hands on what in has. An error of a terminal is its end: it was closed.
func (k *keyboard) read() {
	defer close(k.arrived)
	for {
		chunk := make([]byte, 4096)
		n, err := k.in.Read(chunk)
		if n > 0 {
			k.arrived <- chunk[:n]
		}
		if err != nil {
			return
		}
	}
}

// line returns the next line without its end.
func (k *keyboard) line(ctx context.Context, interrupt <-chan os.Signal) (string, error) {
	for {
		if end := bytes.IndexByte(k.pending, '\n'); end >= 0 {
			line := string(bytes.TrimSuffix(k.pending[:end], []byte("\r")))
			k.pending = k.pending[end+1:]
			return line, nil
		}
		err := k.fill(ctx, interrupt, 0)
		if err == io.EOF && len(k.pending) > 0 { // a last line without an end
			line := string(k.pending)
			k.pending = nil
			return line, nil
		}
		if err != nil {
			return "", err
		}
	}
}

// next returns the next key, a tea.KeyPressMsg, or pasted text, a tea.PasteMsg.
func (k *keyboard) next(ctx context.Context, interrupt <-chan os.Signal) (tea.Msg, error) {
	for {
		// A sequence may come in pieces. What is no whole one after a while is taken as it is.
		for !whole(k.pending) {
			within := escapeTime
			if len(k.pending) == 0 {
				within = 0
			}
			err := k.fill(ctx, interrupt, within)
			if len(k.pending) > 0 && (err == errLater || err == io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
		}
		taken, event := k.decoder.Decode(k.pending)
		k.pending = k.pending[max(taken, 1):]
		switch event := event.(type) {
		case uv.KeyPressEvent:
			return tea.KeyPressMsg(event), nil
		case uv.PasteStartEvent:
			text, err := k.pasted(ctx, interrupt)
			return tea.PasteMsg{Content: text}, err
		}
	}
}

// pasted returns the text up to the end of a paste.
func (k *keyboard) pasted(ctx context.Context, interrupt <-chan os.Signal) (string, error) {
	searched := 0
	for {
		if end := bytes.Index(k.pending[searched:], []byte(pasteEnd)); end >= 0 {
			text := string(k.pending[:searched+end])
			k.pending = k.pending[searched+end+len(pasteEnd):]
			return text, nil
		}
		searched = max(0, len(k.pending)-len(pasteEnd)) // the end may have come in part
		if err := k.fill(ctx, interrupt, 0); err != nil {
			return "", err
		}
	}
}

// whole reports whether bytes begin with a whole key: a character, or an escape sequence
// with its last byte (ECMA-48 5.4, 5.6).
func whole(pending []byte) bool {
	if len(pending) == 0 {
		return false
	}
	if pending[0] != '\x1b' {
		return utf8.FullRune(pending)
	}
	if len(pending) == 1 {
		return false
	}
	rest := pending[2:]
	switch pending[1] {
	case '[':
		return bytes.ContainsFunc(rest, func(r rune) bool { return r >= '@' && r <= '~' })
	case 'O':
		return len(rest) > 0
	case ']', 'P', '_', '^', 'X': // a string, up to BEL or ESC \
		return bytes.ContainsAny(rest, "\a\x1b")
	}
	return utf8.FullRune(pending[1:])
}
