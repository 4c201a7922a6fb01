package cost

import "math"

// Closed forms of kernels/product.cuh: products of packed weights and rows of activations. Sectors, matrix
// products and wavefronts are exact for linear; instructions come from counts of the PTX, and hold within
// what TestWork* of package cuda say.

// A Format is how weights are packed (cuda.md 7.1).
type Format string

// The formats that there are kernels for.
const (
	MXFP4 Format = "mxfp4"
	BF16  Format = "bf16"
	Q8    Format = "q8"
)

// A Matrix is the shape of packed weights, of one expert where there are several.
type Matrix struct {
	Format     Format
	Rows, Cols int
}

// unitBytes are those of 16 rows × 64 k.
func (f Format) unitBytes() float64 {
	return map[Format]float64{MXFP4: 544, BF16: 2048, Q8: 1088}[f]
}

func (m *Matrix) groups() int { return (m.Rows + 15) / 16 }
func (m *Matrix) units() int  { return (m.Cols + 63) / 64 }

// Bytes is the size of the packed matrix.
func (m *Matrix) Bytes() float64 { return float64(m.groups()*m.units()) * m.Format.unitBytes() }

// chunks is in how many parts sums over k are cut (cuda.md 6.1).
func (m *Matrix) chunks() int {
	switch {
	case m.Rows >= 65536:
		return 1
	case m.Cols >= 1024:
		return 4
	case m.Cols >= 512:
		return 2
	}
	return 1
}

// A cover is how tokens lie in tiles: how many tiles there are, and how many pairs, fours and eights of
// tokens are begun in them.
type cover struct{ tiles, tokens, pairs, fours, eights float64 }

// add adds other times as often as it is there.
func (c *cover) add(other cover, times float64) {
	c.tiles += times * other.tiles
	c.tokens += times * other.tokens
	c.pairs += times * other.pairs
	c.fours += times * other.fours
	c.eights += times * other.eights
}

// cut returns the cover of n tokens in tiles of a size, which is a multiple of 8.
func cut(n, size int) cover {
	parts := func(n, size int) float64 { return float64((n + size - 1) / size) }
	return cover{tiles: parts(n, size), tokens: float64(n), pairs: parts(n, 2), fours: parts(n, 4), eights: parts(n, 8)}
}

// decodeCode are the instructions of product_decode: of a warp of any block, of one with weights, of a
// unit, of an iteration of the loop that stores, of one with a token, and of each chunk in that.
type decodeCode struct{ block, warp, unit, store, live, chunk float64 }

var decodeCodes = map[Format]map[int]decodeCode{
	MXFP4: {8: {78, 80, 154.1, 20.5, 13.6, 12.3}, 16: {82, 134, 176, 20.3, 14.8, 11.4}, 32: {82, 229, 237.9, 20.1, 15.3, 10.4}},
	BF16:  {8: {13, 254, 48.6, 26.4, 15.2, 11.4}, 16: {81, 106, 124.8, 19.6, 15.8, 10.9}, 32: {96, 226, 129.1, 19.3, 16.6, 9.7}},
	Q8:    {8: {83, 92, 181.1, 20.3, 13.3, 12.4}, 16: {82, 143, 223.2, 20.7, 14.3, 11.6}, 32: {79, 158, 358.5, 20.7, 14.5, 10.8}},
}

// prefillCode are those of product_prefill: of a warp, of a unit, of 8 tokens in it, of a chunk's end, of an
// iteration that stores, of one with a token; and the wavefronts of a unit.
type prefillCode struct{ warp, unit, column, chunk, store, live, wavefronts float64 }

var prefillCodes = map[Format]prefillCode{
	MXFP4: {1145, 245.7, 33.2, 254.8, 17.9, 20.6, 30.25},
	BF16:  {1137, 134.8, 34.8, 239.7, 17.8, 20.2, 64},
	Q8:    {1154, 246.8, 78, 281.6, 18, 21.4, 44.5},
}

// activationCode are the further instructions of an iteration that stores activations.
const activationCode = 70

// tileOf is linear's choice of a tile.
func tileOf(tokens int) int {
	switch {
	case tokens <= 8:
		return 8
	case tokens <= 16:
		return 16
	case tokens <= 64:
		return 32
	}
	return 128
}

// Linear is the product of a matrix and the rows of so many tokens.
func Linear(m Matrix, bias bool, tokens int) Work {
	tile := tileOf(tokens)
	w := m.product("linear", tile, cut(tokens, tile), m.groups())
	w.Memory = m.Bytes() + float64(tokens)*float64(2*pad64(m.Cols)+4*m.Rows)
	w.Again, w.Between = m.Bytes()*(math.Ceil(float64(tokens)/float64(tile))-1), m.Bytes()
	if bias {
		w.Sectors += cut(tokens, tile).pairs * m.rowSectors()
		w.Memory += 4 * float64(m.Rows)
	}
	return w
}

// rowSectors are the sectors of a token's sums, group by group.
func (m *Matrix) rowSectors() float64 {
	whole, rest := m.Rows/16, m.Rows%16
	return float64(2*whole + (4*rest+31)/32)
}

// product counts a product over one cover of tiles in which groups groups are written; what it reads of the
// weights counts once for each tile.
func (m *Matrix) product(use string, tile int, c cover, groups int) Work {
	w := Work{Kernel: use + "_" + string(m.Format) + "_" + itoa(tile)}
	w.Registers = registersOf[w.Kernel]
	w.FLOPs = 2 * float64(m.Rows) * float64(m.Cols) * c.tokens
	if tile == 128 {
		m.prefill(&w, use, c, groups)
	} else {
		m.decode(&w, use, tile, c, groups)
	}
	weights := c.tiles * float64(m.groups()*m.units())
	w.Sectors += weights * m.Format.unitBytes() / 32
	if use == "up" {
		w.Sectors += float64(groups) * c.tokens // 8 values of bf16 each
	} else {
		w.Sectors += c.tokens * m.rowSectors()
	}
	return w
}

// stores returns how many iterations of the loop that stores have a token, for a group, and how many
// there are for a whole tile.
func stores(use string, tile int, c cover) (live, all float64) {
	if use == "up" {
		return c.fours, float64(tile) / 4
	}
	return c.pairs, float64(tile) / 2
}

func (m *Matrix) decode(w *Work, use string, tile int, c cover, groups int) {
	chunks, columns := m.chunks(), float64(tile/8)
	perBlock := 4 / chunks
	blocks := math.Ceil(float64(groups) / float64(perBlock))
	warps := c.tiles * float64(m.groups()*min(chunks, m.units()))
	units := c.tiles * float64(m.groups()*m.units())
	live, all := stores(use, tile, c)
	live, all = live*blocks*float64(perBlock), all*blocks*float64(perBlock)*c.tiles
	code := decodeCodes[m.Format][tile]
	w.Blocks, w.Threads, w.SharedBytes = blocks*c.tiles, 128, 1024*tile
	w.MMA = units * 4 * columns
	w.Sectors += float64(m.groups()*m.units()) * c.tokens * 4
	w.Warp = w.Blocks*4*code.block + warps*code.warp + units*code.unit + all*code.store + live*(code.live+float64(chunks)*code.chunk)
	reads := live * float64(chunks)
	if use == "up" { // gate and up, of four tokens at a time, which meet banks twice
		reads *= 4
		w.Warp += live * activationCode
	}
	w.Shared = units*16*columns + w.Blocks*16*columns + reads
	// Weights and tokens of a unit are asked for while the one before is computed.
	w.Trips = 2 + math.Ceil(float64(m.units())/float64(chunks))/2
}

func (m *Matrix) prefill(w *Work, use string, c cover, groups int) {
	blocks, units := math.Ceil(float64(groups)/8), float64(m.units())
	live, all := stores(use, 128, c)
	live, all = live*float64(m.groups()), all*8*blocks*c.tiles
	if use == "up" {
		live = live / float64(m.groups()) * float64(groups)
	}
	code := prefillCodes[m.Format]
	columns := blocks * 4 * c.eights * units
	w.Blocks, w.Threads = blocks*c.tiles, 256
	w.SharedBytes = 3 * (128*128 + 8*int(m.Format.unitBytes()))
	w.MMA = columns * 8
	w.Sectors += blocks * units * c.tokens * 4
	warps := w.Blocks * 8
	w.Warp = warps*(code.warp+units*code.unit+float64(m.chunks()-1)*code.chunk) + columns*code.column + all*code.store + live*code.live
	w.Shared = warps*(64+units*code.wavefronts) + columns*8 + live
	if use == "up" {
		w.Warp += live * activationCode
		w.Shared += 3 * live
	}
	w.Trips = 2 + units/2 // two stages are on their way
}

// pad64 rounds up to a multiple of 64.
func pad64(n int) int { return (n + 63) &^ 63 }
