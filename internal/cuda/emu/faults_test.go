package emu

import (
	"errors"
	"strings"
	"testing"

	"ossian/internal/cuda/driver"
)

// A run launches a kernel k(out) once, on 4096 bytes of which the first half is written.
type run struct {
	card    Card
	body    string
	threads uint32
	shared  uint32
}

func (r run) on(t testing.TB) (*bench, driver.Ptr, error) {
	t.Helper()
	b := newBench(t, r.card)
	out, err := b.MemAlloc(4096)
	b.must(err)
	data := make([]byte, 2048)
	for i := range data {
		data[i] = byte(i)
	}
	b.must(b.CopyToDevice(out, data))
	f := b.function(source(r.body))
	b.must(b.Launch(&driver.Launch{Function: f, Grid: driver.Dim3{X: 1, Y: 1, Z: 1}, Block: driver.Dim3{X: max(r.threads, 32), Y: 1, Z: 1},
		Shared: r.shared, Stream: b.stream, Params: pointer(out)}))
	return b, out, b.StreamSync(b.stream)
}

// pointer makes a parameter of an address.
func pointer(at driver.Ptr) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(at >> (8 * i))
	}
	return b
}

// What tests of shared memory begin with: %r1 the thread, %r2 its place in s, %r3 that of the thread
// 32 further on, %r4 that of the next lane.
const shared = `.shared .align 16 .b8 s[1024];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
xor.b32 %r3, %r2, 128;
xor.b32 %r4, %r2, 4;
mov.u32 %r9, s;
`

// What tests of copies begin with: %r5 and %d5 are 16 bytes of shared and global memory per thread.
const copies = shared + `shl.b32 %r5, %r1, 4;
cvt.u64.u32 %d5, %r5;
add.u64 %d5, %d5, %d0;
cp.async.cg.shared.global [%r5], [%d5], 16;
cp.async.commit_group;
`

var faults = map[string]struct {
	run
	code int
	want string
}{
	"read outside":   {run{body: "ld.global.u32 %r1, [%d0+4096];"}, 700, "read of 4 bytes at 0x7f0000001000: no memory there (0 bytes behind the end of an allocation of 4096)"},
	"read before":    {run{body: "ld.global.u32 %r1, [%d0+-4];"}, 700, "no memory there"},
	"read unwritten": {run{body: "ld.global.u32 %r1, [%d0+2046];"}, 716, "misaligned"},
	"read half set":  {run{body: "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0+2048];"}, 719, "nobody has written byte 0"},
	"write behind":   {run{body: "st.global.u8 [%d0+4096], 1;"}, 700, "no memory there"},
	"atomic unset":   {run{body: "atom.global.add.u32 %r1, [%d0+2048], 1;"}, 719, "nobody has written"},
	"names lane": {run{threads: 64, body: `mov.u32 %r1, %tid.x;
setp.eq.u32 %p1, %r1, 37;
@%p1 ld.global.u32 %r2, [%d0+2048];`}, 719, "kernel k, block [0 0 0], warp 1, lane 5 (thread 37), PTX line 14: read of 4 bytes"},
	"names text":           {run{body: "ld.global.u32 %r1, [%d0+2048];"}, 719, "\n\tld.global.u32 %r1, [%d0+2048]"},
	"not constant":         {run{body: "st.global.u32 [%d0], 1;\nld.global.nc.u32 %r1, [%d0];"}, 719, "by .nc: the block wrote them before"},
	"not constant, a pair": {run{body: "st.global.u32 [%d0+4], 1;\nld.global.nc.u64 %d1, [%d0];"}, 719, "by .nc: the block wrote them before"},
	"constant":             {run{body: "mov.u64 %d1, fixed;\nst.global.u32 [%d1], 1;"}, 700, "a constant of the module"},
	"parameter":            {run{body: "mov.u64 %d1, out;\ncvta.param.u64 %d1, %d1;\nld.u32 %r1, [%d1+8];"}, 700, "at 8 of 8 bytes of parameters"},
	"own unset":            {run{body: ".local .align 8 .b8 l[16];\nld.local.u32 %r1, [l+4];"}, 719, "thread's own memory: nobody has written"},
	"own beyond":           {run{body: ".local .align 8 .b8 l[16];\nst.local.u32 [l+16], 1;"}, 700, "which has 0x10"},

	"shared unset":      {run{body: shared + "ld.shared.u32 %r5, [%r2];"}, 719, "nobody has written it"},
	"shared beyond":     {run{body: shared + "st.shared.u32 [%r2+1000], %r1;"}, 700, "the block has 0x400"},
	"shared misaligned": {run{body: shared + "st.shared.u32 [%r2+2], %r1;"}, 716, "misaligned"},
	"warps write, read": {run{threads: 64, body: shared + "st.shared.u32 [%r2], %r1;\nsetp.lt.u32 %p1, %r1, 32;\n@%p1 ret;\nld.shared.u32 %r5, [%r3];"}, 719, "warp 0 wrote it, without a barrier"},
	"warps read, write": {run{threads: 64, body: shared + "st.shared.u32 [%r2], %r1;\nbar.sync 0;\nsetp.lt.u32 %p1, %r1, 32;\n@%p1 ld.shared.u32 %r5, [%r3];\n@!%p1 st.shared.u32 [%r2], %r1;"}, 719,
		"write of shared memory at 0x80: warp 0 read it"},
	"warps write, write": {run{threads: 64, body: shared + "st.shared.u32 [%r2], %r1;\nst.shared.u32 [%r3], %r1;"}, 719, "warp 0 wrote it"},
	"several read":       {run{threads: 96, body: shared + "st.shared.u32 [%r2], %r1;\nbar.sync 0;\nld.shared.u32 %r5, [s];\nbar.warp.sync -1;\nst.shared.u32 [s+64], %r1;"}, 719, "wrote it"},
	"several read it": {run{threads: 96, body: shared + `st.shared.u32 [%r2], %r1;
bar.sync 0;
ld.shared.u32 %r5, [s];
setp.eq.u32 %p1, %r1, 64;
bar.warp.sync -1;
@%p1 st.shared.u32 [s], %r1;`}, 719, "several warps read it"},
	"lanes":         {run{body: shared + "st.shared.u32 [%r2], %r1;\nld.shared.u32 %r5, [%r4];"}, 719, "lane 1 wrote it, without a barrier"},
	"lanes, read":   {run{body: shared + "st.shared.u32 [%r2], %r1;\nbar.warp.sync -1;\nld.shared.u32 %r5, [%r4];\nst.shared.u32 [%r2], %r1;"}, 719, "lane 1 read it"},
	"named barrier": {run{threads: 96, body: shared + "setp.gt.u32 %p1, %r1, 63;\n@%p1 bra $L;\nbar.sync 1, 64;\n$L: st.shared.u32 [s+1020], %r1;"}, 719, "wrote it"},

	"copy not waited for": {run{body: copies + "ld.shared.u32 %r6, [%r5];\ncp.async.wait_all;"}, 719, "an asynchronous copy to it is not waited for"},
	"copy overwritten":    {run{body: copies + "st.shared.u32 [%r5], %r1;\ncp.async.wait_all;"}, 719, "is on its way"},
	"copy too late":       {run{body: copies + "cp.async.wait_group 1;\nld.shared.u32 %r6, [%r5];"}, 719, "not waited for"},
	"copy of a neighbour": {run{body: copies + "cp.async.wait_group 0;\nxor.b32 %r5, %r5, 16;\nld.shared.u32 %r6, [%r5];"}, 719, "lane 1 wrote it"},
	"copy forgotten":      {run{body: copies}, 719, "asynchronous copies are on their way at the end"},
	"copy of nothing":     {run{body: copies + "cp.async.cg.shared.global [%r5+512], [%d5+2048], 16;\ncp.async.wait_all;"}, 719, "nobody has written byte 0"},

	"shfl alone":      {run{body: "mov.u32 %r1, %laneid;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;"}, 719, "lanes ffffffff are alive, 0000ffff are here"},
	"shfl from out":   {run{body: "mov.u32 %r1, %laneid;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 shfl.sync.bfly.b32 %r2, %r1, 16, 31, 65535;"}, 719, "reads a register of lane 16"},
	"vote alone":      {run{body: "mov.u32 %r1, %laneid;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 vote.sync.ballot.b32 %r2, %p1, -1;"}, 719, "are here"},
	"ldmatrix alone":  {run{body: shared + "setp.lt.u32 %p1, %r1, 16;\n@%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r2];"}, 719, "all 32 are needed"},
	"mma alone":       {run{body: "mov.b32 %r1, 0;\nmov.u32 %r2, %laneid;\nsetp.lt.u32 %p1, %r2, 16;\n@%p1 mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r4,%r5,%r6,%r7}, {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%r1,%r1,%r1,%r1};"}, 719, "all 32 are needed"},
	"barrier in part": {run{threads: 64, body: shared + "setp.lt.u32 %p1, %r1, 16;\n@%p1 bar.sync 0;"}, 719, "barrier reached by lanes 0000ffff"},
	"barrier left":    {run{threads: 64, body: shared + "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $L;\nbar.sync 0;\n$L: ret;"}, 702, "32 of 64 threads have come"},
	"barriers differ": {run{threads: 64, body: shared + "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $L;\nbar.sync 1, 64;\nret;\n$L: bar.sync 1, 32;"}, 719, "others came for"},
	"barrier of none": {run{threads: 64, body: "bar.sync 0, 33;"}, 719, "is not possible"},
	"warp barrier":    {run{body: shared + "setp.lt.u32 %p1, %r1, 16;\n@%p1 bar.warp.sync -1;"}, 719, "are here"},

	"trap":         {run{body: "trap;"}, 719, "the kernel gave up"},
	"no end":       {run{card: Card{Limit: 1000}, body: "$L: bra $L;"}, 702, "more than"},
	"wrong target": {run{body: "mov.u32 %r1, 2;\n$T: .branchtargets $L, $L;\nbrx.idx %r1, $T;\n$L: ret;"}, 719, "target 2 of 2"},
}

// TestFaults plants what kernels do wrong and holds each to be named, with the code a card would give,
// and to lose the context.
func TestFaults(t *testing.T) {
	for name, c := range faults {
		b, _, err := c.on(t)
		var e *driver.Error
		if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Text, c.want) || !e.Sticky() {
			t.Errorf("%s: %v, want code %d and %q", name, err, c.code, c.want)
			continue
		}
		if _, err := b.MemAlloc(1); !errors.As(err, &e) || e.Code != c.code {
			t.Errorf("%s: afterwards the context is not lost: %v", name, err)
		}
		if err := b.machine.Close(); err != nil {
			t.Errorf("%s: a lost context leaves nothing behind: %v", name, err)
		}
	}
}

// TestRight holds correct uses of what TestFaults misuses to pass.
func TestRight(t *testing.T) {
	for name, r := range map[string]run{
		"warps":    {threads: 64, body: shared + "st.shared.u32 [%r2], %r1;\nbar.sync 0;\nld.shared.u32 %r5, [%r3];\nbar.sync 0;\nst.shared.u32 [%r2], %r5;"},
		"lanes":    {body: shared + "st.shared.u32 [%r2], %r1;\nbar.warp.sync -1;\nld.shared.u32 %r5, [%r4];\nbar.warp.sync -1;\nst.shared.u32 [%r2], %r5;"},
		"copies":   {threads: 64, body: copies + "cp.async.wait_group 0;\nbar.sync 0;\nxor.b32 %r5, %r5, 512;\nld.shared.u32 %r6, [%r5];"},
		"producer": {threads: 64, body: shared + "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $L;\nbar.sync 1, 64;\nld.shared.u32 %r5, [%r3];\nret;\n$L: st.shared.u32 [%r2], %r1;\nbar.arrive 1, 64;"},
		"atomics":  {threads: 64, body: shared + "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [s], 0;\nbar.sync 0;\natom.shared.add.u32 %r5, [s], 1;\nred.shared.add.u32 [s], 1;\nbar.sync 0;\nld.shared.u32 %r6, [s];"},
		"half":     {body: "mov.u32 %r1, %laneid;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 shfl.sync.bfly.b32 %r2, %r1, 1, 31, 65535;\n@%p1 bar.warp.sync 65535;"},
		"dynamic":  {shared: 1024, body: "mov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, more;\nadd.u32 %r3, %r3, %r2;\nst.shared.u32 [%r3+896], %r1;"},
		"own":      {body: ".local .align 8 .b8 l[16];\nmov.u64 %d1, l;\ncvta.local.u64 %d2, %d1;\nst.u32 [%d2+4], 7;\nld.local.u32 %r1, [%d1+4];"},
	} {
		if _, _, err := r.on(t); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
