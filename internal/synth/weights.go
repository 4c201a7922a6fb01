package synth

import (
	"hash/fnv"
	"math"
	"strconv"
	"strings"

	"ossian/internal/model"
	"ossian/internal/tensor"
)

// An entry is a tensor of a file. Its rows are rows of one parameter, in the
// container's own order.
type entry struct {
	name   string
	dtype  tensor.DType
	shape  []int // slowest-varying first; [out, in] also for GGUF
	param  *param
	from   func(row int) int // row of the entry -> row of the parameter; nil = the same
	scales bool              // the entry holds the scale bytes of MXFP4HF, not the codes
	fixed  []float32         // one row that is computed, not drawn; param is nil
}

// cols is the length of a row: that of the parameter, which is 1 for biases.
func (e *entry) cols() int {
	if e.fixed != nil {
		return len(e.fixed)
	}
	return e.param.cols
}

// rows returns the rows of the tensor, cols long each.
func (e *entry) rows() int {
	elems := 1
	for _, d := range e.shape {
		elems *= d
	}
	return elems / e.cols()
}

// rowBytes returns the stored bytes of a row.
func (e *entry) rowBytes() int {
	if e.scales {
		return e.cols() / 32
	}
	return e.dtype.RowBytes(e.cols())
}

// bytes returns the stored bytes of the tensor.
func (e *entry) bytes() int64 { return int64(e.rows()) * int64(e.rowBytes()) }

// A param is a parameter of model.Params and how its values are drawn.
type param struct {
	name       string // without the layer
	layer      int    // -1 = none
	shape      []int
	rows, cols int
	mean, std  float64
	signs      bool // half of the values are negated
	key        uint64
}

// params lists the parameters of the model.
func params(options *Options) []*param {
	var out []*param
	for _, asked := range model.Params(&options.Model.Spec) {
		made := &param{name: asked.Name, layer: -1, shape: asked.Shape, rows: 1, key: hash(options.Seed, asked.Name)}
		if part, ok := strings.CutPrefix(asked.Name, "layers."); ok {
			number, name, _ := strings.Cut(part, ".")
			made.layer, _ = strconv.Atoi(number)
			made.name = name
		}
		made.cols = asked.Shape[len(asked.Shape)-1]
		if strings.HasSuffix(made.name, "_bias") {
			made.cols = 1 // gate and up biases are taken apart element by element
		}
		for _, d := range asked.Shape {
			made.rows *= d
		}
		made.rows /= made.cols
		made.draw(&options.Model.Spec)
		out = append(out, made)
	}
	return out
}

// draw sets the mean and the standard deviation of the values.
//
// A normalised row has unit mean square, so a matrix with deviation c/√in gives
// outputs of size c. The residual stream begins with the size of the embedding;
// all layers together add about half of that in mean square, so tokens stay
// distinct. The final norm has random signs: a tied output matrix would otherwise
// find the input token again, and greedy text would repeat it for ever.
func (p *param) draw(spec *model.Spec) {
	in := func(gain float64) float64 { return gain / math.Sqrt(float64(p.cols)) }
	embed := 1.0
	if spec.Tied {
		embed = 2 / math.Sqrt(float64(spec.Hidden))
	}
	add := embed / math.Sqrt(float64(spec.Layers)) // what one layer may add
	gate, product := 1.5, 1.3                      // size of gate and up, and of their activated product
	if spec.FFN.Activation == model.SwiGLU {
		gate, product = 2.5, 5 // some values reach the clamp at 7
	}
	if spec.FFN.Experts > 0 {
		product /= 2 // a weighted mean of independent experts is smaller than one of them
	}
	switch p.name {
	case "embed":
		p.std = embed
	case "head":
		p.std = in(2)
	case "attn_norm", "ffn_norm", "q_norm", "k_norm":
		p.mean, p.std = 1, 0.1
	case "norm":
		p.mean, p.std, p.signs = 1, 0.1, true
	case "q", "k":
		p.std = in(1.2)
	case "v":
		p.std = in(1)
	case "o":
		p.std = in(1.5 * add) // attention averages, which shrinks
	case "sinks":
		p.mean, p.std = 1, 1.5
	case "router":
		p.std = in(1.5)
	case "up":
		p.std = in(gate)
	case "down":
		p.std = in(0.5 * add / product)
	case "q_bias", "k_bias", "up_bias":
		p.std = 0.3
	case "v_bias", "router_bias":
		p.std = 0.1
	case "o_bias", "down_bias":
		p.std = 0.05 * embed
	}
}

// Rows of parameters with at least pooled elements are cut from a pool of
// poolSize values at random places, multiples of the longest block. A large file
// is then written at the speed of the disk, and no parameter that decides (a
// router, a norm) repeats itself.
const (
	pooled   = 1 << 21
	poolSize = 1 << 22
	poolStep = 256
)

// A generator makes encoded rows. A returned row is valid until the next one.
type generator struct {
	seed   uint64
	values []float32
	data   []byte
	scale  []byte
	pools  map[poolKey]pool
}

// A poolKey is what the values of a pool depend on besides the seed.
type poolKey struct {
	std   float64
	dtype tensor.DType
}

// A pool is poolSize values as a type stores them.
type pool struct{ data, scales []byte }

func newGenerator(o *Options) *generator {
	return &generator{seed: o.Seed, pools: map[poolKey]pool{}}
}

// row returns row i of an entry as it lies in the file.
func (g *generator) row(entry *entry, i int) []byte {
	cols := entry.cols()
	if entry.fixed != nil {
		return g.encode(entry, entry.fixed)
	}
	if entry.from != nil {
		i = entry.from(i)
	}
	param := entry.param
	if param.rows*cols >= pooled && cols < poolSize {
		return g.fromPool(entry, i)
	}
	// Small parameters: every element is drawn.
	if cap(g.values) < cols {
		g.values = make([]float32, cols)
	}
	values := g.values[:cols]
	for k := range values {
		values[k] = param.value(uint64(i)*uint64(cols) + uint64(k))
	}
	return g.encode(entry, values)
}

// encode returns the values as the entry stores them, codes or scales.
func (g *generator) encode(entry *entry, values []float32) []byte {
	if n := entry.dtype.RowBytes(len(values)); cap(g.data) < n {
		g.data = make([]byte, n)
	}
	if n := len(values) / 32; cap(g.scale) < n {
		g.scale = make([]byte, n)
	}
	data, scales := g.data[:entry.dtype.RowBytes(len(values))], g.scale[:len(values)/32]
	tensor.Encode(entry.dtype, data, scales, values)
	if entry.scales {
		return scales
	}
	return data
}

// fromPool cuts a row out of the pool of its distribution and type, at a place that depends on
// the parameter and the row.
func (g *generator) fromPool(entry *entry, row int) []byte {
	param, cols := entry.param, entry.cols()
	key := poolKey{param.std, entry.dtype}
	pl, ok := g.pools[key]
	if !ok {
		pl = g.newPool(key)
		g.pools[key] = pl
	}
	at := int(mix(param.key+uint64(row)*gamma)%uint64((poolSize-cols)/poolStep+1)) * poolStep
	if entry.scales {
		return pl.scales[at/32 : (at+cols)/32]
	}
	return pl.data[entry.dtype.RowBytes(at):entry.dtype.RowBytes(at+cols)]
}

// newPool draws and encodes the values of a pool.
func (g *generator) newPool(key poolKey) pool {
	src := param{std: key.std, key: hash(g.seed, "pool")}
	pl := pool{data: make([]byte, key.dtype.RowBytes(poolSize)), scales: make([]byte, poolSize/32)}
	values := make([]float32, poolSize)
	for i := range values {
		values[i] = src.value(uint64(i))
	}
	tensor.Encode(key.dtype, pl.data, pl.scales, values)
	return pl
}

// value returns element n. It is rounded to a multiple of 2^-24 and then to BF16,
// which makes it exact in F16 too.
func (p *param) value(n uint64) float32 {
	random := mix(p.key + n*gamma)
	drawn := p.mean + float64(p.std*normal(random)) // the conversion forbids a fused multiply-add: all machines write the same file
	if p.signs && random&1 == 1 {
		drawn = -drawn
	}
	return tensor.BF16ToFloat(tensor.ToBF16(float32(math.RoundToEven(drawn*(1<<24)) / (1 << 24))))
}

// normal turns random bits into a sum of four uniform numbers: mean 0, deviation
// 1, never beyond 3.5. Integers make it the same on every machine.
func normal(u uint64) float64 {
	sum := int(u&0xffff) + int(u>>16&0xffff) + int(u>>32&0xffff) + int(u>>48)
	return float64(sum-2*0xffff) / 37837.3 // 65536·√(4/12)
}

// gamma and mix are the SplitMix64 generator: Steele, Lea and Flood, "Fast
// splittable pseudorandom number generators", 2014.
const gamma = 0x9e3779b97f4a7c15

// mix scrambles the bits of z.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// hash is the key of a parameter's values.
func hash(seed uint64, name string) uint64 {
	sum := fnv.New64a()
	sum.Write([]byte(name))
	return mix(sum.Sum64() + seed*gamma)
}
