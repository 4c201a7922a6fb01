package cuda

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu"
	"ossian/internal/cuda/kernels"
	"ossian/internal/tensor"
)

// Conformance: what single instructions compute, recorded on a card, is what the emulator is held to.
// With OSSIAN_CARD=cuda and OSSIAN_CONFORMANCE naming a folder, TestConformance records there; a
// recording that is put into conformanceFolder is compared from then on, by every run.

const (
	conformanceEnv    = "OSSIAN_CONFORMANCE"
	conformanceFolder = "emu/testdata/conformance"
)

// conformArgs is ConformArgs of kernels/conformance.cu, conformBoxArgs that of conformance90.cu.
type (
	conformArgs    struct{ in, out driver.Ptr }
	conformBoxArgs struct {
		box          driver.TensorMap
		corners, out driver.Ptr
		bytes, _     int32
		_            [5]uint64
	}
)

// A conformity is one kernel with inputs.
type conformity struct {
	name, kernel    string
	blocks, threads uint32
	shared          uint32
	in              []uint32
	out             int         // words
	box             *conformBox // for conform_box
	want            []uint32    // by definition; nil: recordings alone say it
	within          []float64   // of float32 results, how far they may be off; nil: not at all
	ulps            int         // of float32 results, how far they may be off, besides
}

// A conformBox is what boxes are copied of.
type conformBox struct {
	described driver.TensorBox
	data      []byte
}

// arch is the architecture of the module that has the kernel.
func (c *conformity) arch() string {
	if strings.HasPrefix(c.kernel, "conform_box") || strings.HasPrefix(c.kernel, "conform_wgmma") {
		return "90a"
	}
	return "80"
}

// conformities are all cases. Their inputs are the same in every run.
func conformities() (all []*conformity) {
	rng := rand.New(rand.NewPCG(51, 52))
	for _, kernel := range []string{"conform_mma_bf16", "conform_mma_f16"} {
		all = append(all, mmaConformity(rng, kernel, true), mmaConformity(rng, kernel, false))
	}
	all = append(all, ldmatrixConformity(rng), copyConformity(rng), shuffleConformity(rng))
	all = append(all, plainConformity(rng, "conform_convert", 2, 16, 0), plainConformity(rng, "conform_float", 3, 8, 0), plainConformity(rng, "conform_approximate", 1, 5, 3))
	for i := range 6 {
		all = append(all, boxConformity(rng, i))
	}
	for _, kernel := range []string{"conform_wgmma_8", "conform_wgmma_128", "conform_wgmma_plain_128"} {
		all = append(all, wgmmaConformity(rng, kernel, true), wgmmaConformity(rng, kernel, false))
	}
	return all
}

// element makes an element of 16 bits: a whole number of which sums are exact, or any.
func element(rng *rand.Rand, f16, exact bool) (bits uint16, value float64) {
	x := float32(rng.NormFloat64())
	if exact {
		x = float32(rng.IntN(31) - 15)
	}
	if f16 {
		bits = tensor.ToHalf(x)
		return bits, float64(tensor.Half(bits))
	}
	bits = tensor.ToBF16(x)
	return bits, float64(tensor.BF16ToFloat(bits))
}

// sums is what products with sums of float32 give, and how far they may be off where their order
// matters: units come in 2^-20 of what is added, since tensor cores align and cut products.
type sums struct {
	want   []uint32
	within []float64
}

func (s *sums) add(index int, start float64, terms func(k int) float64, count int) {
	total, size := start, math.Abs(start)
	for k := range count {
		total += terms(k)
		size += math.Abs(terms(k))
	}
	s.want[index], s.within[index] = math.Float32bits(float32(total)), size*0x1p-20
}

func startValue(rng *rand.Rand, exact bool) float32 {
	if exact {
		return float32(rng.IntN(2001) - 1000)
	}
	return float32(4 * rng.NormFloat64())
}

// mmaConformity lays out fragments as the PTX ISA says (common.cuh).
func mmaConformity(rng *rand.Rand, kernel string, exact bool) *conformity {
	const blocks = 16
	c := &conformity{name: kernel + map[bool]string{true: "-exact", false: "-random"}[exact], kernel: kernel, blocks: blocks, threads: 32, in: make([]uint32, blocks*320), out: blocks * 128}
	s := sums{make([]uint32, c.out), make([]float64, c.out)}
	f16 := strings.HasSuffix(kernel, "f16") && !strings.HasSuffix(kernel, "bf16")
	for block := range blocks {
		var a [16][16]float64
		var b [16][8]float64
		words := c.in[block*320:][:320]
		for lane := range 32 {
			g, t := lane/4, lane%4*2
			for i := range 12 { // halves of 4 words of A and 2 of B
				bits, value := element(rng, f16, exact)
				words[lane*10+i/2] |= uint32(bits) << (16 * (i % 2))
				if i < 8 {
					a[g+i/2%2*8][t+i%2+i/4*8] = value
				} else {
					b[t+i%2+(i-8)/2*8][g] = value
				}
			}
			for i := range 4 {
				words[lane*10+6+i] = math.Float32bits(startValue(rng, exact))
			}
		}
		for lane := range 32 {
			for i := range 4 {
				row, column := lane/4+i/2*8, lane%4*2+i%2
				s.add(block*128+lane*4+i, float64(math.Float32frombits(words[lane*10+6+i])), func(k int) float64 { return a[row][k] * b[k][column] }, 16)
			}
		}
	}
	if c.want = s.want; !exact {
		c.within = s.within
	}
	return c
}

func ldmatrixConformity(rng *rand.Rand) *conformity {
	const blocks = 8
	c := &conformity{name: "conform_ldmatrix", kernel: "conform_ldmatrix", blocks: blocks, threads: 32, out: blocks * 32 * 11}
	for range blocks {
		words, row := make([]uint32, 32*17), [32]int{}
		for lane := range 32 {
			for i := range 16 {
				words[lane*17+i] = rng.Uint32()
			}
			row[lane] = rng.IntN(128)
			words[lane*17+16] = uint32(row[lane])
		}
		half := func(row, i int) uint32 { // element i of a row of 8
			at := row*4 + i/2
			return words[at/16*17+at%16] >> (16 * (i % 2)) & 0xffff
		}
		for lane := range 32 {
			for i := range 11 {
				matrix := []int{0, 0, 1, 0, 1, 2, 3, 0, 1, 2, 3}[i]
				if i < 7 {
					at := row[matrix*8+lane/4]
					c.want = append(c.want, half(at, lane%4*2)|half(at, lane%4*2+1)<<16)
				} else {
					c.want = append(c.want, half(row[matrix*8+lane%4*2], lane/4)|half(row[matrix*8+lane%4*2+1], lane/4)<<16)
				}
			}
		}
		c.in = append(c.in, words...)
	}
	return c
}

func copyConformity(rng *rand.Rand) *conformity {
	const blocks = 4
	c := &conformity{name: "conform_copy", kernel: "conform_copy", blocks: blocks, threads: 32, out: blocks * 128}
	for i := range blocks * 32 {
		var bytes [16]byte
		for k := range bytes {
			bytes[k] = byte(1 + rng.IntN(255))
		}
		taken := i % 17
		for k := 0; k < 16; k += 4 {
			c.in = append(c.in, binary.LittleEndian.Uint32(bytes[k:]))
		}
		c.in = append(c.in, uint32(taken), 0, 0, 0)
		clear(bytes[taken:])
		for k := 0; k < 16; k += 4 {
			c.want = append(c.want, binary.LittleEndian.Uint32(bytes[k:]))
		}
	}
	return c
}

// shuffleConformity has clamps of all widths, the same for the lanes of a warp.
func shuffleConformity(rng *rand.Rand) *conformity {
	const blocks = 32
	c := &conformity{name: "conform_shuffle", kernel: "conform_shuffle", blocks: blocks, threads: 32, out: blocks * 320}
	for block := range blocks {
		width := 1 << (block % 6)
		clamp := uint32((32-width)<<8 | 31)
		if block%4 == 3 {
			clamp = uint32(rng.IntN(32)<<8 | rng.IntN(32))
		}
		for range 32 {
			c.in = append(c.in, rng.Uint32(), uint32(rng.IntN(32)), clamp)
		}
	}
	return c
}

// plainConformity has words of all kinds: special values, small and any numbers, any bits.
func plainConformity(rng *rand.Rand, kernel string, in, out, ulps int) *conformity {
	const blocks = 64
	c := &conformity{name: kernel, kernel: kernel, blocks: blocks, threads: 32, out: blocks * 32 * out, ulps: ulps}
	special := []uint32{0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 1, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0x3f808000,
		0x3f818000, 0x4f000000, 0xcf000000, 0x33000000, 0x477fe000, 0x477ff000, 0x38800000, 0x43e00000, 0xc3e00000, 0x7fffffff, 0xffffffff, 0x41200000, 0xc2fc0000}
	for range blocks * 32 * in {
		word := rng.Uint32()
		switch rng.IntN(4) {
		case 0:
			word = special[rng.IntN(len(special))]
		case 1:
			word = math.Float32bits(float32(rng.NormFloat64() * 20))
		case 2:
			word = math.Float32bits(float32(rng.IntN(201) - 100))
		}
		c.in = append(c.in, word)
	}
	return c
}

// boxConformity has corners inside of a tensor and across all its borders.
func boxConformity(rng *rand.Rand, i int) *conformity {
	box := &conformBox{described: driver.TensorBox{Size: [2]uint64{[]uint64{64, 200, 70, 64, 72, 8}[i], []uint64{40, 33, 7, 1, 20, 11}[i]}, Stride: []uint64{128, 416, 144, 128, 160, 16}[i],
		Box: [2]uint32{[]uint32{64, 64, 64, 64, 32, 8}[i], []uint32{64, 8, 16, 128, 24, 4}[i]}, Swizzle128: i < 4, ElementType: driver.BFloat16}}
	d := &box.described
	box.data = make([]byte, d.Stride*d.Size[1])
	for i := range box.data {
		box.data[i] = byte(rng.Uint32())
	}
	// Columns are multiples of 16 bytes: an H100 takes no others ("illegal instruction").
	end := int32(d.Size[0]+7) / 8 * 8
	corners := [][2]int32{{0, 0}, {-8, -3}, {end - 8, int32(d.Size[1]) - 2}, {end, 0}, {0, int32(d.Size[1])}, {-104, -200}, {16, 1}, {-64, 0}, {8, -1}}
	bytes := int(d.Box[0]*d.Box[1]) * 2
	c := &conformity{name: fmt.Sprint("conform_box-", i), kernel: "conform_box", blocks: uint32(len(corners)), threads: 128, shared: uint32(bytes), out: len(corners) * bytes / 4, box: box}
	for _, corner := range corners {
		c.in = append(c.in, uint32(corner[0]), uint32(corner[1]))
		room := make([]byte, bytes)
		for row := range int(d.Box[1]) {
			for column := range int(d.Box[0]) {
				x, y := int(corner[0])+column, int(corner[1])+row
				if x < 0 || y < 0 || x >= int(d.Size[0]) || y >= int(d.Size[1]) {
					continue
				}
				at := row*int(d.Box[0])*2 + column*2
				if d.Swizzle128 { // rows of 128 bytes: pieces of 16 change places by the row modulo 8
					at = row*128 + (column/8^row%8)*16 + column%8*2
				}
				copy(room[at:at+2], box.data[y*int(d.Stride)+2*x:])
			}
		}
		for k := 0; k < bytes; k += 4 {
			c.want = append(c.want, binary.LittleEndian.Uint32(room[k:]))
		}
	}
	return c
}

// wgmmaConformity lays out swizzled tiles, and fragments, as hopper.cuh says.
func wgmmaConformity(rng *rand.Rand, kernel string, exact bool) *conformity {
	tokens, registers := 128, !strings.Contains(kernel, "plain")
	if strings.HasSuffix(kernel, "_8") {
		tokens = 8
	}
	count, tiles := tokens/2, (tokens+64)*32
	size := tiles + 128*(16+count)
	const blocks = 2
	c := &conformity{name: kernel + map[bool]string{true: "-exact", false: "-random"}[exact], kernel: kernel, blocks: blocks, threads: 128, shared: uint32(4 * tiles), in: make([]uint32, blocks*size), out: blocks * 128 * count}
	s := sums{make([]uint32, c.out), make([]float64, c.out)}
	for block := range blocks {
		words := c.in[block*size:][:size]
		rows := make([][64]float64, tokens+64) // of B, then of A
		for row := range rows {
			for k := range 64 {
				bits, value := element(rng, false, exact)
				at := row*64 + (k/8^row%8)*8 + k%8
				words[at/2] |= uint32(bits) << (16 * (at % 2))
				rows[row][k] = value
			}
		}
		b, a := rows[:tokens], rows[tokens:]
		for thread := range 128 {
			own := words[tiles+thread*(16+count):][:16+count]
			row, lane := thread/32*16, thread%32
			for i := range 32 { // halves of four words for each of four steps
				bits, value := element(rng, false, exact)
				own[i/2] |= uint32(bits) << (16 * (i % 2))
				if registers {
					a[row+lane/4+i/2%2*8][i/8*16+lane%4*2+i%2+i/4%2*8] = value
				}
			}
			for i := range count {
				own[16+i] = math.Float32bits(startValue(rng, exact))
			}
		}
		for thread := range 128 {
			for i := range count {
				row, column := thread/32*16+thread%32/4+i/2%2*8, i/4*8+thread%4*2+i%2
				start := float64(math.Float32frombits(words[tiles+thread*(16+count)+16+i]))
				s.add((block*128+thread)*count+i, start, func(k int) float64 { return a[row][k] * b[column][k] }, 64)
			}
		}
	}
	if c.want = s.want; !exact {
		c.within = s.within
	}
	return c
}

// run launches the kernel.
func (c *conformity) run(r *rig) []uint32 {
	r.t.Helper()
	for _, module := range kernels.Modules() {
		if slices.Contains(module.Entries, c.kernel) && r.q.functions[c.kernel] == 0 {
			loaded, err := r.drv.ModuleLoad(module.PTX)
			r.must(err)
			r.q.modules[module.Name] = loaded
			r.q.functions[c.kernel], err = r.drv.GetFunction(loaded, c.kernel)
			r.must(err)
		}
	}
	in, out := upload(r, c.in), r.alloc(4*c.out)
	grid := driver.Dim3{X: c.blocks, Y: 1, Z: 1}
	if c.box == nil {
		launch(r.q, c.kernel, grid, c.threads, c.shared, &conformArgs{in, out})
		return download[uint32](r, out, c.out)
	}
	described := c.box.described
	described.Base = upload(r, c.box.data)
	box, err := r.drv.EncodeTensor(&described)
	r.must(err)
	launch(r.q, c.kernel, grid, c.threads, c.shared, &conformBoxArgs{box: box, corners: in, out: out, bytes: int32(c.shared)})
	return download[uint32](r, out, c.out)
}

// compare says where results differ by more than they may.
func (c *conformity) compare(got, want []uint32) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d words, want %d", len(got), len(want))
	}
	for i, v := range got {
		if v == want[i] {
			continue
		}
		x, y := float64(math.Float32frombits(v)), float64(math.Float32frombits(want[i]))
		if !(math.Abs(x-y) <= c.tolerance(i)) && !near(v, want[i], c.ulps) {
			return fmt.Errorf("word %d is %08x (%v), want %08x (%v)", i, v, x, want[i], y)
		}
	}
	return nil
}

// tolerance is how far a result may be off, beside a number of units in its last place.
func (c *conformity) tolerance(i int) float64 {
	switch {
	case c.within != nil:
		return c.within[i]
	case c.kernel == "conform_approximate" && i%5 == 4: // lg2, whose error is bounded so from 0.5 to 2 (PTX ISA)
		return 0x1p-22
	}
	return -1
}

// near says whether two float32 of the same sign are at most some units in the last place apart.
func near(a, b uint32, ulps int) bool {
	return a>>31 == b>>31 && a&0x7fffffff < 0x7f800000 && b&0x7fffffff < 0x7f800000 && max(a, b)-min(a, b) <= uint32(ulps)
}

// digest is what tells the inputs of a recording from others.
func (c *conformity) digest() []byte {
	sum := sha256.New()
	for _, v := range c.in {
		sum.Write(binary.LittleEndian.AppendUint32(nil, v))
	}
	if c.box != nil {
		fmt.Fprint(sum, c.box.described, c.box.data)
	}
	return sum.Sum(nil)
}

// encode makes a recording of results: the inputs' digest, then the words.
func (c *conformity) encode(got []uint32) []byte {
	data := c.digest()
	for _, v := range got {
		data = binary.LittleEndian.AppendUint32(data, v)
	}
	return data
}

// hold compares results with a recording.
func (c *conformity) hold(got []uint32, recording []byte) error {
	if len(recording) < sha256.Size || (len(recording)-sha256.Size)%4 != 0 {
		return fmt.Errorf("a recording of %d bytes is damaged", len(recording))
	}
	if !bytes.Equal(recording[:sha256.Size], c.digest()) {
		return errors.New("the recording is of other inputs: record again on a card")
	}
	want := make([]uint32, (len(recording)-sha256.Size)/4)
	for i := range want {
		want[i] = binary.LittleEndian.Uint32(recording[sha256.Size+4*i:])
	}
	recorded := *c
	recorded.within = nil // the emulator adds as the card does (arith.Dot)
	return recorded.compare(got, want)
}

// conformanceRig opens a card that has what a case needs, or skips the test.
func conformanceRig(t *testing.T, c *conformity) *rig {
	card := emu.Card{}
	if c.arch() == "90a" {
		card = emu.Card{Major: 9, SharedOptin: 232448}
	}
	r := newRigOn(t, card)
	if c.arch() == "90a" && os.Getenv("OSSIAN_CARD") == "cuda" {
		device, err := r.drv.DeviceGet(0)
		r.must(err)
		major, err := r.drv.DeviceAttribute(device, driver.ComputeMajor)
		r.must(err)
		if major != 9 {
			t.Skipf("the card has compute capability %d.x: %s is for 9.0", major, c.kernel)
		}
	}
	return r
}

// TestConformance holds instructions to their definitions, and the emulator to recordings of cards.
func TestConformance(t *testing.T) {
	var missing []string
	for _, c := range conformities() {
		t.Run(c.name, func(t *testing.T) {
			got := c.run(conformanceRig(t, c))
			if c.want != nil {
				if err := c.compare(got, c.want); err != nil {
					t.Errorf("by definition: %v", err)
				}
			}
			if folder := os.Getenv(conformanceEnv); folder != "" {
				if err := errors.Join(os.MkdirAll(folder, 0o777), os.WriteFile(filepath.Join(folder, c.name+".bin"), c.encode(got), 0o666)); err != nil {
					t.Error(err)
				}
				return
			}
			recording, err := os.ReadFile(filepath.Join(conformanceFolder, c.name+".bin"))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				missing = append(missing, c.name)
			case err != nil:
				t.Error(err)
			default:
				if err := c.hold(got, recording); err != nil {
					t.Errorf("as recorded on a card: %v", err)
				}
			}
		})
	}
	t.Run("recordings", func(t *testing.T) {
		if len(missing) > 0 {
			t.Skipf("%d of %d cases were not recorded on a card yet: OSSIAN_CARD=cuda %s=FOLDER records, the files belong in internal/cuda/%s", len(missing), len(conformities()), conformanceEnv, conformanceFolder)
		}
	})
}

// TestConformanceNotices holds the comparison with recordings to see every kind of difference.
func TestConformanceNotices(t *testing.T) {
	for _, c := range conformities() {
		if os.Getenv("OSSIAN_CARD") != "" && c.arch() != "80" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			got := c.run(conformanceRig(t, c))
			recording := c.encode(got)
			if err := c.hold(got, recording); err != nil {
				t.Fatalf("the same results: %v", err)
			}
			for i := 0; i < len(got); i += max(1, len(got)/50) {
				spoilt := slices.Clone(recording)
				spoilt[sha256.Size+4*i+3] ^= 0x44 // sign and exponent of a float32, much of everything else
				if c.hold(got, spoilt) == nil {
					t.Errorf("word %d differs, unnoticed", i)
				}
			}
			if c.hold(got, recording[:len(recording)-4]) == nil || c.hold(got, recording[:len(recording)-1]) == nil || c.hold(got, nil) == nil {
				t.Error("a shorter recording was not noticed")
			}
			c.in[0]++
			if err := c.hold(got, recording); err == nil || !strings.Contains(err.Error(), "other inputs") {
				t.Errorf("other inputs: %v", err)
			}
		})
	}
}
