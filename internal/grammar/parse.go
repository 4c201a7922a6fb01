package grammar

// This is Earley's algorithm on automata. A set holds the items of one position in the
// text: states of rules that may be under way there, each with the call it belongs to
// (origin). A step takes every item along its edge for the byte, then closes the set:
// rules that ended go on with their callers, and calls begin the rules they call.
//
// The textbook looks callers up by scanning the set where the rule began. Here an
// origin holds its callers, so sets of the past need not be kept. Where a call is the last
// thing of a rule, returns follows the chain of callers once and keeps what it found.

import (
	"slices"

	"ossian/internal/grammar/past"
)

// An item is a place in a rule and where to go on when the rule ends. It is comparable:
// equal items of a set are one.
type item struct {
	state      int32
	need, room int32 // of the rule's loop: repetitions still to come, and how many more may
	origin     *origin
}

// An origin is one call of a rule at one position, whoever called. Sharing it keeps
// ambiguous and left-recursive grammars finite. Callers may be added while its position is
// the current one, and never afterwards: therefore what returns found stays true.
type origin struct {
	rule     int32
	position int    // number of the set it began in
	offset   int    // bytes of text in front of it
	callers  []item // items behind the call

	resumeKnown bool   // returns has filled in what follows
	resume      []item // callers, and where those lead that are at the end of their rule themselves
	exit        bool   // the base can end too
	follow      uint32 // of resume: what state.first says
}

// A set is all items at one position.
type set struct {
	items    []item
	position int  // number of the set, which no other one has
	offset   int  // bytes of text in front of it
	exit     bool // the base rule has matched
}

// maxItems bounds a set: grammars with more parallel readings are refused while
// matching.
const maxItems = 2048

// A parser reads bytes, for one goroutine. Its base is the call of the rule nobody called.
type parser struct {
	automaton *automaton
	base      *origin
	position  int       // number of the last set begun
	shared    int       // origins up to that set are another parser's, which must not notice
	fresh     []*origin // the origins of that set, one for each rule
	pool      []*origin // when recycle is set: origins to use again, the first used of them in use
	used      int
	recycle   bool
	work      int        // items looked at since somebody set it to 0
	overflow  bool       // a set had more than maxItems
	past      *past.Past // of an output with lists whose elements must differ, else nil
}

// begin sets dst to the items reachable from it without a byte.
func (p *parser) begin(dst *set, it item) {
	p.position++
	p.fresh = p.fresh[:0]
	dst.items = append(dst.items[:0], it)
	dst.position, dst.offset, dst.exit = p.position, 0, false
	p.close(dst, anyByte)
}

// anyByte stands for all bytes where vocab.Node.kids does for some.
const anyByte = ^uint32(0)

// step sets dst to what src becomes with the byte next, and reports whether anything is
// left. Items that none of the bytes in kids can follow may be left out: nearly all places
// where a word may end are inside a longer word.
func (p *parser) step(dst, src *set, next byte, kids uint32) bool {
	dst.items, dst.exit = dst.items[:0], false
	p.position++
	dst.position, dst.offset = p.position, src.offset+1
	p.work += len(src.items)
	if p.past != nil {
		p.past.Try(src.offset, next)
	}
	// Inside a rule nothing ends and nothing is called: the set is complete as it is.
	simple := true
	for _, it := range src.items {
		state := &p.automaton.states[it.state]
		edge, ok := state.edge(next)
		if !ok {
			continue
		}
		to := &p.automaton.states[edge.to]
		if !it.take(edge, to) {
			continue
		}
		simple = simple && !to.accept && len(to.calls) == 0
		p.add(dst, it)
	}
	if !simple {
		p.fresh = p.fresh[:0]
		p.close(dst, kids)
		p.merge(dst, src)
	}
	return len(dst.items) > 0
}

// take moves it along by, to the state to, if its counts allow it. Otherwise it has
// changed all the same and must not be used.
func (it *item) take(by edge, to *state) bool {
	it.state = by.to
	if by.count == 0 {
		return true
	}
	if by.count&countMore != 0 {
		if it.room == 0 {
			return false
		}
		it.need = max(it.need-1, 0)
		if it.room != unlimited {
			it.room--
		}
	}
	if by.count&countLeave != 0 {
		if it.need > 0 {
			return false
		}
		it.room = 0
	}
	if by.count&countEnter != 0 {
		it.need, it.room = to.low, to.high
	}
	// The bounds are those of all ways from to to the end (automaton.remaining): with gaps
	// between possible numbers this would not be enough.
	if by.count&countCheck != 0 {
		return (it.room == unlimited || it.room >= to.low) && (to.high == unlimited || it.need <= to.high)
	}
	return true
}

// add puts it into dst unless it is there. Sets are small: a scan is faster than a map.
func (p *parser) add(dst *set, it item) {
	if slices.Contains(dst.items, it) {
		return
	}
	if len(dst.items) == maxItems {
		p.overflow = true
		return
	}
	dst.items = append(dst.items, it)
}

// close adds what follows dst's items without a byte: callers of rules that have
// ended, and the beginnings of rules called.
func (p *parser) close(dst *set, kids uint32) {
	// The set grows while it is read.
	for i := 0; i < len(dst.items); i++ {
		it := dst.items[i]
		state := &p.automaton.states[it.state]
		ended := state.accept && it.need == 0
		if ended && it.origin == p.base {
			dst.exit = true
		} else if ended && it.origin.position != dst.position { // what is empty was stepped over when compiling
			// Begun at an earlier position, the rule has all its callers.
			back := p.returns(it.origin)
			dst.exit = dst.exit || back.exit
			if back.follow&kids != 0 {
				for _, caller := range back.resume {
					if !p.repeats(caller) {
						p.add(dst, caller)
					}
				}
			}
		}
		for _, call := range state.calls {
			if p.automaton.states[p.automaton.start[call.rule]].first&kids == 0 {
				continue
			}
			made := p.called(call.rule, dst)
			caller := it
			caller.state = call.to
			if !slices.Contains(made.callers, caller) {
				made.callers = append(made.callers, caller)
			}
		}
	}
	p.work += len(dst.items)
}

// called returns the origin of rule at the position of dst, and begins the rule if it is
// the first call of it there.
func (p *parser) called(rule int32, dst *set) *origin {
	for _, made := range p.fresh {
		if made.rule == rule {
			return made
		}
	}
	var made *origin
	// A masker walks the tree and goes back often: it then sets used back, and what was
	// made since serves again. A matcher's origins must last: later sets refer to them.
	switch {
	case p.recycle && p.used < len(p.pool):
		made = p.pool[p.used]
		*made = origin{callers: made.callers[:0]}
	default:
		made = &origin{}
		if p.recycle {
			p.pool = append(p.pool, made)
		}
	}
	p.used++
	made.rule, made.position, made.offset = rule, dst.position, dst.offset
	p.fresh = append(p.fresh, made)
	p.add(dst, item{state: p.automaton.start[rule], need: p.automaton.need[rule], room: p.automaton.room[rule], origin: made})
	return made
}

// merge replaces the new origins of dst by those of src for the same rule and callers:
// where the call began makes no difference to what follows. So the readings of text that
// may be skipped at any place do not add up.
func (p *parser) merge(dst, src *set) {
	merged := false
	for _, made := range p.fresh {
		if p.past != nil && p.automaton.differ[made.rule] {
			continue // it has elements of its own
		}
		i := slices.IndexFunc(src.items, func(it item) bool {
			return it.origin != p.base && it.origin.rule == made.rule && slices.Equal(it.origin.callers, made.callers)
		})
		if i < 0 {
			continue
		}
		old := src.items[i].origin
		merged = true
		replace(dst.items, made, old)
		for _, other := range p.fresh {
			replace(other.callers, made, old)
		}
	}
	if !merged {
		return
	}
	// Items that differed in their origin alone are now equal.
	items := dst.items
	dst.items = items[:0]
	for _, it := range items {
		p.add(dst, it)
	}
}

func replace(items []item, from, to *origin) {
	for i := range items {
		if items[i].origin == from {
			items[i].origin = to
		}
	}
}

// returns fills in where matching goes on when the call has ended, and whether the base may end
// with it. A caller that is at the end of its own rule is followed to its callers in turn,
// so that a chain of ends takes one step in close. It does so in a copy of what is not its own.
func (p *parser) returns(call *origin) *origin {
	if call.resumeKnown {
		return call
	}
	if call.position <= p.shared {
		call = new(*call)
	}
	out := slices.Clip(call.callers) // so that appending copies
	// The list grows while it is read. Loops of callers end: no item is in it twice.
	for i := 0; i < len(out); i++ {
		it := out[i]
		if !p.automaton.states[it.state].accept || it.need > 0 {
			continue
		}
		if it.origin == p.base {
			call.exit = true
			continue
		}
		for _, caller := range it.origin.callers {
			if slices.Contains(out, caller) {
				continue
			}
			out = append(out, caller)
		}
		p.work += len(out)
		if len(out) > maxItems || p.work > maxWork*3/2 {
			p.overflow = true
			break
		}
	}
	for _, it := range out {
		call.follow |= p.automaton.states[it.state].first
	}
	call.resume, call.resumeKnown = out, true
	return call
}

// open reports whether any byte may follow from.
func (p *parser) open(from *set) bool {
	for _, it := range from.items {
		state := &p.automaton.states[it.state]
		if len(state.calls) > 0 {
			return true
		}
		for _, e := range state.edges {
			if next := it; next.take(e, &p.automaton.states[e.to]) {
				return true
			}
		}
	}
	return false
}

// bytes returns which bytes may follow from, also as vocab.Node.kids has them.
func (p *parser) bytes(from *set) (may [256]bool, kids uint32) {
	for _, it := range from.items {
		kids |= p.automaton.states[it.state].first
		for _, edge := range p.automaton.states[it.state].edges {
			for next := int(edge.lo); next <= int(edge.hi); next++ {
				may[next] = true
			}
		}
	}
	return may, kids
}
