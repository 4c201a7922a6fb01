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
	Fetch   kern.Fetch
	Ways    []Speed // of asking memory for weights, at first the processor's; nil likewise
	Why     string  // why something that was open has not been measured, or not to the end; "" = all has
}

// A Speed is what a candidate reached: the upper quartile of its runs. What disturbs a run of a few
// milliseconds makes it slower by any factor, and a start is full of that: threads that share a
// processor until they are moved apart, garbage of the tokenizer that is collected.
type Speed struct {
	Name  string  // of an instruction set, a number of threads, or a way of asking for weights
	Bytes float64 // of weights per second, with one row of activations: decoding
	Ops   float64 // per second, with many rows: reading prompts; a multiply-add is two. 0 = not measured
}

// Measured reports whether there was something to measure, and time for it.
func (c Choice) Measured() bool { return len(c.Levels)+len(c.Counts)+len(c.Ways) > 0 }

// String returns the choice as a line:
// "avx512 (43.1 GB/s, 1310 Gop/s; avx2: 34.0, 402), 2 threads of 2 (1: 24.5, 680),
// 2 streams 1 KiB ahead (1 stream 4 KiB ahead: 38.0)".
func (c Choice) String() string {
	var out strings.Builder
	out.WriteString(c.ISA)
	chosen := false // the figures of the whole choice are written
	write := func(speeds []Speed, chose string) {
		var parts []string
		for _, speed := range speeds {
			switch {
			case speed.Name == chose && !chosen:
				chosen = true
				parts = slices.Insert(parts, 0, speed.figures(" GB/s", " Gop/s"))
			case speed.Name != chose:
				parts = append(parts, speed.Name+": "+speed.figures("", ""))
			}
		}
		if len(parts) > 0 {
			fmt.Fprintf(&out, " (%s)", strings.Join(parts, "; "))
		}
	}
	write(c.Levels, c.ISA)
	threads := fmt.Sprint(c.Threads)
	plural := "s"
	if c.Threads == 1 {
		plural = ""
	}
	fmt.Fprintf(&out, ", %s thread%s of %d", threads, plural, c.Of)
	write(c.Counts, threads)
	if c.Ways != nil {
		fmt.Fprintf(&out, ", %v", c.Fetch)
		write(c.Ways, c.Fetch.String())
	}
	if c.Why != "" {
		out.WriteString("; " + c.Why)
	}
	return out.String()
}

// figures returns those that were measured, with their units behind them.
func (s Speed) figures(bytes, ops string) string {
	text := fmt.Sprintf("%.1f%s", s.Bytes/1e9, bytes)
	if s.Ops > 0 {
		text += fmt.Sprintf(", %.0f%s", s.Ops/1e9, ops)
	}
	return text
}

const (
	LeastMeasured = 256 << 20              // bytes of weights from which on a faster choice is worth the time it takes to find
	chooseTime    = 200 * time.Millisecond // that Choose takes at most, but for the run that is under way
	chooseBytes   = 128 << 20              // of weights that the runs go around in: more than a few cores have of caches
	settled       = 2 * time.Millisecond   // after which new workers are awake and apart
	streamBytes   = 32 << 20               // of weights in a run of decoding
	wayBytes      = streamBytes / 2        // in such a run that compares ways of asking for weights
	waysTime      = 25 * time.Millisecond  // that comparing these takes at most
	chooseOps     = 1 << 29                // in a run of reading prompts, about
	settleRuns    = 8                      // that the figures of what was chosen are from
)

// Choose measures, where Config leaves them open, which instruction set, which number of
// threads and which way of asking memory for weights are the fastest for this model, and has
// the device use them from then on. It belongs between the upload of the weights and the first step. What is computed is the
// same for every choice: portable Go, whose sums are rounded otherwise and which is many
// times slower, is none where there are vector instructions.
//
// A run is products with the kind of matrix that has most of the weights: one row of
// activations, weights out of memory, then many rows. Models below 256 MiB are fast either
// way, and Config.Exact is not about speed: there nothing is measured.
func (d *Device) Choose(ctx context.Context) Choice { return d.choose(ctx, chooseTime) }

// choose is Choose within limit.
func (d *Device) choose(ctx context.Context, limit time.Duration) Choice {
	levels, counts, ways := d.open()
	choice := Choice{Of: d.cfg.Threads}
	until := time.Now().Add(limit)
	tried := &trial{d: d, more: func() bool { return ctx.Err() == nil && time.Now().Before(until) }}
	// The cases are the reasons not to measure, the last is measuring.
	switch memory := d.Memory(); {
	case len(levels) == 1 && len(counts) == 1 && !ways:
	case d.cfg.Exact:
		choice.Why = "not measured: exact results are asked for, not fast ones"
	case memory.Weights+memory.Mapped < LeastMeasured:
		choice.Why = fmt.Sprintf("not measured: models below %d MiB are fast either way", LeastMeasured>>20)
	case !tried.gather():
		choice.Why = "not measured: weights take too long to come into memory"
	default:
		choice.Levels, choice.Counts = tried.choose(levels, counts)
		if ways {
			choice.Ways = tried.fetches()
		}
		if !tried.more() {
			choice.Why = fmt.Sprintf("not measured to the end, which %v are not enough for", limit)
		}
		tried.settle(choice.Levels, choice.Counts, choice.Ways)
	}
	choice.ISA, choice.Threads, choice.Fetch = d.opt.Level.String(), d.cfg.Threads, d.opt.Fetch
	return choice
}

// open returns the instruction sets and numbers of threads that Config allows, those
// first that are used already, and whether ways of asking for weights are to be compared.
func (d *Device) open() (levels []kern.Level, counts []int, ways bool) {
	levels = []kern.Level{d.opt.Level}
	if d.cfg.ISA == "" && d.opt.Level > kern.AVX2 && kern.AVX2.Available() {
		levels = append(levels, kern.AVX2)
	}
	counts = []int{d.cfg.Threads}
	for _, threads := range d.cfg.Fewer {
		if threads > 0 && threads < counts[len(counts)-1] {
			counts = append(counts, threads)
		}
	}
	return levels, counts, d.cfg.Fetch == kern.Fetch{} && len(d.opt.Level.Fetches()) > 1
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
	// The kind of matrix that has most of the weights stands for the model.
	var heaviest *kern.Matrix
	most := int64(0)
	for _, weight := range t.d.weights {
		if weight.matrix == nil {
			continue
		}
		sum := int64(0)
		for _, other := range t.d.weights {
			if other.matrix != nil && other.matrix.Like(weight.matrix) {
				sum += other.matrix.Bytes()
			}
		}
		if sum > most {
			most, heaviest = sum, weight.matrix
		}
	}
	// Enough matrices of it that weights come out of memory, not out of caches.
	total := int64(0)
	for _, weight := range t.d.weights {
		if weight.matrix == nil || !weight.matrix.Like(heaviest) {
			continue
		}
		stack, _, _ := weight.matrix.Shape()
		for index := 0; index < stack && total < chooseBytes; index++ {
			next := unit{weight.matrix, index, weight.matrix.Bytes() / int64(stack)}
			t.units = append(t.units, next)
			total += next.bytes
		}
	}
	_, out, in := heaviest.Shape()
	t.rows = min(max(chooseOps/(2*out*in), 16), 64)
	t.x, t.y = make([]float32, t.rows*in), make([]float32, t.rows*out)
	for i := range t.x {
		t.x[i] = float32(i%64)/32 - 1
	}
	// One round brings weights in that are still on the disk.
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
	next := &t.units[t.at]
	t.at = (t.at + 1) % len(t.units)
	_, out, in := next.m.Shape()
	t.acts.Set(t.x, rows, in)
	t.jobs[0].E = next.e
	next.m.Mul(t.d.pool, t.y[:rows*out], &t.acts, nil, t.jobs[:])
	return float64(next.bytes)
}

// run measures the device as it is.
func (t *trial) run() Speed {
	speed := t.decode(streamBytes)
	_, out, in := t.units[0].m.Shape()
	start := time.Now()
	t.product(t.rows)
	speed.Ops = 2 * float64(t.rows) * float64(out) * float64(in) / time.Since(start).Seconds()
	return speed
}

// decode measures decoding alone, with so many bytes of weights at least.
func (t *trial) decode(atLeast float64) Speed {
	t.product(1) // in the caches is what the last run left
	start, bytes := time.Now(), 0.0
	for bytes < atLeast {
		bytes += t.product(1)
	}
	return Speed{Bytes: bytes / time.Since(start).Seconds()}
}

// choose measures instruction sets, then numbers of threads with the best of them.
func (t *trial) choose(levels []kern.Level, counts []int) (byLevel, byCount []Speed) {
	best, byLevel := pick(len(levels), t.more, func(i int) Speed {
		t.d.use(levels[i], t.d.fetch(levels[i]))
		speed := t.run()
		speed.Name = levels[i].String()
		return speed
	})
	t.d.use(levels[best], t.d.fetch(levels[best]))
	best, byCount = pick(len(counts), t.more, func(i int) Speed {
		t.d.employ(counts[i])
		for start := time.Now(); time.Since(start) < settled; {
			t.product(1)
		}
		speed := t.run()
		speed.Name = fmt.Sprint(counts[i])
		return speed
	})
	t.d.employ(counts[best])
	return byLevel, byCount
}

// fetches measures ways of asking for weights, if there are several for the model's matrices.
func (t *trial) fetches() []Speed {
	ways, until := t.units[0].m.Fetches(), time.Now().Add(waysTime)
	best, speeds := pick(len(ways), func() bool { return t.more() && time.Now().Before(until) }, func(i int) Speed {
		t.d.use(t.d.opt.Level, ways[i])
		speed := t.decode(wayBytes)
		speed.Name = ways[i].String()
		return speed
	})
	t.d.use(t.d.opt.Level, ways[best])
	return speeds
}

// settle runs what was chosen as often as its figures need, if there is time, and puts them in place
// of those from the comparison, which ends after a run or two.
func (t *trial) settle(byLevel, byCount, byWay []Speed) {
	var runs []Speed
	for len(runs) < settleRuns && t.more() {
		runs = append(runs, t.run())
	}
	if len(runs) == 0 {
		return
	}
	figures := reached(runs)
	for _, all := range []struct {
		speeds []Speed
		chosen string
	}{{byLevel, t.d.opt.Level.String()}, {byCount, fmt.Sprint(t.d.cfg.Threads)}, {byWay, t.d.opt.Fetch.String()}} {
		for i := range all.speeds {
			if speed := &all.speeds[i]; speed.Name == all.chosen {
				speed.Bytes, speed.Ops = figures.Bytes, figures.Ops
			}
		}
	}
}

// fetch returns the way of asking for weights that is said, or the first of a level.
func (d *Device) fetch(level kern.Level) kern.Fetch {
	if d.cfg.Fetch != (kern.Fetch{}) {
		return d.cfg.Fetch
	}
	return level.Fetches()[0]
}

// use has the device compute with an instruction set, which asks for weights in that way.
func (d *Device) use(level kern.Level, fetch kern.Fetch) {
	d.opt.Level, d.opt.Fetch = level, fetch
	for _, weight := range d.weights {
		if weight.matrix != nil {
			weight.matrix.Use(level, fetch)
		}
	}
}

// employ has the device compute with so many threads, no more than it has been made for.
func (d *Device) employ(threads int) {
	if threads == d.pool.Workers() {
		return
	}
	d.pool.Close() // before the others begin: its workers spin
	d.pool = kern.NewPool(threads)
	d.cfg.Threads = threads
}

const (
	chooseRounds  = 7    // in which an alternative is compared
	chooseDefeats = 2    // of them with which it is out
	clearly       = 1.05 // times as fast as the first candidate is a round won
	noSlower      = 0.95 // times as fast is what neither replies nor prompts may fall below
	hopeless      = 0.75 // times as fast, at either, is out at once
)

// pick runs candidates in turns and returns the one to use: the first, unless another was
// clearly faster in nearly all rounds and there was time for them; and what those reached
// that were run, none if there was nothing to choose. Most alternatives are out after
// a round or two. A disturbance may end the measurement early, but does not make an
// alternative win: it would have to slow the first down and spare the other, round for
// round.
func pick(candidates int, more func() bool, run func(candidate int) Speed) (best int, speeds []Speed) {
	if candidates < 2 {
		return 0, nil
	}
	// runs and gains are [candidate][round]; the first candidate has no gains.
	runs, gains := make([][]Speed, candidates), make([][]float64, candidates)
	beaten := func(candidate int) bool {
		lost := 0
		for _, gained := range gains[candidate] {
			if gained == 0 {
				return true
			}
			if gained <= clearly {
				lost++
			}
		}
		return lost >= chooseDefeats
	}
	open := func(candidate int) bool { return len(gains[candidate]) < chooseRounds && !beaten(candidate) }
	for more() {
		first := run(0)
		runs[0] = append(runs[0], first)
		ended := true
		for candidate := 1; candidate < candidates; candidate++ {
			if open(candidate) && more() {
				speed := run(candidate)
				runs[candidate] = append(runs[candidate], speed)
				gains[candidate] = append(gains[candidate], gain(speed, first))
			}
			ended = ended && !open(candidate)
		}
		if ended {
			break
		}
	}
	// Only an alternative that stood all rounds counts, and only clearly beyond the one before.
	so := 1.0 // what the best has gained
	for candidate := 1; candidate < candidates; candidate++ {
		if beaten(candidate) || open(candidate) {
			continue
		}
		if by := middle(gains[candidate]); by > so*clearly {
			best, so = candidate, by
		}
	}
	for candidate := range runs {
		if len(runs[candidate]) > 0 {
			speeds = append(speeds, reached(runs[candidate]))
		}
	}
	return best, speeds
}

// gain returns how many times as fast as first s is, at replies and prompts on average or,
// where one would pay for the other, at that; 0 for hopeless.
func gain(s, first Speed) float64 {
	bytes := s.Bytes / first.Bytes
	ops := bytes
	if first.Ops > 0 {
		ops = s.Ops / first.Ops
	}
	switch worse := min(bytes, ops); {
	case worse < hopeless:
		return 0
	case worse < noSlower:
		return worse
	}
	return math.Sqrt(bytes * ops)
}

// reached returns the upper quartiles of both figures, each for itself.
func reached(runs []Speed) Speed {
	var bytes, ops []float64
	for _, run := range runs {
		bytes, ops = append(bytes, run.Bytes), append(ops, run.Ops)
	}
	slices.Sort(bytes)
	slices.Sort(ops)
	upper := len(runs) * 3 / 4
	return Speed{Name: runs[0].Name, Bytes: bytes[upper], Ops: ops[upper]}
}

// middle returns the upper median of x.
func middle[E cmp.Ordered](x []E) E {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}
