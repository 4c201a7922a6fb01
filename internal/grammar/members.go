package grammar

// An object is a JSON object with known members in a fixed order, and others behind them.
type object struct {
	members  []member
	extra    *expr      // a member with any other name, without comma; nil = none
	min, max int        // members in all; max < 0 = no limit
	space    *expr      // what may stand around punctuation
	at       *value     // minProperties, where it counts
	differ   [][2]*expr // by number: so many or more others that differ, without a comma before them and with one (differ.go)
}

// A member is one with a known name.
type member struct {
	key      string // "name": as it is written
	value    *expr  // with the space before it
	required bool
}

// object goes through the members in order. What comes next depends on how many
// there were: at least on whether a comma is due, at most on the exact number.
func (n *nfa) object(members *object, next int32) int32 {
	// As many numbers are told apart as matter: 0 and more, or up to the bounds.
	last := len(members.members)
	most := max(1, min(last, max(members.min, members.max)))
	heads := make([]int32, most+1) // by number of members so far: what may follow
	for count := range heads {
		heads[count] = n.build(members.rest(count), next)
	}
	comma := cat(lit(","), members.space)
	// Before member i: take it, if there is room, or leave it out, if it is not required.
	// heads[c] is what may follow c members: first behind all known ones, at last before.
	for i := last - 1; i >= 0 && n.budget.err == nil; i-- {
		member := members.members[i]
		taken := make([]int32, most+1) // by number after it
		for count := 1; count <= most; count++ {
			taken[count] = n.bytes(member.key, n.build(member.value, heads[count]))
		}
		before := make([]int32, most+1)
		for count := range before {
			before[count] = n.dead
			if !member.required {
				before[count] = heads[count]
			}
			if members.max >= 0 && count >= members.max {
				continue
			}
			take := taken[min(count+1, most)]
			if count > 0 {
				take = n.build(comma, take)
			}
			before[count] = n.split(take, before[count])
		}
		heads = before
	}
	return n.bytes("{", n.build(members.space, heads[0]))
}

// rest is what may follow count members when all known names are behind: others, the end.
func (o *object) rest(count int) *expr {
	closing := cat(o.space, lit("}"))
	// How many others are needed, and may be; most < 0 = no limit.
	least, most := max(o.min-count, 0), -1
	if o.max >= 0 {
		most = o.max - count
	}
	// No others: the end, if the number is right.
	if o.extra == nil {
		switch {
		case least > 0 || (o.max >= 0 && most < 0):
			return never
		case count == 0:
			return lit("}")
		}
		return closing
	}
	if most == 0 {
		o := object{min: o.min, max: o.max, space: o.space}
		return o.rest(count)
	}
	more := cat(lit(","), o.space, o.extra)
	if least > 1 { // and two others could be the same twice
		if least >= len(o.differ) || o.differ[least][0] == nil {
			return never
		}
		return cat(o.differ[least][min(count, 1)], repeat(more, 0, max(most-least, -1)), closing)
	}
	if count > 0 {
		return cat(repeat(more, least, most), closing)
	}
	// The very first member of all has no comma before it.
	some := cat(o.extra, repeat(more, max(least-1, 0), max(most-1, -1)), closing)
	if least > 0 {
		return some
	}
	return alt(lit("}"), some)
}
