package emu

import (
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
