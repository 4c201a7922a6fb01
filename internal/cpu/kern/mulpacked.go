package kern

// Products of packed weights with activations in int8: tasks of row groups, two at a time
// where there are kernels for that, with the tiles of a job.

// multiplyPacked runs the task of a chunk. Each step takes one or two row groups through all
// tiles of the task, which stay in the second-level cache; the weights are read once.
func (acts *Acts) multiplyPacked(chunk int) {
	task := &acts.tasks[chunk]
	matrix, job := acts.m, &acts.jobs[task.job]
	nb, level := matrix.in/32, matrix.opt.Level
	var bias [2 * groupRows]float32
	var results [maxTile * groupRows]float32
	for first := task.from; first < task.to; {
		groups := 1
		if first+1 < task.to && matrix.fam.pairs(level) {
			groups = 2
		}
		// What lies behind the biases of the last, partial group stays from before: nobody reads
		// its results.
		if acts.bias != nil {
			copy(bias[:groups*groupRows], acts.bias[job.E*matrix.out+first*groupRows:(job.E+1)*matrix.out])
		}
		ahead, asked := acts.ahead(chunk, first+groups), 0
		lines := acts.linesAhead(task)
		for k := range acts.tiling.tiles[task.lo:task.hi] {
			tile := &acts.tiling.tiles[task.lo+k]
			buf := acts.tiling.buf[tile.off:][:tileBytes*tile.tileRows*nb]
			if groups == 2 && tile.tileRows >= minPair && tile.tileRows <= maxPair {
				acts.multiplyPair(job, first, tile, buf, &ahead[min(asked, len(ahead)-1)], lines, &bias, &results)
				asked += lines * cacheLine * nb
				continue
			}
			for g := range groups {
				acts.multiplyGroup(job, first+g, tile, buf, (*[groupRows]float32)(bias[g*groupRows:]), &results)
			}
		}
		first += groups
	}
}

// linesAhead returns how many lines each block asks for with each tile, so that all tiles of the task
// ask for two row groups. Bytes that few rows multiply come faster where the processor asks for most.
func (acts *Acts) linesAhead(task *task) int {
	tiles := acts.tiling.tiles[task.lo:task.hi]
	if !acts.m.fam.nibbles() && len(tiles) == 1 && tiles[0].tileRows < 4 {
		return 1
	}
	perBlock := cacheLine * len(tiles) * (acts.m.in / 32)
	return (2*acts.m.size + perBlock - 1) / perBlock
}

const cacheLine = 64

// multiplyOneRow is multiplyPacked for one activation row: one call for all whole row groups
// of the task, whose weights then come from memory as one stream.
func (acts *Acts) multiplyOneRow(task *task) {
	matrix, job, tile := acts.m, &acts.jobs[task.job], &acts.tiling.tiles[task.lo]
	buf := acts.tiling.buf[tile.off:][:tileBytes*tile.tileRows*(matrix.in/32)]
	var bias []float32
	if acts.bias != nil {
		bias = acts.bias[job.E*matrix.out+task.from*groupRows : (job.E+1)*matrix.out]
	}
	groups := min(task.to, matrix.out/groupRows) - task.from
	if groups > 0 {
		matrix.oneRow(job.E, task.from, groups, buf, bias, acts.result(job, tile.first, task.from))
	}
	if last := task.from + groups; last < task.to { // rows that fill no group
		var rest [groupRows]float32
		var results [maxTile * groupRows]float32
		copy(rest[:], bias[min(groups*groupRows, len(bias)):])
		acts.multiplyGroup(job, last, tile, buf, &rest, &results)
	}
}

// multiplyGroup multiplies a row group with a tile, which lies quantised in buf. results is
// scratch.
func (acts *Acts) multiplyGroup(job *Job, group int, tile *tile, buf []byte, bias *[groupRows]float32, results *[maxTile * groupRows]float32) {
	matrix, start := acts.m, bias
	if matrix.opt.Fine { // the bias comes after the residuals
		start = &noBias
	}
	matrix.opt.Level.tile(matrix.group(job.E, group), buf, matrix.in/32, tile.tileRows, start, results)
	for k := range tile.rows {
		row := results[k*groupRows:][:groupRows]
		if matrix.opt.Fine {
			addResiduals(row, results[(tile.rows+k)*groupRows:], bias[:])
		}
		copy(acts.result(job, tile.first+k, group), row)
	}
}

// multiplyPair is multiplyGroup for a row group and the next. Kernels write the results where
// they belong, but for a partial group, whose rows would reach into the next row of dst.
func (acts *Acts) multiplyPair(job *Job, group int, tile *tile, buf []byte, ahead *byte, lines int, bias *[2 * groupRows]float32, results *[maxTile * groupRows]float32) {
	matrix := acts.m
	var rows [maxPair]*[2 * groupRows]float32
	whole := (group+2)*groupRows <= matrix.out
	for k := range tile.rows {
		rows[k] = (*[2 * groupRows]float32)(results[k*2*groupRows:])
		if whole {
			rows[k] = (*[2 * groupRows]float32)(acts.result(job, tile.first+k, group))
		}
	}
	matrix.pair(job.E, group, buf, tile.tileRows, ahead, lines, bias, &rows)
	for k := 0; k < tile.rows && !whole; k++ {
		copy(acts.result(job, tile.first+k, group), rows[k][:])
	}
}

// result returns where the results of a row of the job belong, from a row group on.
func (acts *Acts) result(job *Job, row, group int) []float32 {
	at := job.target(row) * acts.m.out
	return acts.dst[at+group*groupRows : at+acts.m.out]
}

// ahead returns the packed rows that the worker of a chunk's task will probably want before
// that row group of it is done: the next two groups, or the first of the next task.
func (acts *Acts) ahead(chunk, group int) []byte {
	matrix, task := acts.m, &acts.tasks[chunk]
	if group >= task.to {
		task = &acts.tasks[min(chunk+1, len(acts.tasks)-1)]
		group = task.from
	}
	at := (acts.jobs[task.job].E*matrix.groups + group) * matrix.size
	return matrix.mem[at:min(at+2*matrix.size, len(matrix.mem))]
}

// addResiduals adds the products of a residual row and the bias to those of its
// coarse row.
func addResiduals(coarse, rest, bias []float32) {
	for r := range coarse {
		coarse[r] = coarse[r] + rest[r] + bias[r]
	}
}
