package planfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"ossian/internal/lazyregexp"
	"ossian/internal/nearest"
)

const (
	maxFile      = 1 << 20 // bytes of a plan
	maxNodes     = 100_000 // of a plan, aliases followed: a file of 1 KB can name millions
	maxNodeDepth = 50
)

// Options are what a plan is read with.
type Options struct {
	Name  string            // of a plan that has none: the file's, without its ending
	Set   []string          // A.B=VALUE, later ones win: entries of the plan replaced or added
	Kinds map[string]Engine // built-in descriptions of engines, by kind
}

// Read returns the plan that a file's content describes. Its error joins *Error, one for each mistake.
func Read(data []byte, opts Options) (*Plan, error) {
	root, err := parse(data, "a plan")
	if errors.Is(err, errEmpty) {
		return nil, errors.New("a plan expected, found an empty file; `ossian lab run --example` prints one")
	}
	if err != nil {
		return nil, err
	}
	for _, set := range opts.Set {
		if err := override(root, set); err != nil {
			return nil, err
		}
	}
	plan := &planReader{kinds: opts.Kinds, plan: Plan{
		Name: opts.Name, Cache: CacheReset, Seed: 42,
		Machine:  Machine{Power: "auto"},
		Equality: Equality{Prompts: 32, Tokens: 64},
	}}
	plan.read(root)
	if err := plan.err(); err != nil {
		return nil, err
	}
	return &plan.plan, nil
}

// errEmpty is what parse returns of a file without anything but remarks.
var errEmpty = errors.New("an empty file")

// parse returns the mapping that is the only document of a file, which is what it is called.
func parse(data []byte, what string) (*yaml.Node, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s of at most %d bytes expected, found %d", what, maxFile, len(data))
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, errEmpty
	case err != nil:
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("one YAML document expected, found more")
	}
	root := followed(document.Content[0])
	budget := maxNodes
	if !small(root, &budget, 0) {
		return nil, fmt.Errorf("%s of at most %d values, %d deep, expected: aliases make this one larger", what, maxNodes, maxNodeDepth)
	}
	if root.Kind != yaml.MappingNode {
		return nil, &Error{Key: "the " + strings.TrimPrefix(what, "a "), Line: root.Line, Expected: "a mapping of names to values expected", Found: shown(root)}
	}
	return root, nil
}

// small reports whether a tree has no more nodes than budget, which it lowers, and is not too deep.
func small(node *yaml.Node, budget *int, depth int) bool {
	if *budget--; *budget < 0 || depth > maxNodeDepth {
		return false
	}
	node = followed(node)
	return !slices.ContainsFunc(node.Content, func(child *yaml.Node) bool { return !small(child, budget, depth+1) })
}

// override puts a value at a path of names, A.B.C=VALUE, where mappings that are missing are made and
// a number is the place in a list, from 0.
func override(root *yaml.Node, set string) error {
	path, text, ok := strings.Cut(set, "=")
	if !ok || slices.Contains(strings.Split(path, "."), "") {
		return fmt.Errorf("--set %s: NAME.NAME=VALUE expected, with no name empty", set)
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return fmt.Errorf("--set %s: the value is no YAML: %w", set, err)
	}
	value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	if len(document.Content) > 0 {
		value = document.Content[0]
	}
	unnumber(value)
	names := strings.Split(path, ".")
	place := root
	for i, name := range names {
		next, err := child(place, name)
		if err != nil {
			return fmt.Errorf("--set %s: %s: %w", set, strings.Join(names[:i+1], "."), err)
		}
		place = next
	}
	*place = *value
	return nil
}

// unnumber takes the line numbers of --set's own text off.
func unnumber(node *yaml.Node) {
	node.Line = 0
	for _, child := range node.Content {
		unnumber(child)
	}
}

// child is the value of a name in a mapping, made where it is missing, or the element of a list.
func child(node *yaml.Node, name string) (*yaml.Node, error) {
	node = followed(node)
	if isNull(node) {
		node.Kind, node.Tag, node.Value = yaml.MappingNode, "!!map", ""
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return node.Content[i+1], nil
			}
		}
		value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
		node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, value)
		return value, nil
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], nil
		}
		return nil, fmt.Errorf("a place from 0 to %d in the list expected", len(node.Content)-1)
	}
	return nil, fmt.Errorf("a mapping or a list expected above it, found %s", shown(node))
}

// planReader fills a plan in.
type planReader struct {
	reader
	kinds map[string]Engine
	plan  Plan
	nodes struct { // read after the names that they use are known
		objective, generalise *entry
		options               *entry
	}
}

// planName is what a campaign may be called: it becomes the name of a directory.
var planName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func (r *planReader) read(root *yaml.Node) {
	later := func(place **entry) func(entry) { return func(e entry) { *place = &e } }
	r.fields("", root, "a mapping", map[string]func(entry){
		"name":       func(e entry) { r.plan.Name = r.name(e) },
		"model":      func(e entry) { r.models(e, "model") },
		"models":     func(e entry) { r.models(e, "models") },
		"objective":  later(&r.nodes.objective),
		"budget":     r.budget,
		"machine":    r.machine,
		"engines":    r.engines,
		"options":    later(&r.nodes.options),
		"workloads":  r.workloads,
		"generalise": later(&r.nodes.generalise),
		"equality":   r.equality,
		"compare": func(e entry) {
			r.plan.Compare, r.plan.CompareLine = r.texts(e, "names of result files and ledgers"), e.line
		},
		"cache": func(e entry) { r.plan.Cache = r.oneOf(e, CacheReset, CacheSalt, CacheCarry) },
		"seed":  func(e entry) { r.plan.Seed = uint64(r.integer(e, 0, 1<<31-1)) },
	})
	r.complete()
}

// complete fills in what was not said and reads what refers to other parts.
func (r *planReader) complete() {
	if len(r.plan.Models) == 0 && !r.misspelt("model") && !r.misspelt("models") {
		r.failAt("model", 0, "the model to serve expected", "")
	}
	if len(r.plan.Engines) == 0 && len(r.errs) == 0 {
		r.addEngine("ossian", entry{key: "engines.ossian"})
	}
	if len(r.plan.Workloads) == 0 && len(r.errs) == 0 {
		r.failAt("workloads", 0, "at least one workload expected, such as short: {dataset: random, input_len: 128, output_len: 4, num_prompts: 1000}", "")
	}
	// What a misspelt key would have defined is not there: who refers to it is not wrong for that.
	if r.nodes.options != nil && !(r.misspelt("engines") && len(r.plan.Engines) == 0) {
		r.options(*r.nodes.options)
	}
	if r.misspelt("workloads") && len(r.plan.Workloads) == 0 {
		return
	}
	if r.nodes.generalise != nil {
		r.generalise(*r.nodes.generalise)
	}
	r.objective()
	if r.plan.Name == "" {
		r.plan.Name = "campaign"
	}
}

func (r *planReader) name(e entry) string {
	const expected = "a name of letters, digits, dots and hyphens, at most 100,"
	text := r.text(e, expected)
	if text != "" && !planName.MatchString(text) {
		r.fail(e.key, e.node, expected+" expected: it becomes a directory")
	}
	return text
}

func (r *planReader) models(e entry, word string) {
	if len(r.plan.Models) > 0 {
		r.failAt(e.key, e.line, "model or models expected, not both", "")
		return
	}
	if word == "model" {
		if text := r.text(e, "a model's name, directory or file"); text != "" {
			r.plan.Models = []string{text}
		}
		return
	}
	r.plan.Models = r.texts(e, "models' names, directories or files")
	if len(slices.Compact(slices.Sorted(slices.Values(r.plan.Models)))) < len(r.plan.Models) {
		r.failAt(e.key, e.line, "each model once expected", "")
	}
}

func (r *planReader) budget(e entry) {
	r.fields(e.key, e.node, "time and trials", map[string]func(entry){
		"time":   func(e entry) { r.plan.Budget.Time = r.duration(e) },
		"trials": func(e entry) { r.plan.Budget.Trials = r.integer(e, 1, 1_000_000) },
	})
}

func (r *planReader) machine(e entry) {
	r.fields(e.key, e.node, "price_per_hour and power", map[string]func(entry){
		"price_per_hour": func(e entry) { r.plan.Machine.PricePerHour = r.number(e, "a currency of yours per hour") },
		"power":          func(e entry) { r.plan.Machine.Power = r.oneOf(e, "auto", "rapl", "nvml", "off") },
	})
}

func (r *planReader) equality(e entry) {
	r.fields(e.key, e.node, "prompts and tokens", map[string]func(entry){
		"prompts": func(e entry) { r.plan.Equality.Prompts = r.integer(e, 0, 10_000) },
		"tokens":  func(e entry) { r.plan.Equality.Tokens = r.integer(e, 1, 10_000) },
	})
}

// workload finds one of the plan by name.
func (r *planReader) workload(name string) *Workload {
	for i := range r.plan.Workloads {
		if r.plan.Workloads[i].Name == name {
			return &r.plan.Workloads[i]
		}
	}
	return nil
}

// generalise takes the workloads that baseline and winner run at the end; known ones need no entry.
func (r *planReader) generalise(e entry) {
	for _, name := range r.texts(e, "names of workloads") {
		switch known, ok := published[name]; {
		case slices.Contains(r.plan.Generalise, name):
			r.failAt(e.key, e.line, "each workload once expected", strconv.Quote(name))
			continue
		case r.workload(name) != nil:
		case ok:
			known.Name = name
			r.plan.Workloads = append(r.plan.Workloads, known)
		default:
			names := slices.Sorted(maps.Keys(published))
			for _, workload := range r.plan.Workloads {
				names = append(names, workload.Name)
			}
			r.failAt(e.key, e.line, "a workload of the plan or one of "+strings.Join(slices.Sorted(maps.Keys(published)), ", ")+" expected"+nearest.Hint(name, names), strconv.Quote(name))
			continue
		}
		r.plan.Generalise = append(r.plan.Generalise, name)
	}
}
