package emu

import (
	"strings"
	"testing"

	"ossian/internal/cuda/driver"
)

// lastBlock has each of several blocks write a word, count itself, and the last one add up all words:
// out[0] counts, out[1] is the sum, out[4…] are the words.
const lastBlock = `mov.u32 %r1, %ctaid.x;
mov.u32 %r9, %nctaid.x;
mul.wide.u32 %d1, %r1, 4;
add.u64 %d1, %d1, %d0;
add.u32 %r2, %r1, 1;
st.global.u32 [%d1+16], %r2;
membar.gl;
atom.global.add.u32 %r3, [%d0], 1;
add.u32 %r3, %r3, 1;
setp.ne.u32 %p1, %r3, %r9;
@%p1 bra $END;
membar.gl;
mov.u32 %r4, 0;
mov.u32 %r5, 0;
mov.u64 %d2, %d0;
$SUM: ld.global.u32 %r6, [%d2+16];
add.u32 %r4, %r4, %r6;
add.u64 %d2, %d2, 4;
add.u32 %r5, %r5, 1;
setp.lt.u32 %p1, %r5, %r9;
@%p1 bra $SUM;
st.global.u32 [%d0+4], %r4;
$END: `

// TestOrderInside holds threads of a block to be ordered by barriers, in global memory too, whichever warp
// runs first.
func TestOrderInside(t *testing.T) {
	const program = `mov.u32 %r1, %tid.x;
xor.b32 %r2, %r1, 32;
mul.wide.u32 %d1, %r1, 4;
mul.wide.u32 %d2, %r2, 4;
add.u64 %d1, %d1, %d0;
add.u64 %d2, %d2, %d0;
st.global.u32 [%d1], %r1;
bar.sync 0;
ld.global.u32 %r3, [%d2];
st.global.u32 [%d1+1024], %r3;`
	for name, c := range map[string]struct{ old, new, want string }{
		"right":             {"", "", ""},
		"own word":          {"bar.sync 0;\nld.global.u32 %r3, [%d2]", "ld.global.u32 %r3, [%d1]", ""},
		"no barrier":        {"bar.sync 0;\n", "", "of this block wrote them, without a barrier"},
		"barrier of a warp": {"bar.sync 0;\n", "bar.warp.sync -1;\n", "of this block wrote them, without a barrier"},
		"lanes":             {"%r1, 32;", "%r1, 1;", ""},
	} {
		for _, spoilt := range []bool{false, true} {
			text := strings.Replace(program, c.old, c.new, 1)
			want := c.want
			if strings.HasPrefix(name, "lanes") && spoilt {
				text, want = strings.Replace(text, "bar.sync 0;\n", "", 1), "of this block wrote them, without a barrier"
			}
			b := newBench(t, Card{})
			out := get4096(b)
			b.must(b.CopyToDevice(out, make([]byte, 2048)))
			f := b.function(source(text))
			for range 4 { // blocks and warps in any order
				b.must(b.Launch(&driver.Launch{Function: f, Grid: driver.Dim3{X: 1, Y: 1, Z: 1}, Block: driver.Dim3{X: 64, Y: 1, Z: 1}, Stream: b.stream, Params: pointer(out)}))
			}
			if err := b.StreamSync(b.stream); (want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

// TestOrder holds what orders blocks to be enough, and each part of it to be needed.
func TestOrder(t *testing.T) {
	const one, two = "membar.gl;\natom", "@%p1 bra $END;\nmembar.gl;\n"
	for name, c := range map[string]struct{ old, new, want string }{
		"right":                    {"", "", ""},
		"fence by another name":    {one, "fence.acq_rel.gpu;\natom", ""},
		"released by the access":   {"membar.gl;\natom.global", "atom.release.gpu.global", ""},
		"acquired by it, too":      {"membar.gl;\natom.global", "atom.acq_rel.gpu.global", ""},
		"not released":             {one, "atom", "nothing orders the blocks"},
		"fence of the block alone": {one, "membar.cta;\natom", "nothing orders the blocks"},
		"not acquired":             {two, "@%p1 bra $END;\n", "nothing orders the blocks"},
		"fence before the word":    {"st.global.u32 [%d1+16], %r2;\nmembar.gl;", "membar.gl;\nst.global.u32 [%d1+16], %r2;", "nothing orders the blocks"},
		"loads that see anything":  {"ld.global.u32 %r6", "ld.volatile.global.u32 %r6", ""},
		"promised not to change":   {"ld.global.u32 %r6", "ld.global.nc.u32 %r6", "by .nc"},
	} {
		if !strings.Contains(lastBlock, c.old) {
			t.Errorf("%s: %q is not in the program", name, c.old)
			continue
		}
		b := newBench(t, Card{})
		out := get4096(b)
		b.must(b.CopyToDevice(out, make([]byte, 256)))
		f := b.function(source(strings.Replace(lastBlock, c.old, c.new, 1)))
		b.must(b.Launch(&driver.Launch{Function: f, Grid: driver.Dim3{X: 5, Y: 1, Z: 1}, Block: driver.Dim3{X: 1, Y: 1, Z: 1}, Stream: b.stream, Params: pointer(out)}))
		err := b.StreamSync(b.stream)
		if (c.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
			continue
		}
		if err == nil {
			sum := make([]byte, 4)
			b.must(b.CopyToHost(sum, out+4))
			if sum[0] != 15 {
				t.Errorf("%s: the sum is %d, want 15", name, sum[0])
			}
		}
	}
}
