// Products of experts with weights of type Mxfp4 (weights.cuh), for tiles of 8, 16, 32 or 128 tokens of an expert
// (experts.cu makes them): up with the activation, and down.
#include "product.cuh"

extern "C" __global__ void __launch_bounds__(256, 3) up_mxfp4_8(const ProductArgs a) { product_decode<Mxfp4, 1, UP>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) up_mxfp4_16(const ProductArgs a) { product_decode<Mxfp4, 2, UP>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) up_mxfp4_32(const ProductArgs a) { product_decode<Mxfp4, 4, UP>(a); }
extern "C" __global__ void __launch_bounds__(256, 1) up_mxfp4_128(const ProductArgs a) { product_prefill<Mxfp4, UP>(a); }
extern "C" __global__ void __launch_bounds__(256, 3) down_mxfp4_8(const ProductArgs a) { product_decode<Mxfp4, 1, DOWN>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) down_mxfp4_16(const ProductArgs a) { product_decode<Mxfp4, 2, DOWN>(a); }
extern "C" __global__ void __launch_bounds__(256, 2) down_mxfp4_32(const ProductArgs a) { product_decode<Mxfp4, 4, DOWN>(a); }
extern "C" __global__ void __launch_bounds__(256, 1) down_mxfp4_128(const ProductArgs a) { product_prefill<Mxfp4, DOWN>(a); }
