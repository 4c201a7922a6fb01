package token

import "math"

// Encode appends the ids of text to dst. Text is anyone's: no added or control
// token comes out, whatever it spells. Invalid UTF-8 counts as U+FFFD.
func (t *BPE) Encode(dst []int32, text string) []int32 {
	text = toValid(text)
	if t.nfc {
		text = nfc(text)
	}
	c := classes()
	for i := 0; i < len(text); {
		end := t.scan(c, text, i)
		piece := text[i:end]
		i = end
		if id, ok := t.lookup(piece); ok {
			dst = append(dst, id)
			continue
		}
		s, _ := t.pool.Get().(*scratch)
		if s == nil {
			s = new(scratch)
		}
		dst = t.merge(dst, piece, s)
		t.pool.Put(s)
	}
	return dst
}

// scratch is the state of merging one piece. parts are its tokens so far, the
// last one a sentinel at the end of the piece.
type scratch struct {
	parts []part
	heap  []candidate
}

// A part is a token of a piece, and how well it merges with the next one.
type part struct {
	start      int32 // byte in the piece
	id         int32
	rank       int32 // of merging with the next part, noRank = impossible
	merged     int32 // id of that merge
	prev, next int32 // parts; used by the heap only
}

const noRank = math.MaxInt32

// longPiece is the number of parts from which a heap beats scanning for the
// lowest rank; scanning takes quadratic time.
const longPiece = 100

// merge appends the ids of one piece: repeatedly the pair of neighbours with the
// lowest rank becomes one token, the leftmost first (formats.md §7).
func (t *BPE) merge(dst []int32, piece string, s *scratch) []int32 {
	parts := t.split(piece, s)
	if len(parts) > longPiece {
		return t.mergeLong(dst, piece, s)
	}
	return t.mergeShort(dst, piece, parts)
}

// split sets s.parts to the bytes of piece and the sentinel.
func (t *BPE) split(piece string, s *scratch) []part {
	s.parts = s.parts[:0]
	for i := range len(piece) {
		if id := t.bytes[piece[i]]; id >= 0 {
			s.parts = append(s.parts, part{start: int32(i), id: id})
		}
	}
	s.parts = append(s.parts, part{start: int32(len(piece))})
	for i := range s.parts {
		t.rate(piece, s.parts, i, i+1, i+2)
	}
	return s.parts
}

func (t *BPE) mergeShort(dst []int32, piece string, parts []part) []int32 {
	for {
		best := 0
		for i := range parts {
			if parts[i].rank < parts[best].rank {
				best = i
			}
		}
		if parts[best].rank == noRank {
			break
		}
		parts[best].id = parts[best].merged
		parts = append(parts[:best+1], parts[best+2:]...)
		t.rate(piece, parts, best, best+1, best+2)
		if best > 0 {
			t.rate(piece, parts, best-1, best, best+1)
		}
	}
	for _, p := range parts[:len(parts)-1] {
		dst = append(dst, p.id)
	}
	return dst
}

// rate finds the merge of parts i and j. Part k follows j; it is past the end of
// parts if i or j is the sentinel, which merges with nothing.
func (t *BPE) rate(piece string, parts []part, i, j, k int) {
	p := &parts[i]
	p.rank = noRank
	if k >= len(parts) {
		return
	}
	if !t.byRank {
		if s := t.pairs.at(pair(p.id, parts[j].id)); s.key != 0 {
			p.rank, p.merged = s.rank, s.id
		}
		return
	}
	both := piece[p.start:parts[k].start]
	if len(both) > t.longest {
		return
	}
	if id, ok := t.lookup(both); ok {
		p.rank, p.merged = id, id
	}
}

// A candidate is a possible merge in the heap: rank, then position, so that the
// lowest rank and of equal ranks the leftmost comes first.
type candidate uint64

// mergeLong is merge for pieces of any length, in n log n time. Candidates that a
// neighbouring merge has overtaken stay in the heap and are skipped.
func (t *BPE) mergeLong(dst []int32, piece string, s *scratch) []int32 {
	parts := s.parts
	last := int32(len(parts) - 1)
	s.heap = s.heap[:0]
	for i := range parts {
		parts[i].prev, parts[i].next = int32(i)-1, int32(i)+1
		s.push(int32(i))
	}
	for len(s.heap) > 0 {
		rank, i := s.pop()
		p := &parts[i]
		if p.rank != rank || p.next < 0 {
			continue
		}
		gone := p.next
		p.id, p.next = p.merged, parts[gone].next
		parts[gone].next, parts[gone].rank = -1, noRank
		parts[p.next].prev = i
		t.rateLinked(piece, parts, i, last)
		s.push(i)
		if p.prev >= 0 {
			t.rateLinked(piece, parts, p.prev, last)
			s.push(p.prev)
		}
	}
	for i := int32(0); i < last; i = parts[i].next {
		dst = append(dst, parts[i].id)
	}
	return dst
}

// rateLinked is rate along the next links. The sentinel has none behind it.
func (t *BPE) rateLinked(piece string, parts []part, i, last int32) {
	j := parts[i].next
	k := len(parts)
	if j != last {
		k = int(parts[j].next)
	}
	t.rate(piece, parts, int(i), int(j), k)
}

func (s *scratch) push(i int32) {
	if s.parts[i].rank == noRank {
		return
	}
	c := candidate(s.parts[i].rank)<<32 | candidate(i)
	s.heap = append(s.heap, c)
	h, n := s.heap, len(s.heap)-1
	for n > 0 && h[(n-1)/2] > c {
		h[n] = h[(n-1)/2]
		n = (n - 1) / 2
	}
	h[n] = c
}

func (s *scratch) pop() (rank, i int32) {
	h := s.heap
	top, c := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	n := 0
	for 2*n+1 < len(h) {
		child := 2*n + 1
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[child] >= c {
			break
		}
		h[n] = h[child]
		n = child
	}
	if len(h) > 0 {
		h[n] = c
	}
	s.heap = h
	return int32(top >> 32), int32(top & math.MaxUint32)
}
