// What sm_90a has of its own: barriers that count arrivals and bytes, copies of boxes by the tensor memory
// accelerator, products of 64 rows by a warpgroup of four warps (PTX ISA: mbarrier, cp.async.bulk.tensor,
// wgmma).
#pragma once
#include "common.cuh"

// A TensorMap describes an array of which boxes are copied (driver.TensorMap).
struct __align__(64) TensorMap {
  uint8_t bytes[128];
};

__device__ __forceinline__ void barrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// barriers_ready makes barriers known to the copies; the block's threads have to meet behind it.
__device__ __forceinline__ void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// barrier_expect arrives, and has the phase wait for so many bytes of copies besides.
__device__ __forceinline__ void barrier_expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
// barrier_wait waits until the phase of that parity has ended: the phases of a barrier have parities 0, 1, 0, …
__device__ __forceinline__ void barrier_wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{ .reg .pred done; WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra WAIT; }" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// copy_box copies the box at element x of row y; what lies outside of the array becomes zero.
__device__ __forceinline__ void copy_box(uint32_t dst, const TensorMap* map, int x, int y, uint64_t* barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(dst), "l"(map),
               "r"(shared_address(barrier)), "r"(x), "r"(y)
               : "memory");
}

// matrix_at describes rows of 128 bytes, 64 k, swizzled as copy_box does it with a swizzle of 128
// bytes (8 rows repeat after 1024 bytes). Steps of k16 lie 32 bytes apart.
__device__ __forceinline__ uint64_t matrix_at(uint32_t address) {
  return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 16 | (address & 0x3ffff) >> 4;
}

// Before the first product and after registers of one were touched: products_begin. products_end hands
// over those since the last one, products_wait waits until at most PENDING of what was handed over is under
// way: until then, neither its sums nor its fragments may be touched.
__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING = 0>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// copies_ready makes this thread's own copies and stores to shared memory visible to products, which read it
// in another way; a barrier has to follow.
__device__ __forceinline__ void copies_ready() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define SUMS4(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define SUMS16(c, i) SUMS4(c, i), SUMS4(c, i + 4), SUMS4(c, i + 8), SUMS4(c, i + 12)
#define SUMS64(c) SUMS16(c, 0), SUMS16(c, 16), SUMS16(c, 32), SUMS16(c, 48)
#define SUMS32(c) SUMS16(c, 0), SUMS16(c, 16)
#define NAMES32                                                                                                   \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28," \
  "%29,%30,%31}"
#define NAMES64                                                                                                   \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28," \
  "%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55," \
  "%56,%57,%58,%59,%60,%61,%62,%63}"

// warpgroup_mma adds 64 rows × k16 times k16 × tokens. A warp has 16 of the rows; c[4i…4i+3] are its
// fragment (common.cuh) of tokens 8i…8i+7. A from registers, or from shared memory; B from shared memory.
__device__ __forceinline__ void warpgroup_mma(float (&c)[4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, 1, 0;"
               : SUMS4(c, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void warpgroup_mma(float (&c)[16], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, 1, 1, 1, 0;"
               : SUMS16(c, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void warpgroup_mma(float (&c)[32], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " NAMES32 ", {%32,%33,%34,%35}, %36, 1, 1, 1, 0;"
               : SUMS32(c)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void warpgroup_mma(float (&c)[64], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " NAMES64 ", {%64,%65,%66,%67}, %68, 1, 1, 1, 0;"
               : SUMS64(c)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void warpgroup_mma(float (&c)[64], uint64_t a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " NAMES64 ", %64, %65, 1, 1, 1, 0, 0;" : SUMS64(c) : "l"(a), "l"(b));
}
