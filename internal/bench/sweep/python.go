package sweep

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// str is a JSON value as Python's str writes it: what stands in the names of folders, on
// command lines and in tables.
func str(raw json.RawMessage) string {
	var text string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text
	}
	return python(raw, false)
}

// dumps is a JSON value as Python's json.dumps writes it.
func dumps(raw json.RawMessage) string { return python(raw, true) }

func python(raw json.RawMessage, asJSON bool) string {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	w := &pyWriter{in: d, json: asJSON}
	w.value()
	return w.out.String()
}

// A pyWriter writes a value the way Python does, as JSON or as its repr. What it reads
// has been checked, so that tokens never fail.
type pyWriter struct {
	in   *json.Decoder
	out  strings.Builder
	json bool
}

func (w *pyWriter) value() {
	t, err := w.in.Token()
	if err != nil {
		return
	}
	switch t := t.(type) {
	case json.Delim:
		w.list(t)
	case string:
		w.text(t)
	case json.Number:
		w.out.WriteString(w.number(t.String()))
	case bool:
		if t {
			w.word("true", "True")
		} else {
			w.word("false", "False")
		}
	default:
		w.word("null", "None")
	}
}

// word writes one of the words in which JSON and Python differ.
func (w *pyWriter) word(inJSON, inPython string) {
	if w.json {
		inPython = inJSON
	}
	w.out.WriteString(inPython)
}

// list writes an array or an object, whose beginning has been read.
func (w *pyWriter) list(open json.Delim) {
	w.out.WriteRune(rune(open))
	for i := 0; w.in.More(); i++ {
		if i > 0 {
			w.out.WriteString(", ")
		}
		if w.value(); open == '{' {
			w.out.WriteString(": ")
			w.value()
		}
	}
	t, _ := w.in.Token() // its end
	if end, ok := t.(json.Delim); ok {
		w.out.WriteRune(rune(end))
	}
}

func (w *pyWriter) number(text string) string {
	if !strings.ContainsAny(text, ".eE") {
		if text == "-0" {
			return "0"
		}
		return text // integers have no bound
	}
	f, _ := strconv.ParseFloat(text, 64) // too large: infinite, as there
	if w.json {
		return strings.Replace(pyFloat(f), "inf", "Infinity", 1)
	}
	return pyFloat(f)
}

// pyFloat is Python's repr of a float.
func pyFloat(f float64) string {
	switch size := math.Abs(f); {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case size != 0 && (size < 1e-4 || size >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// text writes a string: JSON in ASCII, or Python's repr, in single quotes unless only
// those occur in it.
func (w *pyWriter) text(s string) {
	mark := '"'
	if !w.json && (!strings.Contains(s, "'") || strings.Contains(s, `"`)) {
		mark = '\''
	}
	w.out.WriteRune(mark)
	for _, r := range s {
		switch short := strings.IndexRune("\n\r\t\b\f", r); {
		case r == mark || r == '\\':
			w.out.WriteRune('\\')
			w.out.WriteRune(r)
		case short >= 0 && (w.json || short < 3):
			w.out.WriteString(`\` + "nrtbf"[short:short+1])
		case w.json && (r < ' ' || r > '~'):
			for _, unit := range utf16.AppendRune(nil, r) {
				w.hex(`\u`, uint32(unit), 4)
			}
		case w.json || r == ' ' || unicode.IsPrint(r):
			w.out.WriteRune(r)
		case r < 0x100:
			w.hex(`\x`, uint32(r), 2)
		case r < 0x10000:
			w.hex(`\u`, uint32(r), 4)
		default:
			w.hex(`\U`, uint32(r), 8)
		}
	}
	w.out.WriteRune(mark)
}

func (w *pyWriter) hex(prefix string, n uint32, digits int) {
	text := strconv.FormatUint(uint64(n), 16)
	w.out.WriteString(prefix + strings.Repeat("0", digits-len(text)) + text)
}

// plainJSON replaces what Python writes and JSON does not have: NaN becomes null,
// Infinity "inf".
func plainJSON(text []byte) []byte {
	var b strings.Builder
	inside := false
	for s := string(text); s != ""; {
		from, to := s[:1], s[:1]
		switch {
		case inside && len(s) > 1 && s[0] == '\\':
			from, to = s[:2], s[:2]
		case s[0] == '"':
			inside = !inside
		case inside:
		case strings.HasPrefix(s, "NaN"):
			from, to = "NaN", "null"
		case strings.HasPrefix(s, "-Infinity"):
			from, to = "-Infinity", `"-inf"`
		case strings.HasPrefix(s, "Infinity"):
			from, to = "Infinity", `"inf"`
		}
		b.WriteString(to)
		s = s[len(from):]
	}
	return []byte(b.String())
}
