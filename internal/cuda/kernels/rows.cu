// Kernels on rows of activations.
#include <cuda_bf16.h>
#include <stdint.h>

struct NarrowArgs {
  __nv_bfloat16* dst;
  const float* src;
  int32_t width, stride; // elements; the stride holds for both
};

// narrow rounds a float32 row to bf16. One block per row; the tail behind width becomes zero.
extern "C" __global__ void __launch_bounds__(128) narrow(const NarrowArgs a) {
  size_t row = (size_t)blockIdx.x * a.stride;
  for (int i = threadIdx.x; i < a.stride; i += blockDim.x)
    a.dst[row + i] = __float2bfloat16(i < a.width ? a.src[row + i] : 0.0f);
}
