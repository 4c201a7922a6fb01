package kern

import "fmt"

// A gate and an up projection that a file has in two types are two matrices, each in the form
// that its type has, and one to whoever multiplies: every other row of results is of the other.
// Nothing is rounded but what each product rounds, so that the bits of a result are those of
// its own matrix alone.

// Interleave returns the matrix whose rows are row 0 of gate, row 0 of up, row 1 of gate, …
// for each matrix of the stacks, which must be equal in shape and level. It owns both.
func Interleave(gate, up *Matrix) *Matrix {
	if gate.e != up.e || gate.out != up.out || gate.in != up.in || gate.opt.Level != up.opt.Level {
		panic(fmt.Sprintf("kern: stacks [%d, %d, %d] for %v and [%d, %d, %d] for %v cannot be interleaved",
			gate.e, gate.out, gate.in, gate.opt.Level, up.e, up.out, up.in, up.opt.Level))
	}
	return &Matrix{e: gate.e, out: 2 * gate.out, in: gate.in, opt: gate.opt, bytes: gate.bytes + up.bytes, halves: &[2]*Matrix{gate, up}}
}

// mulHalves is Mul for a matrix of Interleave. Results of a half lie in the rows that their
// jobs name, of half the length.
func (m *Matrix) mulHalves(pool *Pool, dst []float32, acts *Acts, bias []float32, jobs []Job) {
	rows := len(dst) / m.out
	for i, half := range m.halves {
		acts.halves[i] = grown(acts.halves[i], rows*half.out)
		half.Mul(pool, acts.halves[i], acts, nil, jobs)
	}
	acts.m, acts.dst, acts.bias, acts.jobs = m, dst, bias, jobs
	if acts.join == nil {
		acts.join = acts.joinRow
	}
	count := 0
	for i := range jobs {
		count += jobs[i].rows(acts)
	}
	pool.Run(count, acts.join)
	acts.m, acts.dst, acts.bias, acts.jobs = nil, nil, nil, nil
}

// grown returns a slice of n floats, in the memory of s if there is room.
func grown(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}

// joinRow interleaves the results of one activation row, and adds the bias.
func (acts *Acts) joinRow(_, row int) {
	job := &acts.jobs[0]
	for i := 1; row >= job.rows(acts); i++ {
		row -= job.rows(acts)
		job = &acts.jobs[i]
	}
	width := acts.m.out / 2
	at := job.target(row)
	to, gate, up := acts.dst[at*2*width:][:2*width], acts.halves[0][at*width:][:width], acts.halves[1][at*width:][:width]
	if acts.bias == nil {
		for i, v := range gate {
			to[2*i], to[2*i+1] = v, up[i]
		}
		return
	}
	bias := acts.bias[job.E*2*width:][:2*width]
	for i, v := range gate {
		to[2*i], to[2*i+1] = v+bias[2*i], up[i]+bias[2*i+1]
	}
}
