package jinja

import (
	"math"
	"math/big"
	"strings"
)

// add is Python's +.
func (st *state) add(left, right Value) Value {
	if st.err != nil {
		return nil
	}
	leftList, ok1 := left.(*List)
	rightList, ok2 := right.(*List)
	if ok1 && ok2 && leftList.kind == rightList.kind && leftList.kind <= kindTuple {
		if !st.charge(entryBytes + (len(leftList.items)+len(rightList.items))*valueBytes) {
			return nil
		}
		items := make([]Value, 0, len(leftList.items)+len(rightList.items))
		return &List{items: append(append(items, leftList.items...), rightList.items...), kind: leftList.kind}
	}
	// A term that was marked safe or escaped makes the other one be escaped.
	if isMarkup(left) || isMarkup(right) {
		leftMarkup, ok1 := st.escaped(left)
		rightMarkup, ok2 := st.escaped(right)
		if ok1 && ok2 && st.charge(len(leftMarkup)+len(rightMarkup)) {
			return leftMarkup + rightMarkup
		}
	}
	leftText, ok1 := left.(string)
	rightText, ok2 := right.(string)
	if ok1 && ok2 {
		if !st.charge(len(leftText) + len(rightText)) {
			return nil
		}
		return leftText + rightText
	}
	return st.binary("+", left, right)
}

func isMarkup(v Value) bool { _, ok := v.(markup); return ok }

// escaped turns an operand of a sum with markup into markup.
func (st *state) escaped(value Value) (markup, bool) {
	if m, ok := value.(markup); ok {
		return m, true
	}
	text, ok := value.(string)
	if !ok || !st.charge(5*len(text)) {
		return "", false
	}
	return markup(htmlEscaper().Replace(text)), true
}

// binary is the arithmetic of numbers, repetition and % formatting.
func (st *state) binary(op string, left, right Value) Value {
	if s, ok := left.(string); ok && op == "%" {
		return st.percent(s, right)
	}
	if op == "*" { // a string or list on either side
		if v, ok := st.repeat(left, right); ok {
			return v
		}
		if v, ok := st.repeat(right, left); ok {
			return v
		}
	}
	leftInt, ok1 := asInt(left)
	rightInt, ok2 := asInt(right)
	if ok1 && ok2 {
		return st.intOp(op, leftInt, rightInt)
	}
	leftFloat, ok1 := asFloat(left)
	rightFloat, ok2 := asFloat(right)
	_, isLeftBig := left.(bigInt)
	_, isRightBig := right.(bigInt)
	switch {
	case !ok1 || !ok2:
		return st.fail("operator %s: cannot combine %s and %s", op, describe(left), describe(right))
	case isLeftBig || isRightBig:
		return st.fail("operator %s: integers beyond 64 bits can be printed but not calculated with", op)
	}
	return st.floatOp(op, leftFloat, rightFloat)
}

// repeat is string or list times integer.
func (st *state) repeat(seq, times Value) (Value, bool) {
	count, ok := asInt(times)
	if !ok {
		return nil, false
	}
	count = max(count, 0)
	switch seq := seq.(type) {
	case string:
		if !st.chargeTimes(len(seq), count) {
			return nil, true
		}
		return strings.Repeat(seq, int(count)), true
	case *List:
		if seq.kind > kindTuple {
			return nil, false
		}
		if !st.chargeTimes(len(seq.items)*valueBytes, count) {
			return nil, true
		}
		items := make([]Value, 0, len(seq.items)*int(count)) // the same values again
		for range count {
			items = append(items, seq.items...)
		}
		return &List{items: items, kind: seq.kind}, true
	}
	return nil, false
}

// chargeTimes charges size bytes count times without overflow.
func (st *state) chargeTimes(size int, count int64) bool {
	if count > 0 && count > int64(st.memory/max(size, 1)) {
		return st.exceed("bytes of memory", st.maxMemory)
	}
	return st.charge(size * int(count))
}

// intOp is the arithmetic of integers; what overflows fails.
func (st *state) intOp(op string, left, right int64) Value {
	bigLeft, bigRight := big.NewInt(left), big.NewInt(right)
	switch op {
	case "+":
		if result := left + right; (result > left) == (right > 0) {
			return result
		}
		return st.normal(bigLeft.Add(bigLeft, bigRight))
	case "-":
		if result := left - right; (result < left) == (right > 0) {
			return result
		}
		return st.normal(bigLeft.Sub(bigLeft, bigRight))
	case "*":
		return st.normal(bigLeft.Mul(bigLeft, bigRight))
	case "/":
		return st.floatOp("/", float64(left), float64(right))
	case "//", "%":
		if right == 0 {
			return st.fail("division by zero")
		}
		if left == math.MinInt64 && right == -1 {
			return st.normal(bigLeft.Neg(bigLeft))
		}
		quotient, rest := left/right, left%right
		if rest != 0 && (rest < 0) != (right < 0) { // Python rounds down
			quotient, rest = quotient-1, rest+right
		}
		if op == "%" {
			return rest
		}
		return quotient
	}
	// **
	switch {
	case right < 0:
		return st.floatOp("**", float64(left), float64(right))
	case left >= -1 && left <= 1:
		return st.normal(bigLeft.Exp(bigLeft, big.NewInt(right&1|right>>62), nil))
	case right > 63:
		return st.fail("%d ** %d does not fit in 64 bits", left, right)
	}
	return st.normal(bigLeft.Exp(bigLeft, bigRight, nil))
}

// normal turns the result of a calculation back into a 64-bit integer.
func (st *state) normal(number *big.Int) Value {
	if number.IsInt64() {
		return number.Int64()
	}
	return st.fail("integer result does not fit in 64 bits")
}

// normalInt returns number as int64 where it fits.
func normalInt(number *big.Int) Value {
	if number.IsInt64() {
		return number.Int64()
	}
	return bigInt(number.String())
}

// bigFromText converts integer text that does not fit int64.
func bigFromText(text string, base int) Value {
	number, ok := new(big.Int).SetString(text, base)
	if !ok {
		return nil
	}
	return normalInt(number)
}

// floatOp is the arithmetic of floats.
func (st *state) floatOp(op string, left, right float64) Value {
	switch op {
	case "+":
		return left + right
	case "-":
		return left - right
	case "*":
		return left * right
	case "**":
		if left == 0 && right < 0 {
			return st.fail("0 cannot be raised to a negative power")
		}
		return math.Pow(left, right)
	}
	if right == 0 {
		return st.fail("division by zero")
	}
	switch op {
	case "/":
		return left / right
	case "//":
		return math.Floor(left / right)
	}
	rest := math.Mod(left, right) // of the sign of right, as in Python
	if rest != 0 && (rest < 0) != (right < 0) {
		rest += right
	}
	return rest
}
