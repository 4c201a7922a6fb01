package grammar

import (
	"slices"
	"unicode/utf8"
)

// A types is a set of JSON types. A number is an integer or a fraction: schemas tell them
// apart by value, 1.0 is an integer.
type types uint8

const (
	tNull types = 1 << iota
	tBool
	tInteger
	tFraction
	tString
	tArray
	tObject
	tNumber = tInteger | tFraction
	tAll    = 1<<7 - 1
)

var typeNames = map[string]types{"null": tNull, "boolean": tBool, "integer": tInteger, "number": tNumber, fractionType: tFraction, "string": tString, "array": tArray, "object": tObject}

// A flatSchema is one alternative of a conjunction with its keywords for single values
// read: what all its schemas together ask of a type, a number, or a list of values.
type flatSchema struct {
	schemas  []*value
	types    types
	enum     []*value        // the values that const and enum have in common
	enumOnly bool            // there is a const or enum
	texts    map[string]bool // canonical ones of enum, once they are looked for
	numeric  numeric
	excluded []*value // values that are taken out
	open     *value   // one of them that cannot be, nil for none
}

// flatten reads the keywords of one alternative.
func (c *compiler) flatten(schemas []*value) flatSchema {
	flat := flatSchema{schemas: schemas, types: tAll}
	for _, schema := range schemas {
		flat.types &= typesOf(schema)
		// Several lists of values: what they have in common.
		for _, key := range []string{"const", "enum"} {
			given := schema.get(key)
			if given == nil {
				continue
			}
			values := []*value{given}
			if key == "enum" {
				values = given.vals
			}
			if flat.enumOnly {
				values = common(flat.enum, values)
			}
			flat.enum, flat.enumOnly = values, true
		}
		flat.numeric.read(schema)
	}
	for _, schema := range schemas {
		if values := schema.get(notEnum); values != nil {
			c.exclude(&flat, values)
		}
	}
	if flat.numeric.integer = flat.types&tFraction == 0; flat.numeric.integer {
		flat.numeric.except = flat.excludedNumbers()
	}
	return flat
}

// typesOf returns the types that a schema allows.
func typesOf(schema *value) types {
	keyword := schema.get("type")
	if keyword == nil {
		return tAll
	}
	list := []*value{keyword}
	if keyword.kind == jsonArray {
		list = keyword.vals
	}
	var out types
	for _, name := range list {
		out |= typeNames[name.text]
	}
	if nullable := schema.get("nullable"); nullable.is(jsonTrue) {
		out |= tNull
	}
	return out
}

// lists reports whether the enum of f has v.
func (f *flatSchema) lists(v *value) bool {
	if f.texts == nil {
		f.texts = canonicals(f.enum)
	}
	return f.texts[v.canonical()]
}

func canonicals(values []*value) map[string]bool {
	all := make(map[string]bool, len(values))
	for _, v := range values {
		all[v.canonical()] = true
	}
	return all
}

// common returns the values of a that b has too.
func common(a, b []*value) []*value {
	known := canonicals(b)
	return slices.DeleteFunc(slices.Clone(a), func(v *value) bool { return !known[v.canonical()] })
}

// path is where the first schema of f is.
func (f flatSchema) path() string {
	if len(f.schemas) == 0 {
		return "#"
	}
	return f.schemas[0].path()
}

// typeOf returns the type of a value.
func typeOf(value *value) types {
	switch value.kind {
	case jsonObject:
		return tObject
	case jsonArray:
		return tArray
	case jsonString:
		return tString
	case jsonNumber:
		if r, ok := number(value.text); ok && r.IsInt() {
			return tInteger
		}
		return tFraction
	case jsonNull:
		return tNull
	}
	return tBool
}

// misfit says why listed, of flat's enum, does not meet flat's other keywords; "" = it does.
func (c *compiler) misfit(flat flatSchema, listed *value) string {
	kind := typeOf(listed)
	if flat.types&kind == 0 {
		return "has another type"
	}
	if flat.excludes(listed) {
		return "is what not leaves out"
	}
	switch kind {
	case tInteger, tFraction:
		if r, ok := number(listed.text); !ok || !flat.numeric.holds(r) {
			return "is outside of the bounds, or no multiple"
		}
	case tString:
		lo, hi := lengthSpan(flat.schemas)
		if schema := utf8.RuneCountInString(listed.text); schema < lo || (hi >= 0 && schema > hi) {
			return "is too short or too long"
		}
		ok := true
		// A list of values may be long and its patterns large: repetitions are counted.
		c.eachPattern(flat.schemas, minCount, func(a *automaton, _ *value) { ok = ok && a != nil && a.matches(quoted(listed.text)) })
		if !ok {
			return "does not match the pattern or format"
		}
	case tArray, tObject:
		// Such keywords would have to be checked inside the value, and a wrong guess would
		// allow what the schema forbids.
		for _, schema := range flat.schemas {
			for _, key := range schema.keys {
				if (kind == tObject && slices.Contains(objectKeys, key)) || (kind == tArray && slices.Contains(arrayKeys, key)) {
					c.fail(unsupported(schema.path(), "%s beside an enum or const of objects or arrays cannot be held to: leave it out", key))
				}
			}
		}
	}
	return ""
}

var (
	objectKeys = []string{"additionalProperties", "maxProperties", "minProperties", "patternProperties", "properties", "propertyNames", "required"}
	arrayKeys  = []string{"additionalItems", "items", "maxItems", "minItems", "prefixItems", "uniqueItems"}
)
