// Linear layers with weights of type Bf16 (weights.cuh): y = x · Wᵀ + bias, by tiles of 8, 16, 32 or 128 tokens
// with the same bits.
#include "product.cuh"

extern "C" __global__ void __launch_bounds__(256, 3) linear_bf16_8(const ProductArgs a) { product_decode<Bf16, 1, LINEAR>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) linear_bf16_16(const ProductArgs a) { product_decode<Bf16, 2, LINEAR>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) linear_bf16_32(const ProductArgs a) { product_decode<Bf16, 4, LINEAR>(a); }
extern "C" __global__ void __launch_bounds__(256, 1) linear_bf16_128(const ProductArgs a) { product_prefill<Bf16, LINEAR>(a); }
