// The heads of queries, keys and values between the products and attention: rotary position embedding, and
// the store of keys and values into the blocks of the cache, in one kernel. One warp has one head of at
// most 256 elements; lane l holds elements l + 32n of its lower half and their partners half a head on.
#include "common.cuh"

constexpr uint32_t ALL_LANES = 0xffffffffu;
constexpr int WARPS = 4; // heads of a block

struct RotateStoreArgs {
  void* keys;   // [block][kvHead][key in block][padded]: bf16, or codes where scales are; null = nothing is stored
  void* values; // likewise
  uint8_t* keyScales; // [block][kvHead][key in block]; null = bf16
  uint8_t* valueScales;
  float* q;       // [T][qStride], turned in place
  float* k;       // [T][kStride], turned in place where nothing is stored, else left as it is
  const float* v; // [T][vStride]
  const float* qNorm; // [dim] weights of the norm; null = no norm
  const float* kNorm;
  const float* turn;    // [T][dim]: cos of each pair, then sin; null = k is turned already
  const int32_t* table; // [R][tableStride] blocks
  const int32_t* pos;   // [T]
  const int32_t* row;   // [T]
  int32_t qStride, kStride, vStride, tableStride;
  int32_t heads, kvHeads, dim, padded, blockSize;
  float eps;
};

// A Head is a vector of up to 64 · PAIRS elements over the lanes of a warp; elements behind it are 0.
template <int PAIRS>
struct Head {
  float low[PAIRS], high[PAIRS];
};

template <int PAIRS>
__device__ __forceinline__ void load(Head<PAIRS>& x, const float* from, int half, int lane) {
#pragma unroll
  for (int n = 0; n < PAIRS; n++) {
    int i = lane + 32 * n;
    x.low[n] = i < half ? from[i] : 0.0f;
    x.high[n] = i < half ? from[i + half] : 0.0f;
  }
}

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
template <int PAIRS>
__device__ __forceinline__ void store_e4m3(uint8_t* dst, uint8_t* scale, const Head<PAIRS>& x, int half, int padded, int lane) {
  uint32_t top = 0;
#pragma unroll
  for (int n = 0; n < PAIRS; n++)
    top = max(top, max(__float_as_uint(x.low[n]) & 0x7fffffffu, __float_as_uint(x.high[n]) & 0x7fffffffu));
  for (int distance = 16; distance > 0; distance >>= 1) top = max(top, __shfl_xor_sync(ALL_LANES, top, distance));
  bool finite = top < 0x7f800000u;
  // Kept so that both the scale and 256 over it are normal numbers.
  uint32_t exponent = finite ? min(max((top >> 23) + 1, 8u), 254u) : 255u;
  float factor = __uint_as_float((262u - exponent) << 23);
#pragma unroll
  for (int n = 0; n < PAIRS; n++)
    if (int i = lane + 32 * n; i < half) {
      dst[i] = finite ? to_e4m3(x.low[n] * factor) : 0x7f;
      dst[i + half] = finite ? to_e4m3(x.high[n] * factor) : 0x7f;
    }
  for (int i = 2 * half + lane; i < padded; i += 32) dst[i] = finite ? 0 : 0x7f;
  if (lane == 0) *scale = exponent;
}

// bits_of rounds to bf16.
__device__ __forceinline__ uint16_t bits_of(float x) { return __bfloat16_as_ushort(__float2bfloat16(x)); }

// infinite reports infinities and what is no number.
__device__ __forceinline__ bool infinite(uint16_t bits) { return (bits & 0x7f80) == 0x7f80; }

// store_bf16 stores a key and its value. A bf16 value that is not finite would reach tokens that do not see
// its key, as 0·NaN in a product of the tensor core. Such a vector is stored as zeros and its key as NaN
// instead: the tokens that see it have no number for this head, the others are as if it were not there.
template <int PAIRS>
__device__ __forceinline__ void store_bf16(bf16* keys, bf16* values, const Head<PAIRS>& k, const Head<PAIRS>& v, int half, int padded, int lane) {
  uint16_t* key = reinterpret_cast<uint16_t*>(keys);
  uint16_t* value = reinterpret_cast<uint16_t*>(values);
  bool spoilt = false;
#pragma unroll
  for (int n = 0; n < PAIRS; n++) spoilt |= infinite(bits_of(v.low[n])) || infinite(bits_of(v.high[n]));
  spoilt = __any_sync(ALL_LANES, spoilt);
#pragma unroll
  for (int n = 0; n < PAIRS; n++)
    if (int i = lane + 32 * n; i < half) {
      key[i] = spoilt ? 0x7fff : bits_of(k.low[n]);
      key[i + half] = spoilt ? 0x7fff : bits_of(k.high[n]);
      value[i] = spoilt ? 0 : bits_of(v.low[n]);
      value[i + half] = spoilt ? 0 : bits_of(v.high[n]);
    }
  for (int i = 2 * half + lane; i < padded; i += 32) {
    key[i] = spoilt ? 0x7fff : 0;
    value[i] = 0;
  }
}

// rotate_store normalises each head of queries and keys where there is a norm, and turns its pairs
// (i, i+dim/2) by the angles of the token (models.md 1.3). Queries stay where they were; keys go into their
// blocks with their values, where there are such. Elements behind dim are zero there. Grid: T, then heads
// of q and k in fours.
template <int PAIRS>
__device__ __forceinline__ void rotate_store(const RotateStoreArgs& a) {
  const int lane = threadIdx.x % 32, head = blockIdx.y * WARPS + threadIdx.x / 32, kv = head - a.heads, half = a.dim / 2;
  const size_t token = blockIdx.x;
  if (kv >= a.kvHeads) return;
  const bool query = kv < 0, stores = !query && a.keys;
  float* from = query ? a.q + token * a.qStride + head * a.dim : a.k + token * a.kStride + kv * a.dim;
  const float* norm = query ? a.qNorm : a.kNorm;
  int pos = 0, row = 0;
  if (stores) pos = a.pos[token], row = a.row[token];
  // All that a lane reads is on its way before the first is used.
  Head<PAIRS> x, v, turn, weight;
  load(x, from, half, lane);
  if (a.turn) load(turn, a.turn + token * a.dim, half, lane);
  if (norm) load(weight, norm, half, lane);
  if (stores) load(v, a.v + token * a.vStride + kv * a.dim, half, lane);
  int block = stores ? a.table[(size_t)row * a.tableStride + pos / a.blockSize] : 0;
  if (norm) {
    float total = 0.0f;
#pragma unroll
    for (int n = 0; n < PAIRS; n++)
      if (lane + 32 * n < half) total += x.low[n] * x.low[n] + x.high[n] * x.high[n];
    // Every lane has the same sum in the end: each step adds the same two numbers in both lanes.
    for (int distance = 16; distance > 0; distance >>= 1) total += __shfl_xor_sync(ALL_LANES, total, distance);
    float factor = 1.0f / __fsqrt_rn(total / a.dim + a.eps);
#pragma unroll
    for (int n = 0; n < PAIRS; n++) {
      x.low[n] = (x.low[n] * factor) * weight.low[n];
      x.high[n] = (x.high[n] * factor) * weight.high[n];
    }
  }
  if (a.turn) {
#pragma unroll
    for (int n = 0; n < PAIRS; n++) {
      float low = x.low[n], high = x.high[n];
      x.low[n] = low * turn.low[n] - high * turn.high[n];
      x.high[n] = high * turn.low[n] + low * turn.high[n];
    }
  }
  if (!stores) {
#pragma unroll
    for (int n = 0; n < PAIRS; n++)
      if (int i = lane + 32 * n; i < half) {
        from[i] = x.low[n];
        from[i + half] = x.high[n];
      }
    return;
  }
  size_t place = ((size_t)block * a.kvHeads + kv) * a.blockSize + pos % a.blockSize;
  if (a.keyScales) {
    store_e4m3(static_cast<uint8_t*>(a.keys) + place * a.padded, a.keyScales + place, x, half, a.padded, lane);
    store_e4m3(static_cast<uint8_t*>(a.values) + place * a.padded, a.valueScales + place, v, half, a.padded, lane);
    return;
  }
  store_bf16(static_cast<bf16*>(a.keys) + place * a.padded, static_cast<bf16*>(a.values) + place * a.padded, x, v, half, a.padded, lane);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) rotate_store(const RotateStoreArgs a) {
  if (a.dim <= 64) rotate_store<1>(a);
  else if (a.dim <= 128) rotate_store<2>(a);
  else rotate_store<4>(a);
}
