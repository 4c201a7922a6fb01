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
)

// A value is a JSON value with its members in their order and its numbers as text.
type value struct {
	kind   byte   // { [ " 0 t f n
	text   string // of a string, decoded; of a number, as written
	keys   []string
	vals   []*value // members or elements
	index  map[string]int
	parent *value
	name   string // in parent
}

// readJSON reads one value.
func readJSON(text string) (*value, error) {
	if !utf8.ValidString(text) {
		return nil, invalid("", "the schema is not UTF-8")
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	v, err := readValue(dec, nil, "", 0)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("text after the value")
		}
	}
	if err != nil {
		return nil, invalid("", "the schema is not JSON: byte %d: %v", dec.InputOffset(), err)
	}
	return v, nil
}

func readValue(dec *json.Decoder, parent *value, name string, depth int) (*value, error) {
	if depth > maxNesting {
		return nil, errors.New("nested deeper than " + strconv.Itoa(maxNesting) + " levels")
	}
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	v := &value{kind: 'n', parent: parent, name: name}
	switch t := t.(type) {
	case bool:
		v.kind = 'f'
		if t {
			v.kind = 't'
		}
	case string:
		v.kind, v.text = '"', t
	case json.Number:
		v.kind, v.text = '0', t.String()
	case json.Delim:
		v.kind = byte(t)
		err = v.readMembers(dec, depth)
	}
	return v, err
}

func (v *value) readMembers(dec *json.Decoder, depth int) error {
	v.index = map[string]int{}
	for dec.More() {
		name := strconv.Itoa(len(v.vals))
		if v.kind == '{' {
			t, err := dec.Token()
			if err != nil {
				return err
			}
			name = t.(string) // the decoder accepts nothing else
			if v.get(name) != nil {
				return errors.New("member " + strconv.Quote(name) + " is there twice")
			}
			v.index[name] = len(v.vals)
			v.keys = append(v.keys, name)
		}
		m, err := readValue(dec, v, name, depth+1)
		if err != nil {
			return err
		}
		v.vals = append(v.vals, m)
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
	case '"':
		out.WriteString(quoted(v.text) + `"`)
	case '0':
		if r, ok := number(v.text); ok {
			out.WriteString(r.RatString())
		} else {
			out.WriteString(v.text)
		}
	case '[':
		for _, e := range v.vals {
			e.write(out)
		}
		out.WriteByte(']')
	case '{':
		keys := make([]string, len(v.keys))
		for i, k := range v.keys {
			keys[i] = quoted(k) + `"` + v.vals[i].canonical()
		}
		slices.Sort(keys)
		out.WriteString(strings.Join(keys, `"`) + "}")
	}
}

// brief is v in an error.
func (v *value) brief() string {
	switch v.kind {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return strconv.Quote(v.text[:min(len(v.text), maxBrief)])
	case '0':
		return v.text[:min(len(v.text), maxBrief)]
	case 'n':
		return "null"
	}
	return strconv.FormatBool(v.kind == 't')
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
	for i, m := range v.vals {
		var key *expr = empty
		if v.kind == '{' {
			key = cat(lit(`"`+quoted(v.keys[i])+`":`), colon)
		}
		if i > 0 {
			parts = append(parts, lit(","), space)
		}
		parts = append(parts, key, m.expr(space, colon))
	}
	inner := space
	if len(parts) > 0 {
		inner = cat(space, cat(parts...), space)
	}
	switch v.kind {
	case '{':
		return cat(lit("{"), inner, lit("}"))
	case '[':
		return cat(lit("["), inner, lit("]"))
	case '"':
		return lit(`"` + quoted(v.text) + `"`)
	case '0':
		return lit(v.text)
	case 't':
		return lit("true")
	case 'f':
		return lit("false")
	}
	return lit("null")
}
