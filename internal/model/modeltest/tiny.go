package modeltest

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"ossian/internal/model"
	"ossian/internal/tensor"
)

// Options vary a tiny model. The zero value is the family's usual form in F32.
type Options struct {
	Seed     uint64
	Matrix   tensor.DType // embedding, projections, output; 0 = F32
	Experts  tensor.DType // matrices of experts; 0 = MXFP4HF for gpt-oss, else Matrix
	Up       tensor.DType // up projections, where gate projections are of the type of the others; 0 = that
	Vocab    int          // 0 = 199
	Window   int          // gpt-oss: tokens; 0 = 8
	Tied     bool         // the output projection is the embedding
	Llama3   bool         // llama: Llama 3 frequencies, stretched beyond 32 tokens
	Dense    bool         // qwen3moe: layer 0 has no experts
	NoRenorm bool         // qwen3moe: weights of the chosen experts do not sum to 1
	Small    bool         // as few layers, rows and experts as show what a family does, for devices that are slow
}

// Families lists what Tiny makes.
func Families() []string { return []string{"gpt-oss", "qwen3", "qwen3moe", "llama"} }

// Tiny returns a random model of that family. Sizes are odd where formats allow:
// heads·dim differs from the hidden size, the vocabulary is prime. Parameters are
// scaled so that activations stay within a few units, scores, routers and logits
// are decisive, and the clamps of gpt-oss are hit at times. A parameter depends on the seed,
// its name and its shape only. It panics on an unknown family.
func Tiny(family string, o Options) (*model.Spec, map[string]tensor.Tensor) {
	o.defaults(family)
	made := spec(family, o)
	params := make(map[string]tensor.Tensor)
	for _, param := range model.Params(made) {
		params[param.Name] = parameter(made, param, o)
	}
	return made, params
}

// defaults fills in what zero fields stand for.
func (o *Options) defaults(family string) {
	if o.Matrix == tensor.Invalid {
		o.Matrix = tensor.F32
	}
	if o.Experts == tensor.Invalid {
		o.Experts = o.Matrix
		if family == "gpt-oss" {
			o.Experts = tensor.MXFP4HF
		}
	}
	if o.Vocab == 0 {
		o.Vocab = 199
	}
	if o.Window == 0 {
		o.Window = 8
	}
}

// spec returns the Spec of a family.
func spec(family string, options Options) *model.Spec {
	made := &model.Spec{
		Family: family, Name: "tiny " + family, Layers: 2, Hidden: 96, Vocab: options.Vocab,
		Heads: 4, KVHeads: 2, HeadDim: 16, MaxLen: 512, Eps: 1e-5, Tied: options.Tied,
		RoPE: model.RoPE{Base: 10000}, FFN: model.FFN{Inner: 160},
	}
	matrix, _ := options.Matrix.Block()
	experts, _ := options.Experts.Block()
	up, _ := options.Up.Block()
	if max(matrix, experts, up) > 32 { // rows must be whole blocks of the K types
		made.Hidden, made.HeadDim, made.FFN.Inner = 256, 64, 512
	}
	switch family {
	case "gpt-oss":
		made.Layers = 4
		made.Windows = []int{options.Window, 0, options.Window, 0}
		made.QKVBias, made.OBias, made.Sinks = true, true, true
		made.RoPE = model.RoPE{Base: 150000, Scaling: model.ScalingYaRN, Factor: 32, Original: 4096, BetaFast: 32, BetaSlow: 1}
		made.FFN.Experts, made.FFN.TopK, made.FFN.Renorm, made.FFN.Bias, made.FFN.Activation = 8, 4, true, true, model.SwiGLU
	case "qwen3":
		made.QKNorm, made.Eps = true, 1e-6
	case "qwen3moe":
		made.QKNorm, made.Eps = true, 1e-6
		made.FFN.Experts, made.FFN.TopK, made.FFN.Renorm = 8, 3, !options.NoRenorm
		if options.Dense {
			made.FFN.Dense, made.FFN.DenseInner = []bool{true, false}, 2*made.FFN.Inner
		}
	case "llama":
		if options.Llama3 {
			made.RoPE = model.RoPE{Base: 10000, Scaling: model.ScalingLlama3, Factor: 8, Original: 32, LowFreq: 1, HighFreq: 4}
		}
	default:
		panic(fmt.Sprintf("modeltest: family %q is unknown, expected one of %q", family, Families()))
	}
	if options.Small {
		made.Layers, made.Hidden, made.FFN.Inner = 2, 64, 64
		made.Windows = made.Windows[:min(2, len(made.Windows))]
		if made.FFN.Experts > 0 {
			made.FFN.Experts, made.FFN.TopK = 4, 2
		}
	}
	if made.Windows == nil {
		made.Windows = make([]int, made.Layers)
	}
	return made
}

// parameter draws the values of a parameter and stores them.
func parameter(s *model.Spec, param model.Param, options Options) tensor.Tensor {
	part := param.Name[strings.LastIndexByte(param.Name, '.')+1:]
	mean, deviation := distribution(s, part, param.Shape[len(param.Shape)-1])
	sum := fnv.New64a()
	sum.Write([]byte(param.Name))
	rng := rand.New(rand.NewPCG(options.Seed, sum.Sum64()))
	elems := 1
	for _, d := range param.Shape {
		elems *= d
	}
	values := make([]float32, elems)
	for i := range values {
		values[i] = float32(mean + deviation*rng.NormFloat64())
	}
	if part == "up" && options.Up != tensor.Invalid {
		return twoTypes(param, dtype(part, param.Shape, options), options.Up, values)
	}
	return Encode(param.Name, dtype(part, param.Shape, options), param.Shape, values)
}

// twoTypes stores the gate rows and the up rows of values, which alternate, each in a type.
func twoTypes(param model.Param, gate, up tensor.DType, values []float32) tensor.Tensor {
	shape := slices.Clone(param.Shape)
	shape[len(shape)-2] /= 2
	var halves [2][]float32
	row := 0
	for next := range slices.Chunk(values, shape[len(shape)-1]) {
		halves[row%2] = append(halves[row%2], next...)
		row++
	}
	joined, err := tensor.Interleave(param.Name, Encode(param.Name+" gate", gate, shape, halves[0]), Encode(param.Name+" up", up, shape, halves[1]))
	if err != nil {
		panic("modeltest: " + err.Error())
	}
	return joined
}

// distribution returns mean and standard deviation of a parameter with rows of n.
func distribution(spec *model.Spec, part string, n int) (mean, deviation float64) {
	unit := 1 / math.Sqrt(float64(n)) // keeps the size of what it multiplies
	switch part {
	case "embed":
		return 0, 0.3
	case "attn_norm", "ffn_norm", "q_norm", "k_norm", "norm":
		return 1, 0.1
	case "sinks":
		return 0, 1
	case "router", "head":
		return 0, 3 * unit
	case "q":
		return 0, 1.5 * unit
	case "up":
		if spec.FFN.Activation == model.SwiGLU {
			return 0, 2 * unit // beyond the clamps at times
		}
		return 0, unit
	case "down":
		return 0, unit / 8 // what SwiGLU gives is large; more makes errors of 1 % grow from layer to layer
	case "k", "v", "o":
		return 0, unit
	}
	return 0, 0.1 // biases
}

// dtype returns the type in which a part is stored.
func dtype(part string, shape []int, options Options) tensor.DType {
	switch {
	case len(shape) == 3:
		return options.Experts
	case part == "router" || len(shape) == 1 || strings.HasSuffix(part, "_bias"):
		if options.Matrix == tensor.BF16 || options.Matrix == tensor.F16 {
			return options.Matrix
		}
		return tensor.F32 // no container stores these in blocks
	}
	return options.Matrix
}

// Encode returns values as a tensor of that type and shape; rows must be whole
// blocks.
func Encode(name string, t tensor.DType, shape []int, values []float32) tensor.Tensor {
	encoded := tensor.Tensor{Name: name, DType: t, Shape: shape}
	cols := encoded.Cols()
	rowBytes := t.RowBytes(cols)
	encoded.Data = make([]byte, encoded.Rows()*rowBytes)
	scales := 0
	if t == tensor.MXFP4HF {
		scales = cols / 32
		encoded.Scales = make([]byte, encoded.Rows()*scales)
	}
	for i := range encoded.Rows() {
		tensor.Encode(t, encoded.Data[i*rowBytes:][:rowBytes], encoded.Scales[i*scales:][:scales], values[i*cols:][:cols])
	}
	return encoded
}
