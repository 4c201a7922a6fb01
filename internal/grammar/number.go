package grammar

import (
	"math/big"
	"strings"
)

// Digits of numbers, so that a model cannot write them for ever and float64 holds
// every value: at most 20 before and 20 behind the point, an exponent of two digits.
const maxDigits = 20

var (
	digit   = class('0', '9')
	nonzero = class('1', '9')
	natural = alt(lit("0"), cat(nonzero, repeat(digit, 0, maxDigits-1)))
	decimal = cat(lit("."), repeat(digit, 1, maxDigits))

	anyInteger = alt(lit("0"), cat(opt(lit("-")), nonzero, repeat(digit, 0, maxDigits-1)))
	anyNumber  = cat(opt(lit("-")), natural, opt(decimal), opt(cat(class('E', 'E', 'e', 'e'), opt(class('+', '+', '-', '-')), repeat(digit, 1, 2))))
)

// maxNumber is 10^maxDigits.
var maxNumber = new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(maxDigits), nil))

// A bound is one end of a range; nil value = none.
type bound struct {
	value *big.Rat
	open  bool // value itself is outside
}

// tighter returns the bound that leaves less; sign is 1 for upper bounds, -1 for
// lower ones.
func (b bound) tighter(o bound, sign int) bound {
	switch {
	case b.value == nil:
		return o
	case o.value == nil:
		return b
	}
	switch c := sign * b.value.Cmp(o.value); {
	case c < 0:
		return b
	case c > 0:
		return o
	}
	return bound{b.value, b.open || o.open}
}

// A numeric is what the keywords for numbers leave.
type numeric struct {
	integer  bool
	low, up  bound
	multiple []*big.Rat
}

// holds reports whether n admits v.
func (n numeric) holds(v *big.Rat) bool {
	if (n.low.value != nil && (v.Cmp(n.low.value) < 0 || (n.low.open && v.Cmp(n.low.value) == 0))) ||
		(n.up.value != nil && (v.Cmp(n.up.value) > 0 || (n.up.open && v.Cmp(n.up.value) == 0))) || (n.integer && !v.IsInt()) {
		return false
	}
	for _, m := range n.multiple {
		if !new(big.Rat).Quo(v, m).IsInt() {
			return false
		}
	}
	return true
}

// String says in words what n admits.
func (n numeric) String() string {
	text := "number"
	if n.integer {
		text = "integer"
	}
	var limits []string
	limit := func(words string, v *big.Rat) {
		digits := v.RatString()
		limits = append(limits, words+" "+digits[:min(len(digits), maxBrief)])
	}
	if v := n.low.value; v != nil {
		limit(map[bool]string{false: "at least", true: "above"}[n.low.open], v)
	}
	if v := n.up.value; v != nil {
		limit(map[bool]string{false: "at most", true: "below"}[n.up.open], v)
	}
	for _, m := range n.multiple {
		limit("a multiple of", m)
	}
	return text + " is " + strings.Join(limits, " and ")
}

// overlaps reports whether a number may lie in both ranges.
func (n numeric) overlaps(o numeric) bool {
	low, up := n.low.tighter(o.low, -1), n.up.tighter(o.up, 1)
	if low.value == nil || up.value == nil {
		return true
	}
	c := low.value.Cmp(up.value)
	return c < 0 || (c == 0 && !low.open && !up.open)
}

// expr matches the numbers that n admits, without exponent when it says more than
// the type. where is for errors.
func (n numeric) expr(where string, b *budget) (*expr, error) {
	if n.low.value == nil && n.up.value == nil && len(n.multiple) == 0 {
		if n.integer {
			return anyInteger, nil
		}
		return anyNumber, nil
	}
	zero := new(big.Rat)
	positive, err := n.magnitudes(n.low.tighter(bound{value: zero}, -1), n.up, where, b)
	if err != nil {
		return nil, err
	}
	minus := func(o bound) bound {
		if o.value != nil {
			o.value = new(big.Rat).Neg(o.value)
		}
		return o
	}
	negative, err := n.magnitudes(minus(n.up).tighter(bound{zero, true}, -1), minus(n.low), where, b)
	if err != nil {
		return nil, err
	}
	return alt(positive, cat(lit("-"), negative)), nil
}

// magnitudes matches unsigned numbers from low, which is there and not negative, to up.
func (n numeric) magnitudes(low, up bound, where string, b *budget) (*expr, error) {
	if up.value != nil && up.value.Sign() < 0 {
		return never, nil
	}
	form := cat(natural, opt(decimal))
	if n.integer {
		form = natural
	}
	if up.value != nil && up.value.Cmp(maxNumber) >= 0 {
		up = bound{} // there are not so many digits
	}
	var parts []*automaton
	lowDigits, ok := digitsOf(low.value)
	if !ok || low.value.Cmp(maxNumber) >= 0 {
		return nil, unsupported(where, "the bound %.60s has more than %d digits: round it", low.value.FloatString(3), maxDigits)
	}
	limits := []*expr{form, lowDigits.above(low.open)}
	if up.value != nil {
		upDigits, ok := digitsOf(up.value)
		if !ok {
			return nil, unsupported(where, "the bound %.60s has more than %d digits: round it", up.value.FloatString(3), maxDigits)
		}
		limits = append(limits, upDigits.below(up.open))
	}
	for _, e := range limits {
		a, err := simple(e, false, b)
		if err == errNoMatch {
			return never, nil
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, a)
	}
	for _, m := range n.multiple {
		a, ok := multiples(m)
		if !ok {
			return nil, unsupported(where, "multipleOf %s has too many digits to be held to: use at most 4096 without its decimal point", m.RatString())
		}
		parts = append(parts, a)
	}
	a := parts[0]
	for _, p := range parts[1:] {
		var err error
		if a, err = product(a, p, false, b); err == errNoMatch {
			return never, nil
		} else if err != nil {
			return nil, err
		}
	}
	return machine(a), nil
}

// digits are those of a number that is not negative, the fraction without zeros at
// its end.
type digits struct{ whole, fraction string }

func digitsOf(v *big.Rat) (digits, bool) {
	text := v.FloatString(maxDigits)
	if back, _ := new(big.Rat).SetString(text); back.Cmp(v) != 0 {
		return digits{}, false
	}
	whole, fraction, _ := strings.Cut(text, ".")
	return digits{whole, strings.TrimRight(fraction, "0")}, true
}

func between(lo, hi byte) *expr {
	if lo > hi {
		return never
	}
	return class(rune(lo), rune(hi))
}

// above matches decimals larger than d, and d itself unless open.
func (d digits) above(open bool) *expr {
	n := len(d.whole)
	sub := []*expr{cat(nonzero, repeat(digit, n, max(n, maxDigits-1)), opt(decimal))} // more digits
	for i := range n {
		sub = append(sub, cat(lit(d.whole[:i]), between(d.whole[i]+1, '9'), repeat(digit, n-i-1, n-i-1), opt(decimal)))
	}
	tail := []*expr{}
	for i := range len(d.fraction) {
		tail = append(tail, cat(lit("."+d.fraction[:i]), between(d.fraction[i]+1, '9'), star(digit)))
	}
	switch {
	case d.fraction == "" && !open:
		tail = append(tail, opt(decimal))
	case d.fraction == "":
		tail = append(tail, cat(lit("."), star(lit("0")), nonzero, star(digit)))
	case open:
		tail = append(tail, cat(lit("."+d.fraction), star(lit("0")), nonzero, star(digit)))
	default:
		tail = append(tail, cat(lit("."+d.fraction), star(digit)))
	}
	return alt(append(sub, cat(lit(d.whole), alt(tail...)))...)
}

// below matches decimals smaller than d, and d itself unless open.
func (d digits) below(open bool) *expr {
	n := len(d.whole)
	var sub []*expr
	if n > 1 {
		sub = append(sub, cat(alt(lit("0"), cat(nonzero, repeat(digit, 0, n-2))), opt(decimal)))
	}
	for i := range n {
		sub = append(sub, cat(lit(d.whole[:i]), between('0', d.whole[i]-1), repeat(digit, n-i-1, n-i-1), opt(decimal)))
	}
	var tail []*expr
	if d.fraction != "" {
		tail = append(tail, empty)
	}
	for i := range len(d.fraction) {
		tail = append(tail, cat(lit("."+d.fraction[:i]), between('0', d.fraction[i]-1), star(digit)))
		if i > 0 {
			tail = append(tail, lit("."+d.fraction[:i]))
		}
	}
	if !open {
		tail = append(tail, opt(cat(lit("."+d.fraction), star(lit("0")))))
		if d.fraction != "" {
			tail[len(tail)-1] = cat(lit("."+d.fraction), star(lit("0")))
		}
	}
	return alt(append(sub, cat(lit(d.whole), alt(tail...)))...)
}

// multiples accepts the unsigned decimals that m divides. Its states are remainders,
// one layer for the digits before the point and one for each digit behind it.
func multiples(m *big.Rat) (*automaton, bool) {
	d, ok := digitsOf(m)
	if !ok {
		return nil, false
	}
	unit, _ := new(big.Int).SetString(d.whole+d.fraction, 10)
	if unit.Sign() <= 0 || unit.Cmp(big.NewInt(4096)) > 0 {
		return nil, false
	}
	mod, layers := int(unit.Int64()), len(d.fraction)+1
	a := &automaton{start: []int32{0}, need: []int32{0}, room: []int32{0}}
	scale := make([]int, layers) // 10^k mod unit
	for k, p := 0, 1%mod; k < layers; k++ {
		scale[k] = p
		p = p * 10 % mod
	}
	for layer := range layers {
		for r := range mod {
			s := state{accept: r*scale[layers-1-layer]%mod == 0}
			if layer == 0 && layers > 1 {
				s.edges = append(s.edges, edge{lo: '.', hi: '.', to: int32(layers*mod + r)})
			}
			a.states = append(a.states, s)
			a.digits(layer*mod+r, layer, layers, r, mod)
		}
	}
	for r := range mod { // behind the point
		if layers == 1 {
			break
		}
		a.states = append(a.states, state{})
		a.digits(layers*mod+r, 1, layers, r, mod)
	}
	return a, true
}

// digits adds the ten digits to state id with remainder r. In the first layer they
// stay there; behind the point each leads to the next one.
func (a *automaton) digits(id, layer, layers, r, mod int) {
	to := layer
	if id < layers*mod && layer > 0 {
		to = layer + 1
	}
	for c := 0; c < 10 && to < layers; c++ {
		a.states[id].edges = append(a.states[id].edges, edge{lo: byte('0' + c), hi: byte('0' + c), to: int32(to*mod + (r*10+c)%mod)})
	}
}
