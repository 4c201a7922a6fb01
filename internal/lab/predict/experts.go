package predict

import "math"

// Which experts a step reads. Routers are not fair: chances fall with the rank of an expert as a
// power law, so small steps read fewer than equal chances would (lab.md 5).

// expertPower is the exponent of the power law over ranks, as fitted to published runs.
const expertPower = 1.2

// distinctExperts is a table of how many experts of a layer n tokens use, at powers of √2.
type distinctExperts struct {
	all   float64
	table []float64 // [2·log2 n]
}

// newDistinctExperts fills the table for experts of which each token chooses topK.
func newDistinctExperts(experts, topK int, exponent float64) distinctExperts {
	d := distinctExperts{all: float64(experts)}
	if experts == 0 {
		return d
	}
	chances := chances(experts, topK, exponent)
	for i := range 2*16 + 1 { // up to 65,536 tokens
		n := math.Pow(2, float64(i)/2)
		used := 0.0
		for _, p := range chances {
			used += 1 - math.Pow(1-p, n)
		}
		d.table = append(d.table, used)
	}
	return d
}

// chances returns with which probability a token uses each expert: proportional to rank^-exponent,
// topK together, none above 1.
func chances(experts, topK int, exponent float64) []float64 {
	weights := make([]float64, experts)
	for rank := range weights {
		weights[rank] = math.Pow(float64(rank+1), -exponent)
	}
	// Those that would be above 1 are certain; the others share what is left.
	for certain := 0; certain < experts; certain++ {
		left := 0.0
		for _, w := range weights[certain:] {
			left += w
		}
		scale := float64(topK-certain) / left
		if weights[certain]*scale <= 1 {
			for rank := certain; rank < experts; rank++ {
				weights[rank] *= scale
			}
			return weights
		}
		weights[certain] = 1
	}
	return weights
}

// of returns how many experts a step of n tokens is expected to use.
func (d *distinctExperts) of(n int) float64 {
	if n < 1 || len(d.table) == 0 {
		return 0
	}
	at := 2 * math.Log2(float64(n))
	low := int(at)
	if low >= len(d.table)-1 {
		return d.table[len(d.table)-1]
	}
	return d.table[low] + (at-float64(low))*(d.table[low+1]-d.table[low])
}

// tiles are the numbers of rows that kernels of experts compute at once; they take the smallest in
// which the rows of an average expert fit with some room, or the largest.
var tiles = [...]float64{8, 16, 32, 48, 64}

// padding returns how many rows are computed in vain in a step of that many routed rows over all
// experts, of which some are used: half a tile of each.
func (d *distinctExperts) padding(routed, used float64) float64 {
	tile := tiles[len(tiles)-1]
	for _, t := range tiles {
		if routed/d.all < 0.9*t {
			tile = t
			break
		}
	}
	return used * tile / 2
}
