// What single instructions do, for a card to say so: nothing else launches these kernels. Tests record
// what a card computes, and hold the emulator to that from then on (emu/testdata/conformance), since
// kernels and emulator were written by the same hands and may share a wrong belief.
//
// A block is one warp. A lane reads some words of its own, and writes some.
#include "common.cuh"

struct ConformArgs {
  const uint32_t* in;
  uint32_t* out;
};

// words_of loads the COUNT words of a lane.
template <int COUNT>
__device__ __forceinline__ void words_of(const ConformArgs& a, uint32_t (&words)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; i++) words[i] = a.in[(blockIdx.x * 32 + threadIdx.x) * COUNT + i];
}
template <int COUNT>
__device__ __forceinline__ void write_words(const ConformArgs& a, const uint32_t (&words)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; i++) a.out[(blockIdx.x * 32 + threadIdx.x) * COUNT + i] = words[i];
}

#define CONFORM(name) extern "C" __global__ void __launch_bounds__(32) name(const ConformArgs a)

// Four words of A, two of B, four of C; four of D.
#define CONFORM_MMA(name, type)                                                                                             \
  CONFORM(name) {                                                                                                           \
    uint32_t w[10], d[4];                                                                                                   \
    words_of(a, w);                                                                                                         \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};" \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                           \
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(w[4]), "r"(w[5]), "r"(w[6]), "r"(w[7]), "r"(w[8]), "r"(w[9])); \
    write_words(a, d);                                                                                                      \
  }
CONFORM_MMA(conform_mma_bf16, "bf16")
CONFORM_MMA(conform_mma_f16, "f16")

// Sixteen words that fill 128 rows of 16 bytes of shared memory together, and which row the lane names;
// what ldmatrix gives the lane of one, two, four matrices, and of four transposed ones.
CONFORM(conform_ldmatrix) {
  __shared__ __align__(16) uint32_t rows[512];
  uint32_t w[17], d[11];
  words_of(a, w);
  for (int i = 0; i < 16; i++) rows[threadIdx.x * 16 + i] = w[i];
  __syncthreads();
  uint32_t at = shared_address(rows) + w[16] * 16;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(d[0]) : "r"(at) : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(d[1]), "=r"(d[2]) : "r"(at) : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(d[3]), "=r"(d[4]), "=r"(d[5]), "=r"(d[6]) : "r"(at) : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(d[7]), "=r"(d[8]), "=r"(d[9]), "=r"(d[10]) : "r"(at) : "memory");
  write_words(a, d);
}

#define SHUFFLE(mode, i)                                                                                                                  \
  asm volatile("{ .reg .pred in; shfl.sync." mode ".b32 %0|in, %2, %3, %4, 0xffffffff; selp.u32 %1, 1, 0, in; }" : "=r"(d[i]), "=r"(d[i + 1]) \
               : "r"(w[0]), "r"(w[1]), "r"(w[2]))

// A value, a distance or lane, a clamp; what four kinds of shuffles give and whether the source was in
// range, then a ballot of odd values and whether there are any.
CONFORM(conform_shuffle) {
  uint32_t w[3], d[10];
  words_of(a, w);
  SHUFFLE("bfly", 0);
  SHUFFLE("up", 2);
  SHUFFLE("down", 4);
  SHUFFLE("idx", 6);
  asm volatile("{ .reg .pred odd; setp.ne.u32 odd, %1, 0; vote.sync.ballot.b32 %0, odd, 0xffffffff; }" : "=r"(d[8]) : "r"(w[0] & 1));
  asm volatile("{ .reg .pred odd; setp.ne.u32 odd, %1, 0; vote.sync.any.pred odd, odd, 0xffffffff; selp.u32 %0, 1, 0, odd; }" : "=r"(d[9]) : "r"(w[0] & 1));
  write_words(a, d);
}

// Two words, which also are a float64; conversions of them.
CONFORM(conform_convert) {
  uint32_t w[2], d[16];
  words_of(a, w);
  float x = __uint_as_float(w[0]), y = __uint_as_float(w[1]);
  uint64_t both = (uint64_t)w[1] << 32 | w[0], wide;
  double z = __longlong_as_double(both), whole;
  uint16_t half;
  asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d[0]) : "f"(x), "f"(y));
  asm volatile("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(x));
  d[1] = half;
  asm volatile("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
  d[2] = half;
  asm volatile("cvt.f32.f16 %0, %1;" : "=r"(d[3]) : "h"((uint16_t)w[0]));
  asm volatile("cvt.rzi.s32.f32 %0, %1;" : "=r"(d[4]) : "f"(x));
  asm volatile("cvt.sat.f32.f32 %0, %1;" : "=r"(d[5]) : "f"(x));
  asm volatile("cvt.rn.f32.s32 %0, %1;" : "=r"(d[6]) : "r"(w[1]));
  asm volatile("cvt.rn.f32.u32 %0, %1;" : "=r"(d[7]) : "r"(w[1]));
  asm volatile("cvt.rzi.s64.f64 %0, %1;" : "=l"(wide) : "d"(z));
  d[8] = (uint32_t)wide, d[9] = wide >> 32;
  asm volatile("cvt.rn.f32.f64 %0, %1;" : "=r"(d[10]) : "d"(z));
  asm volatile("cvt.rpi.f64.f64 %0, %1;" : "=d"(whole) : "d"(z));
  wide = __double_as_longlong(whole);
  d[11] = (uint32_t)wide, d[12] = wide >> 32;
  asm volatile("cvt.rn.f64.s64 %0, %1;" : "=d"(whole) : "l"(both));
  wide = __double_as_longlong(whole);
  d[13] = (uint32_t)wide, d[14] = wide >> 32;
  asm volatile("cvt.rzi.s32.f64 %0, %1;" : "=r"(d[15]) : "d"(z));
  write_words(a, d);
}

// Three words; exactly rounded operations on them as float32, and on pairs of bf16.
CONFORM(conform_float) {
  uint32_t w[3], d[8];
  words_of(a, w);
  float x = __uint_as_float(w[0]), y = __uint_as_float(w[1]), z = __uint_as_float(w[2]);
  asm volatile("add.rn.f32 %0, %1, %2;" : "=r"(d[0]) : "f"(x), "f"(y));
  asm volatile("mul.rn.f32 %0, %1, %2;" : "=r"(d[1]) : "f"(x), "f"(y));
  asm volatile("fma.rn.f32 %0, %1, %2, %3;" : "=r"(d[2]) : "f"(x), "f"(y), "f"(z));
  asm volatile("div.rn.f32 %0, %1, %2;" : "=r"(d[3]) : "f"(x), "f"(y));
  asm volatile("rcp.rn.f32 %0, %1;" : "=r"(d[4]) : "f"(x));
  asm volatile("sqrt.rn.f32 %0, %1;" : "=r"(d[5]) : "f"(x));
  asm volatile("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d[6]) : "r"(w[0]), "r"(w[1]), "r"(w[2]));
  asm volatile("prmt.b32 %0, %1, %2, %3;" : "=r"(d[7]) : "r"(w[0]), "r"(w[1]), "r"(w[2]));
  write_words(a, d);
}

// A float32; approximations.
CONFORM(conform_approximate) {
  uint32_t w[1], d[5];
  words_of(a, w);
  float x = __uint_as_float(w[0]);
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=r"(d[0]) : "f"(x));
  asm volatile("ex2.approx.f32 %0, %1;" : "=r"(d[1]) : "f"(x));
  asm volatile("rcp.approx.ftz.f32 %0, %1;" : "=r"(d[2]) : "f"(x));
  asm volatile("rsqrt.approx.ftz.f32 %0, %1;" : "=r"(d[3]) : "f"(x));
  asm volatile("lg2.approx.ftz.f32 %0, %1;" : "=r"(d[4]) : "f"(x));
  write_words(a, d);
}

// Five words, the last of which says how many bytes of the others are copied; what arrives.
CONFORM(conform_copy) {
  __shared__ __align__(16) uint32_t room[128];
  uint32_t d[4];
  const uint32_t* from = a.in + (blockIdx.x * 32 + threadIdx.x) * 8; // 16 bytes, the size, padding
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(room + threadIdx.x * 4)), "l"(from), "r"(from[4]) : "memory");
  commit_copies();
  wait_copies<0>();
  for (int i = 0; i < 4; i++) d[i] = room[threadIdx.x * 4 + i];
  write_words(a, d);
}
