package cost

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/lab/predict/machine"
)

// A Card is what kernels meet of an accelerator: the rates of its data sheet (predict/machine) and
// the parts that work is divided among.
type Card struct {
	Name      string
	Bandwidth float64 // bytes of memory per second
	BF16      float64 // dense FLOP/s with bf16 operands and float32 sums
	chip
}

// A chip is the part of a data sheet that no other part of the lab needs.
type chip struct {
	Multiprocessors int
	Clock           float64 // Hz, at which BF16 is stated
	Cache           float64 // bytes of the second-level cache
	Shared          int     // bytes of shared memory of a multiprocessor
	Threads         int     // that a multiprocessor holds at most
	// Sync is the share of BF16 that mma.sync can reach, which is the whole where it is the card's own
	// instruction. Hopper's is wgmma, beside which mma.sync is said to reach 0.6 (cuda.md 7.2, 13). That
	// of the B200 is not known here: taken is what a multiprocessor of an A100 does per clock, a quarter.
	Sync float64
	// Warpgroups says that package cuda's products by warpgroups run: on compute capability 9.0.
	Warpgroups bool
}

// Facts of a multiprocessor that all these cards have in common (compute capabilities 8.0 to 12.0).
const (
	registers  = 65536 // 32-bit, of a multiprocessor
	mostBlocks = 24    // that it holds; 32 on some
	schedulers = 4     // warp instructions that it issues in a clock
	// cacheBytes is what the second-level cache gives to a multiprocessor in a clock. NVIDIA states
	// 5,120 bytes for the 108 of an A100 ("A100 Tensor Core GPU Architecture", 2020), and nothing for
	// later cards, which are taken to be alike.
	cacheBytes = 5120.0 / 108
)

// chips are from NVIDIA's architecture papers (A100 2020, H100 2022, Ada 2022, RTX Blackwell 2025). Clocks
// are those with which multiprocessors × operations per clock make the data sheet's BF16.
var chips = map[string]chip{
	"A100-SXM4-80G": {108, 1.410e9, 40 << 20, 164 << 10, 2048, 1, false},
	"A100-SXM4-40G": {108, 1.410e9, 40 << 20, 164 << 10, 2048, 1, false},
	"A100-PCIE-80G": {108, 1.410e9, 40 << 20, 164 << 10, 2048, 1, false},
	"H100-SXM":      {132, 1.830e9, 50 << 20, 228 << 10, 2048, 0.6, true},
	"H200":          {132, 1.830e9, 50 << 20, 228 << 10, 2048, 0.6, true},
	"B200":          {148, 1.856e9, 126 << 20, 228 << 10, 2048, 0.25, false},
	"RTX-PRO-6000":  {188, 2.617e9, 128 << 20, 100 << 10, 1536, 1, false},
	"L40S":          {142, 2.490e9, 96 << 20, 100 << 10, 1536, 1, false},
}

// CardOf returns the card of a machine. The error names those whose multiprocessors are known.
func CardOf(m machine.Machine) (Card, error) {
	found, ok := chips[m.Name]
	if !ok {
		var names []string
		for name := range chips {
			names = append(names, name)
		}
		slices.Sort(names)
		return Card{}, fmt.Errorf("the multiprocessors of %s are not known, so that its kernels' work cannot be divided; there are %s", m.Name, strings.Join(names, ", "))
	}
	return Card{Name: m.Name, Bandwidth: m.Bandwidth.Value, BF16: m.BF16.Value, chip: found}, nil
}

// resident is how many blocks of w a multiprocessor holds at once.
func (c *Card) resident(w *Work) float64 {
	blocks := min(mostBlocks, c.Threads/w.Threads, c.Shared/(w.SharedBytes+1<<10))
	if w.Registers > 0 {
		perWarp := (w.Registers*32 + 255) &^ 255
		blocks = min(blocks, registers/(perWarp*w.Threads/32))
	}
	return math.Max(float64(blocks), 1)
}
