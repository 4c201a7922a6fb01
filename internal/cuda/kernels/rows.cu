// Kernels on rows of activations. Strides are in elements and multiples of 64, so that a row begins
// at a multiple of 128 bytes. The tail of a bf16 row, from its width to its stride, is zero, since
// products read it; the tail of a float32 row is nobody's and is never read.
#include "common.cuh"

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
  float* sum;       // residual stream, changed in place
  const float* add; // null = nothing to add
  const float* weight; // [width]
  int32_t width, stride; // the stride holds for dst, sum and add
  float eps;
  int32_t unused;
};

constexpr int NORM_THREADS = 256;
constexpr int NORM_STEP = NORM_THREADS * 4; // elements that a block takes at once
constexpr int NORM_KEPT = 8;                // groups of 4 that a thread keeps in registers: 8,192 elements in all

// added returns 4 elements of the residual row plus what is to be added, and keeps them there.
__device__ __forceinline__ float4 added(float* sum, const float* add, int i) {
  float4 v = *reinterpret_cast<const float4*>(sum + i);
  if (add) {
    float4 d = *reinterpret_cast<const float4*>(add + i);
    v = make_float4(v.x + d.x, v.y + d.y, v.z + d.z, v.w + d.w);
    *reinterpret_cast<float4*>(sum + i) = v;
  }
  return v;
}

// added_one is added for one element, and 0 behind the width, where nothing is read.
__device__ __forceinline__ float added_one(float* sum, const float* add, int i, int width) {
  if (i >= width) return 0.0f;
  float v = sum[i];
  if (add) sum[i] = v = v + add[i];
  return v;
}

__device__ __forceinline__ float squares(float4 v) { return (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w); }

// store4 writes 4 elements of the result as bf16.
__device__ __forceinline__ void store4(bf16* dst, float x, float y, float z, float w) {
  __nv_bfloat162 low = __floats2bfloat162_rn(x, y), high = __floats2bfloat162_rn(z, w);
  *reinterpret_cast<uint2*>(dst) = make_uint2(*reinterpret_cast<uint32_t*>(&low), *reinterpret_cast<uint32_t*>(&high));
}

// normed writes 4 elements of the result: v over the root mean square, times the weight.
__device__ __forceinline__ void normed(bf16* dst, const float* weight, int i, float4 v, float factor) {
  float4 w = *reinterpret_cast<const float4*>(weight + i);
  store4(dst + i, (v.x * factor) * w.x, (v.y * factor) * w.y, (v.z * factor) * w.z, (v.w * factor) * w.w);
}

// block_sum adds a value of each thread: lanes of a warp by halves, then the warps ascending.
__device__ __forceinline__ float block_sum(float total) {
  __shared__ float parts[NORM_THREADS / 32];
  for (int distance = 16; distance > 0; distance >>= 1) total += __shfl_xor_sync(ALL_LANES, total, distance);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
  __syncthreads();
  total = 0.0f;
#pragma unroll
  for (int warp = 0; warp < NORM_THREADS / 32; warp++) total += parts[warp];
  return total;
}

// add_norm: sum += add; dst = bf16(sum / sqrt(mean(sum²) + eps) · weight). One block per row. The
// order of the sum of squares depends on the width alone: a thread's elements ascending, then
// block_sum (cuda.md 6.5).
extern "C" __global__ void __launch_bounds__(NORM_THREADS) add_norm(const AddNormArgs a) {
  size_t row = (size_t)blockIdx.x * a.stride;
  float* sum = a.sum + row;
  const float* add = a.add ? a.add + row : nullptr;
  int whole = a.width & ~3; // behind it, up to 3 elements, which the next thread takes
  int begin = threadIdx.x * 4;
  bool last = (whole % NORM_STEP) == begin;
  float4 kept[NORM_KEPT];
  float total = 0.0f;
#pragma unroll
  for (int n = 0; n < NORM_KEPT; n++)
    if (begin + n * NORM_STEP < whole) {
      kept[n] = added(sum, add, begin + n * NORM_STEP);
      total += squares(kept[n]);
    }
  for (int i = begin + NORM_KEPT * NORM_STEP; i < whole; i += NORM_STEP) total += squares(added(sum, add, i));
  float4 rest = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (last) {
    rest = make_float4(added_one(sum, add, whole, a.width), added_one(sum, add, whole + 1, a.width),
                       added_one(sum, add, whole + 2, a.width), 0.0f);
    total += squares(rest);
  }
  float factor = 1.0f / __fsqrt_rn(block_sum(total) / a.width + a.eps);

  bf16* dst = a.dst + row;
#pragma unroll
  for (int n = 0; n < NORM_KEPT; n++)
    if (begin + n * NORM_STEP < whole) normed(dst, a.weight, begin + n * NORM_STEP, kept[n], factor);
  for (int i = begin + NORM_KEPT * NORM_STEP; i < whole; i += NORM_STEP)
    normed(dst, a.weight, i, *reinterpret_cast<const float4*>(sum + i), factor);
  // The tail stays zero also where the row is no number.
  if (last && whole < a.stride)
    store4(dst + whole, whole < a.width ? (rest.x * factor) * a.weight[whole] : 0.0f,
           whole + 1 < a.width ? (rest.y * factor) * a.weight[whole + 1] : 0.0f,
           whole + 2 < a.width ? (rest.z * factor) * a.weight[whole + 2] : 0.0f, 0.0f);
  for (int i = whole + 4 + begin; i < a.stride; i += NORM_STEP) store4(dst + i, 0.0f, 0.0f, 0.0f, 0.0f);
}

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
