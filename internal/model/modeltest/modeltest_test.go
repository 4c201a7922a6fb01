package modeltest

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/tensor"
)

func TestTiny(t *testing.T) {
	for _, family := range Families() {
		for _, o := range []Options{{}, {Tied: true, Llama3: true, Dense: true, NoRenorm: true}, {Matrix: tensor.BF16, Experts: tensor.MXFP4},
			{Matrix: tensor.Q8_0}, {Matrix: tensor.Q4_K}, {Matrix: tensor.Q6_K, Experts: tensor.MXFP4HF}} {
			s, params := Tiny(family, o)
			if err := s.Validate(); err != nil {
				t.Errorf("%s %+v: %v", family, o, err)
			}
			if err := model.CheckParams(s, params); err != nil {
				t.Errorf("%s %+v: %v", family, o, err)
			}
			oracle, err := NewOracle(s, params)
			if err != nil {
				t.Fatal(err)
			}
			st := oracle.Start()
			for p := range int32(6) {
				logits := st.Step(p * 7)
				sane(t, "logits", logits, 100)
				for _, x := range st.Hidden {
					sane(t, "residual stream", x, 100)
				}
			}
		}
	}
}

func sane(t *testing.T, name string, x []float64, limit float64) {
	t.Helper()
	squares := 0.0
	for _, v := range x {
		if !(math.Abs(v) < limit) {
			t.Fatalf("%s reaches %v, want below %v", name, v, limit)
		}
		squares += v * v
	}
	if rms := math.Sqrt(squares / float64(len(x))); rms < 0.05 {
		t.Fatalf("%s has a mean size of %v: nothing to tell apart", name, rms)
	}
}

func TestTinyDependsOnSeedAndName(t *testing.T) {
	_, a := Tiny("gpt-oss", Options{})
	_, b := Tiny("gpt-oss", Options{})
	_, c := Tiny("gpt-oss", Options{Seed: 1})
	for name := range a {
		if !slices.Equal(a[name].Data, b[name].Data) {
			t.Errorf("%s differs between two calls", name)
		}
		if slices.Equal(a[name].Data, c[name].Data) {
			t.Errorf("%s does not depend on the seed", name)
		}
	}
	if slices.Equal(a["layers.0.q"].Data, a["layers.1.q"].Data) {
		t.Error("layers are equal")
	}
	_, d := Tiny("gpt-oss", Options{Experts: tensor.MXFP4})
	hf, gguf := a["layers.0.up"], d["layers.0.up"]
	x, y := make([]float32, hf.Cols()), make([]float32, hf.Cols())
	hf.Row(5).Floats(x)
	gguf.Row(5).Floats(y)
	if !slices.Equal(x, y) {
		t.Error("the two nibble orders of MXFP4 hold different values")
	}
}

// small is a model of one layer, hidden size 2, one head of 2, three ids, whose
// parameters are 0, or 1 for norms, unless given.
func small(t *testing.T, change func(*model.Spec), values map[string][]float32) *Oracle {
	t.Helper()
	s := &model.Spec{Family: "llama", Name: "small", Layers: 1, Hidden: 2, Vocab: 3, Heads: 1, KVHeads: 1, HeadDim: 2, MaxLen: 9,
		RoPE: model.RoPE{Base: 10000}, Windows: []int{0}, FFN: model.FFN{Inner: 1}}
	if change != nil {
		change(s)
	}
	params := make(map[string]tensor.Tensor)
	for _, p := range model.Params(s) {
		n := 1
		for _, d := range p.Shape {
			n *= d
		}
		v := make([]float32, n)
		if strings.HasSuffix(p.Name, "norm") {
			for i := range v {
				v[i] = 1
			}
		}
		if given, ok := values[p.Name]; ok {
			if len(given) != n {
				t.Fatalf("%s: %d values, want %d", p.Name, len(given), n)
			}
			v = given
		}
		params[p.Name] = Encode(p.Name, tensor.F32, p.Shape, v)
	}
	o, err := NewOracle(s, params)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func equal(t *testing.T, what string, got []float64, want ...float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-6 {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
	}
}

var (
	identity = []float32{1, 0, 0, 1}
	embed    = []float32{3, 4, 1, 0, 0, 2}
)

func TestOracleEmptyLayer(t *testing.T) {
	rms := math.Sqrt(12.5) // of (3, 4)
	o := small(t, nil, map[string][]float32{"embed": embed, "norm": {1, 2}, "head": {1, 0, 0, 1, 1, 1}})
	equal(t, "logits", o.Start().Step(0), 3/rms, 8/rms, 11/rms)
	tied := small(t, func(s *model.Spec) { s.Tied = true }, map[string][]float32{"embed": embed})
	equal(t, "tied logits", tied.Start().Step(0), 25/rms, 3/rms, 8/rms)
}

// With q = 0 all scores are 0: attention is the mean of what is visible.
func TestOracleAttentionMean(t *testing.T) {
	tests := []struct {
		name   string
		change func(*model.Spec)
		values map[string][]float32
		want   []float64 // residual stream after ids 0, 1, 2, 2
	}{
		// Normalised values: (3,4)/3.5355 = (.848528, 1.131371), (√2, 0), (0, √2), (0, √2).
		{"full", nil, nil, []float64{(0.848528 + math.Sqrt2) / 4, 2 + (1.131371+2*math.Sqrt2)/4}},
		{"window", func(s *model.Spec) { s.Windows = []int{3} }, nil, []float64{math.Sqrt2 / 3, 2 + 2*math.Sqrt2/3}},
		{"window of one", func(s *model.Spec) { s.Windows = []int{1} }, nil, []float64{0, 2 + math.Sqrt2}},
		{"sink", func(s *model.Spec) { s.Windows, s.Sinks = []int{1}, true }, map[string][]float32{"layers.0.sinks": {float32(math.Log(3))}},
			[]float64{0, 2 + math.Sqrt2/4}},
		{"output bias", func(s *model.Spec) { s.Windows, s.OBias = []int{1}, true }, map[string][]float32{"layers.0.o_bias": {7, 8}}, []float64{7, 10 + math.Sqrt2}},
		{"value bias", func(s *model.Spec) { s.QKVBias = true }, map[string][]float32{"layers.0.v_bias": {1, 1}, "layers.0.v": {0, 0, 0, 0}}, []float64{1, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			values := map[string][]float32{"embed": embed, "layers.0.v": identity, "layers.0.o": identity}
			for k, v := range tt.values {
				values[k] = v
			}
			st := small(t, tt.change, values).Start()
			for _, id := range []int32{0, 1, 2, 2} {
				st.Step(id)
			}
			equal(t, "residual stream", st.Hidden[0], tt.want...)
		})
	}
}

// Two tokens with normalised embedding (√2, 0): the second one's query turned by 1
// radian against the first key scores 2·cos(1)/√2, against its own 2/√2.
func TestOracleRotation(t *testing.T) {
	st := small(t, func(s *model.Spec) { s.Sinks = true }, map[string][]float32{"embed": embed, "layers.0.q": identity, "layers.0.k": identity,
		"layers.0.v": identity, "layers.0.o": identity, "layers.0.sinks": {0.5}}).Start()
	st.Step(1)
	st.Step(1)
	a, b, sink := math.Exp(2*math.Cos(1)/math.Sqrt2), math.Exp(2/math.Sqrt2), math.Exp(0.5)
	equal(t, "residual stream", st.Hidden[0], 1+math.Sqrt2*(a+b)/(a+b+sink), 0)

	x := []float64{1, 2}
	st.rotate(x, 3, "layers.0.q_norm") // which this model lacks
	equal(t, "rotated", x, math.Cos(3)-2*math.Sin(3), 2*math.Cos(3)+math.Sin(3))

	yarn := small(t, func(s *model.Spec) {
		s.RoPE = model.RoPE{Base: 150000, Scaling: model.ScalingYaRN, Factor: 32, Original: 4096, BetaFast: 32, BetaSlow: 1}
	}, nil).Start()
	x = []float64{1, 0}
	yarn.rotate(x, 0, "")
	equal(t, "yarn factor", x, 1.3465735902799727, 0)

	normed := small(t, func(s *model.Spec) { s.QKNorm = true }, map[string][]float32{"layers.0.q_norm": {2, 1}}).Start()
	x = []float64{3, 4}
	normed.rotate(x, 0, "layers.0.q_norm")
	equal(t, "q norm", x, 6/math.Sqrt(12.5), 4/math.Sqrt(12.5))
}

func TestOracleHeads(t *testing.T) { // heads 0, 1 read kv head 0, heads 2, 3 kv head 1
	st := small(t, func(s *model.Spec) { s.Heads, s.KVHeads = 4, 2 }, map[string][]float32{"embed": embed,
		"layers.0.v": {1, 0, 0, 0, 2, 0, 0, 0}, "layers.0.o": {1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0}}).Start()
	st.Step(1)
	equal(t, "residual stream", st.Hidden[0], 1+2*math.Sqrt2, 4*math.Sqrt2)
}

func TestOracleFeedForward(t *testing.T) {
	silu := func(g float64) float64 { return g / (1 + math.Exp(-g)) }
	gptoss := func(s *model.Spec) { s.FFN.Activation, s.FFN.Bias = model.SwiGLU, true }
	tests := []struct {
		name   string
		change func(*model.Spec)
		up     []float32 // gate row, up row; input is (√2, 0)
		bias   []float32
		want   float64 // added to the first hidden number
	}{
		{"silu", nil, []float32{1, 0, 2, 0}, nil, silu(math.Sqrt2) * 2 * math.Sqrt2},
		{"swiglu", gptoss, []float32{1, 0, 2, 0}, []float32{0, 0}, math.Sqrt2 / (1 + math.Exp(-1.702*math.Sqrt2)) * (2*math.Sqrt2 + 1)},
		{"gate clamped above", gptoss, []float32{9, 0, 0, 0}, []float32{0, 0}, 7 / (1 + math.Exp(-1.702*7))},
		{"gate not clamped below", gptoss, []float32{-9, 0, 0, 0}, []float32{0, 1}, -9 * math.Sqrt2 / (1 + math.Exp(1.702*9*math.Sqrt2)) * 2},
		{"up clamped above", gptoss, []float32{1, 0, 9, 0}, []float32{0, 0}, math.Sqrt2 / (1 + math.Exp(-1.702*math.Sqrt2)) * 8},
		{"up clamped below, with bias", gptoss, []float32{0, 0, -9, 0}, []float32{1, -9}, 1 / (1 + math.Exp(-1.702)) * -6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			values := map[string][]float32{"embed": embed, "layers.0.up": tt.up, "layers.0.down": {1, 0}}
			if tt.bias != nil {
				values["layers.0.up_bias"], values["layers.0.down_bias"] = tt.bias, []float32{0, 5}
			}
			st := small(t, tt.change, values).Start()
			st.Step(1)
			second := 0.0
			if tt.bias != nil {
				second = 5
			}
			equal(t, "residual stream", st.Hidden[0], 1+tt.want, second)
		})
	}
}

func TestOracleExperts(t *testing.T) {
	// Expert e adds its down bias (e+1, 0); the router's biases are its logits.
	for _, tt := range []struct {
		name   string
		renorm bool
		want   float64
	}{{"renormalised", true, (2*2 + 1*3) / 3.0}, {"softmax over all", false, (2*2 + 1*3) / 4.0}} {
		st := small(t, func(s *model.Spec) {
			s.FFN.Experts, s.FFN.TopK, s.FFN.Bias, s.FFN.Renorm = 4, 2, true, tt.renorm
		}, map[string][]float32{"embed": embed, "layers.0.router_bias": {float32(math.Log(0.5)), float32(math.Log(2)), 0, float32(math.Log(0.5))},
			"layers.0.down_bias": {1, 0, 2, 0, 3, 0, 4, 0}}).Start()
		st.Step(1)
		equal(t, tt.name, st.Hidden[0], 1+tt.want, 0)
		if !slices.Equal(st.Experts[0], []int{1, 2}) {
			t.Errorf("%s: experts %v, want [1 2]", tt.name, st.Experts[0])
		}
	}
	chosen, weights := route([]float64{1, 5, 5, 5}, 2, true)
	if !slices.Equal(chosen, []int{1, 2}) {
		t.Errorf("tied experts %v, want [1 2]", chosen)
	}
	equal(t, "tied weights", weights, 0.5, 0.5)
}

func TestOracleRefuses(t *testing.T) {
	s, params := Tiny("llama", Options{})
	delete(params, "norm")
	if _, err := NewOracle(s, params); err == nil || !strings.Contains(err.Error(), `"norm" is missing`) {
		t.Errorf("got error %v, want one about the missing norm", err)
	}
	s.Heads = 3
	if _, err := NewOracle(s, params); err == nil {
		t.Error("an invalid spec is accepted")
	}
}

func TestCompare(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	row := func() []float64 {
		x := make([]float64, 50)
		for i := range x {
			x[i] = rng.NormFloat64() * 3
		}
		return x
	}
	want := [][]float64{row(), row(), row(), row()}
	changed := func(f func(r, i int, v float64) float64) [][]float64 {
		got := make([][]float64, len(want))
		for r := range want {
			for i, v := range want[r] {
				got[r] = append(got[r], f(r, i, v))
			}
		}
		return got
	}
	best := func(r int) int { return slices.Index(want[r], slices.Max(want[r])) }
	tests := []struct {
		name      string
		got       [][]float64
		tolerance Tolerance
		ok        bool
	}{
		{"equal", want, Float32(), true},
		{"shifted rows", changed(func(r, _ int, v float64) float64 { return v + float64(r) }), Float32(), true},
		{"a little off", changed(func(_, i int, v float64) float64 { return v + 1e-4*float64(i%3) }), Float32(), true},
		{"one logit off", changed(func(r, i int, v float64) float64 {
			if r == 2 && i == 7 {
				return v + 0.01
			}
			return v
		}), Float32(), false},
		{"flatter", changed(func(_, _ int, v float64) float64 { return v * 0.99 }), Int8(), true},
		{"much flatter", changed(func(_, _ int, v float64) float64 { return v * 0.7 }), Int8(), false},
		{"another favourite", changed(func(r, i int, v float64) float64 {
			if r == 1 && i == best(1) {
				return v - 5
			}
			return v
		}), Tolerance{Argmax: 0.97}, false},
		{"not a number", changed(func(int, int, float64) float64 { return math.NaN() }), Float32(), false},
		{"not a number, int8", changed(func(int, int, float64) float64 { return math.NaN() }), Int8(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Compare(tt.got, want)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Check(tt.tolerance); (err == nil) != tt.ok {
				t.Errorf("%+v: error %v, want ok = %v", d, err, tt.ok)
			}
		})
	}
	d, err := Compare([][]float64{nil, want[1]}, want[:2])
	if err != nil || d.Rows != 1 {
		t.Errorf("with a missing row: %+v, %v", d, err)
	}
	for _, bad := range [][][]float64{nil, {nil, nil, nil, nil}, {{1}, nil, nil, nil}} {
		if _, err := Compare(bad, want); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

// An oracleRunner is a runner for one sequence in slot 0 that asks the oracle.
type oracleRunner struct {
	o       *Oracle
	st      *State
	results []*runner.Result
}

func (r *oracleRunner) Info() runner.Info {
	return runner.Info{Vocab: r.o.spec.Vocab, BlockSize: 4, Groups: []runner.Group{{Blocks: 16}}, MaxSeqs: 1, MaxTokens: 64, MaxLen: 64, Depth: 1}
}

func (r *oracleRunner) Launch(b *runner.Batch) error {
	if b.Rows[0].Start == 0 {
		r.st = r.o.Start()
	}
	var logits []float32
	for _, id := range b.Tokens {
		logits = logits[:0]
		for _, v := range r.st.Step(id) {
			logits = append(logits, float32(v))
		}
	}
	p := b.Rows[0].Params
	r.results = append(r.results, &runner.Result{Logprobs: [][]sample.Logprob{sample.Logprobs(logits, 0, p.TopLogprobs)}})
	return nil
}

func (r *oracleRunner) Collect() (*runner.Result, error) {
	res := r.results[0]
	r.results = r.results[1:]
	return res, nil
}

func (r *oracleRunner) Close() error { return nil }

func TestDistributions(t *testing.T) {
	o, err := NewOracle(Tiny("qwen3", Options{}))
	if err != nil {
		t.Fatal(err)
	}
	tokens := []int32{5, 17, 190, 3, 3, 88, 41}
	want := o.Logits(tokens)
	for chunk, rows := range map[int]int{1: 7, 3: 3, 7: 1, 64: 1} {
		got, err := Distributions(&oracleRunner{o: o}, tokens, chunk)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Compare(got, want)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check(Float32()); err != nil || d.Rows != rows {
			t.Errorf("chunk %d: %+v, error %v, want %d rows within float32", chunk, d, err, rows)
		}
	}
	if _, err := Distributions(&oracleRunner{o: o}, make([]int32, 65), 8); err == nil {
		t.Error("a sequence longer than the pool is accepted")
	}
}
