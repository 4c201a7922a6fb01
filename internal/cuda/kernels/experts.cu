// Experts around their products (product.cuh): which tokens each one has, and the sum of what they made
// of a token. An assignment is the number token · top_k + k of an expert that a token has chosen.
#include "planes.cuh"

struct PlanArgs {
  const float* ids;  // [tokens][stride]: experts of each token
  int32_t* order;    // [tokens · top_k]: assignments by expert, ascending
  int4* tiles;       // [tile_count]: expert, first place in order, number of places, 0
  int32_t stride, tokens, top_k;
  int32_t tile;        // most places of a tile
  int32_t tile_count;  // tiles that the products' grid has; those without places get number 0
};

constexpr int PLAN_WARPS = 32;
constexpr int PLAN_BATCH = 8;  // assignments of a lane that are on their way at once

__device__ __forceinline__ int warp_sum(int value) {
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffff, value, step);
  return value;
}

// experts_plan: one block per expert, which needs no other: it counts the assignments of all experts
// before it as well. Shared memory: a word per expert. Each warp has a run of the assignments, so that
// places ascend without any warp waiting for another.
extern "C" __global__ void __launch_bounds__(32 * PLAN_WARPS) experts_plan(const PlanArgs a) {
  extern __shared__ uint32_t counts[];
  __shared__ int hits[PLAN_WARPS];
  const int me = blockIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int assignments = a.tokens * a.top_k;
  const int from = (int)((int64_t)assignments * warp / PLAN_WARPS), to = (int)((int64_t)assignments * (warp + 1) / PLAN_WARPS);
  // batch reads the experts of assignments base + lane, base + 32 + lane, …; -1 behind the run.
  auto batch = [&](int base, int (&experts)[PLAN_BATCH]) {
#pragma unroll
    for (int n = 0; n < PLAN_BATCH; n++) {
      int assignment = base + 32 * n + lane;
      experts[n] = assignment < to ? (int)a.ids[(size_t)(assignment / a.top_k) * a.stride + assignment % a.top_k] : -1;
    }
  };
  int experts[PLAN_BATCH];
  batch(from, experts);
  for (int expert = threadIdx.x; expert < gridDim.x; expert += blockDim.x) counts[expert] = 0;
  __syncthreads();

  int found = 0;  // by this warp, for this block's expert
  for (int base = from; base < to; base += 32 * PLAN_BATCH) {
    if (base > from) batch(base, experts);
#pragma unroll
    for (int n = 0; n < PLAN_BATCH; n++) {
      if (base + 32 * n >= to) break;
      if (experts[n] >= 0 && experts[n] <= me) atomicAdd(&counts[experts[n]], 1u);
      found += __popc(__ballot_sync(0xffffffff, experts[n] == me));
    }
  }
  if (lane == 0) hits[warp] = found;
  __syncthreads();

  // Every warp sums up for itself what lies before this expert.
  int place = 0, tile = 0;
  for (int expert = lane; expert < me; expert += 32) {
    place += counts[expert];
    tile += (counts[expert] + a.tile - 1) / a.tile;
  }
  place = warp_sum(place);
  tile = warp_sum(tile);
  const int first = place, count = counts[me], tiles = (count + a.tile - 1) / a.tile;
  for (int i = threadIdx.x; i < tiles; i += blockDim.x) a.tiles[tile + i] = make_int4(me, first + i * a.tile, min(a.tile, count - i * a.tile), 0);
  if (me == gridDim.x - 1)
    for (int i = tile + tiles + threadIdx.x; i < a.tile_count; i += blockDim.x) a.tiles[i] = make_int4(0, 0, 0, 0);

  if (found == 0) return;
  place += warp_sum(lane < warp ? hits[lane] : 0);
  for (int base = from; base < to; base += 32 * PLAN_BATCH) {
    if (to - from > 32 * PLAN_BATCH) batch(base, experts);
#pragma unroll
    for (int n = 0; n < PLAN_BATCH; n++) {
      if (base + 32 * n >= to) break;
      bool hit = experts[n] == me;
      uint32_t others = __ballot_sync(0xffffffff, hit);
      if (hit) a.order[place + __popc(others & ((1u << lane) - 1))] = base + 32 * n + lane;
      place += __popc(others);
    }
  }
}

struct CombineArgs {
  float* dst;            // [tokens][dst_stride]
  const float* planes;   // [tokens · top_k][plane_stride]
  const float* weights;  // [tokens][weight_stride]
  int32_t dst_stride, plane_stride, weight_stride, width, top_k;
};

// experts_combine adds what a token's experts made, times their weights, experts ascending (cuda.md
// 6.4). The grid is (tokens, parts of 512 columns); a thread has 4 of them.
extern "C" __global__ void __launch_bounds__(128) experts_combine(const CombineArgs a) {
  const size_t token = blockIdx.x;
  const int i = (blockIdx.y * 128 + threadIdx.x) * 4, width = a.width;
  const float* weights = a.weights + token * a.weight_stride;
  const float* planes = a.planes + token * a.top_k * a.plane_stride;
  float* dst = a.dst + token * a.dst_stride;
  if (width % 4 == 0 && (a.top_k == 4 || a.top_k == 8)) {
    const float* from = planes + (i < width ? i : 0);  // whole warps
    float4 sum = a.top_k == 4 ? combined<4>(from, a.plane_stride, weights) : combined<8>(from, a.plane_stride, weights);
    if (i < width) *reinterpret_cast<float4*>(dst + i) = sum;
    return;
  }
  for (int n = blockIdx.y * 512 + threadIdx.x; n < min((int)blockIdx.y * 512 + 512, width); n += 128) dst[n] = combined_one(planes + n, a.plane_stride, weights, a.top_k);
}
