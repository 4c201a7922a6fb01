// Products of experts with weights of type Q8 (weights.cuh), for tiles of 8, 16, 32 or 128 tokens of an expert
// (experts.cu makes them): up with the activation, and down.
#include "product.cuh"

extern "C" __global__ void __launch_bounds__(256, 3) up_q8_8(const ProductArgs a) { product_decode<Q8, 1, UP>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) up_q8_16(const ProductArgs a) { product_decode<Q8, 2, UP>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) up_q8_32(const ProductArgs a) { product_decode<Q8, 4, UP>(a); }
extern "C" __global__ void __launch_bounds__(256, 1) up_q8_128(const ProductArgs a) { product_prefill<Q8, UP>(a); }
extern "C" __global__ void __launch_bounds__(256, 3) down_q8_8(const ProductArgs a) { product_decode<Q8, 1, DOWN>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) down_q8_16(const ProductArgs a) { product_decode<Q8, 2, DOWN>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) down_q8_32(const ProductArgs a) { product_decode<Q8, 4, DOWN>(a); }
extern "C" __global__ void __launch_bounds__(256, 1) down_q8_128(const ProductArgs a) { product_prefill<Q8, DOWN>(a); }
