package draft

import "sort"

// A Store holds outputs of finished requests, the oldest of which give way to new ones. Each has a
// key, and a draft is made of outputs with its own key alone: keys are of who may see each other's
// outputs, since a guess that comes true shows in time.
//
// Ids lie in a ring, an output in one piece. Positions count on for ever: what lies at one that is
// older than the oldest output's has been given away.
type Store struct {
	rule
	requests int
	ring     []int32  // made when the first output comes
	earlier  []uint32 // [position in ring]: how far before it the place before it in its chain is; 0 = none
	last     []int64  // [hash]: the newest place of its chain; 0 = none
	outputs  []output // the oldest first
	size     int      // of ring
	end      int64    // of the newest output
}

// An output is where one lies: positions begin to end.
type output struct {
	key        uint64
	begin, end int64
}

// NewStore returns an empty store for so many ids, of so many requests, both 1 at least. It takes
// some 12 bytes for each id, once that many have come.
func NewStore(ids, requests int) *Store {
	return &Store{rule: newRule(DefaultShortest), requests: max(requests, 1), size: max(ids, 1)}
}

// Len returns of how many requests there are outputs.
func (s *Store) Len() int { return len(s.outputs) }

// Add takes an output; of one that is too long for the store it takes the end.
func (s *Store) Add(key uint64, ids []int32) {
	ids = ids[max(len(ids)-s.size, 0):]
	if len(ids) <= s.shortest { // nothing follows any place
		return
	}
	if s.ring == nil {
		chains := 256
		for chains < s.size/2 {
			chains *= 2
		}
		s.ring, s.earlier, s.last, s.end = make([]int32, s.size), make([]uint32, s.size), make([]int64, chains), 1
	}
	begin, size := s.end, int64(s.size)
	if at := begin % size; at+int64(len(ids)) > size {
		begin += size - at // in one piece
	}
	s.end = begin + int64(len(ids))
	drop := max(len(s.outputs)+1-s.requests, 0)
	for drop < len(s.outputs) && s.outputs[drop].begin < s.end-size {
		drop++
	}
	s.outputs = append(s.outputs[:copy(s.outputs, s.outputs[drop:])], output{key, begin, s.end})
	at := int(begin % size)
	copy(s.ring[at:], ids)
	for i := range ids {
		s.link(key, begin, i, at)
	}
}

// link puts place i of an output into its chain. The output begins at begin, in the ring at at.
func (s *Store) link(key uint64, begin int64, i, at int) {
	s.earlier[at+i] = 0
	if i < s.shortest {
		return
	}
	place := begin + int64(i)
	chain := s.chain(key, s.ring[at+i-s.shortest:at+i])
	if before := *chain; before > place-int64(s.size) && before > 0 {
		s.earlier[at+i] = uint32(place - before)
	}
	*chain = place
}

// chain is where the newest place behind ids is, in outputs with that key and by chance others.
func (s *Store) chain(key uint64, ids []int32) *int64 {
	return &s.last[hash(key, ids)&uint64(len(s.last)-1)]
}

// Draft appends to dst up to n ids that came behind ids like the end of tail in outputs with that
// key, and returns how many are alike; 0 = there is no such place. It takes up to 20 µs.
func (s *Store) Draft(key uint64, tail, dst []int32, n int) (ids []int32, match int) {
	if len(tail) < s.shortest || n <= 0 || len(s.outputs) == 0 {
		return dst, 0
	}
	var p places
	compared, size := 0, int64(s.size)
	next := *s.chain(key, tail[len(tail)-s.shortest:])
	for range mostSteps {
		if next < s.outputs[0].begin || compared == mostPlaces {
			break
		}
		at, inRing := next, int(next%size)
		next -= int64(s.earlier[inRing])
		of := s.outputAt(at)
		if of.key == key {
			begin := inRing - int(at-of.begin)
			if same := alike(s.ring[begin:inRing], tail, s.longest); same >= s.shortest {
				compared++
				p.offer(place{inRing, inRing + int(of.end-at)}, same)
			}
		}
		if next == at {
			break
		}
	}
	return p.follow(dst, s.ring, n, &s.rule, false), p.match
}

// outputAt returns the output with a position, which is in one.
func (s *Store) outputAt(at int64) *output {
	i := sort.Search(len(s.outputs), func(i int) bool { return s.outputs[i].end > at })
	return &s.outputs[i]
}
