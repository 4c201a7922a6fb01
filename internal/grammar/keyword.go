package grammar

import (
	"math"
	"slices"
	"strings"
)

// check reports keywords of schema n that are not known or not well-formed.
func (c *compiler) check(n *value) {
	if c.checked[n] {
		return
	}
	c.checked[n] = true
	for i, key := range n.keys {
		switch {
		case refused[key] != "":
			c.fail(unsupported(n.path(), "%s is not supported: %s", key, refused[key]))
		case slices.Contains(applied, key):
			if want := malformed(key, n.vals[i]); want != "" {
				c.fail(invalid(n.path(), "%s: %s expected", key, want))
			} else if name := n.vals[i].text; key == "format" && formats[name] == "" && !slices.Contains(openFormats, name) {
				c.ignore(n.vals[i])
			}
		case !slices.Contains(annotations, key) && !strings.HasPrefix(key, "x-"):
			c.ignore(n.vals[i])
		}
	}
	if c.circular(n) {
		c.fail(invalid(n.path(), "the schema refers back to itself without anything between: give the value a type"))
	}
	if u := n.get("unevaluatedProperties"); u != nil && u.kind == '{' {
		c.fail(unsupported(n.path(), "a schema as unevaluatedProperties is not supported: use additionalProperties, or false"))
	}
}

// ignore notes that a keyword counts for nothing; of a long path the end.
func (c *compiler) ignore(keyword *value) {
	if len(c.ignored) < maxIgnored {
		where := keyword.path()
		if n := len(where) - maxWhere; n > 0 {
			where = "#..." + strings.ToValidUTF8(where[n:], "")
		}
		c.ignored = append(c.ignored, Ignored{c.frame, where})
	}
}

// circular reports whether n asks for n again, for the same value.
func (c *compiler) circular(n *value) bool {
	if c.rings[n] != 0 {
		return c.rings[n] == 1
	}
	c.rings[n] = 1
	if slices.ContainsFunc(c.parts(n), c.circular) {
		return true
	}
	c.rings[n] = 2
	return false
}

// parts are the schemas that n asks for, for the same value.
func (c *compiler) parts(n *value) (out []*value) {
	if r := n.get("$ref"); r != nil && r.kind == '"' {
		out = append(out, c.resolve(r))
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		if l := n.get(key); l != nil {
			out = append(out, l.vals...)
		}
	}
	return out
}

// malformed returns what key's value should be, or "".
func malformed(key string, v *value) string {
	each := func(kind byte, ok func(*value) bool) bool {
		return v.kind == kind && !slices.ContainsFunc(v.vals, func(e *value) bool { return !ok(e) })
	}
	text := func(v *value) bool { return v.kind == '"' }
	boolean := func(v *value) bool { return v.kind == 't' || v.kind == 'f' }
	schema := func(v *value) bool { return v.kind == '{' || boolean(v) }
	ok, want := true, ""
	switch key {
	case "type":
		known := func(v *value) bool { return typeNames[v.text] != 0 && v.kind == '"' }
		ok, want = known(v) || (each('[', known) && len(v.vals) > 0), "null, boolean, integer, number, string, array, object, or a list of them"
	case "enum":
		ok, want = v.kind == '[' && len(v.vals) > 0, "a list of values"
	case "properties", "patternProperties":
		ok, want = each('{', schema), "an object of schemas"
	case "required":
		ok, want = each('[', text), "a list of names"
	case "items":
		ok, want = schema(v) || each('[', schema), "a schema"
	case "additionalProperties", "additionalItems", "propertyNames", "unevaluatedProperties":
		ok, want = schema(v), "a schema"
	case "prefixItems":
		ok, want = each('[', schema), "a list of schemas"
	case "anyOf", "oneOf", "allOf":
		ok, want = each('[', schema) && len(v.vals) > 0, "a list of schemas"
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		r, isNumber := number(v.text)
		ok, want = v.kind == '0' && isNumber && r.IsInt() && r.Sign() >= 0, "a whole number"
	case "minimum", "maximum", "multipleOf":
		r, isNumber := number(v.text)
		ok, want = v.kind == '0' && isNumber, "a number with a moderate exponent"
		if ok && key == "multipleOf" {
			ok, want = r.Sign() > 0, "a number above 0"
		}
	case "exclusiveMinimum", "exclusiveMaximum":
		_, isNumber := number(v.text)
		ok, want = (v.kind == '0' && isNumber) || boolean(v), "a number with a moderate exponent"
	case "pattern", "format", "$ref":
		ok, want = text(v), "a text"
	case "nullable", "uniqueItems":
		ok, want = boolean(v), "true or false"
	}
	if ok {
		return ""
	}
	return want
}

// span returns the largest lower and the smallest upper bound of nodes; hi < 0 = none.
func span(nodes []*value, least, most string) (lo, hi int) {
	hi = -1
	for _, n := range nodes {
		if v := n.get(least); v != nil {
			lo = max(lo, count(v))
		}
		if v := n.get(most); v != nil && (hi < 0 || count(v) < hi) {
			hi = count(v)
		}
	}
	return lo, hi
}

// count reads a whole number that malformed has seen; large ones are as good as 2^31-2.
func count(v *value) int {
	r, _ := number(v.text)
	if n := r.Num(); n.IsInt64() && n.Int64() < math.MaxInt32 {
		return int(n.Int64())
	}
	return math.MaxInt32 - 1
}
