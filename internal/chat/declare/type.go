package declare

import (
	"strings"

	"ossian/internal/jinja"
)

// typeText renders a JSON schema as the TypeScript-like type that gpt-oss was
// trained on (harmony.md 5.1); the numbers below are its rules.
func typeText(schema jinja.Value, indent string) string {
	s, ok := schema.(*jinja.Dict)
	if !ok {
		return "any"
	}
	if variants, ok := listAt(s, "oneOf"); ok { // 1
		var out strings.Builder
		for i := range variants.Len() {
			out.WriteString("\n" + indent + " | " + variant(variants.At(i), indent))
			out.WriteString(remarks(variants.At(i), true, true))
		}
		return out.String()
	}
	if kinds, ok := listAt(s, "type"); ok { // 2
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
	kind, _ := stringAt(s, "type")
	switch kind { // 3
	case "object":
		return objectText(s, indent)
	case "string":
		return stringText(s)
	case "number", "integer":
		return "number"
	case "boolean":
		return "boolean"
	case "array":
		if items, ok := s.Get("items"); ok {
			return typeText(items, indent) + "[]"
		}
		return "Array<any>"
	}
	return "any" // 4
}

func stringText(s *jinja.Dict) string {
	values, _ := listAt(s, "enum")
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

func objectText(s *jinja.Dict, indent string) string {
	var out strings.Builder
	if text, ok := stringAt(s, "description"); ok {
		out.WriteString(indent + "// " + text + "\n")
	}
	out.WriteString("{\n")
	required := map[string]bool{}
	if names, ok := listAt(s, "required"); ok {
		for i := range names.Len() {
			name, _ := names.At(i).(string)
			required[name] = true
		}
	}
	if properties, ok := s.Get("properties"); ok {
		d, _ := properties.(*jinja.Dict)
		for i := 0; d != nil && i < d.Len(); i++ {
			key, schema := d.Entry(i)
			name := key.(string)
			mark := "?"
			if required[name] {
				mark = ""
			}
			property(&out, name+mark, schema, indent)
		}
	}
	out.WriteString(indent + "}")
	return out.String()
}

// property writes one property: rules a to e.
func property(out *strings.Builder, name string, schema jinja.Value, indent string) {
	s, ok := schema.(*jinja.Dict)
	if !ok {
		s = jinja.NewDict()
	}
	if title, ok := stringAt(s, "title"); ok { // a
		out.WriteString(indent + "// " + title + "\n" + indent + "//\n")
	}
	variants, several := listAt(s, "oneOf")
	if description, ok := stringAt(s, "description"); ok && !several { // b
		out.WriteString(indent + "// " + description + "\n")
	}
	if examples, ok := listAt(s, "examples"); ok && examples.Len() > 0 { // c
		out.WriteString(indent + "// Examples:\n")
		for i := range examples.Len() {
			if example, ok := examples.At(i).(string); ok {
				out.WriteString(indent + "// - \"" + example + "\"\n")
			}
		}
	}
	if several { // d
		alternatives(out, name, s, variants, indent)
		return
	}
	text := typeText(schema, indent+"    ") // e
	out.WriteString(indent + name + ": " + text + nullable(s, text) + ",")
	if v, ok := s.Get("default"); ok {
		out.WriteString(" // default: " + defaultText(v, !hasEnum(s)))
	}
	out.WriteString("\n")
}

// alternatives writes a property that is one of several types: rule d.
func alternatives(out *strings.Builder, name string, s *jinja.Dict, variants *jinja.List, indent string) {
	description, described := stringAt(s, "description")
	if variants.Len() > 0 && described {
		first, ok := variantText(variants.At(0))
		described = !ok || first != description
	}
	if described {
		out.WriteString(indent + "// " + description + "\n")
	}
	if v, ok := s.Get("default"); ok {
		out.WriteString(indent + "// default: " + defaultText(v, !hasEnum(s)) + "\n")
	}
	out.WriteString(indent + name + ":\n")
	for i := range variants.Len() {
		v := variants.At(i)
		text, ok := variantText(v)
		told := (i == 0 && described) || (ok && text == description)
		out.WriteString(indent + " | " + variant(v, indent) + remarks(v, !told, false) + "\n")
	}
	out.WriteString(indent + ",\n")
}

func variantText(v jinja.Value) (string, bool) {
	if d, ok := v.(*jinja.Dict); ok {
		return stringAt(d, "description")
	}
	return "", false
}

// variant is one of several types behind " | ".
func variant(v jinja.Value, indent string) string {
	text := typeText(v, indent+"   ")
	if d, ok := v.(*jinja.Dict); ok {
		text += nullable(d, text)
	}
	return text
}

func nullable(s *jinja.Dict, text string) string {
	if v, ok := s.Get("nullable"); ok && v == true && !strings.Contains(text, "null") {
		return " | null"
	}
	return ""
}

// remarks are what is said behind a variant: its description unless that was told
// already, and its default, a string quoted if quote is set or it has no enum.
func remarks(v jinja.Value, describe, quote bool) string {
	d, ok := v.(*jinja.Dict)
	if !ok {
		return ""
	}
	var all []string
	if text, ok := stringAt(d, "description"); ok && describe {
		all = append(all, text)
	}
	if v, ok := d.Get("default"); ok {
		all = append(all, "default: "+defaultText(v, quote || !hasEnum(d)))
	}
	if len(all) == 0 {
		return ""
	}
	return " // " + strings.Join(all, " ")
}

func hasEnum(d *jinja.Dict) bool {
	values, ok := listAt(d, "enum")
	return ok && values.Len() > 0
}

func defaultText(v jinja.Value, quote bool) string {
	if text, ok := v.(string); ok {
		if quote {
			return `"` + text + `"`
		}
		return text
	}
	return JSON(v)
}
