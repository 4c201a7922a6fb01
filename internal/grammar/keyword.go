package grammar

import (
	"math"
	"slices"
	"strings"
)

// check reports keywords of schema that are not supported or not well-formed, and notes
// those that are not known. Afterwards the values of all keywords have the kinds that the
// rest of the compiler takes for granted.
func (c *compiler) check(schema *value) {
	if c.checked[schema] {
		return
	}
	c.checked[schema] = true
	for i, key := range schema.keys {
		switch {
		case refused[key] != "":
			c.fail(unsupported(schema.path(), "%s is not supported: %s", key, refused[key]))
		case slices.Contains(inner, key):
		case slices.Contains(applied, key):
			if want := malformed(key, schema.vals[i]); want != "" {
				c.fail(invalid(schema.path(), "%s: %s expected", key, want))
			} else if key == "format" && !isFormat(schema.vals[i].text) {
				c.unknown = c.note(c.unknown, schema.vals[i], "")
			}
		case !slices.Contains(annotations, key) && !strings.HasPrefix(key, "x-"):
			c.ignore(schema.vals[i], "")
		}
	}
	if c.circular(schema) {
		c.fail(invalid(schema.path(), "the schema refers back to itself without anything between: give the value a type"))
	}
	if unevaluated := schema.get("unevaluatedProperties"); unevaluated.is(jsonObject) {
		c.fail(unsupported(schema.path(), "a schema as unevaluatedProperties is not supported: use additionalProperties, or false"))
	}
}

// ignore notes that a keyword counts for nothing, or for less than it says; what is Ignored.What.
func (c *compiler) ignore(keyword *value, what string) {
	c.ignored = c.note(c.ignored, keyword, what)
}

// note adds the place of a keyword to all, once and up to maxIgnored; of a long path the end.
func (c *compiler) note(all []Ignored, keyword *value, what string) []Ignored {
	if len(all) == maxIgnored {
		return all
	}
	where := keyword.path()
	if excess := len(where) - maxWhere; excess > 0 {
		where = "#..." + strings.ToValidUTF8(where[excess:], "")
	}
	noted := Ignored{c.frame, where, what}
	if slices.ContainsFunc(all, func(other Ignored) bool { return other.Where == where }) {
		return all
	}
	return append(all, noted)
}

// circular reports whether schema asks for itself again, for the same value.
func (c *compiler) circular(schema *value) bool {
	if c.rings[schema] != 0 {
		return c.rings[schema] == 1
	}
	c.rings[schema] = 1
	parts := c.parts(schema)
	if negated := schema.get("not"); negated != nil {
		parts = append(parts, negated)
	}
	if slices.ContainsFunc(parts, c.circular) {
		return true
	}
	c.rings[schema] = 2
	return false
}

// parts are the schemas that schema asks for, for the same value.
func (c *compiler) parts(schema *value) (out []*value) {
	if target := schema.get("$ref"); target.is(jsonString) {
		out = append(out, c.resolve(target))
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		if list := schema.get(key); list != nil {
			out = append(out, list.vals...)
		}
	}
	return out
}

// malformed returns what key's value should be, or "".
func malformed(key string, keyword *value) string {
	// The words of this table: lists and objects of something, texts, booleans, schemas.
	each := func(kind byte, ok func(*value) bool) bool {
		return keyword.kind == kind && !slices.ContainsFunc(keyword.vals, func(e *value) bool { return !ok(e) })
	}
	text := func(v *value) bool { return v.kind == jsonString }
	boolean := func(v *value) bool { return v.kind == jsonTrue || v.kind == jsonFalse }
	schema := func(v *value) bool { return v.kind == jsonObject || boolean(v) }
	ok, want := true, ""
	switch key {
	case "type":
		known := func(v *value) bool { return typeNames[v.text] != 0 && v.kind == jsonString }
		ok, want = known(keyword) || (each(jsonArray, known) && len(keyword.vals) > 0), "null, boolean, integer, number, string, array, object, or a list of them"
	case "enum":
		ok, want = keyword.kind == jsonArray && len(keyword.vals) > 0, "a list of values"
	case "dependencies":
		names := func(v *value) bool {
			return schema(v) || (v.kind == jsonArray && !slices.ContainsFunc(v.vals, func(e *value) bool { return !text(e) }))
		}
		ok, want = each(jsonObject, names), "an object of schemas and lists of names"
	case "dependentRequired":
		ok, want = each(jsonObject, func(v *value) bool {
			return v.kind == jsonArray && !slices.ContainsFunc(v.vals, func(e *value) bool { return !text(e) })
		}), "an object of lists of names"
	case "properties", "patternProperties", "dependentSchemas":
		ok, want = each(jsonObject, schema), "an object of schemas"
	case "required":
		ok, want = each(jsonArray, text), "a list of names"
	case "items":
		ok, want = schema(keyword) || each(jsonArray, schema), "a schema"
	case "additionalProperties", "additionalItems", "else", "if", "not", "propertyNames", "then", "unevaluatedProperties":
		ok, want = schema(keyword), "a schema"
	case "prefixItems":
		ok, want = each(jsonArray, schema), "a list of schemas"
	case "anyOf", "oneOf", "allOf":
		ok, want = each(jsonArray, schema) && len(keyword.vals) > 0, "a list of schemas"
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		rational, isNumber := number(keyword.text)
		ok, want = keyword.kind == jsonNumber && isNumber && rational.IsInt() && rational.Sign() >= 0, "a whole number"
	case "minimum", "maximum", "multipleOf":
		rational, isNumber := number(keyword.text)
		ok, want = keyword.kind == jsonNumber && isNumber, "a number with a moderate exponent"
		if ok && key == "multipleOf" {
			ok, want = rational.Sign() > 0, "a number above 0"
		}
	case "exclusiveMinimum", "exclusiveMaximum":
		_, isNumber := number(keyword.text)
		ok, want = (keyword.kind == jsonNumber && isNumber) || boolean(keyword), "a number with a moderate exponent"
	case "pattern", "format", "$ref":
		ok, want = text(keyword), "a text"
	case "nullable", "uniqueItems":
		ok, want = boolean(keyword), "true or false"
	}
	if ok {
		return ""
	}
	return want
}

// span returns the largest lower and the smallest upper bound of schemas; hi < 0 = none.
func span(schemas []*value, least, most string) (lo, hi int) {
	hi = -1
	for _, schema := range schemas {
		if value := schema.get(least); value != nil {
			lo = max(lo, wholeNumber(value))
		}
		if value := schema.get(most); value != nil && (hi < 0 || wholeNumber(value) < hi) {
			hi = wholeNumber(value)
		}
	}
	return lo, hi
}

// wholeNumber reads a whole number that malformed has seen; large ones become 2^31-2.
func wholeNumber(v *value) int {
	rational, _ := number(v.text)
	if whole := rational.Num(); whole.IsInt64() && whole.Int64() < math.MaxInt32 {
		return int(whole.Int64())
	}
	return math.MaxInt32 - 1
}

// Keywords of JSON Schema 2020-12 and of what is written beside it. Those not listed
// are annotations by the standard's own rule; Ignored names them.
var (
	applied = []string{"$ref", "additionalItems", "additionalProperties", "allOf", "anyOf", "const", "dependencies", "dependentRequired", "dependentSchemas", "else", "enum", "exclusiveMaximum", "exclusiveMinimum",
		"format", "if", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf",
		"not", "nullable", "oneOf", "pattern", "patternProperties", "prefixItems", "properties", "propertyNames", "required", "then", "type",
		"unevaluatedProperties", "uniqueItems"}
	annotations = []string{"$anchor", "$comment", "$defs", "$dynamicAnchor", "$id", "$schema", "$vocabulary", "contentEncoding", "contentMediaType", "contentSchema",
		"default", "definitions", "deprecated", "description", "discriminator", "example", "examples", "externalDocs", "id", "readOnly", "title",
		"writeOnly", "xml"}
	refused = map[string]string{
		"contains":         "put the element into prefixItems",
		"minContains":      "put the elements into prefixItems",
		"maxContains":      "describe all elements with items",
		"unevaluatedItems": "use items: false",
		"$dynamicRef":      "use $ref",
		"$recursiveRef":    "use $ref",
	}
)
