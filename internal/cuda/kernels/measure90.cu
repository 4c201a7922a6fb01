// What the tensor cores of a Hopper do at best by warpgroups: see measure.cu.
#include "hopper.cuh"

struct MeasureArgs {  // as in measure.cu
  const uint4* src;
  uint4* dst;
  uint64_t pieces;
  int32_t rounds;
  int32_t unused;
};

constexpr int TOKENS = 128;

// measure_wgmma adds in each round four products of k16, 64 rows × 128 tokens for each of two warpgroups.
// src has the tokens, rows of 64 bf16, and then A fragments: piece 1024 + 32·step + lane, the same for all
// warps. A thread writes its sums (warpgroup_mma), 16 pieces, at 16·thread.
extern "C" __global__ void __launch_bounds__(256, 1) measure_wgmma(const MeasureArgs a) {
  __shared__ __align__(1024) uint8_t tokens[TOKENS * 128];
  for (int i = threadIdx.x; i < TOKENS * 8; i += 256) *(uint4*)(tokens + swizzled(i / 8, i % 8)) = a.src[i];
  // Writes of threads are seen by the tensor cores behind a fence only.
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  uint32_t fragments[4][4];
#pragma unroll
  for (int step = 0; step < 4; step++) {
    uint4 words = a.src[TOKENS * 8 + 32 * step + (threadIdx.x & 31)];
    fragments[step][0] = words.x, fragments[step][1] = words.y, fragments[step][2] = words.z, fragments[step][3] = words.w;
  }
  float sums[TOKENS / 2] = {};
  const uint32_t at = shared_address(tokens);
  for (int round = 0; round < a.rounds; round++) {
    products_begin();
#pragma unroll
    for (int step = 0; step < 4; step++) warpgroup_mma(sums, fragments[step], matrix_at(at + step * 32));
    products_end();
    products_wait();
  }
  float4* dst = (float4*)a.dst + ((size_t)blockIdx.x * 256 + threadIdx.x) * (TOKENS / 8);
#pragma unroll
  for (int i = 0; i < TOKENS / 8; i++) dst[i] = make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
}
