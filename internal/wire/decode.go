package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"ossian/internal/limits"
)

// A decoder walks over JSON that check found well-formed. It exists because
// encoding/json reports neither the path of a value of the wrong type through
// arrays and custom types nor unknown or repeated members.
//
// The first error stays; after it every method returns a zero value at once.
type decoder struct {
	data    []byte
	pos     int    // of the next value
	path    []byte // messages[2].content
	lim     *limits.Set
	ignored []string
	err     *Error
}

const maxIgnored = 32 // names of unknown members that are remembered

// check finds what must hold before anything is read: size, UTF-8, grammar, depth.
func check(body []byte, lim *limits.Set) *Error {
	if most := lim[limits.RequestBody]; int64(len(body)) > most {
		return &Error{Message: fmt.Sprintf("the request has %d bytes, at most %d are accepted", len(body), most),
			Type: TypeInvalidRequest, Code: CodeTooLarge, Limit: limits.RequestBody.String()}
	}
	if !utf8.Valid(body) {
		return invalidJSON(invalidUTF8(body), "not UTF-8")
	}
	if !json.Valid(body) {
		err := json.Unmarshal(body, new(json.RawMessage))
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			return invalidJSON(int(s.Offset), s.Error())
		}
		return invalidJSON(len(body), "not JSON")
	}
	if at := tooDeep(body, lim[limits.JSONDepth]); at >= 0 {
		e := invalidJSON(at, fmt.Sprintf("nested deeper than %d levels", lim[limits.JSONDepth]))
		e.Limit = limits.JSONDepth.String()
		return e
	}
	return nil
}

func invalidJSON(offset int, what string) *Error {
	return &Error{Message: fmt.Sprintf("the request body is not valid JSON: byte %d: %s", offset, what), Type: TypeInvalidRequest, Code: CodeInvalidJSON}
}

func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

func valid(b []byte) bool { return json.Valid(b) && tooDeep(b, 64) < 0 }

// tooDeep returns the offset of the bracket that nests deeper than most, or -1.
func tooDeep(b []byte, most int64) int {
	var depth int64
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = stringEnd(b, i) - 1
		case '{', '[':
			if depth++; depth > most {
				return i
			}
		case '}', ']':
			depth--
		}
	}
	return -1
}

// stringEnd returns the offset behind the string that begins at b[i].
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func (d *decoder) fail(e *Error) {
	if d.err == nil {
		d.err = e
	}
}

func (d *decoder) invalid(format string, args ...any) {
	d.fail(Invalid(string(d.path), fmt.Sprintf(format, args...)))
}

// within refuses more than a limit allows.
func (d *decoder) within(n int, id limits.ID, what string) bool {
	if most := d.lim[id]; int64(n) > most {
		d.fail(exceeds(string(d.path), n, most, what, id))
		return false
	}
	return true
}

func exceeds(param string, n int, most int64, what string, id limits.ID) *Error {
	e := Invalid(param, fmt.Sprintf("%d %s, at most %d are accepted", n, what, most)+raisedBy(id))
	e.Limit = id.String()
	return e
}

// kind returns the first byte of the next value or the next punctuation, with '0' for all numbers;
// 0 at the end and after an error.
func (d *decoder) kind() byte {
	if d.err != nil {
		return 0
	}
	for ; d.pos < len(d.data); d.pos++ {
		switch c := d.data[d.pos]; c {
		case ' ', '\t', '\r', '\n':
		case '-', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			return '0'
		default:
			return c
		}
	}
	return 0
}

var kindNames = map[byte]string{'{': "an object", '[': "an array", '"': "a string", '0': "a number", 't': "true", 'f': "false", 'n': "null"}

// is refuses every kind but the one.
func (d *decoder) is(kind byte) bool {
	found := d.kind()
	if found != kind && d.err == nil {
		d.unlike(kindNames[kind])
	}
	return d.err == nil
}

func (d *decoder) unlike(want string) {
	if d.err == nil {
		d.fail(&Error{Message: want + " expected, found " + kindNames[d.kind()], Type: TypeInvalidRequest, Param: string(d.path), Code: CodeInvalidType})
	}
}

// object reads an object. field reads the value of a member that it knows, else it
// returns false. A member that is null counts as not given.
func (d *decoder) object(field func(key string) bool) {
	d.members(func(key string) {
		if !field(key) {
			d.ignore()
			d.skip()
		}
	})
}

// members reads an object whose member names are data or are handled by member.
// Repeated members are refused: which of them counts would be a guess.
func (d *decoder) members(member func(key string)) {
	if !d.is('{') {
		return
	}
	d.pos++
	var seen map[string]bool
	for d.kind() != '}' && d.err == nil {
		if len(seen) >= int(d.lim[limits.Members]) {
			d.within(len(seen)+1, limits.Members, "members")
			return
		}
		key := d.text()
		d.kind()
		d.pos++ // the colon
		at := len(d.path)
		if at > 0 {
			d.path = append(d.path, '.')
		}
		d.path = append(d.path, key[:min(len(key), 256)]...)
		if seen[key] {
			d.invalid("given twice")
			return
		}
		if seen == nil {
			seen = map[string]bool{}
		}
		seen[key] = true
		if d.kind() == 'n' {
			d.skip()
		} else {
			member(key)
		}
		d.path = d.path[:at]
		d.comma()
	}
	d.pos++
}

// array reads an array of at most lim[id] elements.
func (d *decoder) array(id limits.ID, what string, element func(i int)) {
	if !d.is('[') {
		return
	}
	d.pos++
	n := 0
	for ; d.kind() != ']' && d.err == nil; n++ {
		if int64(n) >= d.lim[id] {
			d.within(n+1, id, what)
			return
		}
		at := len(d.path)
		d.path = append(d.path, '[')
		d.path = strconv.AppendInt(d.path, int64(n), 10)
		d.path = append(d.path, ']')
		element(n)
		d.path = d.path[:at]
		d.comma()
	}
	d.pos++
}

func (d *decoder) comma() {
	if d.kind() == ',' {
		d.pos++
	}
}

// skip moves behind the next value.
func (d *decoder) skip() {
	switch d.kind() {
	case 0:
	case '"':
		d.pos = stringEnd(d.data, d.pos)
	case '{', '[':
		depth := 0
		for ; d.pos < len(d.data); d.pos++ {
			switch d.data[d.pos] {
			case '"':
				d.pos = stringEnd(d.data, d.pos) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					d.pos++
					return
				}
			}
		}
	default:
		for d.pos < len(d.data) && !strings.ContainsRune(",]} \t\r\n", rune(d.data[d.pos])) {
			d.pos++
		}
	}
}

// raw returns the text of the next value, as the caller wrote it.
func (d *decoder) raw() json.RawMessage {
	if d.kind() == 0 {
		return nil
	}
	start := d.pos
	d.skip()
	return d.data[start:d.pos:d.pos]
}

// rawObject returns the text of the next value, which must be an object.
func (d *decoder) rawObject() json.RawMessage {
	if !d.is('{') {
		return nil
	}
	return d.raw()
}

func (d *decoder) text() string {
	if !d.is('"') {
		return ""
	}
	start := d.pos
	d.pos = stringEnd(d.data, start)
	body := d.data[start+1 : d.pos-1]
	if !slices.Contains(body, '\\') {
		return string(body)
	}
	var s string
	if err := json.Unmarshal(d.data[start:d.pos], &s); err != nil {
		d.invalid("not a string: %v", err)
	}
	return s
}

func (d *decoder) boolean() bool {
	switch d.kind() {
	case 't':
		d.skip()
		return true
	case 'f':
		d.skip()
	default:
		d.unlike("true or false")
	}
	return false
}

// number returns a finite number; one that float64 cannot hold is refused.
func (d *decoder) number() float64 {
	if !d.is('0') {
		return 0
	}
	text := string(d.raw())
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d.invalid("%.40s is out of range", text)
	}
	return f
}

// integer returns a whole number; 16.0 and 1e3 are whole.
func (d *decoder) integer() int64 {
	if !d.is('0') {
		return 0
	}
	text := string(d.raw())
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.Abs(f) >= 1<<63:
		d.invalid("%.40s is out of range", text)
	case f != math.Trunc(f):
		d.fail(&Error{Message: fmt.Sprintf("a whole number expected, found %.40s", text), Type: TypeInvalidRequest, Param: string(d.path), Code: CodeInvalidType})
	}
	if d.err != nil {
		return 0
	}
	return int64(f)
}

// id returns a token id; that the vocabulary has it is for others to check.
func (d *decoder) id() int32 {
	n := d.integer()
	if n < 0 || n > math.MaxInt32 {
		d.invalid("%d is no token id", n)
		return 0
	}
	return int32(n)
}

func (d *decoder) ids(id limits.ID) []int32 {
	out := []int32{}
	d.array(id, "token ids", func(int) { out = append(out, d.id()) })
	return out
}

// ignore remembers the path of an unknown member, without indices and only if it
// fits into a response header.
func (d *decoder) ignore() {
	if len(d.ignored) >= maxIgnored || d.err != nil {
		return
	}
	name := make([]byte, 0, 64)
	inside := false
	for _, c := range d.path {
		switch {
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case inside:
		case c > ' ' && c < 0x7f && c != ',' && c != '"' && len(name) < 64:
			name = append(name, c)
		default:
			return
		}
	}
	if !slices.Contains(d.ignored, string(name)) {
		d.ignored = append(d.ignored, string(name))
	}
}

func ptr[T any](v T) *T { return &v }
