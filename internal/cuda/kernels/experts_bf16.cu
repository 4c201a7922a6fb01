// Products of experts with weights of type Bf16 (weights.cuh), for tiles of 8, 16, 32 or 128 tokens of an expert
// (experts.cu makes them): up with the activation, and down.
#include "product.cuh"

extern "C" __global__ void __launch_bounds__(256, 3) up_bf16_8(const ProductArgs a) { product_decode<Bf16, 1, UP>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) up_bf16_16(const ProductArgs a) { product_decode<Bf16, 2, UP>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) up_bf16_32(const ProductArgs a) { product_decode<Bf16, 4, UP>(a); }
extern "C" __global__ void __launch_bounds__(256, 1) up_bf16_128(const ProductArgs a) { product_prefill<Bf16, UP>(a); }
extern "C" __global__ void __launch_bounds__(256, 3) down_bf16_8(const ProductArgs a) { product_decode<Bf16, 1, DOWN>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) down_bf16_16(const ProductArgs a) { product_decode<Bf16, 2, DOWN>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) down_bf16_32(const ProductArgs a) { product_decode<Bf16, 4, DOWN>(a); }
extern "C" __global__ void __launch_bounds__(256, 1) down_bf16_128(const ProductArgs a) { product_prefill<Bf16, DOWN>(a); }
