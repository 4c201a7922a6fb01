package python

import (
	"encoding/json"
	"io"
	"strings"
)

// fields are the names that models give the source when they write a call as JSON.
var fields = []string{"code", "script", "input"}

// unwrapped returns the Python of a call: models write it as it is, fenced as in Markdown, or as
// the one field of a JSON object, where their format has functions only.
func unwrapped(text string) string {
	return unfenced(unquoted(text))
}

// unquoted returns the one string in a JSON object with one field of a known name, else the text.
func unquoted(text string) string {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return text
	}
	reader := json.NewDecoder(strings.NewReader(text))
	var object map[string]any
	if reader.Decode(&object) != nil || len(object) != 1 {
		return text
	}
	if _, err := reader.Token(); err != io.EOF {
		return text
	}
	for _, field := range fields {
		if code, ok := object[field].(string); ok {
			return code
		}
	}
	return text
}

// unfenced returns what stands between the marks when they enclose the whole text.
func unfenced(text string) string {
	trimmed := strings.TrimSpace(text)
	inner, opens := strings.CutPrefix(trimmed, "```")
	inner, closes := strings.CutSuffix(inner, "```")
	if !opens || !closes || len(trimmed) < 6 || strings.Contains(inner, "```") {
		return text
	}
	language, code, found := strings.Cut(inner, "\n")
	if !found {
		return inner
	}
	switch strings.ToLower(strings.TrimSpace(language)) {
	case "", "python", "python3", "py":
		return code
	}
	return text
}
