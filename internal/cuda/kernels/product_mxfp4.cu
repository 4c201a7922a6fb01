// Linear layers with weights of type Mxfp4 (weights.cuh): y = x · Wᵀ + bias, by tiles of 8, 16, 32 or 128 tokens
// with the same bits.
#include "product.cuh"

extern "C" __global__ void __launch_bounds__(256, 3) linear_mxfp4_8(const ProductArgs a) { product_decode<Mxfp4, 1, LINEAR>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) linear_mxfp4_16(const ProductArgs a) { product_decode<Mxfp4, 2, LINEAR>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) linear_mxfp4_32(const ProductArgs a) { product_decode<Mxfp4, 4, LINEAR>(a); }
extern "C" __global__ void __launch_bounds__(256, 1) linear_mxfp4_128(const ProductArgs a) { product_prefill<Mxfp4, LINEAR>(a); }
