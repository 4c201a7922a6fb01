package cost

import (
	"math"
	"strconv"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Closed forms of what is done to rows: kernels/rows.cu, rotate.cu, route.cu, embed.cu and sample.cu. Their
// instructions are per row, per warp or per 1,024 elements, as counted of the PTX.

// normWarps are the warps of a row of a norm, and the groups of 128 elements that they take behind
// their first.
func normWarps(width int) (warps, more float64) {
	groups := (width + 127) / 128
	return float64(min(groups, 32)), float64(max(groups-32, 0))
}

// norm is what the norm of a row is of whatever there is to add.
func norm(kernel string, width, rows int, instructions, more float64) Work {
	n, wide := float64(rows), float64(width)
	warps, groups := normWarps(width)
	return Work{Kernel: kernel, Blocks: n, Threads: int(32 * warps), Registers: registersOf[kernel], SharedBytes: 128,
		Warp: n * (instructions*warps + more*groups), Sectors: n * (2*math.Ceil(wide/8) + 16*groups + float64(pad64(width))/16), Shared: n * 2 * warps,
		Memory: n*(4*wide+2*float64(pad64(width))) + 4*wide, Trips: 2 + math.Ceil(groups/32)}
}

// AddNorm adds to the residual stream and normalises it. first: there is nothing to add yet.
func AddNorm(width, rows int, first bool) Work {
	if first {
		return norm("add_norm", width, rows, 182, 63)
	}
	w := norm("add_norm", width, rows, 194, 74)
	w.Sectors += float64(rows) * 2 * math.Ceil(float64(width)/8)
	w.Memory += float64(rows) * 8 * float64(width)
	return w
}

// AddNormExperts is AddNorm of what the experts of a token made.
func AddNormExperts(width, topK, rows int) Work {
	n, wide, k := float64(rows), float64(width), float64(topK)
	w := norm("add_norm_experts_"+itoa(topK), width, rows, 198+7.5*k, 72+8*k)
	warps, groups := normWarps(width)
	w.Sectors += n * ((k+1)*math.Ceil(wide/8) + (warps+groups)*k/4)
	if width%128 > 0 { // lanes behind the width read the begin of the row
		w.Sectors += n * k
	}
	w.Memory += n * 4 * wide * (k + 1)
	w.FLOPs = n * 2 * wide * k
	return w
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
	rounds := math.Ceil(all / 32)
	kept := math.Min(rounds, 4) // whose logits are read once
	blocks := math.Ceil(n / 4)
	logits := math.Ceil(all / 8)
	chosen := logits * (1 - math.Pow(1-1/logits, k)) // sectors that have any of them
	return Work{Kernel: "route", Blocks: blocks, Threads: 128, Registers: registersOf["route"],
		Warp:    n*(176+40.3*k+16*(kept-1)+24.3*k*(rounds-kept)) + 13*(4*blocks-n),
		Sectors: n * (math.Min(logits, 16) + k*math.Max(logits-16, 0) + chosen + 2*math.Ceil(k/8)), Memory: n * (4*all + 8*k), Trips: 2}
}

// planTokens is the most tokens of RoutePlan.
const planTokens = 8

// RoutePlan chooses experts, and finds out which tokens each has.
func RoutePlan(experts, topK, tokens int) Work {
	w, n, assignments := Route(experts, topK, tokens), float64(tokens), float64(tokens*topK)
	tiles := math.Floor(assignments/8) + math.Min(float64(experts), assignments)
	w.Kernel, w.Blocks, w.Threads, w.Registers, w.SharedBytes = "route_plan", 1, 32*tokens, registersOf["route_plan"], 2048
	w.Warp += n*(93+22.8*assignments) - 13*(4*math.Ceil(n/4)-n)
	w.Shared = n * (8 + 2.45*assignments)
	w.Sectors += tiles/2 + assignments/4
	w.Memory += 16*tiles + 4*assignments
	return w
}

// Embed takes rows out of a packed table.
func Embed(table Matrix, tokens int) Work {
	perUnit := map[Format]struct{ sectors, instructions float64 }{MXFP4: {3, 84}, BF16: {8, 64}, Q8: {5, 82}}[table.Format]
	n, units := float64(tokens), float64(table.units())
	return Work{Kernel: "embed_" + string(table.Format), Blocks: n * math.Ceil(units/4), Threads: 128, Registers: registersOf["embed_"+string(table.Format)],
		Warp: n * units * perUnit.instructions, Sectors: n * units * (9 + perUnit.sectors), Memory: n * units * 32 * (8 + perUnit.sectors), Trips: 2}
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

// RotateStore turns the heads of queries and keys, and writes keys and values into the cache.
func (h *Heads) RotateStore(tokens int) Work {
	n, heads, kv, dim := float64(tokens), float64(h.Heads), float64(h.KV), float64(h.Dim)
	wide, streams := float64(h.padded())/64, 3.0
	query, stored, sectors := 68+33*wide, 139+65*wide, 3.0 // of a head
	if h.Codes {
		stored, sectors = 216+126*wide, 5
	}
	if h.Norm {
		query, stored, streams = query+31+23*wide, stored+31+23*wide, 4
	}
	return Work{Kernel: "rotate_store", Blocks: n * math.Ceil((heads+kv)/4), Threads: 128, Registers: registersOf["rotate_store"],
		Warp:    n * (heads*query + kv*stored),
		Sectors: n * (heads*streams*math.Ceil(dim/8) + kv*(streams*math.Ceil(dim/8)+math.Floor(h.vector()/16)+sectors)),
		Memory:  n * (heads*8*dim + 4*dim + kv*2*(4*dim+h.vector())), Trips: 2}
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
