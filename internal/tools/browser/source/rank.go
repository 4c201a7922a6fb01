package source

import (
	"cmp"
	"math"
	"slices"
)

// counts are the words of one document: each distinct one once, in the order of their hashes, and
// how often it is there. A search looks its few words up in each document; at a hundred thousand
// documents that takes less time than a model needs for a token, and a document that changes is
// replaced without touching anything else.
type counts struct {
	words []word
	times []uint16
	total int // words of the document, each occurrence
}

// titleWeight is how many words of the text one of the title counts for.
const titleWeight = 4

// count returns the words of a document.
func count(title, text string) counts {
	var all []word
	eachWord(title, func(w word) {
		for range titleWeight {
			all = append(all, w)
		}
	})
	// Sorted words are counted first, so that both lists are allocated once and exactly.
	eachWord(text, func(w word) { all = append(all, w) })
	slices.Sort(all)
	out := counts{total: len(all)}
	distinct := 0
	for i := range all {
		if i == 0 || all[i] != all[i-1] {
			distinct++
		}
	}
	out.words, out.times = make([]word, 0, distinct), make([]uint16, 0, distinct)
	for i := 0; i < len(all); {
		end := i + 1
		for end < len(all) && all[end] == all[i] {
			end++
		}
		out.words = append(out.words, all[i])
		out.times = append(out.times, uint16(min(end-i, math.MaxUint16)))
		i = end
	}
	return out
}

// of returns how often a word is there.
func (c *counts) of(w word) uint16 {
	if at, found := slices.BinarySearch(c.words, w); found {
		return c.times[at]
	}
	return 0
}

// Parameters of Okapi BM25 (Robertson and Zaragoza 2009, 3.5): how fast repetition stops to count,
// and how much the length of a document does.
const (
	bm25K = 1.2
	bm25B = 0.75
)

// A match is a document that holds words of a query.
type match struct {
	doc   *document
	score float64
}

// rank returns the n best documents for a query, and the weights of its words. Documents of the
// same score are in the order of their paths.
func rank(docs []*document, query []word, n int) (best []match, weights []float64) {
	holding, total := make([]int, len(query)), 0
	var found []*document
	var times []uint16 // [found × query]
	for _, doc := range docs {
		total += doc.counts.total
		some := false
		for i, w := range query {
			here := doc.counts.of(w)
			times = append(times, here)
			if here > 0 {
				holding[i]++
				some = true
			}
		}
		if some {
			found = append(found, doc)
		} else {
			times = times[:len(times)-len(query)]
		}
	}
	weights = make([]float64, len(query))
	for i := range query {
		weights[i] = math.Log(1 + (float64(len(docs)-holding[i])+0.5)/(float64(holding[i])+0.5))
	}
	average := float64(total) / float64(max(len(docs), 1))
	for k, doc := range found {
		norm := bm25K * (1 - bm25B + bm25B*float64(doc.counts.total)/average)
		score := 0.0
		for i, weight := range weights {
			t := float64(times[k*len(query)+i])
			score += weight * t * (bm25K + 1) / (t + norm)
		}
		best = append(best, match{doc, score})
	}
	slices.SortFunc(best, func(a, b match) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.doc.path, b.doc.path))
	})
	return best[:min(n, len(best))], weights
}
