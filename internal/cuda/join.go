package cuda

import (
	"fmt"

	"ossian/internal/cuda/driver"
	"ossian/internal/model"
)

// What a head has beside a decoder (model.Joiner): rows of one buffer in columns of another. A head computes
// on a device of its own, which shares the card and the stream of the decoder's, so that either may read
// what the other has written. Its errors are its own.

// joinArgs is JoinArgs of kernels/join.cu.
type joinArgs struct {
	dst, src, index driver.Ptr
	width, tail     int32
	dstStride       int32
	srcStride       int32
}

// joinKernels are the kernels by the forms of dst and src.
var joinKernels = [2][2]string{asFloat32: {asFloat32: "join_float", asBF16: "join_widen"}, asBF16: {asFloat32: "join_narrow", asBF16: "join_bf16"}}

// join copies count rows from src: a.index says which, 0 = the first ones.
func (q *queue) join(a joinArgs, dst, src form, count int) {
	if count == 0 {
		return
	}
	launch(q, joinKernels[dst][src], driver.Dim3{X: uint32(count), Y: ceilDiv(int(a.width+a.tail), 256), Z: 1}, 256, 0, &a)
}

// Join implements model.Joiner. Rows that are put side by side become bf16, which products read, and those
// as wide as dst float32, as a norm reads them.
func (d *Device) Join(dst model.Buf, col int, x model.Buf, rows []int32) {
	d.settle()
	if d.cfg.Beside != nil {
		d.cfg.Beside.settle() // what it has asked for may be x
	}
	to, from, count := at(dst), at(x), at(x).rows
	if rows != nil {
		count = len(rows)
	}
	if err := checkJoin(to, col, from, rows, count); err != nil {
		d.queue.fail(err)
		return
	}
	args := joinArgs{src: from.at, index: d.index(rows), width: int32(from.width), dstStride: int32(to.stride), srcStride: int32(from.stride)}
	as, size := asFloat32, 4
	if from.width < to.width {
		as, size = asBF16, 2
		if col+from.width == to.width {
			args.tail = int32(to.stride - to.width)
		}
	}
	args.dst = to.at + driver.Ptr(size*col)
	d.queue.join(args, as, from.form, count)
	to.wrote(count, as)
}

// checkJoin reports a copy of rows that would go beyond a buffer.
func checkJoin(to *buffer, col int, from *buffer, rows []int32, count int) error {
	if from.form == spent || col < 0 || col+from.width > to.width || count > to.capacity {
		return fmt.Errorf("cuda: Join of %d rows of %d columns to column %d of %d rows of %d", count, from.width, col, to.capacity, to.width)
	}
	for _, row := range rows {
		if row < 0 || int(row) >= from.rows {
			return fmt.Errorf("cuda: Join of row %d of %d", row, from.rows)
		}
	}
	return nil
}

// index returns where the card has numbers of rows, 0 for none: in the block of the step, behind what Begin
// has packed. Several operations of a step may name the same ones.
func (d *Device) index(rows []int32) driver.Ptr {
	step := &d.step
	if len(rows) == 0 || d.queue.err != nil {
		return 0
	}
	if same := step.indexed; len(same) == len(rows) && &same[0] == &rows[0] {
		return step.index
	}
	p := &step.packed
	if p.used+4*len(rows) > len(p.host) {
		d.queue.fail(fmt.Errorf("cuda: Join of %d rows: a step has room for those of its tokens, once", len(rows)))
		return 0
	}
	begin := p.used
	numbers, at := array[int32](p, len(rows))
	copy(numbers, rows)
	d.queue.fail(d.card.drv.CopyToAsync(at, p.host[begin:begin+4*len(rows)], d.queue.stream))
	step.indexed, step.index = rows, at
	return at
}
