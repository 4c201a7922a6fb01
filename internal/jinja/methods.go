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

func (st *state) callDict(d *Dict, name string, a args) Value {
	switch name {
	case "items":
		return st.view(d, kindItems)
	case "keys":
		return st.view(d, kindKeys)
	case "values":
		return st.view(d, kindValues)
	case "get":
		key, ok := a.get(0, "key")
		if !ok {
			return st.fail("get needs a key")
		}
		if hash, ok := hashKey(key); ok {
			if i := d.find(hash); i >= 0 {
				return d.entries[i].val
			}
		}
		v, _ := a.get(1, "default")
		return v
	case "copy":
		return st.dictOf(d)
	}
	return st.fail("dict.%s would change its dict, which templates cannot", name)
}

// view returns what items(), keys() or values() lists.
func (st *state) view(d *Dict, kind seqKind) *List {
	each := valueBytes
	if kind == kindItems {
		each = 6 * valueBytes
	}
	view := &List{kind: kind}
	if !st.charge(entryBytes + len(d.entries)*each) {
		return view
	}
	view.items = make([]Value, len(d.entries))
	for i, e := range d.entries {
		switch kind {
		case kindKeys:
			view.items[i] = e.key
		case kindValues:
			view.items[i] = e.val
		default:
			view.items[i] = newTuple(e.key, e.val)
		}
	}
	return view
}

func (st *state) callList(l *List, name string, a args) Value {
	if name == "copy" {
		return st.listOf(l.items)
	}
	if name != "index" && name != "count" {
		return st.fail("list.%s would change its list, which templates cannot; use + or a namespace", name)
	}
	want, ok := a.get(0, "value")
	if !ok {
		return st.fail("%s needs an argument", name)
	}
	n := int64(0)
	for i, item := range l.items {
		if !st.equal(item, want) {
			continue
		}
		if name == "index" {
			return int64(i)
		}
		n++
	}
	if name == "index" {
		return st.fail("list.index: the value is not in the list")
	}
	return n
}

func (st *state) callBuiltin(name string, a args) Value {
	switch name {
	case "range":
		return st.rangeOf(a)
	case "namespace":
		ns := &namespace{NewDict()}
		if len(a.pos) > 0 {
			if d, ok := st.dictOf(a.pos[0]).(*Dict); ok {
				for _, e := range d.entries {
					st.setAttr(ns, st.str(e.key), e.val)
				}
			}
		}
		for _, e := range a.kw {
			st.setAttr(ns, st.str(e.key), e.val)
		}
		return ns
	case "dict":
		d := NewDict()
		if len(a.pos) > 0 {
			d, _ = st.dictOf(a.pos[0]).(*Dict)
		}
		for _, e := range a.kw {
			if d != nil {
				st.put(d, e.key, e.val)
			}
		}
		return d
	case "raise_exception":
		msg, _ := a.get(0, "message")
		text := st.str(msg)
		if st.err == nil {
			st.err = &RaisedError{Message: text, Line: st.line}
		}
		return nil
	}
	format, ok := a.get(0, "format")
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
func (st *state) dictOf(v Value) Value {
	d := NewDict()
	if src, ok := v.(*Dict); ok {
		for _, e := range src.entries {
			st.put(d, e.key, e.val)
		}
		return d
	}
	for _, item := range st.iterate(v) {
		pair := st.iterate(item)
		if len(pair) != 2 {
			return st.fail("dict() needs pairs, found an item of %d values", len(pair))
		}
		st.put(d, pair[0], pair[1])
	}
	return d
}

func (st *state) rangeOf(a args) Value {
	b := [3]int64{0, 0, 1}
	if len(a.pos) == 0 || len(a.pos) > 3 || len(a.kw) > 0 {
		return st.fail("range needs one to three integers")
	}
	for i, v := range a.pos {
		n, ok := asInt(v)
		if !ok {
			return st.fail("range needs integers, found %s", describe(v))
		}
		b[i] = n
	}
	if len(a.pos) == 1 {
		b[0], b[1] = 0, b[0]
	}
	if b[2] == 0 {
		return st.fail("range step is 0")
	}
	// Unsigned differences cannot overflow.
	n := uint64(0)
	switch {
	case b[2] > 0 && b[0] < b[1]:
		n = (uint64(b[1])-uint64(b[0])-1)/uint64(b[2]) + 1
	case b[2] < 0 && b[0] > b[1]:
		n = (uint64(b[0])-uint64(b[1])-1)/-uint64(b[2]) + 1
	}
	if n > maxRange {
		st.exceed("items in a range", maxRange)
		return nil
	}
	if !st.charge(entryBytes + int(n)*3*valueBytes/2) {
		return nil
	}
	items := make([]Value, n)
	for i := range items {
		items[i] = b[0] + int64(i)*b[2]
	}
	return &List{items: items, kind: kindRange}
}

// stringMethod gets the receiver and the arguments; it charges what it
// allocates beyond a few words.
type stringMethod func(st *state, s string, a args) Value

// callString charges the time to read receiver and arguments.
func (st *state) callString(m stringMethod, s, name string, a args) Value {
	n := len(s)
	for _, v := range a.pos {
		switch v := v.(type) {
		case string:
			n += len(v)
		case *List:
			n += 64 * len(v.items)
		}
	}
	if !st.work(2*n) || st.err != nil {
		return nil
	}
	v := m(st, s, a)
	if v == nil && st.err == nil {
		return st.fail("str.%s: unexpected arguments", name)
	}
	return v
}

// text returns the string argument at i, def if it is absent or None.
func (a args) text(i int, name, def string) (string, bool) {
	v, ok := a.get(i, name)
	if !ok || v == nil {
		return def, true
	}
	s, ok := v.(string)
	return s, ok
}

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

// orNil returns v, or nil for wrong arguments.
func orNil(v Value, ok bool) Value {
	if !ok {
		return nil
	}
	return v
}

// convert applies a case mapping, whose result is at most three times as long.
func (st *state) convert(s string, f func(string) string) Value {
	if !st.charge(3 * len(s)) {
		return nil
	}
	return f(s)
}

// upper adds the one common letter to strings.ToUpper that becomes two.
func upper(s string) string { return strings.ReplaceAll(strings.ToUpper(s), "ß", "SS") }

func capitalize(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToTitle(s[:n]) + strings.ToLower(s[n:])
}

// titleWords is str.title: a letter after a non-letter starts a word.
func titleWords(s string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		follows := inWord
		inWord = unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r)
		if follows {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

// strip removes white space, or the characters of the argument, from the ends.
func (st *state) strip(s string, a args, left, right bool) Value {
	set, ok := a.text(0, "chars", "")
	if !ok || !st.work(len(s)*len(set)) {
		return nil
	}
	in := isSpace
	if v, _ := a.get(0, "chars"); v != nil {
		in = func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	if left {
		s = strings.TrimLeftFunc(s, in)
	}
	if right {
		s = strings.TrimRightFunc(s, in)
	}
	return s
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
func (st *state) split(s string, a args, fromRight bool) Value {
	sep, ok := a.text(0, "sep", "")
	if !ok {
		return nil
	}
	limit := a.int(1, "maxsplit", -1)
	given, _ := a.get(0, "sep")
	if given == "" {
		return st.fail("str.split: the separator is empty")
	}
	// The bound on pieces is checked before they are made.
	if (sep != "" && !st.charge(strings.Count(s, sep)*valueBytes)) || (sep == "" && !st.charge(len(s)/2*valueBytes)) {
		return nil
	}
	var parts []string
	switch {
	case sep == "":
		parts = splitSpace(s, limit, fromRight)
	case limit < 0:
		parts = strings.Split(s, sep)
	case !fromRight:
		parts = strings.SplitN(s, sep, int(min(limit, math.MaxInt32))+1)
	default:
		for ; limit > 0; limit-- {
			i := strings.LastIndex(s, sep)
			if i < 0 {
				break
			}
			parts = append(parts, s[i+len(sep):])
			s = s[:i]
		}
		parts = append(parts, s)
		slices.Reverse(parts)
	}
	return st.texts(parts)
}

// splitSpace splits at runs of white space, at most limit times (-1: always).
func splitSpace(s string, limit int64, fromRight bool) []string {
	if limit < 0 {
		return strings.FieldsFunc(s, isSpace)
	}
	var parts []string
	for {
		var i int
		if fromRight {
			s = strings.TrimRightFunc(s, isSpace)
			i = strings.LastIndexFunc(s, isSpace)
		} else {
			s = strings.TrimLeftFunc(s, isSpace)
			i = strings.IndexFunc(s, isSpace)
		}
		if i < 0 || limit == 0 {
			break
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if fromRight {
			parts = append(parts, s[i+n:])
			s = s[:i]
		} else {
			parts = append(parts, s[:i])
			s = s[i+n:]
		}
		limit--
	}
	if s != "" {
		parts = append(parts, s)
	}
	if fromRight {
		slices.Reverse(parts)
	}
	return parts
}

// splitLines is str.splitlines: no empty piece after a final line break.
func splitLines(s string) []string {
	var lines []string
	for s != "" {
		i := strings.IndexFunc(s, isLineBreak)
		if i < 0 {
			return append(lines, s)
		}
		lines = append(lines, s[:i])
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		s = s[i+n:]
	}
	return lines
}

func isLineBreak(r rune) bool {
	return (r >= '\n' && r <= '\r') || (r >= 0x1c && r <= 0x1e) || r == 0x85 || r == 0x2028 || r == 0x2029
}

// affix tests for one string or any of a tuple.
func affix(s string, a args, has func(s, affix string) bool) Value {
	if len(a.pos) != 1 {
		return nil
	}
	switch v := a.pos[0].(type) {
	case string:
		return has(s, v)
	case *List:
		for _, item := range v.items {
			if t, ok := item.(string); ok && has(s, t) {
				return true
			}
		}
		return false
	}
	return nil
}

// replace is str.replace; limit < 0 replaces all.
func (st *state) replace(s, from, to string, limit int64) Value {
	n := int64(strings.Count(s, from))
	if limit >= 0 {
		n = min(n, limit)
	}
	grown := float64(len(s)) + float64(n)*float64(len(to)-len(from))
	if grown > float64(st.memory) || !st.charge(int(grown)) {
		st.exceed("bytes of memory", st.maxMemory)
		return nil
	}
	return strings.Replace(s, from, to, int(n))
}

// find returns a character position or -1.
func find(s string, a args, index func(s, sub string) int) Value {
	sub, ok := a.text(0, "sub", "")
	if !ok || len(a.pos) == 0 {
		return nil
	}
	from := byteOffset(s, max(a.int(1, "start", 0), 0))
	i := index(s[from:], sub)
	if i < 0 {
		return int64(-1)
	}
	return int64(utf8.RuneCountInString(s[:from+i]))
}

// pad repeats fill n times.
func (st *state) pad(fill string, n int64) string {
	text, _ := st.repeat(fill, n)
	s, _ := text.(string)
	return s
}

func every(s string, f func(rune) bool) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !f(r) }) < 0
}

// hasCase reports whether s has letters of one case and none of the other.
func hasCase(s string, want, other func(rune) bool) bool {
	return strings.IndexFunc(s, want) >= 0 && strings.IndexFunc(s, other) < 0
}
