package cuda

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu"
	"ossian/internal/tensor"
)

// newHopper is newRig on a card of compute capability 9.0, or skips the test on another real one.
func newHopper(t *testing.T) *rig {
	t.Helper()
	r := newRigOn(t, emu.Card{Major: 9, SharedOptin: 232448})
	if r.major() != 9 {
		t.Skip("this card is no Hopper")
	}
	return r
}

// major is the compute capability of the rig's card.
func (r *rig) major() int {
	r.t.Helper()
	device, err := r.drv.DeviceGet(0)
	r.must(err)
	major, err := r.drv.DeviceAttribute(device, driver.ComputeMajor)
	r.must(err)
	return major
}

// TestHopperNeedsItsDriver: a driver that cannot read code for Hopper has the card compute as others do.
func TestHopperNeedsItsDriver(t *testing.T) {
	for _, test := range []struct {
		version, major int
		want           bool
	}{{11080, 9, false}, {12000, 9, true}, {13000, 9, true}, {13000, 8, false}, {13000, 10, false}} {
		drv := &driver.Driver{Version: func() (int, error) { return test.version, nil }}
		if got := (&card{drv: drv, about: Card{Major: test.major}}).hopper(); got != test.want {
			t.Errorf("CUDA %d, compute capability %d: %v, want %v", test.version, test.major, got, test.want)
		}
	}
}

// warpgroupTiles returns the tiles that there are kernels for; the one of a mutant's kernel, since it
// changes no other.
func warpgroupTiles() []int {
	tiles := []int{32, 64, 128}
	for i, tile := range tiles {
		if strings.HasPrefix(planted, "wgmma_") && strings.HasSuffix(planted, fmt.Sprintf("_%d", tile)) {
			return tiles[i : i+1]
		}
	}
	return tiles
}

// TestWarpgroups compares products by warpgroups with float64, and with the bits of mma.sync: whether
// wgmma adds in the same order is for a card to say, and an H100 has said so.
func TestWarpgroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for _, dtype := range []tensor.DType{tensor.MXFP4HF, tensor.BF16} {
		// Fewer units than are in flight and more, a rest of groups, every number of chunks. 18 units fill
		// each stage of a turn with either parity of its barriers, in blocks of either order of warps.
		// 18 tiles of 32 tokens are more than pass rows together. There are whole tiles, and one that is not full.
		for _, shape := range [][3]int{{72, 1120, 131}, {40, 96, 131}, {136, 544, 131}, {136, 64, 571}} {
			rows, cols, most := shape[0], shape[1], shape[2]
			t.Run(fmt.Sprintf("%v/%dx%d", dtype, rows, cols), func(t *testing.T) {
				r := newHopper(t)
				source, weights := encoded(t, dtype, normals(rng, rows*cols, 1), rows, cols)
				w, bias := onCard(r, source, false), normals(rng, rows, 1)
				x, biasAt := newActivations(r, normals(rng, most*cols, 1), cols), upload(r, bias)
				plain := runLinear(r, x, w, biasAt, most)
				r.q.hopper = true
				for _, r.q.tile = range warpgroupTiles() {
					for token, row := range runLinear(r, x, w, biasAt, most) {
						sameBits(t, fmt.Sprintf("tiles of %d beside mma.sync, token %d", r.q.tile, token), row, plain[token])
					}
				}
				for token, row := range plain {
					want, bound := make([]float64, rows), make([]float64, rows)
					for i := range want {
						want[i], bound[i] = product(weights[i*cols:][:cols], x.rows[token], float64(bias[i]))
					}
					compare(t, fmt.Sprint("token ", token), row, want, bound)
				}
				for i, row := range runLinear(r, x.from(most-65), w, biasAt, 65) { // behind which nothing is to be read
					sameBits(t, fmt.Sprintf("token %d of 65", i), row, plain[most-65+i])
				}
			})
		}
	}
}

// TestExpertsByWarpgroups compares experts by warpgroups with the bits of those by mma.sync.
func TestExpertsByWarpgroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	for _, test := range []struct {
		dtype                        tensor.DType
		hidden, inner, experts, topK int
		activation                   int32
		tokens                       int
		use                          string // of the product that it is for; "": both
	}{
		// 18 units in two blocks, for each product: see TestWarpgroups.
		{tensor.MXFP4HF, 1120, 96, 2, 1, silu, 40, "up"},
		{tensor.MXFP4HF, 160, 1120, 2, 1, silu, 40, "down"},
		{tensor.BF16, 1112, 72, 2, 1, swigluLimited, 40, "up"},
		{tensor.BF16, 136, 1096, 2, 1, swigluLimited, 40, "down"},
		{tensor.MXFP4HF, 352, 96, 4, 2, swigluLimited, 51, ""},
		{tensor.BF16, 40, 20, 3, 2, swigluLimited, 140, ""},
		{tensor.BF16, 520, 72, 3, 2, silu, 38, ""},
	} {
		t.Run(fmt.Sprintf("%v/%dx%d", test.dtype, test.hidden, test.inner), func(t *testing.T) {
			if strings.HasPrefix(planted, "wgmma_") && !strings.HasPrefix(planted, "wgmma_"+test.use) {
				t.Skip("the mutant is in a kernel that others are for")
			}
			r := newHopper(t)
			m := newMixtureOf(r, rng, test.dtype, test.hidden, test.inner, test.experts, test.activation, true)
			x := newActivations(r, normals(rng, test.tokens*test.hidden, 1), test.hidden)
			a := newAssigned(rng, test.tokens, test.experts, test.topK)
			plain := m.run(r, x, a, 0, test.tokens)
			r.q.hopper = true
			for _, r.q.tile = range warpgroupTiles() {
				for i, row := range m.run(r, x, a, 0, test.tokens) {
					sameBits(t, fmt.Sprintf("tiles of %d, token %d", r.q.tile, i), row, plain[i])
				}
			}
		})
	}
}
