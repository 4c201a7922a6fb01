package self

// A likeness finds where in the static form a piece of the dynamic one is from.
type likeness struct {
	static []byte
	places map[[sample]byte]int // where the samples are that are there once; -1 = they are there more often
	last   int                  // where the piece before was from
}

const (
	sample = 16 // bytes that tell one place from another
	stride = 8  // between the samples of the static form: places of code and data are multiples of it, mostly
)

// newLikeness reads the static form.
func newLikeness(static []byte) *likeness {
	found := &likeness{static: static, places: make(map[[sample]byte]int, len(static)/stride)}
	for at := 0; at+sample <= len(static); at += stride {
		key := [sample]byte(static[at:])
		if _, again := found.places[key]; again {
			found.places[key] = -1
			continue
		}
		found.places[key] = at
	}
	return found
}

// window returns where in the static form the window begins that is most like a piece: that of the
// shift which most of its samples agree on. Where none says anything the piece goes on where the
// one before ended.
func (l *likeness) window(piece []byte) int {
	votes := map[int]int{} // by the place that the piece would begin at
	for i := 0; i+sample <= len(piece); i++ {
		if at, known := l.places[[sample]byte(piece[i:])]; known && at >= 0 {
			votes[at-i]++
		}
	}
	best, most := l.last, 0
	for place, n := range votes {
		if n > most || (n == most && place < best) {
			best, most = place, n
		}
	}
	l.last = best + len(piece)
	// The place lies in the middle of the window: code moves by little to either side.
	return max(min(best-(window-blockSize)/2, len(l.static)-window), 0)
}
