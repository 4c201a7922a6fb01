package emu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu/exec"
)

// hopper is a card of sm_90.
var hopper = Card{Major: 9, SharedOptin: 227 << 10}

// hopperSource makes PTX of a kernel k(box, out) of sm_90a; %d0 is out, %d1 the tensor map, %r1 the
// thread and %r2 four times that.
func hopperSource(body string) string {
	return ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .align 64 .b8 box[128], .param .u64 out)\n{\n" +
		".reg .pred %p<8>;\n.reg .b32 %r<32>;\n.reg .f32 %f<64>;\n.reg .b64 %d<16>;\n.shared .align 1024 .b8 s[4096];\n.shared .align 8 .b8 full[8];\n.shared .align 8 .b8 empty[8];\n" +
		"ld.param.u64 %d0, [out];\nmov.b64 %d1, box;\ncvta.param.u64 %d1, %d1;\nmov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 2;\ncvt.u64.u32 %d2, %r2;\nadd.u64 %d2, %d2, %d0;\n" +
		body + "\nret;\n}\n"
}

// A tensor of tests: rows of 64 elements, the last bits of which say their row and column.
const testRows = 32

// hopperRun launches k(box, out) on one block and returns what is in out.
func hopperRun(t testing.TB, body string, threads uint32, box *driver.TensorBox) ([]byte, error) {
	t.Helper()
	b := newBench(t, hopper)
	tensor, err := b.MemAlloc(testRows * 128)
	b.must(err)
	data := make([]byte, testRows*128)
	for i := range testRows * 64 {
		binary.LittleEndian.PutUint16(data[2*i:], uint16(i+1))
	}
	b.must(b.CopyToDevice(tensor, data))
	out, err := b.MemAlloc(8192)
	b.must(err)
	b.must(b.CopyToDevice(out, make([]byte, 8192)))
	described := driver.TensorBox{Size: [2]uint64{64, testRows}, Stride: 128, Box: [2]uint32{64, 8}, Swizzle128: true, ElementType: driver.BFloat16}
	if box != nil {
		described = *box
	}
	described.Base += tensor
	m, err := b.EncodeTensor(&described)
	b.must(err)
	loaded, err := b.ModuleLoad([]byte(hopperSource(body)))
	if err != nil {
		return nil, err
	}
	f, err := b.GetFunction(loaded, "k")
	b.must(err)
	b.must(b.Launch(&driver.Launch{Function: f, Grid: driver.Dim3{X: 1, Y: 1, Z: 1}, Block: driver.Dim3{X: threads, Y: 1, Z: 1}, Stream: b.stream,
		Params: append(m[:], pointer(out)...)}))
	if err := b.StreamSync(b.stream); err != nil {
		return nil, err
	}
	result := make([]byte, 8192)
	b.must(b.CopyToHost(result, out))
	return result, nil
}

// ringProgram has a second warp fill a stage twice, and the first one read it.
const ringProgram = `setp.ne.u32 %p1, %r1, 0;
@%p1 bra $READY;
mbarrier.init.shared::cta.b64 [full], 1;
mbarrier.init.shared::cta.b64 [empty], 1;
fence.mbarrier_init.release.cluster;
$READY: bar.sync 0;
setp.lt.u32 %p1, %r1, 32;
@%p1 bra $READER;
elect.sync _|%p3, -1;
@!%p3 bra $END;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 1024;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d1, {0, 0}], [full];
$EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [empty], 0;
@!%p2 bra $EMPTY;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 1024;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d1, {0, 8}], [full];
bra $END;
$READER: mov.u32 %r3, s;
add.u32 %r3, %r3, %r2;
setp.ne.u32 %p1, %r1, 0;
$FIRST: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
@!%p2 bra $FIRST;
ld.shared.u32 %r4, [%r3];
bar.warp.sync -1;
@!%p1 mbarrier.arrive.shared::cta.b64 _, [empty];
$SECOND: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 1;
@!%p2 bra $SECOND;
ld.shared.u32 %r5, [%r3];
st.global.u32 [%d2], %r4;
st.global.u32 [%d2+128], %r5;
$END: `

// productProgram multiplies 64 × 16 elements of A with 16 × 8 of B, both from shared memory, which all
// four warps fill first: A at s, B at s + 2048 of rows of 128 bytes, of which all elements are 1.
const productProgram = `mov.u32 %r3, s;
add.u32 %r3, %r3, %r2;
mov.u32 %r4, 0x3f803f80;
mov.u32 %r5, 0;
$FILL: st.shared.u32 [%r3], %r4;
add.u32 %r3, %r3, 512;
add.u32 %r5, %r5, 1;
setp.lt.u32 %p1, %r5, 8;
@%p1 bra $FILL;
fence.proxy.async.shared::cta;
bar.sync 0;
mov.f32 %f1, 0f40000000;
mov.f32 %f2, %f1;
mov.f32 %f3, %f1;
mov.f32 %f4, %f1;
mov.u32 %r10, 0x40004000;
mov.u32 %r11, %r10;
mov.u32 %r12, %r10;
mov.u32 %r13, %r10;
mov.b64 %d4, 0x4000004000010080;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, %d4, 1, 1, 1, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, %d4, 1, -1, 1, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, %d4, 1, 1, 1, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
add.rn.f32 %f1, %f1, %f4;
st.global.f32 [%d2], %f1;
`

// TestHopperPrograms holds the programs that are then spoilt to be right.
func TestHopperPrograms(t *testing.T) {
	out, err := hopperRun(t, ringProgram, 64, nil)
	if err != nil {
		t.Fatal(err)
	}
	for thread := range 32 { // the first row of each box is not swizzled
		for box := range 2 {
			if got, want := binary.LittleEndian.Uint16(out[128*box+4*thread:]), uint16(512*box+2*thread+1); got != want {
				t.Errorf("box %d, thread %d: %d, want %d", box, thread, got, want)
			}
		}
	}
	if out, err = hopperRun(t, productProgram, 128, nil); err != nil {
		t.Fatal(err)
	}
	for thread := range 128 {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(out[4*thread:])); got != 2*(2+16*2) {
			t.Errorf("thread %d: %v, want 68", thread, got)
		}
	}
}

// TestHopperFaults spoils one place of a program, and holds the fault to be named.
func TestHopperFaults(t *testing.T) {
	const last = "wgmma.wait_group.sync.aligned 0;\n"
	const copyFirst = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d1, {0, 0}], [full];"
	for name, c := range map[string]struct {
		program, old, new string
		threads           uint32
		want              string
	}{
		"no announcement":   {ringProgram, "fence.mbarrier_init.release.cluster;\n", "", 64, "without fence.mbarrier_init"},
		"no barrier":        {ringProgram, "$READY: bar.sync 0;", "$READY:", 64, "mbarrier"},
		"no making":         {ringProgram, "mbarrier.init.shared::cta.b64 [empty], 1;\n", "", 64, "there is no mbarrier"},
		"made twice":        {ringProgram, "[empty], 1;\n", "[empty], 1;\nmbarrier.init.shared::cta.b64 [empty], 1;\n", 64, "there is an mbarrier"},
		"no arrivals":       {ringProgram, "[empty], 1;\n", "[empty], 0;\n", 64, "an mbarrier of 0 arrivals"},
		"overwritten":       {ringProgram, "$READY: bar.sync 0;", "$READY: bar.sync 0; @!%p1 st.shared.u32 [full], 0;", 64, "an mbarrier is there"},
		"read as memory":    {ringProgram, "$READY: bar.sync 0;", "$READY: bar.sync 0; ld.shared.u32 %r9, [full];", 64, "an mbarrier is there"},
		"no wait for full":  {ringProgram, "@!%p2 bra $FIRST;\n", "", 64, "nobody has written it"},
		"no second wait":    {ringProgram, "@!%p2 bra $SECOND;\n", "", 64, "shared memory"},
		"no wait for empty": {ringProgram, "@!%p2 bra $EMPTY;\n", "", 64, "arrivals by 1 more, 0 of 1 are left"},
		"wrong parity":      {ringProgram, "%p2, [full], 0;", "%p2, [full], 1;", 64, "nobody has written it"},
		"parity of empty":   {ringProgram, "%p2, [empty], 0;", "%p2, [empty], 1;", 64, "arrivals by 1 more, 0 of 1 are left"},
		"left too early":    {ringProgram, "ld.shared.u32 %r4, [%r3];\nbar.warp.sync -1;\n@!%p1 mbarrier.arrive.shared::cta.b64 _, [empty];", "@!%p1 mbarrier.arrive.shared::cta.b64 _, [empty];\nld.shared.u32 %r4, [%r3];", 64, "warp 0 read it"},
		"lanes still read":  {ringProgram, "bar.warp.sync -1;\n", "", 64, "without bar.warp.sync"},
		"no arrival":        {ringProgram, "@!%p1 mbarrier.arrive.shared::cta.b64 _, [empty];\n", "", 64, "no progress"},
		"all lanes arrive":  {ringProgram, "@!%p1 mbarrier.arrive", "mbarrier.arrive", 64, "no progress"},
		"fewer bytes":       {ringProgram, "_, [full], 1024;\n" + copyFirst, "_, [full], 1008;\n" + copyFirst, 64, "no progress"},
		"more bytes":        {ringProgram, "_, [full], 1024;\n" + copyFirst, "_, [full], 1040;\n" + copyFirst, 64, "no progress"},
		"nobody waits, end": {ringProgram, "$EMPTY: mbarrier", "bra $END;\n$EMPTY: mbarrier", 64, "no progress"},
		"copy outside":      {ringProgram, "[s], [%d1, {0, 8}]", "[s+4096], [%d1, {0, 8}]", 64, "shared memory"},
		"copy misaligned":   {ringProgram, "[s], [%d1, {0, 8}]", "[s+64], [%d1, {0, 8}]", 64, "a multiple of 128"},
		"map elsewhere":     {ringProgram, "$READY:", "$READY: mov.u64 %d1, %d0;", 64, "is no tensor map"},
		"map misaligned":    {ringProgram, "$READY:", "$READY: add.u64 %d1, %d0, 32;", 64, "multiple of 64"},
		"written before":    {ringProgram, "$READY: bar.sync 0;", "$READY: mov.u32 %r9, s; add.u32 %r9, %r9, %r2; st.shared.u32 [%r9], %r1; bar.sync 0;", 64, "without fence.proxy.async"},
		"box not waited":    {fmt.Sprintf(boxProgram, 1024, 0, 0, 1024), "@!%p2 bra $WAIT;\n", "", 64, "not waited for"},
		"given back":        {ringProgram, "$READY: bar.sync 0;", "$READY: bar.sync 0; @!%p1 mbarrier.inval.shared::cta.b64 [full];", 64, "there is no mbarrier"},

		"no fence of proxies":   {productProgram, "fence.proxy.async.shared::cta;\n", "", 128, "without fence.proxy.async"},
		"no barrier behind it":  {productProgram, "bar.sync 0;\n", "", 128, "nobody has written it"},
		"fence behind barrier":  {productProgram, "fence.proxy.async.shared::cta;\nbar.sync 0;\n", "bar.sync 0;\nfence.proxy.async.shared::cta;\n", 128, "right"},
		"no fence of registers": {productProgram, "wgmma.fence.sync.aligned;\n", "", 128, "touched since the last wgmma.fence"},
		"no group":              {productProgram, "wgmma.commit_group.sync.aligned;\n", "", 128, "not waited for is touched"},
		"no wait":               {productProgram, last, "", 128, "not waited for is touched"},
		"wait for too little":   {productProgram, last, "wgmma.wait_group.sync.aligned 1;\n", 128, "not waited for is touched"},
		"nothing waits":         {productProgram, last + "add.rn.f32 %f1, %f1, %f4;\nst.global.f32 [%d2], %f1;\n", "", 128, "under way at the end"},
		"A changed":             {productProgram, "wgmma.commit", "mov.u32 %r11, 0;\nwgmma.commit", 128, "not waited for is touched"},
		"sums as A":             {productProgram, "{%r10, %r11, %r12, %r13}, %d4, 1, -1", "{%f1, %r11, %r12, %r13}, %d4, 1, -1", 128, "becomes one of another"},
		"other sums":            {productProgram, "{%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, %d4, 1, -1", "{%f2, %f1, %f3, %f4}, {%r10, %r11, %r12, %r13}, %d4, 1, -1", 128, "becomes one of another"},
		"overwritten by one":    {productProgram, "wgmma.commit", "mov.u32 %r20, 0;\n@!%p1 st.shared.u32 [s+2048], %r20;\nwgmma.commit", 128, "shared memory"},
		"three warps":           {productProgram, "", "", 96, "lacks some"},
		"one warp less":         {productProgram, "wgmma.fence", "setp.lt.u32 %p2, %r1, 32;\n@%p2 ret;\nwgmma.fence", 128, "all four of a warpgroup"},
		"a lane less":           {productProgram, "wgmma.fence", "setp.lt.u32 %p2, %r1, 1;\n@%p2 ret;\nwgmma.fence", 128, "all 32 are needed"},
		"descriptors differ":    {productProgram, "wgmma.fence", "setp.lt.u32 %p2, %r1, 32;\n@%p2 mov.b64 %d4, 0x4000004000010000;\nwgmma.fence", 128, "another warp"},
		"descriptor of lanes":   {productProgram, "wgmma.fence", "cvt.u64.u32 %d4, %r1;\nwgmma.fence", 128, "lane 0 has"},
		"no swizzle":            {productProgram, "0x4000004000010080", "0x0000004000010080", 128, "matrix descriptor"},
		"start between":         {productProgram, "0x4000004000010080", "0x4000004000010090", 128, "matrix descriptor"},
		"outside":               {productProgram, "0x4000004000010080", "0x4000004000013f80", 128, "the block has"},
		"no such shape":         {productProgram, "m64n8k16", "m64n12k16", 128, "shape"},
		"registers of shape":    {productProgram, "m64n8k16", "m64n16k16", 128, "4 registers, not 8"},
		"registers to give":     {productProgram, "wgmma.fence", "setmaxnreg.dec.sync.aligned.u32 20;\nwgmma.fence", 128, "multiples of 8"},
	} {
		if !strings.Contains(c.program, c.old) {
			t.Errorf("%s: %q is not in the program", name, c.old)
			continue
		}
		_, err := hopperRun(t, strings.Replace(c.program, c.old, c.new, 1), c.threads, nil)
		if c.want == "right" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// boxProgram copies one box to s and all of s to out; the corner stands in the program.
const boxProgram = `setp.ne.u32 %%p1, %%r1, 0;
@%%p1 bra $READY;
mbarrier.init.shared::cta.b64 [full], 1;
fence.proxy.async;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], %d;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%%d1, {%d, %d}], [full];
$READY: bar.sync 0;
$WAIT: mbarrier.test_wait.parity.shared::cta.b64 %%p2, [full], 0;
@!%%p2 bra $WAIT;
mov.u32 %%r3, s;
add.u32 %%r3, %%r3, %%r2;
mov.u32 %%r5, 0;
$COPY: ld.shared.u32 %%r4, [%%r3];
st.global.u32 [%%d2], %%r4;
add.u32 %%r3, %%r3, 256;
add.u64 %%d2, %%d2, 256;
add.u32 %%r5, %%r5, 256;
setp.lt.u32 %%p1, %%r5, %d;
@%%p1 bra $COPY;
`

// TestBoxes compares boxes, inside of a tensor and across all its borders, with what they should hold.
func TestBoxes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		box := driver.TensorBox{Size: [2]uint64{uint64(1 + rng.IntN(64)), uint64(1 + rng.IntN(testRows))}, Stride: 128,
			Box: [2]uint32{uint32(8 * (1 + rng.IntN(8))), uint32(1 + rng.IntN(16))}, Swizzle128: rng.IntN(2) == 0, ElementType: driver.BFloat16}
		for box.Box[0]*box.Box[1]*2%256 != 0 {
			box.Box[1]++
		}
		x, y := 8*(rng.IntN(13)-4), rng.IntN(60)-20
		width, bytes := int(2*box.Box[0]), int(2*box.Box[0]*box.Box[1])
		out, err := hopperRun(t, fmt.Sprintf(boxProgram, bytes, x, y, bytes), 64, &box)
		if err != nil {
			t.Fatalf("%+v at %d, %d: %v", box, x, y, err)
		}
		for i := range bytes / 2 {
			at := 2 * i
			if box.Swizzle128 {
				at = int(exec.Swizzle(uint64(at)))
			}
			column, row, want := x+2*i%width/2, y+2*i/width, uint16(0)
			if column >= 0 && column < int(box.Size[0]) && row >= 0 && row < int(box.Size[1]) {
				want = uint16(64*row + column + 1)
			}
			if got := binary.LittleEndian.Uint16(out[at:]); got != want {
				t.Fatalf("%+v at %d, %d: element %d is %d, want %d", box, x, y, i, got, want)
			}
		}
	}
}

// TestBoxColumns has a box begin at a column that an H100 refuses.
func TestBoxColumns(t *testing.T) {
	box := driver.TensorBox{Size: [2]uint64{64, testRows}, Stride: 128, Box: [2]uint32{64, 4}, ElementType: driver.BFloat16}
	if _, err := hopperRun(t, fmt.Sprintf(boxProgram, 512, 4, 0, 512), 64, &box); err == nil || !strings.Contains(err.Error(), "multiples of 16") {
		t.Errorf("column 4: %v", err)
	}
}

// TestBulkCopy copies bytes without a tensor, and waits by the state of the arrival.
func TestBulkCopy(t *testing.T) {
	const program = `setp.ne.u32 %p1, %r1, 0;
@%p1 bra $READY;
mbarrier.init.shared::cta.b64 [full], 1;
fence.proxy.async.shared::cta;
st.global.u32 [%d0+4096], 77;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s+16], [%d0], 4112, [full];
mbarrier.arrive.expect_tx.shared::cta.b64 %d5, [full], 4112;
$WAIT: mbarrier.test_wait.shared::cta.b64 %p2, [full], %d5;
@!%p2 bra $WAIT;
ld.shared.u32 %r4, [s+4112];
st.global.u32 [%d0], %r4;
$READY: ret;`
	out, err := hopperRun(t, strings.Replace(strings.ReplaceAll(program, "4112", "2064"), "4096", "2048", 1), 32, nil)
	if err != nil || out[0] != 77 {
		t.Errorf("%v, %d, want 77", err, out[:1])
	}
	if _, err := hopperRun(t, program, 32, nil); err == nil || !strings.Contains(err.Error(), "the block has") {
		t.Errorf("behind shared memory: %v", err)
	}
	if _, err := hopperRun(t, strings.ReplaceAll(program, "4112", "2072"), 32, nil); err == nil || !strings.Contains(err.Error(), "multiples of 16") {
		t.Errorf("an odd size: %v", err)
	}
}

// TestTensorRefusals holds EncodeTensor to refuse what the driver refuses.
func TestTensorRefusals(t *testing.T) {
	right := driver.TensorBox{Base: 1 << 20, Size: [2]uint64{64, 32}, Stride: 128, Box: [2]uint32{64, 8}, Swizzle128: true, ElementType: driver.BFloat16}
	for want, spoil := range map[string]func(b *driver.TensorBox){
		"":                                     func(*driver.TensorBox) {},
		"a multiple of 16 is needed":           func(b *driver.TensorBox) { b.Base += 8 },
		"a tensor of [0 32] elements":          func(b *driver.TensorBox) { b.Size[0] = 0 },
		"a tensor of [64 4294967297] elements": func(b *driver.TensorBox) { b.Size[1] = 1<<32 + 1 },
		"rows 136 bytes apart":                 func(b *driver.TensorBox) { b.Stride = 136 },
		"overlap":                              func(b *driver.TensorBox) { b.Stride = 112 },
		"rows 1099511627776 bytes apart":       func(b *driver.TensorBox) { b.Stride = 1 << 40 },
		"a box of [64 257] elements":           func(b *driver.TensorBox) { b.Box[1] = 257 },
		"a box of [64 0] elements":             func(b *driver.TensorBox) { b.Box[1] = 0 },
		"a box with rows of 120 bytes":         func(b *driver.TensorBox) { b.Box[0] = 60 },
		"a box with rows of 144 bytes":         func(b *driver.TensorBox) { b.Box[0] = 72 },
		"elements of type 7":                   func(b *driver.TensorBox) { b.ElementType = 7 },
	} {
		b := newBench(t, hopper)
		box := right
		spoil(&box)
		_, err := b.EncodeTensor(&box)
		if (want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", box, err, want)
		}
	}
	old := newBench(t, Card{})
	if _, err := old.EncodeTensor(&right); err == nil || !strings.Contains(err.Error(), "compute capability 9.0") {
		t.Errorf("on sm_80: %v", err)
	}
}
