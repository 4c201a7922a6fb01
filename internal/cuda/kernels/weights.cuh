// Packed weights (cuda.md 7.1): matrices in units of 16 rows × 64 k, a unit in the order in which
// lanes take its A fragments (common.cuh), four steps of k16. pack.go writes these layouts.
//
//   Mxfp4  512 bytes, lane l at 16·l: word j is step j, nibbles from the top of each half down a0, a1,
//          a2, a3; lower half the even k. Then 32 bytes: word g has the exponents of rows g and g+8
//          for k 0…31, then for k 32…63.
//   Bf16   4 × 512 bytes: step j, lane l at 512·j + 16·l: a0, a1, a2, a3.
//   Q8     2 × 512 bytes: steps 2j and 2j+1, lane l at 512·j + 16·l: 8 bytes each, 2 per a0, a1, a2, a3.
//          Then 64 bytes: at 8·g float16 scales in the order of Mxfp4's exponents.
//
// Each type loads what a lane needs of a unit in memory, or of half a unit in shared memory, and gives
// fragments of half a unit, 32 k. Fragments of
// Mxfp4 and Bf16 are the weights. Those of Q8 are whole numbers: a sum over 32 k begins with zero, and
// is added to the accumulator times the scale of its row, in one rounding.
#pragma once
#include <cuda_fp16.h>
#include "common.cuh"

// multiply_bf16 multiplies two pairs; sm_80 has it as a fused operation only. -0 keeps signs.
__device__ __forceinline__ uint32_t multiply_bf16(uint32_t a, uint32_t b) {
  uint32_t product;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(0x80008000));
  return product;
}

struct Mxfp4 {
  static constexpr int BYTES = 544;
  static constexpr bool LIFTED = true;  // rows may have a lift (pack.go)
  uint4 codes;
  uint32_t exponents;

  __device__ __forceinline__ void load_half(const uint8_t* unit, int lane, int half) {
    if (half) return;  // its half words would meet banks twice: all of it came with the first half
    codes = *(const uint4*)(unit + 16 * lane);
    exponents = *(const uint32_t*)(unit + 512 + 4 * (lane >> 2));
  }
  __device__ __forceinline__ void load(const uint8_t* unit, int lane) {
    codes = __ldg((const uint4*)(unit + 16 * lane));
    exponents = __ldg((const uint32_t*)(unit + 512 + 4 * (lane >> 2)));
  }
  // decode makes bf16 of the codes in the top nibbles of both halves of w: sign, exponent and
  // mantissa in their places are the value times 2^-126, which the factor undoes. All exact (cuda.md 6.7).
  static __device__ __forceinline__ uint32_t decode(uint32_t w, uint32_t factor) {
    return multiply_bf16((w & 0x80008000) | ((w & 0x70007000) >> 6), factor);
  }
  // factor is 2^(e-127) · 2^126 in both halves. Packing keeps e at 128 or less.
  static __device__ __forceinline__ uint32_t factor(uint32_t e) { return ((e & 0xff) + 126) * 0x00800080; }

  __device__ __forceinline__ void fragments(int half, uint32_t (&a)[2][4]) const {
    uint32_t low = factor(exponents >> (16 * half)), high = factor(exponents >> (16 * half + 8));
    uint32_t words[2] = {half ? codes.z : codes.x, half ? codes.w : codes.y};
#pragma unroll
    for (int step = 0; step < 2; step++) {
      a[step][0] = decode(words[step], low);
      a[step][1] = decode(words[step] << 4, high);
      a[step][2] = decode(words[step] << 8, low);
      a[step][3] = decode(words[step] << 12, high);
    }
  }
  __device__ __forceinline__ void accumulate(float (&c)[4], const uint32_t (&a)[2][4], const uint32_t (&b)[4], int half) const {
    mma(c, a[0], b[0], b[1]);
    mma(c, a[1], b[2], b[3]);
  }
};

struct Bf16 {
  static constexpr int BYTES = 2048;
  static constexpr bool LIFTED = false;
  uint4 steps[4];

  __device__ __forceinline__ void load_half(const uint8_t* unit, int lane, int half) {
#pragma unroll
    for (int step = 2 * half; step < 2 * half + 2; step++) steps[step] = *(const uint4*)(unit + 512 * step + 16 * lane);
  }
  __device__ __forceinline__ void load(const uint8_t* unit, int lane) {
#pragma unroll
    for (int step = 0; step < 4; step++) steps[step] = __ldg((const uint4*)(unit + 512 * step + 16 * lane));
  }
  __device__ __forceinline__ void fragments(int half, uint32_t (&a)[2][4]) const {
#pragma unroll
    for (int step = 0; step < 2; step++) {
      uint4 words = steps[2 * half + step];
      a[step][0] = words.x, a[step][1] = words.y, a[step][2] = words.z, a[step][3] = words.w;
    }
  }
  __device__ __forceinline__ void accumulate(float (&c)[4], const uint32_t (&a)[2][4], const uint32_t (&b)[4], int half) const {
    mma(c, a[0], b[0], b[1]);
    mma(c, a[1], b[2], b[3]);
  }
};

struct Q8 {
  static constexpr int BYTES = 1088;
  static constexpr bool LIFTED = false;
  uint4 halves[2];
  uint32_t scales[2];

  __device__ __forceinline__ void load_half(const uint8_t* unit, int lane, int half) {
    halves[half] = *(const uint4*)(unit + 512 * half + 16 * lane);
    scales[half] = *(const uint32_t*)(unit + 1024 + 8 * (lane >> 2) + 4 * half);
  }
  __device__ __forceinline__ void load(const uint8_t* unit, int lane) {
    halves[0] = __ldg((const uint4*)(unit + 16 * lane));
    halves[1] = __ldg((const uint4*)(unit + 512 + 16 * lane));
    uint2 pair = __ldg((const uint2*)(unit + 1024 + 8 * (lane >> 2)));
    scales[0] = pair.x, scales[1] = pair.y;
  }
  // decode makes bf16 of two signed bytes, the low or the high ones of w: 128 plus the lower 7 bits,
  // minus 128, or minus 256 where the sign is set. Exact.
  static __device__ __forceinline__ uint32_t decode(uint32_t w, bool high) {
    uint32_t bytes = __byte_perm(w, 0, high ? 0x4342 : 0x4140), sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(sum)
        : "r"((bytes & 0x007f007f) | 0x43004300), "r"(0x3f803f80), "r"((bytes & 0x00800080) | 0xc300c300));
    return sum;
  }
  __device__ __forceinline__ void fragments(int half, uint32_t (&a)[2][4]) const {
    uint4 words = halves[half];
    a[0][0] = decode(words.x, false), a[0][1] = decode(words.x, true);
    a[0][2] = decode(words.y, false), a[0][3] = decode(words.y, true);
    a[1][0] = decode(words.z, false), a[1][1] = decode(words.z, true);
    a[1][2] = decode(words.w, false), a[1][3] = decode(words.w, true);
  }
  __device__ __forceinline__ void accumulate(float (&c)[4], const uint32_t (&a)[2][4], const uint32_t (&b)[4], int half) const {
    float sum[4] = {0, 0, 0, 0};
    mma(sum, a[0], b[0], b[1]);
    mma(sum, a[1], b[2], b[3]);
    uint32_t pair = scales[half];
    float low = __half2float(__ushort_as_half(pair & 0xffff)), high = __half2float(__ushort_as_half(pair >> 16));
    c[0] = __fmaf_rn(sum[0], low, c[0]);
    c[1] = __fmaf_rn(sum[1], low, c[1]);
    c[2] = __fmaf_rn(sum[2], high, c[2]);
    c[3] = __fmaf_rn(sum[3], high, c[3]);
  }
};
