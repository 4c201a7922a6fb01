package cpu

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/cpu/kern"
	"ossian/internal/model/modeltest"
	"ossian/internal/tensor"
)

// TestSameOnVectorLevels: which vector instructions compute, and how many threads, is not
// seen in a single bit of the logits, so that either may be chosen by speed.
func TestSameOnVectorLevels(t *testing.T) {
	levels := kern.Levels()
	if len(levels) < 3 {
		t.Skip("this machine or build has no two vector levels")
	}
	first, best := levels[1].String(), levels[len(levels)-1].String()
	for family, o := range tiny() {
		s, params := tinyModel(family, o)
		ids := make([]int32, 290) // past the windows and a split
		for i := range ids {
			ids[i] = int32(i * 37 % s.Vocab)
		}
		for _, kv := range []tensor.DType{tensor.BF16, tensor.F32, tensor.F8_E4M3} {
			for _, exact := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/exact=%v", family, kv, exact), func(t *testing.T) {
					want := logitsOf(t, s, params, Config{Threads: 1, ISA: best, KV: kv, Exact: exact}, ids, 29, func(*Device) {})
					got := logitsOf(t, s, params, Config{Threads: 3, ISA: first, KV: kv, Exact: exact}, ids, 29, func(*Device) {})
					for pos := range want {
						if !slices.Equal(got[pos], want[pos]) {
							t.Fatalf("the logits of position %d differ", pos)
						}
					}
				})
			}
		}
	}
}

// TestPick: figures of runs, by candidate, in GB/s and Gop/s; the last is repeated.
func TestPick(t *testing.T) {
	type figures [][2]float64
	same := func(a, b float64) figures { return figures{{a, b}} }
	for _, c := range []struct {
		name string
		runs []figures
		want int
		most int // runs
	}{
		{"nothing to choose", []figures{same(40, 1000)}, 0, 0},
		{"the other is slower", []figures{same(40, 1000), same(35, 900)}, 0, 4},
		{"the other is much slower", []figures{same(40, 1000), same(41, 400)}, 0, 2},
		{"as fast", []figures{same(40, 1000), same(40, 1000)}, 0, 4},
		{"a little faster", []figures{same(40, 1000), same(41.5, 1040)}, 0, 4},
		{"clearly faster", []figures{same(40, 1000), same(44, 1100)}, 1, 14},
		{"faster replies, slower prompts", []figures{same(40, 1000), same(48, 800)}, 0, 4},
		{"much faster replies, somewhat slower prompts", []figures{same(40, 1000), same(80, 900)}, 0, 4},
		{"faster replies, prompts about as fast", []figures{same(40, 1000), same(48, 960)}, 1, 14},
		{"the first is disturbed in two rounds", []figures{{{4, 100}, {4, 100}, {40, 1000}}, same(35, 900)}, 0, 8},
		{"the first is disturbed in every other round", []figures{{{4, 100}, {40, 1000}, {4, 100}, {40, 1000}}, same(35, 900)}, 0, 8},
		{"the other is disturbed once", []figures{same(40, 1000), {{50, 1200}, {35, 900}, {50, 1200}}}, 1, 14},
		{"the other is disturbed twice", []figures{same(40, 1000), {{50, 1200}, {35, 900}, {50, 1200}, {50, 1200}, {50, 1200}, {50, 1200}, {35, 900}}}, 0, 14},
		{"the other is disturbed a lot", []figures{same(40, 1000), {{50, 1200}, {20, 900}, {50, 1200}}}, 0, 4},
		{"both are faster, alike: the one named first", []figures{same(40, 1000), same(50, 1200), same(51, 1210)}, 1, 21},
		{"both are faster, one more", []figures{same(40, 1000), same(50, 1200), same(60, 1500)}, 2, 21},
		{"one of two is out early", []figures{same(40, 1000), same(20, 500), same(60, 1500)}, 2, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, done := 0, make([]int, len(c.runs))
			best, medians := pick(len(c.runs), func() bool { return true }, func(i int) Speed {
				f := c.runs[i][min(done[i], len(c.runs[i])-1)]
				done[i]++
				all++
				return Speed{Name: fmt.Sprint(i), Bytes: f[0] * 1e9, Ops: f[1] * 1e9}
			})
			if best != c.want || all > c.most {
				t.Errorf("candidate %d after %d runs, want %d after at most %d", best, all, c.want, c.most)
			}
			for i, m := range medians {
				if m.Name != fmt.Sprint(i) || m.Bytes <= 0 || m.Ops <= 0 {
					t.Errorf("candidate %d: %+v", i, m)
				}
			}
			// However soon time runs out, the runs end with it, and no candidate is taken that
			// has not gone all the way.
			for limit := range all {
				runs := 0
				clear(done)
				best, _ := pick(len(c.runs), func() bool { return runs < limit }, func(i int) Speed {
					f := c.runs[i][min(done[i], len(c.runs[i])-1)]
					done[i]++
					runs++
					return Speed{Bytes: f[0], Ops: f[1]}
				})
				if runs != limit || (best != 0 && done[best] < chooseRounds) {
					t.Errorf("time for %d runs: candidate %d after %d, %v of each", limit, best, runs, done)
				}
			}
		})
	}
}

// TestReached: runs that are disturbed, up to two of three, do not show in what is told.
func TestReached(t *testing.T) {
	for _, c := range []struct {
		runs []float64
		want float64
	}{{[]float64{38}, 38}, {[]float64{9, 38}, 38}, {[]float64{9, 38, 10}, 38}, {[]float64{9, 36, 10, 9, 37, 8, 38, 9}, 37}, {[]float64{36, 37, 36, 38, 35, 37, 36, 60}, 38}} {
		var runs []Speed
		for _, run := range c.runs {
			runs = append(runs, Speed{"x", run, 2 * run})
		}
		if got := reached(runs); got != (Speed{"x", c.want, 2 * c.want}) {
			t.Errorf("%v: %v", c.runs, got)
		}
	}
}

// TestSettle: what is told of the choice is from runs of its own, and that of the others is not.
func TestSettle(t *testing.T) {
	s, params := modeltest.Tiny("qwen3", modeltest.Options{Matrix: tensor.Q8_0})
	logitsOf(t, s, params, Config{Threads: 2, ISA: "go"}, []int32{1}, 1, func(d *Device) {
		left := 2 * len(d.weights)
		tried := &trial{d: d, more: func() bool { left--; return left > 0 }}
		if !tried.gather() {
			t.Fatal("no time")
		}
		left = 3
		byLevel, byCount := []Speed{{"go", 1, 1}, {"avx2", 1, 1}}, []Speed{{"2", 1, 1}, {"1", 1, 1}}
		byWay := []Speed{{Name: "x", Bytes: 1}, {Name: d.opt.Fetch.String(), Bytes: 1}}
		tried.settle(byLevel, byCount, byWay)
		if byWay[0] != (Speed{"x", 1, 0}) || byWay[1].Bytes != byLevel[0].Bytes || byWay[1].Ops != byLevel[0].Ops {
			t.Error(byWay)
		}
		if byLevel[0].Bytes <= 1 || byLevel[0].Ops <= 1 || byCount[0].Bytes != byLevel[0].Bytes || byLevel[1] != (Speed{"avx2", 1, 1}) || byCount[1] != (Speed{"1", 1, 1}) {
			t.Errorf("%v, %v", byLevel, byCount)
		}
	})
}

func TestChoiceString(t *testing.T) {
	two, one := Speed{"2", 43e9, 1310e9}, Speed{"1", 24.5e9, 680e9}
	pages := kern.Fetch{Streams: 2, Ahead: 1024}
	wide, narrow := Speed{"avx512", 43.1e9, 1310e9}, Speed{"avx2", 34e9, 402e9}
	for _, c := range []struct {
		c    Choice
		want string
	}{
		{Choice{ISA: "avx512", Threads: 2, Of: 2, Levels: []Speed{wide, narrow}, Counts: []Speed{two, one}},
			"avx512 (43.1 GB/s, 1310 Gop/s; avx2: 34.0, 402), 2 threads of 2 (1: 24.5, 680)"},
		{Choice{ISA: "avx2", Threads: 2, Of: 2, Levels: []Speed{wide, narrow}}, "avx2 (34.0 GB/s, 402 Gop/s; avx512: 43.1, 1310), 2 threads of 2"},
		{Choice{ISA: "go", Threads: 1, Of: 2, Counts: []Speed{two, one}}, "go, 1 thread of 2 (24.5 GB/s, 680 Gop/s; 2: 43.0, 1310)"},
		{Choice{ISA: "avx512", Threads: 2, Of: 2, Levels: []Speed{wide, narrow}, Fetch: pages, Ways: []Speed{{Name: "1 stream 4 KiB ahead", Bytes: 38e9}, {"2 streams 1 KiB ahead", 43.1e9, 1310e9}}},
			"avx512 (43.1 GB/s, 1310 Gop/s; avx2: 34.0, 402), 2 threads of 2, 2 streams 1 KiB ahead (1 stream 4 KiB ahead: 38.0)"},
		{Choice{ISA: "avx512", Threads: 2, Of: 2, Fetch: pages, Ways: []Speed{{"2 streams 1 KiB ahead", 43.1e9, 1310e9}, {Name: "1 stream 4 KiB ahead", Bytes: 38e9}}},
			"avx512, 2 threads of 2, 2 streams 1 KiB ahead (43.1 GB/s, 1310 Gop/s; 1 stream 4 KiB ahead: 38.0)"},
		{Choice{ISA: "go", Threads: 1, Of: 1}, "go, 1 thread of 1"},
		{Choice{ISA: "avx2", Threads: 2, Of: 2, Why: "not measured: x"}, "avx2, 2 threads of 2; not measured: x"},
	} {
		if got := c.c.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestChoose: a large model's device is measured where Config leaves it open, and only
// there; it computes the same afterwards.
func TestChoose(t *testing.T) {
	s, params := modeltest.Tiny("qwen3", modeltest.Options{Matrix: tensor.Q8_0})
	vectors := 1 // levels to choose among: the best and, of amd64, if that is another, AVX2
	if kern.AVX512.Available() {
		vectors = 2
	}
	for _, c := range []struct {
		name           string
		cfg            Config
		levels, counts int
		why            string
	}{
		{"all open", Config{Threads: 3, Fewer: []int{2, 1}}, vectors, 3, ""},
		{"instruction set given", Config{Threads: 2, Fewer: []int{1}, ISA: kern.Detect().String()}, 1, 2, ""},
		{"threads given", Config{Threads: 2}, vectors, 1, ""},
		{"both given", Config{Threads: 2, ISA: kern.Detect().String()}, 1, 1, ""},
		{"all given", Config{Threads: 2, ISA: kern.Detect().String(), Fetch: kern.Fetch{Streams: 1, Ahead: 2048}}, 1, 1, ""},
		{"other numbers are no choice", Config{Threads: 2, Fewer: []int{3, 2, 0, -1}, ISA: "go"}, 1, 1, ""},
		{"exact", Config{Threads: 2, Fewer: []int{1}, Exact: true}, 1, 1, "not measured: exact results are asked for, not fast ones"},
		{"small", Config{Threads: 2, Fewer: []int{1}}, 1, 1, "not measured: models below 256 MiB are fast either way"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ids := []int32{1, 2, 3, 4, 5}
			want := logitsOf(t, s, params, Config{Threads: 1, ISA: c.cfg.ISA, Exact: c.cfg.Exact}, ids, 5, func(*Device) {})
			got := logitsOf(t, s, params, c.cfg, ids, 5, func(d *Device) {
				if c.name != "small" {
					d.used.Mapped += LeastMeasured // as if it had more layers
				}
				choice := d.choose(t.Context(), time.Minute) // also on a busy machine
				measured := func(speeds []Speed, n int) bool { return len(speeds) == n || (n == 1 && speeds == nil) }
				if choice.Why != c.why || !measured(choice.Levels, c.levels) || !measured(choice.Counts, c.counts) {
					t.Errorf("%+v; want %d levels, %d numbers of threads, %q", choice, c.levels, c.counts, c.why)
				}
				ways := 0
				if c.why == "" && c.name != "all given" && len(d.opt.Level.Fetches()) > 1 {
					ways = len(d.opt.Level.Fetches())
				}
				if choice.Fetch != d.opt.Fetch || len(choice.Ways) > ways || (ways > 0 && len(choice.Ways) == 0) {
					t.Errorf("%v, of %v, with %v in use", choice.Fetch, choice.Ways, d.opt.Fetch)
				}
				if choice.ISA != d.opt.Level.String() || choice.Threads != d.pool.Workers() || choice.Of != c.cfg.Threads || !strings.HasPrefix(d.Name(), "cpu/"+choice.ISA) {
					t.Errorf("chosen are %v, %s with %d of %d threads is in use", choice, d.Name(), d.pool.Workers(), c.cfg.Threads)
				}
				for _, w := range d.weights {
					if w.matrix != nil && w.matrix.Level() != d.opt.Level {
						t.Errorf("a matrix computes with %v, the device with %v", w.matrix.Level(), d.opt.Level)
					}
				}
			})
			if !slices.Equal(got[4], want[4]) {
				t.Error("the logits differ")
			}
		})
	}
	ended, end := context.WithCancel(t.Context())
	end()
	logitsOf(t, s, params, Config{Threads: 2, Fewer: []int{1}}, []int32{1}, 1, func(d *Device) {
		d.used.Mapped += LeastMeasured
		if c := d.Choose(ended); c.Measured() || c.Why == "" || c.ISA != kern.Detect().String() || c.Threads != 2 {
			t.Errorf("%+v after the end of its context", c)
		}
	})
}
