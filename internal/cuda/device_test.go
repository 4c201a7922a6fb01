package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu"
	"ossian/internal/model"
	"ossian/internal/model/devicetest"
	"ossian/internal/model/modeltest"
	"ossian/internal/soak"
	"ossian/internal/tensor"
)

// A probe lets the suite reach buffers of a device on an emulated card, or on that of the machine.
type probe struct {
	*Device
	t       *testing.T
	machine *emu.Machine
}

// open returns a device on a card of its own, all of whose checks are on.
// Keys and values that nobody has written are as the card's memory comes, so that a read of them
// is a fault.
func open(t *testing.T, s *model.Spec, lim model.Limits, cfg Config) *probe {
	t.Helper()
	cfg.dirty = true
	return openOn(t, emu.Card{}, s, lim, cfg)
}

// openOn is open with just this card and configuration.
func openOn(t *testing.T, card emu.Card, s *model.Spec, lim model.Limits, cfg Config) *probe {
	t.Helper()
	machine, drv := deviceDriver(t, card)
	cfg.Driver = drv
	device, err := New(s, lim, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &probe{device, t, machine}
}

// Write copies x to the card as float32, whatever the operation is that will read it.
func (p *probe) Write(b model.Buf, x []float32) {
	p.t.Helper()
	defer p.card.enter()()
	to := at(b)
	rows := len(x) / to.width
	data := make([]byte, 4*rows*to.stride) // what is behind a row is nobody's; here NaN
	for i := range rows {
		for k := range to.stride {
			v := float32(math.NaN())
			if k < to.width {
				v = x[i*to.width+k]
			}
			binary.LittleEndian.PutUint32(data[4*(i*to.stride+k):], math.Float32bits(v))
		}
	}
	p.sync()
	if err := p.card.drv.CopyToDevice(to.at, data); err != nil {
		p.t.Fatal(err)
	}
	to.wrote(rows, asFloat32)
}

// Read waits for the card and copies what an operation wrote, in either form. Tails of bf16 rows
// must be zero.
func (p *probe) Read(b model.Buf) []float32 {
	p.t.Helper()
	defer p.card.enter()()
	p.sync()
	from := at(b)
	size := 4
	if from.form == asBF16 {
		size = 2
	}
	var out []float32
	row := make([]byte, size*from.width)
	tail := make([]byte, size*(from.stride-from.width))
	for i := range from.rows {
		begin := from.at + driver.Ptr(size*i*from.stride)
		if err := p.card.drv.CopyToHost(row, begin); err != nil {
			p.t.Fatal(err)
		}
		digest(p.t, row)
		for k := range from.width {
			if from.form == asBF16 {
				out = append(out, tensor.BF16ToFloat(binary.LittleEndian.Uint16(row[2*k:])))
			} else {
				out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(row[4*k:])))
			}
		}
		if from.form == asFloat32 || len(tail) == 0 {
			continue
		}
		if err := p.card.drv.CopyToHost(tail, begin+driver.Ptr(len(row))); err != nil {
			p.t.Fatal(err)
		}
		for k, b := range tail {
			if b != 0 {
				p.t.Fatalf("row %d of width %d: byte %d behind it is %#x, 0 expected", i, from.width, k, b)
			}
		}
	}
	return out
}

// sync ends the test where a kernel was at fault.
func (p *probe) sync() {
	p.t.Helper()
	p.settle()
	if p.queue.err != nil {
		p.t.Fatal(p.queue.err)
	}
	if err := p.card.drv.StreamSync(p.queue.stream); err != nil {
		p.t.Fatal(err)
	}
}

// Close closes the device, and its card, which tells what was left behind.
func (p *probe) Close() error {
	err := p.Device.Close()
	if closing := p.machine.Close(); err == nil {
		err = closing
	}
	return err
}

// small are models of every family, each with another type of weights.
func small() map[string]modeltest.Options {
	return map[string]modeltest.Options{
		"gpt-oss":  {Matrix: tensor.BF16, Small: true},
		"qwen3":    {Matrix: tensor.Q8_0, Tied: true, Small: true},
		"qwen3moe": {Matrix: tensor.F32, Dense: true, NoRenorm: true, Small: true},
		"llama":    {Matrix: tensor.F16, Llama3: true, Small: true},
	}
}

// subject is the device with keys and values of that type; models make it slow.
func subject(kv tensor.DType, card emu.Card, models ...devicetest.Model) devicetest.Subject {
	return devicetest.Subject{
		Open: func(t *testing.T, s *model.Spec, lim model.Limits) devicetest.Device {
			return openOn(t, card, s, lim, Config{KV: kv, dirty: true})
		},
		Models: models, KV: kv, Acts: tensor.BF16,
		Rounds: []tensor.DType{tensor.F32, tensor.F16},
		Lacks:  []tensor.DType{tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K},
	}
}

// TestDevice holds every operation to the suite, with all checks of the emulator; with every change
// each type of keys and values to half of the cases of attention on the emulator, of which TestAttend
// has all.
func TestDevice(t *testing.T) {
	for i, kv := range []tensor.DType{tensor.BF16, tensor.F8_E4M3} {
		t.Run(fmt.Sprintf("kv=%v", kv), func(t *testing.T) {
			t.Parallel()
			s := subject(kv, emu.Card{})
			if !onRealCard() && soak.Cases(t, 0, 1) == 0 {
				s.Half = 1 + i
			}
			devicetest.Run(t, s)
		})
	}
}

// TestInvariance holds whole models of all families to equal bits in any batch; with all checks of the
// emulator one, and all for a release. With every change each has one type of keys and values.
func TestInvariance(t *testing.T) {
	all := onRealCard() || soak.Cases(t, 0, 1) > 0
	for i, family := range modeltest.Families() {
		s, params := modeltest.Tiny(family, small()[family])
		for k, kv := range []tensor.DType{tensor.BF16, tensor.F8_E4M3} {
			if k != i%2 && !all {
				continue
			}
			t.Run(fmt.Sprintf("kv=%v", kv), func(t *testing.T) {
				t.Parallel()
				card := emu.Card{Unchecked: (i > 0 || k > 0) && !all}
				devicetest.Invariance(t, subject(kv, card, devicetest.Model{Spec: s, Params: params}))
			})
		}
	}
}
