package main

import (
	"fmt"
	"math/bits"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// Neither avo nor Go's assembler knows VDPBF16PS, PREFETCHW and the instructions for tiles. They are
// written into the file by name, with the registers that avo has chosen, and encode replaces
// them by their bytes (Intel's manual, volume 2).

var unknown = regexp.MustCompile(`(?m)^\t(VDPBF16PS|PREFETCHW|LDTILECFG|TILELOADDT1|TILELOADD|TILESTORED|TILEZERO|TILERELEASE|TDP[A-Z0-9]+)\b *(.*)$`)

// encode writes the bytes of the instructions in an assembly file that the assembler
// does not know.
func encode(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text = unknown.ReplaceAllFunc(text, func(line []byte) []byte {
		m := unknown.FindSubmatch(line)
		op, operands := string(m[1]), strings.Split(string(m[2]), ", ")
		var code []byte
		switch op {
		case "VDPBF16PS":
			code = evexPairs(operands[0], vector(operands[1]), vector(operands[2]))
		case "PREFETCHW": // REX 0F 0D /1
			m := parse(operands[0])
			code = append([]byte{0x40 | m.index>>3<<1 | m.base>>3, 0x0f, 0x0d}, m.bytes(1, 1)...)
		default:
			code = vexTile(op, operands)
		}
		var out strings.Builder
		for i, b := range code {
			separator := "; "
			if i == 0 {
				separator = "\t"
			}
			fmt.Fprintf(&out, "%sBYTE $0x%02x", separator, b)
		}
		return fmt.Appendf(nil, "%s // %s", out.String(), strings.TrimSpace(string(line)))
	})
	return os.WriteFile(file, text, 0o644)
}

// vector returns the number of a vector register.
func vector(operand string) byte { return number(strings.TrimPrefix(operand, "Z")) }

func number(s string) byte {
	n, err := strconv.ParseUint(s, 0, 8)
	if err != nil {
		panic(err)
	}
	return byte(n)
}

// evexPairs is EVEX.512.F3.0F38.W0 52 /r: src is a register, or a pair in memory for all
// lanes.
func evexPairs(src string, other, dst byte) []byte {
	inverted := func(v byte, i int) byte { return ^v >> i & 1 }
	x, b, broadcast := byte(1), byte(1), byte(0)
	var tail []byte
	if m := parse(src); m != nil {
		broadcast = 1
		x, b, tail = inverted(m.index, 3), inverted(m.base, 3), m.bytes(dst&7, 4)
	} else {
		r := vector(src)
		x, b, tail = inverted(r, 4), inverted(r, 3), []byte{0xc0 | dst&7<<3 | r&7}
	}
	p0 := inverted(dst, 3)<<7 | x<<6 | b<<5 | inverted(dst, 4)<<4 | 2
	p1 := (^other&15)<<3 | 4 | 2
	p2 := byte(2<<5) | broadcast<<4 | inverted(other, 4)<<3
	return append([]byte{0x62, p0, p1, p2, 0x52}, tail...)
}

// vexTile is VEX.128.pp.0F38.W0 of an instruction for tiles; operands are as Go orders them,
// tiles numbers: source in memory, other, destination.
func vexTile(op string, operands []string) []byte {
	const none, p66, pF3, pF2 = 0, 1, 2, 3
	code := map[string][2]byte{"LDTILECFG": {none, 0x49}, "TILERELEASE": {none, 0x49}, "TILEZERO": {pF2, 0x49}, "TILELOADD": {pF2, 0x4b}, "TILELOADDT1": {p66, 0x4b}, "TILESTORED": {pF3, 0x4b},
		"TDPBF16PS": {pF3, 0x5c}, "TDPBSUD": {pF3, 0x5e}}[op]
	if code == [2]byte{} {
		panic("no encoding of " + op)
	}
	tile := func(i int) byte { return number(strings.TrimPrefix(operands[i], "$")) }
	vex := func(x, b, other byte) []byte { // x and b are the fourth bits of registers
		return []byte{0xc4, 1<<7 | (x^1)<<6 | (b^1)<<5 | 2, (^other&15)<<3 | code[0], code[1]}
	}
	switch op {
	case "TILERELEASE":
		return append(vex(0, 0, 0), 0xc0)
	case "TILEZERO":
		return append(vex(0, 0, 0), 0xc0|tile(0)<<3)
	case "LDTILECFG":
		m := parse(operands[0])
		return append(vex(m.index>>3, m.base>>3, 0), m.bytes(0, 1)...)
	case "TILELOADD", "TILELOADDT1":
		m := parse(operands[0])
		return append(vex(m.index>>3, m.base>>3, 0), m.bytes(tile(1), 1)...)
	case "TILESTORED":
		m := parse(operands[1])
		return append(vex(m.index>>3, m.base>>3, 0), m.bytes(tile(0), 1)...)
	}
	return append(vex(0, 0, tile(0)), 0xc0|tile(2)<<3|tile(1)) // B, A, C
}

// A memory is an operand disp(base)(index*scale).
type memory struct {
	disp        int32
	base, index byte // 4 is no index
	scale       byte
}

var inMemory = regexp.MustCompile(`^(-?\d*)\((\w+)\)(?:\((\w+)\*([1248])\))?$`)

// parse reads an operand; nil if it is none in memory.
func parse(operand string) *memory {
	m := inMemory.FindStringSubmatch(operand)
	if m == nil {
		return nil
	}
	out := &memory{base: general(m[2]), index: 4, scale: 1}
	if m[1] != "" {
		n, err := strconv.ParseInt(m[1], 10, 32)
		if err != nil {
			panic(err)
		}
		out.disp = int32(n)
	}
	if m[3] != "" {
		out.index, out.scale = general(m[3]), number(m[4])
	}
	return out
}

func general(name string) byte {
	for i, known := range []string{"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI"} {
		if name == known {
			return byte(i)
		}
	}
	return number(strings.TrimPrefix(name, "R"))
}

// bytes returns ModRM, SIB and a displacement, of 8 bits if it is a multiple of unit and
// small, else of 32.
func (m *memory) bytes(r byte, unit int32) []byte {
	sib := byte(bits.TrailingZeros8(m.scale))<<6 | m.index&7<<3 | m.base&7
	if short := m.disp / unit; m.disp%unit == 0 && short >= -128 && short < 128 {
		return []byte{0x40 | r<<3 | 4, sib, byte(short)}
	}
	return []byte{0x80 | r<<3 | 4, sib, byte(m.disp), byte(m.disp >> 8), byte(m.disp >> 16), byte(m.disp >> 24)}
}
