package ckpt

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"ossian/internal/tensor"
)

// Limits of a safetensors header. The first is the format's own; the others keep
// a lying header from costing memory and lie far above any published file.
const (
	maxHeader  = 100_000_000 // bytes
	maxTensors = 1 << 16
	maxDims    = 8
)

// safetensorsTypes gives the bits of an element and the type here, Invalid for
// types that are only listed.
var safetensorsTypes = map[string]struct {
	bits  int64
	dtype tensor.DType
}{
	"BOOL": {8, tensor.Bool}, "U8": {8, tensor.U8}, "I8": {8, tensor.Invalid},
	"F8_E4M3": {8, tensor.Invalid}, "F8_E5M2": {8, tensor.Invalid}, "F8_E8M0": {8, tensor.Invalid},
	"F4": {4, tensor.Invalid}, "F6_E2M3": {6, tensor.Invalid}, "F6_E3M2": {6, tensor.Invalid},
	"I16": {16, tensor.Invalid}, "U16": {16, tensor.Invalid}, "F16": {16, tensor.F16}, "BF16": {16, tensor.BF16},
	"I32": {32, tensor.I32}, "U32": {32, tensor.Invalid}, "F32": {32, tensor.F32},
	"I64": {64, tensor.I64}, "U64": {64, tensor.Invalid}, "F64": {64, tensor.Invalid}, "C64": {64, tensor.Invalid},
}

// readSafetensors lists the tensors of a file in the order of their bytes and checks
// everything that formats.md 2 demands of the header.
func readSafetensors(from *file) ([]stored, error) {
	size := int64(len(from.data))
	if size < 9 || from.data[8] != '{' {
		if known := foreign(from.path, from.data, size); known != nil {
			return nil, known
		}
	}
	if size < 8 {
		return nil, from.damaged(0, "file size", "at least the 8 bytes of the header length", size)
	}
	length := binary.LittleEndian.Uint64(from.data)
	if length > maxHeader || int64(length) > size-8 {
		return nil, from.damaged(0, "header length", fmt.Sprintf("at most %d bytes", min(maxHeader, size-8)), fmt.Sprint(length, cutShort))
	}
	scan := &scanner{path: from.path, data: from.data[8 : 8+length], base: 8}
	if length == 0 || scan.data[0] != '{' {
		scan.fail("header", `"{"`, scan.found())
		return nil, scan.err
	}
	// Names are counted as they are read; checkTiles finds those that come twice.
	var list []stored
	metadata := false
	scan.object(func(name string) {
		if name == "__metadata__" {
			if metadata {
				scan.fail("header", "one __metadata__", "a second")
			}
			metadata = true
			scan.object(func(string) { scan.string() })
			return
		}
		if len(list) == maxTensors {
			scan.fail("header", fmt.Sprintf("at most %d tensors", maxTensors), "more")
			return
		}
		tensor := stored{file: from, name: name}
		tensor.readEntry(scan, 8+int64(length))
		list = append(list, tensor)
	})
	if scan.end(); scan.err != nil {
		return nil, scan.err
	}
	return list, checkTiles(from, list, 8+int64(length))
}

// readEntry reads the description of one tensor; data is where the buffer starts.
func (t *stored) readEntry(scan *scanner, data int64) {
	at := scan.at
	bad := func(problem, want string, got any) {
		if scan.err == nil {
			scan.err = &Error{Kind: Damaged, File: scan.path, Tensor: t.name, Offset: scan.base + int64(at), Problem: problem, Want: want, Got: clip(fmt.Sprint(got))}
		}
	}
	var offsets [2]int64
	var count int // of offsets
	var seen [3]int
	scan.object(func(key string) {
		switch key {
		case "dtype":
			seen[0]++
			t.typeName = scan.string()
		case "shape":
			seen[1]++
			t.shape = []int{}
			scan.array(func() {
				if t.shape = append(t.shape, int(scan.uint())); len(t.shape) > maxDims {
					bad("shape", fmt.Sprintf("at most %d dimensions", maxDims), "more")
				}
			})
		case "data_offsets":
			seen[2]++
			scan.array(func() {
				offset := scan.uint()
				if count == len(offsets) {
					bad("data_offsets", "[begin, end]", "more numbers")
					return
				}
				offsets[count] = offset
				count++
			})
		default:
			scan.skip(0)
		}
	})
	if seen != [3]int{1, 1, 1} {
		bad("entry", "dtype, shape and data_offsets once each", fmt.Sprint(seen))
	}
	kind, ok := safetensorsTypes[t.typeName]
	if !ok {
		bad("dtype", "a type of the format", fmt.Sprintf("%q", t.typeName))
	}
	elems, ok := product(t.shape...)
	if !ok || elems > (1<<62)/64 {
		bad("shape", "fewer than 2^56 elements", fmt.Sprint(t.shape))
	}
	switch room := scan.base + int64(len(scan.data)); {
	case scan.err != nil:
		return
	case count != 2 || offsets[0] > offsets[1] || offsets[1] > int64(len(t.file.data))-room:
		bad("data_offsets", fmt.Sprintf("0 <= begin <= end <= %d", int64(len(t.file.data))-room), fmt.Sprint(offsets, cutShort))
	case elems*kind.bits%8 != 0 || elems*kind.bits/8 != offsets[1]-offsets[0]:
		bad("data_offsets", fmt.Sprintf("%d bytes for %s %v", elems*kind.bits/8, t.typeName, t.shape), fmt.Sprintf("%v, %d bytes", offsets, offsets[1]-offsets[0]))
	default:
		t.dtype, t.offset, t.size = kind.dtype, data+offsets[0], offsets[1]-offsets[0]
	}
}

// checkTiles sorts list by offset and reports duplicate names, holes and overlaps:
// a file whose tensors do not cover its buffer exactly was cut or patched.
func checkTiles(from *file, list []stored, data int64) error {
	slices.SortFunc(list, func(a, b stored) int { return cmp.Compare(a.name, b.name) })
	for i := 1; i < len(list); i++ {
		if list[i].name == list[i-1].name {
			return list[i].error(Damaged, "header", "unique names", "a second entry")
		}
	}
	slices.SortStableFunc(list, func(a, b stored) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.size, b.size))
	})
	next := data // where the next tensor must begin
	for i := range list {
		if list[i].offset != next {
			return list[i].error(Damaged, "the tensors do not cover the file exactly", fmt.Sprintf("data at byte %d", next), list[i].offset)
		}
		next += list[i].size
	}
	if size := int64(len(from.data)); next != size {
		return from.damaged(next, "the tensors do not cover the file exactly", fmt.Sprintf("the file to end at byte %d", next), size)
	}
	return nil
}
