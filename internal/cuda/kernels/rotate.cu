// Kernels on the heads of queries, keys and values between the products and attention: rotary
// position embedding, and the store into the blocks of the cache. One warp has one head vector of at
// most 256 elements; lane l holds pairs of elements.
#include "common.cuh"

constexpr uint32_t ALL_LANES = 0xffffffffu;
constexpr int WARPS = 4;     // heads of a block
constexpr int MOST_DIM = 256; // elements of a head

struct RotateArgs {
  float* q; // [T][qStride], changed in place, as k
  float* k; // [T][kStride]
  const float* qNorm; // [dim] weights of the norm; null = no norm
  const float* kNorm;
  const float* turn; // [T][dim]: cos of each pair, then sin
  int32_t qStride, kStride;
  int32_t heads, kvHeads, dim;
  float eps;
};

// rotate normalises each head where there is a norm, and turns its pairs (i, i+dim/2) by the angles
// of the token (models.md 1.3). Grid: T, then heads of q and k in fours.
extern "C" __global__ void __launch_bounds__(32 * WARPS) rotate(const RotateArgs a) {
  int lane = threadIdx.x % 32, head = blockIdx.y * WARPS + threadIdx.x / 32, half = a.dim / 2;
  if (head >= a.heads + a.kvHeads) return;
  bool query = head < a.heads;
  float* x = query ? a.q + (size_t)blockIdx.x * a.qStride + head * a.dim
                   : a.k + (size_t)blockIdx.x * a.kStride + (head - a.heads) * a.dim;
  const float* norm = query ? a.qNorm : a.kNorm;
  const float* turn = a.turn + (size_t)blockIdx.x * a.dim;
  constexpr int PAIRS = MOST_DIM / 2 / 32; // of a lane
  float low[PAIRS], high[PAIRS], total = 0.0f;
#pragma unroll
  for (int n = 0; n < PAIRS; n++)
    if (int i = lane + 32 * n; i < half) {
      low[n] = x[i];
      high[n] = x[i + half];
      total += low[n] * low[n] + high[n] * high[n];
    }
  float factor = 1.0f;
  if (norm) {
    // Every lane has the same sum in the end: each step adds the same two numbers in both lanes.
    for (int distance = 16; distance > 0; distance >>= 1) total += __shfl_xor_sync(ALL_LANES, total, distance);
    factor = 1.0f / __fsqrt_rn(total / a.dim + a.eps);
  }
#pragma unroll
  for (int n = 0; n < PAIRS; n++)
    if (int i = lane + 32 * n; i < half) {
      if (norm) {
        low[n] = (low[n] * factor) * norm[i];
        high[n] = (high[n] * factor) * norm[i + half];
      }
      float cos = turn[i], sin = turn[i + half];
      x[i] = low[n] * cos - high[n] * sin;
      x[i + half] = high[n] * cos + low[n] * sin;
    }
}

struct StoreArgs {
  void* keys;   // [block][kvHead][key in block][padded]: bf16, or codes where scales are
  void* values; // likewise
  uint8_t* keyScales; // [block][kvHead][key in block]; null = bf16
  uint8_t* valueScales;
  const float* k; // [T][stride], rotated
  const float* v; // [T][stride]
  const int32_t* table; // [R][tableStride] blocks
  const int32_t* pos;   // [T]
  const int32_t* row;   // [T]
  int32_t stride, tableStride;
  int32_t kvHeads, dim, padded, blockSize;
};

// to_e4m3 rounds to the nearest E4M3 code, ties to even; what is too large becomes 448, the largest
// number. x is a number.
__device__ __forceinline__ uint32_t to_e4m3(float x) {
  uint32_t bits = __float_as_uint(x), sign = bits >> 24 & 0x80u;
  bits &= 0x7fffffffu;
  if (bits >= 0x43e00000u) return sign | 0x7eu;
  // Below 2^-6 the codes are multiples of 2^-9: adding 2^14 leaves them, rounded, in the low bits.
  if (bits < 0x3c800000u) return sign | (__float_as_uint(__uint_as_float(bits) + 16384.0f) - 0x46800000u);
  bits += 0x7ffffu + (bits >> 20 & 1u); // may carry into the exponent
  return sign | (bits - (120u << 23)) >> 20;
}

// store_e4m3 stores a head vector as codes with one scale, the power of two that brings its largest
// magnitude to [128, 256): element = code / 256 · 2^(scale-127). A vector with an element that is not
// finite becomes NaN codes of scale 255, as on the CPU.
__device__ __forceinline__ void store_e4m3(uint8_t* dst, uint8_t* scale, const float2 (&x)[4], int padded, int lane) {
  uint32_t top = 0;
#pragma unroll
  for (int n = 0; n < 4; n++)
    top = max(top, max(__float_as_uint(x[n].x) & 0x7fffffffu, __float_as_uint(x[n].y) & 0x7fffffffu));
  for (int distance = 16; distance > 0; distance >>= 1) top = max(top, __shfl_xor_sync(ALL_LANES, top, distance));
  bool finite = top < 0x7f800000u;
  // Kept so that both the scale and 256 over it are normal numbers.
  uint32_t exponent = finite ? min(max((top >> 23) + 1, 8u), 254u) : 255u;
  float factor = __uint_as_float((262u - exponent) << 23);
#pragma unroll
  for (int n = 0; n < 4; n++)
    if (int i = 2 * lane + 64 * n; i < padded) {
      uint32_t codes = finite ? to_e4m3(x[n].x * factor) | to_e4m3(x[n].y * factor) << 8 : 0x7f7fu;
      *reinterpret_cast<uint16_t*>(dst + i) = codes;
    }
  if (lane == 0) *scale = exponent;
}

// store writes the keys and values of a step's tokens into their blocks; elements behind dim are
// zero. Grid: T, then kv heads in fours.
//
// A bf16 value that is not finite would reach tokens that do not see its key, as 0·NaN in a product
// of the tensor core. Such a vector is stored as zeros and its key as NaN instead: the tokens that see
// it have no number for this head, the others are as if it were not there.
extern "C" __global__ void __launch_bounds__(32 * WARPS) store(const StoreArgs a) {
  int lane = threadIdx.x % 32, head = blockIdx.y * WARPS + threadIdx.x / 32;
  if (head >= a.kvHeads) return;
  int pos = a.pos[blockIdx.x], block = a.table[(size_t)a.row[blockIdx.x] * a.tableStride + pos / a.blockSize];
  size_t place = ((size_t)block * a.kvHeads + head) * a.blockSize + pos % a.blockSize;
  size_t from = (size_t)blockIdx.x * a.stride + head * a.dim;
  float2 key[4], value[4]; // dim is even, so a pair is within it or behind it
#pragma unroll
  for (int n = 0; n < 4; n++) {
    int i = 2 * lane + 64 * n;
    key[n] = value[n] = make_float2(0.0f, 0.0f);
    if (i < a.dim) {
      key[n] = *reinterpret_cast<const float2*>(a.k + from + i);
      value[n] = *reinterpret_cast<const float2*>(a.v + from + i);
    }
  }
  if (a.keyScales) {
    store_e4m3(static_cast<uint8_t*>(a.keys) + place * a.padded, a.keyScales + place, key, a.padded, lane);
    store_e4m3(static_cast<uint8_t*>(a.values) + place * a.padded, a.valueScales + place, value, a.padded, lane);
    return;
  }
  __nv_bfloat162 k[4], v[4];
  bool spoilt = false;
#pragma unroll
  for (int n = 0; n < 4; n++) {
    k[n] = __floats2bfloat162_rn(key[n].x, key[n].y);
    v[n] = __floats2bfloat162_rn(value[n].x, value[n].y);
    uint32_t bits = *reinterpret_cast<uint32_t*>(&v[n]);
    spoilt |= (bits & 0x7f80u) == 0x7f80u || (bits & 0x7f800000u) == 0x7f800000u;
  }
  spoilt = __any_sync(ALL_LANES, spoilt);
  bf16* keys = static_cast<bf16*>(a.keys) + place * a.padded;
  bf16* values = static_cast<bf16*>(a.values) + place * a.padded;
#pragma unroll
  for (int n = 0; n < 4; n++)
    if (int i = 2 * lane + 64 * n; i < a.padded) {
      *reinterpret_cast<uint32_t*>(keys + i) = spoilt ? 0x7fff7fffu : *reinterpret_cast<uint32_t*>(&k[n]);
      *reinterpret_cast<uint32_t*>(values + i) = spoilt ? 0u : *reinterpret_cast<uint32_t*>(&v[n]);
    }
}
