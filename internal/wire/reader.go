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

// A Reader walks over JSON that check found well-formed. It exists because
// encoding/json reports neither the path of a value of the wrong type through
// arrays and custom types nor unknown or repeated members.
//
// Invariant: between calls it stands at the beginning of a value, or behind the last one.
// Each method that reads takes exactly one value, and Path says which. The first error
// stays; after it every method returns a zero value at once, so callers need not look.
type Reader struct {
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
	// json.Valid lets bytes through that are no UTF-8.
	if !utf8.Valid(body) {
		return InvalidJSON(invalidUTF8(body), "not UTF-8")
	}
	if !json.Valid(body) {
		err := json.Unmarshal(body, new(json.RawMessage))
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			return InvalidJSON(int(s.Offset), s.Error())
		}
		return InvalidJSON(len(body), "not JSON")
	}
	if at := tooDeep(body, lim[limits.JSONDepth]); at >= 0 {
		e := InvalidJSON(at, fmt.Sprintf("nested deeper than %d levels", lim[limits.JSONDepth]))
		e.Limit = limits.JSONDepth.String()
		return e
	}
	return nil
}

// InvalidJSON returns the error of a body that is no JSON from a byte on.
func InvalidJSON(offset int, what string) *Error {
	return &Error{Message: fmt.Sprintf("the request body is not valid JSON: byte %d: %s", offset, what), Type: TypeInvalidRequest, Code: CodeInvalidJSON}
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}

func valid(b []byte) bool { return json.Valid(b) && tooDeep(b, 64) < 0 }

// tooDeep returns the offset of the bracket that nests deeper than most, or -1.
func tooDeep(data []byte, most int64) int {
	var depth int64
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = stringEnd(data, i) - 1
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
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// Fail ends the reading with an error, unless there is one already.
func (in *Reader) Fail(e *Error) {
	if in.err == nil {
		in.err = e
	}
}

// Invalid fails with a bad value at the path.
func (in *Reader) Invalid(format string, args ...any) {
	in.Fail(Invalid(string(in.path), fmt.Sprintf(format, args...)))
}

// Within refuses more than a limit allows.
func (in *Reader) Within(n int, id limits.ID, what string) bool {
	if most := in.lim[id]; int64(n) > most {
		in.Fail(exceeds(string(in.path), n, most, what, id))
		return false
	}
	return true
}

func exceeds(param string, n int, most int64, what string, id limits.ID) *Error {
	e := Invalid(param, fmt.Sprintf("%d %s, at most %d are accepted", n, what, most)+raisedBy(id))
	e.Limit = id.String()
	return e
}

// Kind returns the first byte of the next value or the next punctuation, with '0' for all numbers;
// 0 at the end and after an error.
func (in *Reader) Kind() byte {
	if in.err != nil {
		return 0
	}
	for ; in.pos < len(in.data); in.pos++ {
		switch c := in.data[in.pos]; c {
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

// Is refuses every kind but the one.
func (in *Reader) Is(kind byte) bool {
	found := in.Kind()
	if found != kind && in.err == nil {
		hint := ""
		if kind == '0' {
			hint = in.unquoted(func(text string) bool { return json.Valid([]byte(text)) && strings.Trim(text, "-.eE+0123456789") == "" })
		}
		in.expected(kindNames[kind], hint)
	}
	return in.err == nil
}

// Expected fails with what was wanted instead of the next value.
func (in *Reader) Expected(want string) { in.expected(want, "") }

// expected is Expected with a hint behind what was found.
func (in *Reader) expected(want, hint string) {
	if in.err == nil {
		in.Fail(&Error{Message: want + " expected, found " + kindNames[in.Kind()] + hint, Type: TypeInvalidRequest, Param: string(in.path), Code: CodeInvalidType})
	}
}

// Object reads an object. field reads the value of a member that it knows, else it
// returns false. A member that is null counts as not given.
func (in *Reader) Object(field func(key string) bool) {
	in.Members(func(key string) {
		if !field(key) {
			in.Ignore()
			in.Skip()
		}
	})
}

// Members reads an object whose member names are data or are handled by member.
// Repeated members are refused: which of them counts would be a guess.
func (in *Reader) Members(member func(key string)) {
	if !in.Is('{') {
		return
	}
	in.pos++
	var seen map[string]bool
	for in.Kind() != '}' && in.err == nil {
		if len(seen) >= int(in.lim[limits.Members]) {
			in.Within(len(seen)+1, limits.Members, "members")
			return
		}
		key := in.Text()
		in.Kind()
		in.pos++ // the colon
		at := len(in.path)
		if at > 0 {
			in.path = append(in.path, '.')
		}
		in.path = append(in.path, key[:min(len(key), 256)]...)
		if seen[key] {
			in.Invalid("given twice")
			return
		}
		if seen == nil {
			seen = map[string]bool{}
		}
		seen[key] = true
		if in.Kind() == 'n' {
			in.Skip()
		} else {
			member(key)
		}
		in.path = in.path[:at]
		in.comma()
	}
	in.pos++
}

// Array reads an array of at most lim[id] elements.
func (in *Reader) Array(id limits.ID, what string, element func(i int)) {
	if !in.Is('[') {
		return
	}
	in.pos++
	count := 0
	for ; in.Kind() != ']' && in.err == nil; count++ {
		// Before the element is read: a body may have millions of them.
		if int64(count) >= in.lim[id] {
			in.Within(count+1, id, what)
			return
		}
		at := len(in.path)
		in.path = append(in.path, '[')
		in.path = strconv.AppendInt(in.path, int64(count), 10)
		in.path = append(in.path, ']')
		element(count)
		in.path = in.path[:at]
		in.comma()
	}
	in.pos++
}

func (in *Reader) comma() {
	if in.Kind() == ',' {
		in.pos++
	}
}

// Skip moves behind the next value.
func (in *Reader) Skip() {
	switch in.Kind() {
	case 0:
	case '"':
		in.pos = stringEnd(in.data, in.pos)
	case '{', '[':
		// check has found the brackets to match, so counting them is enough.
		depth := 0
		for ; in.pos < len(in.data); in.pos++ {
			switch in.data[in.pos] {
			case '"':
				in.pos = stringEnd(in.data, in.pos) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					in.pos++
					return
				}
			}
		}
	default:
		for in.pos < len(in.data) && !strings.ContainsRune(",]} \t\r\n", rune(in.data[in.pos])) {
			in.pos++
		}
	}
}

// Raw returns the text of the next value, as the caller wrote it.
func (in *Reader) Raw() json.RawMessage {
	if in.Kind() == 0 {
		return nil
	}
	start := in.pos
	in.Skip()
	return in.data[start:in.pos:in.pos]
}

// rawObject returns the text of the next value, which must be an object.
func (in *Reader) rawObject() json.RawMessage {
	if !in.Is('{') {
		return nil
	}
	return in.Raw()
}

// Text reads a string.
func (in *Reader) Text() string {
	if !in.Is('"') {
		return ""
	}
	start := in.pos
	in.pos = stringEnd(in.data, start)
	body := in.data[start+1 : in.pos-1]
	if !slices.Contains(body, '\\') {
		return string(body)
	}
	var text string
	if err := json.Unmarshal(in.data[start:in.pos], &text); err != nil {
		in.Invalid("not a string: %v", err)
	}
	return text
}

// Boolean reads true or false.
func (in *Reader) Boolean() bool {
	switch in.Kind() {
	case 't':
		in.Skip()
		return true
	case 'f':
		in.Skip()
	default:
		in.expected("true or false", in.unquoted(func(text string) bool { return text == "true" || text == "false" }))
	}
	return false
}

// number returns a finite number; one that float64 cannot hold is refused.
func (in *Reader) number() float64 {
	if !in.Is('0') {
		return 0
	}
	text := string(in.Raw())
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		in.Invalid("%.40s is out of range", text)
	}
	return number
}

// Integer returns a whole number; 16.0 and 1e3 are whole.
func (in *Reader) Integer() int64 {
	if !in.Is('0') {
		return 0
	}
	text := string(in.Raw())
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	number, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.Abs(number) >= 1<<63:
		in.Invalid("%.40s is out of range", text)
	case number != math.Trunc(number):
		in.Fail(&Error{Message: fmt.Sprintf("a whole number expected, found %.40s", text), Type: TypeInvalidRequest, Param: string(in.path), Code: CodeInvalidType})
	}
	if in.err != nil {
		return 0
	}
	return int64(number)
}

// id returns a token id; that the vocabulary has it is for others to check.
func (in *Reader) id() int32 {
	id := in.Integer()
	if id < 0 || id > math.MaxInt32 {
		in.Invalid("%d is no token id", id)
		return 0
	}
	return int32(id)
}

func (in *Reader) ids(id limits.ID) []int32 {
	out := []int32{}
	in.Array(id, "token ids", func(int) { out = append(out, in.id()) })
	return out
}

// Ignore remembers the path of an unknown member, the first of those that differ in indices
// alone, and only if it fits into a response header.
func (in *Reader) Ignore() {
	if len(in.ignored) >= maxIgnored || in.err != nil {
		return
	}
	path := string(in.path)
	name := WithoutIndices(path)
	fits := func(c rune) bool { return c > ' ' && c < 0x7f && c != ',' && c != '"' }
	if strings.ContainsFunc(name, func(c rune) bool { return !fits(c) }) || len(name) > 64 {
		return
	}
	if !slices.ContainsFunc(in.ignored, func(known string) bool { return WithoutIndices(known) == name }) {
		in.ignored = append(in.ignored, path)
	}
}

// WithoutIndices returns a path without the places of elements: tools.function of tools[2].function.
func WithoutIndices(path string) string {
	inside := false
	return strings.Map(func(c rune) rune {
		switch {
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case !inside:
			return c
		}
		return -1
	}, path)
}

// NewReader returns a reader of JSON that is well-formed.
func NewReader(data []byte, lim *limits.Set) *Reader { return &Reader{data: data, lim: lim} }

// Err returns the first error, nil if there is none.
func (in *Reader) Err() *Error { return in.err }

// Failed reports whether there was an error: what was read since is zero.
func (in *Reader) Failed() bool { return in.err != nil }

// Ignored returns the paths of members that nobody knew: messages[2].colour. Of those of several
// elements it is the first.
func (in *Reader) Ignored() []string { return in.ignored }

// Path returns where the reader is: messages[2].content.
func (in *Reader) Path() string { return string(in.path) }

// Offset returns where the next value begins or the last has ended, in bytes.
func (in *Reader) Offset() int { return in.pos }

// Since returns the text from an offset on, as the caller wrote it.
func (in *Reader) Since(offset int) json.RawMessage { return in.data[offset:in.pos:in.pos] }

// Ahead returns a reader of what comes next, for which this one does not move.
func (in *Reader) Ahead() *Reader { return &Reader{data: in.data, pos: in.pos, lim: in.lim} }

// Ptr returns a pointer to v: a value that is given.
func Ptr[T any](v T) *T { return &v }

// Missing fails with a member that the object at the path lacks.
func (in *Reader) Missing(key string) {
	in.Fail(Missing(strings.TrimPrefix(string(in.path)+"."+key, ".")))
}

// Member returns a string member of the object that comes next, and does not move.
func (in *Reader) Member(name string) (found string) {
	if in.Kind() != '{' {
		return ""
	}
	ahead := in.Ahead()
	ahead.Members(func(key string) {
		if key == name && ahead.Kind() == '"' {
			found = ahead.Text()
		} else {
			ahead.Skip()
		}
	})
	return found
}

// Peek returns the text of the next value and does not move.
func (in *Reader) Peek() json.RawMessage {
	at := in.pos
	raw := in.Raw()
	in.pos = at
	return raw
}

// LeaveOut passes a value whose type is not known, and names it.
func (in *Reader) LeaveOut(kind string) {
	in.IgnoreKind(kind)
	in.Skip()
}

// IgnoreKind names what is read now as ignored, with its kind: tools[0].file_search.
func (in *Reader) IgnoreKind(kind string) {
	at := len(in.path)
	in.path = append(append(in.path, '.'), kind...)
	in.Ignore()
	in.path = in.path[:at]
}
