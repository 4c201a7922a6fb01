package declare

import (
	"strings"

	"ossian/internal/jinja"
)

// typeText renders a JSON schema as the TypeScript-like type that gpt-oss was
// trained on (harmony.md 5.1); the numbers below are its rules.
func typeText(schema jinja.Value, indent string) string {
	dict, ok := schema.(*jinja.Dict)
	if !ok {
		return "any"
	}
	if variants, ok := listAt(dict, "oneOf"); ok { // 1
		var out strings.Builder
		for i := range variants.Len() {
			out.WriteString("\n" + indent + " | " + variant(variants.At(i), indent))
			out.WriteString(remarks(variants.At(i), true, true))
		}
		return out.String()
	}
	if kinds, ok := listAt(dict, "type"); ok { // 2
		var names []string
		for i := range kinds.Len() {
			switch name, ok := kinds.At(i).(string); {
			case name == "integer":
				names = append(names, "number")
			case ok:
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			return strings.Join(names, " | ")
		}
	}
	kind, _ := stringAt(dict, "type")
	switch kind { // 3
	case "object":
		return objectText(dict, indent)
	case "string":
		return stringText(dict)
	case "number", "integer":
		return "number"
	case "boolean":
		return "boolean"
	case "array":
		if items, ok := dict.Get("items"); ok {
			return typeText(items, indent) + "[]"
		}
		return "Array<any>"
	}
	return "any" // 4
}

// stringText is a string, or one of the strings of an enum.
func stringText(schema *jinja.Dict) string {
	values, _ := listAt(schema, "enum")
	var quoted []string
	for i := 0; values != nil && i < values.Len(); i++ {
		if v, ok := values.At(i).(string); ok {
			quoted = append(quoted, `"`+v+`"`)
		}
	}
	if len(quoted) == 0 {
		return "string"
	}
	return strings.Join(quoted, " | ")
}

// objectText is an object with its properties, one to a line.
func objectText(schema *jinja.Dict, indent string) string {
	var out strings.Builder
	if text, ok := stringAt(schema, "description"); ok {
		out.WriteString(indent + "// " + text + "\n")
	}
	out.WriteString("{\n")
	required := map[string]bool{}
	if names, ok := listAt(schema, "required"); ok {
		for i := range names.Len() {
			name, _ := names.At(i).(string)
			required[name] = true
		}
	}
	// Names that are not required have a question mark.
	if properties, ok := schema.Get("properties"); ok {
		members, _ := properties.(*jinja.Dict)
		for i := 0; members != nil && i < members.Len(); i++ {
			key, schema := members.Entry(i)
			name := key.(string)
			optional := "?"
			if required[name] {
				optional = ""
			}
			property(&out, name+optional, schema, indent)
		}
	}
	out.WriteString(indent + "}")
	return out.String()
}

// property writes one property: rules a to e.
func property(out *strings.Builder, name string, schema jinja.Value, indent string) {
	dict, ok := schema.(*jinja.Dict)
	if !ok {
		dict = jinja.NewDict()
	}
	if title, ok := stringAt(dict, "title"); ok { // a
		out.WriteString(indent + "// " + title + "\n" + indent + "//\n")
	}
	variants, several := listAt(dict, "oneOf")
	if description, ok := stringAt(dict, "description"); ok && !several { // b
		out.WriteString(indent + "// " + description + "\n")
	}
	if examples, ok := listAt(dict, "examples"); ok && examples.Len() > 0 { // c
		out.WriteString(indent + "// Examples:\n")
		for i := range examples.Len() {
			if example, ok := examples.At(i).(string); ok {
				out.WriteString(indent + "// - \"" + example + "\"\n")
			}
		}
	}
	if several { // d
		alternatives(out, name, dict, variants, indent)
		return
	}
	text := typeText(schema, indent+"    ") // e
	out.WriteString(indent + name + ": " + text + nullable(dict, text) + ",")
	if value, ok := dict.Get("default"); ok {
		out.WriteString(" // default: " + defaultText(value, !hasEnum(dict)))
	}
	out.WriteString("\n")
}

// alternatives writes a property that is one of several types: rule d.
func alternatives(out *strings.Builder, name string, schema *jinja.Dict, variants *jinja.List, indent string) {
	// A description that a variant has, too, is told once.
	description, described := stringAt(schema, "description")
	if variants.Len() > 0 && described {
		first, ok := variantText(variants.At(0))
		described = !ok || first != description
	}
	if described {
		out.WriteString(indent + "// " + description + "\n")
	}
	if value, ok := schema.Get("default"); ok {
		out.WriteString(indent + "// default: " + defaultText(value, !hasEnum(schema)) + "\n")
	}
	out.WriteString(indent + name + ":\n")
	for i := range variants.Len() {
		alternative := variants.At(i)
		text, ok := variantText(alternative)
		told := (i == 0 && described) || (ok && text == description)
		out.WriteString(indent + " | " + variant(alternative, indent) + remarks(alternative, !told, false) + "\n")
	}
	out.WriteString(indent + ",\n")
}

// variantText is the description of a variant.
func variantText(v jinja.Value) (string, bool) {
	if d, ok := v.(*jinja.Dict); ok {
		return stringAt(d, "description")
	}
	return "", false
}

// variant is one of several types behind " | ".
func variant(schema jinja.Value, indent string) string {
	text := typeText(schema, indent+"   ")
	if schema, ok := schema.(*jinja.Dict); ok {
		text += nullable(schema, text)
	}
	return text
}

// nullable is what follows a type that may be null, unless the type says so itself.
func nullable(s *jinja.Dict, text string) string {
	if v, ok := s.Get("nullable"); ok && v == true && !strings.Contains(text, "null") {
		return " | null"
	}
	return ""
}

// remarks are what is said behind a variant: its description unless that was told
// already, and its default, a string quoted if quote is set or it has no enum.
func remarks(v jinja.Value, describe, quote bool) string {
	schema, ok := v.(*jinja.Dict)
	if !ok {
		return ""
	}
	var all []string
	if text, ok := stringAt(schema, "description"); ok && describe {
		all = append(all, text)
	}
	if v, ok := schema.Get("default"); ok {
		all = append(all, "default: "+defaultText(v, quote || !hasEnum(schema)))
	}
	if len(all) == 0 {
		return ""
	}
	return " // " + strings.Join(all, " ")
}

// hasEnum reports whether values are listed.
func hasEnum(schema *jinja.Dict) bool {
	values, ok := listAt(schema, "enum")
	return ok && values.Len() > 0
}

// defaultText is a default as a remark shows it.
func defaultText(value jinja.Value, quote bool) string {
	if text, ok := value.(string); ok {
		if quote {
			return `"` + text + `"`
		}
		return text
	}
	return JSON(value)
}
