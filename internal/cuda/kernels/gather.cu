// Rows of activations in the order of experts, for products that read neighbouring rows (product_wgmma.cuh).
#include <stdint.h>

struct GatherArgs {
  uint4* dst;            // [places][pieces of 16 bytes]
  const uint4* x;        // [tokens][pieces]
  const int32_t* order;  // token · top_k + k, by expert (experts.cu)
  int32_t pieces, top_k;
};

// experts_gather: one block per place.
extern "C" __global__ void __launch_bounds__(128) experts_gather(const GatherArgs a) {
  const uint4* from = a.x + (size_t)(a.order[blockIdx.x] / a.top_k) * a.pieces;
  uint4* to = a.dst + (size_t)blockIdx.x * a.pieces;
  for (int i = threadIdx.x; i < a.pieces; i += 128) to[i] = from[i];
}
