package grammar

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// A wide generator writes schemas with every keyword that output is held to, in the
// drafts that have it, alone and beside others that make sense or do not.
type wide struct {
	generator
	draft int // 4, 7, 2020
	names []string
}

var drafts = map[int]string{4: "http://json-schema.org/draft-04/schema#", 7: "http://json-schema.org/draft-07/schema#", 2020: "https://json-schema.org/draft/2020-12/schema"}

func newWide(seed uint64) *wide {
	g := &wide{generator: generator{rng: rand.New(rand.NewPCG(seed, 13))}}
	g.draft = []int{2020, 2020, 2020, 2020, 7, 4}[g.n(6)]
	g.names = [][]string{{"a", "ab", "b", "c"}, {"name", "age", "x y", "1"}, {"", "é", "日本", "q\"\\\n"}, {"a/b", "~", "$ref", "type"}}[g.n(4)]
	return g
}

// definitions is where this draft keeps named schemas; any place would do.
func (g *wide) definitions() string {
	if g.draft == 2020 && !g.chance(4) {
		return "$defs"
	}
	return "definitions"
}

// document returns a schema as a client writes it, and the same for the validator,
// which does not know nullable.
func (g *wide) document() (text, judged string) {
	where := g.definitions()
	g.defs = []string{"A", "B/c", "D~ e"}[:g.n(4)]
	for i, name := range g.defs {
		g.defs[i] = "#/" + where + "/" + strings.NewReplacer("~", "~0", "/", "~1", " ", "%20").Replace(name)
	}
	root, _ := g.schema(3).(map[string]any)
	if root == nil || g.chance(3) {
		root = g.object(3)
	}
	defs := map[string]any{}
	for _, name := range []string{"A", "B/c", "D~ e"}[:len(g.defs)] {
		defs[name] = g.schema(2)
	}
	if g.draft == 2020 && g.chance(5) {
		defs["anchored"] = map[string]any{"$anchor": "here", "type": g.pick("integer", "null", "string")}
		root["allOf"] = []any{map[string]any{"properties": map[string]any{g.name(): map[string]any{"$ref": "#here"}}}}
	}
	if len(defs) > 0 {
		root[where] = defs
	}
	root["$schema"] = drafts[g.draft]
	if g.draft == 2020 && g.chance(8) {
		root["$id"] = "https://example.com/schema"
	}
	return encoded(root), encoded(withoutNullable(root))
}

func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// withoutNullable says what nullable says in the words of the standard. Where a schema
// has no type it says nothing.
func withoutNullable(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, m := range v {
			if key == "enum" || key == "const" {
				out[key] = m
			} else {
				out[key] = withoutNullable(m)
			}
		}
		if kind, ok := v["type"]; ok && v["nullable"] == true {
			list, ok := kind.([]string)
			if !ok {
				list = []string{kind.(string)}
			}
			if !slices.Contains(list, "null") {
				list = append(slices.Clone(list), "null")
			}
			out["type"] = list
		}
		if _, ok := v["nullable"].(bool); ok {
			delete(out, "nullable")
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, m := range v {
			out[i] = withoutNullable(m)
		}
		return out
	}
	return v
}

func (g *wide) name() string { return g.pick(g.names...) }

// schema returns a schema, sometimes a boolean.
func (g *wide) schema(depth int) any {
	if g.draft > 4 && g.chance(14) {
		return !g.chance(4)
	}
	var s map[string]any
	kinds := 13
	if depth <= 0 {
		kinds = 7
	}
	switch g.n(kinds) {
	case 0:
		s = g.mixed()
	case 1, 2:
		s = g.number()
	case 3, 4:
		s = g.text()
	case 5:
		s = g.listed()
	case 6:
		s = map[string]any{"type": []any{"null", "boolean", "string", "integer", []string{"string", "null"}}[g.n(5)]}
	case 7, 8:
		s = g.list(depth)
	case 9, 10:
		s = g.object(depth)
	default:
		s = g.combination(depth)
	}
	if g.chance(10) {
		s["nullable"] = !g.chance(4)
	}
	if g.chance(12) {
		s["not"] = []any{map[string]any{"type": "null"}, map[string]any{"enum": []any{"a", true}}, map[string]any{"enum": []any{"b\"\\\n", "日本"}, "type": "string"}, map[string]any{"pattern": "^a|[0-9]"},
			map[string]any{"required": []string{g.name()}}, map[string]any{"type": "string", "minLength": 2}, map[string]any{"type": []string{"string", "null", "array"}}, map[string]any{"maxItems": 1},
			map[string]any{"anyOf": []any{map[string]any{"type": "boolean"}, map[string]any{"type": "number", "minimum": 5}}}, map[string]any{"properties": map[string]any{g.name(): map[string]any{"type": "string"}}},
			map[string]any{"type": "integer", "minimum": -3}, map[string]any{"type": "object", "minProperties": 2}}[g.n(12)]
	}
	if g.chance(12) {
		s[g.pick("title", "description", "$comment", "x-note")] = "of no account"
	}
	if g.chance(12) {
		s[g.pick("default", "examples", "deprecated")] = []any{1}
	}
	if _, ok := s["deprecated"]; ok {
		s["deprecated"] = true
	}
	return s
}

func (g *wide) list(depth int) map[string]any {
	s := map[string]any{}
	if !g.chance(10) {
		s["type"] = "array"
	}
	some := func() []any {
		out := []any{g.schema(depth - 1), g.schema(depth - 1), g.schema(0)}
		return out[:1+g.n(3)]
	}
	if g.draft == 2020 {
		if g.chance(3) {
			s["prefixItems"] = some()
		}
		if !g.chance(3) {
			s["items"] = g.schema(depth - 1)
		}
	} else {
		switch g.n(4) {
		case 0:
			s["items"] = some()
		case 1:
			s["items"] = some()
			s["additionalItems"] = []any{true, false, map[string]any{"type": "null"}}[g.n(3)]
		case 2:
			s["items"] = g.schema(depth - 1)
		}
	}
	if g.chance(2) {
		s["minItems"] = g.n(4)
	}
	if g.chance(2) {
		s["maxItems"] = g.n(6)
	}
	if g.chance(4) {
		s["uniqueItems"] = g.chance(2)
	} else if g.chance(8) {
		s = map[string]any{"type": "array", "uniqueItems": true, "items": g.listed(), "minItems": g.n(3)}
		if g.chance(2) {
			s["items"] = []any{map[string]any{"type": []string{"boolean", "null"}}, map[string]any{"type": "integer", "minimum": -4, "exclusiveMaximum": 3 + g.n(9)}}[g.n(1+g.draft/2020)]
		}
		if g.chance(2) {
			s["maxItems"] = g.n(7)
		}
	}
	return s
}

func (g *wide) object(depth int) map[string]any {
	s := map[string]any{}
	if !g.chance(12) {
		s["type"] = "object"
	}
	members := map[string]any{}
	for range g.n(5) {
		members[g.name()] = g.schema(depth - 1)
	}
	if len(members) > 0 || g.chance(3) {
		s["properties"] = members
	}
	if g.chance(2) {
		required := []string{}
		for _, name := range g.names {
			if _, ok := members[name]; (ok && !g.chance(3)) || g.chance(12) {
				required = append(required, name)
			}
		}
		if len(required) > 0 { // draft 4 wants one at least
			s["required"] = required
		}
	}
	switch g.n(6) {
	case 0, 1:
		s["additionalProperties"] = false
	case 2:
		s["additionalProperties"] = true
	case 3:
		s["additionalProperties"] = g.schema(depth - 1)
	}
	if g.chance(4) {
		patterns := map[string]any{}
		for range 1 + g.n(2) {
			patterns[g.pick("^a", "b$", "[0-9]", "^.{1,2}$", "é|x", "^$")] = g.schema(depth - 1)
		}
		s["patternProperties"] = patterns
	}
	if g.chance(6) {
		s["minProperties"] = g.n(6)
	}
	if g.chance(6) {
		s["maxProperties"] = 1 + g.n(6)
	}
	if g.chance(10) {
		g.dependent(s)
	}
	if g.draft > 4 && g.chance(8) {
		s["propertyNames"] = []map[string]any{{"maxLength": 3}, {"pattern": "^[a-c]"}, {"enum": []any{"a", "é", "name", "x"}}, {"minLength": 1, "maxLength": 4}, {"not-known": 1}}[g.n(5)]
	}
	if g.draft == 2020 && g.chance(8) {
		s["unevaluatedProperties"] = g.chance(4)
	}
	return s
}

// dependent adds keywords with conditions, as the draft has them.
func (g *wide) dependent(s map[string]any) {
	switch {
	case g.draft < 2020 && g.chance(2):
		s["dependencies"] = map[string]any{g.name(): []any{g.name()}, g.name(): map[string]any{"required": []string{g.name()}, "maxProperties": 3}}
	case g.draft == 2020 && g.chance(2):
		s["dependentRequired"] = map[string]any{g.name(): []any{g.name()}}
		s["dependentSchemas"] = map[string]any{g.name(): map[string]any{"maxProperties": 1 + g.n(3)}}
	case g.draft > 4:
		s["if"] = []any{map[string]any{"required": []string{g.name()}}, map[string]any{"properties": map[string]any{g.name(): map[string]any{"type": "string"}}, "required": []string{g.name()}}, map[string]any{"minProperties": 2}}[g.n(3)]
		s["then"] = []any{map[string]any{"required": []string{g.name()}}, map[string]any{"maxProperties": 2}}[g.n(2)]
		if g.chance(2) {
			s["else"] = map[string]any{"properties": map[string]any{g.name(): map[string]any{"type": "integer"}}}
		}
	}
}

func (g *wide) number() map[string]any {
	s := map[string]any{}
	if !g.chance(8) {
		s["type"] = g.pick("integer", "number")
	}
	lo := float64(g.n(4000)-2000) / []float64{1, 2, 8, 10, 1000}[g.n(5)]
	if g.chance(10) {
		lo = []float64{-1e15, 0, 1e-6, 123456789012, -0.5}[g.n(5)]
	}
	span := []float64{0, 0.5, 1, 7, 99.75, 1e6}[g.n(6)]
	bound := func(key, open string, value float64) {
		s[key] = value
		switch {
		case g.draft == 4 && g.chance(3):
			s[open] = g.chance(2)
		case g.draft > 4 && g.chance(3):
			s[open] = value - 1 + float64(g.n(3))
		case g.draft > 4 && g.chance(3):
			delete(s, key)
			s[open] = value
		}
	}
	if g.chance(2) {
		bound("minimum", "exclusiveMinimum", lo)
	}
	if g.chance(2) {
		bound("maximum", "exclusiveMaximum", lo+span)
	}
	if g.chance(4) {
		s["multipleOf"] = []float64{1, 2, 3, 7, 12, 0.5, 0.25, 0.1, 0.01, 1.5}[g.n(10)]
	}
	return s
}

func (g *wide) text() map[string]any {
	s := map[string]any{}
	if !g.chance(8) {
		s["type"] = "string"
	}
	switch g.n(6) {
	case 0:
		s["minLength"] = g.n(5)
	case 1:
		s["maxLength"] = g.n(40)
	case 2:
		s["minLength"] = g.n(40)
		s["maxLength"] = 20 + g.n(40)
	case 3:
		s["pattern"] = g.pattern()
		if g.chance(3) {
			s["minLength"] = g.n(4)
		}
		if g.chance(3) {
			s["maxLength"] = 3 + g.n(9)
		}
	case 4:
		all := []string{"regex-like", "int32"}
		s["format"] = g.pick(append(all, slices.Sorted(maps.Keys(knownFormats))...)...)
		if g.chance(8) {
			s["pattern"] = g.pick("^[0-9a-z]", "1", ".{3}")
		}
	}
	return s
}

// pattern is one that ECMA-262, which the standard names, and Go read alike.
func (g *wide) pattern() string {
	atom := func() string {
		return g.pick("a", "b1", "[a-c]", "[^a-f]", "é", `\d`, `\w`, `\S`, `\.`, ".", "[^\"]", `\\`, "(?:x{2,3})", "(?:ab|ba)", "(y|zz)", `[\s_-]`)
	}
	p := atom() + g.pick("", "*", "+", "?", "{1,4}") + atom()
	if g.chance(3) {
		p += "|" + atom()
	}
	if g.chance(2) {
		return "^(?:" + p + ")$"
	}
	return p
}

// listed has enum or const, sometimes beside keywords that some of the values do not meet.
func (g *wide) listed() map[string]any {
	values := []any{"a", "b\"\\\n", "日本", "", 0, 1, -2.5, 1e6, 12345678901, true, false, nil, []any{}, []any{1, "x", nil}, map[string]any{}, map[string]any{"b": 1, "a": []any{true}}}
	g.rng.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
	s := map[string]any{"enum": values[:1+g.n(6)]}
	if g.draft > 4 && g.chance(2) {
		s = map[string]any{"const": values[0]}
	}
	if g.chance(3) {
		s["type"] = []string{"string", "integer", "number", "boolean"}[g.n(3):]
	}
	if g.chance(5) {
		s["minimum"] = -1
	}
	if g.chance(5) {
		s["maxLength"] = g.n(4)
	}
	if g.chance(8) {
		s["pattern"] = "[a-z]"
	}
	return s
}

// mixed has keywords of several types.
func (g *wide) mixed() map[string]any {
	s := map[string]any{"type": []string{"integer", "string", "boolean", "array", "object", "null", "number"}[g.n(4) : 4+g.n(4)]}
	if g.chance(6) {
		delete(s, "type")
	}
	some := map[string]any{"minimum": 3, "maximum": 40.5, "minLength": 1, "maxLength": 9, "maxItems": 2, "maxProperties": 2,
		"items": map[string]any{"type": "boolean"}, "additionalProperties": map[string]any{"type": "null"}}
	for _, key := range slices.Sorted(maps.Keys(some)) {
		if g.chance(3) {
			s[key] = some[key]
		}
	}
	return s
}

// combination joins schemas.
func (g *wide) combination(depth int) map[string]any {
	kind := func(of any, more map[string]any) map[string]any {
		o := map[string]any{"type": "object", "properties": more, "required": []string{"kind"}}
		more["kind"] = map[string]any{"enum": []any{of}}
		if g.draft > 4 && g.chance(2) {
			more["kind"] = map[string]any{"const": of}
		}
		if g.chance(3) {
			o["additionalProperties"] = g.chance(3)
		}
		return o
	}
	switch g.n(9) {
	case 0:
		if len(g.defs) > 0 {
			s := map[string]any{"$ref": g.pick(g.defs...)}
			if g.draft == 2020 && g.chance(3) { // before, what stands beside it does not count
				s["allOf"] = []any{g.object(depth - 1)}
			}
			return s
		}
	case 1: // itself, where it need not be
		key, inner := g.name(), any(map[string]any{"$ref": "#"})
		if g.chance(2) {
			inner = map[string]any{"type": "array", "items": inner}
		}
		return map[string]any{"type": "object", "properties": map[string]any{key: map[string]any{"anyOf": []any{map[string]any{"type": "null"}, inner}}}}
	case 2:
		return map[string]any{"oneOf": []any{map[string]any{"type": "null"}, map[string]any{"type": "string", "maxLength": 2}, g.list(depth - 1)}[:2+g.n(2)]}
	case 3:
		return map[string]any{"oneOf": []any{kind("x", map[string]any{g.name(): g.schema(depth - 1)}), kind("y", map[string]any{}), kind(3, map[string]any{g.name(): g.schema(0)})}, "discriminator": map[string]any{"propertyName": "kind"}}
	case 4:
		s := g.object(depth)
		s[g.pick("anyOf", "allOf")] = []any{g.object(depth - 1), g.object(depth - 1)}
		return s
	case 5:
		return map[string]any{"allOf": []any{g.number(), g.number(), map[string]any{"type": []string{"number", "string"}}}}
	case 6:
		return map[string]any{"allOf": []any{g.text(), map[string]any{"type": "string", "maxLength": 60}, map[string]any{"anyOf": []any{g.text(), g.text()}}}}
	case 7:
		return map[string]any{"allOf": []any{g.list(depth - 1), g.list(depth - 1)}}
	}
	return map[string]any{"anyOf": []any{g.schema(depth - 1), g.schema(depth - 1), g.schema(0)}[:1+g.n(3)]}
}

// keywordsOf adds the keywords and formats in a schema to seen. Names of members count
// too where they are spelled alike: names holds none of those it is asked for.
func keywordsOf(v any, seen map[string]int) {
	switch v := v.(type) {
	case map[string]any:
		for key, m := range v {
			seen[key]++
			if format, ok := m.(string); ok && key == "format" {
				seen["format "+format]++
			}
			keywordsOf(m, seen)
		}
	case []any:
		for _, m := range v {
			keywordsOf(m, seen)
		}
	}
}
