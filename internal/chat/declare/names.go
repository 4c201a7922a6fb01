package declare

import (
	"strconv"
	"strings"
	"unicode"
)

// Names are the names under which a conversation's tools are declared to gpt-oss, whose
// namespace syntax wants identifiers (harmony.md 5.3). Nobody changes them.
type Names struct {
	ByTool   []string          // [tool]
	shown    map[string]string // declared → shown
	declared map[string]string // shown → declared
	folded   map[string]string // lower case of shown and declared → declared
}

// NewNames returns the names of tools, given as they were declared.
func NewNames(tools []string) *Names {
	names := &Names{shown: map[string]string{}, declared: map[string]string{}, folded: map[string]string{}}
	for _, tool := range tools {
		name := identifier(tool)
		for k := 2; names.taken(name); k++ {
			name = identifier(tool) + "_" + strconv.Itoa(k)
		}
		names.ByTool = append(names.ByTool, name)
		names.shown[tool], names.declared[name] = name, tool
		for _, s := range []string{name, tool} {
			if _, known := names.folded[strings.ToLower(s)]; !known {
				names.folded[strings.ToLower(s)] = tool
			}
		}
	}
	return names
}

// taken reports whether a tool has that name already.
func (n *Names) taken(name string) bool {
	_, ok := n.declared[name]
	return ok
}

// Show is the name of a function in a prompt. Calls of functions that are no longer
// declared are still shown.
func (n *Names) Show(declared string) string {
	if name, ok := n.shown[declared]; ok {
		return name
	}
	return identifier(declared)
}

// Find returns the declared name of the function that the model means.
func (n *Names) Find(name string) (string, bool) {
	if declared, ok := n.declared[name]; ok {
		return declared, true
	}
	if _, ok := n.shown[name]; ok {
		return name, true
	}
	declared, ok := n.folded[strings.ToLower(name)]
	return declared, ok
}

// identifier makes a name of letters, digits, _ and $.
func identifier(name string) string {
	name = strings.Map(func(char rune) rune {
		switch {
		case char == ' ' || char == '-' || char == '.':
			return '_'
		case char == '_' || char == '$' || unicode.IsLetter(char) || unicode.IsDigit(char):
			return char
		}
		return -1
	}, name)
	switch {
	case name == "":
		return "unnamed"
	case unicode.IsDigit([]rune(name)[0]):
		return "_" + name
	}
	return name
}

// Speaker is an author with a name, which must not look like more of the header.
func Speaker(role, name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || (r >= '0' && r <= '9') || (r >= 'A' && r <= 'Z') || (r >= 'a' && r <= 'z') {
			return r
		}
		return -1
	}, name)
	if name == "" {
		return role
	}
	return role + ":" + name
}
