// Which experts a token goes to, and with which weights (models.md 1.2, 2.2).
#include <stdint.h>

struct RouteArgs {
  float* ids;           // [tokens][stride]: the chosen experts ascending, as floats
  float* weights;       // [tokens][stride]
  const float* logits;  // [tokens][logit_stride]
  int32_t* order;       // what experts_plan writes: of route_plan alone
  int4* tiles;
  int32_t stride, logit_stride, tokens;
  int32_t experts;
  int32_t top_k;        // at most 32 and at most experts
  int32_t renorm;       // softmax over the chosen ones, else over all
  int32_t tile_count;   // of route_plan, as of PlanArgs in experts.cu
  int32_t unused;
};

// order gives logits an order as whole numbers: larger ones first, NaN behind all numbers with 0.
__device__ __forceinline__ uint32_t order(float logit) {
  uint32_t bits = __float_as_uint(logit == 0 ? 0.0f : logit);  // -0 and 0 are equal
  if (logit != logit) return 0;
  return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

// rank orders (logit, expert): larger logits first, then lower experts. No two experts of a token have the
// same rank, and none has 0.
__device__ __forceinline__ uint64_t rank(float logit, int expert) { return (uint64_t)order(logit) << 32 | (uint32_t)~expert; }

// warp_max is the largest rank of a warp: first of logits, then of the experts that have it.
__device__ __forceinline__ uint64_t warp_max(uint64_t value) {
  uint32_t high = __reduce_max_sync(0xffffffff, (uint32_t)(value >> 32));
  uint32_t low = __reduce_max_sync(0xffffffff, (uint32_t)(value >> 32) == high ? (uint32_t)value : 0);
  return (uint64_t)high << 32 | low;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) value = value + __shfl_xor_sync(0xffffffff, value, step);
  return value;
}

// exponential is e^x; what is not a number, and so no reason to choose, counts as 0.
__device__ __forceinline__ float exponential(float x) { return x == x ? expf(x) : 0.0f; }

constexpr int ROUTE_KEPT = 4;  // experts whose rank a lane keeps; those behind are read again

// choose routes a token, by one warp. The k-th expert is the one of highest rank below that of the one
// before, so nothing has to be marked as taken; lane k keeps it. It returns the expert of the lane and its
// place among the chosen ones; lanes from top_k on have none.
__device__ __forceinline__ int choose(const RouteArgs& a, int token, int lane, int& at) {
  const float* logits = a.logits + (size_t)token * a.logit_stride;
  float read[ROUTE_KEPT];
#pragma unroll
  for (int n = 0; n < ROUTE_KEPT; n++)
    if (int expert = lane + 32 * n; expert < a.experts) read[n] = logits[expert];
  uint64_t ranks[ROUTE_KEPT], last = ~0ull;
#pragma unroll
  for (int n = 0; n < ROUTE_KEPT; n++) {
    int expert = lane + 32 * n;
    ranks[n] = expert < a.experts ? rank(read[n], expert) : 0;
  }
  int mine = 0;
  for (int k = 0; k < a.top_k; k++) {
    uint64_t highest = 0;
#pragma unroll
    for (int n = 0; n < ROUTE_KEPT; n++)
      if (ranks[n] < last && ranks[n] > highest) highest = ranks[n];
    for (int expert = lane + 32 * ROUTE_KEPT; expert < a.experts; expert += 32) {
      uint64_t r = rank(logits[expert], expert);
      if (r < last && r > highest) highest = r;
    }
    last = warp_max(highest);
    if (lane == k) mine = (int)~(uint32_t)last;
  }

  const bool has = lane < a.top_k;
  float logit = has ? logits[mine] : 0.0f, best = __shfl_sync(0xffffffff, logit, 0);
  float weight = has ? exponential(logit - best) : 0.0f, sum = weight;
  if (!a.renorm) {
    sum = 0;
    for (int expert = lane; expert < a.experts; expert += 32) sum = sum + exponential(logits[expert] - best);
  }
  sum = warp_sum(sum);
  // The place of an expert among the chosen ones: how many of them have lower numbers.
  at = 0;
  for (int k = 0; k < a.top_k; k++) at += __shfl_sync(0xffffffff, mine, k) < mine;
  if (has) {
    a.ids[(size_t)token * a.stride + at] = (float)mine;
    a.weights[(size_t)token * a.stride + at] = __fdiv_rn(weight, sum);
  }
  return mine;
}

// route: one warp per token.
extern "C" __global__ void __launch_bounds__(128) route(const RouteArgs a) {
  int token = blockIdx.x * 4 + (threadIdx.x >> 5), at;
  if (token < a.tokens) choose(a, token, threadIdx.x & 31, at);
}

constexpr int FEW_TOKENS = 8;  // of route_plan: as many as the smallest tile has places

// route_plan does what route and experts_plan do, for at most 8 tokens: one block, a warp per token. No
// expert then has more than one tile, and a tile is found by counting.
extern "C" __global__ void __launch_bounds__(32 * FEW_TOKENS) route_plan(const RouteArgs a) {
  __shared__ int experts[32 * FEW_TOKENS];  // of assignments, in their order
  __shared__ int firsts[32 * FEW_TOKENS];   // 1: the first one of its expert
  const int lane = threadIdx.x & 31, token = threadIdx.x >> 5, assignments = a.tokens * a.top_k, i = threadIdx.x;
  int at, mine = choose(a, token, lane, at);
  if (lane < a.top_k) experts[token * a.top_k + at] = mine;
  __syncthreads();

  // Where this thread's assignment comes in the order: behind those of lower experts, and earlier ones of its own.
  int me = i < assignments ? experts[i] : 0, lower = 0, earlier = 0, same = 0;
  for (int k = 0; k < assignments; k++) {
    int other = experts[k];
    lower += other < me;
    same += other == me;
    earlier += other == me && k < i;
  }
  firsts[i] = i < assignments && earlier == 0;
  if (i < assignments) a.order[lower + earlier] = i;
  __syncthreads();

  // An expert has one tile: which, is how many experts come before; behind them all there are no places.
  int tile = 0, used = 0;
  for (int k = 0; k < assignments; k++) {
    used += firsts[k];
    tile += firsts[k] && experts[k] < me;
  }
  if (firsts[i]) a.tiles[tile] = make_int4(me, lower, same, 0);
  for (int n = used + i; n < a.tile_count; n += blockDim.x) a.tiles[n] = make_int4(0, 0, 0, 0);
}
