package kern

import (
	"fmt"
	"slices"
	"unsafe"
)

// A Job multiplies matrix E of a stack with some activation rows.
type Job struct {
	E    int
	X, Y []int32 // activation rows and the rows of dst for them; nil = 0, 1, …
}

// Acts are the activations of one operation, float32 rows [rows, width], with
// the quantised forms that matrices want. The forms are made once and shared by
// the matrices that multiply all rows in order (q, k and v of a layer). An Acts
// belongs to one goroutine, which keeps it: its buffers are reused.
type Acts struct {
	x           []float32
	rows, width int

	shared [packed + 1]tiling // of all rows in order, by the family that wants it, the last for BF16
	own    tiling             // of the jobs in progress where they choose rows

	m       *Matrix // the product in progress
	dst     []float32
	bias    []float32
	jobs    []Job
	tiling  *tiling
	tasks   []task
	scratch [][]float32 // decoded weight rows of each worker

	round, multiply func(worker, chunk int) // method values, made once
}

// A tiling is rows of activations cut into tiles, rounded or not.
type tiling struct {
	valid bool // for the activations and the level
	level Level
	fine  bool
	tiles []tile
	buf   []byte // empty if the rows are used as they are
}

// A tile is n rows of a job, first to first+n-1 of its list, rounded at off as
// T rows: n, or with fine activations 2n, the coarse ones first.
type tile struct{ job, first, n, T, off int }

// A task is the row groups from..to-1 of a job's matrix times the
// tiles lo..hi-1.
type task struct{ job, from, to, lo, hi int }

// Set makes x, rows of width floats, the activations. x is kept, not copied.
func (a *Acts) Set(x []float32, rows, width int) {
	a.x, a.rows, a.width = x[:rows*width], rows, width
	for i := range a.shared {
		a.shared[i].valid = false
	}
}

func (a *Acts) row(i int) []float32 { return a.x[i*a.width:][:a.width] }

// Mul computes dst[Y[i]] = m[E]·x[X[i]] + bias[E] for every row i of every job.
// dst has rows of out floats and does not overlap x; bias is [E, out] or nil. No
// two jobs may share a row of dst. The jobs' work is one list of chunks for p, so
// that small jobs (experts) fill all workers.
func (m *Matrix) Mul(p *Pool, dst []float32, x *Acts, bias []float32, jobs []Job) {
	if x.width != m.in || (bias != nil && len(bias) != m.e*m.out) {
		panic(fmt.Sprintf("kern: activations of width %d and %d biases for a stack [%d, %d, %d]", x.width, len(bias), m.e, m.out, m.in))
	}
	for i := range jobs {
		m.check(dst, x, &jobs[i])
	}
	x.m, x.dst, x.bias, x.jobs = m, dst, bias, jobs
	if x.multiply == nil {
		x.round, x.multiply = x.roundTile, x.multiplyTask
	}
	x.prepare(p)
	x.plan(p.Workers())
	p.Run(len(x.tasks), x.multiply)
	x.m, x.dst, x.bias, x.jobs, x.tiling = nil, nil, nil, nil, nil
}

func (m *Matrix) check(dst []float32, x *Acts, j *Job) {
	n := j.rows(x)
	bad := j.E < 0 || j.E >= m.e || (j.Y != nil && len(j.Y) != n) || (j.Y == nil && n*m.out > len(dst))
	for _, r := range j.X {
		bad = bad || r < 0 || int(r) >= x.rows
	}
	for _, r := range j.Y {
		bad = bad || r < 0 || (int(r)+1)*m.out > len(dst)
	}
	if bad {
		panic(fmt.Sprintf("kern: job %+v does not fit %d activation rows, %d floats for results and a stack [%d, %d, %d]",
			*j, x.rows, len(dst), m.e, m.out, m.in))
	}
}

func (j *Job) rows(x *Acts) int {
	if j.X == nil {
		return x.rows
	}
	return len(j.X)
}

func (j *Job) source(i int) int {
	if j.X == nil {
		return i
	}
	return int(j.X[i])
}

func (j *Job) target(i int) int {
	if j.Y == nil {
		return i
	}
	return int(j.Y[i])
}

// prepare cuts the rows of the jobs into tiles and rounds them as the matrix wants it,
// unless a product with all rows has done so before.
func (x *Acts) prepare(p *Pool) {
	l, t := x.m.opt.Level, &x.own
	if !x.m.quantised() {
		x.growScratch(p.Workers(), dotRows*x.m.in)
		if !x.m.rounded() {
			x.split(t)
			return
		}
	}
	whole := len(x.jobs) == 1 && x.jobs[0].X == nil
	if whole {
		t = &x.shared[min(x.m.fam, packed)]
		if t.valid && t.level == l && t.fine == x.m.opt.Fine {
			x.tiling = t
			return
		}
	}
	bytes := x.split(t)
	t.buf = slices.Grow(t.buf[:0], bytes)[:bytes]
	if x.m.opt.Fine {
		x.growScratch(p.Workers(), x.m.in)
	}
	p.Run(len(t.tiles), x.round)
	t.valid, t.level, t.fine = whole, l, x.m.opt.Fine
}

// split cuts the rows of the jobs into the tiles of t, which becomes the tiling
// of the product, and returns the bytes they take.
func (x *Acts) split(t *tiling) (off int) {
	x.tiling, t.tiles = t, t.tiles[:0]
	for i := range x.jobs {
		for n, first := x.jobs[i].rows(x), 0; first < n; {
			rows, T := x.m.tileRows(n - first)
			t.tiles = append(t.tiles, tile{job: i, first: first, n: rows, T: T, off: off})
			first += rows
			off += x.m.tileBytes(T)
		}
	}
	return off
}

func (x *Acts) roundTile(worker, c int) {
	t := &x.tiling.tiles[c]
	job, nb := &x.jobs[t.job], x.m.in/32
	buf := x.tiling.buf[t.off:][:x.m.tileBytes(t.T)]
	if x.m.rounded() {
		n := len(buf) / t.n
		for i := range t.n {
			x.m.opt.Level.roundBF16(buf[i*n:][:n], x.row(job.source(t.first+i)))
		}
		return
	}
	for i := range t.n {
		row, l := x.row(job.source(t.first+i)), x.m.opt.Level
		l.quantise(row, buf, t.T, i)
		if x.m.opt.Fine {
			rest := x.scratch[worker]
			l.residual(row, buf, t.T, i, rest)
			l.quantise(rest, buf, t.T, t.n+i)
			x.m.fam.finish(buf, nb, t.T, t.n+i)
		}
		x.m.fam.finish(buf, nb, t.T, i)
	}
}

// quantised reports whether m multiplies int8 activations.
func (m *Matrix) quantised() bool { return m.fam < packed && !m.opt.Exact }

// rounded reports whether m multiplies activations in BF16.
func (m *Matrix) rounded() bool {
	return m.fam == bf16 && m.opt.BF16 && !m.opt.Exact && m.in%bf16Block == 0
}

// tileBytes returns what T rounded rows take.
func (m *Matrix) tileBytes(T int) int {
	if m.rounded() {
		return T * m.opt.Level.BF16Bytes(m.in)
	}
	return tileBytes * T * (m.in / 32)
}

// tileRows returns how many of n rows the next tile takes, and as how many.
func (m *Matrix) tileRows(n int) (rows, T int) {
	switch {
	case !m.quantised():
		rows = min(n, maxDot)
		return rows, rows
	case m.opt.Fine:
		T = m.fam.tileRows(m.opt.Level, 2*n) &^ 1
		return T / 2, T
	}
	T = m.fam.tileRows(m.opt.Level, n)
	return T, T
}

// groupTime estimates the ns that one core takes for 16 weight rows times n
// activation rows: the bytes read plus the arithmetic.
func (m *Matrix) groupTime(n int) int {
	read := int(m.bytes) / (m.e * (m.out + groupRows - 1) / groupRows) / 12
	switch {
	case m.quantised() && m.opt.Fine:
		return read + m.in*n/6
	case m.quantised():
		return read + m.in*n/12
	case m.rounded():
		return read + m.in*n/6
	}
	return read + m.in*n/3
}

// cached is how many activation rows a task takes through its row groups, so that they
// stay in the second-level cache.
const cached = 128

// plan cuts the product into tasks of about 30 µs, but at least four per worker
// where there are enough row groups. Tasks are longer where a job has more tiles than
// stay cached: each is to use its tiles for several row groups.
func (x *Acts) plan(workers int) {
	x.tasks = x.tasks[:0]
	units := (x.m.out + groupRows - 1) / groupRows
	tiles := x.tiling.tiles
	for lo := 0; lo < len(tiles); {
		job, hi, n := tiles[lo].job, lo, 0
		for hi < len(tiles) && tiles[hi].job == job && (hi == lo || n+tiles[hi].n <= cached) {
			n += tiles[hi].n
			hi++
		}
		budget := 30_000
		if n < x.jobs[job].rows(x) {
			budget *= 4
		}
		step := max(1, min(budget/max(1, x.m.groupTime(n)), units*len(x.jobs)/(4*workers)))
		if n >= minPair && x.m.quantised() && x.m.fam.pairs(x.m.opt.Level) {
			step = (step + 1) &^ 1
		}
		for from := 0; from < units; from += step {
			x.tasks = append(x.tasks, task{job: job, from: from, to: min(from+step, units), lo: lo, hi: hi})
		}
		lo = hi
	}
}

func (x *Acts) multiplyTask(worker, c int) {
	if t := &x.tasks[c]; x.m.quantised() {
		if t.hi == t.lo+1 && x.tiling.tiles[t.lo].n == 1 && x.m.opt.Level == AVX512 {
			x.multiplyVector(t)
			return
		}
		x.multiplyPacked(c)
		return
	}
	x.multiplyRows(&x.tasks[c], x.scratch[worker])
}

func (x *Acts) multiplyPacked(c int) {
	t := &x.tasks[c]
	m, job := x.m, &x.jobs[t.job]
	nb, l := m.in/32, m.opt.Level
	var bias [2 * groupRows]float32
	var y [maxTile * groupRows]float32
	for i := t.from; i < t.to; {
		groups := 1
		if i+1 < t.to && m.fam.pairs(l) {
			groups = 2
		}
		if x.bias != nil {
			copy(bias[:groups*groupRows], x.bias[job.E*m.out+i*groupRows:(job.E+1)*m.out])
		}
		ahead := x.ahead(c, i+groups)
		for k := range x.tiling.tiles[t.lo:t.hi] {
			tl := &x.tiling.tiles[t.lo+k]
			a := x.tiling.buf[tl.off:][:tileBytes*tl.T*nb]
			if groups == 2 && tl.T >= minPair && tl.T <= maxPair {
				x.multiplyPair(job, i, tl, a, ahead, &bias, &y)
				if len(ahead) > aheadBytes*nb {
					ahead = ahead[aheadBytes*nb:]
				} else { // all is asked for; the next activations do no harm
					ahead = a
				}
				continue
			}
			for g := range groups {
				x.multiplyGroup(job, i+g, tl, a, (*[groupRows]float32)(bias[g*groupRows:]), &y)
			}
		}
		i += groups
	}
}

// multiplyVector is multiplyPacked for one activation row.
func (x *Acts) multiplyVector(t *task) {
	m, job, tl := x.m, &x.jobs[t.job], &x.tiling.tiles[t.lo]
	a := x.tiling.buf[tl.off:][:tileBytes*tl.T*(m.in/32)]
	var bias []float32
	if x.bias != nil {
		bias = x.bias[job.E*m.out+t.from*groupRows : (job.E+1)*m.out]
	}
	groups := min(t.to, m.out/groupRows) - t.from
	if groups > 0 {
		m.vector(job.E, t.from, groups, a, bias, x.result(job, tl.first, t.from))
	}
	if i := t.from + groups; i < t.to { // rows that fill no group
		var rest [groupRows]float32
		var y [maxTile * groupRows]float32
		copy(rest[:], bias[min(groups*groupRows, len(bias)):])
		x.multiplyGroup(job, i, tl, a, &rest, &y)
	}
}

// multiplyGroup multiplies row group i with the tile tl, quantised in a. y is scratch.
func (x *Acts) multiplyGroup(job *Job, i int, tl *tile, a []byte, bias *[groupRows]float32, y *[maxTile * groupRows]float32) {
	m, start := x.m, bias
	if m.opt.Fine { // the bias comes after the residuals
		start = &noBias
	}
	m.opt.Level.tile(m.group(job.E, i), a, m.in/32, tl.T, start, y)
	for k := range tl.n {
		row := y[k*groupRows:][:groupRows]
		if m.opt.Fine {
			addResiduals(row, y[(tl.n+k)*groupRows:], bias[:])
		}
		copy(x.result(job, tl.first+k, i), row)
	}
}

// multiplyPair is multiplyGroup for row group i and the next.
func (x *Acts) multiplyPair(job *Job, i int, tl *tile, a, ahead []byte, bias *[2 * groupRows]float32, y *[maxTile * groupRows]float32) {
	m := x.m
	var rows [maxPair]*[2 * groupRows]float32
	whole := (i+2)*groupRows <= m.out
	for k := range tl.n {
		rows[k] = (*[2 * groupRows]float32)(y[k*2*groupRows:])
		if whole {
			rows[k] = (*[2 * groupRows]float32)(x.result(job, tl.first+k, i))
		}
	}
	m.pair(job.E, i, a, tl.T, &ahead[0], bias, &rows)
	for k := 0; k < tl.n && !whole; k++ {
		copy(x.result(job, tl.first+k, i), rows[k][:])
	}
}

// result returns where the results of row k of the job belong, from row group i on.
func (x *Acts) result(job *Job, k, i int) []float32 {
	at := job.target(k) * x.m.out
	return x.dst[at+i*groupRows : at+x.m.out]
}

// ahead returns the packed rows that the worker of task c will probably want before row
// group i of it is done: the next two groups, or the first of the next task.
func (x *Acts) ahead(c, i int) []byte {
	m, t := x.m, &x.tasks[c]
	if i >= t.to {
		t = &x.tasks[min(c+1, len(x.tasks)-1)]
		i = t.from
	}
	at := (x.jobs[t.job].E*m.groups + i) * m.size
	return m.mem[at:min(at+2*m.size, len(m.mem))]
}

// addResiduals adds the products of a residual row and the bias to those of its
// coarse row.
func addResiduals(coarse, rest, bias []float32) {
	for r := range coarse {
		coarse[r] = coarse[r] + rest[r] + bias[r]
	}
}

// growScratch makes room for n floats per worker.
func (x *Acts) growScratch(workers, n int) {
	if len(x.scratch) < workers {
		x.scratch = append(x.scratch, make([][]float32, workers-len(x.scratch))...)
	}
	for i := range x.scratch {
		x.scratch[i] = slices.Grow(x.scratch[i][:0], n)[:n]
	}
}

// A quartet is the weight rows of a kernel call.
type quartet struct {
	w    [dotRows]unsafe.Pointer
	next int // bytes to the next one to be read, 0 = nothing
}

// multiplyRows multiplies weight rows as stored, or decoded to tmp, in float32 or BF16: a row
// group at a time with each tile, which stays in the first-level cache meanwhile.
func (x *Acts) multiplyRows(t *task, tmp []float32) {
	m := x.m
	var ws [groupRows / dotRows]quartet
	step := groupRows
	if !m.stored() {
		step = dotRows
	}
	i, end := t.from*groupRows, min(t.to*groupRows, m.out)
	if t.hi == t.lo+1 && x.tiling.tiles[t.lo].n == 1 && m.rounded() && m.opt.Level == AVX512 {
		i = x.multiplyBF16(&x.tiling.tiles[t.lo], i, end)
	}
	for ; i < end; i += step {
		rows := min(step, end-i)
		for r := 0; r < rows; r += dotRows {
			q := &ws[r/dotRows]
			m.weightRows(x.jobs[t.job].E, i+r, min(dotRows, rows-r), &q.w, tmp)
			q.next = 0
			if after := i + r + dotRows; m.stored() && after < m.out {
				q.next = int(uintptr(m.row(x.jobs[t.job].E, after)) - uintptr(q.w[0]))
			}
		}
		for k := range x.tiling.tiles[t.lo:t.hi] {
			x.multiplyTile(&x.tiling.tiles[t.lo+k], i, rows, &ws)
		}
	}
}

// multiplyBF16 multiplies the weight rows from..to-1, but for less than four, with a tile of one
// row, and returns the first row that is left.
func (x *Acts) multiplyBF16(tl *tile, from, to int) int {
	m, job := x.m, &x.jobs[tl.job]
	var w [vectorRows + dotRows]unsafe.Pointer
	for n := 0; to-from >= dotRows; from += n {
		n = min(vectorRows, to-from) &^ (dotRows - 1)
		for r := range w[:n+dotRows] {
			w[r] = m.row(job.E, min(from+r, m.out-1))
		}
		d := x.dst[job.target(tl.first)*m.out+from:][:n]
		bf16Vector(&w, n, x.tiling.buf[tl.off:], m.in, d)
		if x.bias != nil {
			for r, b := range x.bias[job.E*m.out+from:][:n] {
				d[r] += b
			}
		}
	}
	return from
}

// multiplyTile multiplies the rows weight rows from i on with a tile.
func (x *Acts) multiplyTile(tl *tile, i, rows int, ws *[groupRows / dotRows]quartet) {
	m, job := x.m, &x.jobs[tl.job]
	l, f := m.opt.Level, m.fam
	if !m.stored() {
		f = f32
	}
	var xs [maxDot]unsafe.Pointer
	var y [maxDot * groupRows]float32
	rounded, size := m.rounded(), l.BF16Bytes(m.in)
	for k := range tl.n {
		if rounded {
			xs[k] = unsafe.Pointer(&x.tiling.buf[tl.off+k*size])
		} else {
			xs[k] = unsafe.Pointer(&x.row(job.source(tl.first + k))[0])
		}
	}
	for r := 0; r < rows; r += dotRows {
		q := &ws[r/dotRows]
		if rounded {
			l.bf16Dots(&q.w, &xs, m.in, tl.T, q.next, y[r:], groupRows)
		} else {
			l.dots(f, &q.w, &xs, m.in, tl.T, q.next, y[r:], groupRows)
		}
	}
	for k := range tl.n {
		d := x.dst[job.target(tl.first+k)*m.out+i:][:rows]
		copy(d, y[k*groupRows:])
		if x.bias != nil {
			for r, b := range x.bias[job.E*m.out+i:][:rows] {
				d[r] += b
			}
		}
	}
}

// stored reports whether kernels read the rows of m as stored.
func (m *Matrix) stored() bool {
	return m.fam == f32 || (m.fam >= packed && m.opt.Level > Go) || m.rounded()
}

// weightRows points ws at rows i to i+n-1 of matrix e, repeating the last, as stored or
// decoded to tmp.
func (m *Matrix) weightRows(e, i, n int, ws *[dotRows]unsafe.Pointer, tmp []float32) {
	for r := range ws {
		k := min(r, n-1)
		if m.stored() {
			ws[r] = m.row(e, i+k)
			continue
		}
		d := tmp[k*m.in:][:m.in]
		if r == k {
			m.Row(e, i+k, d)
		}
		ws[r] = unsafe.Pointer(&d[0])
	}
}
