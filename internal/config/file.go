package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"ossian/internal/nearest"
)

const (
	maxFile  = 1 << 20 // bytes of a file that a setting names
	maxNodes = 100_000 // of a value, aliases followed: a file of 1 KB can name millions
)

// file reads settings from a YAML file by vLLM's rules (dependencies.md 5).
func (c *Config) file(name string, read func(string) ([]byte, error)) (map[string]*value, error) {
	if ext := strings.ToLower(filepath.Ext(name)); ext != ".yaml" && ext != ".yml" {
		return nil, fmt.Errorf("--config %s: a file named *.yaml or *.yml expected", name)
	}
	data, err := read(name)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	given, err := c.yaml(data, "file "+filepath.Base(name))
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", name, err)
	}
	return given, nil
}

// yaml reads the settings of a file's content, each key once.
func (c *Config) yaml(data []byte, origin string) (map[string]*value, error) {
	root, err := parseYAML(data)
	if err != nil {
		return nil, err
	}
	given := map[string]*value{}
	if root == nil {
		return given, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: a mapping of flag names to values expected", root.Line)
	}
	lines := map[string]int{} // by name, where it was given
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, node := root.Content[i], root.Content[i+1]
		if err := c.entry(given, lines, key, node, origin); err != nil {
			return nil, fmt.Errorf("line %d: %w", key.Line, err)
		}
	}
	return given, nil
}

// parseYAML returns the root of the only document, nil for an empty file.
func parseYAML(data []byte) (*yaml.Node, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%d bytes, at most %d expected", len(data), maxFile)
	}
	// One document; a second, even an empty one, is an error.
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case err == io.EOF:
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); err != io.EOF {
		return nil, errors.New("one YAML document expected, found more")
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 {
		return nil, nil
	}
	if root := doc.Content[0]; root.Kind != yaml.ScalarNode || root.Value != "" {
		return root, nil
	}
	return nil, nil
}

// entry adds one key: true is the bare flag, false its no- form, a list its items,
// a mapping its JSON, anything else its text.
func (c *Config) entry(given map[string]*value, lines map[string]int, key, node *yaml.Node, origin string) error {
	if key.Kind != yaml.ScalarNode {
		return errors.New("a flag's name expected")
	}
	row, off := c.lookup(key.Value)
	if row == nil || row.name == "config" {
		return fmt.Errorf("unknown key %.60q%s", key.Value, nearest.Hint(strings.ReplaceAll(key.Value, "_", "-"), c.known("")))
	}
	if at := lines[row.name]; at != 0 {
		return fmt.Errorf("%s is given twice, before in line %d", row.name, at)
	}
	lines[row.name] = key.Line
	// Scalars first as vLLM reads them: null is an error, true and false are for switches.
	node = followed(node)
	scalar := scalarOf(node)
	switch {
	case scalar.null:
		return fmt.Errorf("%s has no value; leave the key out for the default", row.name)
	case scalar.err != nil:
		return fmt.Errorf("%s: %w", row.name, scalar.err)
	case node.Kind == yaml.ScalarNode && scalar.boolean && row.kind != boolean:
		if scalar.text == "True" {
			return fmt.Errorf("%s needs a value, found true", row.name)
		}
		return nil // no flag of that name: nothing
	case row.kind == boolean && !(node.Kind == yaml.ScalarNode && scalar.boolean):
		return fmt.Errorf("%s: true or false expected", row.name)
	case off && scalar.text == "False":
		return nil // there is no --no-no-…
	case row.kind == boolean:
		return c.flip(given, row, (scalar.text == "True") != off, origin)
	}
	items, err := texts(node, scalar)
	if err != nil {
		return fmt.Errorf("%s: %w", row.name, err)
	}
	if node.Kind == yaml.SequenceNode && row.kind != list && len(items) > 1 {
		return fmt.Errorf("%s: one value expected, found a list of %d", row.name, len(items))
	}
	if len(items) > 0 {
		given[row.name] = &value{texts: items, origin: origin}
	}
	return nil
}

// followed is v, or what an alias stands for.
func followed(v *yaml.Node) *yaml.Node {
	for v.Kind == yaml.AliasNode && v.Alias != nil {
		v = v.Alias
	}
	return v
}

// texts returns a value as the arguments that it stands for.
func texts(node *yaml.Node, scalar scalarValue) ([]string, error) {
	budget := maxNodes
	switch node.Kind {
	case yaml.SequenceNode:
		// Items may be scalars, or JSON written as YAML.
		var items []string
		for _, item := range node.Content {
			item = followed(item)
			scalar := scalarOf(item)
			switch {
			case scalar.err != nil:
				return nil, scalar.err
			case scalar.null:
				return nil, errors.New("an item has no value")
			case item.Kind == yaml.ScalarNode:
				items = append(items, scalar.text)
			default:
				text, err := jsonOf(item, &budget)
				if err != nil {
					return nil, err
				}
				items = append(items, text)
			}
		}
		return items, nil
	case yaml.MappingNode:
		text, err := jsonOf(node, &budget)
		return one(text), err
	}
	return one(scalar.text), nil
}

// jsonOf writes a node as JSON, members in the file's order.
func jsonOf(v *yaml.Node, budget *int) (string, error) {
	b, err := appendJSON(nil, v, budget, 0)
	return string(b), err
}

// appendJSON is jsonOf behind dst. budget counts the values down, aliases followed.
func appendJSON(dst []byte, node *yaml.Node, budget *int, depth int) ([]byte, error) {
	node = followed(node)
	if *budget--; *budget < 0 || depth > 64 {
		return nil, fmt.Errorf("more than %d values, or nested deeper than 64 levels", maxNodes)
	}
	var err error
	switch node.Kind {
	case yaml.MappingNode:
		dst = append(dst, '{')
		for i := 0; i+1 < len(node.Content); i += 2 {
			if i > 0 {
				dst = append(dst, ',')
			}
			key := followed(node.Content[i])
			if key.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d: a key must be a text", key.Line)
			}
			dst = append(appendText(dst, key.Value), ':')
			if dst, err = appendJSON(dst, node.Content[i+1], budget, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, item := range node.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSON(dst, item, budget, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	}
	scalar := scalarOf(node)
	switch {
	case scalar.err != nil:
		return nil, scalar.err
	case scalar.null:
		return append(dst, "null"...), nil
	case scalar.boolean:
		return append(dst, strings.ToLower(scalar.text)...), nil
	case scalar.number && json.Valid([]byte(scalar.text)):
		return append(dst, scalar.text...), nil
	}
	return appendText(dst, scalar.text), nil
}

// appendText appends s as a JSON string.
func appendText(dst []byte, s string) []byte {
	b, _ := json.Marshal(s) // strings always can
	return append(dst, b...)
}
