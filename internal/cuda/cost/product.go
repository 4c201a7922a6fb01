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

// A decoding is how product_decode goes through a chunk (kernels/product.cuh): groups of 16 rows of a warp,
// units that are under way or computed; then its instructions: of a warp, of a unit of its groups, of 8 tokens in
// that, of 4 tokens that are copied, of an iteration of the loop that stores, of one with a token, and of each
// chunk in that.
type decoding struct {
	groups, stages                               int
	warp, turn, column, four, store, live, chunk float64
}

var decodings = map[Format]map[int]decoding{
	MXFP4: {8: {2, 6, 271, 275.6, 0, 10.2, 19.7, 29, 3.8}, 16: {2, 6, 237.5, 125.3, 74.9, 14.5, 23.5, 21.3, 6.3},
		32: {2, 4, 248, 287.3, 9.2, 12.8, 21.7, 24.6, 4.7}},
	BF16: {8: {1, 6, 219.7, 57.1, 0, 8.1, 19.2, 36.2, 2}, 16: {1, 4, 273.5, 22.6, 11.9, 14.1, 19.2, 22.7, 6.4},
		32: {1, 3, 311.9, 40.2, 9.6, 16.9, 18.4, 25.2, 5.3}},
	Q8: {8: {2, 6, 289, 329.7, 0, 10.4, 19.5, 30, 3.1}, 16: {2, 5, 232.5, 165.4, 98.3, 16, 23.4, 20.5, 7.4},
		32: {2, 4, 238.1, 292.2, 49.6, 14.9, 22.5, 22.5, 6.6}},
}

// turnClocks are those that a unit of a tile of 32 tokens takes, one after another: as an H100 and an H200 took
// for matrices of few rows.
const turnClocks = 1190

// slots are those of Work for products. Of the kernels for 8 tokens ptxas 13 makes 0.92 instructions of one, of
// which 0.3 (MXFP4) or 0.4 (Q8) are integer logic, and more in their loops. How much more was chosen so that
// an H200's times of both have the same share of its instructions.
var slots = map[Format]float64{BF16: 1, MXFP4: 1.08, Q8: 1.33}

// unitWavefronts are those of writing a unit of weights to shared memory and of reading it.
var unitWavefronts = map[Format]float64{MXFP4: 9.5, BF16: 32, Q8: 18.5}

// multiprocessors are those that package cuda cuts products for (largeCard).
const multiprocessors = 132

// shared are the bytes of shared memory of a block with so many warps for each chunk.
func (d *decoding) shared(m *Matrix, tile, members int) int {
	return m.chunks() * d.stages * (tile*128 + members*d.groups*int(m.Format.unitBytes()))
}

// members is package cuda's choice of warps of a block for each chunk, for a grid of so many tiles.
func (d *decoding) members(m *Matrix, tile, tiles, groups int) int {
	least := multiprocessors / 2
	if tile == 8 {
		least = 4 * multiprocessors
	}
	for n := 8 / m.chunks(); n > 1; n /= 2 {
		part := n * d.groups
		if d.shared(m, tile, n) <= 99<<10 && (groups+part-1)/part*tiles >= least {
			return n
		}
	}
	return 1
}

// prefillCode are those of product_prefill: of a warp, of a unit, of 8 tokens in it, of a chunk's end, of an
// iteration that stores, of one with a token; the wavefronts of a unit; and the clocks that a block takes for
// it, as an H100 took (docs/measurements/nvidia-h100).
type prefillCode struct{ warp, unit, column, chunk, store, live, wavefronts, clocks float64 }

var prefillCodes = map[Format]prefillCode{
	MXFP4: {1145, 245.7, 33.2, 254.8, 17.9, 20.6, 30.25, 2465},
	BF16:  {1137, 134.8, 34.8, 239.7, 17.8, 20.2, 64, 2660},
	Q8:    {1154, 246.8, 78, 281.6, 18, 21.4, 44.5, 3145},
}

// activationCode are the further instructions of an iteration that stores activations.
const activationCode = 70

// tileOf is linear's choice of a tile for a matrix with so many rows.
func tileOf(rows, tokens int) int {
	switch {
	case tokens <= 8:
		return 8
	case tokens <= 16:
		return 16
	case tokens <= 64, tokens <= 256 && 2*((rows+127)/128)*((tokens+127)/128) < multiprocessors:
		return 32
	}
	return 128
}

// Linear is the product of a matrix and the rows of so many tokens.
func Linear(m Matrix, bias bool, tokens int) Work {
	tile := tileOf(m.Rows, tokens)
	c := cut(tokens, tile)
	w := m.product("linear", tile, int(c.tiles), c, m.groups())
	m.linear(&w, bias, c)
	if tile < 128 {
		w.Between = 0 // tiles that read the same weights run side by side
	}
	return w
}

// linear adds what a product of one matrix moves from and to memory, and its bias.
func (m *Matrix) linear(w *Work, bias bool, c cover) {
	w.Memory = m.Bytes() + c.tokens*float64(2*pad64(m.Cols)+4*m.Rows)
	w.Again, w.Between = m.Bytes()*(c.tiles-1), m.Bytes()
	if bias {
		w.Sectors += c.pairs * m.rowSectors()
		w.Memory += 4 * float64(m.Rows)
	}
}

// rowSectors are the sectors of a token's sums, group by group.
func (m *Matrix) rowSectors() float64 {
	whole, rest := m.Rows/16, m.Rows%16
	return float64(2*whole + (4*rest+31)/32)
}

// product counts a product over one cover of tiles in which groups groups are written, launched for so many
// tiles; what it reads of the weights counts once for each tile.
func (m *Matrix) product(use string, tile, tiles int, c cover, groups int) Work {
	w := Work{Kernel: use + "_" + string(m.Format) + "_" + itoa(tile)}
	w.Registers, w.Slots = registersOf[w.Kernel], slots[m.Format]
	w.FLOPs = 2 * float64(m.Rows) * float64(m.Cols) * c.tokens
	if tile == 128 {
		m.prefill(&w, use, c, groups)
	} else {
		m.decode(&w, use, tile, tiles, c, groups)
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

func (m *Matrix) decode(w *Work, use string, tile, tiles int, c cover, groups int) {
	d := decodings[m.Format][tile]
	members, chunks, units := d.members(m, tile, tiles, groups), m.chunks(), float64(m.units())
	blocks := math.Ceil(float64(groups) / float64(members*d.groups)) // of a tile
	turns := blocks * float64(members) * units                       // of warps, for a tile
	copied := blocks * units * 2 * c.eights                          // fours of tokens
	if tile == 8 {
		copied = blocks * units * c.fours
	}
	stored, all := stores(use, tile, c)
	written := blocks * float64(members*d.groups)
	stored, all = stored*written, all*written*c.tiles
	w.Blocks, w.Threads, w.SharedBytes = blocks*c.tiles, 32*members*chunks, d.shared(m, tile, members)
	w.MMA = 4 * c.eights * turns * float64(d.groups)
	w.Sectors += blocks * units * c.tokens * 4
	warps := w.Blocks * float64(members*chunks)
	w.Warp = warps*d.warp + turns*(c.tiles*d.turn+c.eights*d.column) + copied*d.four + all*d.store + stored*(d.live+float64(chunks)*d.chunk)
	reads := stored * float64(chunks)
	if use == "up" { // gate and up, of four tokens at a time, which meet banks twice
		reads *= 4
		w.Warp += stored * activationCode
	}
	w.Shared = turns*(c.tiles*float64(d.groups)*unitWavefronts[m.Format]+c.eights*8) + copied*4 + warps*float64(d.groups*tile)/2 + reads
	w.Trips = 2 + units/float64(chunks*(d.stages-1))
	if tile == 32 {
		w.Alone = units / float64(chunks) * turnClocks
		w.Beside = w.Alone
	}
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
	w.Alone, w.Beside = units*code.clocks, units*code.clocks
}

// pad64 rounds up to a multiple of 64.
func pad64(n int) int { return (n + 63) &^ 63 }
