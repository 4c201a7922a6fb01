package kern

// Products of BF16 weights in row groups with tiles of activations in BF16. With the level AMX a call
// takes all row groups of a task, with others one.

// multiplyBF16 runs a task.
func (acts *Acts) multiplyBF16(worker int, task *task) {
	matrix, job := acts.m, &acts.jobs[task.job]
	if matrix.opt.Level == AMX {
		acts.multiplyAMX(job, task, acts.scratch[worker])
		return
	}
	if matrix.inPairs() {
		acts.multiplyPairs(job, task)
		return
	}
	var results [maxTile * groupRows]float32
	tiles, together, ahead := acts.tiling.tiles[task.lo:task.hi], 1, oneFar.Ahead
	if len(tiles) == 1 {
		together, ahead = matrix.opt.Level.bf16Together(tiles[0].rows, matrix.opt.Fetch.Streams), matrix.opt.Fetch.Ahead
	}
	for first := task.from; first < task.to; {
		groups := together
		if first+groups > min(task.to, matrix.out/groupRows) {
			groups = 1
		}
		for k := range tiles {
			acts.tileBF16(job, first, groups, ahead, &tiles[k], results[:])
		}
		first += groups
	}
}

// tileBF16 multiplies row groups with a tile and asks for weights ahead bytes further on. results is
// scratch.
func (acts *Acts) tileBF16(job *Job, group, groups, ahead int, tile *tile, results []float32) {
	matrix := acts.m
	buf := acts.tiling.buf[tile.off:][:matrix.tileBytes(tile.tileRows)]
	matrix.opt.Level.bf16Tile(matrix.groups16(job.E, group, groups), matrix.size, groups, ahead, buf, matrix.in/bf16Block, tile.rows, results)
	acts.deliver(job, tile, group, results, groups*groupRows, groups*groupRows)
}

// multiplyPairs runs a task with vectors that multiply pairs, two row groups at a time.
func (acts *Acts) multiplyPairs(job *Job, task *task) {
	var results [2 * maxTile * groupRows]float32
	tiles := acts.tiling.tiles[task.lo:task.hi]
	calls := (min(task.to, acts.m.out/groupRows) - task.from) / 2
	step, apart := 2, 1
	if few(tiles) { // each call reads on, in two places, where the one before has read
		step, apart = 1, calls
	}
	for i := range calls {
		acts.groupsInPairs(job, tiles, task.from+i*step, 2, apart, results[:])
	}
	for group := task.from + 2*calls; group < task.to; group++ {
		acts.groupsInPairs(job, tiles, group, 1, 1, results[:])
	}
}

// groupsInPairs multiplies row groups, the first and another so far apart, with tiles. Results go where
// they belong at once, if these are rows in order and of whole groups, else to results first.
func (acts *Acts) groupsInPairs(job *Job, tiles []tile, first, groups, apart int, results []float32) {
	matrix, direct := acts.m, job.Y == nil && first < acts.m.out/groupRows
	product := pairsProduct{w: matrix.groups16(job.E, first, (groups-1)*apart+1), nb: matrix.in / bf16Block,
		groups: groups, size: apart * matrix.size, y: results, ldy: groups * groupRows, gap: groupRows}
	for k := range tiles {
		tile := &tiles[k]
		product.a, product.rows = acts.tiling.buf[tile.off:][:matrix.tileBytes(tile.tileRows)], tile.rows
		if !few(tiles) {
			product.ask(k, len(tiles))
		}
		if direct {
			product.y, product.ldy, product.gap = acts.dst[tile.first*matrix.out+first*groupRows:], matrix.out, apart*groupRows
		}
		product.run()
		for g := 0; g < groups && !direct; g++ {
			acts.deliver(job, tile, first+g*apart, results[g*groupRows:], groupRows, groups*groupRows)
		}
		for row := 0; row < tile.rows && direct && acts.bias != nil; row++ {
			for g := range groups {
				acts.addBias(job, first+g*apart, acts.result(job, tile.first+row, first+g*apart)[:groupRows])
			}
		}
	}
}

// A pairsProduct is the product of one row group or two with a tile of activations, both pairs of BF16:
// y[t·ldy+g·gap+r] = w[g][r]·x[t]; see bf16Go.
type pairsProduct struct {
	w, a         []byte
	nb, rows     int // blocks, activation rows
	groups, size int // row groups, and the bytes from one to the other
	ahead, drift int // bytes ahead at which weights are asked for, and how many more with every block
	y            []float32
	ldy, gap     int
}

// few reports whether tiles are one of few rows, for which memory sets the pace. Zen 4 sees by itself
// where they read: it is slower by a tenth if it is told.
func few(tiles []tile) bool { return len(tiles) == 1 && tiles[0].rows <= fewRows }

// fewRows is the most rows that are one tile. More are two tiles at least, each of which asks for a
// part of the groups that come next, so that memory is read at one rate.
const fewRows = 4

// ask sets where tile k of so many asks for weights: its part of the groups that come next.
func (p *pairsProduct) ask(k, tiles int) {
	p.ahead, p.drift = p.groups*p.size+k*p.nb/tiles*tileWeights, (tileWeights/tiles+63)&^63-tileWeights
}

// run computes the product.
func (p *pairsProduct) run() {
	_, _ = p.w[:(p.groups-1)*p.size+p.nb*tileWeights], p.a[:p.nb*p.rows*2*bf16Block]
	_ = p.y[:(p.rows-1)*p.ldy+(p.groups-1)*p.gap+groupRows]
	pairsAsm(p)
}

// deliver writes results, rows of so many floats, apart from one to the next, with the bias to
// where they belong.
func (acts *Acts) deliver(job *Job, tile *tile, group int, results []float32, width, apart int) {
	for k := range tile.rows {
		dst := acts.result(job, tile.first+k, group)
		dst = dst[:min(width, len(dst))]
		copy(dst, results[k*apart:])
		acts.addBias(job, group, dst)
	}
}

// deliverGated is deliver for pairs of results that a gate makes one of each.
func (acts *Acts) deliverGated(job *Job, tile *tile, group int, results []float32, width, apart int) {
	width = min(width, acts.m.out-group*groupRows)
	for k := range tile.rows {
		pairs := results[k*apart:][:width]
		acts.addBias(job, group, pairs)
		acts.gate(acts.dst[job.target(tile.first+k)*acts.m.out/2+group*groupRows/2:][:width/2], pairs)
	}
}

// addBias adds the biases from a row group on to results.
func (acts *Acts) addBias(job *Job, group int, dst []float32) {
	if acts.bias != nil {
		Add(acts.m.opt.Level, dst, acts.bias[job.E*acts.m.out+group*groupRows:][:len(dst)])
	}
}

// groups16 returns so many row groups of matrix e.
func (m *Matrix) groups16(e, first, groups int) []byte {
	return m.mem[(e*m.groups+first)*m.size:][:groups*m.size]
}

// amxBlocks is the most blocks of 32 elements of a row that are multiplied at a time: so many of
// two row groups take 32 KB and stay in the first-level cache for all tiles of activations.
const amxBlocks = 16

// multiplyAMX multiplies the row groups of a task with its tiles, some blocks at a time. What they
// give is added up in sums, whose rows lie close together: stored where they belong, far from one
// another, they would push each other out of the caches.
func (acts *Acts) multiplyAMX(job *Job, task *task, sums []float32) {
	matrix, nb, groups := acts.m, acts.m.in/bf16Block, task.to-task.from
	tiles, width, parts := acts.tiling.tiles[task.lo:task.hi], groups*groupRows+sumsApart, 1
	if len(tiles) > 1 {
		parts = (nb + amxBlocks - 1) / amxBlocks
	}
	weights := matrix.groups16(job.E, task.from, groups)
	for part := range parts {
		from, to := part*nb/parts, (part+1)*nb/parts
		for first, row := 0, 0; first < len(tiles); {
			tile, count := &tiles[first], 1
			for first+count < len(tiles) && tiles[first+count].rows == tile.rows {
				count++
			}
			product := tileProduct{w: weights[from*tileWeights:], a: acts.tiling.buf[tile.off+from*2*bf16Block*tile.rows:],
				nb: to - from, rows: tile.rows, groups: groups, size: matrix.size, tiles: count, step: nb * 2 * bf16Block * tile.rows, y: sums[row*width:], ldy: width}
			if part > 0 {
				product.c, product.ldc = product.y, width
			}
			product.run()
			first, row = first+count, row+count*tile.rows
		}
	}
	deliver := acts.deliver
	if acts.gate != nil {
		deliver = acts.deliverGated
	}
	for k := range tiles {
		deliver(job, &tiles[k], task.from, sums, groups*groupRows, width)
		sums = sums[tiles[k].rows*width:]
	}
}

// sumsApart is how many floats lie between rows of sums, so that they are not powers of two apart.
const sumsApart = 16

// tileWeights is the bytes of a tile of weights, a block of a row group.
const tileWeights = 2 * bf16Block * groupRows

// A tileProduct is the product of row groups with tiles of activations of as many rows, of all
// their blocks or some: y[t·ldy+16g+r] = c[t·ldc+16g+r] + w[g][r]·x[t], c counting as 0 if it is
// nil; see bf16Go.
type tileProduct struct {
	w, a        []byte // from their first block on
	nb, rows    int    // blocks, activation rows of a tile
	groups      int    // row groups …
	size        int    // … and the bytes from one to the next
	tiles, step int    // of activations, likewise; one if they have up to 16 rows
	c, y        []float32
	ldc, ldy    int
}

// run computes the product.
func (p *tileProduct) run() {
	last := p.tiles*p.rows - 1
	_, _, _ = p.w[:(p.groups-1)*p.size+p.nb*tileWeights], p.a[:(p.tiles-1)*p.step+p.nb*p.rows*2*bf16Block], p.y[:last*p.ldy+p.groups*groupRows]
	bf16TilesAsm(p)
}

// tileConfigs configure the machine's tiles for 1 to 32 activation rows (Intel's manual, volume 1,
// 18.3: the palette, then the bytes of a row of each tile, then their rows): 0 to 3 for sums, 4
// and 5 for activations, 6 and 7 for weights.
var tileConfigs = func() (configs [maxTileAMX][64]byte) {
	for i := range configs {
		config, rows := &configs[i], i+1
		config[0] = 1
		for tile, n := range [8]int{rows, rows, rows - maxTile, rows - maxTile, rows, rows - maxTile, groupRows, groupRows} {
			config[16+2*tile] = 64
			config[48+tile] = byte(min(max(n, 1), groupRows))
		}
	}
	return configs
}()
