package token

import "math"

// Encode appends the ids of text to dst. Text is anyone's: no added or control
// token comes out, whatever it spells. Invalid UTF-8 counts as U+FFFD.
func (t *BPE) Encode(dst []int32, text string) []int32 {
	text = toValid(text)
	if t.nfc {
		text = nfc(text)
	}
	chars := charClasses()
	for start := 0; start < len(text); {
		end := t.scan(chars, text, start)
		piece := text[start:end]
		start = end
		// Most pieces are one token. The others are merged, in memory that is used again.
		if id, ok := t.lookup(piece); ok {
			dst = append(dst, id)
			continue
		}
		state, _ := t.pool.Get().(*scratch)
		if state == nil {
			state = new(scratch)
		}
		dst = t.merge(dst, piece, state)
		t.pool.Put(state)
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
func (t *BPE) merge(dst []int32, piece string, state *scratch) []int32 {
	parts := t.singleBytes(piece, state)
	if len(parts) > longPiece {
		return t.mergeLong(dst, piece, state)
	}
	return t.mergeShort(dst, piece, parts)
}

// singleBytes sets state.parts to the bytes of piece and the sentinel.
func (t *BPE) singleBytes(piece string, state *scratch) []part {
	state.parts = state.parts[:0]
	for i := range len(piece) {
		if id := t.bytes[piece[i]]; id >= 0 {
			state.parts = append(state.parts, part{start: int32(i), id: id})
		}
	}
	state.parts = append(state.parts, part{start: int32(len(piece))})
	for i := range state.parts {
		t.rate(piece, state.parts, i, i+1, i+2)
	}
	return state.parts
}

// mergeShort looks at all parts for every merge.
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
		// Only the new part and the one before it have another neighbour now.
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

// rate finds the merge of parts at and next. Part behind follows next; it is past the end of
// parts if at or next is the sentinel, which merges with nothing.
func (t *BPE) rate(piece string, parts []part, at, next, behind int) {
	left := &parts[at]
	left.rank = noRank
	if behind >= len(parts) {
		return
	}
	if !t.byRank {
		if s := t.pairs.at(pair(left.id, parts[next].id)); s.key != 0 {
			left.rank, left.merged = s.rank, s.id
		}
		return
	}
	both := piece[left.start:parts[behind].start]
	if len(both) > t.longest {
		return
	}
	if id, ok := t.lookup(both); ok {
		left.rank, left.merged = id, id
	}
}

// A candidate is a possible merge in the heap: rank, then position, so that the
// lowest rank and of equal ranks the leftmost comes first.
type candidate uint64

// mergeLong is merge for pieces of any length, in n log n time. Candidates that a
// neighbouring merge has overtaken stay in the heap and are skipped.
func (t *BPE) mergeLong(dst []int32, piece string, state *scratch) []int32 {
	// Parts stay where they are; links lead from each to those that are left.
	parts := state.parts
	last := int32(len(parts) - 1)
	state.heap = state.heap[:0]
	for at := range parts {
		parts[at].prev, parts[at].next = int32(at)-1, int32(at)+1
		state.push(int32(at))
	}
	for len(state.heap) > 0 {
		rank, at := state.pop()
		left := &parts[at]
		if left.rank != rank || left.next < 0 {
			continue
		}
		// gone becomes part of left. Its rank and link tell candidates that it is no more.
		gone := left.next
		left.id, left.next = left.merged, parts[gone].next
		parts[gone].next, parts[gone].rank = -1, noRank
		parts[left.next].prev = at
		t.rateLinked(piece, parts, at, last)
		state.push(at)
		if left.prev >= 0 {
			t.rateLinked(piece, parts, left.prev, last)
			state.push(left.prev)
		}
	}
	for at := int32(0); at < last; at = parts[at].next {
		dst = append(dst, parts[at].id)
	}
	return dst
}

// rateLinked is rate along the next links. The sentinel has none behind it.
func (t *BPE) rateLinked(piece string, parts []part, at, last int32) {
	next := parts[at].next
	behind := len(parts)
	if next != last {
		behind = int(parts[next].next)
	}
	t.rate(piece, parts, int(at), int(next), behind)
}

// push adds the merge of a part with the next one, if there is one, to the heap.
func (s *scratch) push(at int32) {
	if s.parts[at].rank == noRank {
		return
	}
	added := candidate(s.parts[at].rank)<<32 | candidate(at)
	s.heap = append(s.heap, added)
	heap, hole := s.heap, len(s.heap)-1
	for hole > 0 && heap[(hole-1)/2] > added {
		heap[hole] = heap[(hole-1)/2]
		hole = (hole - 1) / 2
	}
	heap[hole] = added
}

// pop takes the candidate that comes first.
func (s *scratch) pop() (rank, at int32) {
	heap := s.heap
	top, moved := heap[0], heap[len(heap)-1]
	heap = heap[:len(heap)-1]
	// The last one moves into the hole at the top and down to its place.
	hole := 0
	for 2*hole+1 < len(heap) {
		child := 2*hole + 1
		if child+1 < len(heap) && heap[child+1] < heap[child] {
			child++
		}
		if heap[child] >= moved {
			break
		}
		heap[hole] = heap[child]
		hole = child
	}
	if len(heap) > 0 {
		heap[hole] = moved
	}
	s.heap = heap
	return int32(top >> 32), int32(top & math.MaxUint32)
}
