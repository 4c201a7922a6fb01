package ptx

import (
	"fmt"
	"strconv"
	"strings"

	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
	"ossian/internal/cuda/emu/flow"
)

// This file is wgmma: products by warpgroups. That no register of one is touched while it is under way
// is settled when a kernel is read (package flow).

// wgmma is the product itself and what orders products.
func (p *parser) wgmma() {
	p.since(90, true)
	what := p.next()
	if !p.has("sync") || !p.has("aligned") {
		p.fail("wgmma without .sync.aligned: %s", p.in.Text)
	}
	p.in.Kind = exec.Effect
	p.k.Async = true
	switch what {
	case "fence":
		p.want(0, 0)
		p.steps[len(p.k.Code)] = flow.Step{Kind: flow.Fence}
		p.in.Run = func(w *exec.Warp, m uint32) { w.All(m) }
	case "commit_group":
		p.want(0, 0)
		p.steps[len(p.k.Code)] = flow.Step{Kind: flow.Commit}
		p.in.Run = func(w *exec.Warp, m uint32) { w.CommitProducts(m) }
	case "wait_group":
		p.want(1, 1)
		n := p.immediate(p.args[0])
		if n < 0 || n > 7 {
			p.fail("wgmma.wait_group %d: 0 to 7 are possible", n)
		}
		p.steps[len(p.k.Code)] = flow.Step{Kind: flow.Wait, Keep: n}
		p.in.Run = func(w *exec.Warp, m uint32) { w.WaitProducts(m, n) }
	case "mma_async":
		p.asyncProduct()
	default:
		p.fail("wgmma.%s is not known to the emulator: %s", what, p.in.Text)
	}
}

// asyncProduct is wgmma.mma_async of 16-bit floats with sums of float32.
func (p *parser) asyncProduct() {
	shape := p.next()
	text, ok := strings.CutPrefix(shape, "m64n")
	text, deep := strings.CutSuffix(text, "k16")
	n, err := strconv.Atoi(text)
	if !ok || !deep || err != nil || n < 8 || n > 256 || n%8 != 0 {
		p.fail("shape %s of wgmma is not known: %s", shape, p.in.Text)
	}
	sum, a, b := p.next(), p.next(), p.next()
	if sum != "f32" || a != b || (a != "bf16" && a != "f16") {
		p.fail("types of wgmma are not known: %s", p.in.Text)
	}
	registers := strings.HasPrefix(p.args[1], "{")
	operands := 8 // sums, A, B, scale-d, signs of A and B, transpositions
	if registers {
		operands = 7
	}
	p.want(operands, operands)
	product := &exec.Product{BDesc: p.src(p.args[2], 64), Widen: arith.Halves(a), Kind: fmt.Sprintf("wgmma.%s.%s", shape, a)}
	product.Sums = p.list(p.args[0], n/2, p.dst)
	for _, s := range vector(p.args[0]) {
		p.src(s, 32) // they are read, too
	}
	if registers {
		product.A = p.list(p.args[1], 4, p.src)
	} else {
		product.ADesc = p.src(p.args[1], 64)
	}
	p.scale(product, p.args[3])
	product.NegA, product.NegB = p.sign(p.args[4]), p.sign(p.args[5])
	for _, transposed := range p.args[6:] {
		if transposed != "0" {
			p.fail("transposed operands of wgmma are not known to the emulator: %s", p.in.Text)
		}
	}
	s := flow.Step{Kind: flow.Product, Set: p.args[0]}
	for _, r := range product.Sums {
		s.Sums = append(s.Sums, p.flowing(reg{32, r}))
	}
	for _, r := range product.A {
		s.A = append(s.A, p.flowing(reg{32, r}))
	}
	p.steps[len(p.k.Code)] = s
	p.in.Run = func(w *exec.Warp, m uint32) { w.BeginProduct(product, m) }
}

// scale reads whether the product is added to what there is: a constant or a predicate.
func (p *parser) scale(product *exec.Product, s string) {
	product.Scale = -1
	switch s {
	case "0", "1":
		product.Add = s == "1"
	default:
		product.Scale, product.Negated = p.pred(s)
	}
}

// sign reads 1 or -1; true: negative.
func (p *parser) sign(s string) bool {
	if s != "1" && s != "-1" {
		p.fail("%q is neither 1 nor -1", s)
	}
	return s == "-1"
}
