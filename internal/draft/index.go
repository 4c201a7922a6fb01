package draft

// An Index finds earlier places of one sequence that end as the sequence does, as LZ77 does: a
// hash of the last ids leads to the last place behind the same ids, a chain from there to earlier
// ones. It takes some 11 bytes for each id. A place is in it once an id has followed there.
type Index struct {
	rule
	ids     []int32
	earlier []int32 // [place]: 1 + the place before it in its chain; 0 = none
	last    []int32 // [hash]: 1 + the newest place of its chain; 0 = none
}

// NewIndex returns an index of nothing, in which at least shortest ids, 1 to 64, have to be alike.
func NewIndex(shortest int) *Index { return &Index{rule: newRule(shortest)} }

// Len returns how many ids were added.
func (x *Index) Len() int { return len(x.ids) }

// Add appends ids to the sequence.
func (x *Index) Add(ids ...int32) {
	for _, id := range ids {
		at := len(x.ids)
		x.ids, x.earlier = append(x.ids, id), append(x.earlier, 0)
		if at == len(x.last) {
			x.grow()
		}
		x.link(at)
	}
}

// grow makes room for twice as many chains, and for some at the beginning.
func (x *Index) grow() {
	x.last = make([]int32, max(2*len(x.last), 256))
	for at := range len(x.ids) - 1 {
		x.link(at)
	}
}

// link puts a place at the front of its chain.
func (x *Index) link(at int) {
	if at < x.shortest {
		return
	}
	chain := &x.last[x.chain(at)]
	x.earlier[at], *chain = *chain, int32(at+1)
}

// chain is the number of the chain of a place, by the ids before it.
func (x *Index) chain(at int) uint64 {
	return hash(0, x.ids[at-x.shortest:at]) & uint64(len(x.last)-1)
}

// Draft appends to dst up to n ids that may come next, and returns how many ids before them are
// alike at the place they are from; 0 = there is no such place. Of several with as many the
// majority counts, id by id. It takes up to 20 µs.
func (x *Index) Draft(dst []int32, n int) (ids []int32, match int) {
	if n <= 0 {
		return dst, 0
	}
	var p places
	x.find(x.ids, &p)
	return p.follow(dst, x.ids, n, &x.rule, true), p.match
}

// find looks for the places that end as tail does.
func (x *Index) find(tail []int32, p *places) {
	if len(tail) < x.shortest || len(x.last) == 0 {
		return
	}
	compared := 0
	next := x.last[hash(0, tail[len(tail)-x.shortest:])&uint64(len(x.last)-1)]
	for range mostSteps {
		if next == 0 || compared == mostPlaces {
			return
		}
		at := int(next - 1)
		next = x.earlier[at]
		if same := alike(x.ids[:at], tail, x.longest); same >= x.shortest {
			compared++
			p.offer(place{at, len(x.ids)}, same)
		}
	}
}
