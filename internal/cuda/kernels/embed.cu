// Rows of packed matrices (weights.cuh) as float32, exactly: the embedding, which may be the packed head
// itself.
#include "weights.cuh"

struct EmbedArgs {
  float* dst;              // [tokens][stride]; written up to the last whole unit, zeros from k on
  const uint8_t* weights;
  const float* lift;       // per row, null: none
  const int32_t* ids;      // the row of each token
  int32_t units, stride;
};

// pair gives elements 2p and 2p+1 of a unit's row, of which lane 4·g + t has them in word i of step
// p / 8 (weights.cuh).
template <class Weights>
__device__ float2 pair(const uint8_t* unit, int row, int p);

struct Place {
  int lane, step, word;
};

__device__ __forceinline__ Place place(int row, int p) { return {4 * (row & 7) + (p & 3), p >> 3, ((row >> 3) & 1) + 2 * ((p >> 2) & 1)}; }

__device__ __forceinline__ float2 floats(uint32_t two) {
  return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000));
}

template <>
__device__ __forceinline__ float2 pair<Bf16>(const uint8_t* unit, int row, int p) {
  Place at = place(row, p);
  return floats(__ldg((const uint32_t*)(unit + 512 * at.step + 16 * at.lane + 4 * at.word)));
}

template <>
__device__ __forceinline__ float2 pair<Mxfp4>(const uint8_t* unit, int row, int p) {
  Place at = place(row, p);
  uint32_t codes = __ldg((const uint32_t*)(unit + 16 * at.lane + 4 * at.step));
  uint32_t exponent = __ldg(unit + 512 + 4 * (row & 7) + 2 * (at.step >> 1) + ((row >> 3) & 1));
  return floats(Mxfp4::decode(codes << (4 * at.word), Mxfp4::factor(exponent)));
}

template <>
__device__ __forceinline__ float2 pair<Q8>(const uint8_t* unit, int row, int p) {
  Place at = place(row, p);
  const uint8_t* codes = unit + 512 * (at.step >> 1) + 16 * at.lane + 8 * (at.step & 1) + 2 * at.word;
  uint16_t two = __ldg((const uint16_t*)codes);
  uint16_t scale = __ldg((const uint16_t*)(unit + 1024 + 8 * (row & 7) + 4 * (at.step >> 1) + 2 * ((row >> 3) & 1)));
  float factor = __half2float(__ushort_as_half(scale));
  return make_float2((float)(int8_t)(two & 0xff) * factor, (float)(int8_t)(two >> 8) * factor);
}

// embed: the grid is (tokens, parts of 256 columns); a thread has two neighbours.
template <class Weights>
__device__ __forceinline__ void embed(const EmbedArgs& a) {
  const int i = blockIdx.y * blockDim.x + threadIdx.x;
  if (i >= a.units * 32) return;
  int row = a.ids[blockIdx.x];
  const uint8_t* group = a.weights + (size_t)(row >> 4) * a.units * Weights::BYTES;
  float lift = a.lift ? a.lift[row] : 1.0f;
  float2 two = pair<Weights>(group + (size_t)(i >> 5) * Weights::BYTES, row & 15, i & 31);
  *(float2*)(a.dst + (size_t)blockIdx.x * a.stride + 2 * i) = make_float2(two.x * lift, two.y * lift);
}

extern "C" __global__ void __launch_bounds__(128) embed_mxfp4(const EmbedArgs a) { embed<Mxfp4>(a); }
extern "C" __global__ void __launch_bounds__(128) embed_bf16(const EmbedArgs a) { embed<Bf16>(a); }
extern "C" __global__ void __launch_bounds__(128) embed_q8(const EmbedArgs a) { embed<Q8>(a); }
