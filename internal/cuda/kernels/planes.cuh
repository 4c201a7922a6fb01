// What a token's experts made, added up: for the kernel that stores it and for the norm behind.
#pragma once
#include <stdint.h>

// A group is 4 columns from i on of a row of a width; what is behind the width counts as 0 and is not
// touched.
__device__ __forceinline__ float4 load_group(const float* row, int i, int width) {
  if (i + 4 <= width) return *reinterpret_cast<const float4*>(row + i);
  return make_float4(i < width ? row[i] : 0.0f, i + 1 < width ? row[i + 1] : 0.0f, i + 2 < width ? row[i + 2] : 0.0f, 0.0f);
}

__device__ __forceinline__ void store_group(float* row, int i, int width, float4 v) {
  if (i + 4 <= width) {
    *reinterpret_cast<float4*>(row + i) = v;
    return;
  }
  if (i < width) row[i] = v.x;
  if (i + 1 < width) row[i + 1] = v.y;
  if (i + 2 < width) row[i + 2] = v.z;
}

// combined_one is an element of the sum of top_k planes times their weights, experts ascending (cuda.md 6.4).
__device__ __forceinline__ float combined_one(const float* plane, int stride, const float* weights, int top_k) {
  float sum = weights[0] * plane[0];
#pragma unroll 1
  for (int k = 1; k < top_k; k++) sum = __fmaf_rn(weights[k], plane[(size_t)k * stride], sum);
  return sum;
}

// combined returns a group of that sum, all of it within the width, for a number of experts that is known:
// all planes are on their way at once. Whole warps call it.
template <int TOP_K>
__device__ __forceinline__ float4 combined(const float* planes, int stride, const float* weights) {
  float4 plane[TOP_K];
  float weight[TOP_K];
#pragma unroll
  for (int k = 0; k < TOP_K; k += 4) *reinterpret_cast<float4*>(weight + k) = *reinterpret_cast<const float4*>(weights + k);
#pragma unroll
  for (int k = 0; k < TOP_K; k++) plane[k] = *reinterpret_cast<const float4*>(planes + (size_t)k * stride);
  __syncwarp();  // or the assembler would take a plane after the other, to save registers
  float4 sum = make_float4(weight[0] * plane[0].x, weight[0] * plane[0].y, weight[0] * plane[0].z, weight[0] * plane[0].w);
#pragma unroll
  for (int k = 1; k < TOP_K; k++)
    sum = make_float4(__fmaf_rn(weight[k], plane[k].x, sum.x), __fmaf_rn(weight[k], plane[k].y, sum.y),
                      __fmaf_rn(weight[k], plane[k].z, sum.z), __fmaf_rn(weight[k], plane[k].w, sum.w));
  return sum;
}
