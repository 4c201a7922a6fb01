package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"ossian/internal/tensor"
)

// A format is how elements of packed matrices are stored: matrices as the A operand of the tensor
// cores, in units of 16 rows × 64 k (cuda.md 7.1; kernels/weights.cuh has the order inside a unit).
type format struct {
	name       string // in the names of kernels
	unitBytes  int
	rowBytes   int // of the elements of one row in a unit, before packing
	scaleBytes int // of its scales
	interleave func(unit []byte, rows *[16]packRow, index int)
	warpgroups bool // there are products by warpgroups, for sm_90a
}

// The formats there are. MXFP4 and Q8_0 are as exact as the checkpoint.
var (
	formatMXFP4 = &format{name: "mxfp4", unitBytes: 544, rowBytes: 32, scaleBytes: 2, interleave: interleaveMXFP4, warpgroups: true}
	formatBF16  = &format{name: "bf16", unitBytes: 2048, rowBytes: 128, interleave: interleaveBF16, warpgroups: true}
	formatQ8    = &format{name: "q8", unitBytes: 1088, rowBytes: 64, scaleBytes: 4, interleave: interleaveQ8}
)

// formatOf returns how weights of a type are packed. F32 and F16 are rounded to BF16, which is
// what the tensor cores multiply.
func formatOf(t tensor.DType) (*format, error) {
	switch t {
	case tensor.MXFP4, tensor.MXFP4HF:
		return formatMXFP4, nil
	case tensor.BF16, tensor.F16, tensor.F32:
		return formatBF16, nil
	case tensor.Q8_0:
		return formatQ8, nil
	}
	return nil, fmt.Errorf("weights of type %v cannot be used on a CUDA device: MXFP4, BF16, F16, F32 and Q8_0 can; convert the model, or use --device cpu", t)
}

// A packed is a tensor on its way into device memory. It is packed a piece at a time, into memory
// of the caller: models larger than the host's memory need no second copy there.
//
// A group is 16 rows, its units in the order of k. Rows are filled up to a multiple of 16 and k to a
// multiple of 64 with zeros, for each expert. With paired, rows gate0, up0, gate1, up1, … are
// permuted inside a group: 8 gates, then their 8 ups, so that a lane has both (cuda.md 7.1).
type packed struct {
	source              tensor.Tensor
	format              *format
	experts, rows, cols int // a tensor without experts has one
	perExpert, units    int // groups of an expert, units of a group
	paired              bool
	lifted              sync.Mutex // guards lift
	lift                []float32  // see lifts
}

// pack prepares a tensor of shape [rows, cols] or [experts, rows, cols]. The error says which
// types and shapes can be packed.
func pack(t tensor.Tensor, paired bool) (*packed, error) {
	f, err := formatOf(t.DType)
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if len(t.Shape) != 2 && len(t.Shape) != 3 {
		return nil, fmt.Errorf("tensor %q has shape %v: [rows, columns] or [experts, rows, columns] expected", t.Name, t.Shape)
	}
	p := &packed{source: t, format: f, experts: 1, rows: t.Shape[len(t.Shape)-2], cols: t.Cols(), paired: paired}
	if len(t.Shape) == 3 {
		p.experts = t.Shape[0]
	}
	if p.experts < 1 || p.rows < 1 || p.cols < 1 {
		return nil, fmt.Errorf("tensor %q has shape %v: no size may be 0", t.Name, t.Shape)
	}
	if paired && p.rows%2 != 0 {
		return nil, fmt.Errorf("tensor %q has %d rows: as many gates as ups expected", t.Name, p.rows)
	}
	p.perExpert, p.units = (p.rows+15)/16, (p.cols+63)/64
	return p, nil
}

// groups returns of how many groups p consists.
func (p *packed) groups() int { return p.experts * p.perExpert }

// groupBytes returns the size of a group.
func (p *packed) groupBytes() int { return p.units * p.format.unitBytes }

// bytes returns the size of all groups, one after another.
func (p *packed) bytes() int64 { return int64(p.groups()) * int64(p.groupBytes()) }

// fill packs groups from first on into dst, whose length is a whole number of them, on all
// processors. Each group of p is packed once, in any order, before lifts is asked.
func (p *packed) fill(dst []byte, first int) error {
	count := len(dst) / p.groupBytes()
	if len(dst)%p.groupBytes() != 0 || first < 0 || first+count > p.groups() {
		panic(fmt.Sprintf("cuda: %d bytes for groups of %d from group %d of %d on", len(dst), p.groupBytes(), first, p.groups()))
	}
	var next atomic.Int64
	errs := make([]error, min(runtime.GOMAXPROCS(0), count))
	var workers sync.WaitGroup
	for worker := range errs {
		workers.Go(func() {
			rows := p.newRows()
			for errs[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				errs[worker] = p.group(dst[i*p.groupBytes():][:p.groupBytes()], rows, first+i)
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// lifts returns a power of two per row, by expert, with which sums of the row are multiplied, or
// nil where all are 1. MXFP4 exponents above 128 would not fit into the bf16 factor of the
// kernels: those of such a row are lowered by what its largest one is above (cuda.md 6.7).
func (p *packed) lifts() []float32 { return p.lift }

// A packRow is one row before it is packed: elements (MXFP4: two a byte, the first in the low
// half), and scales (MXFP4: a byte, Q8_0: float16, per 32 elements), filled up with zeros.
type packRow struct{ elements, scales []byte }

// newRows returns memory for the rows of a group.
func (p *packed) newRows() *[16]packRow {
	var rows [16]packRow
	for i := range rows {
		rows[i] = packRow{make([]byte, p.units*p.format.rowBytes), make([]byte, p.units*p.format.scaleBytes)}
	}
	return &rows
}

// group packs one group.
func (p *packed) group(dst []byte, rows *[16]packRow, group int) error {
	expert, first := group/p.perExpert, group%p.perExpert*16
	for i := range rows {
		row := first + i
		if p.paired {
			row = first + i%8*2 + i/8
		}
		if row >= p.rows {
			clear(rows[i].elements)
			clear(rows[i].scales)
			continue
		}
		if err := p.read(&rows[i], expert*p.rows+row); err != nil {
			return err
		}
	}
	for unit := range p.units {
		p.format.interleave(dst[unit*p.format.unitBytes:][:p.format.unitBytes], rows, unit)
	}
	return nil
}

// read brings a row of the tensor into the form that is interleaved.
func (p *packed) read(dst *packRow, row int) error {
	src := p.source.Row(row)
	switch src.DType {
	case tensor.BF16:
		copy(dst.elements, src.Data)
	case tensor.F16, tensor.F32:
		floats := make([]float32, src.Len())
		src.Floats(floats)
		for i, v := range floats {
			binary.LittleEndian.PutUint16(dst.elements[2*i:], tensor.ToBF16(v))
		}
	case tensor.Q8_0:
		for block := range len(src.Data) / 34 {
			copy(dst.scales[2*block:], src.Data[34*block:][:2])
			copy(dst.elements[32*block:], src.Data[34*block+2:][:32])
		}
	case tensor.MXFP4HF:
		copy(dst.elements, src.Data)
		copy(dst.scales, src.Scales)
		return p.lower(dst, row)
	case tensor.MXFP4:
		for block := range len(src.Data) / 17 {
			dst.scales[block] = src.Data[17*block]
			neighbours(dst.elements[16*block:][:16], src.Data[17*block+1:][:16])
		}
		return p.lower(dst, row)
	default:
		return fmt.Errorf("tensor %q: row %d is of type %v, the tensor of %v", p.source.Name, row, src.DType, p.source.DType)
	}
	return nil
}

// neighbours brings the nibbles of a block from the order of GGUF (byte i: elements i and i+16)
// into that of the other checkpoints (2i and 2i+1).
func neighbours(dst, src []byte) {
	for i := range 8 {
		a, b := src[2*i], src[2*i+1]
		dst[i] = a&15 | b<<4
		dst[i+8] = a>>4 | b&0xf0
	}
}

// lower lowers the exponents of a row of MXFP4 until none is above 128, and notes by how much.
// What would fall below the smallest exponent becomes zero: it is 2^-126 of the row's largest weights
// or less.
func (p *packed) lower(row *packRow, index int) error {
	const most = 128
	highest := byte(0)
	for _, e := range row.scales {
		highest = max(highest, e)
	}
	if highest == 255 {
		return fmt.Errorf("tensor %q: row %d has the scale 255, which is not a number", p.source.Name, index)
	}
	if highest <= most {
		return nil
	}
	for block, e := range row.scales {
		if e < highest-most {
			clear(row.elements[16*block:][:16])
			row.scales[block] = 0
		} else {
			row.scales[block] = e - (highest - most)
		}
	}
	p.lifted.Lock()
	defer p.lifted.Unlock()
	if p.lift == nil {
		p.lift = make([]float32, p.experts*p.rows)
		for i := range p.lift {
			p.lift[i] = 1
		}
	}
	p.lift[index] = float32(math.Ldexp(1, int(highest)-most))
	return nil
}

// interleaveMXFP4 packs a unit of e2m1 codes and their exponents. Lane 4g+t has in word j, from
// the top of each half down, rows g, g+8 at k = 16j+2t, then both at k+8; the lower half is the even k.
func interleaveMXFP4(unit []byte, rows *[16]packRow, index int) {
	for g := range 8 {
		top, bottom := rows[g].elements[32*index:][:32], rows[g+8].elements[32*index:][:32]
		for step := range 4 {
			for t := range 4 {
				at := 8*step + t
				word := halves(top[at]) | halves(bottom[at])>>4 | halves(top[at+4])>>8 | halves(bottom[at+4])>>12
				binary.LittleEndian.PutUint32(unit[16*(4*g+t)+4*step:], word)
			}
		}
		first, second := rows[g].scales[2*index:][:2], rows[g+8].scales[2*index:][:2]
		scales := unit[512+4*g:][:4]
		scales[0], scales[1], scales[2], scales[3] = first[0], second[0], first[1], second[1]
	}
}

// halves puts the two nibbles of b on top of the two halves of a word.
func halves(b byte) uint32 { return uint32(b&15)<<12 | uint32(b>>4)<<28 }

// interleaveBF16 packs a unit of bf16: lane 4g+t has for step j, at k = 16j+2t, pairs of rows g and
// g+8, then both at k+8.
func interleaveBF16(unit []byte, rows *[16]packRow, index int) {
	for g := range 8 {
		top, bottom := rows[g].elements[128*index:][:128], rows[g+8].elements[128*index:][:128]
		for step := range 4 {
			for t := range 4 {
				lane, at := unit[512*step+16*(4*g+t):][:16], 32*step+4*t
				copy(lane[0:4], top[at:])
				copy(lane[4:8], bottom[at:])
				copy(lane[8:12], top[at+16:])
				copy(lane[12:16], bottom[at+16:])
			}
		}
	}
}

// interleaveQ8 packs a unit of signed bytes and their scales: the order of interleaveBF16, two
// steps to 16 bytes.
func interleaveQ8(unit []byte, rows *[16]packRow, index int) {
	for g := range 8 {
		top, bottom := rows[g].elements[64*index:][:64], rows[g+8].elements[64*index:][:64]
		for step := range 4 {
			for t := range 4 {
				lane, at := unit[512*(step/2)+16*(4*g+t)+8*(step%2):][:8], 16*step+2*t
				copy(lane[0:2], top[at:])
				copy(lane[2:4], bottom[at:])
				copy(lane[4:6], top[at+8:])
				copy(lane[6:8], bottom[at+8:])
			}
		}
		first, second := rows[g].scales[4*index:][:4], rows[g+8].scales[4*index:][:4]
		scales := unit[1024+8*g:][:8]
		copy(scales[0:2], first[0:2])
		copy(scales[2:4], second[0:2])
		copy(scales[4:6], first[2:4])
		copy(scales[6:8], second[2:4])
	}
}
