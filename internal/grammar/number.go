package grammar

// Numbers within bounds, as texts. A range of unsigned decimals is cut out digit by digit:
// above and below match what is larger or smaller than a number by its first digit that
// differs, and product joins them. Multiples are an automaton over remainders.

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

// fractional matches numbers that are no integers, without exponents.
var fractional = cat(opt(lit("-")), natural, lit("."), star(lit("0")), nonzero, star(digit))

// forms are what numbers of f are besides: no integers, or in one spelling each.
func (f *flatSchema) forms(plain bool) (out []*expr) {
	if f.types&tNumber == tFraction {
		out = append(out, fractional)
	}
	if plain && !f.numeric.integer {
		out = append(out, plainNumber)
	}
	return out
}

// both matches the numbers that body and form do.
func (c *compiler) both(body, form *expr) *expr {
	if body.op == opNever {
		return body
	}
	all, err := simple(body, false, c.budget)
	if err == nil {
		var other *automaton
		if other, err = simple(form, false, c.budget); err == nil {
			all, err = product(all, other, false, c.budget)
		}
	}
	if err != nil {
		if err != errNoMatch {
			c.fail(err)
		}
		return never
	}
	return machine(all)
}

// maxNumber is 10^maxDigits.
var maxNumber = new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(maxDigits), nil))

// A bound is one end of a range; nil value = none.
type bound struct {
	value *big.Rat
	open  bool // value itself is outside
}

// tighter returns the bound that leaves less; sign is 1 for upper bounds, -1 for
// lower ones.
func (b bound) tighter(other bound, sign int) bound {
	switch {
	case b.value == nil:
		return other
	case other.value == nil:
		return b
	}
	switch order := sign * b.value.Cmp(other.value); {
	case order < 0:
		return b
	case order > 0:
		return other
	}
	return bound{b.value, b.open || other.open}
}

// A numeric is what the keywords for numbers leave.
type numeric struct {
	integer  bool
	low, up  bound
	multiple []*big.Rat
	except   []*big.Rat // whole numbers that are left out; only with integer
}

// holds reports whether n admits value.
func (n numeric) holds(value *big.Rat) bool {
	if (n.low.value != nil && (value.Cmp(n.low.value) < 0 || (n.low.open && value.Cmp(n.low.value) == 0))) ||
		(n.up.value != nil && (value.Cmp(n.up.value) > 0 || (n.up.open && value.Cmp(n.up.value) == 0))) || (n.integer && !value.IsInt()) {
		return false
	}
	for _, step := range n.multiple {
		if !new(big.Rat).Quo(value, step).IsInt() {
			return false
		}
	}
	return true
}

// String says in words what n admits; it is short and names large numbers in part.
func (n numeric) String() string { return n.words(maxBrief) }

// words says what n admits, with at most so many digits of each number.
func (n numeric) words(most int) string {
	text := "number"
	if n.integer {
		text = "integer"
	}
	var limits []string
	limit := func(words string, value *big.Rat) {
		digits := value.RatString()
		limits = append(limits, words+" "+digits[:min(len(digits), most)])
	}
	if value := n.low.value; value != nil {
		limit(map[bool]string{false: "at least", true: "above"}[n.low.open], value)
	}
	if value := n.up.value; value != nil {
		limit(map[bool]string{false: "at most", true: "below"}[n.up.open], value)
	}
	for _, step := range n.multiple {
		limit("a multiple of", step)
	}
	for _, other := range n.except {
		limit("not", other)
	}
	return text + " is " + strings.Join(limits, " and ")
}

// overlaps reports whether a number may lie in both ranges.
func (n numeric) overlaps(other numeric) bool {
	low, up := n.low.tighter(other.low, -1), n.up.tighter(other.up, 1)
	if low.value == nil || up.value == nil {
		return true
	}
	order := low.value.Cmp(up.value)
	return order < 0 || (order == 0 && !low.open && !up.open)
}

// expr matches the numbers that n admits, without exponent when it says more than
// the type. where is for errors.
func (n numeric) expr(where string, budget *budget) (*expr, error) {
	if n.low.value == nil && n.up.value == nil && len(n.multiple) == 0 && len(n.except) == 0 {
		if n.integer {
			return anyInteger, nil
		}
		return anyNumber, nil
	}
	zero := new(big.Rat)
	// A sign and a magnitude: the negative numbers are the positive ones of the range turned
	// over. Zero is written without a sign.
	positive, err := n.magnitudes(n.low.tighter(bound{value: zero}, -1), n.up, 1, where, budget)
	if err != nil {
		return nil, err
	}
	minus := func(end bound) bound {
		if end.value != nil {
			end.value = new(big.Rat).Neg(end.value)
		}
		return end
	}
	negative, err := n.magnitudes(minus(n.up).tighter(bound{zero, true}, -1), minus(n.low), -1, where, budget)
	if err != nil {
		return nil, err
	}
	return alt(positive, cat(lit("-"), negative)), nil
}

// magnitudes matches unsigned numbers from low, which is there and not negative, to up; sign
// is that of the numbers meant.
func (n numeric) magnitudes(low, up bound, sign int, where string, budget *budget) (*expr, error) {
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
	// What holds at once: the form, each bound, each multiple.
	limits := []*expr{form, lowDigits.above(low.open)}
	if up.value != nil {
		upDigits, ok := digitsOf(up.value)
		if !ok {
			return nil, unsupported(where, "the bound %.60s has more than %d digits: round it", up.value.FloatString(3), maxDigits)
		}
		limits = append(limits, upDigits.below(up.open))
	}
	for _, e := range limits {
		part, err := simple(e, false, budget)
		if err == errNoMatch {
			return never, nil
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	for _, step := range n.multiple {
		part, ok := multiples(step)
		if !ok {
			return nil, unsupported(where, "multipleOf %s has too many digits to be held to: use at most 4096 without its decimal point", step.RatString())
		}
		parts = append(parts, part)
	}
	all := parts[0]
	for _, part := range parts[1:] {
		var err error
		if all, err = product(all, part, false, budget); err == errNoMatch {
			return never, nil
		} else if err != nil {
			return nil, err
		}
	}
	return n.leaveOut(all, sign, budget)
}

// leaveOut is the magnitudes of all but those of numbers with that sign to be left out.
func (n numeric) leaveOut(all *automaton, sign int, budget *budget) (*expr, error) {
	var sub []*expr
	for _, other := range n.except {
		if (other.Sign() < 0) == (sign < 0) {
			sub = append(sub, lit(new(big.Int).Abs(other.Num()).String()))
		}
	}
	if len(sub) == 0 {
		return machine(all), nil
	}
	out, err := simple(alt(sub...), false, budget)
	if err == nil {
		all, err = product(all, out, true, budget)
	}
	if err == errNoMatch {
		return never, nil
	}
	if err != nil {
		return nil, err
	}
	return machine(all), nil
}

// digits are those of a number that is not negative, the fraction without zeros at
// its end.
type digits struct{ whole, fraction string }

func digitsOf(value *big.Rat) (digits, bool) {
	text := value.FloatString(maxDigits)
	if back, _ := new(big.Rat).SetString(text); back.Cmp(value) != 0 {
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
	whole := len(d.whole)
	sub := []*expr{cat(nonzero, repeat(digit, whole, max(whole, maxDigits-1)), opt(decimal))} // more digits
	// As many digits: the first same ones are equal, the next one is larger.
	for same := range whole {
		sub = append(sub, cat(lit(d.whole[:same]), between(d.whole[same]+1, '9'), repeat(digit, whole-same-1, whole-same-1), opt(decimal)))
	}
	// Behind an equal whole part, the fraction decides in the same way.
	tail := []*expr{}
	for same := range len(d.fraction) {
		tail = append(tail, cat(lit("."+d.fraction[:same]), between(d.fraction[same]+1, '9'), star(digit)))
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
	whole := len(d.whole)
	var sub []*expr
	// Fewer digits.
	if whole > 1 {
		sub = append(sub, cat(alt(lit("0"), cat(nonzero, repeat(digit, 0, whole-2))), opt(decimal)))
	}
	// As many digits, the first that differs is smaller.
	for same := range whole {
		sub = append(sub, cat(lit(d.whole[:same]), between('0', d.whole[same]-1), repeat(digit, whole-same-1, whole-same-1), opt(decimal)))
	}
	var tail []*expr
	if d.fraction != "" {
		tail = append(tail, empty)
	}
	for same := range len(d.fraction) {
		tail = append(tail, cat(lit("."+d.fraction[:same]), between('0', d.fraction[same]-1), star(digit)))
		if same > 0 {
			tail = append(tail, lit("."+d.fraction[:same]))
		}
	}
	// The number itself, with any zeros behind it.
	if !open {
		tail = append(tail, opt(cat(lit("."+d.fraction), star(lit("0")))))
		if d.fraction != "" {
			tail[len(tail)-1] = cat(lit("."+d.fraction), star(lit("0")))
		}
	}
	return alt(append(sub, cat(lit(d.whole), alt(tail...)))...)
}

// multiples accepts the unsigned decimals that step divides. Its states are remainders,
// one layer for the digits before the point and one for each digit behind it, then a layer
// for behind the point itself, which ends nothing.
func multiples(step *big.Rat) (*automaton, bool) {
	unitDigits, ok := digitsOf(step)
	if !ok {
		return nil, false
	}
	unit, _ := new(big.Int).SetString(unitDigits.whole+unitDigits.fraction, 10)
	if unit.Sign() <= 0 || unit.Cmp(big.NewInt(4096)) > 0 {
		return nil, false
	}
	// In units of the last digit of step, step is mod. A number that ends in an early layer
	// lacks digits: scale is what its remainder is worth.
	mod, layers := int(unit.Int64()), len(unitDigits.fraction)+1
	out := &automaton{start: []int32{0}, need: []int32{0}, room: []int32{0}}
	scale := make([]int, layers) // 10^k mod unit
	for place, power := 0, 1%mod; place < layers; place++ {
		scale[place] = power
		power = power * 10 % mod
	}
	for layer := range layers {
		for remainder := range mod {
			from := state{accept: remainder*scale[layers-1-layer]%mod == 0}
			if layer == 0 && layers > 1 {
				from.edges = append(from.edges, edge{lo: '.', hi: '.', to: int32(layers*mod + remainder)})
			}
			out.states = append(out.states, from)
			out.digits(layer*mod+remainder, layer, layers, remainder, mod)
		}
	}
	for remainder := range mod { // behind the point
		if layers == 1 {
			break
		}
		out.states = append(out.states, state{})
		out.digits(layers*mod+remainder, 1, layers, remainder, mod)
	}
	return out, true
}

// digits adds the ten digits to state id, which stands for remainder. In the first layer
// they stay there; behind the point each leads to the next one.
func (a *automaton) digits(id, layer, layers, remainder, mod int) {
	to := layer
	if id < layers*mod && layer > 0 {
		to = layer + 1
	}
	for digit := 0; digit < 10 && to < layers; digit++ {
		a.states[id].edges = append(a.states[id].edges, edge{lo: byte('0' + digit), hi: byte('0' + digit), to: int32(to*mod + (remainder*10+digit)%mod)})
	}
}

// read adds the bounds of schema to n. exclusiveMinimum and exclusiveMaximum are booleans
// in draft 4 and numbers since.
func (n *numeric) read(schema *value) {
	rat := func(key string) *big.Rat {
		value := schema.get(key)
		if value == nil || value.kind != jsonNumber {
			return nil
		}
		r, _ := number(value.text)
		return r
	}
	isTrue := func(key string) bool { return schema.get(key).is(jsonTrue) } // as in draft 4
	n.low = n.low.tighter(bound{rat("minimum"), isTrue("exclusiveMinimum")}, -1)
	n.low = n.low.tighter(bound{rat("exclusiveMinimum"), true}, -1)
	n.up = n.up.tighter(bound{rat("maximum"), isTrue("exclusiveMaximum")}, 1)
	n.up = n.up.tighter(bound{rat("exclusiveMaximum"), true}, 1)
	if step := rat("multipleOf"); step != nil {
		n.multiple = append(n.multiple, step)
	}
}
