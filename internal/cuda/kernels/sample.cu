// Sampling: the ids of sample.Pick and the scores of sample.Score (internal/sample), exactly.
//
// A kernel has a block for each tile of 2,048 ids of a row of logits; what concerns the whole row is
// done by the last of its blocks to finish. Nothing is sorted: the most likely ids are found by fixing
// the bits of the least likely one among them, 11 at a time, from histograms of the ids that share
// the bits so far. Sums are of integers, so that their order does not matter; the only sums of
// floating-point numbers (sample_score) have an order that package sample states.
//
// Kernels in the order of a step, of which those are left out that no row needs:
//   sample_peak (raw)   the largest logit             for scores: what the model said
//   sample_score        sums of exponentials, the place of an id
//   sample_select (raw) the least of the most likely ids
//   sample_top          lists them
//   sample_adjust       bias and penalties, in place
//   sample_peak         the largest logit
//   sample_select       the least id that top-k keeps, then the least that top-p keeps
//   sample_draw         the id in whose part of the sum of weights a random number lies
//   sample_finish       undoes sample_adjust, writes the record
#include <stdint.h>

typedef unsigned long long u64; // as atomics and shuffles want it

constexpr int threads = 256;
constexpr int perThread = 8;
constexpr int tile = threads * perThread; // ids of a block
constexpr int digit = 11;                 // bits that a pass of sample_select fixes at most
constexpr int bins = 1 << digit;
constexpr int run = 1024;        // sample.Run
constexpr int runsPerBlock = 32; // of sample_score: a warp adds one up per lane
constexpr int maxPending = 64;

constexpr int weightBits = 45; // of a key by weight, above the id
constexpr u64 one = 1ull << 39; // the weight of the most likely id

// What a row of logits is for: sampleOutput in Go.
struct Output {
  u64 random;          // of the draw
  double scale, reach; // sample.Params.Weighing
  double octave;       // how far apart logits are of which one weighs twice the other
  u64 least;
  int64_t maskAt;      // offset into extra, of a bit for each id that is allowed; -1 = all are
  int64_t listAt;      // likewise, of entries
  int32_t listed, pending; // entries of list: with an id, then with an index of the ring
  int32_t topK;            // 0 = all
  float topP;              // 0 = all
  float repetition;        // 0 = none
  float frequency, presence;
  int32_t target; // id to be scored; -1 = one is sampled
  uint32_t flags;
  int32_t remember;   // index of the ring, for the id that is sampled
  int32_t top, topAt; // how many of the most likely ids are listed, and where
};
constexpr uint32_t greedy = 1; // the largest logit is taken
constexpr uint32_t scored = 2; // total, place and the most likely ids are wanted

// What bias and penalties do to one id: sampleEntry in Go.
struct Entry {
  int32_t id;     // or an index of the ring; there an id that the list has becomes -1
  uint32_t count; // occurrences in the output, and seen
  float bias;
  float raw; // the logit before, filled in
};
constexpr uint32_t seen = 1u << 31; // in the prompt or the output

// What kernels know of a row; zero before the first of them.
struct Row {
  u64 rawBest, best; // ranks; 0 = nothing exceeds -Inf
  u64 rankFloor, weightFloor, topFloor; // keys: the least that are kept
  u64 prefix, need; // of a selection: the bits fixed so far, what is to be found below them
  double total;
  uint32_t ticket, done;
  int32_t id;
  uint32_t place, listed;
  uint32_t unused;
};
static_assert(sizeof(Output) == 104 && sizeof(Entry) == 16 && sizeof(Row) == 88, "internal/cuda/sample.go has these sizes");

// What goes back to the host: sampleRecord in Go.
struct Record {
  double total; // of exp(logit - best)
  float best, logit;
  int32_t id, rank;
};

struct SampleArgs {
  float* logits; // [rows][stride]
  const Output* outputs;
  Row* rows;
  uint32_t* counts; // [rows][bins], zero between kernels
  u64* masses;      // [rows][bins], zero between kernels
  u64* sums;        // [rows][tiles]
  double* runs;     // [rows][runs]
  const double* powers; // [64] 2^(j/64)
  int32_t* ring;
  u64* tops;
  Record* records;
  uint8_t* extra; // lists and masks
  int32_t stride, vocab;
  int32_t idBits;       // ids are below 1 << idBits
  int32_t kind;         // one of the following
  int32_t width, rest; // of a pass of a selection: bits that it fixes, bits below them
};
constexpr int byLogit = 0;  // the topK largest logits after mask, bias and penalties
constexpr int byWeight = 1; // the largest weights that weigh topP together
constexpr int byRaw = 2;    // the top largest logits as they are

// maskOf returns the mask of a row, null = all ids are allowed.
__device__ __forceinline__ const u64* maskOf(const SampleArgs& a, const Output& out) {
  return out.maskAt < 0 ? nullptr : (const u64*)(a.extra + out.maskAt);
}

// rankOf orders ids by logit, ties to the lowest id, as sample.rank does.
__device__ __forceinline__ u64 rankOf(float logit, int id) {
  uint32_t pattern = __float_as_uint(logit);
  if (logit != logit)
    pattern = 0xff800000; // -Inf
  else if (logit == 0)
    pattern = 0;
  pattern = pattern >> 31 ? ~pattern : pattern | 1u << 31;
  return (u64)pattern << 32 | ~(uint32_t)id;
}

// rankLogit returns the logit of a rank.
__device__ __forceinline__ float rankLogit(u64 rank) {
  uint32_t pattern = rank >> 32;
  return __uint_as_float(pattern >> 31 ? pattern & ~(1u << 31) : ~pattern);
}

// adjusted returns a logit after bias and penalties, which logits have by now, and mask.
__device__ __forceinline__ float adjusted(const float* logits, const u64* mask, int id) {
  if (mask && !(mask[id >> 6] >> (id & 63) & 1)) return __uint_as_float(0xff800000);
  return logits[id];
}

// exponential is sample.exponential: e^x for -708 < x <= 0, the same to the bit because nothing is fused.
__device__ __forceinline__ double exponential(double x, const double* powers) {
  int k = (int)(x * (64 * 1.44269504088896340735992468100189214) - 0.5);
  double r = x - (double)k * (0.693147180559945309417232121458176568 / 64);
  double r2 = r * r;
  double poly = 0.5 + r * (1.0 / 6) + r2 * (1.0 / 24 + r * (1.0 / 120));
  return (1 + (r + r2 * poly)) * powers[k & 63] * __longlong_as_double((long long)(1023 + (k >> 6)) << 52);
}

// A Weigher turns logits of a row into weights as package sample does.
struct Weigher {
  float top, bound, ceiling; // logits below bound, above ceiling weigh nothing of interest
  double scale, octave;
  u64 least, rankFloor, weightFloor;
  int idBits;

  __device__ __forceinline__ Weigher(const Output& out, const Row& row, int bits) {
    top = rankLogit(row.best);
    bound = (float)((double)top - out.reach);
    ceiling = __uint_as_float(0x7f800000); // +Inf
    scale = out.scale;
    octave = out.octave;
    least = out.least;
    rankFloor = row.rankFloor;
    weightFloor = row.weightFloor;
    idBits = bits;
    if (weightFloor) bound = fmaxf(bound, logitOf(weightFloor, -margin, bound));
  }

  // logitOf returns about what a logit must be to have that key by weight, and more by so many doublings
  // of the weight; where weights are so small that their rounding counts, otherwise.
  __device__ __forceinline__ float logitOf(u64 key, double more, float otherwise) const {
    u64 code = key >> idBits;
    int exponent = code >> 39;
    if (exponent < 7) return otherwise;
    // 0 <= log2(1 + f) - f < 0.0861 for a fraction f.
    double fraction = (double)(long long)(code & (one - 1)) / (double)one;
    return (float)((double)top + (exponent - 39 + fraction + more) * octave);
  }
  static constexpr double margin = 0.02; // rounding of weights above 2^7, of logits, of exponential

  // confine spares the exponentials of logits whose keys by weight do not lie in [from, to].
  __device__ __forceinline__ void confine(u64 from, u64 to) {
    bound = fmaxf(bound, logitOf(from, -margin, bound));
    ceiling = logitOf(to, 0.0861 + margin, ceiling);
  }

  // byRank returns the key of a logit in a selection of the largest logits.
  static __device__ __forceinline__ u64 byRank(float logit, int id, int idBits) {
    return rankOf(logit, id) >> 32 << idBits | (u64)((1 << idBits) - 1 - id);
  }

  // weight returns the weight of a logit, 0 where min-p or top-k drops its id.
  __device__ __forceinline__ u64 weight(float logit, int id, const double* powers) const {
    if (logit < bound || logit > ceiling) return 0;
    if (rankFloor && byRank(logit, id, idBits) < rankFloor) return 0;
    u64 weighed = one;
    if (logit != top) { // Inf - Inf is not 0
      double x = ((double)logit - (double)top) * scale;
      if (!(x > -28)) return 0; // or NaN
      weighed = (u64)(long long)(exponential(x, powers) * (double)one + 0.5);
    }
    return weighed < least ? 0 : weighed;
  }

  // byWeight returns the key of a weight that is not 0 in a selection of the largest weights. It starts
  // with 6 bits of the exponent and 39 of the fraction, so that bins are narrow for small weights too.
  __device__ __forceinline__ u64 byWeight(u64 weight, int id) const {
    int exponent = 63 - __clzll(weight);
    u64 code = (u64)exponent << 39 | (weight << (39 - exponent) & (one - 1));
    return code << idBits | (u64)((1 << idBits) - 1 - id);
  }

  // kept is weight, and 0 where top-p drops the id.
  __device__ __forceinline__ u64 kept(float logit, int id, const double* powers) const {
    u64 weighed = weight(logit, id, powers);
    return weighed && byWeight(weighed, id) < weightFloor ? 0 : weighed;
  }
};

// loadPowers copies the table of exponential to shared memory.
__device__ __forceinline__ void loadPowers(double* shared, const double* powers) {
  if (threadIdx.x < 64) shared[threadIdx.x] = powers[threadIdx.x];
}

// Scratch is shared memory in which a block's threads meet.
struct Scratch {
  u64 warps[threads / 32];
  int last;
};

// scan returns the sum of the values of lower threads, and in total that of all. All threads call it.
__device__ __forceinline__ u64 scan(u64 value, u64& total, Scratch& scratch) {
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  u64 sum = value;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    u64 lower = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += lower;
  }
  __syncthreads(); // warps may still be read from an earlier call
  if (lane == 31) scratch.warps[warp] = sum;
  __syncthreads();
  u64 before = 0;
  total = 0;
#pragma unroll
  for (int i = 0; i < threads / 32; i++) {
    if (i < warp) before += scratch.warps[i];
    total += scratch.warps[i];
  }
  return before + sum - value;
}

// last reports to the block of a row that finishes last that it does, and that it sees what the
// others have written, if it reads past the first cache (__ldcg).
__device__ __forceinline__ bool last(Row* row, Scratch& scratch) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    scratch.last = atomicAdd(&row->ticket, 1) == gridDim.x - 1;
    if (scratch.last) row->ticket = 0;
    __threadfence();
  }
  __syncthreads();
  return scratch.last;
}

// sample_peak finds the rank of the largest logit of each row, raw or adjusted.
extern "C" __global__ void __launch_bounds__(threads) sample_peak(const SampleArgs a) {
  const Output& out = a.outputs[blockIdx.y];
  bool raw = a.kind == byRaw;
  if (raw ? !(out.flags & scored) : out.target >= 0) return;
  const float* logits = a.logits + (size_t)blockIdx.y * a.stride;
  const u64* mask = raw ? nullptr : maskOf(a, out);
  float largest = __uint_as_float(0xff800000); // -Inf, which NaN does not exceed either
  int at = -1;
#pragma unroll
  for (int i = 0; i < perThread; i++) {
    int id = blockIdx.x * tile + i * threads + threadIdx.x;
    if (id >= a.vocab) break;
    float logit = adjusted(logits, mask, id);
    if (logit > largest) {
      largest = logit;
      at = id;
    }
  }
  u64 best = at < 0 ? 0 : rankOf(largest, at);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) best = max(best, __shfl_xor_sync(~0u, best, step));
  __shared__ Scratch scratch;
  if ((threadIdx.x & 31) == 0) scratch.warps[threadIdx.x >> 5] = best;
  __syncthreads();
  if (threadIdx.x) return;
  for (int i = 1; i < threads / 32; i++) best = max(best, scratch.warps[i]);
  Row* row = a.rows + blockIdx.y;
  atomicMax(raw ? &row->rawBest : &row->best, best);
}

// A Histogram counts keys and adds up their weights by a digit, in shared memory. Weights are in two
// halves because 64-bit additions there are loops.
struct Histogram {
  uint32_t count[bins], low[bins], high[bins];

  __device__ __forceinline__ void clear(bool weights) {
    for (int i = threadIdx.x; i < bins; i += threads) {
      count[i] = 0;
      if (weights) low[i] = high[i] = 0;
    }
  }

  __device__ __forceinline__ void add(int bin, u64 weight) {
    atomicAdd(&count[bin], 1);
    if (!weight) return;
    uint32_t part = (uint32_t)weight, before = atomicAdd(&low[bin], part);
    uint32_t rest = (uint32_t)(weight >> 32) + (before + part < part); // carry
    if (rest) atomicAdd(&high[bin], rest);
  }
};

// found ends a pass: need is reached within this bin of that count and amount.
__device__ void found(Row* row, const SampleArgs& a, u64 prefix, u64 need, u64 amount, uint32_t count) {
  row->prefix = prefix;
  row->need = need;
  // All of the bin is kept, or its only key: no further bit matters.
  row->done = amount == need || count == 1;
  if (!row->done) return;
  u64 floor = prefix << a.rest;
  if (a.kind == byLogit)
    row->rankFloor = floor;
  else if (a.kind == byWeight)
    row->weightFloor = floor;
  else
    row->topFloor = floor;
}

// sample_select is a pass of a selection: it fixes one more digit of the least key that is kept.
extern "C" __global__ void __launch_bounds__(threads) sample_select(const SampleArgs a) {
  const Output& out = a.outputs[blockIdx.y];
  Row* row = a.rows + blockIdx.y;
  bool weights = a.kind == byWeight;
  if (a.kind == byRaw ? out.top == 0 || !(out.flags & scored) : out.target >= 0 || (out.flags & greedy) || row->best == 0) return;
  if ((a.kind == byLogit && out.topK == 0) || (weights && out.topP == 0)) return;
  bool first = a.rest + a.width == (weights ? weightBits : 32) + a.idBits;
  if (!first && row->done) return;

  __shared__ Histogram histogram;
  __shared__ Scratch scratch;
  __shared__ double powers[64];
  histogram.clear(weights);
  if (weights) loadPowers(powers, a.powers);
  __syncthreads();
  const float* logits = a.logits + (size_t)blockIdx.y * a.stride;
  const u64* mask = a.kind == byRaw ? nullptr : maskOf(a, out);
  Weigher weigher(out, *row, a.idBits);
  u64 prefix = first ? 0 : row->prefix, from = prefix << (a.rest + a.width);
  if (weights) weigher.confine(from, from | ((1ull << (a.rest + a.width)) - 1));
#pragma unroll 1 // an exponential is long: other warps hide what its loads take
  for (int i = 0; i < perThread; i++) {
    int id = blockIdx.x * tile + i * threads + threadIdx.x;
    if (id >= a.vocab) break;
    float logit = adjusted(logits, mask, id);
    u64 key, weight = 0;
    if (weights) {
      weight = weigher.weight(logit, id, powers);
      if (weight == 0) continue;
      key = weigher.byWeight(weight, id);
    } else {
      key = Weigher::byRank(logit, id, a.idBits);
    }
    key >>= a.rest;
    if (key >> a.width == prefix) histogram.add(key & ((1 << a.width) - 1), weight);
  }
  __syncthreads();
  uint32_t* counts = a.counts + (size_t)blockIdx.y * bins;
  u64* masses = a.masses + (size_t)blockIdx.y * bins;
  for (int i = threadIdx.x; i < bins; i += threads) {
    if (histogram.count[i] == 0) continue;
    atomicAdd(&counts[i], histogram.count[i]);
    if (weights) atomicAdd(&masses[i], (u64)histogram.high[i] << 32 | histogram.low[i]);
  }
  if (!last(row, scratch)) return;

  // Eight bins per thread, the largest keys first. Amounts are counts or masses.
  u64 sum = 0, total;
  int largest = bins - 1 - threadIdx.x * perThread;
  for (int bin = largest; bin > largest - perThread; bin--) sum += weights ? __ldcg(&masses[bin]) : __ldcg(&counts[bin]);
  u64 need = row->need, before = scan(sum, total, scratch);
  if (first && weights)
    need = min(max((u64)ceil((double)out.topP * (double)total), 1ull), total);
  else if (first)
    need = a.kind == byLogit ? out.topK : out.top;
  bool here = before < need && need <= before + sum; // in one thread only
  need -= before;
#pragma unroll 1
  for (int bin = largest; bin > largest - perThread; bin--) {
    uint32_t count = __ldcg(&counts[bin]);
    u64 amount = weights ? __ldcg(&masses[bin]) : count;
    if (here && need <= amount) {
      found(row, a, prefix << a.width | (u64)bin, need, amount, count);
      here = false;
    }
    need -= amount;
    counts[bin] = 0;
    if (weights) masses[bin] = 0;
  }
}

// sample_draw adds up the weights of what is left of each tile; the last block draws.
extern "C" __global__ void __launch_bounds__(threads) sample_draw(const SampleArgs a) {
  const Output& out = a.outputs[blockIdx.y];
  Row* row = a.rows + blockIdx.y;
  if (out.target >= 0 || (out.flags & greedy) || row->best == 0) return;
  __shared__ Scratch scratch;
  __shared__ double powers[64];
  loadPowers(powers, a.powers);
  __syncthreads();
  const float* logits = a.logits + (size_t)blockIdx.y * a.stride;
  const u64* mask = maskOf(a, out);
  Weigher weigher(out, *row, a.idBits);
  u64 sum = 0, total;
#pragma unroll 1
  for (int i = 0; i < perThread; i++) {
    int id = blockIdx.x * tile + i * threads + threadIdx.x;
    if (id < a.vocab) sum += weigher.kept(adjusted(logits, mask, id), id, powers);
  }
  scan(sum, total, scratch);
  u64* sums = a.sums + (size_t)blockIdx.y * gridDim.x;
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
  if (!last(row, scratch)) return;

  // The tile in whose part of the sum the drawn number lies; a tile per thread.
  __shared__ int tileOf;
  __shared__ u64 drawnOf;
  sum = threadIdx.x < gridDim.x ? __ldcg(&sums[threadIdx.x]) : 0;
  u64 before = scan(sum, total, scratch);
  u64 drawn = __umul64hi(out.random, total); // uniform in [0, total)
  if (before <= drawn && drawn < before + sum) {
    tileOf = threadIdx.x;
    drawnOf = drawn - before;
  }
  __syncthreads();
  // Then the id in that tile; a thread has neighbours here.
  int first = tileOf * tile + threadIdx.x * perThread, end = min(first + perThread, a.vocab);
  sum = 0;
#pragma unroll 1
  for (int id = first; id < end; id++) sum += weigher.kept(adjusted(logits, mask, id), id, powers);
  drawn = drawnOf;
  before = scan(sum, total, scratch);
  if (before > drawn || drawn >= before + sum) return;
  drawn -= before;
#pragma unroll 1
  for (int id = first; id < end; id++) {
    u64 weight = weigher.kept(adjusted(logits, mask, id), id, powers);
    if (drawn < weight) {
      row->id = id;
      break;
    }
    drawn -= weight;
  }
}

// sample_score adds up the exponentials of a row in the order of sample.NewSoftmax, and counts the ids
// that rank above the target. A block has 32 runs, of which it takes 32 ids each at a time: all
// threads make exponentials, then each lane of the first warp adds those of its run, in order.
extern "C" __global__ void __launch_bounds__(threads) sample_score(const SampleArgs a) {
  const Output& out = a.outputs[blockIdx.y];
  Row* row = a.rows + blockIdx.y;
  if (!(out.flags & scored)) return;
  __shared__ Scratch scratch;
  __shared__ double powers[64];
  __shared__ double terms[runsPerBlock][33]; // one more than 32: no conflict by rows or by columns
  loadPowers(powers, a.powers);
  __syncthreads();
  const float* logits = a.logits + (size_t)blockIdx.y * a.stride;
  float best = rankLogit(row->rawBest);
  u64 own = out.target >= 0 ? rankOf(logits[out.target], out.target) : ~0ull;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  double sum = 0;
  uint32_t above = 0;
#pragma unroll 1
  for (int column = 0; column < run; column += 32) {
#pragma unroll 1
    for (int line = warp; line < runsPerBlock; line += threads / 32) {
      int id = (blockIdx.x * runsPerBlock + line) * run + column + lane;
      double term = 0; // adding 0 changes no sum
      if (id < a.vocab) {
        float logit = logits[id];
        above += rankOf(logit, id) > own;
        double below = (double)logit - (double)best;
        if (logit == best)
          term = 1; // Inf - Inf is not 0
        else if (below > -708)
          term = exponential(below, powers);
      }
      terms[line][lane] = term;
    }
    __syncthreads();
    if (warp == 0)
#pragma unroll 8
      for (int i = 0; i < 32; i++) sum += terms[lane][i];
    __syncthreads();
  }
  int runs = (a.vocab + run - 1) / run, mine = blockIdx.x * runsPerBlock + lane;
  double* sums = a.runs + (size_t)blockIdx.y * runs;
  if (warp == 0 && mine < runs) sums[mine] = sum;
  u64 count;
  scan(above, count, scratch);
  if (threadIdx.x == 0) atomicAdd(&row->place, (uint32_t)count);
  if (!last(row, scratch) || threadIdx.x) return;
  double total = 0;
#pragma unroll 8 // loads ahead of the additions
  for (int i = 0; i < runs; i++) total += __ldcg(&sums[i]);
  row->total = total;
}

// sample_top lists the ranks of the most likely ids, in no order.
extern "C" __global__ void __launch_bounds__(threads) sample_top(const SampleArgs a) {
  const Output& out = a.outputs[blockIdx.y];
  Row* row = a.rows + blockIdx.y;
  if (out.top == 0 || !(out.flags & scored)) return;
  const float* logits = a.logits + (size_t)blockIdx.y * a.stride;
  u64 floor = row->topFloor;
  for (int i = 0; i < perThread; i++) {
    int id = blockIdx.x * tile + i * threads + threadIdx.x;
    if (id >= a.vocab) break;
    float logit = logits[id];
    if (Weigher::byRank(logit, id, a.idBits) < floor) continue;
    a.tops[out.topAt + atomicAdd(&row->listed, 1)] = rankOf(logit, id);
  }
}

// adjust changes the logit of an entry's id and keeps what it was. count may be above the entry's.
__device__ __forceinline__ void adjust(float* logits, Entry& entry, int id, uint32_t count, const Output& out) {
  float logit = logits[id];
  entry.raw = logit;
  logit = __fadd_rn(logit, entry.bias);
  if (count & seen) {
    if (out.repetition != 0) logit = logit > 0 ? __fdiv_rn(logit, out.repetition) : __fmul_rn(logit, out.repetition);
    uint32_t occurrences = count & ~seen;
    if (occurrences > 0) {
      logit = __fsub_rn(logit, __fmul_rn(out.frequency, (float)occurrences));
      logit = __fsub_rn(logit, out.presence);
    }
  }
  logits[id] = logit;
}

// sample_adjust applies bias and penalties, which do not depend on the order of ids. One block per row.
extern "C" __global__ void __launch_bounds__(threads) sample_adjust(const SampleArgs a) {
  const Output& out = a.outputs[blockIdx.x];
  float* logits = a.logits + (size_t)blockIdx.x * a.stride;
  // Ids that the host did not know when it made the list: each may be in it, and may occur twice.
  __shared__ int ids[maxPending];
  __shared__ uint32_t counts[maxPending], listed[maxPending];
  Entry* list = (Entry*)(a.extra + out.listAt);
  Entry* pending = list + out.listed;
  int mine = threadIdx.x;
  if (mine < out.pending) {
    ids[mine] = a.ring[pending[mine].id];
    counts[mine] = pending[mine].count;
    listed[mine] = 0;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < out.listed; i += threads) {
    Entry& entry = list[i];
    uint32_t count = entry.count;
    for (int k = 0; k < out.pending; k++) {
      if (ids[k] != entry.id) continue;
      count = (count | seen) + (counts[k] & ~seen);
      listed[k] = 1; // ids of a list differ: no other thread comes here for this k
    }
    adjust(logits, entry, entry.id, count, out);
  }
  __syncthreads();
  if (mine >= out.pending) return;
  uint32_t count = seen;
  bool first = true;
  for (int k = 0; k < out.pending; k++) {
    if (ids[k] != ids[mine]) continue;
    count += counts[k] & ~seen;
    first = first && k >= mine;
  }
  bool adds = first && !listed[mine];
  if (adds) adjust(logits, pending[mine], ids[mine], count, out);
  pending[mine].id = adds ? ids[mine] : -1;
}

// lowest returns the first id that the mask allows, 0 if there is none; all threads find it in least,
// which is shared.
__device__ __forceinline__ int lowest(const u64* mask, int vocab, int& least) {
  if (threadIdx.x == 0) least = vocab;
  __syncthreads();
  for (int word = threadIdx.x; mask && word * 64 < vocab; word += threads) {
    if (mask[word] == 0) continue;
    atomicMin(&least, word * 64 + __ffsll(mask[word]) - 1);
    break;
  }
  __syncthreads();
  return least < vocab ? least : 0;
}

// sample_finish undoes sample_adjust, and writes what goes back to the host. One block per row.
extern "C" __global__ void __launch_bounds__(threads) sample_finish(const SampleArgs a) {
  const Output& out = a.outputs[blockIdx.x];
  const Row& row = a.rows[blockIdx.x];
  float* logits = a.logits + (size_t)blockIdx.x * a.stride;
  const Entry* list = (const Entry*)(a.extra + out.listAt);
  for (int i = threadIdx.x; i < out.listed + out.pending; i += threads) {
    const Entry& entry = list[i];
    if (entry.id >= 0) logits[entry.id] = entry.raw;
  }
  __shared__ int least;
  int id = row.id;
  if (out.target >= 0)
    id = out.target;
  else if (row.best == 0)
    id = lowest(maskOf(a, out), a.vocab, least);
  else if (out.flags & greedy)
    id = ~(uint32_t)row.best;
  __syncthreads();
  if (threadIdx.x) return;
  a.records[blockIdx.x] = Record{row.total, rankLogit(row.rawBest), logits[id], id, (int32_t)row.place + 1};
  if (out.target < 0) a.ring[out.remember] = id;
}

struct ResolveArgs {
  int32_t* tokens;    // ids of a step
  const int32_t *pos, // of each token
      *row,           // of each token
      *slot;          // of each row
  const int32_t* ring;
  int32_t count, depth; // of tokens; of ids that the ring has per slot
};

// sample_resolve replaces ids below 0 by those that their slots have sampled for their positions.
extern "C" __global__ void __launch_bounds__(threads) sample_resolve(const ResolveArgs a) {
  int token = blockIdx.x * threads + threadIdx.x;
  if (token < a.count && a.tokens[token] < 0) a.tokens[token] = a.ring[a.slot[a.row[token]] * a.depth + a.pos[token] % a.depth];
}
