package wire

import (
	"math"
	"strconv"
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

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
// What some client takes for the end of a line is escaped: U+0085, U+2028 and
// U+2029 besides the control characters.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = appendEscape(append(dst, s[from:i]...), c)
			i++
			from = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(append(dst, s[from:i]...), "\uFFFD"...)
			from = i + n
		case r == '\u0085':
			dst = append(append(dst, s[from:i]...), `\u0085`...)
			from = i + n
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[from:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&15])
			from = i + n
		}
		i += n
	}
	return append(append(dst, s[from:]...), '"')
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
func (t Text) MarshalJSON() ([]byte, error) { return appendText(nil, t), nil }

func appendText(dst []byte, t Text) []byte {
	if t == "" {
		return append(dst, "null"...)
	}
	return AppendString(dst, string(t))
}

// appendLogprob writes what JSON can hold: minus infinity is -9999.0 (api.md 2.2).
func appendLogprob(dst []byte, p float32) []byte {
	if !(p > -9999) { // also NaN
		return append(dst, "-9999.0"...)
	}
	return strconv.AppendFloat(dst, float64(min(p, math.MaxFloat32)), 'g', -1, 32)
}

func appendInts(dst []byte, ids []int32) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return append(dst, ']')
}

func appendBytes(dst []byte, b string) []byte {
	dst = append(dst, '[')
	for i := range len(b) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(b[i]), 10)
	}
	return append(dst, ']')
}
