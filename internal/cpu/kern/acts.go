package kern

import "slices"

// Acts are the activations of one operation, float32 rows [rows, width], with
// the quantised forms that matrices want. The forms are made once and shared by
// the matrices that multiply all rows in order (q, k and v of a layer). An Acts
// belongs to one goroutine, which keeps it: its buffers are reused. During a product the
// workers of the pool read it, and each writes its own tiles and its own scratch.
type Acts struct {
	x           []float32
	rows, width int

	shared [packed + 1]tiling // of all rows in order, by the family that wants it, the last for BF16
	own    tiling             // of the jobs in progress where they choose rows

	m       *Matrix // the product in progress
	dst     []float32
	bias    []float32
	jobs    []Job
	gate    func(dst, pairs []float32) // of MulGated, else nil
	tiling  *tiling
	tasks   []task
	scratch [][]float32 // decoded weight rows of each worker

	halves [2][]float32 // results of the halves of the matrix in progress, of Interleave

	round, multiply, join func(worker, chunk int) // method values, made once
}

// A tiling is rows of activations cut into tiles, rounded or not. Between products it is
// valid while the activations stay, for the level and the precision beside it.
type tiling struct {
	valid bool // for the activations and the level
	level Level
	fine  bool
	tiles []tile
	buf   []byte // empty if the rows are used as they are
}

// A tile is some rows of a job, first to first+rows-1 of its list, rounded at off of the
// tiling's buffer as tileRows rows, the T of kernels: as many, or with fine activations twice
// as many, the coarse ones first.
type tile struct{ job, first, rows, tileRows, off int }

// Set makes x, rows of width floats, the activations. x is kept, not copied.
func (acts *Acts) Set(x []float32, rows, width int) {
	acts.x, acts.rows, acts.width = x[:rows*width], rows, width
	for i := range acts.shared {
		acts.shared[i].valid = false
	}
}

func (acts *Acts) row(i int) []float32 { return acts.x[i*acts.width:][:acts.width] }

// prepare cuts the rows of the jobs into tiles and rounds them as the matrix wants it,
// unless a product with all rows has done so before.
func (acts *Acts) prepare(pool *Pool) {
	level, tiling := acts.m.opt.Level, &acts.own
	if !acts.m.quantised() && !acts.m.rounded() {
		acts.growScratch(pool.Workers(), dotRows*acts.m.in)
		acts.split(tiling)
		return
	}
	// All rows in order are a form that other matrices may share: it is kept, by family.
	whole := len(acts.jobs) == 1 && acts.jobs[0].X == nil
	if whole {
		tiling = &acts.shared[min(acts.m.fam, packed)]
		if tiling.valid && tiling.level == level && tiling.fine == acts.m.opt.Fine {
			acts.tiling = tiling
			return
		}
	}
	bytes := acts.split(tiling)
	tiling.buf = slices.Grow(tiling.buf[:0], bytes)[:bytes]
	if acts.m.opt.Fine {
		acts.growScratch(pool.Workers(), acts.m.in)
	}
	pool.Run(len(tiling.tiles), acts.round)
	tiling.valid, tiling.level, tiling.fine = whole, level, acts.m.opt.Fine
}

// split cuts the rows of the jobs into tiles of tiling, which becomes that of the
// product, and returns the bytes they take.
func (acts *Acts) split(tiling *tiling) (off int) {
	acts.tiling, tiling.tiles = tiling, tiling.tiles[:0]
	for i := range acts.jobs {
		for count, first := acts.jobs[i].rows(acts), 0; first < count; {
			rows, tileRows := acts.m.tileRows(count - first)
			tiling.tiles = append(tiling.tiles, tile{job: i, first: first, rows: rows, tileRows: tileRows, off: off})
			first += rows
			off += acts.m.tileBytes(tileRows)
		}
	}
	return off
}

// roundTile rounds the rows of a tile to what the matrix multiplies: BF16, or int8 with, for
// fine activations, the residuals as further rows.
func (acts *Acts) roundTile(worker, chunk int) {
	tile := &acts.tiling.tiles[chunk]
	job, nb := &acts.jobs[tile.job], acts.m.in/32
	buf := acts.tiling.buf[tile.off:][:acts.m.tileBytes(tile.tileRows)]
	if acts.m.rounded() {
		for i := range tile.rows {
			acts.m.opt.Level.roundBF16(buf, tile.rows, i, acts.row(job.source(tile.first+i)))
		}
		return
	}
	for i := range tile.rows {
		row, level := acts.row(job.source(tile.first+i)), acts.m.opt.Level
		level.quantise(row, buf, tile.tileRows, i)
		if acts.m.opt.Fine {
			rest := acts.scratch[worker]
			level.residual(row, buf, tile.tileRows, i, rest)
			level.quantise(rest, buf, tile.tileRows, tile.rows+i)
			acts.m.fam.finish(buf, nb, tile.tileRows, tile.rows+i)
		}
		acts.m.fam.finish(buf, nb, tile.tileRows, i)
	}
}

// quantised reports whether m multiplies int8 activations.
func (m *Matrix) quantised() bool { return m.fam < packed && !m.opt.Exact }

// rounded reports whether m multiplies activations in BF16.
func (m *Matrix) rounded() bool { return m.fam == bf16x16 && !m.opt.Exact }

// tiled reports whether the machine's tiles multiply m.
func (m *Matrix) tiled() bool { return m.rounded() && m.opt.Level == AMX }

// inPairs reports whether vectors of AVX-512 multiply pairs of BF16 of m.
func (m *Matrix) inPairs() bool { return m.rounded() && m.opt.Level.bf16Vectors() }

// tileBytes returns what so many rounded rows take.
func (m *Matrix) tileBytes(tileRows int) int {
	if m.rounded() {
		return tileRows * m.opt.Level.BF16Bytes(m.in)
	}
	return tileBytes * tileRows * (m.in / 32)
}

// tileRows returns how many of the rows that are left the next tile takes, and as how many.
func (m *Matrix) tileRows(left int) (rows, tileRows int) {
	switch {
	case m.rounded():
		rows = m.opt.Level.bf16Rows(left)
		return rows, rows
	case !m.quantised():
		rows = min(left, maxDot)
		return rows, rows
	case m.opt.Fine:
		tileRows = m.fam.tileRows(m.opt.Level, 2*left) &^ 1
		return tileRows / 2, tileRows
	}
	tileRows = m.fam.tileRows(m.opt.Level, left)
	return tileRows, tileRows
}

// growScratch makes room for so many floats per worker.
func (acts *Acts) growScratch(workers, floats int) {
	if len(acts.scratch) < workers {
		acts.scratch = append(acts.scratch, make([][]float32, workers-len(acts.scratch))...)
	}
	for i := range acts.scratch {
		acts.scratch[i] = slices.Grow(acts.scratch[i][:0], floats)[:floats]
	}
}
