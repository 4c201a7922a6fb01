package token

import (
	"strings"
	"unicode/utf8"
)

// A Detok turns a stream of ids into text. It holds back the bytes of a character
// until the character is complete, and writes U+FFFD only for bytes that nothing
// can complete any more. It belongs to one stream and one goroutine.
type Detok struct {
	t       *BPE
	pending []byte // an unfinished character, at most 3 bytes between calls
}

// Detok returns a detokeniser for one stream. Control tokens give their spelling;
// callers that hide them do not push them.
func (t *BPE) Detok() *Detok { return &Detok{t: t} }

// Push adds a token and returns the text that is complete so far, possibly "".
func (d *Detok) Push(id int32) string {
	text := d.t.Text(id)
	if len(d.pending) == 0 && utf8.ValidString(text) {
		return text
	}
	d.pending = append(d.pending, text...)
	return d.take(false)
}

// Flush ends the stream and returns what was held back, as U+FFFD.
func (d *Detok) Flush() string { return d.take(true) }

// take returns the pending text without, unless all is set, an unfinished end.
func (d *Detok) take(all bool) string {
	out, rest := appendValid(nil, string(d.pending), all)
	d.pending = append(d.pending[:0], rest...)
	return string(out)
}

// Decode returns the text of ids, control tokens spelled out.
func (t *BPE) Decode(ids []int32) string {
	var out strings.Builder
	d := t.Detok()
	for _, id := range ids {
		out.WriteString(d.Push(id))
	}
	out.WriteString(d.Flush())
	return out.String()
}

// decodeStart returns how many bytes at the start of b belong together: a
// character, or bytes that no continuation can make one (the longest prefix of a
// character among them, at least 1). full is false if more bytes may complete it.
func decodeStart(b string) (size int, valid, full bool) {
	r, n := utf8.DecodeRuneInString(b)
	if r != utf8.RuneError || n != 1 {
		return n, true, true
	}
	if utf8.FullRuneInString(b[:1]) {
		return 1, false, true
	}
	for size = 1; size < len(b) && !utf8.FullRuneInString(b[:size+1]); size++ {
	}
	return size, false, size < len(b)
}

// appendValid appends s to dst with U+FFFD for invalid UTF-8, and returns what is
// left of s: nothing if all is set, else the unfinished character at its end.
func appendValid(dst []byte, s string, all bool) (out []byte, rest string) {
	for len(s) > 0 {
		size, valid, full := decodeStart(s)
		if !full && !all {
			break
		}
		if valid {
			dst = append(dst, s[:size]...)
		} else {
			dst = append(dst, "\uFFFD"...)
		}
		s = s[size:]
	}
	return dst, s
}

// toValid returns s with U+FFFD for invalid UTF-8.
func toValid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	out, _ := appendValid(nil, s, true)
	return string(out)
}
