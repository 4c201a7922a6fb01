package grammar

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// The keyword not becomes a schema that says the opposite in other keywords: a value fails a
// schema if it fails one of its keywords. What there are no keywords for (a pattern that does
// not match, values that are not listed) has keywords of our own, which no document can hold.

const (
	notPattern = "\x00pattern" // strings only, that the pattern does not match
	notEnum    = "\x00enum"    // values that the list does not have

	fractionType = "\x00fraction" // as a type: numbers that are no integers
)

// inner are the keywords of our own.
var inner = []string{notPattern, notEnum}

// complement returns a schema of the values that fail negated, the value of a not, or notes
// the error that there is none.
func (c *compiler) complement(negated *value) *value {
	other, ok := c.complements[negated]
	if !ok {
		if other = c.opposite(negated); other.parent == nil {
			other.parent, other.name = negated.parent, negated.name
		}
		c.complements[negated] = other
	}
	return other
}

// opposite is complement, made anew. Parts of negated are left to a not of their own.
func (c *compiler) opposite(negated *value) *value {
	switch {
	case negated.kind == jsonTrue:
		return &value{kind: jsonFalse}
	case negated.kind != jsonObject:
		return &value{kind: jsonTrue}
	}
	var ways []*value // to fail
	barred := ""      // a keyword without
	told := false     // one that is no type has some
	for i, key := range negated.keys {
		if slices.Contains(annotations, key) || strings.HasPrefix(key, "x-") || c.budget.spend(16) {
			continue
		}
		if slices.Contains(applied, key) {
			if want := malformed(key, negated.vals[i]); want != "" {
				c.fail(invalid(negated.path(), "%s: %s expected", key, want))
				break
			}
		}
		if way := c.failing(negated, key, negated.vals[i], 0); way != nil {
			ways = append(ways, way...)
			told = told || (key != "type" && slices.ContainsFunc(way, func(one *value) bool { return !isFalse(one) }))
		} else {
			barred = key
		}
	}
	ways = slices.DeleteFunc(ways, isFalse)
	// One way to fail is enough, as in deniable. Another type alone would not be what is meant.
	if barred != "" && !told {
		c.fail(unsupported(negated.path(), "the opposite of %s cannot be held to: say what is allowed instead", barred))
	}
	switch len(ways) {
	case 0:
		return &value{kind: jsonFalse}
	case 1:
		return ways[0]
	}
	return made("anyOf", list(ways...))
}

// maxDenied is how deep deniable looks.
const maxDenied = 8

// deniable reports whether a schema has a complement.
func (c *compiler) deniable(schema *value, depth int) bool {
	if schema.kind != jsonObject {
		return true
	}
	if depth > maxDenied || c.budget.spend(16) {
		return false
	}
	// One way to fail is enough: with fewer of them output is narrower.
	ways, barred := 0, false
	for i, key := range schema.keys {
		if slices.Contains(annotations, key) || strings.HasPrefix(key, "x-") {
			continue
		}
		if slices.Contains(applied, key) && malformed(key, schema.vals[i]) != "" {
			return false
		}
		if way := c.failing(schema, key, schema.vals[i], depth); way == nil {
			barred = true
		} else {
			if way = slices.DeleteFunc(way, isFalse); key != "type" {
				ways += len(way)
			}
		}
	}
	return ways > 0 || !barred
}

// made is a schema of keywords and their values in turn.
func made(pairs ...any) *value {
	out := &value{kind: jsonObject, index: map[string]int{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		key, keyword := pairs[i].(string), pairs[i+1].(*value)
		out.index[key] = len(out.keys)
		out.keys, out.vals = append(out.keys, key), append(out.vals, keyword)
		if keyword.parent == nil {
			keyword.parent, keyword.name = out, key
		}
	}
	return out
}

func list(values ...*value) *value {
	out := &value{kind: jsonArray, vals: values}
	for i, one := range values {
		if one.parent == nil {
			one.parent, one.name = out, strconv.Itoa(i)
		}
	}
	return out
}

func word(text string) *value { return &value{kind: jsonString, text: text} }

func whole(n int) *value { return &value{kind: jsonNumber, text: strconv.Itoa(n)} }

// failing returns schemas of which one holds for each value that fails keyword, nil if there
// are none that can be said. depth is deniable's.
func (c *compiler) failing(schema *value, key string, keyword *value, depth int) []*value {
	one := func(pairs ...any) []*value { return []*value{made(pairs...)} }
	bound := func(kind, other string, step int) []*value {
		n := wholeNumber(keyword) + step
		if n < 0 {
			return []*value{{kind: jsonFalse}}
		}
		return one("type", word(kind), other, whole(n))
	}
	switch key {
	case "type":
		return c.otherTypes(schema)
	case "enum":
		return one(notEnum, keyword)
	case "const":
		return one(notEnum, list(keyword))
	case "pattern":
		return one("type", word("string"), notPattern, keyword)
	case "minLength":
		return bound("string", "maxLength", -1)
	case "maxLength":
		return bound("string", "minLength", 1)
	case "minItems":
		return bound("array", "maxItems", -1)
	case "maxItems":
		return bound("array", "minItems", 1)
	case "minProperties":
		return bound("object", "maxProperties", -1)
	case "maxProperties":
		return bound("object", "minProperties", 1)
	case "minimum":
		return one("type", word("number"), "exclusiveMaximum", keyword)
	case "maximum":
		return one("type", word("number"), "exclusiveMinimum", keyword)
	case "required":
		out := []*value{}
		for _, name := range keyword.vals {
			out = append(out, made("type", word("object"), "properties", made(name.text, &value{kind: jsonFalse})))
		}
		return out
	case "properties":
		out := []*value{}
		for i, name := range keyword.keys {
			if c.deniable(keyword.vals[i], depth+1) {
				out = append(out, made("type", word("object"), "required", list(word(name)), "properties", made(name, made("not", keyword.vals[i]))))
			}
		}
		if len(out) < len(keyword.keys) && len(out) == 0 {
			return nil
		}
		return out
	case "anyOf":
		var all []*value
		for _, part := range keyword.vals {
			if !c.deniable(part, depth+1) {
				return nil
			}
			all = append(all, made("not", part))
		}
		return one("allOf", list(all...))
	case "allOf":
		var out []*value
		for _, part := range keyword.vals {
			if c.deniable(part, depth+1) {
				out = append(out, made("not", part))
			}
		}
		return out
	case "not":
		return []*value{keyword}
	case "$ref":
		if target := c.resolve(keyword); c.deniable(target, depth+1) {
			return one("not", target)
		}
	case "nullable":
		return []*value{}
	}
	return nil
}

// otherTypes is for the types that schema does not have.
func (c *compiler) otherTypes(schema *value) []*value {
	missing := tAll &^ typesOf(schema)
	var names []*value
	for _, name := range []string{"null", "boolean", "number", fractionType, "string", "array", "object"} {
		if kind := typeNames[name]; missing&kind == kind {
			missing &^= kind
			names = append(names, word(name))
		}
	}
	if len(names) == 0 {
		return []*value{{kind: jsonFalse}}
	}
	return []*value{made("type", list(names...))}
}

// exclude takes the values of a list out of flat: by their types, if there are no others, from
// strings and whole numbers while they are compiled (excluded).
func (c *compiler) exclude(flat *flatSchema, values *value) {
	for _, one := range values.vals {
		flat.excluded = append(flat.excluded, one)
		switch kind := typeOf(one); {
		case kind == tNull:
			flat.types &^= tNull
		case kind == tInteger && flat.types&tNumber == tNumber, kind&(tArray|tObject|tFraction)&flat.types != 0:
			if !flat.enumOnly {
				flat.open = one
			}
		}
	}
}

// excludes reports whether v is taken out.
func (f *flatSchema) excludes(v *value) bool {
	return slices.ContainsFunc(f.excluded, func(other *value) bool { return other.canonical() == v.canonical() })
}

// excludedNumbers are the whole numbers that are taken out.
func (f *flatSchema) excludedNumbers() (out []*big.Rat) {
	for _, one := range f.excluded {
		if typeOf(one) == tInteger {
			rational, _ := number(one.text)
			out = append(out, rational)
		}
	}
	return out
}

// excludedStrings returns the automaton of the strings that schemas take out, nil for none.
func (c *compiler) excludedStrings(schemas []*value) *automaton {
	var sub []*expr
	for _, schema := range schemas {
		if values := schema.get(notEnum); values != nil {
			for _, one := range values.vals {
				if one.kind == jsonString {
					sub = append(sub, lit(one.text))
				}
			}
		}
	}
	if len(sub) == 0 {
		return nil
	}
	out, err := simple(alt(sub...), true, c.budget)
	if err != nil {
		c.fail(located(err, schemas[0].path()))
		return nil
	}
	return out
}
