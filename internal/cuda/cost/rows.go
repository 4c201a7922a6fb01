package cost

import (
	"math"
	"strconv"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Closed forms of what is done to rows: kernels/rows.cu, rotate.cu, route.cu, embed.cu and sample.cu. Their
// instructions are per row, per warp or per 1,024 elements, as counted of the PTX.

// AddNorm adds to the residual stream and normalises it. first: there is nothing to add yet.
func AddNorm(width, rows int, first bool) Work {
	n, wide := float64(rows), float64(width)
	streams := 4.0 // sum read and written, what is added, the weights
	if first {
		streams = 2
	}
	return Work{Kernel: "add_norm", Blocks: n, Threads: 256, Registers: registersOf["add_norm"], SharedBytes: 32,
		Warp: n * (1400 + 216*wide/1024), Sectors: n * (streams*math.Ceil(wide/8) + float64(pad64(width))/16), Shared: n * 72,
		Memory: n*(4*(streams-1)*wide+2*float64(pad64(width))) + 4*wide, Trips: 3}
}

// GLU applies the activation to rows of gates and ups; every sector of them is asked for twice.
func GLU(width, rows int) Work {
	n, stride := float64(rows), float64(pad64(width))
	return Work{Kernel: "glu", Blocks: n * math.Ceil(stride/256), Threads: 128, Registers: registersOf["glu"],
		Warp: n * stride / 64 * 117, Sectors: n * (float64(width)/2 + stride/16), Memory: n * (8*float64(width) + 2*stride), Trips: 2}
}

// Select copies rows.
func Select(width, rows int) Work {
	n, stride := float64(rows), float64(pad64(width))
	return Work{Kernel: "select_rows", Blocks: n, Threads: 128, Registers: registersOf["select_rows"],
		Warp: n * (112 + 32*stride/1024), Sectors: n * (stride/8 + 4), Memory: n * 4 * stride, Trips: 3}
}

// Route chooses experts.
func Route(experts, topK, tokens int) Work {
	n, k, all := float64(tokens), float64(topK), float64(experts)
	return Work{Kernel: "route", Blocks: math.Ceil(n / 4), Threads: 128, Registers: registersOf["route"],
		Warp: n * (121 + k*(67+23.3*math.Ceil(all/32))), Sectors: n * (k*all/8 + 6), Memory: n * (4*all + 8*k), Trips: 3}
}

// Embed takes rows out of a packed table.
func Embed(table Matrix, tokens int) Work {
	perUnit := map[Format]struct{ sectors, instructions float64 }{MXFP4: {3.1, 51}, BF16: {8.1, 37}, Q8: {5.1, 50}}[table.Format]
	n, units := float64(tokens), float64(table.units())
	return Work{Kernel: "embed_" + string(table.Format), Blocks: n, Threads: 128, Registers: registersOf["embed_"+string(table.Format)],
		Warp: n * units * perUnit.instructions, Sectors: n * units * (8 + perUnit.sectors), Memory: n * units * 32 * (8 + perUnit.sectors), Trips: 3}
}

// A Heads is the shape of attention and its cache.
type Heads struct {
	Heads, KV, Dim int
	Norm           bool // of queries and keys
	Codes          bool // keys and values in E4M3
}

// padded is the length of a vector in the cache.
func (h *Heads) padded() int {
	padded := 64
	for padded < h.Dim {
		padded *= 2
	}
	return padded
}

// vector is the bytes of a key or value in the cache.
func (h *Heads) vector() float64 {
	if h.Codes {
		return float64(h.padded()) + 1
	}
	return 2 * float64(h.padded())
}

// Rotate turns heads.
func (h *Heads) Rotate(tokens int) Work {
	n, heads, dim := float64(tokens), float64(h.Heads+h.KV), float64(h.Dim)
	work := 82 + 17*math.Ceil(dim/64) // instructions of a head
	streams := 3.0
	if h.Norm {
		work, streams = work+38, 4
	}
	return Work{Kernel: "rotate", Blocks: n * math.Ceil(heads/4), Threads: 128, Registers: registersOf["rotate"],
		Warp: n * heads * work, Sectors: n * heads * streams * math.Ceil(dim/8), Memory: n * (heads*8*dim + 4*dim), Trips: 2}
}

// Store writes keys and values into the cache.
func (h *Heads) Store(tokens int) Work {
	n, kv := float64(tokens), float64(h.KV)
	wide := float64(h.padded()) / 64
	work, sectors := 176+6*wide, 3.0
	if h.Codes {
		work = 222 + 91*wide
	}
	return Work{Kernel: "store", Blocks: n * math.Ceil(kv/4), Threads: 128, Registers: registersOf["store"],
		Warp: n * kv * work, Sectors: n * kv * (float64(h.Dim)/4 + h.vector()/16 + sectors),
		Memory: n * kv * 2 * (4*float64(h.Dim) + h.vector()), Trips: 4}
}

// sampleTile is how many ids of a row of logits a block of sample.cu has.
const sampleTile = 2048

// Sample are the kernels that choose an id for each row of logits: greedily, or by drawing from all. What
// bias, penalties, top-k, top-p and log probabilities add is not counted.
func Sample(vocab, rows int, drawn bool) []Work {
	var all []Work
	const atOnce = 64 // rows
	for ; rows > 0; rows -= atOnce {
		n := float64(min(rows, atOnce))
		tiles := n * math.Ceil(float64(vocab)/sampleTile)
		pass := func(kernel string, instructions, wavefronts, lookups float64) Work {
			return Work{Kernel: kernel, Blocks: tiles, Threads: 256, Registers: registersOf[kernel], SharedBytes: 600, Warp: tiles * instructions,
				Sectors: n*float64(vocab)/8 + tiles*lookups, Shared: tiles * wavefronts, Memory: n * 4 * float64(vocab), Trips: 4}
		}
		all = append(all, pass("sample_peak", 1268, 15, 4))
		if drawn { // weights look powers of two up, and neighbours of a thread are not a warp's
			all = append(all, pass("sample_draw", 9270, 700, 1130))
		}
		all = append(all, Work{Kernel: "sample_finish", Blocks: n, Threads: 256, Registers: registersOf["sample_finish"], Warp: n * 100, Sectors: n * 20, Memory: n * 300, Trips: 3})
	}
	return all
}
