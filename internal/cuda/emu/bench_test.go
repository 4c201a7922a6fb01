package emu

import (
	"testing"

	"ossian/internal/cuda/driver"
)

// BenchmarkLaunch is a small kernel: what a launch costs besides its instructions.
func BenchmarkLaunch(b *testing.B) {
	m := newBench(b, Card{})
	at := get4096(m)
	f := m.function(source(store))
	for b.Loop() {
		m.must(m.Launch(&driver.Launch{Function: f, Grid: driver.Dim3{X: 1, Y: 1, Z: 1}, Block: driver.Dim3{X: 128, Y: 1, Z: 1}, Stream: m.stream, Params: pointer(at)}))
		m.must(m.StreamSync(m.stream))
	}
}

// BenchmarkWarps is a loop of integers and floats, a shuffle and shared memory: what instructions cost.
func BenchmarkWarps(b *testing.B) {
	m := newBench(b, Card{Workers: 1})
	at := get4096(m)
	f := m.function(source(shared + `mov.u32 %r5, 0; mov.u32 %r6, 0f3f800000; mov.u32 %r7, 0;
$L: add.u32 %r5, %r5, 1; shl.b32 %r8, %r5, 2; xor.b32 %r7, %r7, %r8; fma.rn.f32 %r6, %r6, %r6, %r6; add.rn.f32 %r6, %r6, %r6;
st.shared.u32 [%r2], %r6; ld.shared.u32 %r6, [%r2]; shfl.sync.bfly.b32 %r6, %r6, 1, 31, -1; setp.lt.u32 %p1, %r5, 1000; @%p1 bra $L;
mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d0; st.global.u32 [%d1], %r7;`))
	for b.Loop() {
		m.must(m.Launch(&driver.Launch{Function: f, Grid: driver.Dim3{X: 1, Y: 1, Z: 1}, Block: driver.Dim3{X: 128, Y: 1, Z: 1}, Stream: m.stream, Params: pointer(at)}))
		m.must(m.StreamSync(m.stream))
	}
	b.ReportMetric(float64(m.machine.Counters().Kernels["k"].Warp)/b.Elapsed().Seconds()/1e6, "Mwarp/s")
}
