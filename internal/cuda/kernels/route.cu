// Which experts a token goes to, and with which weights (models.md 1.2, 2.2).
#include <stdint.h>

struct RouteArgs {
  float* ids;           // [tokens][stride]: the chosen experts ascending, as floats
  float* weights;       // [tokens][stride]
  const float* logits;  // [tokens][logit_stride]
  int32_t stride, logit_stride, tokens;
  int32_t experts;
  int32_t top_k;        // at most 32 and at most experts
  int32_t renorm;       // softmax over the chosen ones, else over all
};

// rank orders (logit, expert): larger logits first, NaN behind all numbers, then lower experts. No two
// experts of a token have the same rank, and none has 0.
__device__ __forceinline__ uint64_t rank(float logit, int expert) {
  uint32_t bits = __float_as_uint(logit == 0 ? 0.0f : logit);  // -0 and 0 are equal
  uint32_t order = bits & 0x80000000 ? ~bits : bits | 0x80000000;
  if (logit != logit) order = 0;
  return (uint64_t)order << 32 | (uint32_t)~expert;
}

__device__ __forceinline__ uint64_t warp_max(uint64_t value) {
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) {
    uint64_t other = __shfl_xor_sync(0xffffffff, value, step);
    value = other > value ? other : value;
  }
  return value;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) value = value + __shfl_xor_sync(0xffffffff, value, step);
  return value;
}

// exponential is e^x; what is not a number, and so no reason to choose, counts as 0.
__device__ __forceinline__ float exponential(float x) { return x == x ? expf(x) : 0.0f; }

// route: one warp per token. The k-th expert is the one of highest rank below that of the one before,
// so nothing has to be marked as taken; lane k keeps it.
extern "C" __global__ void __launch_bounds__(128) route(const RouteArgs a) {
  int token = blockIdx.x * 4 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (token >= a.tokens) return;
  const float* logits = a.logits + (size_t)token * a.logit_stride;
  uint64_t last = ~0ull;
  int mine = 0;
  float best = 0;
  for (int k = 0; k < a.top_k; k++) {
    uint64_t highest = 0;
    for (int expert = lane; expert < a.experts; expert += 32) {
      uint64_t r = rank(logits[expert], expert);
      if (r < last && r > highest) highest = r;
    }
    last = warp_max(highest);
    int chosen = (int)~(uint32_t)last;
    if (k == 0) best = logits[chosen];
    if (lane == k) mine = chosen;
  }

  bool has = lane < a.top_k;
  float weight = has ? exponential(logits[mine] - best) : 0.0f, sum = weight;
  if (!a.renorm) {
    sum = 0;
    for (int expert = lane; expert < a.experts; expert += 32) sum = sum + exponential(logits[expert] - best);
  }
  sum = warp_sum(sum);
  // The place of an expert among the chosen ones: how many of them have lower numbers.
  int at = 0;
  for (int k = 0; k < a.top_k; k++) at += __shfl_sync(0xffffffff, mine, k) < mine;
  if (has) {
    a.ids[(size_t)token * a.stride + at] = (float)mine;
    a.weights[(size_t)token * a.stride + at] = __fdiv_rn(weight, sum);
  }
}
