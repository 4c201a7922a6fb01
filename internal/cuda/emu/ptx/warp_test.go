package ptx

import (
	"math"
	"math/rand/v2"
	"testing"

	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
)

// launch runs a kernel k(in, out) of a body on one block; in and out are words. The body finds the
// addresses of its thread's words in %din and %dout, its thread in %i.
func launch(t testing.TB, body string, threads [3]uint32, in []uint32, words int) []uint32 {
	t.Helper()
	src := ".version 7.1\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out)\n{\n" +
		".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>, %i; .reg .f32 %f<16>; .reg .b64 %d<8>, %din, %dout;\n" +
		"mov.u32 %i, %tid.x; mul.wide.u32 %d0, %i, 4; ld.param.u64 %din, [in]; ld.param.u64 %dout, [out]; add.u64 %din, %din, %d0; add.u64 %dout, %dout, %d0;\n" +
		body + "\nret;\n}\n"
	m, err := Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	mem := &exec.Memory{}
	device := &exec.Device{Memory: mem, Limit: 1 << 24, Multiprocessors: 1}
	from, to := mem.Alloc(device, uint64(max(4*len(in), 4))), mem.Alloc(device, uint64(4*words))
	for i, v := range in {
		le.PutUint32(from.Data[4*i:], v)
	}
	from.Written(0, from.Size)
	grid := exec.Grid{Kernel: m.Kernels["k"], Device: device, Blocks: [3]uint32{1, 1, 1}, Threads: threads, Params: le.AppendUint64(le.AppendUint64(nil, from.Base), to.Base)}
	if _, f := grid.Run(); f != nil {
		t.Fatal(f.Text)
	}
	out := make([]uint32, words)
	for i := range out {
		out[i] = le.Uint32(to.Data[4*i:])
	}
	return out
}

// TestExchange holds what lanes tell each other to its definition, lane by lane. Lane l has l·l.
func TestExchange(t *testing.T) {
	square := func(l int) uint32 { return uint32(l * l) }
	for _, c := range []struct {
		text string // %r1 the lane, %r2 its square; leaves %r3
		want func(l int) uint32
	}{
		{"shfl.sync.bfly.b32 %r3, %r2, 5, 31, -1;", func(l int) uint32 { return square(l ^ 5) }},
		{"shfl.sync.down.b32 %r3, %r2, 3, 31, -1;", func(l int) uint32 {
			if l+3 > 31 {
				return square(l)
			}
			return square(l + 3)
		}},
		{"shfl.sync.up.b32 %r3, %r2, 3, 0, -1;", func(l int) uint32 {
			if l < 3 {
				return square(l)
			}
			return square(l - 3)
		}},
		{"shfl.sync.idx.b32 %r3, %r2, 9, 31, -1;", func(int) uint32 { return 81 }},
		{"shfl.sync.idx.b32 %r3, %r2, 3, 0x181f, -1;", func(l int) uint32 { return square(l&^7 + 3) }}, // segments of eight
		{"shfl.sync.down.b32 %r3|%p1, %r2, 4, 0x181f, -1;\nselp.b32 %r3, 1, 0, %p1;", func(l int) uint32 { return uint32(b2u(l&7 < 4)) }},
		{"setp.gt.u32 %p1, %r1, 20;\nvote.sync.ballot.b32 %r3, %p1, -1;", func(int) uint32 { return 0xffe0_0000 }},
		{"setp.gt.u32 %p1, %r1, 20;\nvote.sync.ballot.b32 %r3, !%p1, -1;", func(int) uint32 { return 0x001f_ffff }},
		{"setp.gt.u32 %p1, %r1, 20;\nvote.sync.any.pred %p2, %p1, -1;\nselp.b32 %r3, 1, 0, %p2;", func(int) uint32 { return 1 }},
		{"setp.gt.u32 %p1, %r1, 20;\nvote.sync.all.pred %p2, %p1, -1;\nselp.b32 %r3, 1, 0, %p2;", func(int) uint32 { return 0 }},
		{"shr.u32 %r4, %r1, 3;\nmatch.any.sync.b32 %r3, %r4, -1;", func(l int) uint32 { return 255 << (l &^ 7) }},
		{"shr.u32 %r4, %r1, 5;\nmatch.all.sync.b32 %r3|%p1, %r4, -1;", func(int) uint32 { return math.MaxUint32 }},
		{"redux.sync.add.u32 %r3, %r1, -1;", func(int) uint32 { return 496 }},
		{"redux.sync.max.s32 %r3, %r2, -1;", func(int) uint32 { return 961 }},
		{"activemask.b32 %r3;", func(int) uint32 { return math.MaxUint32 }},
		{"mov.u32 %r3, %lanemask_lt;", func(l int) uint32 { return 1<<l - 1 }},
		{"mov.u32 %r3, %lanemask_ge;", func(l int) uint32 { return math.MaxUint32 << l }},
		{"setp.lt.u32 %p1, %r1, 7;\nmov.u32 %r3, 1;\n@%p1 bra $L;\nmov.u32 %r3, 2;\n$L: add.u32 %r3, %r3, 1;", func(l int) uint32 { return uint32(3 - b2u(l < 7)) }},
		{"mov.u32 %r3, 0;\n$L: add.u32 %r3, %r3, 2;\nsetp.le.u32 %p1, %r3, %r1;\n@%p1 bra $L;", func(l int) uint32 { return uint32(l/2*2 + 2) }},
		{"and.b32 %r4, %r1, 1;\n$T: .branchtargets $A, $B;\nbrx.idx %r4, $T;\n$A: mov.u32 %r3, 10;\nbra $C;\n$B: mov.u32 %r3, 11;\n$C: add.u32 %r3, %r3, 0;", func(l int) uint32 { return uint32(10 + l&1) }},
		{"mov.u32 %r3, 1;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 st.global.u32 [%dout], %r3;\n@%p1 exit;\nactivemask.b32 %r3;", func(l int) uint32 {
			if l < 9 {
				return 1
			}
			return exec.AllLanes >> 9 << 9
		}},
	} {
		out := launch(t, "mov.u32 %r1, %laneid;\nmul.lo.u32 %r2, %r1, %r1;\n"+c.text+"\nst.global.u32 [%dout], %r3;", [3]uint32{32, 1, 1}, nil, 32)
		for l, got := range out {
			if got != c.want(l) {
				t.Errorf("%s: lane %d has %#x, want %#x", c.text, l, got, c.want(l))
				break
			}
		}
	}
}

// TestThreads holds the numbers of threads in blocks of three dimensions to their order.
func TestThreads(t *testing.T) {
	out := launch(t, `mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mov.u32 %r3, %ntid.x; mov.u32 %r4, %ntid.y;
mad.lo.u32 %r5, %r2, %r4, %r1; mad.lo.u32 %r5, %r5, %r3, %i; mul.wide.u32 %d1, %r5, 4; ld.param.u64 %d2, [out]; add.u64 %d2, %d2, %d1;
mad.lo.u32 %r6, %r2, 100, %r1; mad.lo.u32 %r6, %r6, 100, %i; st.global.u32 [%d2], %r6;`, [3]uint32{3, 5, 4}, nil, 60)
	for i, got := range out {
		if want := uint32(i/15*10000 + i/3%5*100 + i%3); got != want {
			t.Fatalf("thread %d is %d, want %d", i, got, want)
		}
	}
}

// TestVotes holds barriers at which all threads of a block vote to the sums of it.
func TestVotes(t *testing.T) {
	out := launch(t, `setp.gt.u32 %p1, %i, 37; bar.red.popc.u32 %r1, 0, %p1; bar.red.and.pred %p2, 0, !%p1; bar.red.or.pred %p3, 1, 96, %p1;
selp.b32 %r2, 1000, 0, %p2; selp.b32 %r3, 2000, 0, %p3; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.global.u32 [%dout], %r1;`, [3]uint32{96, 1, 1}, nil, 96)
	for i, got := range out {
		if got != 2058 {
			t.Fatalf("thread %d has %d, want 2058", i, got)
		}
	}
}

// TestLoads holds widths, signs and vectors of loads and stores to their definition.
func TestLoads(t *testing.T) {
	in := []uint32{0x8081_82fe, 0x1234_5678, 0xdead_beef, 0x0bad_f00d}
	for _, c := range []struct {
		text string // leaves %r3
		want uint32
	}{
		{"ld.global.s8 %r3, [%d1];", 0xffff_fffe},
		{"ld.global.u8 %r3, [%d1+3];", 0x80},
		{"ld.global.s16 %r3, [%d1+2];", 0xffff_8081},
		{"ld.global.nc.L1::no_allocate.u16 %r3, [%d1];", 0x82fe},
		{"ld.global.u8 %h1, [%d1];\ncvt.u32.u16 %r3, %h1;", 0xfe},
		{"ld.global.s8 %h1, [%d1];\ncvt.u32.u16 %r3, %h1;", 0xfffe},
		{"ld.global.s32 %d2, [%d1];\nshr.u64 %d2, %d2, 32;\ncvt.u32.u64 %r3, %d2;", 0xffff_ffff},
		{"ld.global.nc.v4.u32 {%r4, %r5, %r6, %r3}, [%d1];", 0x0bad_f00d},
		{"ld.global.v2.u64 {%d2, %d3}, [%d1];\ncvt.u32.u64 %r3, %d3;", 0xdead_beef},
		{"ld.global.v2.u16 {%h1, %h2}, [%d1+4];\nmov.b32 %r3, {%h2, %h1};", 0x5678_1234},
		{"ld.u32 %r3, [%d1+4];", 0x1234_5678},
		{"ld.volatile.global.u32 %r3, [%d1+4];", 0x1234_5678},
		{"ld.relaxed.gpu.global.u32 %r3, [%d1+4];", 0x1234_5678},
		{".shared .align 16 .b8 s[16];\nst.shared.v4.u32 [s], {1, 2, 3, 4};\nld.shared.u32 %r3, [s+8];", 3},
		{".shared .align 16 .b8 s[16];\nmov.u64 %d2, s;\ncvta.shared.u64 %d2, %d2;\nst.u64 [%d2+8], %d1;\nld.shared.u32 %r3, [s+12];", 0x7f00},
		{".shared .align 16 .b8 s[16];\nmov.u64 %d2, s;\ncvta.shared.u64 %d2, %d2;\nisspacep.shared %p1, %d2;\nselp.b32 %r3, 1, 0, %p1;", 1},
		{".local .align 8 .b8 l[8];\nst.local.v2.u32 [l], {7, 8};\nld.local.u32 %r3, [l+4];", 8},
		{"st.global.u32 [%dout], 40;\natom.global.add.u32 %r4, [%dout], 2;\nld.global.u32 %r3, [%dout];\nmad.lo.u32 %r3, %r4, 1000, %r3;", 40042},
		{"st.global.u32 [%dout], 40;\natom.global.cas.b32 %r4, [%dout], 40, 5;\natom.global.cas.b32 %r4, [%dout], 40, 6;\nld.global.u32 %r3, [%dout];", 5},
		{"st.global.u32 [%dout], 40;\nred.global.max.u32 [%dout], 41;\nld.global.u32 %r3, [%dout];", 41},
		{"st.global.u32 [%dout], 3;\natom.global.inc.u32 %r4, [%dout], 3;\nld.global.u32 %r3, [%dout];", 0},
		{"st.global.u32 [%dout], 0;\natom.global.dec.u32 %r4, [%dout], 3;\nld.global.u32 %r3, [%dout];", 3},
		{"st.global.u32 [%dout], 0f3f800000;\nred.global.add.f32 [%dout], 0f40000000;\nld.global.u32 %r3, [%dout];", 0x4040_0000},
		{"atom.global.exch.b64 %d2, [%d1+8], 5;\ncvt.u32.u64 %r3, %d2;", 0xdead_beef},
		{"ld.param.u32 %r3, [in+4];", 0x7f00},
	} {
		out := launch(t, "ld.param.u64 %d1, [in];\n"+c.text+"\nst.global.u32 [%dout], %r3;", [3]uint32{1, 1, 1}, in, 1)
		if out[0] != c.want {
			t.Errorf("%s: %#x, want %#x", c.text, out[0], c.want)
		}
	}
}

// TestMatrix multiplies by ldmatrix and mma and holds every element to float64 and to its place: A is
// 16 × 16 in rows, B is 8 columns of 16, or with .trans 16 rows of 8.
func TestMatrix(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, kind := range []string{"bf16", "f16"} {
		for _, trans := range []bool{false, true} {
			var a [16][16]float64
			var b [16][8]float64
			code := func(v float64) uint32 {
				if kind == "f16" {
					return arith.ToF16(float32(v))
				}
				return arith.ToBF16(float32(v))
			}
			in := make([]uint32, 16*8+16*4)
			put := func(at int, v float64) { in[at/2] |= code(v) << (at % 2 * 16) }
			for i := range a {
				for k := range a[i] {
					a[i][k] = float64(rng.IntN(17) - 8)
					put(i*16+k, a[i][k])
				}
			}
			for k := range b {
				for j := range b[k] {
					b[k][j] = float64(rng.IntN(17)-8) / 4
					if trans {
						put(256+k*8+j, b[k][j])
					} else {
						put(256+j*16+k, b[k][j])
					}
				}
			}
			// Rows of A in the order of ldmatrix: 0-7 and 8-15 of the first half of k, then of the second.
			place := "and.b32 %r8, %i, 15; shl.b32 %r8, %r8, 5; shr.u32 %r9, %i, 4; shl.b32 %r9, %r9, 4; add.u32 %r8, %r8, %r9; add.u32 %r8, %r8, %r20;\n"
			load := "and.b32 %r9, %i, 7; shl.b32 %r9, %r9, 5; shr.u32 %r10, %i, 3; and.b32 %r10, %r10, 1; shl.b32 %r10, %r10, 4; add.u32 %r9, %r9, %r10; add.u32 %r9, %r9, %r20; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r5, %r6}, [%r9+512];\n"
			if trans {
				load = "and.b32 %r9, %i, 15; shl.b32 %r9, %r9, 4; add.u32 %r9, %r9, %r20; ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r5, %r6}, [%r9+512];\n"
			}
			out := launch(t, `.shared .align 16 .b8 s[768]; mov.u32 %r20, s; mul.wide.u32 %d1, %i, 20; add.u64 %din, %din, %d1; mul.lo.u32 %r8, %i, 24; add.u32 %r8, %r8, %r20;
ld.global.v2.u32 {%r1, %r2}, [%din]; st.shared.v2.u32 [%r8], {%r1, %r2}; ld.global.v2.u32 {%r1, %r2}, [%din+8]; st.shared.v2.u32 [%r8+8], {%r1, %r2};
ld.global.v2.u32 {%r1, %r2}, [%din+16]; st.shared.v2.u32 [%r8+16], {%r1, %r2}; bar.warp.sync -1;
`+place+"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r8];\n"+load+`mov.f32 %f0, 0f3f800000;
mma.sync.aligned.m16n8k16.row.col.f32.`+kind+`.`+kind+`.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f0,%f0,%f0,%f0};
mul.wide.u32 %d1, %i, 12; add.u64 %dout, %dout, %d1; st.global.v4.f32 [%dout], {%f1,%f2,%f3,%f4};`, [3]uint32{32, 1, 1}, in, 128)
			for n, got := range out {
				lane, element := n/4, n%4
				row, col := lane/4+element/2*8, lane%4*2+element%2
				want := 1.0
				for k := range 16 {
					want += a[row][k] * b[k][col]
				}
				if float64(math.Float32frombits(got)) != want { // small numbers: every order of the sum is exact
					t.Fatalf("%s, trans %v: element %d,%d is %g, want %g", kind, trans, row, col, math.Float32frombits(got), want)
				}
			}
		}
	}
}

// TestMatrixZeros multiplies matrices with rows and columns of zeros, of either sign: they add nothing,
// and make NaN of what is infinite or no number.
func TestMatrixZeros(t *testing.T) {
	for name, spoilt := range map[string]struct{ a, b float32 }{"numbers": {2, 3}, "infinite column": {2, float32(math.Inf(1))}, "row with NaN": {float32(math.NaN()), 3},
		"infinite row": {float32(math.Inf(-1)), 3}} {
		var a [16][16]float32
		var b [16][8]float32
		for i := range a {
			for k := range a[i] {
				if i != 3 && i != 12 {
					a[i][k] = float32(i - k)
				}
			}
		}
		for k := range b {
			for j := range b[k] {
				if j != 5 {
					b[k][j] = float32(k + j - 9)
				}
			}
		}
		a[12][1], b[2][5] = float32(math.Copysign(0, -1)), float32(math.Copysign(0, -1))
		a[7][4], b[9][2] = spoilt.a, spoilt.b
		pair := func(low, high float32) uint32 { return arith.ToBF16(low) | arith.ToBF16(high)<<16 }
		in := make([]uint32, 6*32)
		for lane := range 32 {
			row, at := lane/4, lane%4*2
			for k := range 4 {
				x := a[row+k%2*8][at+k/2*8:]
				in[32*k+lane] = pair(x[0], x[1])
			}
			for k := range 2 {
				in[32*(4+k)+lane] = pair(b[at+8*k][row], b[at+8*k+1][row])
			}
		}
		out := launch(t, `ld.global.u32 %r1, [%din]; ld.global.u32 %r2, [%din+128]; ld.global.u32 %r3, [%din+256]; ld.global.u32 %r4, [%din+384]; ld.global.u32 %r5, [%din+512]; ld.global.u32 %r6, [%din+640];
mov.f32 %f0, 0f3f800000; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f0,%f0,%f0,%f0};
mul.wide.u32 %d1, %i, 12; add.u64 %dout, %dout, %d1; st.global.v4.f32 [%dout], {%f1,%f2,%f3,%f4};`, [3]uint32{32, 1, 1}, in, 128)
		for n, bits := range out {
			lane, element := n/4, n%4
			row, col := lane/4+element/2*8, lane%4*2+element%2
			want := float32(1)
			for k := range 16 {
				want += a[row][k] * b[k][col]
			}
			if got := math.Float32frombits(bits); got != want && (got == got || want == want) {
				t.Errorf("%s: element %d,%d is %g, want %g", name, row, col, got, want)
			}
		}
	}
}

// TestZeroFill holds cp.async with fewer bytes than its size to zeros behind them.
func TestZeroFill(t *testing.T) {
	out := launch(t, `.shared .align 16 .b8 s[16]; mov.u32 %r1, s; mov.u32 %r2, 6; cp.async.ca.shared.global [%r1], [%din], 16, %r2; cp.async.wait_all;
ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [s]; st.global.v4.u32 [%dout], {%r3, %r4, %r5, %r6};`, [3]uint32{1, 1, 1}, []uint32{0x1111_1111, 0x2222_2222, 0x3333_3333, 0x4444_4444}, 4)
	for i, want := range []uint32{0x1111_1111, 0x2222, 0, 0} {
		if out[i] != want {
			t.Errorf("word %d is %#x, want %#x", i, out[i], want)
		}
	}
}

// FuzzParse holds reading to end in an error of a line or in kernels, whatever the text.
func FuzzParse(f *testing.F) {
	f.Add(".version 7.1\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 o)\n.maxntid 128, 1, 1\n{\n.reg .b32 %r<4>;\n.reg .pred %p<2>;\n.shared .align 4 .b8 s[4];\n" +
		"mov.u32 %r1, %tid.x;\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 bra $L;\nadd.s32 %r1, %r1, -1;\n$L: st.shared.u32 [s], %r1;\nret;\n}\n")
	f.Add(".target sm_80\n.entry k()\n{ret;}")
	f.Add(".target sm_80\n.global .align 4 .b32 t[2] = {1, 2};\n.const .b8 c = 5;\n.extern .shared .align 16 .b8 s[];\n.entry k(){ .reg .b32 %r1; mov.u32 %r1, s; /* c */ ret; }")
	f.Add(".target sm_80\n.entry k(){ .reg .b32 %r<9>; .reg .b64 %d; mov.b64 %d, {%r1, %r2}; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1,%r2,%r3,%r4},{%r1,%r2,%r3,%r4},{%r1,%r2},{%r1,%r2,%r3,%r4}; ret; }")
	for _, o := range append(integerOps, floatOps...) {
		f.Add(".target sm_80\n.entry k(){ .reg .b32 %wa, %wb, %wc, %wo, %t; .reg .b64 %da, %db, %do; .reg .pred %q, %po; " + o.text + "; ret; }")
	}
	f.Fuzz(func(t *testing.T, src string) {
		m, err := Parse(src)
		if (m == nil) == (err == nil) {
			t.Fatalf("%v and %v", m, err)
		}
		if err == nil {
			for name, k := range m.Kernels {
				if k == nil || len(k.Code) == 0 {
					t.Fatalf("kernel %s without code", name)
				}
			}
		}
	})
}
