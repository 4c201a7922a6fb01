package cost

import "math"

// Experts is the shape of a layer of experts.
type Experts struct {
	Up, Down    Matrix // of one expert; Up has gates and ups
	Count, TopK int
	Bias        bool
	Products    Products
}

// expertPiece is the most tokens that package cuda gives to experts at a time.
const expertPiece = 2048

// Assigned is which experts a step's tokens choose: how many tokens each expert of a layer has.
type Assigned []float64

// tile is the tile that package cuda chooses: by what an expert has on average.
func (e *Experts) tile(tokens int) int {
	warpgroups := e.Products.has(e.Up.Format) && e.Products.has(e.Down.Format)
	switch average := (tokens*e.TopK + e.Count - 1) / e.Count; {
	case warpgroups && e.Products.Tile > 0:
		return e.Products.Tile
	case average <= 4:
		return 8
	case average <= 10:
		return 16
	case warpgroups && average <= 20:
		return 32
	case warpgroups && average <= 96:
		return 64
	case average <= 48:
		return 32
	}
	return 128
}

// exact returns the cover of experts with so many tokens each, and how many of them have any.
func exact(counts []int, tile int) (c cover, used float64) {
	for _, n := range counts {
		c.add(cut(n, tile), 1)
		used += float64(min(n, 1))
	}
	return c, used
}

// manyTokens is from how many tokens of an expert on their number counts as certain.
const manyTokens = 100

// expected returns the cover to be expected of experts that have so many of the step's tokens on
// average, each token choosing an expert with the same chance.
func expected(means Assigned, tokens, tile int) (c cover, used float64) {
	for _, mean := range means {
		p := math.Min(mean/float64(tokens), 1)
		if mean > manyTokens && p < 1 {
			part := func(size float64) float64 { return mean/size + 0.5 - 0.5/size }
			c.add(cover{part(float64(tile)), mean, part(2), part(4), part(8)}, 1)
			used++
			continue
		}
		if p == 1 {
			c.add(cut(tokens, tile), 1)
			used++
			continue
		}
		chance := math.Pow(1-p, float64(tokens)) // of n tokens
		used += 1 - chance
		for n := 1; n <= tokens && float64(n) < mean+8*math.Sqrt(mean)+8; n++ {
			chance *= p / (1 - p) * float64(tokens-n+1) / float64(n)
			c.add(cut(n, tile), chance)
		}
	}
	return c, used
}

// Works are the kernels of a layer's experts for so many tokens: the plan, the products, the sum; before
// products by warpgroups rows are put in order.
func (e *Experts) Works(tokens int, means Assigned) []Work {
	if tokens > expertPiece { // in pieces, of which the last may be smaller
		var all []Work
		for first := 0; first < tokens; first += expertPiece {
			piece := min(expertPiece, tokens-first)
			some := make(Assigned, len(means))
			for i, mean := range means {
				some[i] = mean * float64(piece) / float64(tokens)
			}
			all = append(all, e.Works(piece, some)...)
		}
		return all
	}
	tile := e.tile(tokens)
	cover, used := expected(means, tokens, tile)
	return e.works(tokens, tile, cover, used)
}

// planned reports whether a step so large has its plan made as experts are chosen, normed whether the norm
// behind sums up what they made.
func (e *Experts) planned(tokens int) bool { return tokens <= planTokens }
func (e *Experts) normed(tokens int) bool {
	return tokens <= expertPiece && (e.TopK == 4 || e.TopK == 8) && e.Down.Rows%4 == 0
}

func (e *Experts) works(tokens, tile int, c cover, used float64) []Work {
	tiles := tokens*e.TopK/tile + min(e.Count, tokens*e.TopK) // that package cuda launches, of which some are empty
	if tile >= 32 && e.Products.has(e.Up.Format) && e.Products.has(e.Down.Format) {
		return e.byWarpgroups(tokens, tile, c, used)
	}
	up := e.Up.product("up", tile, tiles, c, pad64(e.Up.Rows/2)/8)
	down := e.Down.product("down", tile, tiles, c, e.Down.groups())
	e.gather(&up, &e.Up, tile, c, 4)
	e.gather(&down, &e.Down, tile, c, 2)
	e.move(&up, &down, tokens, c, used)
	return []Work{e.plan(tokens), up, down, e.combine(tokens)}
}

// byWarpgroups is works with products by warpgroups.
func (e *Experts) byWarpgroups(tokens, tile int, c cover, used float64) []Work {
	up := e.Up.byWarpgroups("up", tile, c, pad64(e.Up.Rows/2)/8)
	down := e.Down.byWarpgroups("down", tile, c, e.Down.groups())
	e.move(&up, &down, tokens, c, used)
	return []Work{e.plan(tokens), Gather(e.Up.Cols, tokens*e.TopK, float64(tokens)), up, down, e.combine(tokens)}
}

// move says what both products move from and to memory.
func (e *Experts) move(up, down *Work, tokens int, c cover, used float64) {
	inner, hidden, assignments := float64(pad64(e.Up.Rows/2)), float64(pad64(e.Down.Rows)), c.tokens
	up.Memory = used*e.Up.Bytes() + float64(tokens)*2*hidden + assignments*2*inner
	down.Memory = used*e.Down.Bytes() + assignments*(2*inner+4*hidden)
	up.Again, up.Between = (c.tiles-used)*e.Up.Bytes(), e.Up.Bytes()
	down.Again, down.Between = (c.tiles-used)*e.Down.Bytes(), e.Down.Bytes()
}

// gather adds what a product of experts reads beside weights and tokens: its tile, places in the
// order, biases of so many sectors.
func (e *Experts) gather(w *Work, m *Matrix, tile int, c cover, bias float64) {
	warps := float64(w.Threads / 32)
	loads := c.fours * float64(m.chunks())
	if tile == 128 {
		loads = c.tiles * 4 * warps
	} else {
		w.Warp += w.Blocks * warps * float64(tile) * 4.5 // places in the order
	}
	live := c.pairs
	if w.Kernel[0] == 'u' {
		live = c.fours
	}
	blocks := w.Blocks / c.tiles
	w.Sectors += blocks*(warps*c.tiles+loads) + live*float64(m.groups())
	if e.Bias {
		w.Sectors += bias * live * float64(m.groups())
	}
	w.Trips += 2 // tile, then place
}

// plan is experts_plan: a block per expert reads all choices, of many tokens twice.
func (e *Experts) plan(tokens int) Work {
	blocks, n, assignments := float64(e.Count), float64(tokens), float64(tokens*e.TopK)
	few, again := math.Min(assignments, 32), math.Max(assignments-8192, 0)
	each := assignments / blocks
	reads := math.Max(few, n)
	if again > 0 {
		reads *= 2
	}
	return Work{Kernel: "experts_plan", Blocks: blocks, Threads: 1024, Registers: registersOf["experts_plan"], SharedBytes: 4*e.Count + 128,
		Warp:    blocks * (4830 + 44*few + 1.35*(assignments-few) + 1.1*again),
		Sectors: blocks * (reads + math.Min(each, 32) + math.Max(each-32, 0)/8 + math.Min(each, 1)), Shared: blocks * (86 + 0.35*blocks + 0.9*few + 0.032*assignments),
		Memory: n*4*float64(e.TopK) + 8*assignments, Trips: 3}
}

// combine is experts_combine: weights times planes, added up.
func (e *Experts) combine(tokens int) Work {
	width, topK, rows := float64(e.Down.Rows), float64(e.TopK), float64(tokens)
	parts := math.Ceil(width / 512)
	lines := math.Ceil(width / 32)
	work := Work{Kernel: "experts_combine", Blocks: rows * parts, Threads: 128, Registers: registersOf["experts_combine"],
		Warp: rows * (39*4*parts + lines*(11+9*topK)), Sectors: rows * (lines*4*(topK+1) + 2*lines), Memory: rows * 4 * width * (topK + 1),
		Trips: 2, FLOPs: rows * 2 * width * topK}
	if (e.TopK == 4 || e.TopK == 8) && e.Down.Rows%4 == 0 { // 4 columns a thread; lanes behind the width read the begin of a row
		work.Warp = rows * 4 * parts * (49.5 + 6.25*topK)
		work.Sectors = rows * ((topK+1)*math.Ceil(width/8) + parts*topK + topK*(4*parts-math.Floor(width/128)))
	}
	return work
}

// WorksOf are the four kernels where the number of tokens of each expert is known.
func (e *Experts) WorksOf(tokens int, counts []int) []Work {
	tile := e.tile(tokens)
	cover, used := exact(counts, tile)
	return e.works(tokens, tile, cover, used)
}
