package planfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"ossian/internal/nearest"
)

// An Error says what is wrong with one place of a plan, and what belongs there.
type Error struct {
	Key      string // path of keys: engines.vllm.start
	Line     int    // of the file, from 1; 0: given with --set, or missing as a whole
	Expected string // what belongs there
	Found    string // what stands there; empty where something is missing
}

func (e *Error) Error() string {
	text := e.Key + ": " + e.Expected
	if e.Found != "" {
		text += ", found " + e.Found
	}
	if e.Line > 0 {
		return fmt.Sprintf("line %d: %s", e.Line, text)
	}
	return text
}

// maxErrors bounds how many mistakes are told at once.
const maxErrors = 20

// reader goes through the nodes of a plan and collects what is wrong, so that a user mends all of it in
// one go. Its methods return zero values for what they have complained about.
type reader struct {
	errs  []error
	meant string // by misspelt keys of the whole, as hints have it
}

// misspelt reports whether a key of the whole stands there under another name: what seems to be missing does
// not need a complaint of its own.
func (r *reader) misspelt(key string) bool {
	return strings.Contains(r.meant, "did you mean "+key+"?")
}

// fail notes a mistake at a node.
func (r *reader) fail(key string, node *yaml.Node, expected string) {
	found, line := "", 0
	if node != nil {
		line = node.Line
		found = shown(node)
	}
	r.failAt(key, line, expected, found)
}

func (r *reader) failAt(key string, line int, expected, found string) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, &Error{Key: key, Line: line, Expected: expected, Found: found})
	}
}

// err returns all that was noted.
func (r *reader) err() error { return errors.Join(r.errs...) }

// shown is what stands at a node, in few words.
func shown(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return fmt.Sprintf("a list of %d", len(node.Content))
	case yaml.ScalarNode:
		if isNull(node) {
			return "nothing"
		}
		return strconv.QuoteToGraphic(clip(node.Value, 60))
	}
	return "something else"
}

// clip shortens a text to so many bytes.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// isNull reports whether a node says that there is no value.
func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

// followed is node, or what an alias stands for.
func followed(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode && node.Alias != nil {
		node = node.Alias
	}
	return node
}

// entry is a key of a mapping with its value.
type entry struct {
	name string
	key  string // the whole path
	line int    // of the name
	node *yaml.Node
}

// entries returns those of a mapping in the order of the file.
func (r *reader) entries(key string, node *yaml.Node, expected string) (out []entry) {
	if node.Kind != yaml.MappingNode {
		r.fail(key, node, expected)
		return nil
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := followed(node.Content[i]), followed(node.Content[i+1])
		path := join(key, name.Value)
		switch before, again := seen[name.Value]; {
		case name.Kind != yaml.ScalarNode || name.Value == "":
			r.fail(key, name, "a name expected as key")
			continue
		case again:
			r.failAt(path, name.Line, fmt.Sprintf("given once expected, before it stands in line %d", before), "")
			continue
		}
		seen[name.Value] = name.Line
		out = append(out, entry{name: name.Value, key: path, line: name.Line, node: value})
	}
	return out
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// fields gives each entry of a mapping to the function of its name; a name without one is refused.
func (r *reader) fields(key string, node *yaml.Node, what string, known map[string]func(entry)) {
	for _, e := range r.entries(key, node, what+" expected") {
		read, ok := known[e.name]
		if !ok {
			names := slices.Sorted(maps.Keys(known))
			meant := hint(e.name, names)
			if key == "" {
				r.meant += meant
			}
			r.failAt(e.key, e.line, "unknown key"+meant+" (known here: "+strings.Join(names, ", ")+")", "")
			continue
		}
		read(e)
	}
}

// hint is the key that was meant by another one: one that has it as its last or first word, as request_rate
// has rate, else the one that is spelt most like it.
func hint(name string, known []string) string {
	for _, has := range []func(key string) bool{
		func(key string) bool { return strings.HasSuffix(key, "_"+name) },
		func(key string) bool { return strings.HasPrefix(key, name+"_") },
	} {
		if fits := slices.DeleteFunc(slices.Clone(known), func(key string) bool { return !has(key) }); len(fits) == 1 {
			return "; did you mean " + fits[0] + "?"
		}
	}
	return nearest.Hint(name, known)
}

// text reads a scalar that is not empty.
func (r *reader) text(e entry, expected string) string {
	if e.node.Kind != yaml.ScalarNode || isNull(e.node) || e.node.Value == "" {
		r.fail(e.key, e.node, expected+" expected")
		return ""
	}
	return e.node.Value
}

// oneOf reads one of several words.
func (r *reader) oneOf(e entry, words ...string) string {
	text := r.text(e, "one of "+strings.Join(words, ", "))
	if text != "" && !slices.Contains(words, text) {
		r.fail(e.key, e.node, "one of "+strings.Join(words, ", ")+" expected"+nearest.Hint(text, words))
		return ""
	}
	return text
}

// integer reads a whole number of at least low and at most high.
func (r *reader) integer(e entry, low, high int) int {
	n, err := strconv.Atoi(strings.ReplaceAll(e.node.Value, "_", ""))
	if e.node.Kind != yaml.ScalarNode || err != nil || n < low || n > high {
		r.fail(e.key, e.node, fmt.Sprintf("a whole number from %d to %d expected", low, high))
		return low
	}
	return n
}

// number reads a number above zero.
func (r *reader) number(e entry, unit string) float64 {
	n, err := strconv.ParseFloat(e.node.Value, 64)
	if e.node.Kind != yaml.ScalarNode || err != nil || !(n > 0) || n > 1e15 {
		r.fail(e.key, e.node, "a number above 0 expected, in "+unit)
		return 1
	}
	return n
}

// boolean reads true or false.
func (r *reader) boolean(e entry) bool {
	if e.node.Kind != yaml.ScalarNode || (e.node.Value != "true" && e.node.Value != "false") {
		r.fail(e.key, e.node, "true or false expected")
	}
	return e.node.Value == "true"
}

// duration reads a time with its unit.
func (r *reader) duration(e entry) time.Duration {
	d, err := time.ParseDuration(e.node.Value)
	if e.node.Kind != yaml.ScalarNode || err != nil || d <= 0 {
		r.fail(e.key, e.node, "a duration with its unit expected, such as 90s, 30m or 6h")
		return 0
	}
	return d
}

// texts reads a list of scalars, or one.
func (r *reader) texts(e entry, expected string) (out []string) {
	nodes := []*yaml.Node{e.node}
	if e.node.Kind == yaml.SequenceNode {
		nodes = e.node.Content
	}
	for i, node := range nodes {
		item := entry{key: fmt.Sprintf("%s[%d]", e.key, i), node: followed(node)}
		if e.node.Kind != yaml.SequenceNode {
			item.key = e.key
		}
		if text := r.text(item, expected); text != "" {
			out = append(out, text)
		}
	}
	if len(nodes) == 0 {
		r.fail(e.key, e.node, expected+" expected")
	}
	return out
}

// items returns the elements of a list.
func (r *reader) items(e entry, expected string) (out []entry) {
	if e.node.Kind != yaml.SequenceNode {
		r.fail(e.key, e.node, expected+" expected")
		return nil
	}
	for i, node := range e.node.Content {
		node = followed(node)
		out = append(out, entry{key: fmt.Sprintf("%s[%d]", e.key, i), line: node.Line, node: node})
	}
	return out
}
