// Rows of activations put into columns of others, for heads that guess, which read what several products
// have made side by side.
#include <cuda_bf16.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

struct JoinArgs {
  void* dst;            // [rows][dst_stride], from the first column that is written on
  const void* src;      // [..][src_stride]
  const int32_t* index; // [rows] rows of src; null: each row becomes its own
  int32_t width;        // columns
  int32_t tail;         // columns behind them that become zero
  int32_t dst_stride, src_stride; // elements
};

__device__ __forceinline__ float wide(float v) { return v; }
__device__ __forceinline__ float wide(bf16 v) { return __bfloat162float(v); }
__device__ __forceinline__ void put(float* to, float v) { *to = v; }
__device__ __forceinline__ void put(bf16* to, float v) { *to = __float2bfloat16(v); }

// join: an element for each thread; the grid is (rows, parts of 256 columns). bf16 stays as it is on its
// way through float32, and float32 is rounded once.
template <class Dst, class Src>
__device__ __forceinline__ void join(const JoinArgs& a) {
  int i = blockIdx.y * blockDim.x + threadIdx.x;
  if (i >= a.width + a.tail) return;
  float value = 0.0f;
  if (i < a.width) {
    size_t row = a.index ? a.index[blockIdx.x] : blockIdx.x;
    value = wide(((const Src*)a.src)[row * a.src_stride + i]);
  }
  put((Dst*)a.dst + (size_t)blockIdx.x * a.dst_stride + i, value);
}

extern "C" __global__ void __launch_bounds__(256) join_float(const JoinArgs a) { join<float, float>(a); }
extern "C" __global__ void __launch_bounds__(256) join_bf16(const JoinArgs a) { join<bf16, bf16>(a); }
extern "C" __global__ void __launch_bounds__(256) join_narrow(const JoinArgs a) { join<bf16, float>(a); }
extern "C" __global__ void __launch_bounds__(256) join_widen(const JoinArgs a) { join<float, bf16>(a); }
