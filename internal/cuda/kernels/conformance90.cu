// conformance.cu for what sm_90a has of its own: copies of boxes, products by warpgroups.
#include "hopper.cuh"

struct ConformArgs {
  const uint32_t* in;
  uint32_t* out;
};

struct ConformBoxArgs {
  TensorMap box;
  const int32_t* corners;  // of each block: column, row
  uint8_t* out;            // a box of each block
  int32_t bytes;           // of a box, at most 32 KiB
  int32_t unused;
  uint64_t reserved[5];
};

extern __shared__ __align__(1024) uint8_t room[];

// A block copies the box at one corner, and then shared memory byte by byte as it lies there.
extern "C" __global__ void __launch_bounds__(128) conform_box(const __grid_constant__ ConformBoxArgs a) {
  __shared__ __align__(8) uint64_t full;
  if (threadIdx.x == 0) {
    barrier_init(&full, 1);
    barriers_ready();
    barrier_expect(&full, a.bytes);
    copy_box(shared_address(room), &a.box, a.corners[2 * blockIdx.x], a.corners[2 * blockIdx.x + 1], &full);
  }
  __syncthreads();
  barrier_wait(&full, 0);
  for (int i = threadIdx.x; i < a.bytes; i += 128) a.out[blockIdx.x * a.bytes + i] = room[i];
}

// A warpgroup multiplies 64 rows × 64 k with TOKENS columns. Words of a block: TOKENS rows of 128 bytes
// of B as shared memory holds them, swizzled; 64 such rows of A; then for each thread 16 words of A's
// fragments and its sums. A comes from registers, or from shared memory.
template <int TOKENS, bool REGISTERS>
__device__ __forceinline__ void conform_product(const ConformArgs& a) {
  constexpr int COUNT = TOKENS / 2, TILES = (TOKENS + 64) * 32, BLOCK = TILES + 128 * (16 + COUNT);
  const uint32_t* in = a.in + blockIdx.x * BLOCK;
  for (int i = threadIdx.x; i < TILES; i += 128) reinterpret_cast<uint32_t*>(room)[i] = in[i];
  copies_ready();
  __syncthreads();
  in += TILES + threadIdx.x * (16 + COUNT);
  uint32_t fragments[4][4];
  float sums[COUNT];
#pragma unroll
  for (int i = 0; i < 16; i++) fragments[i / 4][i % 4] = in[i];
#pragma unroll
  for (int i = 0; i < COUNT; i++) sums[i] = __uint_as_float(in[16 + i]);
  const uint32_t b = shared_address(room), rows = b + TOKENS * 128;
  products_begin();
#pragma unroll
  for (int step = 0; step < 4; step++) {
    if constexpr (REGISTERS)
      warpgroup_mma(sums, fragments[step], matrix_at(b + step * 32));
    else
      warpgroup_mma(sums, matrix_at(rows + step * 32), matrix_at(b + step * 32));
  }
  products_end();
  products_wait();
  uint32_t* out = a.out + (blockIdx.x * 128 + threadIdx.x) * COUNT;
#pragma unroll
  for (int i = 0; i < COUNT; i++) out[i] = __float_as_uint(sums[i]);
}

extern "C" __global__ void __launch_bounds__(128) conform_wgmma_8(const ConformArgs a) { conform_product<8, true>(a); }
extern "C" __global__ void __launch_bounds__(128) conform_wgmma_128(const ConformArgs a) { conform_product<128, true>(a); }
extern "C" __global__ void __launch_bounds__(128) conform_wgmma_plain_128(const ConformArgs a) { conform_product<128, false>(a); }
