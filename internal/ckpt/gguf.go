package ckpt

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"ossian/internal/tensor"
)

// Limits of a GGUF header, far above any published file, that keep a lying one
// from costing memory.
const (
	maxKeys      = 1 << 16
	maxKeyLen    = 65535
	maxNameLen   = 64
	maxStrings   = 1 << 20 // elements of a string array that is read
	maxElements  = 1 << 30
	maxAlignment = 1 << 20
)

// Value types of GGUF metadata, formats.md 3.
const (
	ggufU8, ggufI8, ggufU16, ggufI16, ggufU32, ggufI32 = 0, 1, 2, 3, 4, 5
	ggufF32, ggufBool, ggufString, ggufArray           = 6, 7, 8, 9
	ggufU64, ggufI64, ggufF64                          = 10, 11, 12
)

// ggufSizes holds the bytes of a scalar of each value type, 0 for the others.
var ggufSizes = [13]int64{ggufU8: 1, ggufI8: 1, ggufU16: 2, ggufI16: 2, ggufU32: 4, ggufI32: 4, ggufF32: 4, ggufBool: 1, ggufU64: 8, ggufI64: 8, ggufF64: 8}

// ggufTypes gives name, block and type here of the tensor type ids; Invalid marks
// types that are only named, and elements 0 those whose block is not known either.
var ggufTypes = map[uint32]struct {
	name         string
	elems, bytes int64
	dtype        tensor.DType
}{
	0: {"F32", 1, 4, tensor.F32}, 1: {"F16", 1, 2, tensor.F16}, 30: {"BF16", 1, 2, tensor.BF16},
	2: {"Q4_0", 32, 18, tensor.Q4_0}, 3: {"Q4_1", 32, 20, tensor.Q4_1}, 8: {"Q8_0", 32, 34, tensor.Q8_0},
	6: {"Q5_0", 32, 22, tensor.Q5_0}, 7: {"Q5_1", 32, 24, tensor.Q5_1},
	12: {"Q4_K", 256, 144, tensor.Q4_K}, 13: {"Q5_K", 256, 176, tensor.Q5_K}, 14: {"Q6_K", 256, 210, tensor.Q6_K},
	39: {"MXFP4", 32, 17, tensor.MXFP4},
	24: {"I8", 1, 1, tensor.Invalid}, 25: {"I16", 1, 2, tensor.Invalid}, 26: {"I32", 1, 4, tensor.I32},
	27: {"I64", 1, 8, tensor.I64}, 28: {"F64", 1, 8, tensor.Invalid},
	4:  {"type 4 (MXFP4 of the first Ollama files, or a removed type)", 0, 0, tensor.Invalid},
	10: {"Q2_K", 0, 0, tensor.Invalid}, 11: {"Q3_K", 0, 0, tensor.Invalid},
	16: {"IQ2_XXS", 0, 0, tensor.Invalid}, 17: {"IQ2_XS", 0, 0, tensor.Invalid}, 18: {"IQ3_XXS", 0, 0, tensor.Invalid},
	19: {"IQ1_S", 0, 0, tensor.Invalid}, 20: {"IQ4_NL", 32, 18, tensor.IQ4_NL}, 21: {"IQ3_S", 0, 0, tensor.Invalid},
	22: {"IQ2_S", 0, 0, tensor.Invalid}, 23: {"IQ4_XS", 0, 0, tensor.Invalid}, 29: {"IQ1_M", 0, 0, tensor.Invalid},
	34: {"TQ1_0", 0, 0, tensor.Invalid}, 35: {"TQ2_0", 0, 0, tensor.Invalid}, 40: {"NVFP4", 0, 0, tensor.Invalid},
}

// A value is one metadata entry, still in the file: arrays of 200,000 tokens are
// decoded when and if someone asks.
type value struct {
	typ   uint32
	elem  uint32 // of an array
	count int64  // of an array
	at    int64  // offset of raw in the file
	raw   []byte
}

// A container is the parsed header of one GGUF file.
type container struct {
	file    *file
	keys    map[string]value
	tensors []stored
}

// A cursor reads a GGUF header. The first error sticks; after it every method
// returns zero values.
type cursor struct {
	file *file
	at   int64
	err  error
}

// fail notes what is wrong at a byte of the file.
func (c *cursor) fail(at int64, problem, want string, got any) {
	if c.err == nil {
		c.err = c.file.damaged(at, problem, want, got)
	}
}

// take returns the next n bytes.
func (c *cursor) take(n uint64, what string) []byte {
	left := uint64(len(c.file.data)) - uint64(c.at)
	if c.err == nil && n > left {
		c.fail(c.at, what, fmt.Sprintf("%d bytes", n), fmt.Sprintf("%d before the end of the file%s", left, cutShort))
	}
	if c.err != nil {
		return nil
	}
	bytes := c.file.data[c.at:][:n]
	c.at += int64(n)
	return bytes
}

// u32 reads four bytes; what says in messages what they are.
func (c *cursor) u32(what string) uint32 {
	if b := c.take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// u64 reads eight bytes.
func (c *cursor) u64(what string) uint64 {
	if b := c.take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// name reads a string that names something.
func (c *cursor) name(what string, limit uint64) string {
	at := c.at
	length := c.u64(what + " length")
	if c.err == nil && (length == 0 || length > limit) {
		c.fail(at, what+" length", fmt.Sprintf("1 to %d", limit), length)
	}
	text := c.take(length, what)
	if c.err == nil && !utf8.Valid(text) {
		c.fail(at, what, "UTF-8", fmt.Sprintf("%+q", text))
	}
	return string(text)
}

// readGGUF reads a file's header and checks everything that formats.md 3 demands.
func readGGUF(from *file) (*container, error) {
	in := &cursor{file: from}
	if magic := in.take(4, "magic"); string(magic) != "GGUF" && in.err == nil {
		in.fail(0, "magic", `"GGUF"`, fmt.Sprintf("%q", magic))
	}
	switch version := in.u32("version"); {
	case in.err != nil:
	case version&0xffff == 0 && version != 0:
		return nil, unsupported(from.path, "byte order", "little-endian: convert the model again without --bigendian", "a big-endian file")
	case version != 2 && version != 3:
		return nil, unsupported(from.path, "GGUF version", "2 or 3, as converters have written since August 2023", version)
	}
	// Counts are bounded before anything is allocated for them; the loops end at the first error.
	tensors, keys := in.u64("tensor count"), in.u64("key count")
	if tensors > maxTensors {
		in.fail(8, "tensor count", fmt.Sprintf("at most %d", maxTensors), tensors)
	}
	if keys > maxKeys {
		in.fail(16, "key count", fmt.Sprintf("at most %d", maxKeys), keys)
	}
	found := &container{file: from, keys: map[string]value{}}
	for ; keys > 0 && in.err == nil; keys-- {
		at := in.at
		key := in.name("key", maxKeyLen)
		value := in.value(key)
		if _, again := found.keys[key]; again {
			in.fail(at, "key "+clip(key), "unique keys", "a second one")
		}
		found.keys[key] = value
	}
	names := map[string]bool{}
	for ; tensors > 0 && in.err == nil; tensors-- {
		at := in.at
		tensor := in.tensor()
		if names[tensor.name] {
			in.fail(at, "tensor "+tensor.name, "unique names", "a second one")
		}
		names[tensor.name] = true
		found.tensors = append(found.tensors, tensor)
	}
	if in.err != nil {
		return nil, in.err
	}
	return found, found.place(in.at)
}

// value reads the type and the bytes of one metadata value.
func (c *cursor) value(key string) value {
	at := c.at
	read := value{typ: c.u32("type of key " + key)}
	switch read.at = c.at; { // at is where the value lies, behind its type and length
	case c.err != nil:
	case read.typ == ggufString:
		length := c.u64("length of key " + key)
		read.at = c.at
		read.raw = c.take(length, "key "+key)
	case read.typ == ggufArray:
		c.array(&read, key)
	case read.typ >= uint32(len(ggufSizes)):
		c.fail(at, "type of key "+clip(key), "a value type from 0 to 12", read.typ)
	default:
		read.raw = c.take(uint64(ggufSizes[read.typ]), "key "+key)
		if read.typ == ggufBool && c.err == nil && read.raw[0] > 1 {
			c.fail(read.at, "key "+clip(key), "0 or 1 for a bool", read.raw[0])
		}
	}
	return read
}

// array reads the type, the count and the bytes of an array.
func (c *cursor) array(value *value, key string) {
	at := c.at
	value.elem = c.u32("element type of key " + key)
	count := c.u64("element count of key " + key)
	value.at = c.at
	switch {
	case c.err != nil:
	case value.elem > ggufF64 || value.elem == ggufArray:
		c.fail(at, "element type of key "+clip(key), "a scalar type or string", value.elem)
	case count > maxElements:
		c.fail(at+4, "element count of key "+clip(key), fmt.Sprintf("at most %d", maxElements), count)
	case value.elem == ggufString: // passed over one by one: only their lengths say where it ends
		for i := uint64(0); i < count && c.err == nil; i++ {
			c.take(c.u64("string of key "+key), "string of key "+key)
		}
		if c.err == nil {
			value.raw = c.file.data[value.at:c.at]
		}
	default:
		value.raw = c.take(count*uint64(ggufSizes[value.elem]), "key "+key)
	}
	value.count = int64(count)
}

// tensor reads one tensor description; offset stays relative to the data section.
func (c *cursor) tensor() stored {
	tensor := stored{file: c.file, name: c.name("tensor name", maxNameLen-1)}
	at := c.at
	dims := c.u32("dimension count")
	if c.err == nil && (dims < 1 || dims > 4) {
		c.fail(at, "tensor "+tensor.name+": dimension count", "1 to 4", dims)
	}
	var ne [4]uint64
	for i := uint32(0); i < dims && c.err == nil; i++ {
		ne[i] = c.u64("dimension")
		tensor.shape = append([]int{int(ne[i])}, tensor.shape...) // dimension 0 is the fastest-varying one
	}
	kind := c.u32("tensor type")
	offset := c.u64("tensor offset")
	if c.err != nil {
		return tensor
	}
	bad := func(problem, want string, got any) {
		if c.err == nil {
			c.err = &Error{Kind: Damaged, File: c.file.path, Tensor: tensor.name, Offset: at, Problem: problem, Want: want, Got: clip(fmt.Sprint(got))}
		}
	}
	typ, known := ggufTypes[kind]
	if kind > 255 {
		bad("type", "a tensor type below 256", kind)
	}
	if !known {
		typ.name = fmt.Sprintf("type %d", kind)
	}
	if typ.elems == 0 && c.err == nil {
		// Its size is not known here, so nothing after it can be checked.
		entry := stored{file: c.file, name: tensor.name, offset: at}
		c.err = entry.error(Unsupported, "type", supportedTypes, typ.name)
	}
	elems, ok := product(ne[:dims]...)
	if !ok || elems > 1<<56 || elems == 0 {
		bad("shape", "1 to 2^56 elements", fmt.Sprint(tensor.shape))
	}
	if offset > uint64(len(c.file.data)) {
		bad("offset", fmt.Sprintf("at most the file size %d", len(c.file.data)), fmt.Sprint(offset, cutShort))
	}
	if c.err != nil {
		return tensor
	}
	if int64(ne[0])%typ.elems != 0 {
		bad("rows of "+typ.name, fmt.Sprintf("a multiple of %d elements", typ.elems), ne[0])
	}
	tensor.dtype, tensor.typeName = typ.dtype, typ.name
	tensor.offset, tensor.size = int64(offset), elems/typ.elems*typ.bytes
	return tensor
}

// cutShort says what a size that is not there most often means.
const cutShort = ": the file may be cut or damaged, fetch it again"

// supportedTypes are those with a decoder, for messages.
const supportedTypes = "one of F32, F16, BF16, MXFP4, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, Q4_K, Q5_K, Q6_K"

// place turns offsets of the data section into offsets of the file. Writers lay
// tensors one after another with nothing but padding between; an offset that
// breaks this was damaged even where it stays inside the file.
func (g *container) place(header int64) error {
	align := int64(32)
	if value, ok := g.keys["general.alignment"]; ok {
		number, isInt := value.integer()
		if !isInt || number < 1 || number > maxAlignment || bits.OnesCount64(uint64(number)) != 1 {
			return g.file.damaged(value.at, "general.alignment", fmt.Sprintf("a power of two up to %d", maxAlignment), value.text())
		}
		align = number
	}
	// next is where the tensor after the last one must begin, from the start of the data.
	pad := func(n int64) int64 { return (n + align - 1) / align * align }
	data, size, next := pad(header), int64(len(g.file.data)), int64(0)
	for i := range g.tensors {
		tensor := &g.tensors[i]
		at := tensor.offset
		if tensor.offset += data; at != next {
			return tensor.error(Damaged, "offset", fmt.Sprintf("%d, after the tensor before it", next), at)
		}
		if tensor.size > size-tensor.offset {
			return tensor.error(Damaged, "size", fmt.Sprintf("%d bytes for %s %v", tensor.size, tensor.typeName, tensor.shape),
				fmt.Sprintf("%d before the end of the file%s", max(size-tensor.offset, 0), cutShort))
		}
		next = pad(at + tensor.size)
	}
	return nil
}

// integer returns a scalar of any integer type: writers differ in their choice.
func (v value) integer() (int64, bool) {
	if v.raw == nil { // no such key
		return 0, false
	}
	switch v.typ {
	case ggufU8, ggufI8, ggufU16, ggufI16, ggufU32, ggufI32, ggufU64, ggufI64:
		return integerAt(v.typ, v.raw)
	}
	return 0, false
}

// integerAt decodes an integer; false means it does not fit int64.
func integerAt(typ uint32, b []byte) (int64, bool) {
	switch typ {
	case ggufU8, ggufBool:
		return int64(b[0]), true
	case ggufI8:
		return int64(int8(b[0])), true
	case ggufU16:
		return int64(binary.LittleEndian.Uint16(b)), true
	case ggufI16:
		return int64(int16(binary.LittleEndian.Uint16(b))), true
	case ggufU32:
		return int64(binary.LittleEndian.Uint32(b)), true
	case ggufI32:
		return int64(int32(binary.LittleEndian.Uint32(b))), true
	}
	wide := int64(binary.LittleEndian.Uint64(b))
	return wide, typ == ggufI64 || wide >= 0
}

// integers decodes an array of integers, or a scalar as an array of one.
func (v value) integers() ([]int64, bool) {
	if number, ok := v.integer(); ok {
		return []int64{number}, true
	}
	if v.typ != ggufArray || v.elem == ggufF32 || v.elem == ggufF64 || v.elem == ggufString || v.count > maxStrings {
		return nil, false
	}
	list := make([]int64, 0, v.count)
	for raw := range slices.Chunk(v.raw, int(ggufSizes[v.elem])) {
		number, ok := integerAt(v.elem, raw)
		if !ok {
			return nil, false
		}
		list = append(list, number)
	}
	return list, true
}

// number returns a scalar of any numeric type.
func (v value) number() (float64, bool) {
	switch {
	case v.raw == nil:
		return 0, false
	case v.typ == ggufF32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw))), true
	case v.typ == ggufF64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.raw)), true
	}
	n, ok := v.integer()
	return float64(n), ok
}

// strings decodes an array of strings, all in one allocation for their text.
func (v value) strings() ([]string, bool) {
	if v.typ != ggufArray || v.elem != ggufString || v.count > maxStrings {
		return nil, false
	}
	all := string(v.raw) // the rest, each string behind its length
	list := make([]string, v.count)
	for i := range list {
		n := binary.LittleEndian.Uint64(v.raw[len(v.raw)-len(all):])
		list[i], all = all[8:8+n], all[8+n:]
	}
	return list, true
}

// text describes v for an error message.
func (v value) text() string {
	if n, ok := v.number(); ok {
		return fmt.Sprint(n)
	}
	switch {
	case v.raw == nil:
		return "nothing"
	case v.typ == ggufString:
		return fmt.Sprintf("%q", clip(strings.ToValidUTF8(string(v.raw[:min(len(v.raw), 201)]), "\ufffd")))
	case v.typ == ggufBool:
		return fmt.Sprint(v.raw[0] == 1)
	}
	return fmt.Sprintf("an array of %d values of type %d", v.count, v.elem)
}
