// Package shown puts marks into what a chat template has to show: one that is missing in
// what it renders was dropped. Who uses it need not know what templates do with names and
// arguments, nor how they spell them.
package shown

import (
	"fmt"
	"strings"

	"ossian/internal/jinja"
)

// Mark is a text that no template has, and that templates pass on as it is: a name for
// n that is no part of any other.
func Mark(n int) string { return fmt.Sprintf("ossian_probe_%dx", n) }

// Arguments returns the arguments of a call with a mark in them: in an object a member
// more, of which objects keep the others.
func Arguments(arguments, mark string) string {
	members, isObject := strings.CutPrefix(strings.TrimLeft(arguments, " \t\r\n"), "{")
	if !isObject {
		return arguments + mark
	}
	member := `{"` + mark + `":"` + mark + `"`
	if strings.TrimSpace(members) != "}" {
		member += ","
	}
	return member + members
}

// Named reports whether a rendered text has a name, as it is or as templates write it in
// JSON.
func Named(text, name string) bool {
	if strings.Contains(text, name) {
		return true
	}
	quoted, err := jinja.ToJSON(name)
	return err == nil && strings.Contains(text, strings.Trim(quoted, `"`))
}
