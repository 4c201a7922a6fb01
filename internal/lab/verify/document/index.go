package document

// An index of all figures by their value: rules look each figure of a table up in all blocks,
// and a document may have many of both.

import (
	"math"
	"slices"
	"sort"
)

// An indexed is a figure of a block, or of a table where block is nil.
type indexed struct {
	figure Number
	block  *Block
}

// A figureIndex is figures in the order of their values.
type figureIndex struct {
	entries []indexed
	half    float64 // the widest rounding of them
}

// add adds a figure; sort makes the index usable.
func (x *figureIndex) add(figure Number, block *Block) {
	x.entries = append(x.entries, indexed{figure, block})
	x.half = math.Max(x.half, figure.Half)
}

func (x *figureIndex) sort() {
	sort.SliceStable(x.entries, func(i, k int) bool { return x.entries[i].figure.Value < x.entries[k].figure.Value })
}

// near are the entries whose rounding may reach a figure.
func (x *figureIndex) near(figure Number) []indexed {
	reach := (figure.Half+x.half)*(1+1e-9) + 1e-9*math.Abs(figure.Value)
	first := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].figure.Value >= figure.Value-reach })
	last := first
	for last < len(x.entries) && x.entries[last].figure.Value <= figure.Value+reach {
		last++
	}
	return x.entries[first:last]
}

// closest is the entry whose value is closest to a figure's; false for an empty index.
func (x *figureIndex) closest(figure Number) (indexed, bool) {
	at := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].figure.Value >= figure.Value })
	best, least := -1, math.Inf(1)
	for _, i := range []int{at - 1, at} {
		if i >= 0 && i < len(x.entries) && math.Abs(x.entries[i].figure.Value-figure.Value) < least {
			best, least = i, math.Abs(x.entries[i].figure.Value-figure.Value)
		}
	}
	if best < 0 {
		return indexed{}, false
	}
	return x.entries[best], true
}

// maxIndexed bounds the figures of one metric that are looked at for one figure.
const maxIndexed = 1_000

// index makes the indexes of a document.
func (d *Document) index() {
	d.byKey = map[string]*figureIndex{}
	for _, block := range d.Blocks {
		// A map of keys first, as a derived total has none of its own.
		keys := map[string]bool{"total_token_throughput": true} // which may follow from others
		for key := range block.Values {
			keys[key] = true
		}
		for key := range keys {
			if figure, ok := block.Figure(key); ok {
				if d.byKey[key] == nil {
					d.byKey[key] = &figureIndex{}
				}
				d.byKey[key].add(figure, block)
			}
		}
	}
	for _, index := range d.byKey {
		index.sort()
	}
	for t := range d.Tables {
		for r := range d.Tables[t].Rows {
			for c := range d.Tables[t].Rows[r].Cells {
				for _, f := range d.Tables[t].Rows[r].Cells[c].Figures {
					d.inTables.add(f.Number, nil)
				}
			}
		}
	}
	d.inTables.sort()
}

// Sources are the blocks that have a figure, in the order of the document: its value is that
// of theirs, as far as both are printed.
func (d *Document) Sources(figure *TableFigure) []*Block {
	var out []*Block
	for _, key := range KeysOf(figure.Metric) {
		index := d.byKey[key]
		if index == nil {
			continue
		}
		near := index.near(figure.Number)
		for _, entry := range near[:min(len(near), maxIndexed)] {
			if entry.figure.Same(figure.Number) {
				out = append(out, entry.block)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *Block) int { return a.number - b.number })
	return slices.Compact(out)
}

// Known reports whether blocks have a metric at all.
func (d *Document) Known(metric string) bool {
	return slices.ContainsFunc(KeysOf(metric), func(key string) bool { return d.byKey[key] != nil })
}

// Nearest is the block whose value of the metric comes nearest, and its key; nil where no
// block has the metric.
func (d *Document) Nearest(figure *TableFigure) (*Block, string) {
	var found *Block
	key, least := "", math.Inf(1)
	for _, candidate := range KeysOf(figure.Metric) {
		if index := d.byKey[candidate]; index != nil {
			if entry, ok := index.closest(figure.Number); ok && math.Abs(entry.figure.Value-figure.Number.Value) < least {
				found, key, least = entry.block, candidate, math.Abs(entry.figure.Value-figure.Number.Value)
			}
		}
	}
	return found, key
}

// Around is how many blocks have a metric within 2 % of a figure: several are repetitions,
// of which a table may give the mean.
func (d *Document) Around(key string, figure Number) int {
	index := d.byKey[key]
	if index == nil {
		return 0
	}
	figure.Half = 0.02 * math.Abs(figure.Value)
	return len(index.near(figure))
}

// InTables reports whether a figure stands in a table.
func (d *Document) InTables(value Number) bool {
	return slices.ContainsFunc(d.inTables.near(value), func(entry indexed) bool { return entry.figure.Span().Meets(value.Span()) })
}
