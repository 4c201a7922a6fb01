// Package declare writes a JSON schema as gpt-oss was trained to read it: as a type
// in the manner of TypeScript, with the schema's remarks as comments (harmony.md 5).
// Callers need not know which schemas those rules render badly, nor that references
// in one may multiply: what comes out is bounded.
package declare

import "ossian/internal/jinja"

// Type is the type that a schema describes, put in order first (harmony.md 5.2). What
// is no schema is any. The schema itself is not changed.
func Type(schema jinja.Value) string { return typeText(normalise(schema), "") }

// listAt, dictAt and stringAt are a member of a schema if it is there and of that type.
func listAt(d *jinja.Dict, key string) (*jinja.List, bool) {
	v, _ := d.Get(key)
	l, ok := v.(*jinja.List)
	return l, ok
}

func dictAt(d *jinja.Dict, key string) (*jinja.Dict, bool) {
	v, _ := d.Get(key)
	dict, ok := v.(*jinja.Dict)
	return dict, ok
}

func stringAt(d *jinja.Dict, key string) (string, bool) {
	v, _ := d.Get(key)
	text, ok := v.(string)
	return text, ok
}
