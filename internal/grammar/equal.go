package grammar

import (
	"slices"
	"strconv"
	"strings"
)

// Generators of schemas write the same part many times over. Parts that say the same are
// one here: print gives them one number, and all one rule. What a part means depends on its
// text alone, but for references, which count with the resource they stand in, and for
// keywords that are ignored, whose places are told one by one.

// schemaLists and schemaMaps are keywords with several schemas; schemaKeys have one.
var (
	schemaLists = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	schemaMaps  = []string{"dependencies", "dependentSchemas", "patternProperties", "properties"}
	schemaKeys  = []string{"additionalItems", "additionalProperties", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedProperties"}
)

// print returns the number of a schema, which equal ones share.
func (c *compiler) print(schema *value) int {
	number, ok := c.prints[schema]
	if !ok {
		var text strings.Builder
		c.writePrint(&text, schema)
		if number, ok = c.numbers[text.String()]; !ok {
			number = len(c.numbers)
			c.numbers[text.String()] = number
		}
		c.prints[schema] = number
	}
	return number
}

// writePrint writes what a schema says, its parts as their numbers.
func (c *compiler) writePrint(out *strings.Builder, schema *value) {
	c.budget.spend(1)
	part := func(schema *value) { out.WriteString(strconv.Itoa(c.print(schema)) + ",") }
	out.WriteByte(schema.kind)
	if schema.kind != jsonObject {
		if schema.kind == jsonArray { // of items, as tuples were written, or names that a member needs
			for _, one := range schema.vals {
				part(one)
			}
		} else {
			schema.write(out)
		}
		return
	}
	for i, key := range schema.keys {
		keyword := schema.vals[i]
		if slices.Contains(annotations, key) || strings.HasPrefix(key, "x-") {
			continue
		}
		out.WriteString(key + ":")
		switch {
		case slices.Contains(schemaLists, key) && keyword.kind == jsonArray:
			for _, one := range keyword.vals {
				part(one)
			}
		case slices.Contains(schemaMaps, key) && keyword.kind == jsonObject:
			for at, name := range keyword.keys {
				out.WriteString(quoted(name) + `"`)
				part(keyword.vals[at])
			}
		case slices.Contains(schemaKeys, key):
			part(keyword)
		case key == "$ref" && keyword.kind == jsonString:
			out.WriteString(strconv.Itoa(c.owner(schema).number) + quoted(keyword.text) + `"`)
		case slices.Contains(applied, key) || slices.Contains(inner, key):
			keyword.write(out)
		default: // not known: it is told where it stands
			out.WriteString(strconv.Itoa(len(c.prints)) + "!")
		}
		out.WriteByte(';')
	}
}
