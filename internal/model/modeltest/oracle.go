package modeltest

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"ossian/internal/model"
	"ossian/internal/tensor"
)

// An Oracle computes a model in float64, one token after another, as
// models.md 1.2, 2.2 and 3 read: no batches, blocks, caches of rounded values or
// shared code with a device. Each tensor is decoded when it is first used and
// kept as float32, which is exact. It is used by one goroutine.
type Oracle struct {
	spec   *model.Spec
	params map[string]tensor.Tensor
	values map[string][]float32
}

// NewOracle reports the first parameter that s needs and params lacks.
func NewOracle(s *model.Spec, params map[string]tensor.Tensor) (*Oracle, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("model %s: %w", s.Name, err)
	}
	if err := model.CheckParams(s, params); err != nil {
		return nil, err
	}
	return &Oracle{spec: s, params: params, values: make(map[string][]float32)}, nil
}

// A State is one sequence: what attention remembers, and what the last Step saw.
type State struct {
	o       *Oracle
	inv     []float64     // [HeadDim/2] angle per position
	factor  float64       // on cos and sin
	k, v    [][][]float64 // [layer][position][KVDim], k rotated
	Hidden  [][]float64   // [layer][Hidden] residual stream after the layer
	Experts [][]int       // [layer] chosen experts, ascending; nil where dense
}

// Start returns an empty sequence.
func (o *Oracle) Start() *State {
	st := &State{o: o, k: make([][][]float64, o.spec.Layers), v: make([][][]float64, o.spec.Layers),
		Hidden: make([][]float64, o.spec.Layers), Experts: make([][]int, o.spec.Layers)}
	st.inv, st.factor = model.Frequencies(o.spec.RoPE, o.spec.HeadDim)
	return st
}

// Logits returns the logits after every token, [tokens][vocab].
func (o *Oracle) Logits(tokens []int32) [][]float64 {
	st := o.Start()
	logits := make([][]float64, len(tokens))
	for i, id := range tokens {
		logits[i] = st.Step(id)
	}
	return logits
}

// Step appends a token, which must be in the vocabulary, and returns the logits
// of the one after it, [vocab].
func (st *State) Step(id int32) []float64 {
	o, s := st.o, st.o.spec
	x := o.row("embed", int(id), s.Hidden)
	for l := range s.Layers {
		prefix := "layers." + strconv.Itoa(l) + "."
		add(x, st.attention(l, prefix, o.norm(x, prefix+"attn_norm")))
		add(x, st.feedForward(l, prefix, o.norm(x, prefix+"ffn_norm")))
		st.Hidden[l] = slices.Clone(x)
	}
	head := "head"
	if s.Tied {
		head = "embed"
	}
	return o.linear(head, "", 0, s.Vocab, o.norm(x, "norm"))
}

func (st *State) attention(l int, prefix string, t []float64) []float64 {
	o, s := st.o, st.o.spec
	q := o.linear(prefix+"q", prefix+"q_bias", 0, s.QDim(), t)
	k := o.linear(prefix+"k", prefix+"k_bias", 0, s.KVDim(), t)
	v := o.linear(prefix+"v", prefix+"v_bias", 0, s.KVDim(), t)
	p := len(st.k[l])
	st.rotate(q, p, prefix+"q_norm")
	st.rotate(k, p, prefix+"k_norm")
	st.k[l], st.v[l] = append(st.k[l], k), append(st.v[l], v)
	first := 0
	if w := s.Windows[l]; w > 0 {
		first = max(p-w+1, 0)
	}
	out := make([]float64, s.QDim())
	for h := range s.Heads {
		kv := h / (s.Heads / s.KVHeads) * s.HeadDim
		qh, oh := q[h*s.HeadDim:][:s.HeadDim], out[h*s.HeadDim:][:s.HeadDim]
		scores := make([]float64, 0, p-first+2)
		for j := first; j <= p; j++ {
			scores = append(scores, dot(qh, st.k[l][j][kv:][:s.HeadDim])/math.Sqrt(float64(s.HeadDim)))
		}
		if s.Sinks { // one more key, without a value
			scores = append(scores, float64(o.decoded(prefix + "sinks")[h]))
		}
		softmax(scores)
		for j := first; j <= p; j++ {
			for i := range oh {
				oh[i] += scores[j-first] * st.v[l][j][kv+i]
			}
		}
	}
	return o.linear(prefix+"o", prefix+"o_bias", 0, s.Hidden, out)
}

// rotate applies the norm of that name, if the model has it, and RoPE to each head.
func (st *State) rotate(x []float64, position int, norm string) {
	n := st.o.spec.HeadDim
	for ; len(x) > 0; x = x[n:] {
		head := x[:n]
		if _, ok := st.o.params[norm]; ok {
			copy(head, st.o.norm(head, norm))
		}
		for i, inv := range st.inv {
			sin, cos := math.Sincos(float64(position) * inv)
			a, b := head[i], head[i+n/2]
			head[i] = (a*cos - b*sin) * st.factor
			head[i+n/2] = (b*cos + a*sin) * st.factor
		}
	}
}

func (st *State) feedForward(l int, prefix string, t []float64) []float64 {
	o, f := st.o, &st.o.spec.FFN
	if f.IsDense(l) {
		inner := f.Inner
		if f.Experts > 0 {
			inner = f.DenseInner
		}
		return o.expert(prefix, 0, inner, t)
	}
	chosen, weights := route(o.linear(prefix+"router", prefix+"router_bias", 0, f.Experts, t), f.TopK, f.Renorm)
	st.Experts[l] = chosen
	y := make([]float64, o.spec.Hidden)
	for i, e := range chosen {
		for j, v := range o.expert(prefix, e, f.Inner, t) {
			y[j] += weights[i] * v
		}
	}
	return y
}

// route returns the topK largest logits' indexes, ascending, ties to the lowest,
// and their weights: softmax over all, or with renorm over the chosen only.
func route(logits []float64, topK int, renorm bool) (chosen []int, weights []float64) {
	order := make([]int, len(logits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return 0
	})
	chosen = order[:topK]
	slices.Sort(chosen)
	softmax(logits)
	sum := 0.0
	for _, e := range chosen {
		weights = append(weights, logits[e])
		sum += logits[e]
	}
	if renorm {
		for i := range weights {
			weights[i] /= sum
		}
	}
	return chosen, weights
}

// expert is matrix e of the layer's feed-forward part; dense layers have one.
func (o *Oracle) expert(prefix string, e, inner int, t []float64) []float64 {
	u := o.linear(prefix+"up", prefix+"up_bias", e, 2*inner, t)
	a := make([]float64, inner)
	for i := range a {
		gate, up := u[2*i], u[2*i+1]
		switch o.spec.FFN.Activation {
		case model.SiLU:
			a[i] = gate / (1 + math.Exp(-gate)) * up
		case model.SwiGLU:
			gate, up = min(gate, 7), min(max(up, -7), 7)
			a[i] = gate / (1 + math.Exp(-1.702*gate)) * (up + 1)
		}
	}
	return o.linear(prefix+"down", prefix+"down_bias", e, o.spec.Hidden, a)
}

// linear returns W·x + b with matrix n of the named tensor, which has out rows;
// b is added if the model has it.
func (o *Oracle) linear(name, bias string, n, out int, x []float64) []float64 {
	w := o.decoded(name)[n*out*len(x):]
	y := make([]float64, out)
	for i := range y {
		sum := 0.0
		for j, v := range w[i*len(x):][:len(x)] {
			sum += float64(v) * x[j]
		}
		y[i] = sum
	}
	if _, ok := o.params[bias]; ok {
		add(y, o.row(bias, n, out))
	}
	return y
}

func (o *Oracle) norm(x []float64, name string) []float64 {
	rms := math.Sqrt(dot(x, x)/float64(len(x)) + float64(o.spec.Eps))
	y := o.row(name, 0, len(x))
	for i, v := range x {
		y[i] *= v / rms
	}
	return y
}

// row returns numbers n·width to (n+1)·width of a parameter.
func (o *Oracle) row(name string, n, width int) []float64 {
	y := make([]float64, width)
	for i, v := range o.decoded(name)[n*width:][:width] {
		y[i] = float64(v)
	}
	return y
}

func (o *Oracle) decoded(name string) []float32 {
	v, ok := o.values[name]
	if !ok {
		t := o.params[name]
		cols := t.Cols()
		v = make([]float32, t.Elems())
		for i := range t.Rows() {
			t.Row(i).Floats(v[i*cols:][:cols])
		}
		o.values[name] = v
	}
	return v
}

func add(x, y []float64) {
	for i, v := range y {
		x[i] += v
	}
}

func dot(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func softmax(x []float64) {
	top, sum := slices.Max(x), 0.0
	for i, v := range x {
		x[i] = math.Exp(v - top)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}
