// Linear layers with weights of type Q8 (weights.cuh): y = x · Wᵀ + bias, by tiles of 8, 16, 32 or 128 tokens
// with the same bits.
#include "product.cuh"

extern "C" __global__ void __launch_bounds__(256, 3) linear_q8_8(const ProductArgs a) { product_decode<Q8, 1, LINEAR>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) linear_q8_16(const ProductArgs a) { product_decode<Q8, 2, LINEAR>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) linear_q8_32(const ProductArgs a) { product_decode<Q8, 4, LINEAR>(a); }
extern "C" __global__ void __launch_bounds__(256, 1) linear_q8_128(const ProductArgs a) { product_prefill<Q8, LINEAR>(a); }
