// Package cpu runs the decoder on the processor. Callers need not know weight
// layouts, threads, instruction sets or how keys and values lie in memory.
//
// Results are batch invariant (models.md 5.1): the logits of a sequence have the
// same bits alone and in any batch, whole and in chunks, with any number of
// threads, whatever blocks hold its keys and values and whichever vector instructions of the
// machine compute. Portable Go rounds some sums otherwise, and the precision of activations
// counts, which is why both are in Name; the type of cached keys and values moves them too,
// machines sum products of BF16 in one of two orders (kern/bf16.go), and those with tiles round
// what attention multiplies (attendtiles.go).
//
// Workers spin for a short while between operations. A program that must stay
// responsive meanwhile sets GOMAXPROCS to the number of threads + 1; this package
// never changes it.
package cpu

import (
	"fmt"
	"runtime"
	"slices"

	"ossian/internal/cpu/kern"
	"ossian/internal/model"
	"ossian/internal/tensor"
)

// Config is how a device uses the machine. The zero value is the fastest.
type Config struct {
	Threads int          // workers, the goroutine that launches included; 0 = as many as the process may run
	ISA     string       // instruction set: "go", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm"; "" = the best that the machine has
	Fewer   []int        // smaller numbers of threads that Choose may find faster
	KV      tensor.DType // type of cached keys and values: BF16, F32 or F8_E4M3; Invalid = BF16
	// Bits of the activations that meet quantised weights: 8; 16, which costs twice
	// the arithmetic and no bytes; 0 = 8 for weights that are quantised in the checkpoint,
	// 16 for those that Weights rounds and for narrow models. With 16, and in narrow
	// models, BF16 weights meet float32, else BF16.
	Activations int
	// What becomes of BF16, F16 and F32 matrices: "bf16", nothing; "q8", 8 bits with a
	// scale for each 32, except routers, which choose experts by small differences; ""
	// or "auto", the attention and output projections of mixtures in 8 bits unless the
	// model is narrow or Exact is set.
	Weights string
	Fetch   kern.Fetch // how memory is asked for weights; zero = the processor's way, or what Choose measures
	Exact   bool       // float32 activations with quantised weights instead of int8 ones: slow, for comparisons with references
	Packed  *Packed    // what is repacked lies, or will, in a file; nil = in memory
}

// resolve fills in what zero fields stand for.
func (c Config) resolve() (Config, kern.Options, error) {
	opt := kern.Options{Level: kern.Detect(), Exact: c.Exact}
	if c.ISA != "" {
		levels := kern.Levels()
		at := slices.IndexFunc(levels, func(level kern.Level) bool { return level.String() == c.ISA })
		if at < 0 {
			return c, opt, fmt.Errorf("cpu: instruction set %q (OSSIAN_ISA): this machine and build have %v", c.ISA, levels)
		}
		opt.Level = levels[at]
	}
	if c.Threads < 0 || c.Threads > 1<<10 {
		return c, opt, fmt.Errorf("cpu: %d threads, outside [0, 1024]", c.Threads)
	}
	if c.Threads == 0 {
		// NumCPU follows the affinity mask, GOMAXPROCS the quota of the control group.
		c.Threads = min(runtime.NumCPU(), runtime.GOMAXPROCS(0))
	}
	if c.KV == tensor.Invalid {
		c.KV = tensor.BF16
	}
	if c.KV != tensor.BF16 && c.KV != tensor.F32 && c.KV != tensor.F8_E4M3 {
		return c, opt, fmt.Errorf("cpu: keys and values as %v; BF16, F32 or F8_E4M3 expected", c.KV)
	}
	if c.Activations != 0 && c.Activations != 8 && c.Activations != 16 {
		return c, opt, fmt.Errorf("cpu: activations in %d bits, 8 or 16 expected (0 = by the type of the weights)", c.Activations)
	}
	if c.Weights == "" {
		c.Weights = "auto"
	}
	if c.Weights != "auto" && c.Weights != "bf16" && c.Weights != "q8" {
		return c, opt, fmt.Errorf("cpu: weights as %q (--cpu-weights): auto, bf16 or q8 expected", c.Weights)
	}
	if opt.Fetch = c.Fetch; opt.Fetch == (kern.Fetch{}) {
		opt.Fetch = opt.Level.Fetches()[0]
	}
	return c, opt, nil
}

// options returns how the matrix t is kept and computed.
func (d *Device) options(t *tensor.Tensor) kern.Options {
	opt := d.opt
	block, _ := t.DType.Block()
	opt.Fine, opt.Q8 = d.fine(block > 1), d.eightBits(t)
	opt.BF16 = d.rounds() && !d.router(t)
	return opt
}

// fine reports whether matrices meet activations in 15 bits; stored are those that are
// quantised in the checkpoint.
func (d *Device) fine(stored bool) bool {
	return d.cfg.Activations == 16 || (d.cfg.Activations == 0 && (d.spec.Hidden < narrow || !stored))
}

// ActivationBits returns in how many bits activations meet the matrices that a checkpoint has
// quantised: 8, 16, or 32 with Exact; 0 = none of them are quantised.
func (c Config) ActivationBits(spec *model.Spec, params map[string]tensor.Tensor) int {
	for _, parameter := range params {
		if block, _ := parameter.DType.Block(); block <= 1 {
			continue
		}
		device := Device{cfg: c, spec: spec}
		switch {
		case c.Exact:
			return 32
		case device.fine(true):
			return 16
		}
		return 8
	}
	return 0
}

// BestISA is the widest instruction set that this machine and build have.
func BestISA() string { return kern.Detect().String() }

// rounds reports whether BF16 matrices meet activations in BF16.
func (d *Device) rounds() bool { return d.spec.Hidden >= narrow && d.cfg.Activations != 16 }

// eightBits reports whether the matrix t, if it has floats, is kept in 8 bits.
func (d *Device) eightBits(t *tensor.Tensor) bool {
	ffn := &d.spec.FFN
	block, _ := t.DType.Block()
	if block > 1 || t.Cols()%32 != 0 || d.router(t) {
		return false
	}
	projection := ffn.Experts > 0 && len(t.Shape) == 2 && d.spec.Hidden >= narrow && !d.cfg.Exact
	return d.cfg.Weights == "q8" || (d.cfg.Weights == "auto" && projection)
}

// router reports whether the matrix t chooses experts.
func (d *Device) router(t *tensor.Tensor) bool {
	experts := d.spec.FFN.Experts
	return experts > 0 && len(t.Shape) == 2 && t.Rows() == experts
}

// narrow is the hidden size below which sums are too short for the errors of 8 bits to
// average out: with 256, they cost a KL divergence of 0.012 in an early ossian-tiny. Such a
// model is fast either way.
const narrow = 1024
