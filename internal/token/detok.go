package token

import (
	"strings"
	"unicode/utf8"
)

// A Detok turns a stream of ids into text. It holds back the bytes of a character
// until the character is complete, and writes U+FFFD only for bytes that nothing
// can complete any more. It belongs to one stream and one goroutine.
type Detok struct {
	bpe     *BPE
	pending []byte // an unfinished character, at most 3 bytes between calls
}

// Detok returns a detokeniser for one stream. Control tokens give their spelling;
// callers that hide them do not push them.
func (t *BPE) Detok() *Detok { return &Detok{bpe: t} }

// Push adds a token and returns the text that is complete so far, possibly "".
func (d *Detok) Push(id int32) string {
	text := d.bpe.Text(id)
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
	detok := t.Detok()
	for _, id := range ids {
		out.WriteString(detok.Push(id))
	}
	out.WriteString(detok.Flush())
	return out.String()
}

// decodeStart returns how many bytes at the start of text belong together: a
// character, or bytes that no continuation can make one (the longest prefix of a
// character among them, at least 1). full is false if more bytes may complete it.
func decodeStart(text string) (size int, valid, full bool) {
	r, whole := utf8.DecodeRuneInString(text)
	if r != utf8.RuneError || whole != 1 {
		return whole, true, true
	}
	if utf8.FullRuneInString(text[:1]) {
		return 1, false, true
	}
	for size = 1; size < len(text) && !utf8.FullRuneInString(text[:size+1]); size++ {
	}
	return size, false, size < len(text)
}

// appendValid appends text to dst with U+FFFD for invalid UTF-8, and returns what is
// left of it: nothing if all is set, else the unfinished character at its end.
func appendValid(dst []byte, text string, all bool) (out []byte, rest string) {
	for len(text) > 0 {
		size, valid, full := decodeStart(text)
		if !full && !all {
			break
		}
		if valid {
			dst = append(dst, text[:size]...)
		} else {
			dst = append(dst, "\uFFFD"...)
		}
		text = text[size:]
	}
	return dst, text
}

// toValid returns text with U+FFFD for invalid UTF-8.
func toValid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	out, _ := appendValid(nil, text, true)
	return string(out)
}
