package grammar

import (
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"ossian/internal/grammar/runes"
)

// Kinds of JSON values, by the first letter of their texts; canonical writes them.
const (
	jsonObject = '{'
	jsonArray  = '['
	jsonString = '"'
	jsonNumber = '0'
	jsonTrue   = 't'
	jsonFalse  = 'f'
	jsonNull   = 'n'
)

// A value is a JSON value with its members in their order and its numbers as text.
type value struct {
	kind   byte   // one of the constants json…
	text   string // of a string, decoded; of a number, as written
	keys   []string
	vals   []*value // members or elements
	index  map[string]int
	parent *value
	name   string // in parent
}

// is reports whether v is there and of that kind: get returns nil for what is not there.
func (v *value) is(kind byte) bool { return v != nil && v.kind == kind }

// isFalse reports whether v is the schema false, which nothing meets.
func isFalse(v *value) bool { return v.is(jsonFalse) }

// readJSON reads one value.
func readJSON(text string) (*value, error) {
	if !utf8.ValidString(text) {
		return nil, invalid("", "the schema is not UTF-8")
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	root, err := readValue(dec, nil, "", 0)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("text after the value")
		}
	}
	if err != nil {
		return nil, invalid("", "the schema is not JSON: byte %d: %v", dec.InputOffset(), err)
	}
	return root, nil
}

func readValue(dec *json.Decoder, parent *value, name string, depth int) (*value, error) {
	if depth > maxNesting {
		return nil, errors.New("nested deeper than " + strconv.Itoa(maxNesting) + " levels")
	}
	next, err := dec.Token()
	if err != nil {
		return nil, err
	}
	read := &value{kind: jsonNull, parent: parent, name: name}
	switch next := next.(type) {
	case bool:
		read.kind = jsonFalse
		if next {
			read.kind = jsonTrue
		}
	case string:
		read.kind, read.text = '"', next
	case json.Number:
		read.kind, read.text = '0', next.String()
	case json.Delim:
		read.kind = byte(next)
		err = read.readMembers(dec, depth)
	}
	return read, err
}

func (v *value) readMembers(dec *json.Decoder, depth int) error {
	v.index = map[string]int{}
	for dec.More() {
		name := strconv.Itoa(len(v.vals))
		if v.kind == jsonObject {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			name = key.(string) // the decoder accepts nothing else
			if v.get(name) != nil {
				return errors.New("member " + strconv.Quote(name) + " is there twice")
			}
			v.index[name] = len(v.vals)
			v.keys = append(v.keys, name)
		}
		member, err := readValue(dec, v, name, depth+1)
		if err != nil {
			return err
		}
		v.vals = append(v.vals, member)
	}
	_, err := dec.Token()
	return err
}

// get returns a member of an object, or nil.
func (v *value) get(key string) *value {
	if i, ok := v.index[key]; ok {
		return v.vals[i]
	}
	return nil
}

// path is v's place as a JSON pointer in a fragment.
func (v *value) path() string {
	if v.parent == nil {
		return "#"
	}
	return v.parent.path() + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(v.name)
}

// canonical is a text that equal values share.
func (v *value) canonical() string {
	var out strings.Builder
	v.write(&out)
	return out.String()
}

func (v *value) write(out *strings.Builder) {
	out.WriteByte(v.kind)
	switch v.kind {
	case jsonString:
		out.WriteString(quoted(v.text) + `"`)
	case jsonNumber:
		if rational, ok := number(v.text); ok {
			out.WriteString(rational.RatString())
		} else {
			out.WriteString(v.text)
		}
	case jsonArray:
		for _, element := range v.vals {
			element.write(out)
		}
		out.WriteByte(']')
	case jsonObject:
		keys := make([]string, len(v.keys))
		for i, key := range v.keys {
			keys[i] = quoted(key) + `"` + v.vals[i].canonical()
		}
		slices.Sort(keys)
		out.WriteString(strings.Join(keys, `"`) + "}")
	}
}

// brief is v in an error.
func (v *value) brief() string {
	switch v.kind {
	case jsonObject:
		return "an object"
	case jsonArray:
		return "an array"
	case jsonString:
		return strconv.Quote(v.text[:min(len(v.text), maxBrief)])
	case jsonNumber:
		return v.text[:min(len(v.text), maxBrief)]
	case jsonNull:
		return "null"
	}
	return strconv.FormatBool(v.kind == jsonTrue)
}

const maxBrief = 40 // bytes of a value in an error

// number reads a JSON number with an exponent that does no harm.
func number(text string) (*big.Rat, bool) {
	if _, exp, ok := strings.Cut(strings.ToLower(text), "e"); ok {
		if n, err := strconv.Atoi(exp); err != nil || n < -400 || n > 400 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(text)
}

// expr matches v as it is written in a schema: members in their order, numbers with
// their digits.
func (v *value) expr(space, colon *expr) *expr {
	var parts []*expr
	for i, member := range v.vals {
		var key *expr = empty
		if v.kind == jsonObject {
			key = cat(lit(`"`+quoted(v.keys[i])+`":`), colon)
		}
		if i > 0 {
			parts = append(parts, lit(","), space)
		}
		parts = append(parts, key, member.expr(space, colon))
	}
	inner := space
	if len(parts) > 0 {
		inner = cat(space, cat(parts...), space)
	}
	switch v.kind {
	case jsonObject:
		return cat(lit("{"), inner, lit("}"))
	case jsonArray:
		return cat(lit("["), inner, lit("]"))
	case jsonString:
		return lit(`"` + quoted(v.text) + `"`)
	case jsonNumber:
		return lit(v.text)
	case jsonTrue:
		return lit("true")
	case jsonFalse:
		return lit("false")
	}
	return lit("null")
}

// quoted spells text as the inside of a JSON string.
func quoted(text string) string {
	var out []byte
	for _, char := range text {
		if esc := runes.Escape(char); esc != "" {
			out = append(out, esc...)
		} else {
			out = append(out, string(char)...)
		}
	}
	return string(out)
}
