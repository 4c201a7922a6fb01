package emu

import (
	"encoding/binary"
	"strings"
	"testing"

	"ossian/internal/cuda/driver"
)

// header begins the PTX of tests.
const header = ".version 7.1\n.target sm_80\n.address_size 64\n.const .align 4 .b8 fixed[4]; .extern .shared .align 16 .b8 more[];\n"

// A bench is a machine with a context and a stream, for tests.
type bench struct {
	t       testing.TB
	machine *Machine
	*driver.Driver
	device driver.Device
	stream driver.Stream
}

func newBench(t testing.TB, card Card) *bench {
	t.Helper()
	b := &bench{t: t, machine: New(card)}
	b.Driver = b.machine.Driver()
	b.must(b.Init())
	var err error
	b.device, err = b.DeviceGet(0)
	b.must(err)
	context, err := b.ContextRetain(b.device)
	b.must(err)
	b.must(b.SetCurrent(context))
	b.stream, err = b.StreamCreate()
	b.must(err)
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// function loads PTX with one kernel k.
func (b *bench) function(ptx string) driver.Function {
	b.t.Helper()
	m, err := b.ModuleLoad([]byte(ptx))
	b.must(err)
	f, err := b.GetFunction(m, "k")
	b.must(err)
	return f
}

// source makes PTX of a kernel k(out) from the statements of its body.
func source(body string) string {
	return header + ".visible .entry k(.param .u64 out)\n{\n.reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<16>;\n.reg .b64 %d<16>;\n" +
		"ld.param.u64 %d0, [out];\n" + body + "\nret;\n}\n"
}

// TestUnknown holds what is not known to be an error that names the line.
func TestUnknown(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"opcode":    {"frob.b32 %r1, %r2;", `line 12: opcode "frob"`},
		"modifier":  {"mov.u32 %r1, 1;\nadd.wide.s32 %r1, %r1, %r1;", "line 13"},
		"type":      {"mov.u32 %r1, 1;\nadd.s12 %r1, %r1, 1;", "line 13"},
		"size":      {"mov.b64 %d1, 1;\nadd.s32 %r1, %d1, 1;", "has 64 bits"},
		"operand":   {"mov.b32 %r1, nowhere;", "nowhere"},
		"label":     {"bra nowhere;", "label"},
		"constant":  {"mov.b32 %r1, 4294967296;", "4294967296"},
		"directive": {".frob 5;", "directive"},
		"unset":     {"add.s32 %r1, %r2, 1;", "line 12: a register is read that nothing has set"},
	} {
		b := newBench(t, Card{})
		_, err := b.ModuleLoad([]byte(source(c.body)))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "CUDA_ERROR_INVALID_PTX") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestPoison holds registers that not every path sets to hold poison in each block, whatever the block
// before it left there: by a branch, by a guard, and what only the end of a loop sets.
func TestPoison(t *testing.T) {
	b := newBench(t, Card{Workers: 1})
	out := get4096(b)
	b.must(b.CopyToDevice(out, make([]byte, 4096)))
	f := b.function(source(`mov.u32 %r1, %ctaid.x;
mul.wide.u32 %d1, %r1, 32;
add.u64 %d1, %d1, %d0;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra $ELSE;
mov.u32 %r2, 7;
mov.u64 %d2, 7;
$ELSE: st.global.u32 [%d1], %r2;
st.global.u64 [%d1+8], %d2;
@!%p1 mov.u32 %r3, 7;
st.global.u32 [%d1+4], %r3;
mov.u32 %r5, 0;
$AGAIN: setp.eq.u32 %p2, %r5, 1;
@%p2 bra $END;
st.global.u32 [%d1+16], %r4;
mov.u32 %r4, 7;
mov.u32 %r5, 1;
bra $AGAIN;
$END: `))
	for range 3 {
		b.must(b.Launch(&driver.Launch{Function: f, Grid: driver.Dim3{X: 4, Y: 1, Z: 1}, Block: driver.Dim3{X: 32, Y: 1, Z: 1}, Stream: b.stream, Params: pointer(out)}))
		b.must(b.StreamSync(b.stream))
		data := make([]byte, 4*32)
		b.must(b.CopyToHost(data, out))
		const poison = 0xdead_beef
		for block := range 4 {
			first := uint32(poison)
			if block == 0 {
				first = 7
			}
			for word, want := range []uint32{first, first, first, first, poison} {
				if word == 3 && block == 0 {
					want = 0 // the upper half of 7
				}
				if got := binary.LittleEndian.Uint32(data[32*block+4*word:]); got != want {
					t.Errorf("block %d, word %d: %#x, want %#x", block, word, got, want)
				}
			}
		}
	}
}
