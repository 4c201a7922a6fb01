// Sums over the cards of one machine, by peer memory (cuda.md 9).
#include <stdint.h>

constexpr int MAX_CARDS = 8;

struct AllReduceArgs {
  float* dst;                       // this card's: the sums
  const float* parts[MAX_CARDS];    // of each card, in its own memory
  uint32_t* flags[MAX_CARDS];       // of each card: a word per block and card that writes it
  uint32_t step;                    // larger by one with each call
  int32_t rank, cards;              // this card of how many
  int32_t count;                    // floats, a multiple of 4
};

// allreduce adds the parts of all cards in the order of ranks, so that all get the same bits. A block tells
// its like on the other cards that this card's part is written, and waits for theirs; it needs no other
// block. Before a part is overwritten, another allreduce has to end on all cards: callers change between two
// buffers.
extern "C" __global__ void __launch_bounds__(128) allreduce(const AllReduceArgs a) {
  if (threadIdx.x < a.cards) {
    uint32_t* theirs = a.flags[threadIdx.x] + blockIdx.x * a.cards + a.rank;
    const uint32_t* mine = a.flags[a.rank] + blockIdx.x * a.cards + threadIdx.x;
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(theirs), "r"(a.step) : "memory");
    uint32_t seen;
    do {
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
    } while ((int32_t)(seen - a.step) < 0);  // steps may pass 2^32
  }
  __syncthreads();
  for (int i = blockIdx.x * 128 + threadIdx.x; 4 * i < a.count; i += gridDim.x * 128) {
    float4 sum = ((const float4*)a.parts[0])[i];
    for (int card = 1; card < a.cards; card++) {
      float4 part = ((const float4*)a.parts[card])[i];
      sum.x = sum.x + part.x;
      sum.y = sum.y + part.y;
      sum.z = sum.z + part.z;
      sum.w = sum.w + part.w;
    }
    ((float4*)a.dst)[i] = sum;
  }
}
