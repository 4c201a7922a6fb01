package kern

import "fmt"

// The path of a product. Matrix.Mul checks the jobs; prepare (acts.go) cuts their
// activation rows into tiles and rounds them; plan cuts the work into tasks, which the
// pool runs. multiplyTask has four ways through a task:
//
//   - packed weights (mulpacked.go): Level.tile, or Matrix.pair for two row groups at a time
//     (tile.go) → tileKernel, pairKernel (dispatch_amd64.go, dispatch_arm64.go) → mx4Tile3AVX512, mx4Pair4AVX512, …
//   - packed weights by one activation row on amd64, which is decoding: Matrix.oneRow
//     (tile.go) → oneRowKernel → mx4OneRow2AVX512, …
//   - BF16 in row groups (mulbf16.go): tileProduct → bf16TilesManyAMX for all row groups and all
//     rows of a task, Level.bf16Tile (bf16.go) → bf16Kernel → bf16Tiled8AVX512, …
//   - rows as stored, or decoded for Options.Exact (mulstored.go): Level.dots (dot.go) →
//     dotsKernel → dotsBF164AVX512, …
//
// A matrix of two types is two products, whose results interleave.go puts together.
//
// The dispatch and the assembly (kern_amd64.s, kern_arm64.s) are what _gen writes; portable
// Go, tileGo, dotGo and bf16Go, says what they compute.

// A Job multiplies matrix E of a stack with some activation rows.
type Job struct {
	E    int
	X, Y []int32 // activation rows and the rows of dst for them; nil = 0, 1, …
}

// A task is the row groups from..to-1 of a job's matrix times the
// tiles lo..hi-1.
type task struct{ job, from, to, lo, hi int }

// Mul computes dst[Y[i]] = m[E]·x[X[i]] + bias[E] for every row i of every job,
// acts being the activations. dst has rows of out floats and does not overlap acts; bias is
// [E, out] or nil. No two jobs may share a row of dst. The jobs' work is one list of chunks for the pool, so
// that small jobs (experts) fill all workers.
func (m *Matrix) Mul(pool *Pool, dst []float32, acts *Acts, bias []float32, jobs []Job) {
	if acts.width != m.in || (bias != nil && len(bias) != m.e*m.out) {
		panic(fmt.Sprintf("kern: activations of width %d and %d biases for a stack [%d, %d, %d]", acts.width, len(bias), m.e, m.out, m.in))
	}
	for i := range jobs {
		m.check(dst, acts, &jobs[i])
	}
	if m.halves != nil {
		m.mulHalves(pool, dst, acts, bias, jobs)
		return
	}
	m.multiply(pool, dst, acts, bias, jobs, nil)
}

// Gated reports whether MulGated multiplies so many rows.
func (m *Matrix) Gated(rows int) bool {
	return m.halves == nil && m.tiled() && rows > maxTile && m.out%2 == 0
}

// MulGated is Mul of all rows of a matrix that is Gated, whose results in pairs are gated to one of
// each: gate fills dst from twice as many. So the pairs need not go through memory. dst has rows
// of half as many floats.
func (m *Matrix) MulGated(pool *Pool, dst []float32, acts *Acts, bias []float32, jobs []Job, gate func(dst, pairs []float32)) {
	if acts.width != m.in || len(dst) < acts.rows*m.out/2 || !m.Gated(acts.rows) {
		panic(fmt.Sprintf("kern: activations of width %d for a stack [%d, %d, %d] and %d gated results", acts.width, m.e, m.out, m.in, len(dst)))
	}
	m.multiply(pool, dst, acts, bias, jobs, gate)
}

// multiply is Mul of jobs that fit, or MulGated if gate is not nil.
func (m *Matrix) multiply(pool *Pool, dst []float32, acts *Acts, bias []float32, jobs []Job, gate func(dst, pairs []float32)) {
	acts.m, acts.dst, acts.bias, acts.jobs, acts.gate = m, dst, bias, jobs, gate
	if acts.multiply == nil {
		acts.round, acts.multiply = acts.roundTile, acts.multiplyTask
	}
	acts.prepare(pool)
	acts.plan(pool.Workers())
	pool.Run(len(acts.tasks), acts.multiply)
	acts.m, acts.dst, acts.bias, acts.jobs, acts.tiling = nil, nil, nil, nil, nil
}

// check panics unless the job stays within the matrix, the activations and dst: kernels
// do not look.
func (m *Matrix) check(dst []float32, acts *Acts, job *Job) {
	rows := job.rows(acts)
	bad := job.E < 0 || job.E >= m.e || (job.Y != nil && len(job.Y) != rows) || (job.Y == nil && rows*m.out > len(dst))
	for _, row := range job.X {
		bad = bad || row < 0 || int(row) >= acts.rows
	}
	for _, row := range job.Y {
		bad = bad || row < 0 || (int(row)+1)*m.out > len(dst)
	}
	if bad {
		panic(fmt.Sprintf("kern: job %+v does not fit %d activation rows, %d floats for results and a stack [%d, %d, %d]",
			*job, acts.rows, len(dst), m.e, m.out, m.in))
	}
}

// rows returns the number of activation rows of j.
func (j *Job) rows(acts *Acts) int {
	if j.X == nil {
		return acts.rows
	}
	return len(j.X)
}

// source returns which activation row is row i of j.
func (j *Job) source(i int) int {
	if j.X == nil {
		return i
	}
	return int(j.X[i])
}

// target returns which row of dst takes the results of row i of j.
func (j *Job) target(i int) int {
	if j.Y == nil {
		return i
	}
	return int(j.Y[i])
}

// What one core does in a ns, for the estimate of groupTime: bytes of weights that it reads,
// and elements of an activation row that it multiplies with 16 weight rows. The former is a
// round figure for a core among others that read; the latter are half of what a core of 3 GHz
// with two AVX-512 units does in registers (as peakOps counts it, a multiply-add for two):
// 16 multiply-adds for each element. Where a core is slower, tasks take longer in proportion,
// and nothing else changes.
const (
	bytesPerNs    = 12
	int8PerNs     = 12
	int8FinePerNs = int8PerNs / 2 // each row is two
	bf16PerNs     = 6
	float32PerNs  = 3
	tilesPerNs    = 48 // of BF16
)

// groupTime estimates the ns that one core takes for 16 weight rows times some
// activation rows: the bytes read plus the arithmetic. The number of groups is rounded over
// all experts together, which is near enough.
func (m *Matrix) groupTime(rows int) int {
	read := int(m.bytes) / (m.e * (m.out + groupRows - 1) / groupRows) / bytesPerNs
	switch {
	case m.quantised() && m.opt.Fine:
		return read + m.in*rows/int8FinePerNs
	case m.quantised():
		return read + m.in*rows/int8PerNs
	case m.tiled():
		return read + m.in*rows/tilesPerNs
	case m.rounded() && m.opt.Level.pairs():
		return read + m.in*rows/bf16PerNs
	}
	return read + m.in*rows/float32PerNs
}

const (
	// cached is how many activation rows a task takes through its row groups, so that they
	// stay in the second-level cache.
	cached = 128
	// cachedAMX and sumsAMX are that for tiles, in bytes: of activations, and of their sums.
	cachedAMX, sumsAMX = 512 << 10, 256 << 10
	// SumsBytes is about what each worker keeps sums in.
	SumsBytes = sumsAMX * 9 / 8
	// taskTime is about how long a task takes, in ns by groupTime: long enough for the pool's
	// counters not to count, short enough for workers to end together.
	taskTime = 30_000
	// tasksPerWorker is how many tasks each worker has at least, if there are enough row
	// groups, so that one that is held up leaves work to the others.
	tasksPerWorker = 4
)

// plan cuts the product into tasks of about taskTime, but at least tasksPerWorker for each
// worker where there are enough row groups. Tasks are longer where a job has more tiles than
// stay cached: each is to use its tiles for several row groups.
func (acts *Acts) plan(workers int) {
	acts.tasks = acts.tasks[:0]
	units := (acts.m.out + groupRows - 1) / groupRows
	tiles, sums, together := acts.tiling.tiles, 0, cached
	if acts.m.tiled() {
		together = max(cachedAMX/(2*acts.m.in), maxTileAMX)
	}
	for lo := 0; lo < len(tiles); {
		// The tiles lo..hi-1 are of one job and stay cached together, or are one.
		job, hi, rows := tiles[lo].job, lo, 0
		for hi < len(tiles) && tiles[hi].job == job && (hi == lo || rows+tiles[hi].rows <= together) {
			rows += tiles[hi].rows
			hi++
		}
		budget := taskTime
		// The job has further tiles, so the weights are read again: longer tasks use these tiles more.
		if rows < acts.jobs[job].rows(acts) {
			budget *= 4
		}
		step := max(1, min(budget/max(1, acts.m.groupTime(rows)), units*len(acts.jobs)/(tasksPerWorker*workers)))
		if rows > maxTileAMX && acts.m.tiled() { // rows of activations are to meet many row groups while they are near
			step = max(1, min(sumsAMX/(4*groupRows*rows), units*len(acts.jobs)/(tasksPerWorker*workers)))
		}
		// A task of an odd number of row groups would have one for the slower kernel.
		pairs := rows >= minPair && acts.m.quantised() && acts.m.fam.pairs(acts.m.opt.Level)
		if pairs || acts.m.tiled() || acts.m.inPairs() {
			step = (step + 1) &^ 1
		}
		sums = max(sums, rows*(step*groupRows+sumsApart))
		for from := 0; from < units; from += step {
			acts.tasks = append(acts.tasks, task{job: job, from: from, to: min(from+step, units), lo: lo, hi: hi})
		}
		lo = hi
	}
	if acts.m.tiled() {
		acts.growScratch(workers, sums)
	}
}

// multiplyTask runs the task of a chunk; the paths are above.
func (acts *Acts) multiplyTask(worker, chunk int) {
	if task := &acts.tasks[chunk]; acts.m.quantised() {
		if acts.m.opt.Level.hasOneRow(acts.m.opt.Fine) && acts.single(task) {
			acts.multiplyOneRow(task)
			return
		}
		acts.multiplyPacked(chunk)
		return
	} else if acts.m.rounded() {
		acts.multiplyBF16(worker, task)
		return
	}
	acts.multiplyStored(&acts.tasks[chunk], acts.scratch[worker])
}

// single reports whether a task has one activation row in all.
func (acts *Acts) single(task *task) bool {
	return task.hi == task.lo+1 && acts.tiling.tiles[task.lo].rows == 1
}
