package mask

// A Reader is what reads ids one by one and says which may come next.
type Reader interface {
	Mask(dst []uint64) error
	Accept(id int32) error
}

// Ahead reads guesses one after another and sets as many masks to what may come behind each. It
// returns how many there are until one is not allowed, or until nothing may come behind one. The
// first is taken to be allowed. It moves at: whoever has to stay where it is gives a copy.
func Ahead(at Reader, guesses []int32, masks [][]uint64) int {
	for i, id := range guesses[:min(len(guesses), len(masks))] {
		if id < 0 || (i > 0 && !has(masks[i-1], id)) || at.Accept(id) != nil || at.Mask(masks[i]) != nil || empty(masks[i]) {
			return i
		}
	}
	return min(len(guesses), len(masks))
}

// has reports whether a set has an id.
func has(set []uint64, id int32) bool {
	return int(id/64) < len(set) && set[id/64]>>(id%64)&1 == 1
}

// empty reports whether a set has no id.
func empty(set []uint64) bool {
	for _, word := range set {
		if word != 0 {
			return false
		}
	}
	return true
}
