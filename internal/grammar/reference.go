package grammar

import (
	"net/url"
	"strconv"
	"strings"
)

// unescape reads a step of a JSON pointer.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// resolve returns what a $ref points to.
func (c *compiler) resolve(reference *value) *value {
	if c.targets[reference] == nil {
		c.targets[reference] = c.find(reference)
	}
	return c.targets[reference]
}

// find follows a $ref within the document: # alone, a JSON pointer or an $anchor. Of what
// leads nowhere it notes the error, and returns a schema for anything.
func (c *compiler) find(reference *value) *value {
	bad := func(what string) *value {
		c.fail(invalid(reference.parent.path(), "$ref %.100q %s: use # or #/$defs/NAME", reference.text, what))
		return &value{kind: jsonTrue}
	}
	// The document may call itself by its $id.
	text := reference.text
	if id := c.root.get("$id"); id.is(jsonString) {
		text = strings.TrimPrefix(text, id.text)
	}
	fragment, ok := strings.CutPrefix(text, "#")
	if !ok {
		return bad("leaves the schema")
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return bad("is not a reference")
	}
	if fragment != "" && fragment[0] != '/' {
		if at := c.anchors[fragment]; at != nil {
			return at
		}
		return bad("is no $anchor of the schema")
	}
	// A JSON pointer, step by step; the text before its first slash is empty.
	at := c.root
	for i, name := range strings.Split(fragment, "/") {
		if i == 0 {
			continue
		}
		name = unescape.Replace(name)
		if at.kind == jsonArray {
			if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < len(at.vals) {
				at = at.vals[n]
				continue
			}
			return bad("points to nothing")
		}
		if at = at.get(name); at == nil {
			return bad("points to nothing")
		}
	}
	if at.kind != jsonObject && at.kind != jsonTrue && at.kind != jsonFalse {
		return bad("points to no schema")
	}
	return at
}

// noteAnchors notes the anchors in v, the first of each name.
func (c *compiler) noteAnchors(schema *value) {
	if anchor := schema.get("$anchor"); anchor.is(jsonString) && c.anchors[anchor.text] == nil {
		c.anchors[anchor.text] = schema
	}
	for _, member := range schema.vals {
		c.noteAnchors(member)
	}
}
