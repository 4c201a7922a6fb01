package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// add is Python's +.
func (st *state) add(a, b Value) Value {
	if st.err != nil {
		return nil
	}
	l, ok1 := a.(*List)
	m, ok2 := b.(*List)
	if ok1 && ok2 && l.kind == m.kind && l.kind <= kindTuple {
		if !st.charge(entryBytes + (len(l.items)+len(m.items))*valueBytes) {
			return nil
		}
		items := make([]Value, 0, len(l.items)+len(m.items))
		return &List{items: append(append(items, l.items...), m.items...), kind: l.kind}
	}
	if isMarkup(a) || isMarkup(b) {
		x, ok1 := st.escaped(a)
		y, ok2 := st.escaped(b)
		if ok1 && ok2 && st.charge(len(x)+len(y)) {
			return x + y
		}
	}
	s, ok1 := a.(string)
	t, ok2 := b.(string)
	if ok1 && ok2 {
		if !st.charge(len(s) + len(t)) {
			return nil
		}
		return s + t
	}
	return st.binary("+", a, b)
}

func isMarkup(v Value) bool { _, ok := v.(markup); return ok }

// escaped turns an operand of a sum with markup into markup.
func (st *state) escaped(v Value) (markup, bool) {
	if m, ok := v.(markup); ok {
		return m, true
	}
	s, ok := v.(string)
	if !ok || !st.charge(5*len(s)) {
		return "", false
	}
	return markup(htmlEscaper().Replace(s)), true
}

// binary is the arithmetic of numbers, repetition and % formatting.
func (st *state) binary(op string, a, b Value) Value {
	if s, ok := a.(string); ok && op == "%" {
		return st.percent(s, b)
	}
	if op == "*" {
		if v, ok := st.repeat(a, b); ok {
			return v
		}
		if v, ok := st.repeat(b, a); ok {
			return v
		}
	}
	i, ok1 := asInt(a)
	j, ok2 := asInt(b)
	if ok1 && ok2 {
		return st.intOp(op, i, j)
	}
	f, ok1 := asFloat(a)
	g, ok2 := asFloat(b)
	_, big1 := a.(bigInt)
	_, big2 := b.(bigInt)
	switch {
	case !ok1 || !ok2:
		return st.fail("operator %s: cannot combine %s and %s", op, describe(a), describe(b))
	case big1 || big2:
		return st.fail("operator %s: integers beyond 64 bits can be printed but not calculated with", op)
	}
	return st.floatOp(op, f, g)
}

// repeat is string or list times integer.
func (st *state) repeat(seq, times Value) (Value, bool) {
	n, ok := asInt(times)
	if !ok {
		return nil, false
	}
	n = max(n, 0)
	switch s := seq.(type) {
	case string:
		if !st.chargeTimes(len(s), n) {
			return nil, true
		}
		return strings.Repeat(s, int(n)), true
	case *List:
		if s.kind > kindTuple {
			return nil, false
		}
		if !st.chargeTimes(len(s.items)*valueBytes, n) {
			return nil, true
		}
		items := make([]Value, 0, len(s.items)*int(n))
		for range n {
			items = append(items, s.items...)
		}
		return &List{items: items, kind: s.kind}, true
	}
	return nil, false
}

// chargeTimes charges size bytes n times without overflow.
func (st *state) chargeTimes(size int, n int64) bool {
	if n > 0 && n > int64(st.memory/max(size, 1)) {
		return st.exceed("bytes of memory", st.maxMemory)
	}
	return st.charge(size * int(n))
}

func (st *state) intOp(op string, a, b int64) Value {
	x, y := big.NewInt(a), big.NewInt(b)
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c
		}
		return st.normal(x.Add(x, y))
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c
		}
		return st.normal(x.Sub(x, y))
	case "*":
		return st.normal(x.Mul(x, y))
	case "/":
		return st.floatOp("/", float64(a), float64(b))
	case "//", "%":
		if b == 0 {
			return st.fail("division by zero")
		}
		if a == math.MinInt64 && b == -1 {
			return st.normal(x.Neg(x))
		}
		q, r := a/b, a%b
		if r != 0 && (r < 0) != (b < 0) { // Python rounds down
			q, r = q-1, r+b
		}
		if op == "%" {
			return r
		}
		return q
	}
	// **
	switch {
	case b < 0:
		return st.floatOp("**", float64(a), float64(b))
	case a >= -1 && a <= 1:
		return st.normal(x.Exp(x, big.NewInt(b&1|b>>62), nil))
	case b > 63:
		return st.fail("%d ** %d does not fit in 64 bits", a, b)
	}
	return st.normal(x.Exp(x, y, nil))
}

// normal turns the result of a calculation back into a 64-bit integer.
func (st *state) normal(n *big.Int) Value {
	if n.IsInt64() {
		return n.Int64()
	}
	return st.fail("integer result does not fit in 64 bits")
}

// normalInt returns n as int64 where it fits.
func normalInt(n *big.Int) Value {
	if n.IsInt64() {
		return n.Int64()
	}
	return bigInt(n.String())
}

// bigFromText converts integer text that does not fit int64.
func bigFromText(text string, base int) Value {
	n, ok := new(big.Int).SetString(text, base)
	if !ok {
		return nil
	}
	return normalInt(n)
}

func (st *state) floatOp(op string, a, b float64) Value {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "**":
		if a == 0 && b < 0 {
			return st.fail("0 cannot be raised to a negative power")
		}
		return math.Pow(a, b)
	}
	if b == 0 {
		return st.fail("division by zero")
	}
	switch op {
	case "/":
		return a / b
	case "//":
		return math.Floor(a / b)
	}
	r := math.Mod(a, b)
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

// print emits str(v).
func (st *state) print(v Value) {
	switch v := v.(type) {
	case string:
		st.emit(v)
	case undefined:
	default:
		st.repr(v)
	}
}

// str is Python's str(v).
func (st *state) str(v Value) string {
	if s, ok := v.(string); ok {
		return s
	}
	return st.capture(func() { st.print(v) })
}

// short is the start of repr(v), for messages.
func (st *state) short(v Value) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v[:min(len(v), 40)])
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return typeName(v)
}

// repr emits Python's repr(v).
func (st *state) repr(v Value) {
	if !st.enter() || !st.work(0) {
		return
	}
	defer st.leave()
	switch v := v.(type) {
	case nil:
		st.emit("None")
	case bool:
		st.emit(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		st.emit(strconv.FormatInt(v, 10))
	case bigInt:
		st.emit(string(v))
	case float64:
		st.emit(floatRepr(v))
	case string:
		st.reprString(v)
	case undefined:
		st.emit("Undefined")
	case *List:
		st.reprList(v)
	case *Dict:
		st.reprDict(v)
	case *namespace:
		st.emit("<Namespace ")
		st.reprDict(v.attrs)
		st.emit(">")
	default:
		st.emit("<" + typeName(v) + ">")
	}
}

func (st *state) reprDict(d *Dict) {
	st.emit("{")
	for i, e := range d.entries {
		if i > 0 {
			st.emit(", ")
		}
		st.repr(e.key)
		st.emit(": ")
		st.repr(e.val)
	}
	st.emit("}")
}

func (st *state) reprList(l *List) {
	open, end := "[", "]"
	switch l.kind {
	case kindTuple:
		open, end = "(", ")"
		if len(l.items) == 1 {
			end = ",)"
		}
	case kindRange, kindGenerator:
		st.emit("<" + typeName(l) + ">")
		return
	case kindKeys, kindValues, kindItems:
		open, end = typeName(l)+"([", "])"
	}
	st.emit(open)
	for i, item := range l.items {
		if i > 0 {
			st.emit(", ")
		}
		st.repr(item)
	}
	st.emit(end)
}

// reprString quotes as Python does: single quotes unless the text has single
// quotes and no double ones; unprintable characters escaped.
func (st *state) reprString(s string) {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	if !st.charge(2 * len(s)) {
		return
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xff:
			b.WriteString(`\x` + hex(r, 2))
		case r <= 0xffff:
			b.WriteString(`\u` + hex(r, 4))
		default:
			b.WriteString(`\U` + hex(r, 8))
		}
	}
	b.WriteRune(quote)
	st.emit(b.String())
}

func hex(r rune, width int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", width-len(s)) + s
}

// floatRepr is Python's repr of a float: the shortest digits that read back
// equal, scientific from 1e16 and below 1e-4, with at least ".0".
func floatRepr(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); a != 0 && (a >= 1e16 || a < 1e-4) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
