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
	var results [2 * maxTile * groupRows]float32
	tiles := acts.tiling.tiles[task.lo:task.hi]
	together := matrix.opt.Level.bf16Together(tiles[0].rows, len(tiles), matrix.opt.Fetch.Streams)
	calls := (min(task.to, matrix.out/groupRows) - task.from) / together
	step, apart := together, 1
	if matrix.inPairs() && len(tiles) == 1 { // each reads on where the call before has read
		step, apart = 1, calls
	}
	for i := range calls {
		acts.groupsBF16(job, tiles, task.from+i*step, together, apart, results[:])
	}
	for group := task.from + calls*together; group < task.to; group++ {
		acts.groupsBF16(job, tiles, group, 1, 1, results[:])
	}
}

// groupsBF16 multiplies row groups, the first and others so far apart, with tiles. results is scratch.
func (acts *Acts) groupsBF16(job *Job, tiles []tile, first, groups, apart int, results []float32) {
	matrix, width := acts.m, groups*groupRows
	weights := matrix.groups16(job.E, first, (groups-1)*apart+1)
	for k := range tiles {
		tile := &tiles[k]
		ahead, drift := matrix.asksBF16(tile.rows, k, len(tiles), groups)
		buf := acts.tiling.buf[tile.off:][:matrix.tileBytes(tile.tileRows)]
		matrix.opt.Level.bf16Tile(weights, apart*matrix.size, groups, ahead, drift, buf, matrix.in/bf16Block, tile.rows, results)
		if apart == 1 {
			acts.deliver(job, tile, first, results, width, width)
			continue
		}
		for g := range groups {
			acts.deliver(job, tile, first+g*apart, results[g*groupRows:], groupRows, width)
		}
	}
}

// asksBF16 returns how many bytes ahead of what it multiplies tile k of so many, of rows, asks for
// weights, and by how many more with every block.
func (m *Matrix) asksBF16(rows, k, tiles, groups int) (ahead, drift int) {
	switch pairs := m.inPairs(); {
	case pairs && tiles > 1: // each a part of the groups that come next, which all find in the cache
		return groups*m.size + k*(m.in/bf16Block)/tiles*tileWeights, (tileWeights/tiles+63)&^63 - tileWeights
	case pairs && rows > 8:
		return twoNear.Ahead, 0
	case pairs: // Zen 4 sees where it is read, and is slower by a tenth where it is told
		return 0, 0
	case tiles > 1:
		return oneFar.Ahead, 0
	}
	return m.opt.Fetch.Ahead, 0
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
