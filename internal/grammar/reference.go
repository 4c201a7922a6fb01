package grammar

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// unescape reads a step of a JSON pointer.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// A resource is a schema with an address of its own ($id), the document as a whole or a part
// of it: what references within it without an address mean.
type resource struct {
	number  int // in the order of the document
	root    *value
	address *url.URL
	anchors map[string]*value // schemas of it by $anchor
}

// noAddress is the address of a document that has none; relative ones of its parts stand
// beside it.
const noAddress = "schema:/"

// noteResources finds the resources of the document.
func (c *compiler) noteResources() {
	c.resources = map[string]*resource{}
	c.owners = map[*value]*resource{}
	base, _ := url.Parse(noAddress)
	whole := c.addResource(c.root, base)
	// Draft 4 writes id; later it is a word like any other.
	key := "$id"
	if draft := c.root.get("$schema"); draft.is(jsonString) && (strings.Contains(draft.text, "draft-04") || strings.Contains(draft.text, "draft-03")) {
		key = "id"
	}
	c.noteSchema(c.root, whole, key)
}

func (c *compiler) addResource(root *value, address *url.URL) *resource {
	made := &resource{number: len(c.resources), root: root, address: address, anchors: map[string]*value{}}
	if c.resources[address.String()] == nil {
		c.resources[address.String()] = made
	}
	return made
}

// literal are keywords whose values are no schemas, whatever they look like.
var literal = []string{"const", "default", "enum", "example", "examples"}

// noteSchema notes what schema and its parts call themselves. within is the resource it is
// in, key the keyword for addresses.
func (c *compiler) noteSchema(schema *value, within *resource, key string) {
	if id := schema.get(key); id.is(jsonString) {
		address, err := url.Parse(id.text)
		switch {
		case err != nil:
		case strings.HasPrefix(id.text, "#"): // as drafts 4 to 7 write anchors
			within.note(address.Fragment, schema)
		default:
			address = within.address.ResolveReference(address)
			address.Fragment, address.RawFragment = "", ""
			within = c.addResource(schema, address)
		}
	}
	for _, key := range []string{"$anchor", "$dynamicAnchor"} {
		if anchor := schema.get(key); anchor.is(jsonString) {
			within.note(anchor.text, schema)
		}
	}
	c.owners[schema] = within
	for i, member := range schema.vals {
		if schema.kind == jsonArray || !slices.Contains(literal, schema.keys[i]) {
			c.noteSchema(member, within, key)
		}
	}
}

// note notes an anchor, the first of each name.
func (r *resource) note(name string, schema *value) {
	if r.anchors[name] == nil {
		r.anchors[name] = schema
	}
}

// owner returns the resource that schema is in.
func (c *compiler) owner(schema *value) *resource {
	if within := c.owners[schema]; within != nil {
		return within
	}
	return c.owners[c.root] // a part of something that is no schema
}

// resolve returns what a $ref points to.
func (c *compiler) resolve(reference *value) *value {
	if c.targets[reference] == nil {
		c.targets[reference] = c.find(reference)
	}
	return c.targets[reference]
}

// find follows a $ref within the document: an address ($id) of one of its parts, or none,
// then nothing, a JSON pointer or an $anchor. Of what leads nowhere it notes the error, and
// returns a schema for anything.
func (c *compiler) find(reference *value) *value {
	bad := func(what string) *value {
		c.fail(invalid(reference.parent.path(), "$ref %.100q %s: use # or #/$defs/NAME", reference.text, what))
		return &value{kind: jsonTrue}
	}
	address, err := url.Parse(reference.text)
	if err != nil {
		return bad("is not a reference")
	}
	within := c.owner(reference.parent)
	fragment := address.Fragment
	if !strings.HasPrefix(reference.text, "#") && reference.text != "" {
		address = within.address.ResolveReference(address)
		address.Fragment, address.RawFragment = "", ""
		if within = c.resources[address.String()]; within == nil {
			return bad("leaves the schema, none of whose parts has this $id")
		}
	}
	if fragment != "" && fragment[0] != '/' {
		if at := within.anchors[fragment]; at != nil {
			return at
		}
		return bad("is no $anchor of the schema")
	}
	at := within.root.follow(fragment)
	switch {
	case at == nil:
		return bad("points to nothing")
	case at.kind != jsonObject && at.kind != jsonTrue && at.kind != jsonFalse:
		return bad("points to no schema")
	}
	return at
}

// follow returns where a JSON pointer leads, nil for nowhere.
func (v *value) follow(pointer string) *value {
	at := v
	// The text before its first slash is empty.
	for i, name := range strings.Split(pointer, "/") {
		if i == 0 {
			continue
		}
		name = unescape.Replace(name)
		if at.kind == jsonArray {
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 || n >= len(at.vals) {
				return nil
			}
			at = at.vals[n]
		} else if at = at.get(name); at == nil {
			return nil
		}
	}
	return at
}
