package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A jsonText is a tokenizer.json on the way to a jsonFile. Vocabulary and merges are
// nearly all of its bytes, some 20 MB; encoding/json would go over each four times and
// keep a copy of every string. They are read here, in one pass, as parts of the text; what
// remains is encoding/json's.
type jsonText struct {
	text   string
	at     int
	vocab  map[string]int32
	merges []jsonMerge
}

// readJSON reads a file. It says of malformed JSON what encoding/json says.
func readJSON(data []byte) (*jsonFile, error) {
	text := &jsonText{text: string(data)}
	rest, err := text.cut()
	if err != nil {
		var any json.RawMessage
		if malformed := json.Unmarshal(data, &any); malformed != nil {
			err = malformed
		}
		return nil, err
	}
	var file jsonFile
	if err := json.Unmarshal([]byte(rest), &file); err != nil {
		return nil, inWords(err)
	}
	file.Model.Vocab, file.Model.Merges = text.vocab, text.merges
	return &file, nil
}

// inWords puts an error about the type of a value, which names types of this program, into
// words of JSON.
func inWords(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	want := "an object"
	switch kind := wrong.Type.Kind(); {
	case kind == reflect.String:
		want = "a string"
	case kind == reflect.Bool:
		want = "true or false"
	case kind == reflect.Slice:
		want = "an array"
	case kind >= reflect.Int && kind <= reflect.Float64:
		want = "a number"
	}
	return fmt.Errorf("%s is of type %s, expected %s", strings.TrimPrefix(wrong.Field, "."), wrong.Value, want)
}

// cut reads vocabulary and merges and returns the text with null in their place.
func (r *jsonText) cut() (rest string, err error) {
	var out strings.Builder
	copied := 0
	take := func(read func() error) error {
		out.WriteString(r.text[copied:r.at])
		out.WriteString("null")
		err := read()
		copied = r.at
		return err
	}
	// Of a member that is there twice the last counts, as for encoding/json.
	err = r.object(func(key string) error {
		if key != "model" || r.peek() != '{' {
			return r.skip()
		}
		r.vocab, r.merges = nil, nil
		return r.object(func(key string) error {
			switch {
			case key == "vocab" && r.peek() == '{':
				return take(r.readVocab)
			case key == "merges" && r.peek() == '[':
				return take(r.readMerges)
			}
			return r.skip()
		})
	})
	out.WriteString(r.text[copied:])
	return out.String(), err
}

// readVocab reads an object of ids by token.
func (r *jsonText) readVocab() error {
	ids := make(map[string]int32, len(r.text)/128) // about
	r.vocab = ids
	return r.object(func(text string) error {
		start := r.at
		for r.at < len(r.text) && strings.IndexByte("-+.eE0123456789", r.text[r.at]) >= 0 {
			r.at++
		}
		number := r.text[start:r.at]
		id, err := strconv.ParseInt(number, 10, 32)
		if err == nil && strconv.FormatInt(id, 10) != number {
			err = fmt.Errorf("%q is no number of JSON", number) // 04, +4
		}
		if err != nil {
			return fmt.Errorf("token %q: %w", text, err)
		}
		ids[text] = int32(id)
		return nil
	})
}

// readMerges reads a list of "left right" or of ["left", "right"].
func (r *jsonText) readMerges() error {
	r.merges = make([]jsonMerge, 0, (len(r.text)-r.at)/32) // about
	read := r.line
	return r.array(func() error {
		if len(r.merges) == 0 && r.peek() == '[' {
			read = r.pair
		}
		merge, err := read()
		if err != nil {
			return fmt.Errorf("merge %d: %w", len(r.merges), err)
		}
		r.merges = append(r.merges, merge)
		return nil
	})
}

// line reads a merge of the form "left right".
func (r *jsonText) line() (jsonMerge, error) {
	line, err := r.str()
	if err != nil {
		return jsonMerge{}, err
	}
	return parseMerge(line)
}

// pair reads a merge of the form ["left", "right"].
func (r *jsonText) pair() (merge jsonMerge, err error) {
	parts := 0
	err = r.array(func() (err error) {
		switch parts++; parts {
		case 1:
			merge.left, err = r.str()
		case 2:
			merge.right, err = r.str()
		default:
			err = r.skip()
		}
		return err
	})
	if err == nil && parts != 2 {
		err = fmt.Errorf("it has %d parts, expected 2", parts)
	}
	return merge, err
}

// object reads an object; member is called at the value of each member.
func (r *jsonText) object(member func(key string) error) error {
	return r.list('{', '}', func() error {
		key, err := r.str()
		if err == nil {
			err = r.expect(':')
		}
		if err != nil {
			return err
		}
		r.space()
		return member(key)
	})
}

// array reads a list; element is called at each of its values.
func (r *jsonText) array(element func() error) error { return r.list('[', ']', element) }

// list reads what stands between begin and end, separated by commas.
func (r *jsonText) list(begin, end byte, element func() error) error {
	if err := r.expect(begin); err != nil {
		return err
	}
	if r.peek() == end {
		r.at++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if r.peek() != ',' {
			return r.expect(end)
		}
		r.at++
		r.space()
	}
}

// str reads a string, which is a part of the text unless it has escapes or other bytes
// that mean something else.
func (r *jsonText) str() (string, error) {
	if err := r.expect('"'); err != nil {
		return "", err
	}
	start, ascii, same := r.at, byte(0), true
	for ; r.at < len(r.text) && r.text[r.at] != '"'; r.at++ {
		char := r.text[r.at]
		ascii |= char
		if char == '\\' {
			same = false
			r.at++
		} else if char < ' ' {
			same = false
		}
	}
	if r.at >= len(r.text) {
		r.at = len(r.text) // a backslash at the end goes past it
		return "", errEnd
	}
	text := r.text[start:r.at]
	r.at++
	if same && (ascii < utf8.RuneSelf || utf8.ValidString(text)) {
		return text, nil
	}
	err := json.Unmarshal([]byte(`"`+text+`"`), &text)
	return text, err
}

// skip goes over a value, which encoding/json will read.
func (r *jsonText) skip() error {
	for depth := 0; ; {
		switch r.peek() {
		case 0:
			return errEnd
		case '"':
			if _, err := r.str(); err != nil {
				return err
			}
		case '{', '[':
			depth++
			r.at++
		case '}', ']':
			depth--
			r.at++
		default: // of a number or word, or between values
			r.at++
		}
		if c := r.peek(); depth <= 0 && (c == ',' || c == '}' || c == ']') {
			return nil
		}
	}
}

var errEnd = errors.New("the text ends early")

// expect goes over want and white space before it.
func (r *jsonText) expect(want byte) error {
	switch got := r.peek(); got {
	case want:
		r.at++
		return nil
	case 0:
		return errEnd
	default:
		return fmt.Errorf("%q at byte %d, expected %q", got, r.at, want)
	}
}

// peek goes over white space and returns the byte there, 0 at the end.
func (r *jsonText) peek() byte {
	r.space()
	if r.at == len(r.text) {
		return 0
	}
	return r.text[r.at]
}

// space goes over white space.
func (r *jsonText) space() {
	for r.at < len(r.text) && strings.IndexByte(" \t\r\n", r.text[r.at]) >= 0 {
		r.at++
	}
}
