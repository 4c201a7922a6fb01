package chat

import (
	"strconv"
	"strings"
	"unicode"
)

// functionNames are the names under which a conversation's tools are declared to
// gpt-oss, whose namespace syntax wants identifiers (harmony.md 5.3).
type functionNames struct {
	byTool   []string          // [tool]
	shown    map[string]string // declared → shown
	declared map[string]string // shown → declared
	folded   map[string]string // lower case of shown and declared → declared
}

func newFunctionNames(tools []Tool) *functionNames {
	names := &functionNames{shown: map[string]string{}, declared: map[string]string{}, folded: map[string]string{}}
	for _, tool := range tools {
		name := identifier(tool.Name)
		for k := 2; names.declared[name] != ""; k++ {
			name = identifier(tool.Name) + "_" + strconv.Itoa(k)
		}
		names.byTool = append(names.byTool, name)
		names.shown[tool.Name], names.declared[name] = name, tool.Name
		for _, s := range []string{name, tool.Name} {
			if low := strings.ToLower(s); names.folded[low] == "" {
				names.folded[low] = tool.Name
			}
		}
	}
	return names
}

// show is the name of a function in a prompt. Calls of functions that are no longer
// declared are still shown.
func (n *functionNames) show(declared string) string {
	if name, ok := n.shown[declared]; ok {
		return name
	}
	return identifier(declared)
}

// find returns the declared name of the function that the model means.
func (n *functionNames) find(name string) (string, bool) {
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
