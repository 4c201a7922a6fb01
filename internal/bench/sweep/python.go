package sweep

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"ossian/internal/bench/jsonstyle"
)

// pyStr is a JSON value as Python's str writes it: what stands in the names of folders, on
// command lines and in tables.
func pyStr(raw json.RawMessage) string {
	var text string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text
	}
	return asPython(raw, false)
}

// pyDumps is a JSON value as Python's json.dumps writes it.
func pyDumps(raw json.RawMessage) string { return asPython(raw, true) }

// asPython writes a value as one of the two.
func asPython(raw json.RawMessage, asJSON bool) string {
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	w := &pyWriter{in: decoder, json: asJSON}
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

// value writes the next value of in.
func (w *pyWriter) value() {
	token, err := w.in.Token()
	if err != nil {
		return
	}
	switch token := token.(type) {
	case json.Delim:
		w.list(token)
	case string:
		w.text(token)
	case json.Number:
		w.out.WriteString(w.number(token.String()))
	case bool:
		if token {
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
	end, _ := w.in.Token() // its end
	if end, ok := end.(json.Delim); ok {
		w.out.WriteRune(rune(end))
	}
}

// number is a number as Python holds it: an integer as it is, or a float.
func (w *pyWriter) number(text string) string {
	if !strings.ContainsAny(text, ".eE") {
		if text == "-0" {
			return "0"
		}
		return text // integers have no bound
	}
	float, _ := strconv.ParseFloat(text, 64) // too large: infinite, as there
	if w.json {
		return strings.Replace(jsonstyle.PyFloat(float), "inf", "Infinity", 1)
	}
	return jsonstyle.PyFloat(float)
}

// text writes a string: JSON in ASCII, or Python's repr, in single quotes unless only
// those occur in it.
func (w *pyWriter) text(text string) {
	mark := '"' // the quotes around it
	if !w.json && (!strings.Contains(text, "'") || strings.Contains(text, `"`)) {
		mark = '\''
	}
	w.out.WriteRune(mark)
	for _, char := range text {
		switch short := strings.IndexRune("\n\r\t\b\f", char); {
		case char == mark || char == '\\':
			w.out.WriteRune('\\')
			w.out.WriteRune(char)
		case short >= 0 && (w.json || short < 3):
			w.out.WriteString(`\` + "nrtbf"[short:short+1])
		case w.json && (char < ' ' || char > '~'):
			for _, unit := range utf16.AppendRune(nil, char) {
				w.hex(`\u`, uint32(unit), 4)
			}
		case w.json || char == ' ' || unicode.IsPrint(char):
			w.out.WriteRune(char)
		case char < 0x100:
			w.hex(`\x`, uint32(char), 2)
		case char < 0x10000:
			w.hex(`\u`, uint32(char), 4)
		default:
			w.hex(`\U`, uint32(char), 8)
		}
	}
	w.out.WriteRune(mark)
}

// hex writes an escape with so many digits.
func (w *pyWriter) hex(prefix string, n uint32, digits int) {
	text := strconv.FormatUint(uint64(n), 16)
	w.out.WriteString(prefix + strings.Repeat("0", digits-len(text)) + text)
}

// plainJSON replaces what Python writes and JSON does not have: NaN becomes null,
// Infinity "inf".
func plainJSON(text []byte) []byte {
	var out strings.Builder
	inside := false
	for rest := string(text); rest != ""; {
		from, to := rest[:1], rest[:1] // what is replaced by what
		switch {
		case inside && len(rest) > 1 && rest[0] == '\\':
			from, to = rest[:2], rest[:2]
		case rest[0] == '"':
			inside = !inside
		case inside:
		case strings.HasPrefix(rest, "NaN"):
			from, to = "NaN", "null"
		case strings.HasPrefix(rest, "-Infinity"):
			from, to = "-Infinity", `"-inf"`
		case strings.HasPrefix(rest, "Infinity"):
			from, to = "Infinity", `"inf"`
		}
		out.WriteString(to)
		rest = rest[len(from):]
	}
	return []byte(out.String())
}
