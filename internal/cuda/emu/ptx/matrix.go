package ptx

import (
	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
)

// This file is what feeds the tensor cores and what they do: cp.async, ldmatrix, mma.

// cp is cp.async and its groups.
func (p *parser) cp() {
	if !p.has("async") {
		return
	}
	p.in.Kind = exec.Effect
	switch {
	case p.has("bulk"):
		p.bulk()
	case p.has("commit_group"):
		p.want(0, 0)
		p.in.Run = func(w *exec.Warp, m uint32) {
			w.Commit(m)
		}
	case p.has("wait_group"):
		p.want(1, 1)
		n := p.immediate(p.args[0])
		p.in.Run = func(w *exec.Warp, m uint32) {
			w.Settle(m, n)
		}
	case p.has("wait_all"):
		p.want(0, 0)
		p.in.Run = func(w *exec.Warp, m uint32) {
			w.Commit(m)
			w.Settle(m, 0)
		}
	default:
		p.copyAsync()
	}
}

// copyAsync is the copy itself.
func (p *parser) copyAsync() {
	p.one("ca", "cg")
	p.one("shared", "shared::cta")
	if !p.has("global") {
		return
	}
	for _, hint := range cacheHints {
		p.has(hint)
	}
	p.want(3, 4)
	dst, src := p.address(p.args[0]), p.address(p.args[1])
	bytes, take := p.immediate(p.args[2]), -1
	if len(p.args) > 3 {
		take = p.src(p.args[3], 32)
	}
	if bytes != 4 && bytes != 8 && bytes != 16 {
		p.fail("a copy of %d bytes: 4, 8 and 16 are possible", bytes)
	}
	p.k.Grain = min(p.k.Grain, bytes)
	site, line := p.site(false, false), p.line
	p.in.Run = func(w *exec.Warp, m uint32) {
		w.TrafficTaken(&src, bytes, take, m)
		w.Banks(&dst, bytes, m)
		for lane := range 32 {
			if m>>lane&1 == 0 {
				continue
			}
			c := exec.AsyncCopy{Lane: lane, Site: site, Dst: dst.Of(w, lane), Src: src.Of(w, lane), Bytes: bytes, Take: bytes, Line: line}
			if take >= 0 {
				c.Take = min(int(w.R[take][lane]), bytes)
			}
			w.Depart(c)
		}
	}
}

// ldmatrix loads 8×8 matrices of 16 bits; lane i of each eight gives the address of a row.
func (p *parser) ldmatrix() {
	if !p.has("sync") || !p.has("aligned") || !p.has("m8n8") {
		p.fail("form of ldmatrix is not known: %s", p.in.Text)
	}
	trans := p.has("trans")
	count := map[string]int{"x1": 1, "x2": 2, "x4": 4}[p.one("x1", "x2", "x4")]
	p.one("shared", "shared::cta")
	p.has("b16")
	p.want(2, 2)
	parts := vector(p.args[0])
	if len(parts) != count {
		p.fail("%d registers for %d matrices", len(parts), count)
	}
	var dst []int
	for _, s := range parts {
		dst = append(dst, p.dst(s, 32))
	}
	a := p.address(p.args[1])
	p.in.Kind = exec.Effect
	p.in.Run = func(w *exec.Warp, m uint32) {
		w.All(m)
		var out [4]exec.Lanes32
		for k := range dst {
			var rows [8][]byte
			for i := range rows {
				rows[i] = w.SharedRead(k*8+i, a.Of(w, k*8+i), 16)
			}
			w.Banks(&a, 16, 0xff<<(8*k))
			for lane := range 32 {
				if trans {
					from := lane / 4 * 2
					out[k][lane] = uint32(le.Uint16(rows[lane%4*2][from:])) | uint32(le.Uint16(rows[lane%4*2+1][from:]))<<16
				} else {
					out[k][lane] = le.Uint32(rows[lane/4][lane%4*4:])
				}
			}
		}
		for k, d := range dst {
			w.R[d] = out[k]
		}
	}
}

// mma multiplies a matrix of 16 rows with one of 8 columns and adds a third.
func (p *parser) mma() {
	p.has("sync")
	p.has("aligned")
	shape := p.one("m16n8k16", "m16n8k8")
	if !p.has("row") || !p.has("col") || shape == "" {
		p.fail("form of mma is not known: %s", p.in.Text)
	}
	types := [4]string{p.next(), p.next(), p.next(), p.next()}
	if types[0] != "f32" || types[3] != "f32" || types[1] != types[2] || (types[1] != "f16" && types[1] != "bf16") {
		p.fail("types of mma are not known: %s", p.in.Text)
	}
	deep := 2
	if shape == "m16n8k8" {
		deep = 1
	}
	p.want(4, 4)
	d, a, b, c := p.list(p.args[0], 4, p.dst), p.list(p.args[1], 2*deep, p.src), p.list(p.args[2], deep, p.src), p.list(p.args[3], 4, p.src)
	kind := shape + "." + types[1]
	half := types[1] == "f16"
	p.in.Kind = exec.Effect
	p.in.Run = func(w *exec.Warp, m uint32) {
		w.All(m)
		f := arith.Factors{Half: half}
		for k, r := range a {
			f.Take(&w.R[r], k&1, k>>1*8)
		}
		for k, r := range b {
			f.Take(&w.R[r], 2, 8*k)
		}
		var out [4]exec.Lanes32 // registers of c may be others of d
		for k := range out {
			out[k] = f.Add(k, &w.R[c[k]])
		}
		for k, r := range d {
			w.R[r] = out[k]
		}
		w.Block.Count.Multiplied(kind, 1)
	}
}

// list looks up n registers in braces.
func (p *parser) list(s string, n int, find func(s string, bits int) int) (regs []int) {
	for _, part := range vector(s) {
		regs = append(regs, find(part, 32))
	}
	if len(regs) != n {
		p.fail("%d registers, not %d: %s", len(regs), n, p.in.Text)
	}
	return regs
}
