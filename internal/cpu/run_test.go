package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ossian/internal/model"
	"ossian/internal/model/modeltest"
	"ossian/internal/runner"
	"ossian/internal/runner/runnertest"
	"ossian/internal/sample"
	"ossian/internal/soak"
	"ossian/internal/tensor"
)

// tiny are models of every family, each with another type of weights; what stands behind a
// blank tells those of a family apart.
func tiny() map[string]modeltest.Options {
	return map[string]modeltest.Options{
		"gpt-oss":  {Matrix: tensor.BF16},
		"qwen3":    {Matrix: tensor.Q8_0, Tied: true},
		"qwen3moe": {Matrix: tensor.Q4_K, Dense: true, NoRenorm: true},
		"llama":    {Matrix: tensor.F16, Llama3: true},

		"qwen3 mixed":    {Matrix: tensor.Q5_1, Up: tensor.Q5_0},
		"qwen3moe mixed": {Matrix: tensor.Q6_K, Up: tensor.Q4_K, Dense: true},
		"gpt-oss mixed":  {Matrix: tensor.BF16, Experts: tensor.F32, Up: tensor.MXFP4},
		"llama mixed":    {Matrix: tensor.Q8_0, Up: tensor.F32},
	}
}

// tinyModel makes a model of tiny.
func tinyModel(name string, o modeltest.Options) (*model.Spec, map[string]tensor.Tensor) {
	family, _, _ := strings.Cut(name, " ")
	return modeltest.Tiny(family, o)
}

func tinyLimits(s *model.Spec, depth int) model.Limits {
	lim := model.Limits{MaxSeqs: 4, MaxTokens: 48, MaxLen: 320, BlockSize: 8, Depth: depth}
	windows, _ := s.Groups()
	for range windows {
		lim.Blocks = append(lim.Blocks, 200)
	}
	return lim
}

// logitsOf runs ids through a device in one sequence and returns the logits at
// the end of each chunk by position. prepare sees the device before the first step.
func logitsOf(t *testing.T, s *model.Spec, params map[string]tensor.Tensor, cfg Config, ids []int32, chunk int, prepare func(*Device)) map[int][]float32 {
	t.Helper()
	return logitsWithin(t, s, params, tinyLimits(s, 1), cfg, ids, chunk, prepare)
}

// logitsWithin is logitsOf with other limits.
func logitsWithin(t *testing.T, s *model.Spec, params map[string]tensor.Tensor, lim model.Limits, cfg Config, ids []int32, chunk int, prepare func(*Device)) map[int][]float32 {
	t.Helper()
	d, err := New(s, lim, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.NewDecoder(s, params, d, lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	prepare(d)
	got := make(map[int][]float32)
	for at := 0; at < len(ids); at += chunk {
		n := min(chunk, len(ids)-at)
		batch := benchBatch(s, lim, 1, n, at)
		copy(batch.Tokens, ids[at:])
		if err := r.Launch(batch); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Collect(); err != nil {
			t.Fatal(err)
		}
		got[at+n-1] = append([]float32(nil), d.op.x.row(0)...) // Sample's operand
	}
	return got
}

// TestOracle compares whole models with the float64 oracle. Exact with F32 keys
// and values: models.md 5.2, 2e-3 absolute. Otherwise the relative error of
// 8-bit activations and BF16 keys, about 1 % per layer, or E4M3 keys and values,
// 3 %, with room for a router that flips.
func TestOracle(t *testing.T) {
	for family, o := range tiny() {
		s, params := tinyModel(family, o)
		oracle, err := modeltest.NewOracle(s, params)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(7, 7))
		ids := make([]int32, 70)
		for i := range ids {
			ids[i] = int32(rng.IntN(s.Vocab))
		}
		want := oracle.Logits(ids)
		for _, isa := range fastLevels() {
			for _, kv := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F8_E4M3} {
				t.Run(fmt.Sprintf("%s/%s/%v", family, isa, kv), func(t *testing.T) {
					exact := kv == tensor.F32
					cfg := Config{Threads: 2, ISA: isa, Exact: exact, KV: kv}
					var worst, diff, size float64
					for pos, got := range logitsOf(t, s, params, cfg, ids, 3, func(*Device) {}) {
						for id, g := range got {
							e := math.Abs(float64(g) - want[pos][id])
							worst, diff, size = max(worst, e), diff+e*e, size+want[pos][id]*want[pos][id]
						}
					}
					relative, limit := math.Sqrt(diff/size), 0.1
					if kv == tensor.F8_E4M3 {
						limit = 0.2
					}
					t.Logf("largest difference %.2g, relative L2 %.2g", worst, relative)
					if (exact && !(worst <= 2e-3 && relative <= 1e-4)) || !(relative <= limit) {
						t.Errorf("largest difference %.3g, relative L2 %.3g", worst, relative)
					}
				})
			}
		}
	}
}

// Experts that lie in columns give the bits of those in rows, packed in memory or in a file.
func TestColumns(t *testing.T) {
	skipUnsupported(t)
	for _, dtype := range []tensor.DType{tensor.BF16, tensor.F16, tensor.F32} {
		for _, weights := range []string{"auto", "q8"} {
			t.Run(fmt.Sprintf("%v/%s", dtype, weights), func(t *testing.T) {
				s, params := modeltest.Tiny("gpt-oss", modeltest.Options{Matrix: tensor.BF16, Experts: dtype})
				ids, cfg := someIDs(s), Config{Threads: 2, Weights: weights}
				want := logitsOf(t, s, params, cfg, ids, 5, func(*Device) {})
				for name, p := range params {
					if len(p.Shape) != 3 {
						continue
					}
					out, in, size := p.Shape[1], p.Shape[2], p.DType.RowBytes(1)
					turned := make([]byte, len(p.Data))
					for i := range p.Rows() {
						for k := range in {
							copy(turned[((i/out*in+k)*out+i%out)*size:][:size], p.Row(i).Data[k*size:])
						}
					}
					p.Data, p.Columns = turned, true
					params[name] = p
				}
				packed := newPacked(t, s, cfg, params, filepath.Join(t.TempDir(), "packed"))
				if err := packed.Make(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				for _, kept := range []*Packed{nil, packed} {
					cfg.Packed = kept
					for pos, row := range logitsOf(t, s, params, cfg, ids, 5, func(d *Device) {
						plan, err := Footprint(s, tinyLimits(s, 1), cfg, params)
						if got := d.Memory(); err != nil || got.Total() != plan.Total() || got.Weights != plan.Weights {
							t.Errorf("memory %+v, planned %+v, %v", got, plan, err)
						}
					}) {
						if !slices.Equal(want[pos], row) {
							t.Fatalf("other logits at %d", pos)
						}
					}
				}
			})
		}
	}
}

// TestScoresOracle holds scores, found in parts of four tokens, to the float64
// oracle as TestOracle does logits, and to the same bits in chunks of any size.
func TestScoresOracle(t *testing.T) {
	for family, o := range tiny() {
		t.Run(family, func(t *testing.T) {
			s, params := tinyModel(family, o)
			oracle, err := modeltest.NewOracle(s, params)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(8, 8))
			ids := make([]int32, 70)
			for i := range ids {
				ids[i] = int32(rng.IntN(s.Vocab))
			}
			want := oracle.Logits(ids)
			cfg := Config{Threads: 2, Exact: true, KV: tensor.F32}
			alone := scoresOf(t, s, params, cfg, ids, 1)
			for _, chunk := range []int{7, 48} {
				for i, got := range scoresOf(t, s, params, cfg, ids, chunk) {
					if got.Rank != alone[i].Rank || !slices.Equal(got.Logprobs, alone[i].Logprobs) {
						t.Fatalf("target %d in chunks of %d: %+v, token by token %+v", i+1, chunk, got, alone[i])
					}
				}
			}
			for i, got := range alone {
				all, sum := want[i], 0.0
				for _, l := range all {
					sum += math.Exp(l - slices.Max(all))
				}
				for k, l := range got.Logprobs {
					if e := math.Abs(float64(l.Logprob) - (all[l.ID] - slices.Max(all) - math.Log(sum))); !(e <= 2e-3) || (k == 0 && l.ID != ids[i+1]) {
						t.Errorf("target %d of id %d: log probability %d, of id %d, is off by %.3g", i+1, ids[i+1], k, l.ID, e)
					}
				}
				least, most := 1, 1 // errors may move it by one near tie
				for _, l := range all {
					if l > all[ids[i+1]]+4e-3 {
						least++
					}
					if l > all[ids[i+1]]-4e-3 {
						most++
					}
				}
				if got.Rank < least || got.Rank > most {
					t.Errorf("target %d has rank %d, want %d to %d", i+1, got.Rank, least, most)
				}
			}
		})
	}
}

// scoresOf returns the scores of all ids but the first, with three alternatives.
func scoresOf(t *testing.T, s *model.Spec, params map[string]tensor.Tensor, cfg Config, ids []int32, chunk int) (all []sample.Score) {
	t.Helper()
	lim := tinyLimits(s, 1)
	d, err := New(s, lim, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.NewDecoder(s, params, d, lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for at := 0; at < len(ids)-1; at += chunk {
		n := min(chunk, len(ids)-at)
		batch := benchBatch(s, lim, 1, n, at)
		copy(batch.Tokens, ids[at:])
		row := &batch.Rows[0]
		row.Params, row.Targets = &sample.Params{PromptLogprobs: true, TopPromptLogprobs: 3}, ids[at+1:min(at+1+n, len(ids))]
		if err := r.Launch(batch); err != nil {
			t.Fatal(err)
		}
		got, err := r.Collect()
		if err != nil {
			t.Fatal(err)
		}
		for _, score := range got.Scores[0] {
			score.Logprobs = slices.Clone(score.Logprobs)
			all = append(all, score)
		}
	}
	return all
}

// TestPoisonedPools: places that hold no token yet, NaN here, reach no result, not
// even multiplied by a weight of 0.
func TestPoisonedPools(t *testing.T) {
	for _, kv := range []tensor.DType{tensor.BF16, tensor.F32, tensor.F8_E4M3} {
		s, params := modeltest.Tiny("gpt-oss", tiny()["gpt-oss"])
		ids := make([]int32, 290) // past the windows and a split
		for i := range ids {
			ids[i] = int32(i * 31 % s.Vocab)
		}
		cfg := Config{Threads: 2, KV: kv}
		want := logitsOf(t, s, params, cfg, ids, 29, func(*Device) {})
		got := logitsOf(t, s, params, cfg, ids, 29, func(d *Device) {
			for i := range d.kv {
				for _, c := range []*cache{&d.kv[i].k, &d.kv[i].v} {
					fill(c.half, 0xffff)
					fill(c.full, float32(math.NaN()))
					fill(c.codes, 0xff)
					fill(c.scales, 0xff)
				}
			}
		})
		for pos := range want {
			if !slices.Equal(got[pos], want[pos]) {
				t.Fatalf("%v: position %d changes with what the pool held before", kv, pos)
			}
		}
	}
}

func fill[E any](x []E, v E) {
	for i := range x {
		x[i] = v
	}
}

func TestStepDoesNotAllocate(t *testing.T) {
	for family, o := range tiny() {
		s, params := tinyModel(family, o)
		lim := tinyLimits(s, 2)
		d, err := New(s, lim, Config{Threads: 2, KV: tensor.F8_E4M3})
		if err != nil {
			t.Fatal(err)
		}
		r, err := model.NewDecoder(s, params, d, lim, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, batch := range []*runner.Batch{benchBatch(s, lim, 4, 12, 0), benchBatch(s, lim, 4, 1, 12), benchBatch(s, lim, 1, 40, 24)} {
			for i := range batch.Rows {
				p := batch.Rows[i].Params
				p.Temperature, p.TopP, p.TopK, p.PresencePenalty, p.Logprobs, p.TopLogprobs = 0.8, 0.9, 20, 1, true, 3
				p.PromptLogprobs, p.TopPromptLogprobs = true, 2
				batch.Rows[i].Targets = slices.Repeat([]int32{7}, batch.Rows[i].Len)
			}
			step := func() {
				if err := r.Launch(batch); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Collect(); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 { // every worker has sampled, every result has been used
				step()
			}
			if n := testing.AllocsPerRun(20, step); n != 0 {
				t.Errorf("%s: a step of %d tokens allocates %v times", family, len(batch.Tokens), n)
			}
		}
	}
}

func TestFootprint(t *testing.T) {
	for family, o := range tiny() {
		for _, cfg := range []Config{{Threads: 1}, {Threads: 3, KV: tensor.F32}, {Threads: 2, KV: tensor.F8_E4M3}, {Threads: 2, Weights: "q8"}, {Threads: 2, Activations: 8}} {
			t.Run(fmt.Sprintf("%s/%d threads/%v/%s/%d bits", family, cfg.Threads, cfg.KV, cfg.Weights, cfg.Activations), func(t *testing.T) {
				o.Vocab = 5003
				ids := []int32{1, 2, 3}
				s, params := tinyModel(family, o)
				lim := tinyLimits(s, 1)
				want, err := Footprint(s, lim, cfg, params)
				if err != nil {
					t.Fatal(err)
				}
				if cfg.KV == tensor.F8_E4M3 { // half of BF16, and a byte for each vector
					half, err := Footprint(s, lim, Config{Threads: 1}, params)
					if dim := int64(s.HeadDim); err != nil || want.KV != half.KV/2*(dim+1)/dim {
						t.Errorf("%d bytes of E4M3, %d of BF16 (%v)", want.KV, half.KV, err)
					}
				}
				heap := func() int64 {
					runtime.GC()
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					return int64(m.HeapAlloc)
				}
				before := heap()
				d, err := New(s, lim, cfg)
				if err != nil {
					t.Fatal(err)
				}
				r, err := model.NewDecoder(s, params, d, lim, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if err := r.Launch(benchBatch(s, lim, 4, 12, 0)); err != nil {
					t.Fatal(err)
				}
				for i := range d.workers { // which worker samples is chance
					w := &d.workers[i]
					w.sampler.Pick(make([]float32, s.Vocab), nil, &sample.Params{Temperature: 1, TopP: 0.5, PresencePenalty: 1}, ids, 0)
				}
				outside := int64(0)
				for _, m := range d.mem.maps {
					outside += int64(len(m))
				}
				packed := int64(0)
				for _, w := range d.weights {
					if w.matrix != nil {
						packed += w.matrix.Bytes()
					}
				}
				got := outside + packed + heap() - before
				runtime.KeepAlive(params)
				if diff := math.Abs(float64(got-want.Total())) / float64(want.Total()); diff > 0.05 {
					t.Errorf("device takes %d bytes, footprint said %d (%+v)", got, want.Total(), want)
				}
				if got := d.Memory(); got.Total() != want.Total() || got.KV != want.KV || got.Mapped != want.Mapped {
					t.Errorf("device reports %+v, footprint said %+v", got, want)
				}
			})
		}
	}
}

func TestFootprintRefuses(t *testing.T) {
	s, params := modeltest.Tiny("llama", modeltest.Options{})
	delete(params, "norm")
	if _, err := Footprint(s, tinyLimits(s, 1), Config{}, params); err == nil || !strings.Contains(err.Error(), `"norm"`) {
		t.Errorf("got %v, want an error about the missing norm", err)
	}
}

func TestNewRefuses(t *testing.T) {
	s, _ := modeltest.Tiny("gpt-oss", modeltest.Options{})
	for name, change := range map[string]func(*model.Limits, *Config){
		"rows":            func(l *model.Limits, _ *Config) { l.MaxSeqs = 0 },
		"tokens":          func(l *model.Limits, _ *Config) { l.MaxTokens = 0 },
		"length":          func(l *model.Limits, _ *Config) { l.MaxLen = -1 },
		"block":           func(l *model.Limits, _ *Config) { l.BlockSize = 0 },
		"depth":           func(l *model.Limits, _ *Config) { l.Depth = -1 },
		"pools":           func(l *model.Limits, _ *Config) { l.Blocks = l.Blocks[:1] },
		"empty pool":      func(l *model.Limits, _ *Config) { l.Blocks[1] = 0 },
		"pool beyond all": func(l *model.Limits, _ *Config) { l.Blocks[1] = math.MaxInt },
		"instruction set": func(_ *model.Limits, c *Config) { c.ISA = "mmx" },
		"threads":         func(_ *model.Limits, c *Config) { c.Threads = -1 },
		"activations":     func(_ *model.Limits, c *Config) { c.Activations = 4 },
		"cache type":      func(_ *model.Limits, c *Config) { c.KV = tensor.Q8_0 },
	} {
		lim, cfg := tinyLimits(s, 1), Config{}
		change(&lim, &cfg)
		if _, err := New(s, lim, cfg); err == nil {
			t.Errorf("%s: accepted %+v, %+v", name, lim, cfg)
		}
	}
}

func TestBandwidth(t *testing.T) {
	got, err := Bandwidth(t.Context(), 0)
	if err != nil || !(got > 0) || got > 1e13 {
		t.Errorf("%.3g bytes/s, %v", got, err)
	}
	t.Logf("%.1f GB/s", got/1e9)
}

// TestRunner applies the suite of whole runners to every family, instruction set, number of
// threads, depth and type of keys and values, not to every combination of them: with every change a
// family runs on one vector level, the first on the best, whose bits are those of the others
// (TestSameOnVectorLevels), for a release on all. Portable Go, forty times slower, runs one family,
// with a quarter of the schedules and every other request. TestDevice has others.
func TestRunner(t *testing.T) {
	n, pairs := 0, soak.Cases(t, 0, 1) > 0
	for i, family := range modeltest.Families() {
		s, params := modeltest.Tiny(family, tiny()[family])
		windows, _ := s.Groups()
		all := fastLevels()
		vectors := slices.DeleteFunc(slices.Clone(all), func(isa string) bool { return isa == "go" })
		for _, isa := range all {
			if isa == "go" && family != "llama" || isa != "go" && !pairs && isa != vectors[len(vectors)-1-i%len(vectors)] {
				continue
			}
			cfg, depth := Config{Threads: 1 + n%4, ISA: isa, KV: [...]tensor.DType{tensor.BF16, tensor.F8_E4M3}[n%2]}, 1+n%3
			n++
			t.Run(fmt.Sprintf("%s/%s/%v/threads=%d/depth=%d", family, isa, cfg.KV, cfg.Threads, depth), func(t *testing.T) {
				run := runnertest.Run
				if isa == "go" && len(all) > 1 {
					run = runnertest.Scale{Schedules: 50, Soak: 10_000, Every: 2, Guesses: 15}.Run
				}
				if os.Getenv("EMULATED") != "" { // _tools/arm64.sh: a tenth of the speed
					run = runnertest.Scale{Schedules: 20, Soak: 10_000, Every: 8}.Run
				}
				run(t, func(t *testing.T, c runnertest.Config) runner.Runner {
					lim := model.Limits{MaxSeqs: c.MaxSeqs, MaxTokens: c.MaxTokens, MaxLen: c.MaxLen, BlockSize: c.BlockSize, Depth: depth, Lookahead: c.Lookahead}
					for range windows {
						lim.Blocks = append(lim.Blocks, c.Blocks)
					}
					d, err := New(s, lim, cfg)
					if err != nil {
						t.Fatal(err)
					}
					r, err := model.NewDecoder(s, params, d, lim, nil)
					if err != nil {
						t.Fatal(err)
					}
					return r
				})
			})
		}
	}
}
