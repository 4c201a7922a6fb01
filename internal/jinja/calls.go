package jinja

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Methods of the built-in types, as far as they change nothing. Names that
// exist in Python but change their object are known too: they hide an item of
// the same name, and calling them fails.

var dictMethods = map[string]bool{
	"items": true, "keys": true, "values": true, "get": true, "copy": true,
	"pop": true, "popitem": true, "clear": true, "update": true, "setdefault": true, "fromkeys": true,
}

var listMethods = map[string]bool{
	"index": true, "count": true, "copy": true,
	"append": true, "extend": true, "insert": true, "pop": true, "remove": true, "clear": true, "sort": true, "reverse": true,
}

// callDict calls a method of dictMethods.
func (st *state) callDict(dict *Dict, name string, passed args) Value {
	switch name {
	case "items":
		return st.view(dict, kindItems)
	case "keys":
		return st.view(dict, kindKeys)
	case "values":
		return st.view(dict, kindValues)
	case "get":
		key, ok := passed.get(0, "key")
		if !ok {
			return st.fail("get needs a key")
		}
		if hash, ok := hashKey(key); ok {
			if i := dict.find(hash); i >= 0 {
				return dict.entries[i].val
			}
		}
		v, _ := passed.get(1, "default")
		return v
	case "copy":
		return st.dictOf(dict)
	}
	return st.fail("dict.%s would change its dict, which templates cannot", name)
}

// view returns what items(), keys() or values() lists.
func (st *state) view(dict *Dict, kind seqKind) *List {
	each := valueBytes
	if kind == kindItems {
		each = 6 * valueBytes // a tuple
	}
	view := &List{kind: kind}
	if !st.charge(entryBytes + len(dict.entries)*each) {
		return view
	}
	view.items = make([]Value, len(dict.entries))
	for i, pair := range dict.entries {
		switch kind {
		case kindKeys:
			view.items[i] = pair.key
		case kindValues:
			view.items[i] = pair.val
		default:
			view.items[i] = newTuple(pair.key, pair.val)
		}
	}
	return view
}

// callList calls a method of listMethods.
func (st *state) callList(list *List, name string, passed args) Value {
	if name == "copy" {
		return st.listOf(list.items)
	}
	if name != "index" && name != "count" {
		return st.fail("list.%s would change its list, which templates cannot; use + or a namespace", name)
	}
	want, ok := passed.get(0, "value")
	if !ok {
		return st.fail("%s needs an argument", name)
	}
	count := int64(0) // index ends at the first one
	for i, item := range list.items {
		if !st.equal(item, want) {
			continue
		}
		if name == "index" {
			return int64(i)
		}
		count++
	}
	if name == "index" {
		return st.fail("list.index: the value is not in the list")
	}
	return count
}

// callBuiltin calls a global function.
func (st *state) callBuiltin(name string, passed args) Value {
	switch name {
	case "range":
		return st.rangeOf(passed)
	case "namespace":
		ns := &namespace{NewDict()}
		if len(passed.pos) > 0 {
			if dict, ok := st.dictOf(passed.pos[0]).(*Dict); ok {
				for _, e := range dict.entries {
					st.setAttr(ns, st.str(e.key), e.val)
				}
			}
		}
		for _, e := range passed.kw {
			st.setAttr(ns, st.str(e.key), e.val)
		}
		return ns
	case "dict":
		dict := NewDict()
		if len(passed.pos) > 0 {
			dict, _ = st.dictOf(passed.pos[0]).(*Dict)
		}
		for _, e := range passed.kw {
			if dict != nil {
				st.put(dict, e.key, e.val)
			}
		}
		return dict
	case "raise_exception":
		msg, _ := passed.get(0, "message")
		text := st.str(msg)
		if st.err == nil {
			st.err = &RaisedError{Message: text, Line: st.line}
		}
		return nil
	}
	// strftime_now
	format, ok := passed.get(0, "format")
	text, isText := format.(string)
	switch {
	case !ok || !isText:
		return st.fail("strftime_now needs a format string")
	case st.now == nil:
		return st.fail("strftime_now: this render was given no clock")
	}
	return st.strftime(st.now(), text)
}

// dictOf copies a dict or builds one from pairs.
func (st *state) dictOf(value Value) Value {
	dict := NewDict()
	if src, ok := value.(*Dict); ok {
		for _, e := range src.entries {
			st.put(dict, e.key, e.val)
		}
		return dict
	}
	for _, item := range st.iterate(value) {
		pair := st.iterate(item)
		if len(pair) != 2 {
			return st.fail("dict() needs pairs, found an item of %d values", len(pair))
		}
		st.put(dict, pair[0], pair[1])
	}
	return dict
}

// rangeOf is range(stop), range(start, stop) and range(start, stop, step).
func (st *state) rangeOf(passed args) Value {
	bound := [3]int64{0, 0, 1}
	if len(passed.pos) == 0 || len(passed.pos) > 3 || len(passed.kw) > 0 {
		return st.fail("range needs one to three integers")
	}
	for i, value := range passed.pos {
		number, ok := asInt(value)
		if !ok {
			return st.fail("range needs integers, found %s", describe(value))
		}
		bound[i] = number
	}
	if len(passed.pos) == 1 {
		bound[0], bound[1] = 0, bound[0]
	}
	if bound[2] == 0 {
		return st.fail("range step is 0")
	}
	// Unsigned differences cannot overflow.
	count := uint64(0)
	switch {
	case bound[2] > 0 && bound[0] < bound[1]:
		count = (uint64(bound[1])-uint64(bound[0])-1)/uint64(bound[2]) + 1
	case bound[2] < 0 && bound[0] > bound[1]:
		count = (uint64(bound[0])-uint64(bound[1])-1)/-uint64(bound[2]) + 1
	}
	if count > maxRange {
		st.exceed("items in a range", maxRange)
		return nil
	}
	if !st.charge(entryBytes + int(count)*3*valueBytes/2) {
		return nil
	}
	items := make([]Value, count)
	for i := range items {
		items[i] = bound[0] + int64(i)*bound[2]
	}
	return &List{items: items, kind: kindRange}
}

// stringMethod gets the receiver and the arguments; it charges what it
// allocates beyond a few words.
type stringMethod func(st *state, s string, a args) Value

// callString charges the time to read receiver and arguments.
func (st *state) callString(method stringMethod, text, name string, passed args) Value {
	size := len(text)
	for _, value := range passed.pos {
		switch value := value.(type) {
		case string:
			size += len(value)
		case *List:
			size += 64 * len(value.items)
		}
	}
	if !st.work(2*size) || st.err != nil {
		return nil
	}
	value := method(st, text, passed)
	if value == nil && st.err == nil {
		return st.fail("str.%s: unexpected arguments", name)
	}
	return value
}

// text returns the string argument at i, def if it is absent or None.
func (a args) text(i int, name, def string) (string, bool) {
	value, ok := a.get(i, name)
	if !ok || value == nil {
		return def, true
	}
	s, ok := value.(string)
	return s, ok
}

// int is an integer argument, def if it is absent or of another type.
func (a args) int(i int, name string, def int64) int64 {
	if v, ok := a.get(i, name); ok {
		if n, ok := asInt(v); ok {
			return n
		}
	}
	return def
}

var stringMethods = map[string]stringMethod{
	"upper":      func(st *state, s string, a args) Value { return st.convert(s, upper) },
	"lower":      func(st *state, s string, a args) Value { return st.convert(s, strings.ToLower) },
	"capitalize": func(st *state, s string, a args) Value { return st.convert(s, capitalize) },
	"title":      func(st *state, s string, a args) Value { return st.convert(s, titleWords) },
	"strip":      func(st *state, s string, a args) Value { return st.strip(s, a, true, true) },
	"lstrip":     func(st *state, s string, a args) Value { return st.strip(s, a, true, false) },
	"rstrip":     func(st *state, s string, a args) Value { return st.strip(s, a, false, true) },
	"split":      func(st *state, s string, a args) Value { return st.split(s, a, false) },
	"rsplit":     func(st *state, s string, a args) Value { return st.split(s, a, true) },
	"splitlines": func(st *state, s string, a args) Value { return st.texts(splitLines(s)) },
	"startswith": func(st *state, s string, a args) Value { return affix(s, a, strings.HasPrefix) },
	"endswith":   func(st *state, s string, a args) Value { return affix(s, a, strings.HasSuffix) },
	"removeprefix": func(st *state, s string, a args) Value {
		cut, ok := a.text(0, "", "")
		return orNil(strings.TrimPrefix(s, cut), ok)
	},
	"removesuffix": func(st *state, s string, a args) Value {
		cut, ok := a.text(0, "", "")
		return orNil(strings.TrimSuffix(s, cut), ok)
	},
	"replace": func(st *state, s string, a args) Value {
		from, ok1 := a.text(0, "old", "")
		to, ok2 := a.text(1, "new", "")
		if !ok1 || !ok2 || len(a.pos)+len(a.kw) < 2 {
			return nil
		}
		return st.replace(s, from, to, a.int(2, "count", -1))
	},
	"find":  func(st *state, s string, a args) Value { return find(s, a, strings.Index) },
	"rfind": func(st *state, s string, a args) Value { return find(s, a, strings.LastIndex) },
	"count": func(st *state, s string, a args) Value {
		sub, ok := a.text(0, "", "")
		return orNil(int64(strings.Count(s, sub)), ok)
	},
	"join": func(st *state, s string, a args) Value {
		if len(a.pos) != 1 {
			return nil
		}
		return st.joinStrict(s, st.iterate(a.pos[0]))
	},
	"format":  func(st *state, s string, a args) Value { return st.braces(s, a) },
	"isdigit": func(st *state, s string, a args) Value { return every(s, unicode.IsDigit) },
	"isalpha": func(st *state, s string, a args) Value { return every(s, unicode.IsLetter) },
	"isalnum": func(st *state, s string, a args) Value {
		return every(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
	},
	"isspace": func(st *state, s string, a args) Value { return every(s, isSpace) },
	"isupper": func(st *state, s string, a args) Value { return hasCase(s, unicode.IsUpper, unicode.IsLower) },
	"islower": func(st *state, s string, a args) Value { return hasCase(s, unicode.IsLower, unicode.IsUpper) },
}

// orNil returns value, or nil for wrong arguments.
func orNil(value Value, ok bool) Value {
	if !ok {
		return nil
	}
	return value
}

// convert applies a case mapping, whose result is at most three times as long.
func (st *state) convert(text string, f func(string) string) Value {
	if !st.charge(3 * len(text)) {
		return nil
	}
	return f(text)
}

// upper adds the one common letter to strings.ToUpper that becomes two.
func upper(s string) string { return strings.ReplaceAll(strings.ToUpper(s), "ß", "SS") }

// capitalize is str.capitalize.
func capitalize(s string) string {
	_, size := utf8.DecodeRuneInString(s)
	return strings.ToTitle(s[:size]) + strings.ToLower(s[size:])
}

// titleWords is str.title: a letter after a non-letter starts a word.
func titleWords(text string) string {
	inWord := false
	return strings.Map(func(char rune) rune {
		follows := inWord
		inWord = unicode.IsUpper(char) || unicode.IsLower(char) || unicode.IsTitle(char)
		if follows {
			return unicode.ToLower(char)
		}
		return unicode.ToTitle(char)
	}, text)
}

// strip removes white space, or the characters of the argument, from the ends.
func (st *state) strip(text string, passed args, left, right bool) Value {
	set, ok := passed.text(0, "chars", "")
	if !ok || !st.work(len(text)*len(set)) {
		return nil
	}
	in := isSpace
	if v, _ := passed.get(0, "chars"); v != nil {
		in = func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	if left {
		text = strings.TrimLeftFunc(text, in)
	}
	if right {
		text = strings.TrimRightFunc(text, in)
	}
	return text
}

// texts makes a list of strings.
func (st *state) texts(parts []string) Value {
	if !st.charge(entryBytes + len(parts)*2*valueBytes) {
		return nil
	}
	items := make([]Value, len(parts))
	for i, p := range parts {
		items[i] = p
	}
	return &List{items: items}
}

// split is str.split and, fromRight, str.rsplit.
func (st *state) split(text string, passed args, fromRight bool) Value {
	sep, ok := passed.text(0, "sep", "")
	if !ok {
		return nil
	}
	limit := passed.int(1, "maxsplit", -1)
	given, _ := passed.get(0, "sep")
	if given == "" {
		return st.fail("str.split: the separator is empty")
	}
	// The bound on pieces is checked before they are made.
	if (sep != "" && !st.charge(strings.Count(text, sep)*valueBytes)) || (sep == "" && !st.charge(len(text)/2*valueBytes)) {
		return nil
	}
	var parts []string
	switch {
	case sep == "":
		parts = splitSpace(text, limit, fromRight)
	case limit < 0:
		parts = strings.Split(text, sep)
	case !fromRight:
		parts = strings.SplitN(text, sep, int(min(limit, math.MaxInt32))+1)
	default:
		for ; limit > 0; limit-- {
			i := strings.LastIndex(text, sep)
			if i < 0 {
				break
			}
			parts = append(parts, text[i+len(sep):])
			text = text[:i]
		}
		parts = append(parts, text)
		slices.Reverse(parts)
	}
	return st.texts(parts)
}

// splitSpace splits at runs of white space, at most limit times (-1: always).
func splitSpace(text string, limit int64, fromRight bool) []string {
	if limit < 0 {
		return strings.FieldsFunc(text, isSpace)
	}
	var parts []string // fromRight: the last one first
	for {
		var at int
		if fromRight {
			text = strings.TrimRightFunc(text, isSpace)
			at = strings.LastIndexFunc(text, isSpace)
		} else {
			text = strings.TrimLeftFunc(text, isSpace)
			at = strings.IndexFunc(text, isSpace)
		}
		if at < 0 || limit == 0 {
			break
		}
		_, size := utf8.DecodeRuneInString(text[at:])
		if fromRight {
			parts = append(parts, text[at+size:])
			text = text[:at]
		} else {
			parts = append(parts, text[:at])
			text = text[at+size:]
		}
		limit--
	}
	if text != "" {
		parts = append(parts, text)
	}
	if fromRight {
		slices.Reverse(parts)
	}
	return parts
}

// splitLines is str.splitlines: no empty piece after a final line break.
func splitLines(text string) []string {
	var lines []string
	for text != "" {
		at := strings.IndexFunc(text, isLineBreak)
		if at < 0 {
			return append(lines, text)
		}
		lines = append(lines, text[:at])
		_, size := utf8.DecodeRuneInString(text[at:])
		if strings.HasPrefix(text[at:], "\r\n") {
			size = 2
		}
		text = text[at+size:]
	}
	return lines
}

// isLineBreak reports whether str.splitlines splits at r.
func isLineBreak(r rune) bool {
	return (r >= '\n' && r <= '\r') || (r >= 0x1c && r <= 0x1e) || r == 0x85 || r == 0x2028 || r == 0x2029
}

// affix tests for one string or any of a tuple.
func affix(text string, passed args, has func(text, affix string) bool) Value {
	if len(passed.pos) != 1 {
		return nil
	}
	switch value := passed.pos[0].(type) {
	case string:
		return has(text, value)
	case *List:
		for _, item := range value.items {
			if one, ok := item.(string); ok && has(text, one) {
				return true
			}
		}
		return false
	}
	return nil
}

// replace is str.replace; limit < 0 replaces all.
func (st *state) replace(text, from, to string, limit int64) Value {
	count := int64(strings.Count(text, from))
	if limit >= 0 {
		count = min(count, limit)
	}
	grown := float64(len(text)) + float64(count)*float64(len(to)-len(from))
	if grown > float64(st.memory) || !st.charge(int(grown)) {
		st.exceed("bytes of memory", st.maxMemory)
		return nil
	}
	return strings.Replace(text, from, to, int(count))
}

// find returns a character position or -1.
func find(text string, passed args, index func(text, sub string) int) Value {
	sub, ok := passed.text(0, "sub", "")
	if !ok || len(passed.pos) == 0 {
		return nil
	}
	from := byteOffset(text, max(passed.int(1, "start", 0), 0))
	at := index(text[from:], sub)
	if at < 0 {
		return int64(-1)
	}
	return int64(utf8.RuneCountInString(text[:from+at]))
}

// pad repeats fill n times.
func (st *state) pad(fill string, n int64) string {
	text, _ := st.repeat(fill, n)
	s, _ := text.(string)
	return s
}

// every reports whether s has characters and f holds for all.
func every(s string, f func(rune) bool) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !f(r) }) < 0
}

// hasCase reports whether s has letters of one case and none of the other.
func hasCase(s string, want, other func(rune) bool) bool {
	return strings.IndexFunc(s, want) >= 0 && strings.IndexFunc(s, other) < 0
}
