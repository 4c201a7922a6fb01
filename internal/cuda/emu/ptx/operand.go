package ptx

import (
	"strconv"
	"strings"

	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
	"ossian/internal/cuda/emu/flow"
)

// This file takes instructions apart: guard, opcode, modifiers, operands. Decoders ask for what
// they know; what nobody asked for is an error.

// instruction decodes one statement and appends it to the kernel.
func (p *parser) instruction(text string) {
	in := exec.Inst{Guard: -1, Line: p.line, Text: text}
	p.in, p.use = &in, flow.Use{}
	rest := text
	if strings.HasPrefix(rest, "@") {
		var guard string
		guard, rest, _ = strings.Cut(rest[1:], " ")
		in.Guard, in.Neg = p.pred(guard)
		rest = strings.TrimSpace(rest)
	}
	opcode, list, _ := strings.Cut(rest, " ")
	words := strings.Split(opcode, ".")
	p.op, p.mods, p.args = words[0], words[1:], operands(list)
	decode, ok := decoders[p.op]
	if !ok {
		p.fail("opcode %q is not known to the emulator: %s", p.op, text)
	}
	decode(p)
	if len(p.mods) > 0 {
		p.fail("modifier .%s of %s is not known to the emulator: %s", strings.Join(p.mods, "."), p.op, text)
	}
	if in.Run == nil && in.Try == nil && in.Kind != exec.Branch && in.Kind != exec.Leave {
		p.fail("the emulator has no such form of %s: %s", p.op, text)
	}
	p.k.Code = append(p.k.Code, in)
	p.uses = append(p.uses, p.use)
}

// operands splits at commas outside of brackets and braces, and drops spaces.
func operands(s string) (out []string) {
	s = strings.Join(strings.Fields(s), "")
	depth, from := 0, 0
	for i, c := range s {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, s[from:i])
				from = i + 1
			}
		}
	}
	if from < len(s) {
		out = append(out, s[from:])
	}
	return out
}

// want takes a number of operands, or fails.
func (p *parser) want(least, most int) {
	if len(p.args) < least || len(p.args) > most {
		p.fail("%s with %d operands", p.op, len(p.args))
	}
}

// has takes a modifier away and says whether it was there.
func (p *parser) has(mod string) bool {
	i := indexOf(p.mods, mod)
	if i < 0 {
		return false
	}
	p.mods = append(p.mods[:i:i], p.mods[i+1:]...)
	return true
}

// one takes away that one of several modifiers which is there; "" is none.
func (p *parser) one(mods ...string) string {
	for _, mod := range mods {
		if p.has(mod) {
			return mod
		}
	}
	return ""
}

// next takes the modifier that comes first.
func (p *parser) next() string {
	if len(p.mods) == 0 {
		p.fail("%s lacks a modifier", p.op)
	}
	mod := p.mods[0]
	p.mods = p.mods[1:]
	return mod
}

// last takes the modifier at the end: the type, mostly.
func (p *parser) last() string {
	if len(p.mods) == 0 {
		p.fail("%s lacks a type", p.op)
	}
	mod := p.mods[len(p.mods)-1]
	p.mods = p.mods[:len(p.mods)-1]
	return mod
}

// lastType takes a type of 8 to 64 bits from the end.
func (p *parser) lastType() (t string, bits int) {
	t = p.last()
	if bits = arith.TypeBits(t); bits < 8 {
		p.fail("type .%s of %s is not known", t, p.op)
	}
	return t, bits
}

// flowing is the number that package flow knows a register by. The kinds take turns, since all of them
// grow while a kernel is read.
func (p *parser) flowing(r reg) int {
	switch r.bits {
	case 1:
		return 3 * r.n
	case 64:
		return 3*r.n + 1
	}
	return 3*r.n + 2
}

func (p *parser) reads(r reg)  { p.use.Reads = append(p.use.Reads, p.flowing(r)) }
func (p *parser) writes(r reg) { p.use.Writes = append(p.use.Writes, p.flowing(r)) }

// lookup finds a register by its name.
func (p *parser) lookup(name string) (reg, bool) {
	for i := len(p.scopes) - 1; i >= 0; i-- {
		if r, ok := p.scopes[i].regs[name]; ok {
			return r, true
		}
	}
	return reg{}, false
}

// register finds a register of at least bits, exactly so unless wide.
func (p *parser) register(s string, bits int, wide bool) (reg, bool) {
	r, ok := p.lookup(s)
	if !ok {
		return r, false
	}
	if r.bits == 1 || (r.bits != max(bits, 16) && !(wide && r.bits > bits)) {
		p.fail("%s has %d bits, %s wants %d: %s", s, r.bits, p.op, bits, p.in.Text)
	}
	return r, true
}

// src returns the register of an operand that is read, one being made for constants and addresses.
// It is of the 64-bit file for bits = 64, else of the other.
func (p *parser) src(s string, bits int) int {
	if r, ok := p.register(s, bits, false); ok {
		p.reads(r)
		return r.n
	}
	if sym, ok := p.symbols[s]; ok {
		return p.symbolAddress(s, sym, bits)
	}
	if q, ok := p.params[s]; ok {
		if bits != 64 {
			p.fail("the address of parameter %s has 64 bits, not %d", s, bits)
		}
		return p.constant(constant{64, exec.ParamBase + uint64(q.at), false})
	}
	return p.constant(constant{bits, p.number(s, bits), false})
}

// moduleBase marks the addresses of variables of a module before it is loaded.
const moduleBase = uint64(1) << 59

// symbolAddress returns a register that holds where a variable is. Those of a module have no place
// before it is loaded.
func (p *parser) symbolAddress(name string, sym symbol, bits int) int {
	if sym.bytes > 0 {
		at := roundUp(p.k.Shared, sym.align)
		p.k.Shared = at + sym.bytes
		sym = symbol{space: sym.space, at: uint64(at)}
		p.symbols[name] = sym
	}
	if sym.space != "global" && sym.space != "const" {
		return p.constant(constant{bits, sym.at, sym.dynamic})
	}
	if bits != 64 {
		p.fail("the address of %s has 64 bits, not %d", name, bits)
	}
	n := p.constant(constant{64, moduleBase + uint64(sym.index), false})
	p.mod.places = append(p.mod.places, place{p.k, n, sym.index})
	return n
}

// wide returns a register of at least bits that is read, for instructions that allow it.
func (p *parser) wide(s string, bits int) reg {
	if r, ok := p.register(s, bits, true); ok {
		p.reads(r)
		return r
	}
	if bits < 16 {
		bits = 16
	}
	return reg{bits, p.src(s, bits)}
}

// dst returns the register of an operand that is written.
func (p *parser) dst(s string, bits int) int {
	r, ok := p.register(s, bits, false)
	if !ok {
		p.fail("%q is no register of %d bits", s, bits)
	}
	p.writes(r)
	return r.n
}

// dstWide returns a register of at least bits that is written.
func (p *parser) dstWide(s string, bits int) reg {
	r, ok := p.register(s, bits, true)
	if !ok {
		p.fail("%q is no register of %d bits or more", s, bits)
	}
	p.writes(r)
	return r
}

// result makes the instruction a pure one that writes its first operand.
func (p *parser) result(bits int) {
	if len(p.args) == 0 {
		p.fail("%s without operands", p.op)
	}
	p.in.Kind = exec.Pure32
	if bits == 64 {
		p.in.Kind = exec.Pure64
	}
	p.in.Dst = p.dst(p.args[0], bits)
}

// constant returns the register that holds a constant.
func (p *parser) constant(c constant) int {
	c.bits = max(c.bits, 16)
	if n, ok := p.consts[c]; ok {
		return n
	}
	n := p.fresh(c.bits).n
	p.consts[c] = n
	if c.bits == 64 {
		p.k.Regs64[n] = fill64(c.value)
	} else {
		p.k.Regs32[n] = fill32(uint32(c.value))
	}
	return n
}

// fresh makes a register; it starts as poison.
func (p *parser) fresh(bits int) reg {
	switch bits {
	case 1:
		p.k.Preds++
		return reg{1, p.k.Preds - 1}
	case 64:
		p.k.Regs64 = append(p.k.Regs64, fill64(0xdead_beef_dead_beef))
		return reg{64, len(p.k.Regs64) - 1}
	}
	poison := uint32(0xdead_beef)
	if bits == 16 {
		poison = 0xdead
	}
	p.k.Regs32 = append(p.k.Regs32, fill32(poison))
	return reg{bits, len(p.k.Regs32) - 1}
}

func fill32(v uint32) (l exec.Lanes32) {
	for i := range l {
		l[i] = v
	}
	return l
}

func fill64(v uint64) (l exec.Lanes64) {
	for i := range l {
		l[i] = v
	}
	return l
}

// pred returns a predicate that is read.
func (p *parser) pred(s string) (n int, neg bool) {
	s, neg = strings.CutPrefix(s, "!")
	r, ok := p.lookup(s)
	if !ok || r.bits != 1 {
		p.fail("%q is no predicate", s)
	}
	p.reads(r)
	return r.n, neg
}

// predDst returns a predicate that is written; -1 for "_".
func (p *parser) predDst(s string) int {
	if s == "_" {
		return -1
	}
	r, ok := p.lookup(s)
	if !ok || r.bits != 1 {
		p.fail("%q is no predicate", s)
	}
	p.writes(r)
	return r.n
}

// number reads a constant of so many bits.
func (p *parser) number(s string, bits int) uint64 {
	mask := ^uint64(0) >> (64 - max(bits, 8))
	for prefix, width := range map[string]int{"0f": 32, "0F": 32, "0d": 64, "0D": 64} {
		if hex, ok := strings.CutPrefix(s, prefix); ok && len(hex) == width/4 {
			v, err := strconv.ParseUint(hex, 16, width)
			if err != nil || width != bits {
				p.fail("constant %q where %d bits are wanted", s, bits)
			}
			return v
		}
	}
	if s == "WARP_SZ" {
		return 32
	}
	s = strings.TrimSuffix(s, "U")
	if v, err := strconv.ParseInt(s, 0, 64); err == nil && (v >= 0 || v >= -1<<(max(bits, 8)-1)) && (v < 0 || uint64(v) <= mask) {
		return uint64(v) & mask
	}
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil || v > mask {
		p.fail("operand %q is neither known nor a constant of %d bits", s, bits)
	}
	return v
}

// immediate reads a constant that is no register.
func (p *parser) immediate(s string) int { return int(int32(p.number(s, 32))) }

// vector splits {a, b}; a single operand is a vector of one.
func vector(s string) []string {
	if !strings.HasPrefix(s, "{") {
		return []string{s}
	}
	return operands(strings.Trim(s, "{}"))
}

// address reads an operand in brackets. Constants and names become registers.
func (p *parser) address(s string) (a exec.Address) {
	inner, opened := strings.CutPrefix(s, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !opened || !closed || inner == "" {
		p.fail("%q is no address", s)
	}
	if n := strings.LastIndexAny(inner, "+"); n > 0 {
		off, err := strconv.ParseInt(inner[n+1:], 0, 64)
		if err != nil {
			p.fail("offset of address %q", s)
		}
		a.Off, inner = uint64(off), inner[:n]
	}
	if r, ok := p.lookup(inner); ok {
		if r.bits < 32 {
			p.fail("register %s of %d bits as an address", inner, r.bits)
		}
		p.reads(r)
		a.Reg, a.Wide = r.n, r.bits == 64
		return a
	}
	a.Reg, a.Wide = p.src(inner, 64), true
	return a
}
