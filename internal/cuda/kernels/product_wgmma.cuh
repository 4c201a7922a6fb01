// Products for many tokens on Hopper, by warpgroups: what product_prefill (product.cuh) computes, at about
// twice its speed and with the same bits. wgmma adds the 16 products of a step as mma.sync does: on an
// H100 no sum of 185,120 differed (cuda.md 6.2), and tests hold both kinds to each other.
//
// A block has two warpgroups and a tile of 32, 64 or 128 tokens; a warpgroup has 64 rows, each of its warps
// a group of 16. Weights go from memory into registers, some units ahead, and become A fragments there; no
// other warp needs them. Tokens come as boxes of 64 k into stages of shared memory, which the first thread
// asks for; a stage is full when its bytes are there, and empty when all eight warps have left it. While
// products of one unit are under way, the fragments of the next are made. (A ninth warp for the copies would
// leave the others 168 registers each.)
//
// Rows of x are those of the tile, one behind another, since a box has rows that are neighbours: for UP
// experts_gather has put them in the order of experts, where UP leaves its results for DOWN. So here
//   UP      reads and writes row i (bf16) for place i of order
//   DOWN    reads row i, writes row order[i] of dst (float32)
// The grid is (blocks of 128 rows, tiles).
#pragma once
#include "hopper.cuh"
#include "product.cuh"

struct TensorProductArgs {
  TensorMap x;  // [tokens or places][k], boxes of 64 k × the tile; product.x is not read
  ProductArgs product;
  int32_t reserved[10];
};

constexpr int STAGES = 8, THREADS = 32 * PREFILL_GROUPS;
// The loop over units is unrolled so often: its part of the stages then has constant places.
constexpr int TURN = 4;
// How many units of tokens are asked for before they are needed: fewer than there are stages, so that no
// warpgroup waits for the other one to leave the unit that both are at.
constexpr int DISTANCE = STAGES - 2;

// A Ring is the stages that the first thread has filled and the others empty, one unit after another.
struct Ring {
  uint64_t full[STAGES], empty[STAGES];

  // start is called by all threads.
  __device__ __forceinline__ void start() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < STAGES; i++) {
        barrier_init(&full[i], 1);
        barrier_init(&empty[i], PREFILL_GROUPS);
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

// How many units of weights are in registers before they are needed, as many as fit beside the sums.
template <class Weights, int TOKENS>
constexpr int units_ahead = Weights::BYTES > 1024 && TOKENS == 64 ? 2 : 4;

// A RowEnd is what finish does to sums of one row, read once.
struct RowEnd {
  float lift, bias;
  bool lifts, biases;

  __device__ __forceinline__ RowEnd(const ProductArgs& a, int expert, int row) : lifts(a.lift && row < a.rows), biases(a.bias && row < a.rows) {
    size_t at = (size_t)expert * a.rows + row;
    lift = lifts ? a.lift[at] : 1, bias = biases ? a.bias[at] : 0;
  }
  __device__ __forceinline__ float of(float sum) const {
    if (lifts) sum = sum * lift;
    if (biases) sum = sum + bias;
    return sum;
  }
};

// to_row gives the row of dst that a tile's token writes.
template <int MODE>
__device__ __forceinline__ int to_row(const ProductArgs& a, const Tile& tile, int token) {
  const int at = tile.first + token;
  return MODE == DOWN ? a.order[at] : at;
}

// store_tile stores the totals of a warp: of its group for all tokens of the tile.
template <int MODE, int COUNT>
__device__ __forceinline__ void store_tile(const ProductArgs& a, const Tile& tile, int group, const float (&totals)[COUNT]) {
  const int lane = threadIdx.x & 31, row = lane >> 2;
  if (MODE == UP) {  // rows r and r + 8 of a group are a gate and its up
    const int column = group * 8 + row;
    if (column >= a.dst_stride) return;
    const RowEnd gate(a, tile.expert, 2 * column), up(a, tile.expert, 2 * column + 1);
#pragma unroll
    for (int i = 0; i < COUNT; i += 4)
#pragma unroll
      for (int k = 0; k < 2; k++) {
        const int token = i * 2 + (lane & 3) * 2 + k;
        if (token >= tile.count) continue;
        const float value = 2 * column < a.rows ? activate(a.activation, gate.of(totals[i + k]), up.of(totals[i + k + 2])) : 0;
        ((bf16*)a.dst)[(size_t)to_row<MODE>(a, tile, token) * a.dst_stride + column] = __float2bfloat16(value);
      }
    return;
  }
  const int low = group * 16 + row;
  const RowEnd ends[2] = {RowEnd(a, tile.expert, low), RowEnd(a, tile.expert, low + 8)};
#pragma unroll
  for (int i = 0; i < COUNT; i += 4)
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const int token = i * 2 + (lane & 3) * 2 + k;
      if (token >= tile.count) continue;
      float* dst = (float*)a.dst + (size_t)to_row<MODE>(a, tile, token) * a.dst_stride;
      if (low < a.rows) dst[low] = ends[0].of(totals[i + k]);
      if (low + 8 < a.rows) dst[low + 8] = ends[1].of(totals[i + k + 2]);
    }
}

// tile_at gives the tile and the first group of a block. Those of experts come as the grid has them: an
// expert's weights stay in the cache while all its tiles pass. Of one matrix, 16 tiles pass its rows
// together: weights come from memory once for them, and tokens stay in the cache.
template <int MODE, int TOKENS>
__device__ __forceinline__ Tile tile_at(const ProductArgs& a, int& first_group) {
  int row = blockIdx.x, at = blockIdx.y;
  if (MODE == LINEAR) {
    constexpr int TOGETHER = 16;
    const int number = at * gridDim.x + row, pass = number / (TOGETHER * gridDim.x) * TOGETHER, rest = number - pass * gridDim.x;
    const int tiles = min(TOGETHER, (int)gridDim.y - pass);
    row = rest / tiles, at = pass + rest % tiles;
    first_group = row * PREFILL_GROUPS;
    return {0, at * TOKENS, min(TOKENS, a.tokens - at * TOKENS)};
  }
  first_group = row * PREFILL_GROUPS;
  const int4 tile = a.tiles[at];
  return {tile.x, tile.y, tile.z};
}

// product_warpgroup computes a tile of up to TOKENS tokens.
template <class Weights, int TOKENS, int MODE>
__device__ __forceinline__ void product_warpgroup(const TensorProductArgs& args) {
  extern __shared__ __align__(1024) uint8_t stages[];
  __shared__ __align__(8) Ring ring;
  // Where fragments are made of codes, those of the next unit are made while products of one are under way, if
  // there is room; with smaller tiles other warpgroups have products meanwhile.
  constexpr bool EARLY = TOKENS == 128 && Weights::BYTES < 1024;
  constexpr int COUNT = TOKENS / 2, AHEAD = units_ahead<Weights, TOKENS>, STAGE = TOKENS * 128;  // bytes: 64 k of each token
  const ProductArgs& a = args.product;
  int group;
  const Tile tile = tile_at<MODE, TOKENS>(a, group);
  if (tile.count <= 0) return;
  ring.start();
  const int lane = threadIdx.x & 31, units = a.units, chunks = a.chunks;
  group += warp_number();

  // supply has a unit's tokens copied into their stage, once nobody needs it any more.
  auto supply = [&](int unit) {
    if (threadIdx.x == 0 && unit < units) {
      uint64_t* full = &ring.full[unit % STAGES];
      ring.wait_empty(unit);
      barrier_expect(full, STAGE);
      copy_box(shared_address(stages) + unit % STAGES * STAGE, &args.x, unit * 64, tile.first, full);
    }
    __syncwarp();
  };
  for (int unit = 0; unit < DISTANCE; unit++) supply(unit);

  // A warp behind the last group computes that one again, since its warpgroup needs it, and stores nothing.
  const int groups = (a.rows + 15) >> 4;
  const uint8_t* weights = a.weights + ((size_t)tile.expert * groups + min(group, groups - 1)) * units * Weights::BYTES;
  Weights packed[AHEAD];
#pragma unroll
  for (int unit = 0; unit < AHEAD; unit++) {
    if (unit < units) packed[unit].load(weights, lane);
    weights += Weights::BYTES;
  }

  float sums[COUNT] = {}, totals[COUNT];
  uint32_t fragments[2][2][2][4];  // of this unit, and EARLY of the next
  int chunk = 1, border = units / chunks;
  auto end_chunk = [&]() {
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      totals[k] = chunk == 1 ? sums[k] : totals[k] + sums[k];
      sums[k] = 0;
    }
    chunk++;
    border = units * chunk / chunks;
  };
  auto decode = [&](Weights& weight, uint32_t (&to)[2][2][4]) {
    weight.fragments(0, to[0]);
    weight.fragments(1, to[1]);
  };
  // reload asks for the unit that lies AHEAD of one whose weights are not needed any more.
  auto reload = [&](int unit, Weights& weight) {
    if (unit + AHEAD < units) weight.load(weights, lane);
    weights += Weights::BYTES;
  };
  if (EARLY) {
    decode(packed[0], fragments[0]);
    reload(0, packed[0]);
  }
  for (int first = 0; first < units; first += TURN) {
#pragma unroll
    for (int i = 0; i < TURN; i++) {
      const int unit = first + i;
      if (unit >= units) break;
      if (unit == border) end_chunk();
      if (!EARLY) decode(packed[i % AHEAD], fragments[0]);
      const uint64_t tokens = matrix_at(shared_address(stages) + (first & (STAGES - TURN)) * STAGE + i * STAGE);
      uint64_t* full = &ring.full[first & (STAGES - TURN)] + i;
      barrier_wait(full, first / STAGES & 1);
      products_begin();
#pragma unroll
      for (int step = 0; step < 4; step++) warpgroup_mma(sums, fragments[EARLY ? i & 1 : 0][step >> 1][step & 1], tokens + step * 2);
      products_end();
      supply(unit + DISTANCE);
      if (EARLY) {
        decode(packed[(i + 1) % AHEAD], fragments[(i + 1) & 1]);
        reload(unit + 1, packed[(i + 1) % AHEAD]);
      }
      products_wait();
      if (lane == 0) barrier_arrive(full + STAGES);
      if (!EARLY) reload(unit, packed[i % AHEAD]);
    }
  }
  end_chunk();
  store_tile<MODE>(a, tile, group, totals);
}

// WARPGROUPS defines the kernels of a use for all tiles. Two blocks share a multiprocessor where sums leave
// room for it.
#define WARPGROUPS(use, type, Weights, MODE)                                                                                         \
  extern "C" __global__ void __launch_bounds__(THREADS, 2) wgmma_##use##_##type##_32(const __grid_constant__ TensorProductArgs a) {  \
    product_warpgroup<Weights, 32, MODE>(a);                                                                                         \
  }                                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(THREADS, 2) wgmma_##use##_##type##_64(const __grid_constant__ TensorProductArgs a) {  \
    product_warpgroup<Weights, 64, MODE>(a);                                                                                         \
  }                                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(THREADS, 1) wgmma_##use##_##type##_128(const __grid_constant__ TensorProductArgs a) { \
    product_warpgroup<Weights, 128, MODE>(a);                                                                                        \
  }
