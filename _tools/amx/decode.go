package main

import (
	"encoding/binary"
	"fmt"
)

// An operation is what an instruction for tiles does.
type operation int

const (
	configure operation = iota // LDTILECFG
	release                    // TILERELEASE
	zero                       // TILEZERO
	load                       // TILELOADD, TILELOADDT1
	store                      // TILESTORED
	pairs                      // TDPBF16PS
)

// An instruction is one for tiles, in a program's memory.
type instruction struct {
	op     operation
	length int // in bytes

	// tile is what is written or stored; of pairs the sums, left and right its factors.
	tile, left, right int

	// The address is base + index << scale + displacement; index is −1 where there is none. For
	// load and store, index holds the distance of rows and is no part of the address.
	base, index  int // numbers of registers, as in an encoding
	scale        uint
	displacement int64
}

// A form is how an operation is written: the VEX prefix's pp, the opcode in map 0F38, and whether an
// operand is in memory. See Intel's manual, volume 2, under the names of the operations.
type form struct {
	prefix, opcode byte
	memory         bool
}

var forms = map[form]operation{
	{0, 0x49, true}:  configure,
	{0, 0x49, false}: release,
	{3, 0x49, false}: zero,
	{3, 0x4b, true}:  load,
	{1, 0x4b, true}:  load,
	{2, 0x4b, true}:  store,
	{2, 0x5c, false}: pairs,
}

// decode reads the instruction for tiles with which code begins, which has to hold the longest: 11
// bytes.
func decode(code []byte) (instruction, error) {
	unknown := fmt.Errorf("no instruction for tiles that is known: % x", code)
	// VEX with three bytes: C4, then R X B (inverted) and the map, then W, vvvv (inverted), L and pp.
	if len(code) < 11 || code[0] != 0xc4 || code[1]&0x1f != 2 || code[2]&0x84 != 0 {
		return instruction{}, unknown
	}
	extendIndex, extendBase := int(^code[1]>>6&1)<<3, int(^code[1]>>5&1)<<3
	mode, reg, rm := code[4]>>6, int(code[4]>>3&7), int(code[4]&7)
	op, ok := forms[form{code[2] & 3, code[3], mode != 3}]
	if !ok {
		return instruction{}, unknown
	}
	in := instruction{op: op, length: 5, index: -1}
	if op != configure && op != release {
		in.tile = reg
	}
	if op == pairs {
		in.left, in.right = rm, int(^code[2]>>3&7)
	}
	if mode == 3 {
		return in, nil
	}
	in.base = rm | extendBase
	if rm == 4 { // a byte for scale, index and base follows
		sib := code[5]
		in.length, in.base, in.scale = 6, int(sib&7)|extendBase, uint(sib>>6)
		if index := int(sib>>3&7) | extendIndex; index != 4 {
			in.index = index
		}
	}
	switch {
	case mode == 1:
		in.displacement = int64(int8(code[in.length]))
		in.length++
	case mode == 2:
		in.displacement = int64(int32(binary.LittleEndian.Uint32(code[in.length:])))
		in.length += 4
	case in.base&7 == 5: // an address relative to the instruction, or none: our kernels have neither
		return instruction{}, unknown
	}
	return in, nil
}
