// What kernels share: asynchronous copies into shared memory, and the tensor core's instructions.
//
// Fragments, as in the PTX ISA ("Matrix Fragments for mma.m16n8k16"): lane = 4·g + t, g = 0…7,
// t = 0…3. Of A (16 rows × 16 k) a lane holds 4 words of two bf16: a0 (row g, k 2t and 2t+1), a1
// (row g+8), a2 (row g, k 2t+8), a3 (row g+8, k 2t+8). Of B (16 k × 8 columns) b0 (k 2t, column g) and
// b1 (k 2t+8). Of C (16 rows × 8 columns, float32) c0, c1 (row g, columns 2t and 2t+1), c2, c3 (row g+8).
#pragma once
#include <cuda_bf16.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

// warp_number gives the warp of this thread, in a way that lets the compiler know that all lanes have the
// same: it then needs no code for lanes that part ways. All lanes have to call it.
__device__ __forceinline__ int warp_number() { return __shfl_sync(0xffffffff, threadIdx.x >> 5, 0); }

// kept gives a value as it is, which the compiler then does not compute again at each use.
__device__ __forceinline__ uint32_t kept(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

// shared_address gives the address that instructions on shared memory take.
__device__ __forceinline__ uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

// copy_async copies 16 bytes of global memory to shared memory, or fills them with zeros and reads
// nothing. They are there when wait_copies has covered the commit_copies that follows.
__device__ __forceinline__ void copy_async(uint32_t dst, const void* src, bool zero) {
  int bytes = zero ? 0 : 16;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// wait_copies waits until at most PENDING of the last groups are under way, for this thread's copies:
// those of other threads need a barrier besides.
template <int PENDING>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// team_barrier waits for so many threads of the block, whole warps that name the same number, 1 to 15: 0 is
// __syncthreads.
__device__ __forceinline__ void team_barrier(int number, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory"); }

// prefetch brings a line into the second-level cache.
__device__ __forceinline__ void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// load_matrices loads four 8×8 matrices of 16-bit elements; lane 8i + r gives the address of row r of
// matrix i, of which a lane then has elements 2t and 2t+1 of row g.
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// mma adds A (16×16) times B (16×8) to c.
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// swizzled gives the offset of a 16-byte piece (0…7) of a row of 128 bytes: pieces change places by
// row, so that neither copies nor load_matrices meet a bank twice.
__device__ __forceinline__ uint32_t swizzled(int row, int piece) { return row * 128 + ((piece ^ (row & 7)) << 4); }
