package grammar

import (
	"fmt"
	"slices"
)

// because matches nothing, and says why: blamed is the schema or keyword at fault.
func because(blamed *value, format string, args ...any) *expr {
	return &expr{op: opNever, at: blamed, lit: fmt.Sprintf(format, args...)}
}

// firstKeyword returns the first of keys that one of schemas has, or the first schema.
func firstKeyword(schemas []*value, keys ...string) *value {
	for _, schema := range schemas {
		for _, key := range keys {
			if value := schema.get(key); value != nil {
				return value
			}
		}
	}
	return schemas[0]
}

// An inquest finds out which rules match nothing, and why. It works on expressions: the
// automaton has no trace of what was trimmed.
type inquest struct {
	rules  []rule
	budget *budget
	live   []bool // by rule: it matches some text
	asked  []bool // by rule: why was asked about it, and what recursion comes back to says nothing
}

// newInquest finds the rules that match some text, in rounds until nothing changes.
func newInquest(rules []rule, b *budget) *inquest {
	inquest := &inquest{rules: rules, budget: b, live: make([]bool, len(rules)), asked: make([]bool, len(rules))}
	for changed := true; changed && b.err == nil; {
		changed = false
		for i := len(rules) - 1; i >= 0; i-- { // what is called is mostly behind
			if !inquest.live[i] && inquest.matches(rules[i].body) {
				inquest.live[i], changed = true, true
			}
		}
	}
	return inquest
}

// matches reports whether e matches something, as far as is known of the rules.
func (q *inquest) matches(e *expr) bool {
	if q.budget.spend(1) {
		return false
	}
	switch e.op {
	case opNever:
		return false
	case opCat:
		return q.dead(e.sub) == nil
	case opAlt:
		return slices.ContainsFunc(e.sub, q.matches)
	case opRepeat:
		return e.min == 0 || q.matches(e.sub[0])
	case opLoop:
		return q.matches(e.sub[1]) && (e.min == 0 || q.matches(e.sub[0]))
	case opRef:
		return q.live[e.rule]
	case opObject:
		n, missing := q.members(e.object)
		return missing == nil && n >= e.object.min
	}
	return true
}

// dead returns the first of sub that matches nothing.
func (q *inquest) dead(sub []*expr) *expr {
	for _, part := range sub {
		if !q.matches(part) {
			return part
		}
	}
	return nil
}

// members returns how many members an object may have, at least object.min if others are allowed,
// and the value of one that is required and has no match.
func (q *inquest) members(object *object) (count int, missing *expr) {
	for _, member := range object.members {
		if q.matches(member.value) {
			count++
		} else if member.required {
			return count, member.value
		}
	}
	if object.extra != nil && q.matches(object.extra) {
		count = max(count, object.min)
	}
	return count, nil
}

// why returns why e, which is dead, matches nothing; nil if nobody is to blame but
// rules that have been asked before.
func (q *inquest) why(e *expr) *Error {
	switch e.op {
	case opNever:
		if e.at == nil {
			return nil
		}
		return invalid(e.at.path(), "no value can match: %s", e.lit)
	case opCat, opRepeat, opLoop:
		return q.why(q.dead(e.sub))
	case opAlt:
		for _, part := range e.sub {
			if err := q.why(part); err != nil {
				return err
			}
		}
	case opRef:
		if q.asked[e.rule] {
			return nil
		}
		q.asked[e.rule] = true
		if err := q.why(q.rules[e.rule].body); err != nil {
			return err
		}
		return q.rules[e.rule].endless()
	case opObject:
		count, missing := q.members(e.object)
		if missing != nil { // its value cannot be written
			return q.why(missing)
		}
		return invalid(e.object.at.path(), "no value can match: minProperties is %d, and only %d members can be written", e.object.min, count)
	}
	return nil
}

// endless says that r asks for itself and nothing else ends it; nil for our own rules.
func (r rule) endless() *Error {
	switch {
	case r.at != nil:
		return invalid(r.at.path(), "no value can match: it would hold another one of its own kind without end: make a member optional, or allow null or an empty array")
	case r.name != "":
		return invalid("rule "+r.name, "no text can match: it asks for itself without end: add an alternative that does not")
	}
	return nil
}

// explain returns why a rule matches nothing; nil if it matches something, or that is
// not found.
func (q *inquest) explain(rule int) *Error {
	if q.budget.err != nil || q.live[rule] {
		return nil
	}
	return q.why(ref(rule))
}

// largest returns err with the place of the pattern or format that takes most states of
// rules, if one takes so many that it is to blame.
func largest(rules []rule, err error) error {
	most := &expr{machine: &automaton{states: make([]state, maxStates/8)}}
	var look func(e *expr)
	look = func(e *expr) {
		if e.op == opMachine && e.at != nil && len(e.machine.states) > len(most.machine.states) {
			most = e
		}
		for _, part := range e.sub {
			look(part)
		}
	}
	for _, r := range rules {
		if r.body != nil {
			look(r.body)
		}
	}
	if most.at == nil {
		return err
	}
	return located(err, most.at.path())
}
