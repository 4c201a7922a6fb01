package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// plain reports which bytes stand for themselves in a JSON string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// AppendString appends text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
// What some client takes for the end of a line is escaped: U+0085, U+2028 and
// U+2029 besides the control characters.
func AppendString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	// text[from:i] stands for itself and is copied as one piece.
	from := 0
	for i := 0; i < len(text); {
		char := text[i]
		if plain[char] {
			i++
			continue
		}
		if char < utf8.RuneSelf {
			dst = appendEscape(append(dst, text[from:i]...), char)
			i++
			from = i
			continue
		}
		decoded, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case decoded == utf8.RuneError && size == 1:
			dst = append(append(dst, text[from:i]...), "\uFFFD"...)
			from = i + size
		case decoded == '\u0085':
			dst = append(append(dst, text[from:i]...), `\u0085`...)
			from = i + size
		case decoded == '\u2028' || decoded == '\u2029':
			dst = append(append(dst, text[from:i]...), `\u202`...)
			dst = append(dst, hexDigits[decoded&15])
			from = i + size
		}
		i += size
	}
	return append(append(dst, text[from:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// Text is a string that is null on the wire when empty.
type Text string

// MarshalJSON writes null for "".
func (t Text) MarshalJSON() ([]byte, error) { return AppendText(nil, t), nil }

// AppendText appends a string, or null if it is empty.
func AppendText(dst []byte, text Text) []byte {
	if text == "" {
		return append(dst, "null"...)
	}
	return AppendString(dst, string(text))
}

// appendLogprob writes what JSON can hold: minus infinity is -9999.0 (api.md 2.2).
func appendLogprob(dst []byte, logprob float32) []byte {
	if !(logprob > -9999) { // also NaN
		return append(dst, "-9999.0"...)
	}
	return strconv.AppendFloat(dst, float64(min(logprob, math.MaxFloat32)), 'g', -1, 32)
}

func appendInts[N int | int32](dst []byte, ids []N) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return append(dst, ']')
}

func appendBytes(dst []byte, text string) []byte {
	dst = append(dst, '[')
	for i := range len(text) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(text[i]), 10)
	}
	return append(dst, ']')
}

// lineEnds are what some client takes for the end of a line.
var lineEnds = strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

// AppendCompact appends JSON that somebody else wrote, on one line. As in AppendString, bytes that
// are not UTF-8 become U+FFFD: json.Compact lets them pass, and no client could read the whole.
func AppendCompact(dst []byte, raw json.RawMessage) []byte {
	var line bytes.Buffer
	if json.Compact(&line, raw) != nil {
		return append(dst, "null"...) // what was decoded before is JSON
	}
	return append(dst, lineEnds.Replace(string(bytes.ToValidUTF8(line.Bytes(), []byte("\uFFFD"))))...)
}
