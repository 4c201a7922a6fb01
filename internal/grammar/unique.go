package grammar

// uniqueItems: the elements of a list differ. Matching sees to it (earlier.go): it compares
// the text of an element that ends with those before. Here lists are made ready for that: two
// elements must be equal exactly if their texts are, so each value has one spelling, and there
// must be as many values as minItems asks for, or a list could not be finished.

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// A uniqueList is a list whose elements must differ.
type uniqueList struct {
	rule     int
	keyword  *value
	schemas  []*value
	elements []elementCount
	tuple    bool // elements have schemas of their own
}

// An elementCount is a rule of elements, and how many values it must have so that one is
// left that was not there before.
type elementCount struct {
	element *expr
	needed  int
}

// maxCounted bounds the values that are counted for minItems.
const maxCounted = 4096

// unique returns the keyword of flat's schemas that asks for elements that differ, or nil.
func unique(flat flatSchema) *value {
	for _, schema := range flat.schemas {
		if keyword := schema.get("uniqueItems"); keyword.is(jsonTrue) {
			return keyword
		}
	}
	return nil
}

// spell has what is compiled next written in one spelling for each value, if it is within
// lists that keyword is of; nil = as usual.
func (c *compiler) spell(keyword *value) {
	if c.within, c.space, c.colon = keyword, c.spaces[0], c.spaces[1]; keyword != nil {
		c.space, c.colon = empty, empty
	}
}

// uniqueArray makes a list of array a rule of its own whose elements must differ.
func (c *compiler) uniqueArray(list *uniqueList, body *expr) *expr {
	made := c.rule("list", body)
	list.rule = made.rule
	c.rules[list.rule].call, c.rules[list.rule].differs = true, true
	c.unique = append(c.unique, list)
	return made
}

// checkUnique looks whether the lists have as many values as they need. Of those that have
// fewer nothing matches; where elements have schemas of their own, the keyword is ignored.
func (c *compiler) checkUnique() {
	for _, list := range c.unique {
		for _, one := range list.elements {
			if one.needed < 2 || c.err != nil {
				continue
			}
			found := c.countValues(one.element.rule, min(one.needed, maxCounted))
			switch {
			case found >= min(one.needed, maxCounted):
			case list.tuple:
				c.rules[list.rule].differs = false
				for _, other := range list.elements {
					other.element.element = false
				}
				c.ignore(list.keyword, fmt.Sprintf("uniqueItems cannot be held to, since one of the first elements has only %d values: allow more, or leave it out", found))
			default:
				c.rules[list.rule].body = because(firstKeyword(list.schemas, "minItems"), "minItems is %d, and with uniqueItems only %d elements are allowed", one.needed, found)
			}
		}
	}
}

// countValues returns how many texts a rule has, or most if there are more. With a budget
// that is used up it takes for granted that there are.
func (c *compiler) countValues(rule, most int) int {
	rules := slices.Clone(c.rules)
	rules[0].body = ref(rule)
	share := &budget{left: c.budget.left / 8, stop: c.budget.stop}
	whole := share.left
	determined, err := determinize(newNFA(rules, false, nil, share), share)
	c.budget.spend(whole - max(share.left, 0))
	if err == errNoMatch {
		return 0
	}
	if err != nil {
		return most
	}
	determined.findFirst()
	parser := parser{automaton: determined, base: &origin{position: -1}}
	layer := make([]set, 1)
	parser.begin(&layer[0], determined.first(parser.base))
	ended := 0
	// All beginnings of one length side by side: each leads to a text that no other one has.
	for len(layer) > 0 && ended+len(layer) < most && !c.budget.spend(len(layer)) {
		var next []set
		for i := range layer {
			may, _ := parser.bytes(&layer[i])
			for b, possible := range may {
				var to set
				if !possible || len(next) > most || !parser.step(&to, &layer[i], byte(b), anyByte) {
					continue
				}
				if to.exit {
					ended++
				}
				if parser.open(&to) {
					next = append(next, to)
				}
			}
		}
		c.budget.spend(parser.work / 4)
		layer, parser.work = next, 0
	}
	if c.budget.err != nil {
		return most
	}
	return min(ended+len(layer), most)
}

// plain returns v as it is spelled in lists whose elements must differ: numbers without
// exponents or zeros at their ends, members sorted.
func (v *value) plain() *value {
	out := *v
	if rational, ok := number(v.text); ok && v.kind == jsonNumber {
		if digits, exact := digitsOf(new(big.Rat).Abs(rational)); exact {
			out.text = strings.TrimSuffix(digits.whole+"."+digits.fraction, ".")
			if rational.Sign() < 0 {
				out.text = "-" + out.text
			}
		}
	}
	out.keys, out.vals = slices.Clone(v.keys), make([]*value, len(v.vals))
	slices.Sort(out.keys)
	for i := range v.vals {
		if v.kind == jsonObject {
			out.vals[i] = v.get(out.keys[i]).plain()
		} else {
			out.vals[i] = v.vals[i].plain()
		}
	}
	return &out
}

// plainNumber matches numbers in one spelling: no exponent, no zeros at the end, no -0.
var plainNumber = func() *expr {
	fraction := cat(lit("."), repeat(digit, 0, maxDigits-1), nonzero)
	large := cat(nonzero, repeat(digit, 0, maxDigits-1), opt(fraction))
	return alt(lit("0"), cat(opt(lit("-")), alt(large, cat(lit("0"), fraction))))
}()
