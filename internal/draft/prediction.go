package draft

// A Prediction is what somebody expects an output to have parts of. It counts how many ids of the
// output it told, whether they were guessed from it or not: a number of the texts alone. It is read
// like a text that is edited: on as long as it tells the ids, and where one is another, from the
// next place on that ends as the output does.
type Prediction struct {
	index *Index
	tail  []int32 // the last ids of the output, MostMatch of them at least
	next  int     // of the prediction's ids, the one that is told
	told  int
}

// NewPrediction returns the prediction of what is in text, which several may read at a time; nil of
// nil.
func NewPrediction(text *Index) *Prediction {
	if text == nil {
		return nil
	}
	return &Prediction{index: text}
}

// Push reads the next id of the output. Of nil it does nothing.
func (p *Prediction) Push(id int32) {
	if p == nil {
		return
	}
	if len(p.tail) >= 4*MostMatch {
		p.tail = append(p.tail[:0], p.tail[len(p.tail)-MostMatch:]...)
	}
	p.tail = append(p.tail, id)
	if p.next < len(p.index.ids) && p.index.ids[p.next] == id {
		p.next++
		p.told++
		return
	}
	// Of the places that end alike, the one next to where it was.
	var found places
	p.index.find(p.tail, &found)
	best := -1
	for _, place := range found.found[:found.n] {
		if best < 0 || abs(place.next-p.next) < abs(best-p.next) {
			best = place.next
		}
	}
	if best >= 0 {
		p.next = best
	}
}

// Counts returns how many ids of the prediction the output has had, and how many it has not. Of nil
// both are 0.
func (p *Prediction) Counts() (accepted, rejected int) {
	if p == nil {
		return 0, 0
	}
	accepted = min(p.told, p.index.Len())
	return accepted, p.index.Len() - accepted
}

func abs(n int) int { return max(n, -n) }
