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
	oracle, spec := st.o, st.o.spec
	hidden := oracle.row("embed", int(id), spec.Hidden)
	for layer := range spec.Layers {
		prefix := "layers." + strconv.Itoa(layer) + "."
		add(hidden, st.attention(layer, prefix, oracle.norm(hidden, prefix+"attn_norm")))
		add(hidden, st.feedForward(layer, prefix, oracle.norm(hidden, prefix+"ffn_norm")))
		st.Hidden[layer] = slices.Clone(hidden)
	}
	head := "head"
	if spec.Tied {
		head = "embed"
	}
	return oracle.linear(head, "", 0, spec.Vocab, oracle.norm(hidden, "norm"))
}

// attention appends a token's key and value and returns what the layer adds for it.
func (st *State) attention(layer int, prefix string, normed []float64) []float64 {
	oracle, spec := st.o, st.o.spec
	query := oracle.linear(prefix+"q", prefix+"q_bias", 0, spec.QDim(), normed)
	key := oracle.linear(prefix+"k", prefix+"k_bias", 0, spec.KVDim(), normed)
	value := oracle.linear(prefix+"v", prefix+"v_bias", 0, spec.KVDim(), normed)
	pos := len(st.k[layer])
	st.rotate(query, pos, prefix+"q_norm")
	st.rotate(key, pos, prefix+"k_norm")
	st.k[layer], st.v[layer] = append(st.k[layer], key), append(st.v[layer], value)
	first := 0
	if w := spec.Windows[layer]; w > 0 {
		first = max(pos-w+1, 0)
	}
	out := make([]float64, spec.QDim())
	for head := range spec.Heads {
		kv := head / (spec.Heads / spec.KVHeads) * spec.HeadDim
		qh, oh := query[head*spec.HeadDim:][:spec.HeadDim], out[head*spec.HeadDim:][:spec.HeadDim]
		scores := make([]float64, 0, pos-first+2)
		for seen := first; seen <= pos; seen++ {
			scores = append(scores, dot(qh, st.k[layer][seen][kv:][:spec.HeadDim])/math.Sqrt(float64(spec.HeadDim)))
		}
		if spec.Sinks { // one more key, without a value
			scores = append(scores, float64(oracle.decoded(prefix + "sinks")[head]))
		}
		softmax(scores)
		for seen := first; seen <= pos; seen++ {
			for i := range oh {
				oh[i] += scores[seen-first] * st.v[layer][seen][kv+i]
			}
		}
	}
	return oracle.linear(prefix+"o", prefix+"o_bias", 0, spec.Hidden, out)
}

// rotate applies the norm of that name, if the model has it, and RoPE to each head.
func (st *State) rotate(x []float64, position int, norm string) {
	dim := st.o.spec.HeadDim
	for ; len(x) > 0; x = x[dim:] {
		head := x[:dim]
		if _, ok := st.o.params[norm]; ok {
			copy(head, st.o.norm(head, norm))
		}
		for i, inv := range st.inv {
			sin, cos := math.Sincos(float64(position) * inv)
			a, b := head[i], head[i+dim/2]
			head[i] = (a*cos - b*sin) * st.factor
			head[i+dim/2] = (b*cos + a*sin) * st.factor
		}
	}
}

// feedForward returns what the layer's dense part, or its chosen experts, add for a token.
func (st *State) feedForward(layer int, prefix string, normed []float64) []float64 {
	oracle, ffn := st.o, &st.o.spec.FFN
	if ffn.IsDense(layer) {
		inner := ffn.Inner
		if ffn.Experts > 0 {
			inner = ffn.DenseInner
		}
		return oracle.expert(prefix, 0, inner, normed)
	}
	chosen, weights := route(oracle.linear(prefix+"router", prefix+"router_bias", 0, ffn.Experts, normed), ffn.TopK, ffn.Renorm)
	st.Experts[layer] = chosen
	sum := make([]float64, oracle.spec.Hidden)
	for i, expert := range chosen {
		for j, v := range oracle.expert(prefix, expert, ffn.Inner, normed) {
			sum[j] += weights[i] * v
		}
	}
	return sum
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
	// Softmax over all and the share of the chosen in it is softmax over the chosen.
	chosen = order[:topK]
	slices.Sort(chosen)
	softmax(logits)
	sum := 0.0
	for _, expert := range chosen {
		weights = append(weights, logits[expert])
		sum += logits[expert]
	}
	if renorm {
		for i := range weights {
			weights[i] /= sum
		}
	}
	return chosen, weights
}

// expert is matrix e of the layer's feed-forward part; dense layers have one.
func (o *Oracle) expert(prefix string, e, inner int, normed []float64) []float64 {
	gateUp := o.linear(prefix+"up", prefix+"up_bias", e, 2*inner, normed)
	activated := make([]float64, inner)
	for i := range activated {
		gate, up := gateUp[2*i], gateUp[2*i+1]
		switch o.spec.FFN.Activation {
		case model.SiLU:
			activated[i] = gate / (1 + math.Exp(-gate)) * up
		case model.SwiGLU:
			gate, up = min(gate, 7), min(max(up, -7), 7)
			activated[i] = gate / (1 + math.Exp(-1.702*gate)) * (up + 1)
		}
	}
	return o.linear(prefix+"down", prefix+"down_bias", e, o.spec.Hidden, activated)
}

// linear returns W·x + b with matrix n of the named tensor, which has out rows;
// b is added if the model has it.
func (o *Oracle) linear(name, bias string, n, out int, x []float64) []float64 {
	weights := o.decoded(name)[n*out*len(x):]
	product := make([]float64, out)
	for i := range product {
		sum := 0.0
		for j, v := range weights[i*len(x):][:len(x)] {
			sum += float64(v) * x[j]
		}
		product[i] = sum
	}
	if _, ok := o.params[bias]; ok {
		add(product, o.row(bias, n, out))
	}
	return product
}

// norm is the RMS norm of x with the named weights.
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

// decoded returns the values of a parameter, which are kept.
func (o *Oracle) decoded(name string) []float32 {
	values, ok := o.values[name]
	if !ok {
		param := o.params[name]
		cols := param.Cols()
		values = make([]float32, param.Elems())
		for i := range param.Rows() {
			param.Row(i).Floats(values[i*cols:][:cols])
		}
		o.values[name] = values
	}
	return values
}

// add adds y to x.
func add(x, y []float64) {
	for i, v := range y {
		x[i] += v
	}
}

// dot returns Σ a·b.
func dot(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// softmax replaces x by its softmax.
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
