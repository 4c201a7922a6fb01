// Kernels on rows of activations. Strides are in elements and multiples of 64, so that a row begins
// at a multiple of 128 bytes. The tail of a bf16 row, from its width to its stride, is zero, since
// products read it; the tail of a float32 row is nobody's and is never read.
#include "common.cuh"
#include "planes.cuh"

constexpr uint32_t ALL_LANES = 0xffffffffu;

struct NarrowArgs {
  bf16* dst;
  const float* src;
  int32_t width, stride; // the stride holds for both
};

// narrow rounds a float32 row to bf16. One block per row.
extern "C" __global__ void __launch_bounds__(128) narrow(const NarrowArgs a) {
  size_t row = (size_t)blockIdx.x * a.stride;
  for (int i = threadIdx.x; i < a.stride; i += blockDim.x)
    a.dst[row + i] = __float2bfloat16(i < a.width ? a.src[row + i] : 0.0f);
}

struct AddNormArgs {
  bf16* dst;
  float* sum;          // residual stream, changed in place
  const float* add;    // null = nothing to add
  const float* weight; // [width]
  const float* planes; // [rows · experts of each][plane_stride]: what is to be added, of each expert
  const float* shares; // [rows][share_stride]: the weights of experts
  int32_t width, stride; // the stride holds for dst, sum and add
  int32_t plane_stride, share_stride;
  float eps;
  int32_t unused;
};

// block_sum adds a value of each thread: lanes of a warp by halves, then the warps in the same way.
__device__ __forceinline__ float block_sum(float total) {
  __shared__ float parts[32];
  int lane = threadIdx.x % 32;
  for (int distance = 16; distance > 0; distance >>= 1) total += __shfl_xor_sync(ALL_LANES, total, distance);
  if (lane == 0) parts[threadIdx.x / 32] = total;
  __syncthreads();
  total = lane < blockDim.x / 32 ? parts[lane] : 0.0f;
  for (int distance = 16; distance > 0; distance >>= 1) total += __shfl_xor_sync(ALL_LANES, total, distance);
  return total;
}

__device__ __forceinline__ float squares(float4 v) { return (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w); }

// normed writes a group of the result: v over the root mean square, times the weights w. Behind the width
// it is zero, also where the row is no number.
__device__ __forceinline__ void normed(bf16* dst, int i, int width, float4 v, float4 w, float factor) {
  float x = (v.x * factor) * w.x, y = (v.y * factor) * w.y, z = (v.z * factor) * w.z, u = (v.w * factor) * w.w;
  if (i + 4 > width) {
    x = i < width ? x : 0.0f;
    y = i + 1 < width ? y : 0.0f;
    z = i + 2 < width ? z : 0.0f;
    u = 0.0f;
  }
  __nv_bfloat162 low = __floats2bfloat162_rn(x, y), high = __floats2bfloat162_rn(z, u);
  *reinterpret_cast<uint2*>(dst + i) = make_uint2(*reinterpret_cast<uint32_t*>(&low), *reinterpret_cast<uint32_t*>(&high));
}

// norm_row: sum += what is to be added; dst = bf16(sum / sqrt(mean(sum²) + eps) · weight). One block per
// row, of as many threads as the width has groups of 4, rounded up to warps, at most 1,024. The order of
// the sum of squares so depends on the width alone: a thread's groups ascending, then block_sum (cuda.md
// 6.5). With experts of a token what is to be added is the sum that experts_combine makes; the width is then
// a multiple of 4.
template <int TOP_K>
__device__ __forceinline__ void norm_row(const AddNormArgs& a) {
  const size_t row = blockIdx.x;
  const int begin = threadIdx.x * 4, step = blockDim.x * 4;
  float* sum = a.sum + row * a.stride;
  // Of its first group a thread reads all before it uses any. Most widths have no second one; of wider
  // rows the rest is read again in the end.
  float4 weight = make_float4(0.0f, 0.0f, 0.0f, 0.0f), kept = weight;
  if (TOP_K <= 4 && begin < a.width) weight = load_group(a.weight, begin, a.width);
  float total = 0.0f;
#pragma unroll 1
  for (int base = 0; base + (int)(threadIdx.x / 32 * 128) < a.width; base += step) { // as far as its warp has a group
    int i = base + begin;
    float4 v, d;
    if constexpr (TOP_K > 0) {
      int at = i < a.width ? i : 0; // whole warps
      if (i < a.width) v = *reinterpret_cast<const float4*>(sum + i);
      d = combined<TOP_K>(a.planes + row * TOP_K * a.plane_stride + at, a.plane_stride, a.shares + row * a.share_stride);
    } else if (i < a.width) {
      v = load_group(sum, i, a.width);
      if (a.add) d = load_group(a.add + row * a.stride, i, a.width);
    }
    if (i >= a.width) break;
    if (TOP_K > 0 || a.add) {
      v = make_float4(v.x + d.x, v.y + d.y, v.z + d.z, v.w + d.w);
      if (TOP_K > 0) *reinterpret_cast<float4*>(sum + i) = v;
      else store_group(sum, i, a.width, v);
    }
    if (base == 0) kept = v;
    total += squares(v);
  }
  if (TOP_K > 4 && begin < a.width) weight = load_group(a.weight, begin, a.width); // there are not enough registers before
  float factor = 1.0f / __fsqrt_rn(block_sum(total) / a.width + a.eps);

  bf16* dst = a.dst + row * a.stride;
  if (begin < a.stride) normed(dst, begin, a.width, kept, weight, factor);
#pragma unroll 1
  for (int i = begin + step; i < a.stride; i += step)
    normed(dst, i, a.width, load_group(sum, i, a.width), load_group(a.weight, i, a.width), factor);
}

extern "C" __global__ void __launch_bounds__(1024) add_norm(const AddNormArgs a) { norm_row<0>(a); }
extern "C" __global__ void __launch_bounds__(1024) add_norm_experts_4(const AddNormArgs a) { norm_row<4>(a); }
extern "C" __global__ void __launch_bounds__(1024) add_norm_experts_8(const AddNormArgs a) { norm_row<8>(a); }

struct SelectArgs {
  bf16* dst;
  const bf16* src;
  const int32_t* index; // [rows of dst] rows of src
  int32_t stride;       // of both
  int32_t unused;
};

// select_rows copies rows by index, tails included. One block per row of dst.
extern "C" __global__ void __launch_bounds__(128) select_rows(const SelectArgs a) {
  const uint4* src = reinterpret_cast<const uint4*>(a.src + (size_t)a.index[blockIdx.x] * a.stride);
  uint4* dst = reinterpret_cast<uint4*>(a.dst + (size_t)blockIdx.x * a.stride);
  for (int i = threadIdx.x; i < a.stride / 8; i += blockDim.x) dst[i] = src[i];
}

struct GluArgs {
  bf16* dst;           // [rows][dstStride]
  const float* gateUp; // [rows][srcStride]: gate 0, up 0, gate 1, …
  int32_t width;       // of dst
  int32_t dstStride, srcStride;
  float alpha; // factor of the gate in the sigmoid
  float limit; // greatest gate, greatest size of up; infinity = no limit
  float shift; // added to up
};

// sigmoid is 1/(1+e^-x); far from zero the exponential is 0 or infinity, and both give what is right.
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// activate is gate·sigmoid(alpha·gate)·(up+shift) with both inputs limited. Comparisons are written
// so that a NaN passes them.
__device__ __forceinline__ float activate(const GluArgs& a, float gate, float up) {
  gate = gate > a.limit ? a.limit : gate;
  up = up > a.limit ? a.limit : up < -a.limit ? -a.limit : up;
  return gate * sigmoid(a.alpha * gate) * (up + a.shift);
}

// glu computes two elements of a row in each thread: SiLU with alpha 1, no limit and no shift, the
// activation of gpt-oss with 1.702, 7 and 1. blockIdx.x is the row, of which there may be more than the
// 65,535 blocks that a grid has in y.
extern "C" __global__ void __launch_bounds__(128) glu(const GluArgs a) {
  int i = (blockIdx.y * blockDim.x + threadIdx.x) * 2;
  if (i >= a.dstStride) return;
  const float* src = a.gateUp + (size_t)blockIdx.x * a.srcStride;
  float low = 0.0f, high = 0.0f;
  if (i < a.width) {
    float2 pair = *reinterpret_cast<const float2*>(src + 2 * i);
    low = activate(a, pair.x, pair.y);
  }
  if (i + 1 < a.width) {
    float2 pair = *reinterpret_cast<const float2*>(src + 2 * i + 2);
    high = activate(a, pair.x, pair.y);
  }
  *reinterpret_cast<__nv_bfloat162*>(a.dst + (size_t)blockIdx.x * a.dstStride + i) = __floats2bfloat162_rn(low, high);
}
