package cpu

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"ossian/internal/cpu/kern"
)

// A Choice is how a device uses the machine, and what was measured to find it.
type Choice struct {
	ISA     string
	Threads int
	Of      int     // threads that the device was made for
	Levels  []Speed // of the instruction sets, at first the best that the machine has; nil = there was nothing to measure
	Counts  []Speed // of numbers of threads, at first Config.Threads; nil likewise
	Why     string  // why something that was open has not been measured, or not to the end; "" = all has
}

// A Speed is what a candidate reached, as medians.
type Speed struct {
	Name  string  // of an instruction set, or a number of threads
	Bytes float64 // of weights per second, with one row of activations: decoding
	Ops   float64 // per second, with many rows: reading prompts; a multiply-add is two
}

// Measured reports whether there was something to measure, and time for it.
func (c Choice) Measured() bool { return len(c.Levels)+len(c.Counts) > 0 }

// String returns the choice as a line:
// "avx512 (43.1 GB/s, 1310 Gop/s; avx2: 34.0, 402), 2 threads of 2 (1: 24.5, 680)".
func (c Choice) String() string {
	var b strings.Builder
	b.WriteString(c.ISA)
	chosen := false // the figures of the whole choice are written
	write := func(speeds []Speed, chose string) {
		var parts []string
		for _, s := range speeds {
			switch {
			case s.Name == chose && !chosen:
				chosen = true
				parts = slices.Insert(parts, 0, fmt.Sprintf("%.1f GB/s, %.0f Gop/s", s.Bytes/1e9, s.Ops/1e9))
			case s.Name != chose:
				parts = append(parts, fmt.Sprintf("%s: %.1f, %.0f", s.Name, s.Bytes/1e9, s.Ops/1e9))
			}
		}
		if len(parts) > 0 {
			fmt.Fprintf(&b, " (%s)", strings.Join(parts, "; "))
		}
	}
	write(c.Levels, c.ISA)
	threads := fmt.Sprint(c.Threads)
	plural := "s"
	if c.Threads == 1 {
		plural = ""
	}
	fmt.Fprintf(&b, ", %s thread%s of %d", threads, plural, c.Of)
	write(c.Counts, threads)
	if c.Why != "" {
		b.WriteString("; " + c.Why)
	}
	return b.String()
}

const (
	leastMeasured = 256 << 20              // bytes of weights from which on a faster choice is worth the time it takes to find
	chooseTime    = 200 * time.Millisecond // that Choose takes at most, but for the run that is under way
	chooseBytes   = 128 << 20              // of weights that the runs go around in: more than a few cores have of caches
	settled       = 2 * time.Millisecond   // after which new workers are awake and apart
	streamBytes   = 32 << 20               // of weights in a run of decoding
	chooseOps     = 1 << 29                // in a run of reading prompts, about
)

// Choose measures, where Config leaves them open, which instruction set and which number
// of threads are the fastest for this model, and has the device use them from then on. It
// belongs between the upload of the weights and the first step. What is computed is the
// same for every choice: portable Go, whose sums are rounded otherwise and which is many
// times slower, is none where there are vector instructions.
//
// A run is products with the kind of matrix that has most of the weights: one row of
// activations, weights out of memory, then many rows. Models below 256 MiB are fast either
// way, and Config.Exact is not about speed: there nothing is measured.
func (d *Device) Choose(ctx context.Context) Choice { return d.choose(ctx, chooseTime) }

// choose is Choose within limit.
func (d *Device) choose(ctx context.Context, limit time.Duration) Choice {
	levels, counts := d.open()
	c := Choice{Of: d.cfg.Threads}
	until := time.Now().Add(limit)
	t := &trial{d: d, more: func() bool { return ctx.Err() == nil && time.Now().Before(until) }}
	switch memory := d.Memory(); {
	case len(levels) == 1 && len(counts) == 1:
	case d.cfg.Exact:
		c.Why = "not measured: exact results are asked for, not fast ones"
	case memory.Weights+memory.Mapped < leastMeasured:
		c.Why = fmt.Sprintf("not measured: models below %d MiB are fast either way", leastMeasured>>20)
	case !t.gather():
		c.Why = "not measured: weights take too long to come into memory"
	default:
		c.Levels, c.Counts = t.choose(levels, counts)
		if !t.more() {
			c.Why = fmt.Sprintf("not measured to the end, which %v are not enough for", limit)
		}
	}
	c.ISA, c.Threads = d.opt.Level.String(), d.cfg.Threads
	return c
}

// open returns the instruction sets and numbers of threads that Config allows, those
// first that are used already.
func (d *Device) open() (levels []kern.Level, counts []int) {
	levels = []kern.Level{d.opt.Level}
	if d.cfg.ISA == "" && d.opt.Level > kern.AVX2 {
		levels = append(levels, kern.AVX2)
	}
	counts = []int{d.cfg.Threads}
	for _, n := range d.cfg.Fewer {
		if n > 0 && n < counts[len(counts)-1] {
			counts = append(counts, n)
		}
	}
	return levels, counts
}

// A trial runs products with matrices of a device.
type trial struct {
	d     *Device
	more  func() bool // there is time for another run
	units []unit      // what the runs go around in, of one kind
	at    int         // the next of them
	rows  int         // of a run of reading prompts
	x     []float32   // [rows, in] activations
	y     []float32   // [rows, out]
	acts  kern.Acts
	jobs  [1]kern.Job
}

// A unit is matrix e of a stack.
type unit struct {
	m     *kern.Matrix
	e     int
	bytes int64
}

// gather collects what the runs need, brings its weights into memory, and reports whether
// there was time.
func (t *trial) gather() bool {
	var heaviest *kern.Matrix
	most := int64(0)
	for _, w := range t.d.weights {
		if w.matrix == nil {
			continue
		}
		sum := int64(0)
		for _, o := range t.d.weights {
			if o.matrix != nil && o.matrix.Like(w.matrix) {
				sum += o.matrix.Bytes()
			}
		}
		if sum > most {
			most, heaviest = sum, w.matrix
		}
	}
	total := int64(0)
	for _, w := range t.d.weights {
		if w.matrix == nil || !w.matrix.Like(heaviest) {
			continue
		}
		stack, _, _ := w.matrix.Shape()
		for e := 0; e < stack && total < chooseBytes; e++ {
			u := unit{w.matrix, e, w.matrix.Bytes() / int64(stack)}
			t.units = append(t.units, u)
			total += u.bytes
		}
	}
	_, out, in := heaviest.Shape()
	t.rows = min(max(chooseOps/(2*out*in), 16), 64)
	t.x, t.y = make([]float32, t.rows*in), make([]float32, t.rows*out)
	for i := range t.x {
		t.x[i] = float32(i%64)/32 - 1
	}
	for range t.units {
		if !t.more() {
			return false
		}
		t.product(1)
	}
	return true
}

// product multiplies the next unit with some rows and returns its bytes.
func (t *trial) product(rows int) float64 {
	u := &t.units[t.at]
	t.at = (t.at + 1) % len(t.units)
	_, out, in := u.m.Shape()
	t.acts.Set(t.x, rows, in)
	t.jobs[0].E = u.e
	u.m.Mul(t.d.pool, t.y[:rows*out], &t.acts, nil, t.jobs[:])
	return float64(u.bytes)
}

// run measures the device as it is.
func (t *trial) run() Speed {
	t.product(1) // in the caches is what the last run left
	var s Speed
	start := time.Now()
	bytes := 0.0
	for bytes < streamBytes {
		bytes += t.product(1)
	}
	s.Bytes = bytes / time.Since(start).Seconds()
	_, out, in := t.units[0].m.Shape()
	start = time.Now()
	t.product(t.rows)
	s.Ops = 2 * float64(t.rows) * float64(out) * float64(in) / time.Since(start).Seconds()
	return s
}

// choose measures instruction sets, then numbers of threads with the best of them.
func (t *trial) choose(levels []kern.Level, counts []int) (byLevel, byCount []Speed) {
	best, byLevel := pick(len(levels), t.more, func(i int) Speed {
		t.d.use(levels[i])
		s := t.run()
		s.Name = levels[i].String()
		return s
	})
	t.d.use(levels[best])
	best, byCount = pick(len(counts), t.more, func(i int) Speed {
		t.d.employ(counts[i])
		for start := time.Now(); time.Since(start) < settled; {
			t.product(1)
		}
		s := t.run()
		s.Name = fmt.Sprint(counts[i])
		return s
	})
	t.d.employ(counts[best])
	return byLevel, byCount
}

// use has the device compute with l.
func (d *Device) use(l kern.Level) {
	d.opt.Level = l
	for _, w := range d.weights {
		if w.matrix != nil {
			w.matrix.Use(l)
		}
	}
}

// employ has the device compute with n threads, no more than it has been made for.
func (d *Device) employ(n int) {
	if n == d.pool.Workers() {
		return
	}
	d.pool.Close() // before the others begin: its workers spin
	d.pool = kern.NewPool(n)
	d.cfg.Threads = n
}

const (
	chooseRounds  = 7    // in which an alternative is compared
	chooseDefeats = 2    // of them with which it is out
	clearly       = 1.05 // times as fast as the first candidate is a round won
	noSlower      = 0.95 // times as fast is what neither replies nor prompts may fall below
	hopeless      = 0.75 // times as fast, at either, is out at once
)

// pick runs candidates in turns and returns the one to use: the first, unless another was
// clearly faster in nearly all rounds and there was time for them; and the medians of
// those that were run, none if there was nothing to choose. Most alternatives are out after
// a round or two. A disturbance may end the measurement early, but does not make an
// alternative win: it would have to slow the first down and spare the other, round for
// round.
func pick(candidates int, more func() bool, run func(candidate int) Speed) (best int, medians []Speed) {
	if candidates < 2 {
		return 0, nil
	}
	runs, gains := make([][]Speed, candidates), make([][]float64, candidates)
	beaten := func(i int) bool {
		lost := 0
		for _, g := range gains[i] {
			if g == 0 {
				return true
			}
			if g <= clearly {
				lost++
			}
		}
		return lost >= chooseDefeats
	}
	open := func(i int) bool { return len(gains[i]) < chooseRounds && !beaten(i) }
	for more() {
		first := run(0)
		runs[0] = append(runs[0], first)
		ended := true
		for i := 1; i < candidates; i++ {
			if open(i) && more() {
				s := run(i)
				runs[i] = append(runs[i], s)
				gains[i] = append(gains[i], gain(s, first))
			}
			ended = ended && !open(i)
		}
		if ended {
			break
		}
	}
	so := 1.0 // what the best has gained
	for i := 1; i < candidates; i++ {
		if beaten(i) || open(i) {
			continue
		}
		if by := middle(gains[i]); by > so*clearly {
			best, so = i, by
		}
	}
	for i := range runs {
		if len(runs[i]) > 0 {
			medians = append(medians, median(runs[i]))
		}
	}
	return best, medians
}

// gain returns how many times as fast as first s is, at replies and prompts on average or,
// where one would pay for the other, at that; 0 for hopeless.
func gain(s, first Speed) float64 {
	bytes, ops := s.Bytes/first.Bytes, s.Ops/first.Ops
	switch worse := min(bytes, ops); {
	case worse < hopeless:
		return 0
	case worse < noSlower:
		return worse
	}
	return math.Sqrt(bytes * ops)
}

func median(speeds []Speed) Speed {
	m := Speed{Name: speeds[0].Name}
	var bytes, ops []float64
	for _, s := range speeds {
		bytes, ops = append(bytes, s.Bytes), append(ops, s.Ops)
	}
	m.Bytes, m.Ops = middle(bytes), middle(ops)
	return m
}

func middle[E cmp.Ordered](x []E) E {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}
