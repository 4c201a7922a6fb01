package cost

import "math"

// Closed forms of products by warpgroups (kernels/product_wgmma.cuh), which cards of compute capability 9.0
// have for many tokens, and of the rows that are put in the order of experts for them. Sectors and matrix
// products are exact, instructions as counted of the PTX. What a block's units take one after another is
// from an H100 (docs/measurements/nvidia-h100/tiles): no data sheet says it.

// Products says by which kernels a card computes products of many tokens. The zero value is mma.sync, which
// every card has.
type Products struct {
	Warpgroups bool // of formats that have such kernels
	Tile       int  // of them, where measured: 0 = what package cuda chooses, -1 = mma.sync
}

// has reports whether many tokens of a format are multiplied by warpgroups.
func (p Products) has(f Format) bool {
	return p.Warpgroups && p.Tile >= 0 && warpgroupCodes[f].unit > 0
}

// A warpgroupCode are the instructions of a warp for a unit, and what is by tile: of its begin and end, of
// the end of a chunk, and the clocks that a block takes for a unit, alone on a multiprocessor and with others.
type warpgroupCode struct {
	unit  float64
	tiles map[int]warpgroupTile
}

type warpgroupTile struct{ warp, chunk, alone, beside float64 }

var warpgroupCodes = map[Format]warpgroupCode{
	MXFP4: {159, map[int]warpgroupTile{32: {150, 53, 800, 1080}, 64: {181, 99, 1000, 1330}, 128: {344, 195, 1100, 1145}}},
	BF16:  {66, map[int]warpgroupTile{32: {160, 53, 757, 900}, 64: {174, 99, 962, 1260}, 128: {239, 195, 860, 1010}}},
}

// storeCode and storeActivation are the instructions of a warp for two tokens of a group that it stores, and of
// activations.
const storeCode, storeActivation = 25, 20

// warpgroupStages is how many stages of tokens there are in shared memory.
const warpgroupStages = 8

// tile is package cuda's choice for a matrix and so many tokens; 0 = those of mma.sync.
func (p Products) tile(m *Matrix, tokens int) int {
	blocks := (m.groups() + 7) / 8
	switch {
	case !p.has(m.Format):
		return 0
	case p.Tile > 0:
		return p.Tile
	case tokens <= 32, tokens <= 64 && blocks < multiprocessors, tokens <= 256 && blocks*((tokens+31)/32) < multiprocessors/2:
		return 0
	case tokens <= 64:
		return 64
	case blocks*((tokens+127)/128) < 80:
		return 32
	}
	return 128
}

// Linear is the product of a matrix and the rows of so many tokens, by the kernel that is chosen.
func (p Products) Linear(m Matrix, bias bool, tokens int) Work {
	tile := p.tile(&m, tokens)
	if tile == 0 {
		return Linear(m, bias, tokens)
	}
	c := cut(tokens, tile)
	w := m.byWarpgroups("linear", tile, c, m.groups())
	m.linear(&w, bias, c)
	w.Between = 0 // tiles that read the same weights run side by side
	return w
}

// byWarpgroups counts a product over a cover of tiles in which groups groups are written. A block always
// reads eight groups: behind the last it reads that one again.
func (m *Matrix) byWarpgroups(use string, tile int, c cover, groups int) Work {
	code, units := warpgroupCodes[m.Format], float64(m.units())
	by, blocks := code.tiles[tile], math.Ceil(float64(groups)/8)
	w := Work{Kernel: "wgmma_" + use + "_" + string(m.Format) + "_" + itoa(tile), Blocks: blocks * c.tiles, Threads: 256, Registers: 128,
		SharedBytes: warpgroupStages*tile*128 + 2*8*warpgroupStages, FLOPs: 2 * float64(m.Rows) * float64(m.Cols) * c.tokens}
	if tile == 128 {
		w.Registers = 255
	}
	w.Warpgroups, w.MMA = true, w.Blocks*8*units*4*float64(tile)/8
	rows := c.tokens
	if use != "linear" { // boxes reach into the rows of the next expert, but behind the last
		rows = math.Max(rows, (c.tiles-0.5)*float64(tile))
	}
	w.Sectors = w.Blocks*8*units*m.Format.unitBytes()/32 + blocks*units*rows*4
	w.Warp = w.Blocks*8*(by.warp+units*code.unit+float64(m.chunks())*by.chunk) + float64(m.groups())*2*c.eights*storeCode
	if use == "up" {
		w.Warp += float64(m.groups()) * 2 * c.eights * storeActivation
		w.Sectors += float64(groups) * c.tokens
	} else {
		w.Sectors += c.tokens * m.rowSectors()
	}
	if use == "down" { // places in the order, which begin anywhere in a sector
		w.Sectors += float64(m.groups()) * 2 * c.eights * 1.9
	}
	w.Trips, w.Alone, w.Beside = 2, units*by.alone, units*by.beside
	return w
}

// Gather is experts_gather: rows of bf16 in the order of experts.
func Gather(width, places int, tokens float64) Work {
	n, bytes := float64(places), 2*float64(pad64(width))
	return Work{Kernel: "experts_gather", Blocks: n, Threads: 128, Registers: 32, Warp: n * 4 * (29 + 10*math.Ceil(bytes/16/128)), Sectors: n * (2*bytes/32 + 4),
		Memory: n*(bytes+4) + tokens*bytes, Trips: 3}
}
