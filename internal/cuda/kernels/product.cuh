// Products of packed weights (weights.cuh) and rows of bf16 activations: for few tokens and for many,
// with the same bits.
//
// The order of sums (cuda.md 6.1): k is cut into chunks at units·c/chunks, chunks a function of the
// matrix's shape alone. Inside a chunk one float32 accumulator takes steps of k16 ascending; chunks are
// added ascending; then the row's lift, its bias. No sum depends on other tokens: weights are operand A,
// tokens the columns of B.
//
// Three uses (MODE) differ in which rows are read and what becomes of a sum:
//   LINEAR  token t reads row t of x, its sums go to row t of dst (float32)
//   UP      for an expert's tokens: reads row order[i] / top_k, applies the activation to pairs of gate
//           and up (paired order, pack.go), writes row order[i] of dst (bf16, zeros up to its stride)
//   DOWN    reads row order[i], writes row order[i] of dst (float32)
#pragma once
#include "weights.cuh"

enum { LINEAR, UP, DOWN };
enum { SWIGLU_LIMITED, SILU };

struct ProductArgs {
  void* dst;
  const uint8_t* weights;  // [experts][groups of 16 rows][units of 64 k]
  const float* lift;       // per row, a power of two by which sums are multiplied; null: none
  const bf16* x;           // zeros from k to the stride
  const float* bias;       // per row; null: none
  const int4* tiles;       // experts: of a tile's expert x, the places [y, y+z) of order
  const int32_t* order;    // experts: token·top_k + k, by expert
  int32_t rows, units;     // of a matrix; the last group and unit are filled up with zeros
  int32_t chunks;          // 1, 2 or 4
  int32_t tokens;          // LINEAR
  int32_t dst_stride, x_stride;  // elements
  int32_t top_k;           // UP
  int32_t activation;      // UP
};

// A Tile is a block's share: some tokens, of one matrix.
struct Tile {
  int expert, first, count;
};

// tile_of gives the tile of a number.
template <int MODE, int TOKENS>
__device__ __forceinline__ Tile tile_of(const ProductArgs& a, int number) {
  if (MODE == LINEAR) return {0, number * TOKENS, min(TOKENS, a.tokens - number * TOKENS)};
  int4 tile = a.tiles[number];
  return {tile.x, tile.y, tile.z};
}

// source gives the row of x that a tile's token reads, destination the one of dst that it writes.
template <int MODE>
__device__ __forceinline__ int source(const ProductArgs& a, const Tile& tile, int token) {
  int at = tile.first + token;
  return MODE == LINEAR ? at : MODE == UP ? a.order[at] / a.top_k : a.order[at];
}
template <int MODE>
__device__ __forceinline__ int destination(const ProductArgs& a, const Tile& tile, int token) {
  int at = tile.first + token;
  return MODE == LINEAR ? at : a.order[at];
}

// finish completes the sum of a row: lift and bias.
__device__ __forceinline__ float finish(const ProductArgs& a, int expert, int row, float sum) {
  size_t at = (size_t)expert * a.rows + row;
  if (a.lift) sum = sum * a.lift[at];
  if (a.bias) sum = sum + a.bias[at];
  return sum;
}

// sigmoid is 1 / (1 + e^-x).
__device__ __forceinline__ float sigmoid(float x) { return __fdiv_rn(1.0f, 1.0f + __expf(-x)); }

// activate applies the activation to a gate and its up (models.md 1.2, 2.2). NaN stays NaN.
__device__ __forceinline__ float activate(int activation, float gate, float up) {
  if (activation == SILU) return gate * sigmoid(gate) * up;
  if (gate > 7.0f) gate = 7.0f;
  up = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
  return gate * sigmoid(1.702f * gate) * (up + 1.0f);
}

// store_pair stores the activation of gate and up, which are rows r and r+8 of a group. Columns of dst
// behind the last pair become zero.
__device__ __forceinline__ void store_pair(const ProductArgs& a, int expert, int group, int r, int row_of_dst, float gate, float up) {
  int column = group * 8 + r;
  float value = 0;
  if (2 * column < a.rows) {
    gate = finish(a, expert, 2 * column, gate);
    up = finish(a, expert, 2 * column + 1, up);
    value = activate(a.activation, gate, up);
  }
  ((bf16*)a.dst)[(size_t)row_of_dst * a.dst_stride + column] = __float2bfloat16(value);
}

// store_row stores the sum of a row for a token.
__device__ __forceinline__ void store_row(const ProductArgs& a, int expert, int row, int row_of_dst, float sum) {
  if (row < a.rows) ((float*)a.dst)[(size_t)row_of_dst * a.dst_stride + row] = finish(a, expert, row, sum);
}

// Sums of a group's 16 rows for some tokens meet in shared memory, where partial gives the place of one.
// Neither its writers (put_sums: 8 rows × 4 even or odd tokens) nor its readers (16 rows × 2 tokens) meet
// a bank twice.
__device__ __forceinline__ int partial(int token, int row) { return (token ^ ((token >> 1) & 1)) * 16 + (row ^ ((token << 1) & 8)); }

// put_sums writes the sums of 16 rows and 8·COLUMNS tokens from this warp's fragments; token is the first
// one's place.
template <int COLUMNS>
__device__ __forceinline__ void put_sums(float* to, int token, const float (&sums)[COLUMNS][4]) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int column = 0; column < COLUMNS; column++)
#pragma unroll
    for (int i = 0; i < 4; i++) to[partial(token + column * 8 + (lane & 3) * 2 + (i & 1), (lane >> 2) + (i >> 1) * 8)] = sums[column][i];
}

// store_sums finishes and stores what put_sums has written for TOKENS tokens and parts groups: first,
// first + step, and so on. Each group has one array for each of its chunks, which are added ascending.
template <class Weights, int MODE, int TOKENS>
__device__ __forceinline__ void store_sums(const ProductArgs& args, const Tile& tile, const float* sums, int parts, int chunks, int first, int step) {
  ProductArgs a = args;
  if (!Weights::LIFTED) a.lift = nullptr;
  constexpr int ROWS = MODE == UP ? 8 : 16;  // of a group: pairs, or rows
  for (int i = threadIdx.x; i < parts * ROWS * TOKENS; i += blockDim.x) {
    const int row = i % ROWS, token = i / ROWS % TOKENS, part = i / (ROWS * TOKENS), group = first + part * step;
    if (token >= tile.count) continue;
    auto total = [&](int row) {
      const float* at = sums + part * chunks * 16 * TOKENS + partial(token, row);
      float sum = at[0];
#pragma unroll
      for (int chunk = 1; chunk < 4; chunk++)
        if (chunk < chunks) sum = sum + at[chunk * 16 * TOKENS];
      return sum;
    };
    const int to = destination<MODE>(a, tile, token);
    if (MODE == UP) {
      if (group * 8 < a.dst_stride) store_pair(a, tile.expert, group, row, to, total(row), total(row + 8));
    } else {
      store_row(a, tile.expert, group * 16 + row, to, total(row));
    }
  }
}

// How a warp of product_decode goes through its chunk: GROUPS groups of 16 rows side by side, which share what is
// read of tokens, and STAGES units under way. product.go (decoding) has the same numbers.
template <class Weights, int COLUMNS>
struct Decoding {
  static constexpr bool FOUR = Weights::BYTES < 1024, SIXTEEN = Weights::BYTES >= 2048;  // bits of a weight
  static constexpr int GROUPS = SIXTEEN ? 1 : 2;
  static constexpr int STAGES = COLUMNS == 1 ? 6 : COLUMNS == 2 ? (FOUR ? 6 : SIXTEEN ? 4 : 5) : SIXTEEN ? 3 : 4;
};

// product_decode: members · chunks warps, a tile of 8·COLUMNS tokens, 16 · GROUPS · members rows. Warps with the
// same chunk are a team: each has GROUPS groups of rows, and they copy the tokens of the chunk together. All goes
// through STAGES stages of dynamic shared memory, of which all but one are under way while one is computed:
// chunks · STAGES · (TOKENS · 128 + members · GROUPS · BYTES) bytes. How many members there are is the launch's
// choice. The grid is (blocks of rows, tiles), for LINEAR (tiles, blocks of rows): blocks that read the same
// weights run at the same time, and the second one finds them in the cache.
template <class Weights, int COLUMNS, int MODE>
__device__ __forceinline__ void product_decode(const ProductArgs& a) {
  extern __shared__ __align__(128) uint8_t dynamic[];
  constexpr int TOKENS = 8 * COLUMNS, GROUPS = Decoding<Weights, COLUMNS>::GROUPS, STAGES = Decoding<Weights, COLUMNS>::STAGES;
  constexpr int TOKEN_BYTES = TOKENS * 128, WEIGHT_BYTES = GROUPS * Weights::BYTES;  // of a stage
  const Tile tile = tile_of<MODE, TOKENS>(a, MODE == LINEAR ? blockIdx.x : blockIdx.y);
  if (tile.count <= 0) return;
  const int lane = threadIdx.x & 31, warp = warp_number();
  const int halvings = a.chunks >> 1, chunk = warp & (a.chunks - 1);  // chunks are 1, 2 or 4: no division is needed
  const int member = warp >> halvings, members = blockDim.x >> (5 + halvings);
  const int groups = (a.rows + 15) >> 4, first = (MODE == LINEAR ? blockIdx.y : blockIdx.x) * members * GROUPS;
  // Groups behind the last one (a block's rest, or columns of dst that are filled up) have no weights.
  const int group = first + member * GROUPS, mine = kept(min(groups - group, GROUPS));
  const int from = (a.units * chunk) >> halvings, count = ((a.units * (chunk + 1)) >> halvings) - from;  // units

  // What this lane copies of the weights of each stage: of each group every 32nd piece of 16 bytes, and the first
  // lanes what is left of all groups then. For groups that are not there zeros are filled in.
  constexpr int WHOLE = Weights::BYTES / 512 * 512, REST = (Weights::BYTES - WHOLE) / 16;
  const size_t group_bytes = (size_t)a.units * Weights::BYTES;
  const uint8_t* ahead = a.weights + ((size_t)tile.expert * groups + group) * group_bytes + (size_t)from * Weights::BYTES;
  const int of = REST ? lane / max(REST, 1) : 0, left = WHOLE + (lane - of * REST) * 16;
  const uint8_t* rest = ahead + of * group_bytes + left;
  ahead += lane * 16;
  const uint32_t shared = shared_address(dynamic), weights_at = a.chunks * STAGES * TOKEN_BYTES + warp * STAGES * WEIGHT_BYTES;
  const uint32_t weights_to = kept(shared + weights_at + lane * 16), rest_to = kept(shared + weights_at + of * Weights::BYTES + left);
  auto fetch_weights = [&](int stage) {
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
      for (int i = 0; i < WHOLE; i += 512)
        copy_async(weights_to + stage * WEIGHT_BYTES + g * Weights::BYTES + i, ahead + g * group_bytes + i, g >= mine);
    if (REST && of < GROUPS) copy_async(rest_to + stage * WEIGHT_BYTES, rest, of >= mine);
    ahead += Weights::BYTES, rest += Weights::BYTES;
  };
#pragma unroll 1
  for (int stage = 0; stage < min(STAGES - 1, count); stage++) fetch_weights(stage);
  // Biases are read at the end, by when they should be in the cache.
  if (const int row = first * 16 + threadIdx.x * 8; a.bias && threadIdx.x < members * GROUPS * 2 && row < a.rows)
    prefetch(a.bias + (size_t)tile.expert * a.rows + row);

  // What this lane copies of each stage: a 16-byte piece of every 4·members-th token. Of 8 tokens without any nothing
  // is copied, computed or stored. Where the last 4 of 8 are missing the first 4 stand in: nobody stores their sums.
  const int columns = COLUMNS == 1 ? 1 : (tile.count + 7) >> 3, fours = COLUMNS == 1 ? (tile.count + 3) >> 2 : columns * 2;
  const int row = kept(lane >> 3), piece = lane & 7;
  const uint32_t tokens_at = shared + chunk * STAGES * TOKEN_BYTES, tokens_to = kept(tokens_at + swizzled(row, piece));
  uint32_t rows[TOKENS / 4];  // pieces from the begin of x
#pragma unroll
  for (int i = 0; i < TOKENS / 4; i++) {
    const int token = (i * members + member) * 4 + row;
    rows[i] = (uint32_t)(token < tile.count ? source<MODE>(a, tile, token) : 0) * (uint32_t)(a.x_stride / 8) + from * 8 + piece;
  }
  auto fetch_tokens = [&](int unit, int stage) {
#pragma unroll
    for (int i = 0; i < TOKENS / 4; i++) {
      const int four = i * members + member;  // tokens 4·four + row, whose pieces change places with those of 4 rows before
      if (four >= fours) break;
      copy_async((tokens_to + stage * TOKEN_BYTES + four * 512) ^ ((four & 1) << 6), a.x + (size_t)(rows[i] + unit * 8) * 8, four * 4 + row >= tile.count);
    }
  };
#pragma unroll 1
  for (int unit = 0; unit < STAGES - 1; unit++) {
    if (unit < count) fetch_tokens(unit, unit);
    commit_copies();
  }

  float sums[GROUPS][COLUMNS][4] = {};
  const int reads = lane & (COLUMNS == 1 ? fours * 4 - 1 : 7);  // the token whose k this lane points to
  const uint32_t matrix = kept(tokens_at + swizzled(reads, lane >> 3));  // of the first 32 k; the others' is 64 bytes on, or back
  const uint8_t* weights_of = dynamic + weights_at;
#pragma unroll 1
  for (int unit = 0, stage = 0, before = STAGES - 1; unit < count; unit++) {
    wait_copies<STAGES - 2>();
    team_barrier(chunk + 1, members * 32);  // the unit is there for the team, and all are done with the one before
    if (unit + STAGES - 1 < count) {
      fetch_weights(before);
      fetch_tokens(unit + STAGES - 1, before);
    }
    commit_copies();
    const uint8_t* at = weights_of + stage * WEIGHT_BYTES;
    const uint32_t matrices = matrix + stage * TOKEN_BYTES;
    Weights now[GROUPS];
#pragma unroll
    for (int half = 0; half < 2; half++) {
      uint32_t fragments[GROUPS][2][4];
#pragma unroll
      for (int g = 0; g < GROUPS; g++) {
        now[g].load_half(at + g * Weights::BYTES, lane, half);
        now[g].fragments(half, fragments[g]);
      }
#pragma unroll
      for (int column = 0; column < COLUMNS; column++) {
        if (column >= columns) break;
        uint32_t tokens[4];  // 8 tokens × 32 k
        load_matrices(tokens, (half ? matrices ^ 64 : matrices) + column * 1024);
#pragma unroll
        for (int g = 0; g < GROUPS; g++) now[g].accumulate(sums[g][column], fragments[g], tokens, half);
      }
    }
    before = stage;
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }

  // The chunks of a group meet in shared memory, over what nobody needs any more.
  __syncthreads();
  float* partials = (float*)dynamic;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) put_sums<COLUMNS>(partials + ((member * GROUPS + g) * a.chunks + chunk) * 16 * TOKENS, 0, sums[g]);
  __syncthreads();
  store_sums<Weights, MODE, TOKENS>(a, tile, partials, members * GROUPS, a.chunks, first, 1);
}

constexpr int PREFILL_TOKENS = 128, PREFILL_GROUPS = 8, PREFILL_STAGES = 3;

// product_prefill: 8 warps, 128 rows × 128 tokens, a warp has 32 × 64 of them. Weights and tokens go
// through three stages of dynamic shared memory, PREFILL_STAGES · (16384 + 8 · BYTES) bytes. k is
// walked in order; at a chunk's end its sums are added to the totals. The grid is (blocks of rows, tiles).
template <class Weights, int MODE>
__device__ __forceinline__ void product_prefill(const ProductArgs& a) {
  extern __shared__ __align__(128) uint8_t dynamic[];
  constexpr int TOKEN_BYTES = PREFILL_TOKENS * 128, STAGE = TOKEN_BYTES + PREFILL_GROUPS * Weights::BYTES;
  const Tile tile = tile_of<MODE, PREFILL_TOKENS>(a, blockIdx.y);
  if (tile.count <= 0) return;
  const int lane = threadIdx.x & 31, warp = warp_number();
  const int groups = (a.rows + 15) >> 4, first_group = blockIdx.x * PREFILL_GROUPS;
  const int mine = (warp & 3) * 2, column = (warp >> 2) * 64;  // this warp's first group and token of the block's

  // What this thread copies of each stage: a piece of four tokens, and every 256th piece of weights.
  const int piece = threadIdx.x & 7;
  uint32_t rows[4];  // pieces from the begin of x
#pragma unroll
  for (int i = 0; i < 4; i++) {
    int token = i * 32 + (threadIdx.x >> 3);
    rows[i] = (uint32_t)(token < tile.count ? source<MODE>(a, tile, token) : 0) * (uint32_t)(a.x_stride / 8) + piece;
  }
  const uint8_t* weights = a.weights + ((size_t)tile.expert * groups + first_group) * a.units * Weights::BYTES;
  auto fetch = [&](int unit) {
    uint32_t stage = shared_address(dynamic) + (unit % PREFILL_STAGES) * STAGE;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      int token = i * 32 + (threadIdx.x >> 3);
      copy_async(stage + swizzled(token, piece), a.x + (size_t)(rows[i] + unit * 8) * 8, token >= tile.count);
    }
    constexpr int PIECES = Weights::BYTES / 16;
    for (int i = threadIdx.x; i < PREFILL_GROUPS * PIECES; i += 256) {
      int group = i / PIECES;
      bool none = first_group + group >= groups;
      const uint8_t* from = weights + ((size_t)(none ? 0 : group) * a.units + unit) * Weights::BYTES + (i % PIECES) * 16;
      copy_async(stage + TOKEN_BYTES + i * 16, none ? a.weights : from, none);
    }
  };
#pragma unroll
  for (int stage = 0; stage < PREFILL_STAGES - 1; stage++) {
    if (stage < a.units) fetch(stage);
    commit_copies();
  }

  float sums[2][8][4] = {}, totals[2][8][4] = {};
  int chunk = 1, border = a.units / a.chunks;
  for (int unit = 0; unit < a.units; unit++) {
    wait_copies<PREFILL_STAGES - 2>();
    __syncthreads();  // the unit is there for all, and all are done with the one before
    if (unit + PREFILL_STAGES - 1 < a.units) fetch(unit + PREFILL_STAGES - 1);
    commit_copies();
    if (unit == border) {  // a chunk ends: the next one begins with zero
#pragma unroll
      for (int g = 0; g < 2; g++)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
          for (int i = 0; i < 4; i++) {
            totals[g][n][i] = chunk == 1 ? sums[g][n][i] : totals[g][n][i] + sums[g][n][i];
            sums[g][n][i] = 0;
          }
      chunk++;
      border = a.units * chunk / a.chunks;
    }
    const uint8_t* stage = dynamic + (unit % PREFILL_STAGES) * STAGE;
    const uint32_t tokens_at = shared_address(stage);
    Weights now[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
      uint32_t fragments[2][2][4];
#pragma unroll
      for (int g = 0; g < 2; g++) {
        now[g].load_half(stage + TOKEN_BYTES + (mine + g) * Weights::BYTES, lane, half);
        now[g].fragments(half, fragments[g]);
      }
#pragma unroll
      for (int n = 0; n < 8; n++) {
        if (column + n * 8 >= tile.count) break;  // nobody's tokens
        uint32_t tokens[4];                       // 8 tokens × 32 k
        load_matrices(tokens, tokens_at + swizzled(column + n * 8 + (lane & 7), half * 4 + (lane >> 3)));
#pragma unroll
        for (int g = 0; g < 2; g++) now[g].accumulate(sums[g][n], fragments[g], tokens, half);
      }
    }
  }

#pragma unroll
  for (int g = 0; g < 2; g++) {  // the warps' first groups, then their second ones
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) totals[g][n][i] = chunk == 1 ? sums[g][n][i] : totals[g][n][i] + sums[g][n][i];
    float* partials = (float*)dynamic;
    __syncthreads();  // what was there is not needed any more
    put_sums<8>(partials + (warp & 3) * 16 * PREFILL_TOKENS, column, totals[g]);
    __syncthreads();
    store_sums<Weights, MODE, PREFILL_TOKENS>(a, tile, partials, 4, 1, first_group + g, 2);
  }
}
