// Attention over paged keys and values by the contract of cuda.md 6.3: for any (token, head),
//
//   scores of 16 keys at a time, at multiples of 16; a softmax that goes on from tile to tile within
//   a split of 256 keys, at multiples of 256; splits joined in ascending order; then the sink.
//
// Everything that a (token, head) computes depends on its own query and the keys it sees alone: tiles
// that it sees nothing of leave its state as it is, to the bit. So chunks of prompts, neighbours in a
// tile, block sizes and the number of warps change nothing. Blocks either go through all splits of
// their rows and join them in registers, or compute one split each for attend_merge to join with the
// same functions.
//
// The (token, head) rows of one kv head, "pairs", are numbered token·group + head; a warp has 16
// neighbouring ones of one row of the batch as the rows of its matrices.
#pragma once
#include "common.cuh"

#include <math_constants.h>

constexpr uint32_t ALL_LANES = 0xffffffffu;
constexpr int TILE = 16;   // keys of a tile, rows of a warp
constexpr int SPLIT = 256; // keys of a split
constexpr float LOG2E = 1.44269504088896340736f;

// An AttendTile is the pairs of a block: as many as it has warps times 16, as far as the row of the
// batch goes. A negative row means that there is nothing to do.
struct AttendTile {
  int32_t row; // of the batch
  int32_t pair; // the first one
};

struct AttendArgs {
  bf16* dst;        // [T][dstStride]
  const float* q;   // [T][qStride], rotated
  const void* keys; // [block][kvHead][key in block][padded]: bf16, or codes where scales are
  const void* values;
  const uint8_t* keyScales; // [block][kvHead][key in block]; null = bf16
  const uint8_t* valueScales;
  const int32_t* table; // [R][tableStride] blocks; those that no token sees are not looked at
  const int32_t* first; // [R] token of the step that is the row's first
  const int32_t* start; // [R] its position
  const int32_t* len;   // [R] tokens of the row
  const AttendTile* tiles;
  const float* sinks; // [heads]; null = none
  float* planes;      // [tile][kvHead][split][16][padded] values of splits; null = splits are joined here
  float2* ends;       // [tile][kvHead][split][16] their Softmax
  int32_t qStride, dstStride, tableStride;
  int32_t heads, kvHeads, dim, padded, blockSize;
  int32_t window; // keys that a token sees, itself included; 0 = all
  int32_t splits; // of each tile in planes
  float scale;    // of scores: log2(e)/sqrt(dim)
  int32_t unused;
};

// ---- Instructions ----

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// load_transposed is load_matrices with each matrix transposed: a lane has elements g of rows 2t and 2t+1.
__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<uint32_t*>(&pair);
}

// codes_to_bf16 turns two E4M3 codes, the upper bytes of the halves of x, into bf16 numbers of 1/256
// of their value. The bits of a code, moved to where a bf16 has exponent and mantissa, are 2^-120 of
// it, also where it is subnormal.
__device__ __forceinline__ uint32_t codes_to_bf16(uint32_t x) {
  uint32_t bits = (x & 0x80008000u) | (x >> 4 & 0x07f007f0u), y;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(bits), "r"(0x77807780u), "r"(0x80008000u)); // 2^112, -0
  return y;
}

// scale_of is the factor of a vector of codes; of one that was not finite, a NaN.
__device__ __forceinline__ float scale_of(uint32_t exponent) {
  return __uint_as_float(exponent == 255u ? 0x7fffffffu : exponent << 23);
}

// ---- Softmax ----

// A Softmax is the state of a row's softmax over the keys so far: the largest score, in units of
// log2, and the sum of the exponentials of what scores are below it.
struct Softmax {
  float top, sum;
};

__device__ __forceinline__ Softmax nothing() { return {-CUDART_INF_F, 0.0f}; }

// A Fade is what the values so far and new ones are multiplied with before they are added.
struct Fade {
  float old, add;
};

// reference is what exponents are relative to: the largest score, or 0 where there is none yet.
__device__ __forceinline__ float reference(float top) { return top == -CUDART_INF_F ? 0.0f : top; }

// join adds the softmax of a later split to run. Values follow with join_value.
__device__ __forceinline__ Fade join(Softmax& run, Softmax next) {
  float top = fmaxf(run.top, next.top), zero = reference(top);
  Fade fade = {exp2_approx(run.top - zero), exp2_approx(next.top - zero)};
  run = {top, __fmaf_rn(next.sum, fade.add, run.sum * fade.old)};
  return fade;
}

__device__ __forceinline__ float join_value(float run, float next, Fade fade) {
  return __fmaf_rn(next, fade.add, run * fade.old);
}

// finish returns the factor that makes a row's values its result; a sink is one more score without a
// value.
__device__ __forceinline__ float finish(Softmax run, const float* sinks, int head) {
  if (!sinks) return 1.0f / run.sum;
  float sink = sinks[head] * LOG2E, top = fmaxf(run.top, sink);
  float fade = exp2_approx(run.top - top);
  return fade / __fmaf_rn(run.sum, fade, exp2_approx(sink - top));
}

// result rounds a value. Adding zero makes every zero positive: which sign it had may depend on tiles
// that the row did not see.
__device__ __forceinline__ float result(float value, float factor) { return value * factor + 0.0f; }

// ---- A block ----

// A Pair is a (token, head) of a row of the batch.
struct Pair {
  int token;       // of the step
  int head;        // of the query
  int from, pos;   // positions of the first key that it sees, and of its own
  bool valid;      // it is one; else the row's last pair, whose result nobody wants twice
};

__device__ __forceinline__ int first_key(int pos, int window) { return window > 0 ? max(pos - window + 1, 0) : 0; }

__device__ __forceinline__ Pair pair_of(const AttendArgs& a, const AttendTile& tile, int kvHead, int number) {
  int group = a.heads / a.kvHeads, count = a.len[tile.row] * group;
  Pair p;
  p.valid = number < count;
  number = min(number, count - 1);
  int token = number / group;
  p.token = a.first[tile.row] + token;
  p.head = kvHead * group + number - token * group;
  p.pos = a.start[tile.row] + token;
  p.from = first_key(p.pos, a.window);
  return p;
}

// A Shape has the sizes of a block of WARPS warps for heads of D elements, in bf16 or as CODES.
template <int D, bool CODES, int WARPS> struct Shape {
  static constexpr int ELEMENT = CODES ? 1 : 2;          // bytes
  static constexpr int VALUES = D <= 128 ? D : 64;       // elements of values that a block computes, as
  static constexpr int PARTS = D / VALUES;               // registers allow, in so many parts
  static constexpr int KEY_BYTES = D * ELEMENT;          // of a key, in memory and in a stage
  static constexpr int VALUE_BYTES = VALUES * ELEMENT;   // of a value in a stage; in memory KEY_BYTES
  static constexpr int THREADS = 32 * WARPS;
  static constexpr int BUDGET = 28 * 1024; // of shared memory for stages
  // Keys of a stage: several warps share barriers over more of them.
  static constexpr int PER_KEY = KEY_BYTES + VALUE_BYTES;
  static constexpr int KEYS = WARPS > 1 && 3 * 2 * TILE * PER_KEY <= BUDGET ? 2 * TILE : TILE;
  static constexpr int FIT = BUDGET / (KEYS * PER_KEY);
  static constexpr int STAGES = FIT < 2 ? 2 : FIT > 4 ? 4 : FIT;
};

// chunk_at returns the byte offset of a 16-byte chunk of a row in shared memory. Chunks change places
// so that the same one of eight neighbouring rows lies in eight different banks. Where a stage begins
// at a multiple of its rows' length, chunk c|n of a row is at (address of chunk c) ^ 16n.
template <int ROW_BYTES> __device__ __forceinline__ uint32_t chunk_at(int row, int chunk) {
  if (ROW_BYTES == 64) return row * 64 + ((chunk ^ (row >> 1 & 3)) << 4);
  return row * ROW_BYTES + ((chunk ^ (row & 7)) << 4);
}

template <typename S> struct Shared {
  __align__(1024) char keys[S::STAGES][S::KEYS * S::KEY_BYTES];
  char values[S::STAGES][S::KEYS * S::VALUE_BYTES];
  uint8_t scales[S::STAGES][2][S::KEYS]; // of keys, then of values
  int32_t places[2][SPLIT]; // of the keys of two splits: vectors from the start of the pool; -1 = not read
};

template <int WARPS> __device__ __forceinline__ void sync_block() {
  if (WARPS == 1)
    __syncwarp();
  else
    __syncthreads();
}

// A Loader copies keys and values to shared memory, stage by stage. Keys outside begin..end-1 become
// zeros and are not read: their blocks may be gone, what they hold may be no number, and a weight of 0
// does not silence that.
template <typename S, bool CODES, int WARPS> struct Loader {
  const AttendArgs& a;
  Shared<S>& shared;
  const int32_t* table;
  int kvHead, part; // of the values
  int begin, end;   // keys that some pair of the block sees
  uint8_t scale;    // read, not yet in its stage,
  int scaleStage;   // which is this one; -1 = none is waiting

  // locate finds where the keys of a split lie. All threads take part.
  __device__ __forceinline__ void locate(int split) {
    constexpr int EACH = SPLIT / S::THREADS;
    int place[EACH];
#pragma unroll // every block id is asked for before the first is waited for
    for (int n = 0; n < EACH; n++) {
      int key = split * SPLIT + n * S::THREADS + threadIdx.x, near = min(max(key, begin), end - 1);
      int block = near / a.blockSize;
      place[n] = (table[block] * a.kvHeads + kvHead) * a.blockSize + near - block * a.blockSize;
      if (near != key) place[n] = -1;
    }
#pragma unroll
    for (int n = 0; n < EACH; n++) shared.places[split & 1][n * S::THREADS + threadIdx.x] = place[n];
    sync_block<WARPS>();
  }

  // flush puts the scale that was read last into its stage: a step after it was asked for, so that
  // nobody waits for memory.
  __device__ __forceinline__ void flush() {
    if (CODES && scaleStage >= 0 && threadIdx.x < 2 * S::KEYS)
      shared.scales[scaleStage][threadIdx.x / S::KEYS][threadIdx.x % S::KEYS] = scale;
    scaleStage = -1;
  }

  // fetch begins to copy the keys key..key+KEYS-1 to a stage.
  __device__ __forceinline__ void fetch(int key, int stage) {
    const int32_t* places = shared.places[key / SPLIT & 1] + key % SPLIT;
    constexpr int CHUNKS = S::KEY_BYTES / 16, VALUE_CHUNKS = S::VALUE_BYTES / 16;
    uint32_t keys = shared_address(shared.keys[stage]), values = shared_address(shared.values[stage]);
#pragma unroll
    for (int n = 0; n < (S::KEYS * CHUNKS + S::THREADS - 1) / S::THREADS; n++)
      if (int i = n * S::THREADS + threadIdx.x; i < S::KEYS * CHUNKS) {
        int row = i / CHUNKS, chunk = i % CHUNKS, place = places[row];
        const char* src = static_cast<const char*>(a.keys) + (size_t)max(place, 0) * S::KEY_BYTES + chunk * 16;
        copy_async(keys + chunk_at<S::KEY_BYTES>(row, chunk), src, place < 0);
      }
#pragma unroll
    for (int n = 0; n < (S::KEYS * VALUE_CHUNKS + S::THREADS - 1) / S::THREADS; n++)
      if (int i = n * S::THREADS + threadIdx.x; i < S::KEYS * VALUE_CHUNKS) {
        int row = i / VALUE_CHUNKS, chunk = i % VALUE_CHUNKS, place = places[row];
        const char* src = static_cast<const char*>(a.values) + (size_t)max(place, 0) * S::KEY_BYTES + part * S::VALUE_BYTES + chunk * 16;
        copy_async(values + chunk_at<S::VALUE_BYTES>(row, chunk), src, place < 0);
      }
    if (CODES) {
      flush();
      if (threadIdx.x < 2 * S::KEYS) {
        int place = places[threadIdx.x % S::KEYS];
        scale = 0;
        if (place >= 0) scale = (threadIdx.x < S::KEYS ? a.keyScales : a.valueScales)[place];
      }
      scaleStage = stage;
    }
  }
};

// A Head is what a lane holds of its warp's 16 pairs: of rows lane/4 and lane/4+8 ("h" = 0 and 1).
template <int D, bool CODES, int WARPS> struct Head {
  using S = Shape<D, CODES, WARPS>;
  uint32_t q[D / 16][4];           // fragments of the queries in bf16
  float values[S::VALUES / 8][4];  // of the split, weighted and not yet divided; see element
  Softmax softmax[2];              // of the split: scores yet without scale, the sum over this lane's keys
  int from[2], pos[2];             // keys that the rows see
  int allFrom, allTo;              // keys that all rows of the warp see: allFrom..allTo
  int someFrom, someTo;            // keys that any of them sees

  // values[n][2h+e] is element 8n+2t+e of row h. Codes come in pairs out of a transposing load, so that
  // even and odd elements lie in matrices of their own: there it is element 16(n/2)+4t+2e+n%2. The
  // VALUES/8 pairs of neighbours that a lane has of a row are found by their number:
  static __device__ __forceinline__ int element(int pair) { // the first of the two
    int t = threadIdx.x % 4;
    return CODES ? 16 * (pair / 2) + 4 * t + 2 * (pair & 1) : 8 * pair + 2 * t;
  }
  static __device__ __forceinline__ float2 neighbours(const float (&values)[S::VALUES / 8][4], int pair, int h) {
    if (CODES) return make_float2(values[pair & ~1][2 * h + (pair & 1)], values[pair | 1][2 * h + (pair & 1)]);
    return make_float2(values[pair][2 * h], values[pair][2 * h + 1]);
  }

  // load_query reads two queries, rounds them and lays them out as the keys' fragments will be: pairs
  // of elements 2t and 2t+8 of every 16, or with codes four neighbours from 4t on.
  __device__ __forceinline__ void load_query(const AttendArgs& a, int h, const Pair& p) {
    int t = threadIdx.x % 4;
    const float* row = a.q + (size_t)p.token * a.qStride + p.head * a.dim;
#pragma unroll
    for (int s = 0; s < D / 16; s++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int i = 16 * s + (CODES ? 4 * t + 2 * half : 2 * t + 8 * half);
        float2 v = make_float2(0.0f, 0.0f);
        if (i < a.dim) v = *reinterpret_cast<const float2*>(row + i); // dim is even
        q[s][half * 2 + h] = pack_bf16(v.x, v.y);
      }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int n = 0; n < S::VALUES / 8; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) values[n][e] = 0.0f;
    softmax[0] = softmax[1] = nothing();
  }

  // score computes the scores of a tile of keys, rows of shared memory from address on: scores[j][e]
  // is of key 8j+2t+e%2 and row e/2.
  __device__ __forceinline__ void score(float (&scores)[2][4], uint32_t address, int firstRow) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) scores[j][e] = 0.0f;
    if constexpr (CODES) {
      address += firstRow * S::KEY_BYTES + chunk_at<S::KEY_BYTES>((lane & 7) + (lane >> 3 & 1) * 8, lane >> 4);
#pragma unroll
      for (int s = 0; s < D / 16; s += 2) {
        uint32_t codes[4]; // keys 0-7 and 8-15 of 16 elements, then of the next 16
        load_matrices(codes, address ^ 16 * s);
#pragma unroll
        for (int k = 0; k < 4; k++) // a word has the codes of four neighbouring elements
          mma(scores[k & 1], q[s + k / 2], codes_to_bf16(__byte_perm(codes[k], 0, 0x1404)), codes_to_bf16(__byte_perm(codes[k], 0, 0x3424)));
      }
    } else {
      address += firstRow * S::KEY_BYTES + chunk_at<S::KEY_BYTES>((lane & 7) + (lane >> 4) * 8, lane >> 3 & 1);
#pragma unroll
      for (int s = 0; s < D / 16; s++) {
        uint32_t b[4]; // keys 0-7, elements 0-7 and 8-15; then keys 8-15
        load_matrices(b, address ^ 32 * s);
        mma(scores[0], q[s], b[0], b[1]);
        mma(scores[1], q[s], b[2], b[3]);
      }
    }
  }

  // weigh adds a tile of values, rows of shared memory from address on, with the weights p.
  __device__ __forceinline__ void weigh(const uint32_t (&p)[4], uint32_t address, int firstRow) {
    int lane = threadIdx.x % 32;
    address += firstRow * S::VALUE_BYTES + chunk_at<S::VALUE_BYTES>((lane & 7) + (lane >> 3 & 1) * 8, lane >> 4);
    if constexpr (CODES) {
#pragma unroll
      for (int c = 0; c < S::VALUE_BYTES / 16; c += 2) {
        uint32_t codes[4]; // keys 0-7 and 8-15 of 16 elements, then of the next 16
        load_transposed(codes, address ^ 16 * c);
#pragma unroll
        for (int k = 0; k < 2; k++) { // a word has two elements of a key, then of the next one
          uint32_t low = codes[2 * k], high = codes[2 * k + 1];
          mma(values[2 * (c + k)], p, codes_to_bf16(__byte_perm(low, 0, 0x2404)), codes_to_bf16(__byte_perm(high, 0, 0x2404)));
          mma(values[2 * (c + k) + 1], p, codes_to_bf16(__byte_perm(low, 0, 0x3414)), codes_to_bf16(__byte_perm(high, 0, 0x3414)));
        }
      }
    } else {
#pragma unroll
      for (int n = 0; n < S::VALUES / 8; n += 2) {
        uint32_t b[4]; // keys 0-7 and 8-15 of 8 elements, then of the next 8
        load_transposed(b, address ^ 16 * n);
        mma(values[n], p, b[0], b[1]);
        mma(values[n + 1], p, b[2], b[3]);
      }
    }
  }

  // tile adds the keys key..key+15, which lie in a stage from row firstRow on.
  __device__ __forceinline__ void tile(const AttendArgs& a, Shared<S>& shared, int stage, int firstRow, int key) {
    if (key > someTo || key + TILE <= someFrom) return; // it would change no bit
    float scores[2][4];
    score(scores, shared_address(shared.keys[stage]), firstRow);
    int t = threadIdx.x % 4;
    float valueScales[2][2];
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        if (CODES) {
          int i = firstRow + 8 * j + 2 * t + (e & 1);
          scores[j][e] *= scale_of(shared.scales[stage][0][i]);
          valueScales[j][e & 1] = scale_of(shared.scales[stage][1][i]);
        }
      }
    if (key < allFrom || key + TILE - 1 > allTo)
#pragma unroll
      for (int j = 0; j < 2; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          int at = key + 8 * j + 2 * t + (e & 1);
          if (at > pos[e / 2] || at < from[e / 2]) scores[j][e] = -CUDART_INF_F;
        }
    uint32_t p[4];
    float fade[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float* low = scores[0] + 2 * h;
      float* high = scores[1] + 2 * h;
      float top = fmaxf(fmaxf(softmax[h].top, fmaxf(low[0], low[1])), fmaxf(high[0], high[1]));
      top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 1));
      top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 2));
      float zero = reference(top), scaled = zero * a.scale;
      fade[h] = exp2_approx((softmax[h].top - zero) * a.scale); // 1 where the largest score is still the same
#pragma unroll
      for (int e = 0; e < 2; e++) {
        low[e] = exp2_approx(__fmaf_rn(low[e], a.scale, -scaled));
        high[e] = exp2_approx(__fmaf_rn(high[e], a.scale, -scaled));
      }
      softmax[h] = {top, softmax[h].sum * fade[h] + ((low[0] + low[1]) + (high[0] + high[1]))};
      if (CODES) // a weight of 0 stays one: what is not seen may have a scale that is no number
#pragma unroll
        for (int e = 0; e < 2; e++) {
          low[e] = low[e] == 0.0f ? 0.0f : low[e] * valueScales[0][e];
          high[e] = high[e] == 0.0f ? 0.0f : high[e] * valueScales[1][e];
        }
      p[h] = pack_bf16(low[0], low[1]);
      p[2 + h] = pack_bf16(high[0], high[1]);
    }
    // After the first tiles the largest score seldom changes.
    if (__any_sync(ALL_LANES, fade[0] != 1.0f || fade[1] != 1.0f))
#pragma unroll
      for (int n = 0; n < S::VALUES / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) values[n][e] *= fade[e / 2];
    weigh(p, shared_address(shared.values[stage]), firstRow);
  }

  // complete makes the softmax of the split that of all lanes of a row, and scales its largest score.
  __device__ __forceinline__ void complete(float scale) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      softmax[h].top *= scale;
      softmax[h].sum += __shfl_xor_sync(ALL_LANES, softmax[h].sum, 1);
      softmax[h].sum += __shfl_xor_sync(ALL_LANES, softmax[h].sum, 2);
    }
  }

  // store_split writes row h to the planes.
  __device__ __forceinline__ void store_split(const AttendArgs& a, int h, int part) {
    int lane = threadIdx.x % 32, kvHead = blockIdx.y / S::PARTS;
    size_t row = (((size_t)blockIdx.x * a.kvHeads + kvHead) * a.splits + blockIdx.z) * TILE + lane / 4 + 8 * h;
    if (part == 0 && lane % 4 == 0) a.ends[row] = make_float2(softmax[h].top, softmax[h].sum);
    float* dst = a.planes + row * D + part * S::VALUES;
#pragma unroll
    for (int pair = 0; pair < S::VALUES / 8; pair++) *reinterpret_cast<float2*>(dst + element(pair)) = neighbours(values, pair, h);
  }

  // sees reports whether a row sees keys of a split.
  __device__ __forceinline__ bool sees(int h, int split) { return pos[h] >= split * SPLIT && from[h] < (split + 1) * SPLIT; }
};

// clear_tail keeps the tail of a row of the result zero: who writes its last head does it.
__device__ __forceinline__ void clear_tail(const AttendArgs& a, int token, int begin, int step) {
  for (int i = a.heads * a.dim + begin; i < a.dstStride; i += step) a.dst[(size_t)token * a.dstStride + i] = __float2bfloat16(0.0f);
}

// store_result writes row h, a pair whose splits are joined.
template <int D, bool CODES, int WARPS>
__device__ __forceinline__ void store_result(const AttendArgs& a, const Pair& p, const float (&total)[Shape<D, CODES, WARPS>::VALUES / 8][4],
                                             Softmax run, int h, int part) {
  using S = Shape<D, CODES, WARPS>;
  using H = Head<D, CODES, WARPS>;
  float factor = finish(run, a.sinks, p.head);
  bf16* dst = a.dst + (size_t)p.token * a.dstStride + p.head * a.dim + part * S::VALUES;
#pragma unroll
  for (int pair = 0; pair < S::VALUES / 8; pair++)
    if (int i = H::element(pair); part * S::VALUES + i < a.dim) { // dim is even
      float2 v = H::neighbours(total, pair, h);
      *reinterpret_cast<uint32_t*>(dst + i) = pack_bf16(result(v.x, factor), result(v.y, factor));
    }
  if (part == 0 && p.head == a.heads - 1) clear_tail(a, p.token, threadIdx.x % 4, 4);
}

// attend_block is attention for the pairs of one tile and kv head, one part of the values. Grid:
// tile, kv head and part, split (1 where splits are joined here).
template <int D, bool CODES, int WARPS> __device__ __forceinline__ void attend_block(const AttendArgs& a) {
  using S = Shape<D, CODES, WARPS>;
  __shared__ Shared<S> shared;
  AttendTile tile = a.tiles[blockIdx.x];
  if (tile.row < 0) return;
  int kvHead = blockIdx.y / S::PARTS, part = blockIdx.y % S::PARTS;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  // The keys that the block's pairs see, and those of its split.
  Pair blockFirst = pair_of(a, tile, kvHead, tile.pair), blockLast = pair_of(a, tile, kvHead, tile.pair + WARPS * TILE - 1);
  int begin = blockFirst.from, end = blockLast.pos + 1;
  if (a.planes) {
    int split = begin / SPLIT + blockIdx.z;
    begin = max(begin, split * SPLIT);
    end = min(end, (split + 1) * SPLIT);
    if (begin >= end) return;
  }

  // The pairs of the warp. One without any goes along for the barriers.
  int number = tile.pair + warp * TILE;
  Pair warpFirst = pair_of(a, tile, kvHead, number), warpLast = pair_of(a, tile, kvHead, number + TILE - 1);
  Head<D, CODES, WARPS> head;
#pragma unroll
  for (int h = 0; h < 2; h++) {
    Pair p = pair_of(a, tile, kvHead, number + lane / 4 + 8 * h);
    head.from[h] = p.from;
    head.pos[h] = p.pos;
    head.load_query(a, h, p);
  }
  head.allFrom = warpLast.from;
  head.allTo = warpFirst.pos;
  head.someFrom = warpFirst.from;
  head.someTo = warpFirst.valid ? warpLast.pos : -1;
  head.clear();
  Softmax run[2] = {nothing(), nothing()};
  float total[S::VALUES / 8][4] = {};

  // Copies run STAGES-1 stages ahead of the keys that are computed, so the first rounds only fetch.
  Loader<S, CODES, WARPS> loader = {a, shared, a.table + (size_t)tile.row * a.tableStride, kvHead, part, begin, end, 0, -1};
  constexpr int AHEAD = (S::STAGES - 1) * S::KEYS;
  int first = begin / S::KEYS * S::KEYS, fetched = 0; // the stage that is filled
  for (int key = first - AHEAD; key < end; key += S::KEYS) {
    loader.flush();
    wait_copies<S::STAGES - 2>();
    sync_block<WARPS>(); // the keys have come for all, and all are done with those before them
    if (int next = key + AHEAD; next < end) {
      if (next == first || next % SPLIT == 0) loader.locate(next / SPLIT);
      loader.fetch(next, fetched);
    }
    commit_copies();
    fetched = fetched + 1 == S::STAGES ? 0 : fetched + 1; // and where the keys lie that came first
    if (key < first) continue;
#pragma unroll 1
    for (int row = 0; row < S::KEYS; row += TILE) head.tile(a, shared, fetched, row, key + row);
    int split = key / SPLIT;
    if ((key + S::KEYS < end && (key + S::KEYS) / SPLIT == split) || a.planes) continue;
    // The split ends. Rows that see none of it stay as they are.
    head.complete(a.scale);
    Fade fade[2] = {{1.0f, 0.0f}, {1.0f, 0.0f}};
#pragma unroll
    for (int h = 0; h < 2; h++)
      if (head.sees(h, split)) fade[h] = join(run[h], head.softmax[h]);
#pragma unroll
    for (int n = 0; n < S::VALUES / 8; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) total[n][e] = join_value(total[n][e], head.values[n][e], fade[e / 2]);
    head.clear();
  }

  // The pairs are found once more: registers are short in the loop.
  if (a.planes) head.complete(a.scale);
#pragma unroll
  for (int h = 0; h < 2; h++) {
    Pair p = pair_of(a, tile, kvHead, number + lane / 4 + 8 * h);
    if (!p.valid) continue;
    if (a.planes) // one split, for attend_merge
      head.store_split(a, h, part);
    else
      store_result<D, CODES, WARPS>(a, p, total, run[h], h, part);
  }
}

// The kernels for heads of D elements: attend_D_TYPE has one warp to a block, for few pairs, and
// computes one split where planes are given; attend_prefill_D_TYPE has eight, which share each read of
// keys and values. Two such blocks of short heads have the registers of a multiprocessor: while one
// waits for a softmax, the other one computes.
#define ATTEND_KERNELS(D, TYPE, CODES)                                                                                                  \
  extern "C" __global__ void __launch_bounds__(32) attend_##D##_##TYPE(const AttendArgs a) { attend_block<D, CODES, 1>(a); }            \
  extern "C" __global__ void __launch_bounds__(256, D == 64 ? 2 : 1) attend_prefill_##D##_##TYPE(const AttendArgs a) { attend_block<D, CODES, 8>(a); }
