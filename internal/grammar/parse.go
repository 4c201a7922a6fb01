package grammar

import "slices"

// An item is a place in a rule and where to go on when the rule ends.
type item struct {
	q          int32
	need, room int32 // of the rule's loop
	node       *node
}

// A node is one call of a rule at one position, whoever called: what Earley's
// algorithm keeps as an origin. Sharing it keeps ambiguous and left-recursive
// grammars finite. It does not change once its position is left.
type node struct {
	rule  int32
	born  int    // of the position
	edges []item // the callers, behind the call

	known  bool
	popped []item // edges, and where those lead that are ends themselves
	exit   bool   // the base can end too
	follow uint32 // of popped: what state.first says
}

// A set is all items at one position.
type set struct {
	items []item
	born  int
	exit  bool // the base rule has matched
}

// maxItems bounds a set: grammars with more parallel readings are refused while
// matching.
const maxItems = 256

// A parser reads bytes. Its base is the rule that nobody called. It belongs to one
// goroutine.
type parser struct {
	a        *automaton
	base     *node
	serial   int // of the position
	fresh    []*node
	pool     []*node // when recycle is set: nodes to use again, the first used of them in use
	used     int
	recycle  bool
	work     int // items looked at
	overflow bool
}

// begin sets dst to the items reachable from it without a byte.
func (p *parser) begin(dst *set, it item) {
	p.serial++
	p.fresh = p.fresh[:0]
	dst.items = append(dst.items[:0], it)
	dst.born, dst.exit = p.serial, false
	p.close(dst, anyByte)
}

// anyByte stands for all bytes where trieNode.kids does for some.
const anyByte = ^uint32(0)

// step sets dst to what src becomes with b, and reports whether anything is left.
// Items that none of the bytes in kids can follow may be left out: nearly all places
// where a word may end are inside a longer word.
func (p *parser) step(dst, src *set, b byte, kids uint32) bool {
	dst.items, dst.exit = dst.items[:0], false
	p.serial++
	dst.born = p.serial
	p.work += len(src.items)
	simple := true
	for _, it := range src.items {
		s := &p.a.states[it.q]
		e, ok := s.edge(b)
		if !ok {
			continue
		}
		to := &p.a.states[e.to]
		if !it.take(e, to) {
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

// take moves it along e, to the state to, if its counts allow it.
func (it *item) take(e edge, to *state) bool {
	it.q = e.to
	if e.count == 0 {
		return true
	}
	if e.count&countMore != 0 {
		if it.room == 0 {
			return false
		}
		it.need = max(it.need-1, 0)
		if it.room != unlimited {
			it.room--
		}
	}
	if e.count&countLeave != 0 {
		if it.need > 0 {
			return false
		}
		it.room = 0
	}
	if e.count&countEnter != 0 {
		it.need, it.room = to.low, to.high
	}
	if e.count&countCheck != 0 {
		return (it.room == unlimited || it.room >= to.low) && (to.high == unlimited || it.need <= to.high)
	}
	return true
}

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
	for i := 0; i < len(dst.items); i++ {
		it := dst.items[i]
		s := &p.a.states[it.q]
		ended := s.accept && it.need == 0
		if ended && it.node == p.base {
			dst.exit = true
		} else if ended && it.node.born != dst.born { // what is empty was stepped over when compiling
			back, exit := p.returns(it.node)
			dst.exit = dst.exit || exit
			if it.node.follow&kids != 0 {
				for _, r := range back {
					p.add(dst, r)
				}
			}
		}
		for _, c := range s.calls {
			if p.a.states[p.a.start[c.rule]].first&kids == 0 {
				continue
			}
			nd := p.called(c.rule, dst)
			r := it
			r.q = c.to
			if !slices.Contains(nd.edges, r) {
				nd.edges = append(nd.edges, r)
			}
		}
	}
	p.work += len(dst.items)
}

// called returns the node of rule at the position of dst.
func (p *parser) called(rule int32, dst *set) *node {
	for _, nd := range p.fresh {
		if nd.rule == rule {
			return nd
		}
	}
	var nd *node
	switch {
	case p.recycle && p.used < len(p.pool):
		nd = p.pool[p.used]
		*nd = node{edges: nd.edges[:0]}
	default:
		nd = &node{}
		if p.recycle {
			p.pool = append(p.pool, nd)
		}
	}
	p.used++
	nd.rule, nd.born = rule, dst.born
	p.fresh = append(p.fresh, nd)
	p.add(dst, item{q: p.a.start[rule], need: p.a.need[rule], room: p.a.room[rule], node: nd})
	return nd
}

// merge replaces the new nodes of dst by those of src for the same rule and callers:
// where the call began makes no difference to what follows. So the readings of text
// that may be skipped at any place do not add up.
func (p *parser) merge(dst, src *set) {
	merged := false
	for _, nd := range p.fresh {
		i := slices.IndexFunc(src.items, func(it item) bool {
			return it.node != p.base && it.node.rule == nd.rule && slices.Equal(it.node.edges, nd.edges)
		})
		if i < 0 {
			continue
		}
		old := src.items[i].node
		merged = true
		replace(dst.items, nd, old)
		for _, f := range p.fresh {
			replace(f.edges, nd, old)
		}
	}
	if !merged {
		return
	}
	items := dst.items
	dst.items = items[:0]
	for _, it := range items {
		p.add(dst, it)
	}
}

func replace(items []item, from, to *node) {
	for i := range items {
		if items[i].node == from {
			items[i].node = to
		}
	}
}

// returns is where matching goes on when the call nd has ended, and whether the base
// may end with it.
func (p *parser) returns(nd *node) ([]item, bool) {
	if nd.known {
		return nd.popped, nd.exit
	}
	out := nd.edges
	own := false // out is a copy
	for i := 0; i < len(out); i++ {
		it := out[i]
		if !p.a.states[it.q].accept || it.need > 0 {
			continue
		}
		if it.node == p.base {
			nd.exit = true
			continue
		}
		for _, e := range it.node.edges {
			if slices.Contains(out, e) {
				continue
			}
			if !own {
				out, own = slices.Clone(out), true
			}
			out = append(out, e)
		}
		p.work += len(out)
		if len(out) > maxItems {
			p.overflow = true
			break
		}
	}
	for _, it := range out {
		nd.follow |= p.a.states[it.q].first
	}
	nd.popped, nd.known = out, true
	return nd.popped, nd.exit
}

// open reports whether any byte may follow s.
func (p *parser) open(s *set) bool {
	for _, it := range s.items {
		st := &p.a.states[it.q]
		if len(st.calls) > 0 {
			return true
		}
		for _, e := range st.edges {
			if next := it; next.take(e, &p.a.states[e.to]) {
				return true
			}
		}
	}
	return false
}

// bytes returns which bytes may follow s, also as trieNode.kids has them.
func (p *parser) bytes(s *set) (may [256]bool, kids uint32) {
	for _, it := range s.items {
		kids |= p.a.states[it.q].first
		for _, e := range p.a.states[it.q].edges {
			for b := int(e.lo); b <= int(e.hi); b++ {
				may[b] = true
			}
		}
	}
	return may, kids
}
