package declare

import (
	"encoding/json"
	"strings"

	"ossian/internal/jinja"
)

// A Tool is what harmony declares: a function with parameters, or one that takes text.
type Tool struct {
	Name, Description string
	Text              bool            // it takes text: its type is all there is to say
	Parameters        json.RawMessage // JSON schema; nil or null = none
}

// Namespace declares the tools of a namespace in the words of harmony (harmony.md 5).
// Without tools its description says how to call it. Where the parameters of a tool are no
// JSON, the error is that of the tool at.
func Namespace(name, description string, tools []Tool) (text string, at int, err error) {
	var out strings.Builder
	out.WriteString("## " + name + "\n\n")
	if len(tools) == 0 {
		out.WriteString(strings.TrimSuffix(description, "\n"))
		return out.String(), 0, nil
	}
	out.WriteString(Comment(description) + "namespace " + name + " {\n\n")
	for at, tool := range tools {
		out.WriteString(Comment(tool.Description) + "type " + tool.Name + " = (")
		switch {
		case tool.Text:
			out.WriteString("_: string")
		case len(tool.Parameters) > 0 && string(tool.Parameters) != "null":
			schema, err := jinja.FromJSON(tool.Parameters)
			if err != nil {
				return "", at, err
			}
			out.WriteString("_: " + Type(schema))
		}
		out.WriteString(") => any;\n\n")
	}
	out.WriteString("} // namespace " + name)
	return out.String(), 0, nil
}

// Comment is a description as comment lines.
func Comment(description string) string {
	var out strings.Builder
	for line := range strings.Lines(description) {
		out.WriteString("// " + strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r") + "\n")
	}
	return out.String()
}
