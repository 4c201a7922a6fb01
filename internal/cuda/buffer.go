package cuda

import (
	"errors"
	"fmt"

	"ossian/internal/cuda/driver"
	"ossian/internal/model"
)

// A form is how a buffer holds its elements.
type form uint8

const (
	asFloat32 form = iota // residuals, results of products, what routes
	asBF16                // what products and attention read: norms, activations, attention, selected rows
	spent                 // not at all: a kernel has taken up what would have been written there (waiting.go)
)

// A buffer is an activation buffer: rows of width elements, stride elements apart in either form.
// It has memory for float32; in bf16 half of it lies idle. Elements behind width are zero in bf16
// and undefined in float32. The rows and the form are those of the operation that wrote it last.
type buffer struct {
	at            driver.Ptr
	capacity      int // rows
	width, stride int // elements
	rows          int
	form          form
}

// alloc makes a buffer where the context is current.
func (d *Device) alloc(rows, width int) (*buffer, error) {
	if rows < 1 || width < 1 {
		return nil, fmt.Errorf("cuda: a buffer of %d rows of %d elements", rows, width)
	}
	b := &buffer{capacity: rows, width: width, stride: rowStride(width)}
	var err error
	b.at, err = d.memory.card(int64(rows) * int64(b.stride) * 4)
	return b, err
}

// at returns the buffer behind b, nil for none.
func at(b model.Buf) *buffer {
	p, _ := b.(*buffer)
	return p
}

// wrote records what an operation has made of b.
func (b *buffer) wrote(rows int, as form) { b.rows, b.form = rows, as }

// bf16 returns where the rows of b lie in bf16. They already do where operations follow each
// other as in a model; rows that tests wrote in float32 are rounded into memory of the device.
func (d *Device) bf16(b *buffer) driver.Ptr {
	if b.form == asBF16 {
		return b.at
	}
	if b.form == spent || b.stride != rowStride(b.width) {
		d.queue.fail(errors.New("cuda: an operation reads bf16 of a buffer that is spent, or lies beside others: operations follow each other as in no model"))
		return b.at
	}
	if d.rounded == nil || d.rounded.capacity*d.rounded.stride < b.capacity*b.stride {
		rounded, err := d.alloc(b.capacity, b.width)
		if err != nil {
			d.queue.fail(err)
			return 0
		}
		d.rounded = rounded
	}
	d.queue.narrow(d.rounded.at, b.at, b.width, b.rows)
	return d.rounded.at
}

// float32 returns where the rows of b lie in float32.
func (d *Device) float32(b *buffer, operation string) driver.Ptr {
	if b.form != asFloat32 {
		d.queue.fail(fmt.Errorf("cuda: %s reads a buffer of float32, found bf16 or nothing: operations follow each other as in no model", operation))
	}
	return b.at
}

// rows is float32 with the stride.
func (d *Device) rows(b *buffer, operation string) floatRows {
	return floatRows{d.float32(b, operation), b.stride}
}
