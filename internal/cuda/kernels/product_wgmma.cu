// Products on Hopper by warpgroups. Same packed weights and same order of chunks as product.cuh; but the
// tensor core's own order inside a chunk may be another than that of mma.sync, so that a card uses one kind
// for all products of a matrix (cuda.md 6.2). Unproven: nothing launches these kernels until a card has run
// them.
//
// A block has two warpgroups with 64 rows each, and a warp that copies. Tokens come as boxes of 64 k into
// stages of shared memory; a stage is full when its bytes are there, and empty when all eight warps have
// arrived. The grid is (blocks of 128 rows, tiles of tokens). wgmma_*_N take weights from memory into
// registers as A fragments; wgmma_plain_128 takes plain bf16 rows from shared memory.
#include "hopper.cuh"
#include "product.cuh"

struct TensorProductArgs {
  TensorMap x;        // [tokens][k], boxes of 64 k × the tile's tokens
  TensorMap weights;  // wgmma_plain only: [rows][k], boxes of 64 k × 64 rows
  ProductArgs product;
  int32_t reserved[10];
};

constexpr int WARPS = 8, THREADS = 32 * WARPS + 32, STAGES = 4;

// A Ring is the stages that the copying warp fills and the others empty, one unit after another.
struct Ring {
  uint64_t full[STAGES], empty[STAGES];

  // start is called by all threads.
  __device__ __forceinline__ void start() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < STAGES; i++) {
        barrier_init(&full[i], 1);
        barrier_init(&empty[i], WARPS);
      }
      barriers_ready();
    }
    __syncthreads();
  }
  // A stage's first filling waits for nothing: the phase before the first one counts as ended.
  __device__ __forceinline__ void wait_empty(int unit) { barrier_wait(&empty[unit % STAGES], (unit / STAGES & 1) ^ 1); }
  __device__ __forceinline__ void wait_full(int unit) { barrier_wait(&full[unit % STAGES], unit / STAGES & 1); }
  __device__ __forceinline__ void leave(int unit) {
    if ((threadIdx.x & 31) == 0) barrier_arrive(&empty[unit % STAGES]);
  }
};

// Totals adds chunks of a warp's sums in their order.
template <int COUNT>
struct Totals {
  float totals[COUNT];
  int chunk, border;

  __device__ __forceinline__ Totals(const ProductArgs& a) : chunk(1), border(a.units / a.chunks) {}
  __device__ __forceinline__ void add(float (&sums)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      totals[i] = chunk == 1 ? sums[i] : totals[i] + sums[i];
      sums[i] = 0;
    }
  }
  // at begins a unit, where a chunk may end.
  __device__ __forceinline__ void at(const ProductArgs& a, int unit, float (&sums)[COUNT]) {
    if (unit != border) return;
    add(sums);
    chunk++;
    border = a.units * chunk / a.chunks;
  }
  // store ends the last chunk, and stores the 16 rows of group.
  __device__ __forceinline__ void store(const ProductArgs& a, int group, int first_token, float (&sums)[COUNT]) {
    add(sums);
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      int row = group * 16 + (lane >> 2) + (i >> 1 & 1) * 8, token = first_token + (i >> 2) * 8 + (lane & 3) * 2 + (i & 1);
      if (token < a.tokens) store_row(a, 0, row, token, totals[i]);
    }
  }
};

extern __shared__ __align__(1024) uint8_t stages[];

template <class Weights, int TOKENS>
__device__ __forceinline__ void product_wgmma(const TensorProductArgs& args) {
  constexpr int COUNT = TOKENS / 2, STAGE = TOKENS * 128;
  const ProductArgs a = args.product;
  __shared__ __align__(8) Ring ring;
  const int lane = threadIdx.x & 31, warp = warp_number(), first_token = blockIdx.y * TOKENS;
  ring.start();
  if (warp == WARPS) {
    for (int unit = 0; lane == 0 && unit < a.units; unit++) {
      ring.wait_empty(unit);
      barrier_expect(&ring.full[unit % STAGES], STAGE);
      copy_box(shared_address(stages) + unit % STAGES * STAGE, &args.x, unit * 64, first_token, &ring.full[unit % STAGES]);
    }
    return;
  }
  // A warp behind the last group computes that one again, and stores nothing: its warpgroup needs it.
  const int groups = (a.rows + 15) >> 4, group = blockIdx.x * WARPS + warp;
  const uint8_t* weights = a.weights + (size_t)min(group, groups - 1) * a.units * Weights::BYTES;
  float sums[COUNT] = {};
  Totals<COUNT> totals(a);
  Weights packed;
  packed.load(weights, lane);
  for (int unit = 0; unit < a.units; unit++) {
    uint32_t fragments[2][2][4];
    packed.fragments(0, fragments[0]);
    packed.fragments(1, fragments[1]);
    packed.load(weights + (size_t)min(unit + 1, a.units - 1) * Weights::BYTES, lane);  // in time for the next turn
    totals.at(a, unit, sums);
    ring.wait_full(unit);
    const uint32_t stage = shared_address(stages) + unit % STAGES * STAGE;
    products_begin();
#pragma unroll
    for (int step = 0; step < 4; step++) warpgroup_mma(sums, fragments[step >> 1][step & 1], matrix_at(stage + step * 32));
    products_end();
    products_wait();
    ring.leave(unit);
  }
  totals.store(a, group, first_token, sums);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) wgmma_mxfp4_8(const __grid_constant__ TensorProductArgs a) { product_wgmma<Mxfp4, 8>(a); }
extern "C" __global__ void __launch_bounds__(THREADS, 1) wgmma_mxfp4_128(const __grid_constant__ TensorProductArgs a) { product_wgmma<Mxfp4, 128>(a); }
extern "C" __global__ void __launch_bounds__(THREADS, 1) wgmma_bf16_8(const __grid_constant__ TensorProductArgs a) { product_wgmma<Bf16, 8>(a); }
extern "C" __global__ void __launch_bounds__(THREADS, 1) wgmma_bf16_128(const __grid_constant__ TensorProductArgs a) { product_wgmma<Bf16, 128>(a); }

extern "C" __global__ void __launch_bounds__(THREADS, 1) wgmma_plain_128(const __grid_constant__ TensorProductArgs args) {
  constexpr int TOKENS = 128, COUNT = TOKENS / 2, TILE = 64 * 128, STAGE = 4 * TILE;  // two of 64 rows, then the tokens
  const ProductArgs a = args.product;
  __shared__ __align__(8) Ring ring;
  const int lane = threadIdx.x & 31, warp = warp_number(), first_token = blockIdx.y * TOKENS;
  ring.start();
  if (warp == WARPS) {
    for (int unit = 0; lane == 0 && unit < a.units; unit++) {
      ring.wait_empty(unit);
      uint64_t* full = &ring.full[unit % STAGES];
      const uint32_t stage = shared_address(stages) + unit % STAGES * STAGE;
      barrier_expect(full, STAGE);
      copy_box(stage, &args.weights, unit * 64, blockIdx.x * 128, full);
      copy_box(stage + TILE, &args.weights, unit * 64, blockIdx.x * 128 + 64, full);
      copy_box(stage + 2 * TILE, &args.x, unit * 64, first_token, full);
    }
    return;
  }
  float sums[COUNT] = {};
  Totals<COUNT> totals(a);
  for (int unit = 0; unit < a.units; unit++) {
    totals.at(a, unit, sums);
    ring.wait_full(unit);
    const uint32_t stage = shared_address(stages) + unit % STAGES * STAGE;
    products_begin();
#pragma unroll
    for (int step = 0; step < 4; step++)
      warpgroup_mma(sums, matrix_at(stage + (warp >> 2) * TILE + step * 32), matrix_at(stage + 2 * TILE + step * 32));
    products_end();
    products_wait();
    ring.leave(unit);
  }
  totals.store(a, blockIdx.x * WARPS + warp, first_token, sums);
}
