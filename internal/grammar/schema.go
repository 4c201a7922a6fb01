package grammar

import (
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Keywords of JSON Schema 2020-12 and of what is written beside it. Those not listed
// are annotations by the standard's own rule; Ignored names them.
var (
	applied = []string{"$ref", "additionalItems", "additionalProperties", "allOf", "anyOf", "const", "enum", "exclusiveMaximum", "exclusiveMinimum",
		"format", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf",
		"nullable", "oneOf", "pattern", "patternProperties", "prefixItems", "properties", "propertyNames", "required", "type",
		"unevaluatedProperties", "uniqueItems"}
	annotations = []string{"$anchor", "$comment", "$defs", "$id", "$schema", "$vocabulary", "contentEncoding", "contentMediaType", "contentSchema",
		"default", "definitions", "deprecated", "description", "discriminator", "example", "examples", "externalDocs", "id", "readOnly", "title",
		"writeOnly", "xml"}
	refused = map[string]string{
		"not":               "say what is allowed instead",
		"if":                "use anyOf with one alternative for each case",
		"then":              "use anyOf with one alternative for each case",
		"else":              "use anyOf with one alternative for each case",
		"dependentSchemas":  "use anyOf with one alternative for each case",
		"dependentRequired": "use anyOf with one alternative for each case",
		"dependencies":      "use anyOf with one alternative for each case",
		"contains":          "put the element into prefixItems",
		"minContains":       "put the elements into prefixItems",
		"maxContains":       "describe all elements with items",
		"unevaluatedItems":  "use items: false",
		"$dynamicRef":       "use $ref",
		"$recursiveRef":     "use $ref",
	}
)

// A types is a set of JSON types. A number is an integer or a fraction.
type types uint8

const (
	tNull types = 1 << iota
	tBool
	tInteger
	tFraction
	tString
	tArray
	tObject
	tNumber = tInteger | tFraction
	tAll    = 1<<7 - 1
)

var typeNames = map[string]types{"null": tNull, "boolean": tBool, "integer": tInteger, "number": tNumber, "string": tString, "array": tArray, "object": tObject}

// compiler turns schemas into rules. What it works on is a conjunction: schemas that
// all hold for one value. Each becomes one rule, so that recursion ends.
type compiler struct {
	b        *budget
	root     *value
	rules    []rule
	names    map[string]int // rules by conjunction or purpose
	pending  []conjunction
	ids      map[*value]int
	frame    int
	ignored  []Ignored
	checked  map[*value]bool
	targets  map[*value]*value // of $ref, found
	anchors  map[string]*value
	barred   *value                // the last schema false that was met
	machines map[string]*automaton // of patterns
	texts    map[string]*expr      // strings with patterns and formats
	rings    map[*value]int8       // by circular: 1 = being looked at, or part of a ring; 2 = fine
	space    *expr
	colon    *expr
	err      error
}

type conjunction struct {
	rule  int
	nodes []*value
}

// schemaRules appends the rules of a schema, that of a frame, to rules, its root first.
func schemaRules(rules []rule, src Source, b *budget, frame int) ([]rule, []Ignored, error) {
	text := src.Text
	if src.Kind == Object {
		text = `{"type":"object"}`
	}
	root, err := readJSON(text)
	if err != nil {
		return nil, nil, err
	}
	c := &compiler{b: b, root: root, frame: frame, names: map[string]int{}, ids: map[*value]int{}, checked: map[*value]bool{}, targets: map[*value]*value{}, anchors: map[string]*value{}, rings: map[*value]int8{}, machines: map[string]*automaton{}, texts: map[string]*expr{}, colon: opt(lit(" "))}
	c.drop(root)
	start := len(rules)
	c.rules = append(rules, rule{name: "root", at: root})
	if src.Space != "" {
		a, err := compilePattern(src.Space, pattern{where: "whitespace pattern"}, b)
		if err != nil {
			return nil, nil, err
		}
		c.space = machine(a)
		c.colon = c.space
	} else {
		indent := c.shared("indent", func() *expr { return repeat(class('\t', '\t', ' ', ' '), 0, 20) })
		c.space = opt(alt(lit(" "), cat(lit("\n"), indent)))
	}
	c.rules[start].body = c.all([]*value{root})
	for len(c.pending) > 0 && c.err == nil && b.err == nil {
		job := c.pending[0]
		c.pending = c.pending[1:]
		c.rules[job.rule].body = c.conjunction(job.nodes)
	}
	if c.err != nil {
		return nil, nil, c.err
	}
	return c.rules, c.ignored, b.err
}

func (c *compiler) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// shared returns a reference to the rule of a purpose.
func (c *compiler) shared(name string, body func() *expr) *expr {
	i, ok := c.names[name]
	if !ok {
		i = len(c.rules)
		c.names[name] = i
		c.rules = append(c.rules, rule{name: name})
		c.rules[i].body = body()
	}
	return ref(i)
}

// all returns a reference to the rule of a conjunction, to be compiled later.
func (c *compiler) all(nodes []*value) *expr {
	var key strings.Builder
	for i, n := range nodes {
		if slices.Contains(nodes[:i], n) {
			continue
		}
		if _, ok := c.ids[n]; !ok {
			c.ids[n] = len(c.ids)
		}
		key.WriteString("&" + strconv.Itoa(c.ids[n]))
	}
	i, ok := c.names[key.String()]
	if !ok {
		i = len(c.rules)
		c.names[key.String()] = i
		c.rules = append(c.rules, rule{name: "schema", body: never})
		if len(nodes) > 0 {
			c.rules[i].at = nodes[0]
		}
		c.pending = append(c.pending, conjunction{i, nodes})
	}
	c.b.spend(1 + len(nodes))
	return ref(i)
}

func (c *compiler) conjunction(nodes []*value) *expr {
	var sub []*expr
	c.barred = nil
	for _, flat := range c.expand(nodes) {
		sub = append(sub, c.flat(flat))
		if c.err != nil || c.b.err != nil {
			return never
		}
	}
	if len(sub) == 0 && c.barred != nil {
		return because(c.barred, "the schema false allows none")
	}
	return alt(sub...)
}

// maxAlternatives bounds what combinations of anyOf come to.
const maxAlternatives = 512

// A partial is a conjunction on its way to alternatives without $ref, allOf, anyOf
// and oneOf.
type partial struct {
	todo, done []*value
	choices    []*value // anyOf and oneOf not yet decided
}

// expand returns the alternatives of a conjunction: schemas of which only the
// keywords for one value count.
func (c *compiler) expand(nodes []*value) [][]*value {
	work := []partial{{todo: nodes}}
	var out [][]*value
	for len(work) > 0 && c.err == nil {
		p := work[len(work)-1]
		work = work[:len(work)-1]
		if !c.settle(&p) {
			continue
		}
		c.b.spend(1 + len(p.done))
		if len(p.choices) == 0 {
			out = append(out, p.done)
		} else {
			first, rest := p.choices[0], p.choices[1:]
			for i := len(first.vals) - 1; i >= 0; i-- {
				work = append(work, partial{todo: first.vals[i : i+1], done: slices.Clone(p.done), choices: slices.Clone(rest)})
			}
		}
		if len(out)+len(work) > maxAlternatives {
			c.fail(unsupported(nodes[0].path(), "anyOf and oneOf combine to more than %d alternatives: have fewer of them hold at once", maxAlternatives))
		}
	}
	return out
}

// settle works off p.todo. It reports whether anything can match.
func (c *compiler) settle(p *partial) bool {
	for len(p.todo) > 0 && c.err == nil {
		n := p.todo[0]
		p.todo = p.todo[1:]
		switch {
		case n.kind == 'f':
			c.barred = n
			return false
		case n.kind == 't' || slices.Contains(p.done, n):
			continue
		}
		c.check(n)
		p.done = append(p.done, n)
		var next []*value // before what is left, so that members keep their order
		if r := n.get("$ref"); r != nil {
			next = append(next, c.resolve(r))
		}
		if r := n.get("allOf"); r != nil {
			next = append(next, r.vals...)
		}
		p.todo = append(next, p.todo...)
		if r := n.get("anyOf"); r != nil {
			p.choices = append(p.choices, r)
		}
		if r := n.get("oneOf"); r != nil {
			c.exclusive(r)
			p.choices = append(p.choices, r)
		}
	}
	return c.err == nil
}

// unescape reads a step of a JSON pointer.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// resolve returns what a $ref points to.
func (c *compiler) resolve(r *value) *value {
	if c.targets[r] == nil {
		c.targets[r] = c.find(r)
	}
	return c.targets[r]
}

func (c *compiler) find(r *value) *value {
	bad := func(what string) *value {
		c.fail(invalid(r.parent.path(), "$ref %.100q %s: use # or #/$defs/NAME", r.text, what))
		return &value{kind: 't'}
	}
	text := r.text
	if id := c.root.get("$id"); id != nil && id.kind == '"' {
		text = strings.TrimPrefix(text, id.text)
	}
	fragment, ok := strings.CutPrefix(text, "#")
	if !ok {
		return bad("leaves the schema")
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return bad("is not a reference")
	}
	if fragment != "" && fragment[0] != '/' {
		if at := c.anchors[fragment]; at != nil {
			return at
		}
		return bad("is no $anchor of the schema")
	}
	at := c.root
	for i, name := range strings.Split(fragment, "/") {
		if i == 0 {
			continue
		}
		name = unescape.Replace(name)
		if at.kind == '[' {
			if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < len(at.vals) {
				at = at.vals[n]
				continue
			}
			return bad("points to nothing")
		}
		if at = at.get(name); at == nil {
			return bad("points to nothing")
		}
	}
	if at.kind != '{' && at.kind != 't' && at.kind != 'f' {
		return bad("points to no schema")
	}
	return at
}

// drop notes the anchors in v, the first of each name.
func (c *compiler) drop(v *value) {
	if a := v.get("$anchor"); a != nil && a.kind == '"' && c.anchors[a.text] == nil {
		c.anchors[a.text] = v
	}
	for _, m := range v.vals {
		c.drop(m)
	}
}

// A flat is one alternative, read.
type flat struct {
	nodes    []*value
	types    types
	enum     []*value        // what const and enum allow
	enumOnly bool            // they are given
	texts    map[string]bool // canonical ones of enum, once they are looked for
	numeric  numeric
}

func (c *compiler) read(nodes []*value) flat {
	f := flat{nodes: nodes, types: tAll}
	for _, n := range nodes {
		f.types &= typesOf(n)
		for _, key := range []string{"const", "enum"} {
			v := n.get(key)
			if v == nil {
				continue
			}
			values := []*value{v}
			if key == "enum" {
				values = v.vals
			}
			if f.enumOnly {
				values = common(f.enum, values)
			}
			f.enum, f.enumOnly = values, true
		}
		f.numeric.read(n)
	}
	f.numeric.integer = f.types&tFraction == 0
	return f
}

func typesOf(n *value) types {
	t := n.get("type")
	if t == nil {
		return tAll
	}
	list := []*value{t}
	if t.kind == '[' {
		list = t.vals
	}
	var out types
	for _, name := range list {
		out |= typeNames[name.text]
	}
	if nullable := n.get("nullable"); nullable != nil && nullable.kind == 't' {
		out |= tNull
	}
	return out
}

// lists reports whether the enum of f has v.
func (f *flat) lists(v *value) bool {
	if f.texts == nil {
		f.texts = canonicals(f.enum)
	}
	return f.texts[v.canonical()]
}

func canonicals(values []*value) map[string]bool {
	all := make(map[string]bool, len(values))
	for _, v := range values {
		all[v.canonical()] = true
	}
	return all
}

// common returns the values of a that b has too.
func common(a, b []*value) []*value {
	known := canonicals(b)
	return slices.DeleteFunc(slices.Clone(a), func(v *value) bool { return !known[v.canonical()] })
}

// read adds the bounds of schema s to n.
func (n *numeric) read(s *value) {
	rat := func(key string) *big.Rat {
		v := s.get(key)
		if v == nil || v.kind != '0' {
			return nil
		}
		r, _ := number(v.text)
		return r
	}
	isTrue := func(key string) bool { v := s.get(key); return v != nil && v.kind == 't' } // as in draft 4
	n.low = n.low.tighter(bound{rat("minimum"), isTrue("exclusiveMinimum")}, -1)
	n.low = n.low.tighter(bound{rat("exclusiveMinimum"), true}, -1)
	n.up = n.up.tighter(bound{rat("maximum"), isTrue("exclusiveMaximum")}, 1)
	n.up = n.up.tighter(bound{rat("exclusiveMaximum"), true}, 1)
	if m := rat("multipleOf"); m != nil {
		n.multiple = append(n.multiple, m)
	}
}

// flat matches one alternative.
func (c *compiler) flat(nodes []*value) *expr {
	f := c.read(nodes)
	if f.enumOnly {
		return c.enum(f)
	}
	if f.types == 0 {
		return because(keyword(nodes, "type"), "the types that hold for it have none in common")
	}
	var sub []*expr
	if f.types&tNull != 0 {
		sub = append(sub, lit("null"))
	}
	if f.types&tBool != 0 {
		sub = append(sub, lit("true"), lit("false"))
	}
	if f.types&tNumber != 0 {
		sub = append(sub, c.number(f))
	}
	if f.types&tString != 0 {
		sub = append(sub, c.text(f))
	}
	if f.types&tArray != 0 {
		sub = append(sub, c.array(f))
	}
	if f.types&tObject != 0 {
		sub = append(sub, c.object(f))
	}
	return alt(sub...)
}

// enum matches what const and enum of f allow.
func (c *compiler) enum(f flat) *expr {
	var sub []*expr
	dead := because(keyword(f.nodes, "enum", "const"), "const and enum have no value in common")
	for i, v := range f.enum {
		what := c.misfit(f, v)
		if what == "" {
			sub = append(sub, v.expr(c.space, c.colon))
		} else if i == 0 {
			dead = because(dead.at, "the keywords beside it leave no value of it: %s %s", v.brief(), what)
		}
	}
	c.b.spend(len(f.enum))
	return alt(append(sub, dead)...)
}

func (c *compiler) number(f flat) *expr {
	e, err := f.numeric.expr(f.path(), c.b)
	if err != nil {
		c.fail(err)
		return never
	}
	if e.op == opNever {
		return because(keyword(f.nodes, "minimum", "exclusiveMinimum", "multipleOf", "maximum", "exclusiveMaximum"), "no %s", f.numeric)
	}
	switch e {
	case anyInteger:
		return c.shared("integer", func() *expr { return e })
	case anyNumber:
		return c.shared("number", func() *expr { return e })
	}
	return e
}

// path is where the first schema of f is.
func (f flat) path() string {
	if len(f.nodes) == 0 {
		return "#"
	}
	return f.nodes[0].path()
}

// typeOf returns the type of a value.
func typeOf(v *value) types {
	switch v.kind {
	case '{':
		return tObject
	case '[':
		return tArray
	case '"':
		return tString
	case '0':
		if r, ok := number(v.text); ok && r.IsInt() {
			return tInteger
		}
		return tFraction
	case 'n':
		return tNull
	}
	return tBool
}

// misfit says why v, of f's enum, does not meet f's other keywords; "" = it does.
func (c *compiler) misfit(f flat, v *value) string {
	t := typeOf(v)
	if f.types&t == 0 {
		return "has another type"
	}
	switch t {
	case tInteger, tFraction:
		if r, ok := number(v.text); !ok || !f.numeric.holds(r) {
			return "is outside of the bounds, or no multiple"
		}
	case tString:
		lo, hi := span(f.nodes, "minLength", "maxLength")
		if n := utf8.RuneCountInString(v.text); n < lo || (hi >= 0 && n > hi) {
			return "is too short or too long"
		}
		ok := true
		c.each(f.nodes, minCount, func(a *automaton, _ *value) { ok = ok && a != nil && a.matches(quoted(v.text)) })
		if !ok {
			return "does not match the pattern or format"
		}
	case tArray, tObject:
		for _, n := range f.nodes {
			for _, key := range n.keys {
				if (t == tObject && slices.Contains(objectKeys, key)) || (t == tArray && slices.Contains(arrayKeys, key)) {
					c.fail(unsupported(n.path(), "%s beside an enum or const of objects or arrays cannot be held to: leave it out", key))
				}
			}
		}
	}
	return ""
}

var (
	objectKeys = []string{"additionalProperties", "maxProperties", "minProperties", "patternProperties", "properties", "propertyNames", "required"}
	arrayKeys  = []string{"additionalItems", "items", "maxItems", "minItems", "prefixItems", "uniqueItems"}
)
