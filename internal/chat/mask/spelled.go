package mask

import (
	"cmp"
	"slices"
)

// Spellings are the texts that may come next at one place of a format, each as the
// tokenizer writes it: ascending, none twice. That keeps those with a common beginning
// together, as the leaves of a tree are.
type Spellings [][]int32

// NewSpellings takes the texts, each as ids, and orders them in place.
func NewSpellings(texts [][]int32) Spellings {
	slices.SortFunc(texts, slices.Compare)
	return slices.CompactFunc(texts, slices.Equal)
}

// A Spelled text is one of Spellings, read as far as it has come.
type Spelled struct {
	left Spellings // those that begin with what was read
	read int       // how many ids that is
}

// Begin returns the beginning of one of texts.
func Begin(texts Spellings) Spelled { return Spelled{left: texts} }

// Allow adds the ids that may come next to dst.
func (s *Spelled) Allow(dst []uint64) {
	for _, text := range s.left {
		if s.read < len(text) {
			Allow(dst, text[s.read])
		}
	}
}

// Accept advances by an id, and reports whether a text goes on with it.
func (s *Spelled) Accept(id int32) bool {
	// What ended here has no next id: it sorts before all that have one.
	from, found := slices.BinarySearchFunc(s.left, id, func(text []int32, id int32) int {
		if s.read >= len(text) {
			return -1
		}
		return cmp.Compare(text[s.read], id)
	})
	if !found {
		return false
	}
	end := from
	for end < len(s.left) && s.left[end][s.read] == id {
		end++
	}
	s.left, s.read = s.left[from:end], s.read+1
	return true
}

// Done reports whether a text ends here.
func (s *Spelled) Done() bool { return len(s.left) > 0 && len(s.left[0]) == s.read }
