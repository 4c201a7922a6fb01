package draft

const (
	mostPlaces = 64  // that are compared for one draft, the newest
	mostSteps  = 512 // along a chain: places of other ids are on it where hashes collide
)

// A rule says what counts as a place that ends alike, and how far it is followed.
type rule struct {
	shortest int     // ids that have to be alike
	longest  int     // ids that count
	factor   float64 // guesses at most for each id that is alike; 0 = any number
	least    float64 // share of the places that has to agree with the guesses
}

func newRule(shortest int) rule {
	return rule{shortest: min(max(shortest, 1), MostMatch), longest: MostMatch}
}

// A place is one from which text is read on.
type place struct{ next, end int }

// places are those found so far that are alike for longest, the newest first.
type places struct {
	found [mostPlaces]place
	n     int
	match int // ids that are alike at each
}

// offer takes a place with so many ids alike, unless there are better ones.
func (p *places) offer(at place, match int) {
	if match > p.match {
		p.match, p.n = match, 0
	}
	if match == p.match {
		p.found[p.n] = at
		p.n++
	}
}

// follow appends to dst up to n ids that come behind the places of text: at each step the id of
// most of those that agreed so far, of as many the newest place's. Where overlap is set, behind
// its end a place goes on with the guesses themselves, as in text that repeats.
func (p *places) follow(dst, text []int32, n int, by *rule, overlap bool) []int32 {
	if by.factor > 0 {
		n = min(n, int(by.factor*float64(p.match)))
	}
	begin, least := len(dst), by.least*float64(p.n)
	at := func(place place, step int) (id int32, ok bool) {
		switch next := place.next + step; {
		case next < place.end:
			return text[next], true
		case overlap:
			return dst[begin+next-place.end], true
		}
		return 0, false
	}
	for step := range n {
		id, votes := p.majority(at, step)
		if votes == 0 || float64(votes) < least {
			break
		}
		left := p.found[:0]
		for _, place := range p.found[:p.n] {
			if other, ok := at(place, step); ok && other == id {
				left = append(left, place)
			}
		}
		p.n = len(left)
		dst = append(dst, id)
	}
	return dst
}

// majority returns the id of most places at a step, and how many these are; 0 = all have ended.
func (p *places) majority(at func(place, int) (int32, bool), step int) (best int32, most int) {
	var ids [mostPlaces]int32
	n := 0
	for _, place := range p.found[:p.n] {
		if id, ok := at(place, step); ok {
			ids[n] = id
			n++
		}
	}
	for i := range n {
		if n-i <= most || (most > 0 && ids[i] == best) {
			continue // it cannot win, or has been counted
		}
		votes := 0
		for _, other := range ids[i:n] {
			if other == ids[i] {
				votes++
			}
		}
		if votes > most { // an id's first place counts it whole
			best, most = ids[i], votes
		}
	}
	return best, most
}

// alike returns how many ids a and b end with in common, up to most.
func alike(a, b []int32, most int) int {
	n := min(len(a), len(b), most)
	for i := 1; i <= n; i++ {
		if a[len(a)-i] != b[len(b)-i] {
			return i - 1
		}
	}
	return n
}

// hash mixes seed with ids.
func hash(seed uint64, ids []int32) uint64 {
	for _, id := range ids {
		seed = (seed ^ uint64(uint32(id))) * 0x9e3779b97f4a7c15
		seed ^= seed >> 29
	}
	return seed
}
