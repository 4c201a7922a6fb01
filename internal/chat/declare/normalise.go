package declare

import (
	"slices"
	"strings"

	"ossian/internal/jinja"
)

// maxRefs is how many references may lie inside one another in a schema.
const maxRefs = 16

// normalise rewrites what typeText would render as any, or noisily, into what it
// renders well (harmony.md 5.2). The schema itself is not changed.
func normalise(schema jinja.Value) jinja.Value {
	n := normaliser{root: schema}
	return n.schema(schema, nil)
}

// A normaliser puts the schemas within one root in order.
type normaliser struct {
	root   jinja.Value
	steps  int // schemas visited: references may multiply them
	copied int // bytes of what references brought
}

// What references can make of a schema is bounded; beyond it a schema is any.
const (
	maxSchemas = 10_000
	maxCopied  = 1 << 20
)

// schema is v in order. refs are the references that v lies inside of: a cycle ends with
// any, and so does what grows beyond the bounds.
func (n *normaliser) schema(v jinja.Value, refs []string) jinja.Value {
	schema, ok := v.(*jinja.Dict)
	if n.steps++; !ok || n.steps > maxSchemas || n.copied > maxCopied {
		return jinja.NewDict()
	}
	if len(refs) > 0 {
		n.copied += weight(schema)
	}
	if ref, ok := stringAt(schema, "$ref"); ok {
		target, found := n.resolve(ref)
		if !found || len(refs) == maxRefs || slices.Contains(refs, ref) {
			return jinja.NewDict()
		}
		return n.schema(joined(target, schema, "$ref"), append(refs[:len(refs):len(refs)], ref))
	}
	// What wraps or splits one schema is made one: a base class, a union of types.
	if all, ok := listAt(schema, "allOf"); ok && all.Len() == 1 {
		if only, ok := all.At(0).(*jinja.Dict); ok {
			return n.schema(joined(only, schema, "allOf"), refs)
		}
	}
	if variants, ok := listAt(schema, "anyOf"); ok {
		schema = union(schema, variants)
	}
	// The members in their order, those that hold schemas put in order themselves.
	out := jinja.NewDict()
	for i := range schema.Len() {
		key, item := schema.Entry(i)
		switch name := key.(string); name {
		case "properties":
			item = n.properties(item, refs)
		case "items":
			item = n.schema(item, refs)
		case "oneOf":
			item = n.variants(item, refs)
		case "default":
			if item == nil {
				continue
			}
		}
		out.Set(key.(string), item)
	}
	literals(out)
	return out
}

// weight is about how many bytes schema takes without the schemas within it, which are visited
// themselves.
func weight(schema *jinja.Dict) (sum int) {
	for i := range schema.Len() {
		key, item := schema.Entry(i)
		switch key.(string) {
		case "properties", "items", "oneOf", "anyOf", "allOf", "$defs", "definitions":
			sum += 8
		default:
			sum += size(key) + size(item)
		}
	}
	return sum
}

// size is about how many bytes v takes.
func size(value jinja.Value) int {
	sum := 8
	switch typed := value.(type) {
	case string:
		sum += len(typed)
	case *jinja.List:
		for i := range typed.Len() {
			sum += size(typed.At(i))
		}
	case *jinja.Dict:
		for i := range typed.Len() {
			key, item := typed.Entry(i)
			sum += size(key) + size(item)
		}
	}
	return sum
}

// properties puts those of an object in order, without titles that only repeat names.
func (n *normaliser) properties(v jinja.Value, refs []string) jinja.Value {
	properties, ok := v.(*jinja.Dict)
	if !ok {
		return v
	}
	out := jinja.NewDict()
	for i := range properties.Len() {
		key, item := properties.Entry(i)
		name := key.(string)
		item = n.schema(item, refs)
		if title, ok := stringAt(item.(*jinja.Dict), "title"); ok && title == generatedTitle(name) {
			item = merged(jinja.NewDict(), item.(*jinja.Dict), "title")
		}
		out.Set(name, item)
	}
	return out
}

// variants puts those of a oneOf in order.
func (n *normaliser) variants(v jinja.Value, refs []string) jinja.Value {
	list, ok := v.(*jinja.List)
	if !ok {
		return v
	}
	items := make([]jinja.Value, list.Len())
	for at := range items {
		items[at] = n.schema(list.At(at), refs)
		if kind, _ := stringAt(items[at].(*jinja.Dict), "type"); kind == "null" {
			items[at] = merged(items[at].(*jinja.Dict), jinja.NewDict(), "")
			items[at].(*jinja.Dict).Set("type", jinja.NewList("null")) // a plain null has no rule and would be any
		}
	}
	return jinja.NewList(items...)
}

// resolve finds a local reference such as #/$defs/Place.
func (n *normaliser) resolve(ref string) (*jinja.Dict, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	at, ok := n.root.(*jinja.Dict)
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if step == "" && path == "" {
			break
		}
		if !ok {
			return nil, false
		}
		v, _ := at.Get(unescape.Replace(step))
		at, ok = v.(*jinja.Dict)
	}
	return at, ok
}

// merged returns the entries of base, replaced or followed by those of over without key drop.
func merged(base, over *jinja.Dict, drop string) *jinja.Dict {
	out := jinja.NewDict()
	for _, from := range []*jinja.Dict{base, over} {
		for i := range from.Len() {
			if key, item := from.Entry(i); from != over || drop == "" || key != drop {
				out.Set(key.(string), item)
			}
		}
	}
	return out
}

// joined is merged, with the properties of both, and what both require.
func joined(base, over *jinja.Dict, drop string) *jinja.Dict {
	out := merged(base, over, drop)
	if first, ok := dictAt(base, "properties"); ok {
		if second, ok := dictAt(over, "properties"); ok {
			out.Set("properties", merged(first, second, ""))
		}
	}
	if first, ok := listAt(base, "required"); ok {
		if second, ok := listAt(over, "required"); ok {
			var both []jinja.Value
			for _, names := range []*jinja.List{first, second} {
				for i := range names.Len() {
					both = append(both, names.At(i))
				}
			}
			out.Set("required", jinja.NewList(both...))
		}
	}
	return out
}

// union makes of anyOf a list of types where its variants are only that, else oneOf, unless
// they only say which properties are required: as a oneOf they would hide them.
func union(schema *jinja.Dict, variants *jinja.List) *jinja.Dict {
	out := merged(jinja.NewDict(), schema, "anyOf")
	var kinds []jinja.Value // types of the variants, null apart
	null := false
	for i := range variants.Len() {
		variant, ok := variants.At(i).(*jinja.Dict)
		kind, plain, requires := "", false, false
		if ok {
			kind, plain = plainType(variant)
			_, requires = listAt(variant, "required")
		}
		switch _, object := dictAt(schema, "properties"); {
		case object && requires && variant.Len() == 1:
			return schema
		case !plain:
			out.Set("oneOf", variants)
			return out
		case kind == "null":
			null = true
		default:
			kinds = append(kinds, kind)
		}
	}
	if null {
		out.Set("nullable", true)
	}
	if len(kinds) == 1 {
		out.Set("type", kinds[0])
	} else {
		out.Set("type", jinja.NewList(kinds...))
	}
	return out
}

// plainType returns the type of a schema that says nothing else, description apart.
func plainType(schema *jinja.Dict) (string, bool) {
	kind, ok := stringAt(schema, "type")
	if _, described := schema.Get("description"); described {
		return kind, ok && schema.Len() == 2
	}
	return kind, ok && schema.Len() == 1
}

// literals makes const and enum something that typeText renders.
func literals(schema *jinja.Dict) {
	if only, ok := schema.Get("const"); ok {
		schema.Set("enum", jinja.NewList(only))
	}
	values, ok := listAt(schema, "enum")
	if !ok || values.Len() == 0 {
		return
	}
	numbers, texts := true, true
	all := make([]jinja.Value, values.Len())
	for i := range all {
		switch values.At(i).(type) {
		case string:
			numbers = false
		case nil, bool, *jinja.List, *jinja.Dict:
			numbers, texts = false, false
		default:
			texts = false
		}
		all[i] = JSON(values.At(i))
	}
	_, typed := schema.Get("type")
	switch {
	case numbers:
		schema.Set("type", jinja.NewList(all...)) // a list of types is rendered as it is
	case texts && !typed:
		schema.Set("type", "string")
	}
}

// generatedTitle is the title that schema generators give a property: "start_date"
// becomes "Start Date".
func generatedTitle(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words {
		if w != "" {
			words[i] = strings.ToUpper(w[:1]) + strings.ToLower(w[1:])
		}
	}
	return strings.Join(words, " ")
}
