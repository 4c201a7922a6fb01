package kern

import "unsafe"

// Products of rows as stored, or decoded for Options.Exact, with activations in float32:
// four weight rows by up to six activation rows in a kernel call.

// A quartet is the weight rows of a kernel call.
type quartet struct {
	w    [dotRows]unsafe.Pointer
	next int // bytes to the next one to be read, 0 = nothing
}

// multiplyStored multiplies weight rows as stored, or decoded, in float32: a row
// group at a time with each tile, which stays in the first-level cache meanwhile. decoded has
// room for dotRows rows.
func (acts *Acts) multiplyStored(task *task, decoded []float32) {
	matrix := acts.m
	var weights [groupRows / dotRows]quartet
	step := groupRows
	if !matrix.stored() {
		step = dotRows
	}
	first, end := task.from*groupRows, min(task.to*groupRows, matrix.out)
	for ; first < end; first += step {
		rows := min(step, end-first)
		for r := 0; r < rows; r += dotRows {
			// next is measured from the first row of the four: it is 0 behind the last one.
			four := &weights[r/dotRows]
			matrix.weightRows(acts.jobs[task.job].E, first+r, min(dotRows, rows-r), &four.w, decoded)
			four.next = 0
			if after := first + r + dotRows; matrix.stored() && after < matrix.out {
				four.next = int(uintptr(matrix.row(acts.jobs[task.job].E, after)) - uintptr(four.w[0]))
			}
		}
		for k := range acts.tiling.tiles[task.lo:task.hi] {
			acts.multiplyTile(&acts.tiling.tiles[task.lo+k], first, rows, &weights)
		}
	}
}

// multiplyTile multiplies so many weight rows from the first on with a tile.
func (acts *Acts) multiplyTile(tile *tile, first, rows int, weights *[groupRows / dotRows]quartet) {
	matrix, job := acts.m, &acts.jobs[tile.job]
	level, fam := matrix.opt.Level, matrix.fam
	if !matrix.stored() {
		fam = f32
	}
	var sources [maxDot]unsafe.Pointer
	var results [maxDot * groupRows]float32
	for k := range tile.rows {
		sources[k] = unsafe.Pointer(&acts.row(job.source(tile.first + k))[0])
	}
	// results is [maxDot, groupRows]: a partial four writes beyond rows, not beyond its group.
	for r := 0; r < rows; r += dotRows {
		four := &weights[r/dotRows]
		level.dots(fam, &four.w, &sources, matrix.in, tile.tileRows, four.next, results[r:], groupRows)
	}
	for k := range tile.rows {
		dst := acts.dst[job.target(tile.first+k)*matrix.out+first:][:rows]
		copy(dst, results[k*groupRows:])
		if acts.bias != nil {
			for r, b := range acts.bias[job.E*matrix.out+first:][:rows] {
				dst[r] += b
			}
		}
	}
}

// stored reports whether kernels read the rows of m as stored.
func (m *Matrix) stored() bool {
	return m.fam == f32 || (m.fam > packed && m.opt.Level > Go)
}

// weightRows points weights at count rows of matrix e from the first on, repeating the last, as
// stored or decoded.
func (m *Matrix) weightRows(e, first, count int, weights *[dotRows]unsafe.Pointer, decoded []float32) {
	for r := range weights {
		k := min(r, count-1)
		if m.stored() {
			weights[r] = m.row(e, first+k)
			continue
		}
		row := decoded[k*m.in:][:m.in]
		if r == k {
			m.Row(e, first+k, row)
		}
		weights[r] = unsafe.Pointer(&row[0])
	}
}
