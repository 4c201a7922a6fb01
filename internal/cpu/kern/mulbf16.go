package kern

// Products of BF16 weights in row groups with tiles of activations in BF16. With the level AMX a call
// takes all row groups of a task, with others one.

// multiplyBF16 runs a task.
func (acts *Acts) multiplyBF16(task *task) {
	matrix, job := acts.m, &acts.jobs[task.job]
	if matrix.opt.Level == AMX {
		for k := range acts.tiling.tiles[task.lo:task.hi] {
			acts.multiplyAMX(job, task, &acts.tiling.tiles[task.lo+k])
		}
		return
	}
	var results [maxTile * groupRows]float32
	for first := task.from; first < task.to; first++ {
		if acts.single(task) && task.to-first >= bf16Groups && (first+bf16Groups)*groupRows <= matrix.out {
			acts.tileBF16(job, first, bf16Groups, &acts.tiling.tiles[task.lo], results[:])
			first += bf16Groups - 1
			continue
		}
		for k := range acts.tiling.tiles[task.lo:task.hi] {
			acts.tileBF16(job, first, 1, &acts.tiling.tiles[task.lo+k], results[:])
		}
	}
}

// tileBF16 multiplies row groups with a tile. results is scratch.
func (acts *Acts) tileBF16(job *Job, group, groups int, tile *tile, results []float32) {
	matrix := acts.m
	buf := acts.tiling.buf[tile.off:][:matrix.tileBytes(tile.tileRows)]
	matrix.opt.Level.bf16Tile(matrix.groups16(job.E, group, groups), matrix.size, groups, buf, matrix.in/bf16Block, tile.rows, results)
	acts.deliver(job, tile, group, results, groups*groupRows)
}

// deliver writes results, rows of so many floats, with the bias to where they belong.
func (acts *Acts) deliver(job *Job, tile *tile, group int, results []float32, width int) {
	for k := range tile.rows {
		dst := acts.result(job, tile.first+k, group)
		dst = dst[:min(width, len(dst))]
		copy(dst, results[k*width:])
		acts.addBias(job, group, dst)
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

// apart is how many row groups a call takes whose results lie elsewhere first: in 8 KB.
const apart = 4

// multiplyAMX multiplies the row groups of a task with a tile. Where the rows of dst are
// neighbours and the groups whole, the machine's tiles are stored there.
func (acts *Acts) multiplyAMX(job *Job, task *task, tile *tile) {
	matrix, first, nb := acts.m, task.from, acts.m.in/bf16Block
	buf := acts.tiling.buf[tile.off:][:matrix.tileBytes(tile.rows)]
	if job.neighbours(tile.first, tile.rows) {
		if groups := min(task.to, matrix.out/groupRows) - first; groups > 0 {
			dst := acts.dst[job.target(tile.first)*matrix.out+first*groupRows:]
			bf16AMX(matrix.groups16(job.E, first, groups), matrix.size, groups, buf, nb, tile.rows, dst, matrix.out)
			for k := range tile.rows {
				acts.addBias(job, first, dst[k*matrix.out:][:groups*groupRows])
			}
			first += groups
		}
	}
	var results [maxTileAMX * apart * groupRows]float32
	for ; first < task.to; first += apart {
		groups := min(task.to-first, apart)
		bf16AMX(matrix.groups16(job.E, first, groups), matrix.size, groups, buf, nb, tile.rows, results[:], groups*groupRows)
		acts.deliver(job, tile, first, results[:], groups*groupRows)
	}
}

// neighbours reports whether count rows of results of j from the first on lie one behind the other.
func (j *Job) neighbours(first, count int) bool {
	for i := 1; i < count; i++ {
		if j.target(first+i) != j.target(first)+i {
			return false
		}
	}
	return true
}

// bf16AMX computes y[t·ldy+16g+r] = w[g][r]·x[t] for row groups, size bytes apart, and a tile of T
// rows; see bf16Go.
func bf16AMX(w []byte, size, groups int, tile []byte, nb, T int, y []float32, ldy int) {
	_, _, _ = w[:(groups-1)*size+nb*layouts[bf16x16].quants], tile[:nb*T*2*bf16Block], y[:(T-1)*ldy+groups*groupRows]
	bf16TilesAsm(&tileConfigs[T-1], &w[0], &tile[0], nb, T, groups, size, &y[0], ldy)
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
