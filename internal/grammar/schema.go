package grammar

// How a schema becomes rules. What holds for one value is a conjunction, a list of
// schemas; all makes it one rule, compiled when its turn comes, so that schemas may refer
// back to themselves:
//
//	conjunction → expand → alternatives without $ref, allOf, anyOf, oneOf (flat.go)
//	            → flat → a part for each type (number.go, string.go, array.go, object.go)
//
// Members and elements are conjunctions again.

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A compiler turns schemas into rules. Each conjunction becomes one rule, so that
// recursion ends. The first error stays in err; what is made after it is not used.
type compiler struct {
	budget      *budget
	root        *value
	rules       []rule
	names       map[string]int // number of a rule, by conjunction (all) or purpose (shared)
	pending     []conjunction  // conjunctions whose rules have no body yet
	prints      map[*value]int // numbers of schemas, of which all makes the names of conjunctions
	numbers     map[string]int // numbers by what schemas say
	frame       int            // for Ignored
	ignored     []Ignored
	checked     map[*value]bool       // by check; groups by exclusive
	conditions  map[*value][]*value   // what conditional keywords say, as anyOf
	groups      map[*value]*value     // alternatives of oneOf that exclude each other
	complements map[*value]*value     // schemas of what not forbids, opposite
	unknown     []Ignored             // formats that are not known
	targets     map[*value]*value     // of $ref, found before
	resources   map[string]*resource  // by address
	owners      map[*value]*resource  // by schema: the resource it is in
	barred      *value                // the last schema false that was met
	machines    map[string]*automaton // of patterns, by pattern and use
	bounded     map[string]*expr      // numbers, by their bounds in words
	texts       map[string]*expr      // strings with patterns and formats, by these and their lengths
	rings       map[*value]int8       // by circular: 1 = being looked at, or part of a ring; 2 = fine
	naming      bool                  // strings being compiled are names of members
	space       *expr                 // what may stand around punctuation
	colon       *expr                 // what may follow a colon
	spaces      [2]*expr              // space and colon, but within elements that differ
	within      *value                // uniqueItems of the list that what is compiled is in; nil = none
	sorted      bool                  // members are written in the order of their names
	unique      []*uniqueList
	err         error
}

// A conjunction is a rule to be made of schemas that all hold for one value.
type conjunction struct {
	rule    int
	schemas []*value
	within  *value // as in compiler
}

// schemaRules appends the rules of a schema, that of a frame, to rules, its root first.
func schemaRules(rules []rule, src Source, budget *budget, frame int) ([]rule, omissions, error) {
	text := src.Text
	if src.Kind == Object {
		text = `{"type":"object"}`
	}
	root, err := readJSON(text)
	if err != nil {
		return nil, omissions{}, err
	}
	compiling := &compiler{budget: budget, root: root, frame: frame, names: map[string]int{}, prints: map[*value]int{}, numbers: map[string]int{},
		checked: map[*value]bool{}, targets: map[*value]*value{}, complements: map[*value]*value{}, conditions: map[*value][]*value{}, groups: map[*value]*value{}, rings: map[*value]int8{},
		machines: map[string]*automaton{}, texts: map[string]*expr{}, bounded: map[string]*expr{}, colon: opt(lit(" "))}
	compiling.noteResources()
	start := len(rules)
	compiling.rules = append(rules, rule{name: "root", at: root})
	if src.Space != "" {
		space, err := compilePattern(src.Space, pattern{where: "whitespace pattern"}, budget)
		if err != nil {
			return nil, omissions{}, err
		}
		compiling.space = machine(space)
		compiling.colon = compiling.space
	} else {
		indent := compiling.shared("indent", func() *expr { return repeat(class('\t', '\t', ' ', ' '), 0, 20) })
		compiling.space = opt(alt(lit(" "), cat(lit("\n"), indent)))
	}
	compiling.spaces = [2]*expr{compiling.space, compiling.colon}
	compiling.rules[start].body = compiling.all([]*value{root})
	// In the order in which they were asked for: rules that belong together are near each
	// other, and errors come from the outside in.
	for len(compiling.pending) > 0 && compiling.err == nil && budget.err == nil {
		job := compiling.pending[0]
		compiling.pending = compiling.pending[1:]
		compiling.spell(job.within)
		compiling.rules[job.rule].body = compiling.conjunction(job.schemas)
	}
	compiling.checkUnique()
	if compiling.err != nil {
		return nil, omissions{}, compiling.err
	}
	return compiling.rules, omissions{compiling.ignored, compiling.unknown}, budget.err
}

func (c *compiler) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// shared returns a reference to the rule of a purpose.
func (c *compiler) shared(name string, body func() *expr) *expr {
	number, ok := c.names[name]
	if !ok {
		number = len(c.rules)
		c.names[name] = number
		c.rules = append(c.rules, rule{name: name})
		c.rules[number].body = body()
	}
	return ref(number)
}

// all returns a reference to the rule of a conjunction, to be compiled later.
func (c *compiler) all(schemas []*value) *expr {
	// Equal conjunctions share a rule. The key keeps their order, which is that of members.
	var key strings.Builder
	if c.within != nil {
		key.WriteString("plain")
	}
	for number, schema := range schemas {
		if slices.Contains(schemas[:number], schema) {
			continue
		}
		key.WriteString("&" + strconv.Itoa(c.print(schema)))
	}
	number, ok := c.names[key.String()]
	if !ok {
		number = len(c.rules)
		c.names[key.String()] = number
		c.rules = append(c.rules, rule{name: "schema", body: never})
		if len(schemas) > 0 {
			c.rules[number].at = schemas[0]
		}
		c.pending = append(c.pending, conjunction{number, schemas, c.within})
	}
	c.budget.spend(1 + len(schemas))
	return ref(number)
}

// conjunction matches the values that all schemas allow.
func (c *compiler) conjunction(schemas []*value) *expr {
	var sub []*expr
	c.barred = nil
	alternatives := c.expand(schemas)
	c.sorted = c.within != nil && len(alternatives) > 1 // equal objects have equal texts
	for _, flat := range alternatives {
		sub = append(sub, c.flat(flat))
		if c.err != nil || c.budget.err != nil {
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
func (c *compiler) expand(schemas []*value) [][]*value {
	work := []partial{{todo: schemas}}
	var out [][]*value
	for len(work) > 0 && c.err == nil {
		branch := work[len(work)-1]
		work = work[:len(work)-1]
		if !c.settle(&branch) {
			continue
		}
		c.budget.spend(1 + len(branch.done))
		if len(branch.choices) == 0 {
			out = append(out, branch.done)
		} else {
			first, rest := branch.choices[0], branch.choices[1:]
			// The first choice in every way; the first alternative is taken up first.
			for i := len(first.vals) - 1; i >= 0; i-- {
				work = append(work, partial{todo: first.vals[i : i+1], done: slices.Clone(branch.done), choices: slices.Clone(rest)})
			}
		}
		if len(out)+len(work) > maxAlternatives {
			c.fail(unsupported(schemas[0].path(), "anyOf and oneOf combine to more than %d alternatives: have fewer of them hold at once", maxAlternatives))
		}
	}
	return out
}

// settle works off branch.todo: references and allOf bring further schemas, anyOf and
// oneOf choices. It reports whether anything can match.
func (c *compiler) settle(branch *partial) bool {
	for len(branch.todo) > 0 && c.err == nil {
		schema := branch.todo[0]
		branch.todo = branch.todo[1:]
		switch {
		case schema.kind == jsonFalse:
			c.barred = schema
			return false
		case schema.kind == jsonTrue || slices.Contains(branch.done, schema):
			continue
		}
		c.check(schema)
		branch.done = append(branch.done, schema)
		var next []*value // before what is left, so that members keep their order
		if keyword := schema.get("$ref"); keyword != nil {
			next = append(next, c.resolve(keyword))
		}
		if keyword := schema.get("not"); keyword != nil && c.err == nil {
			next = append(next, c.complement(keyword))
		}
		if keyword := schema.get("allOf"); keyword != nil {
			next = append(next, keyword.vals...)
		}
		branch.todo = append(next, branch.todo...)
		if keyword := schema.get("anyOf"); keyword != nil {
			branch.choices = append(branch.choices, keyword)
		}
		if keyword := schema.get("oneOf"); keyword != nil {
			branch.choices = append(branch.choices, c.exclusive(keyword))
		}
		branch.choices = append(branch.choices, c.choices(schema)...)
	}
	return c.err == nil
}

// flat matches one alternative: the values it lists, or all that its types allow.
func (c *compiler) flat(schemas []*value) *expr {
	flat := c.flatten(schemas)
	if flat.enumOnly {
		return c.enum(flat)
	}
	if flat.open != nil {
		c.fail(unsupported(flat.path(), "not cannot be held to: %s would have to be told apart from values of its type: give the value another type, or say what is allowed", flat.open.brief()))
		return never
	}
	if flat.types == 0 {
		return because(firstKeyword(schemas, "type"), "the types that hold for it have none in common")
	}
	var sub []*expr
	if flat.types&tNull != 0 {
		sub = append(sub, lit("null"))
	}
	for _, kind := range []byte{jsonTrue, jsonFalse} {
		if one := (&value{kind: kind}); flat.types&tBool != 0 && !flat.excludes(one) {
			sub = append(sub, one.expr(c.space, c.colon))
		}
	}
	if flat.types&tNumber != 0 {
		sub = append(sub, c.number(flat))
	}
	if flat.types&tString != 0 {
		sub = append(sub, c.text(flat))
	}
	if flat.types&tArray != 0 {
		sub = append(sub, c.array(flat))
	}
	if flat.types&tObject != 0 {
		sub = append(sub, c.object(flat))
	}
	return alt(sub...)
}

// enum matches what const and enum of flat allow.
func (c *compiler) enum(flat flatSchema) *expr {
	var sub []*expr
	// Of values that all miss, the first one's reason is told.
	dead := because(firstKeyword(flat.schemas, "enum", "const"), "const and enum have no value in common")
	for i, value := range flat.enum {
		what := c.misfit(flat, value)
		if what == "" {
			if c.within != nil {
				value = value.plain()
			}
			sub = append(sub, value.expr(c.space, c.colon))
		} else if i == 0 {
			dead = because(dead.at, "the keywords beside it leave no value of it: %s %s", value.brief(), what)
		}
	}
	c.budget.spend(len(flat.enum))
	return alt(append(sub, dead)...)
}

// number matches the numbers of flat, those with the same bounds in one rule.
func (c *compiler) number(flat flatSchema) *expr {
	forms := flat.forms(c.within != nil)
	key := fmt.Sprint(c.within != nil, flat.types&tNumber, flat.numeric.words(math.MaxInt))
	body, ok := c.bounded[key]
	if !ok {
		var err error
		if body, err = flat.numeric.expr(flat.path(), c.budget); err != nil {
			c.fail(err)
			return never
		}
		for _, form := range forms {
			body = c.both(body, form)
		}
		if body.op == opMachine || body.op == opAlt || body.op == opCat {
			body = c.rule("number", body)
		}
		c.bounded[key] = body
	}
	if body.op == opNever {
		return because(firstKeyword(flat.schemas, "minimum", "exclusiveMinimum", "multipleOf", "maximum", "exclusiveMaximum", "oneOf", "type"), "no %s", flat.numeric)
	}
	return body
}

// rule returns a reference to a new rule.
func (c *compiler) rule(name string, body *expr) *expr {
	c.rules = append(c.rules, rule{name: name, body: body})
	return ref(len(c.rules) - 1)
}
