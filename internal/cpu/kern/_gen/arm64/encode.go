package main

import "fmt"

// Instructions that Go's assembler does not know are written as words. An instruction is its
// bits with all registers 0 and the arrangements of its operands, as Arm's manual names them
// (Arm Architecture Reference Manual for A-profile, C7.2). Register fields are the same in all:
// destination from bit 0, first source from bit 5, second from bit 16.

// A vec is a vector register, 0 to 31.
type vec int

// An instruction has a destination and one or two sources.
type instruction struct {
	bits    uint32
	d, n, m string // arrangements; m is "" with one source
}

var instructions = map[string]instruction{
	// float32
	"fadd":    {0x4e20d400, "4s", "4s", "4s"},
	"fsub":    {0x4ea0d400, "4s", "4s", "4s"},
	"fmul":    {0x6e20dc00, "4s", "4s", "4s"},
	"fdiv":    {0x6e20fc00, "4s", "4s", "4s"},
	"fmax":    {0x4e20f400, "4s", "4s", "4s"},
	"fmin":    {0x4ea0f400, "4s", "4s", "4s"},
	"fmaxnm":  {0x4e20c400, "4s", "4s", "4s"},
	"faddp":   {0x6e20d400, "4s", "4s", "4s"},
	"fcmgt":   {0x6ea0e400, "4s", "4s", "4s"},
	"fcmeq":   {0x4e20e400, "4s", "4s", "4s"},
	"fneg":    {0x6ea0f800, "4s", "4s", ""},
	"frintn":  {0x4e218800, "4s", "4s", ""},
	"fcvtns":  {0x4e21a800, "4s", "4s", ""},
	"scvtf":   {0x4e21d800, "4s", "4s", ""},
	"fcvtl":   {0x0e217800, "4s", "4h", ""},
	"fcvtl2":  {0x4e217800, "4s", "8h", ""},
	"fmaxnmv": {0x6e30c800, "s", "4s", ""},
	// integers
	"bic":     {0x4e601c00, "16b", "16b", "16b"},
	"mul":     {0x4ea09c00, "4s", "4s", "4s"},
	"mla":     {0x4ea09400, "4s", "4s", "4s"},
	"addp":    {0x4ea0bc00, "4s", "4s", "4s"},
	"addv":    {0x4eb1b800, "s", "4s", ""},
	"umaxv":   {0x6eb0a800, "s", "4s", ""},
	"smull":   {0x0e20c000, "8h", "8b", "8b"},
	"smull2":  {0x4e20c000, "8h", "16b", "16b"},
	"smlal":   {0x0e208000, "8h", "8b", "8b"},
	"smlal2":  {0x4e208000, "8h", "16b", "16b"},
	"saddlp":  {0x4e602800, "4s", "8h", ""},
	"sadalp":  {0x4e606800, "4s", "8h", ""},
	"sxtl8h":  {0x0f08a400, "8h", "8b", ""},
	"sxtl28h": {0x4f08a400, "8h", "16b", ""},
	"sxtl4s":  {0x0f10a400, "4s", "4h", ""},
	"sxtl24s": {0x4f10a400, "4s", "8h", ""},
	"shll":    {0x2e613800, "4s", "4h", ""}, // by 16
	"shll2":   {0x6e613800, "4s", "8h", ""},
	// products of int8: dot products of four (FEAT_DotProd), 2 rows by 2 of eight (FEAT_I8MM)
	"usmmla": {0x4e80ac00, "4s", "16b", "16b"},
	"sdot":   {0x4e809400, "4s", "16b", "16b"},
	// BF16 (FEAT_BF16)
	"bfmlalb": {0x2ec0fc00, "4s", "8h", "8h"},
}

// lanewise are instructions whose second source is one 32-bit lane of a register.
var lanewise = map[string]instruction{
	"fmul": {0x4f809000, "4s", "4s", "s"},
	"fmla": {0x4f801000, "4s", "4s", "s"},
	"sdot": {0x4f80e000, "4s", "16b", "4b"},
}

// halfwise are instructions whose second source is one 16-bit lane: of each pair of BF16 the odd
// element, or the even one, times that (FEAT_BF16).
var halfwise = map[string]instruction{
	"bfmlalt": {0x4fc0f000, "4s", "8h", "h"},
	"bfmlalb": {0x0fc0f000, "4s", "8h", "h"},
}

// aliases are the names and further operands that assemblers want where ours tell arrangements
// apart.
var aliases = map[string][2]string{
	"sxtl8h": {"sxtl", ""}, "sxtl28h": {"sxtl2", ""}, "sxtl4s": {"sxtl", ""}, "sxtl24s": {"sxtl2", ""},
	"shll": {"shll", ", #16"}, "shll2": {"shll2", ", #16"},
}

// encode returns the word of an instruction and how assemblers write it. With one source m
// does not count.
func encode(name string, d, n, m vec) (word uint32, text string) {
	form, known := instructions[name]
	if !known {
		panic("no instruction " + name)
	}
	mnemonic, more := name, ""
	if alias, has := aliases[name]; has {
		mnemonic, more = alias[0], alias[1]
	}
	word = form.bits | uint32(n)<<5 | uint32(d)
	text = fmt.Sprintf("%s %s, %s%s", mnemonic, operand(d, form.d), operand(n, form.n), more)
	if form.m != "" {
		word |= uint32(m) << 16
		text += ", " + operand(m, form.m)
	}
	return word, text
}

// encodeLane is encode for a lane, 0 to 3, of m: its low bit is bit 21, the high one bit 11.
func encodeLane(name string, d, n, m vec, lane int) (word uint32, text string) {
	form, known := lanewise[name]
	if !known {
		panic("no instruction by lane " + name)
	}
	word = form.bits | uint32(m)<<16 | uint32(n)<<5 | uint32(d) | uint32(lane&1)<<21 | uint32(lane>>1)<<11
	return word, fmt.Sprintf("%s %s, %s, v%d.%s[%d]", name, operand(d, form.d), operand(n, form.n), m, form.m, lane)
}

// encodeHalf is encode for a lane, 0 to 7, of m, which is 0 to 15: its bits are 20, 21, 11.
func encodeHalf(name string, d, n, m vec, lane int) (word uint32, text string) {
	form, known := halfwise[name]
	if !known || m > 15 {
		panic(fmt.Sprintf("no instruction %s by lane of v%d", name, m))
	}
	word = form.bits | uint32(m)<<16 | uint32(n)<<5 | uint32(d) | uint32(lane&1)<<20 | uint32(lane>>1&1)<<21 | uint32(lane>>2)<<11
	return word, fmt.Sprintf("%s %s, %s, v%d.%s[%d]", name, operand(d, form.d), operand(n, form.n), m, form.m, lane)
}

// operand writes a register with its arrangement.
func operand(v vec, arrangement string) string {
	if arrangement == "s" {
		return fmt.Sprintf("s%d", v)
	}
	return fmt.Sprintf("v%d.%s", v, arrangement)
}

// moveHigh encodes the constant b<<16 in each word of d.
func moveHigh(d vec, b uint32) (word uint32, text string) {
	return 0x4f004400 | b>>5<<16 | b&31<<5 | uint32(d), fmt.Sprintf("movi v%d.4s, #%d, lsl #16", d, b)
}
