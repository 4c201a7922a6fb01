// What a card does at best: reading and copying memory, products of the tensor cores. No model needs
// these kernels; _tools/cuda/card launches them, and times of others are held to what they reach.
// What they compute is no secret either, so that a test can tell whether they did.
#include "common.cuh"

struct MeasureArgs {
  const uint4* src;
  uint4* dst;
  uint64_t pieces;  // of 16 bytes, in src
  int32_t rounds;
  int32_t unused;
};

__device__ __forceinline__ uint4 both(uint4 a, uint4 b) { return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w); }

// measure_read reads all pieces; a thread writes the exclusive or of its own, every step-th one.
extern "C" __global__ void __launch_bounds__(256) measure_read(const MeasureArgs a) {
  const uint64_t thread = (uint64_t)blockIdx.x * 256 + threadIdx.x, step = (uint64_t)gridDim.x * 256;
  uint4 all = make_uint4(0, 0, 0, 0);
  uint64_t i = thread;
  for (; i + 3 * step < a.pieces; i += 4 * step) {  // four reads are under way
    uint4 first = __ldg(a.src + i), second = __ldg(a.src + i + step), third = __ldg(a.src + i + 2 * step), fourth = __ldg(a.src + i + 3 * step);
    all = both(both(all, both(first, second)), both(third, fourth));
  }
  for (; i < a.pieces; i += step) all = both(all, __ldg(a.src + i));
  a.dst[thread] = all;
}

// measure_copy copies all pieces.
extern "C" __global__ void __launch_bounds__(256) measure_copy(const MeasureArgs a) {
  const uint64_t thread = (uint64_t)blockIdx.x * 256 + threadIdx.x, step = (uint64_t)gridDim.x * 256;
  uint64_t i = thread;
  for (; i + 3 * step < a.pieces; i += 4 * step) {
    uint4 first = __ldg(a.src + i), second = __ldg(a.src + i + step), third = __ldg(a.src + i + 2 * step), fourth = __ldg(a.src + i + 3 * step);
    a.dst[i] = first, a.dst[i + step] = second, a.dst[i + 2 * step] = third, a.dst[i + 3 * step] = fourth;
  }
  for (; i < a.pieces; i += step) a.dst[i] = __ldg(a.src + i);
}

// measure_mma adds the products of one A and eight B's in each round: 8 products of
// 16×8×16 a warp, that do not wait for each other. src has the fragments (common.cuh) of a lane: A at piece
// lane, then two B's a piece at 32 + 4·lane. A thread writes its eight fragments of sums at 8·thread.
extern "C" __global__ void __launch_bounds__(256, 2) measure_mma(const MeasureArgs a) {
  const int lane = threadIdx.x & 31;
  const uint4 left = a.src[lane];
  const uint32_t fragment[4] = {left.x, left.y, left.z, left.w};
  uint4 right[4];
#pragma unroll
  for (int i = 0; i < 4; i++) right[i] = a.src[32 + 4 * lane + i];
  float sums[8][4] = {};
  for (int round = 0; round < a.rounds; round++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      mma(sums[2 * i], fragment, right[i].x, right[i].y);
      mma(sums[2 * i + 1], fragment, right[i].z, right[i].w);
    }
  float4* dst = (float4*)a.dst + ((size_t)blockIdx.x * 256 + threadIdx.x) * 8;
#pragma unroll
  for (int i = 0; i < 8; i++) dst[i] = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
}
