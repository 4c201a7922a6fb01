package browser

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"

	"ossian/internal/tools"
)

// arguments are those of a call. Members that are null are not there.
type arguments map[string]any

// parseArguments reads a JSON object; nothing at all is an empty one.
func parseArguments(text string) (arguments, bool) {
	if strings.TrimSpace(text) == "" {
		return arguments{}, true
	}
	var all arguments
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&all) != nil || all == nil {
		return nil, false
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, false
	}
	for name, value := range all {
		if value == nil {
			delete(all, name)
		}
	}
	return all, true
}

// An integer is one as a model wrote it: no longer than 64 bits, and in its own digits.
type integer struct {
	value int
	text  string
}

// toInteger reads 3, 3.0 and "3"; models write all of these.
func toInteger(value any) (integer, bool) {
	var text string
	switch v := value.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	}
	if n, err := strconv.Atoi(text); err == nil {
		return integer{n, strconv.Itoa(n)}, true
	}
	number, err := strconv.ParseFloat(text, 64)
	switch {
	case (err != nil && !math.IsInf(number, 0)) || number != math.Trunc(number) || !strings.ContainsAny(text, "0123456789"):
		return integer{}, false
	case math.Abs(number) > math.MaxInt32:
		return integer{int(math.Copysign(math.MaxInt32, number)), shortened(text)}, true
	}
	return integer{int(number), strconv.Itoa(int(number))}, true
}

// integer returns a member, -1 where it is not there.
func (a arguments) integer(name string) (integer, error) {
	value, ok := a[name]
	if !ok || value == "" {
		return integer{-1, "-1"}, nil
	}
	n, ok := toInteger(value)
	if !ok {
		return integer{}, misused("`" + name + "` should be an integer, not `" + typeName(value) + "`")
	}
	return n, nil
}

// string returns a member that is text, or a number, which models write for text that is one.
func (a arguments) string(name string) (string, bool) {
	switch v := a[name].(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}

// isTrue reads a member that is true or false.
func (a arguments) isTrue(name string) bool {
	switch v := a[name].(type) {
	case bool:
		return v
	case string:
		return strings.EqualFold(v, "true")
	}
	return false
}

// typeName is what Python calls the type of a value.
func typeName(value any) string {
	switch value.(type) {
	case string:
		return "str"
	case bool:
		return "bool"
	case json.Number:
		return "float"
	case []any:
		return "list"
	}
	return "dict"
}

// A problem is why a call gave nothing, in words for the model.
type problem struct {
	text    string
	outcome tools.Outcome
}

// Error implements error.
func (p *problem) Error() string { return p.text }

func misused(text string) error { return &problem{text: text, outcome: tools.Misused} }

// jsonError is a problem in the form in which calls that make no sense at all are answered.
func jsonError(text string) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string
	return misused(`{"error": ` + strings.TrimSpace(out.String()) + `}`)
}

// shortened cuts what others wrote to 1024 characters.
func shortened(text string) string {
	const limit = 1024
	if len(text) <= limit {
		return text
	}
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-3]) + "..."
	}
	return text
}
