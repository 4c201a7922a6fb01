package calljson

import "encoding/json"

// Unwrap returns the text inside of JSON, a string or an object with one; of other text
// all. If it was cut, what there is of the string.
func Unwrap(text string, cut bool) string {
	if inner, ok := inside(text); ok || !cut {
		return inner
	}
	for n := range min(len(text), len(`\u123`)+1) { // half an escape is too much
		for _, end := range []string{`"`, `"}`, `}`} {
			if inner, ok := inside(text[:len(text)-n] + end); ok {
				return inner
			}
		}
	}
	return text
}

// inside returns the text in a JSON string or in an object with one member.
func inside(text string) (string, bool) {
	var plain string
	if json.Unmarshal([]byte(text), &plain) == nil {
		return plain, true
	}
	var one map[string]*string
	if json.Unmarshal([]byte(text), &one) == nil && len(one) == 1 {
		for _, inner := range one {
			if inner != nil {
				return *inner, true
			}
		}
	}
	return text, false
}
