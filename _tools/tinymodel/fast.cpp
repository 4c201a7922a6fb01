// The parts of training that a library of matrix products leaves slow: attention over
// trees of short sequences, and what stands between the products of the experts.
// fast.py compiles it; model.py has the same in PyTorch, and tests compare both.
#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

constexpr int kRows = 16;  // queries at a time

using V = __m512;

inline V Load(const float* p) { return _mm512_loadu_ps(p); }
inline void Store(float* p, V x) { _mm512_storeu_ps(p, x); }
inline V Set(float x) { return _mm512_set1_ps(x); }
inline V Fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }

// e^x to 2 units in the last place; 0 below the range.
inline V Exp(V x) {
  x = _mm512_max_ps(x, Set(-126.f * 0.69314718f));
  V n = _mm512_roundscale_ps(_mm512_mul_ps(x, Set(1.44269504f)), 0);
  V r = Fma(n, Set(-0.693145752f), x);
  r = Fma(n, Set(-1.42860677e-6f), r);
  V p = Set(1.f / 720);
  p = Fma(p, r, Set(1.f / 120));
  p = Fma(p, r, Set(1.f / 24));
  p = Fma(p, r, Set(1.f / 6));
  p = Fma(p, r, Set(0.5f));
  p = Fma(p, r, Set(1));
  p = Fma(p, r, Set(1));
  return _mm512_scalef_ps(p, n);
}

// 16 bfloat16 values at p.
inline V LoadHalf(const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}

inline void StoreHalf(uint16_t* p, V x) { _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh(x)); }

// Products of attention take bfloat16 in pairs: acc + a0 b0 + a1 b1 in every place.
inline V Dot(V acc, __m512i a, __m512i b) { return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b); }
inline __m512i LoadPairs(const uint32_t* p) { return _mm512_loadu_si512(p); }
inline __m512i SetPair(uint32_t x) { return _mm512_set1_epi32(x); }

// Puts x as the first or the second of 16 pairs and leaves the others.
inline void StorePairs(uint32_t* p, V x, bool second) {
  __m512i one = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x)), mask = _mm512_set1_epi32(second ? 0xffff : 0xffff0000);
  if (second) one = _mm512_slli_epi32(one, 16);
  _mm512_storeu_si512(p, _mm512_or_epi32(one, _mm512_and_epi32(_mm512_loadu_si512(p), mask)));
}

// From here on kDim is the width of a head, a multiple of 32.

// out[r][j] = sum over d of a[r][d] b[j][d] for kRows rows and j in [from, to), multiples of 64;
// a [kRows, kDim/2] and b [kDim/2, stride] are pairs of d.
template <int kDim>
void Scores(const uint32_t* a, const uint32_t* b, int stride, int from, int to, float* out) {
  for (int j = from; j < to; j += 64) {
    for (int r = 0; r < kRows; r += 4) {
      V s[4][4];
      for (auto& row : s)
        for (V& x : row) x = _mm512_setzero_ps();
      for (int d = 0; d < kDim / 2; d++) {
        const uint32_t* c = b + (size_t)d * stride + j;
        __m512i c0 = LoadPairs(c), c1 = LoadPairs(c + 16), c2 = LoadPairs(c + 32), c3 = LoadPairs(c + 48);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
          __m512i x = SetPair(a[(r + i) * (kDim / 2) + d]);
          s[i][0] = Dot(s[i][0], x, c0), s[i][1] = Dot(s[i][1], x, c1);
          s[i][2] = Dot(s[i][2], x, c2), s[i][3] = Dot(s[i][3], x, c3);
        }
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) Store(out + (size_t)(r + i) * stride + j + 16 * k, s[i][k]);
    }
  }
}

// out[r] = sum over j in [from, to), even, of p[r][j] b[j]; p [kRows, stride/2] and b [., kDim] are pairs of j.
template <int kDim>
void Weighted(const uint32_t* p, int stride, const uint32_t* b, int from, int to, float* out) {
  constexpr int kVectors = kDim / 16, kBlock = 16 / kVectors;  // rows at a time
  for (int r = 0; r < kRows; r += kBlock) {
    V s[kBlock][kVectors];
    for (auto& row : s)
      for (V& x : row) x = _mm512_setzero_ps();
    const uint32_t* x = p + (size_t)r * (stride / 2);
    for (int j = from / 2; j < to / 2; j++) {
      __m512i v[kVectors];
      for (int d = 0; d < kVectors; d++) v[d] = LoadPairs(b + (size_t)j * kDim + 16 * d);
#pragma GCC unroll 8
      for (int i = 0; i < kBlock; i++) {
        __m512i w = SetPair(x[(size_t)i * (stride / 2) + j]);
        for (int d = 0; d < kVectors; d++) s[i][d] = Dot(s[i][d], w, v[d]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kBlock; i++)
      for (int d = 0; d < kVectors; d++) Store(out + (r + i) * kDim + 16 * d, s[i][d]);
  }
}

// out[j] += sum over rows r of p[r][j] a[r] for j in [from, to), multiples of 8;
// p [kRows/2, stride] and a [kRows/2, kDim] are pairs of r.
template <int kDim>
void Spread(const uint32_t* p, int stride, const uint32_t* a, int from, int to, float* out) {
  constexpr int kVectors = kDim / 16, kBlock = 16 / kVectors;
  for (int j = from; j < to; j += kBlock) {
    V s[kBlock][kVectors];
    float* o = out + (size_t)j * kDim;
#pragma GCC unroll 8
    for (int i = 0; i < kBlock; i++)
      for (int d = 0; d < kVectors; d++) s[i][d] = Load(o + i * kDim + 16 * d);
    for (int r = 0; r < kRows / 2; r++) {
      __m512i v[kVectors];
      for (int d = 0; d < kVectors; d++) v[d] = LoadPairs(a + r * kDim + 16 * d);
      const uint32_t* x = p + (size_t)r * stride + j;
#pragma GCC unroll 8
      for (int i = 0; i < kBlock; i++) {
        __m512i w = SetPair(x[i]);
        for (int d = 0; d < kVectors; d++) s[i][d] = Dot(s[i][d], w, v[d]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kBlock; i++)
      for (int d = 0; d < kVectors; d++) Store(o + i * kDim + 16 * d, s[i][d]);
  }
}

// y = x turned by the angle, pairs (i, i + kDim/2); back turns it the other way.
template <int kDim>
void Turn(const float* x, const float* cos, const float* sin, float scale, bool back, float* y) {
  for (int i = 0; i < kDim / 2; i += 16) {
    V a = Load(x + i), b = Load(x + kDim / 2 + i), c = _mm512_mul_ps(Load(cos + i), Set(scale)), s = _mm512_mul_ps(Load(sin + i), Set(back ? -scale : scale));
    Store(y + i, Fma(a, c, _mm512_mul_ps(b, _mm512_sub_ps(_mm512_setzero_ps(), s))));
    Store(y + kDim / 2 + i, Fma(b, c, _mm512_mul_ps(a, s)));
  }
}

struct Segment {
  int64_t start, end, prefix_start, prefix;
};

// kRows rows in both forms: pairs of d, [kRows, kDim/2], and pairs of rows, [kRows/2, kDim].
template <int kDim>
struct Rows {
  uint32_t across[kRows * kDim / 2], down[kRows / 2 * kDim];

  void Put(int r, const float* x) {
    for (int d = 0; d < kDim; d += 16) {
      V v = x ? Load(x + d) : _mm512_setzero_ps();
      StoreHalf((uint16_t*)across + r * kDim + d, v);
      StorePairs(down + r / 2 * kDim + d, v, r % 2);
    }
  }

  // The first of x; others are zero.
  void Put(const float* x, int some) {
    for (int r = 0; r < kRows; r++) Put(r, r < some ? x + r * kDim : nullptr);
  }
};

// The keys that a segment sees of one head: pairs of d transposed, [kDim/2, stride], and pairs
// of keys, [stride/2, kDim]. Segments of one prefix follow each other, so that it is taken once.
template <int kDim>
struct Seen {
  int stride;
  int64_t prefix_start = -1, prefix = -1;
  std::vector<uint32_t> columns, pairs;  // empty where they are not wanted

  Seen(int stride, bool columns, bool pairs) : stride(stride), columns(columns ? (size_t)kDim / 2 * stride : 0), pairs(pairs ? (size_t)kDim / 2 * stride : 0) {}

  void Put(const float* x, int64_t n, int64_t at) {
    for (int64_t j = 0; j < n && !pairs.empty(); j++)
      for (int d = 0; d < kDim; d += 16) StorePairs(&pairs[(at + j) / 2 * kDim + d], Load(x + j * kDim + d), (at + j) % 2);
    for (int64_t j = 0; j < n && !columns.empty(); j += 16) {
      uint32_t rows[16 * kDim / 2];
      int64_t some = std::min<int64_t>(16, n - j);
      for (int64_t d = 0; d < some * kDim; d += 16) StoreHalf((uint16_t*)rows + d, Load(x + j * kDim + d));
      for (int d = 0; d < kDim / 2; d++)
        for (int64_t i = 0; i < some; i++) columns[(size_t)d * stride + at + j + i] = rows[i * (kDim / 2) + d];
    }
  }

  void Take(const float* x, const Segment& s) {
    if (s.prefix != prefix || s.prefix_start != prefix_start) Put(x + s.prefix_start * kDim, s.prefix, 0);
    prefix = s.prefix, prefix_start = s.prefix_start;
    Put(x + s.start * kDim, s.end - s.start, prefix);
  }
};

struct Attention {
  int64_t n, heads, kv, segments, window;
  const Segment* segment;
  const float* sinks;
  int64_t group() const { return heads / kv; }

  // The segment without what none of it sees.
  Segment Near(int i) const {
    Segment s = segment[i];
    int64_t prefix = std::min(s.prefix, window - 1);
    return {s.start, s.end, s.prefix_start + s.prefix - prefix, prefix};
  }

  // Room for the keys of any segment, in whole tiles.
  int Stride() const {
    int64_t most = 0;
    for (int i = 0; i < segments; i++) most = std::max(most, Near(i).prefix + segment[i].end - segment[i].start);
    return (most + 63) / 64 * 64;
  }

  // Of the kRows rows from row on: the keys [from, to) that any of them sees, in whole tiles.
  void Range(const Segment& s, int row, int rows, int* from, int* to) const {
    int first = row / group(), last = (row + rows - 1) / group();
    *from = std::max<int64_t>(0, s.prefix + first - window + 1) / 64 * 64;
    *to = (s.prefix + last + 64) / 64 * 64;
  }

  // Scores of the rows that count, minus infinity where nothing is seen.
  void Mask(const Segment& s, int row, int rows, int from, int to, int stride, float* scores) const {
    for (int r = 0; r < rows; r++) {
      float* x = scores + (size_t)r * stride;
      int place = s.prefix + (row + r) / group();
      int first = std::max<int64_t>(from, place - window + 1);
      for (int j = from; j < std::min(first, to); j++) x[j] = -INFINITY;
      for (int j = std::max(from, place + 1); j < to; j++) x[j] = -INFINITY;
    }
  }
};

template <int kDim>
void TurnAll(int64_t n, int64_t heads, int64_t kv, float scale, const float* cos, const float* sin, float* q, float* k, float* v, float* qr, float* kr, float* vr, int64_t back) {
  int64_t group = heads / kv;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const float *c = cos + i * (kDim / 2), *s = sin + i * (kDim / 2);
    for (int64_t h = 0; h < heads; h++) {
      float *a = q + (i * heads + h) * kDim, *b = qr + ((h / group * n + i) * group + h % group) * kDim;
      back ? Turn<kDim>(b, c, s, scale, true, a) : Turn<kDim>(a, c, s, scale, false, b);
    }
    for (int64_t h = 0; h < kv; h++) {
      float *a = k + (i * kv + h) * kDim, *b = kr + (h * n + i) * kDim;
      back ? Turn<kDim>(b, c, s, 1, true, a) : Turn<kDim>(a, c, s, 1, false, b);
      a = v + (i * kv + h) * kDim, b = vr + (h * n + i) * kDim;
      back ? std::copy_n(b, kDim, a) : std::copy_n(a, kDim, b);
    }
  }
}

template <int kDim>
void Attend(int64_t n, int64_t heads, int64_t kv, int64_t segments, const Segment* segment, int64_t window, const float* sinks, const float* q, const float* k, const float* v, float* out,
            float* sums) {
  Attention a{n, heads, kv, segments, window, segment, sinks};
  int64_t group = a.group();
#pragma omp parallel for schedule(static, 1)
  for (int64_t h = 0; h < kv; h++) {
    const int stride = a.Stride();
    Seen<kDim> keys(stride, true, false), values(stride, false, true);
    std::vector<float> p((size_t)kRows * stride), got(kRows * kDim);
    std::vector<uint32_t> across((size_t)kRows / 2 * stride);
    Rows<kDim> queries;
    for (int i = 0; i < segments; i++) {
      Segment s = a.Near(i);
      keys.Take(k + h * n * kDim, s);
      values.Take(v + h * n * kDim, s);
      int count = (s.end - s.start) * group;
      for (int row = 0; row < count; row += kRows) {
        int some = std::min(kRows, count - row), from, to;
        a.Range(s, row, some, &from, &to);
        queries.Put(q + ((h * n + s.start) * group + row) * kDim, some);
        Scores<kDim>(queries.across, keys.columns.data(), stride, from, to, p.data());
        a.Mask(s, row, some, from, to, stride, p.data());
        float scale[kRows];
        for (int r = 0; r < some; r++) {
          float* x = p.data() + (size_t)r * stride;
          uint16_t* y = (uint16_t*)across.data() + (size_t)r * stride;
          float sink = sinks[h * group + (row + r) % group];
          V most = Set(sink), sum = _mm512_setzero_ps();
          for (int j = from; j < to; j += 16) most = _mm512_max_ps(most, Load(x + j));
          float m = _mm512_reduce_max_ps(most);
          for (int j = from; j < to; j += 16) {
            V s = Load(x + j), e = Exp(_mm512_sub_ps(s, Set(m)));
            e = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(s, Set(-INFINITY), _CMP_EQ_OQ), e, _mm512_setzero_ps());
            sum = _mm512_add_ps(sum, e);
            StoreHalf(y + j, e);
          }
          float total = _mm512_reduce_add_ps(sum) + std::exp(sink - m);
          scale[r] = 1 / total;
          sums[(h * n + s.start) * group + row + r] = m + std::log(total);
        }
        Weighted<kDim>(across.data(), stride, values.pairs.data(), from, to, got.data());
        for (int r = 0; r < some; r++) {
          float* o = out + ((s.start + (row + r) / group) * heads + h * group + (row + r) % group) * kDim;
          for (int d = 0; d < kDim; d += 16) Store(o + d, _mm512_mul_ps(Load(&got[r * kDim + d]), Set(scale[r])));
        }
      }
    }
  }
}

template <int kDim>
void AttendBack(int64_t n, int64_t heads, int64_t kv, int64_t segments, const Segment* segment, int64_t window, const float* sinks, const float* q, const float* k, const float* v, const float* out,
                 const float* sums, const float* dout, float* dq, float* dk, float* dv, float* dsinks) {
  Attention a{n, heads, kv, segments, window, segment, sinks};
  int64_t group = a.group();
#pragma omp parallel for schedule(static, 1)
  for (int64_t h = 0; h < kv; h++) {
    const int stride = a.Stride();
    Seen<kDim> keys(stride, true, true), values(stride, true, false);
    std::vector<float> p((size_t)kRows * stride), dp(p), dkeys, dvalues, got(kRows * kDim);
    std::vector<uint32_t> pdown((size_t)kRows / 2 * stride), ddown(pdown), dacross(pdown);
    Rows<kDim> queries, given;
    for (int i = 0; i < segments; i++) {
      Segment s = a.Near(i);
      keys.Take(k + h * n * kDim, s);
      values.Take(v + h * n * kDim, s);
      const int seen = s.prefix + s.end - s.start;
      dkeys.assign((size_t)stride * kDim, 0), dvalues.assign((size_t)stride * kDim, 0);
      int count = (s.end - s.start) * group;
      for (int row = 0; row < count; row += kRows) {
        int some = std::min(kRows, count - row), from, to;
        a.Range(s, row, some, &from, &to);
        queries.Put(q + ((h * n + s.start) * group + row) * kDim, some);
        float delta[kRows];
        for (int r = 0; r < kRows; r++) {
          size_t at = ((s.start + (row + r) / group) * heads + h * group + (row + r) % group) * kDim;
          given.Put(r, r < some ? dout + at : nullptr);
          V sum = _mm512_setzero_ps();
          for (int d = 0; d < kDim && r < some; d += 16) sum = Fma(Load(dout + at + d), Load(out + at + d), sum);
          delta[r] = _mm512_reduce_add_ps(sum);
        }
        Scores<kDim>(queries.across, keys.columns.data(), stride, from, to, p.data());
        a.Mask(s, row, some, from, to, stride, p.data());
        Scores<kDim>(given.across, values.columns.data(), stride, from, to, dp.data());
        for (int r = 0; r < some; r++) {  // the others have zeros in queries and given
          const float *x = p.data() + (size_t)r * stride, *y = dp.data() + (size_t)r * stride;
          float sum = sums[(h * n + s.start) * group + row + r];
          int head = h * group + (row + r) % group;
          dsinks[head] -= std::exp(sinks[head] - sum) * delta[r];
          for (int j = from; j < to; j += 16) {
            V s = Load(x + j), e = Exp(_mm512_sub_ps(s, Set(sum)));
            e = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(s, Set(-INFINITY), _CMP_EQ_OQ), e, _mm512_setzero_ps());
            V d = _mm512_mul_ps(e, _mm512_sub_ps(Load(y + j), Set(delta[r])));
            StorePairs(&pdown[(size_t)r / 2 * stride + j], e, r % 2), StorePairs(&ddown[(size_t)r / 2 * stride + j], d, r % 2);
            StoreHalf((uint16_t*)dacross.data() + (size_t)r * stride + j, d);
          }
        }
        Weighted<kDim>(dacross.data(), stride, keys.pairs.data(), from, to, got.data());
        std::copy_n(got.begin(), some * kDim, dq + ((h * n + s.start) * group + row) * kDim);
        Spread<kDim>(pdown.data(), stride, given.down, from, to, dvalues.data());
        Spread<kDim>(ddown.data(), stride, queries.down, from, to, dkeys.data());
      }
      for (int which = 0; which < 2; which++) {
        const float* from = (which ? dvalues : dkeys).data();
        float* to = (which ? dv : dk) + h * n * kDim;
        for (int j = 0; j < seen; j++) {
          float* o = to + (j < s.prefix ? s.prefix_start + j : s.start + j - s.prefix) * kDim;
          for (int d = 0; d < kDim; d += 16) Store(o + d, _mm512_add_ps(Load(o + d), Load(from + (size_t)j * kDim + d)));
        }
      }
    }
  }
}

}  // namespace

extern "C" {

// q [n, heads, dim], k and v [n, kv, dim] and cos, sin [n, dim/2] become qr [kv, n, group, dim], turned
// and scaled, kr and vr [kv, n, dim]; back: from gradients of those to gradients of these. dim is 32 or 64.
void turn(int64_t dim, int64_t n, int64_t heads, int64_t kv, float scale, const float* cos, const float* sin, float* q, float* k, float* v, float* qr, float* kr, float* vr, int64_t back) {
  (dim == 32 ? TurnAll<32> : TurnAll<64>)(n, heads, kv, scale, cos, sin, q, k, v, qr, kr, vr, back);
}

// out [n, heads, dim] and, for attend_back, the logarithms of the sums [kv, n, group].
void attend(int64_t dim, int64_t n, int64_t heads, int64_t kv, int64_t segments, const Segment* segment, int64_t window, const float* sinks, const float* q, const float* k, const float* v,
            float* out, float* sums) {
  (dim == 32 ? Attend<32> : Attend<64>)(n, heads, kv, segments, segment, window, sinks, q, k, v, out, sums);
}

// From the gradient of out those of q [kv, n, group, dim], k, v [kv, n, dim] and sinks; the last three start at zero.
void attend_back(int64_t dim, int64_t n, int64_t heads, int64_t kv, int64_t segments, const Segment* segment, int64_t window, const float* sinks, const float* q, const float* k, const float* v,
                 const float* out, const float* sums, const float* dout, float* dq, float* dk, float* dv, float* dsinks) {
  (dim == 32 ? AttendBack<32> : AttendBack<64>)(n, heads, kv, segments, segment, window, sinks, q, k, v, out, sums, dout, dq, dk, dv, dsinks);
}

// Rows of x [., width] in bfloat16: out[i] = x[row[i]], zeros where row[i] is negative.
void gather(int64_t n, int64_t width, const int64_t* row, const float* x, uint16_t* out) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++)
    for (int64_t d = 0; d < width; d += 16) StoreHalf(out + i * width + d, row[i] < 0 ? _mm512_setzero_ps() : Load(x + row[i] * width + d));
}

// h [n, 2 inner] holds gate0, up0, gate1, ...; expert[i] says whose bias [., 2 inner] row i gets.
// out [n, inner] = min(gate, limit) sigmoid(alpha gate) (clamp(up, limit) + 1): models.md 1.5.
void swiglu(int64_t n, int64_t inner, const int64_t* expert, float alpha, float limit, const uint16_t* h, const float* bias, uint16_t* out) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0), odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const float* b = bias + expert[i] * 2 * inner;
    for (int64_t j = 0; j < inner; j += 16) {
      __m512i both = _mm512_loadu_si512(h + (i * inner + j) * 2);
      V b0 = Load(b + 2 * j), b1 = Load(b + 2 * j + 16);
      V gate = _mm512_add_ps(_mm512_castsi512_ps(_mm512_slli_epi32(both, 16)), _mm512_permutex2var_ps(b0, even, b1));
      V up = _mm512_add_ps(_mm512_castsi512_ps(_mm512_and_epi32(both, _mm512_set1_epi32(0xffff0000))), _mm512_permutex2var_ps(b0, odd, b1));
      gate = _mm512_min_ps(gate, Set(limit)), up = _mm512_max_ps(_mm512_min_ps(up, Set(limit)), Set(-limit));
      V e = Exp(_mm512_mul_ps(gate, Set(-alpha)));
      StoreHalf(out + i * inner + j, _mm512_div_ps(_mm512_mul_ps(gate, _mm512_add_ps(up, Set(1))), _mm512_add_ps(e, Set(1))));
    }
  }
}

// From the gradient of swiglu's out that of h; experts' biases are its sums.
void swiglu_back(int64_t n, int64_t inner, const int64_t* expert, float alpha, float limit, const uint16_t* h, const float* bias, const uint16_t* dout, uint16_t* dh) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0), odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const float* b = bias + expert[i] * 2 * inner;
    for (int64_t j = 0; j < inner; j += 16) {
      __m512i both = _mm512_loadu_si512(h + (i * inner + j) * 2);
      V b0 = Load(b + 2 * j), b1 = Load(b + 2 * j + 16), one = Set(1);
      V gate = _mm512_add_ps(_mm512_castsi512_ps(_mm512_slli_epi32(both, 16)), _mm512_permutex2var_ps(b0, even, b1));
      V up = _mm512_add_ps(_mm512_castsi512_ps(_mm512_and_epi32(both, _mm512_set1_epi32(0xffff0000))), _mm512_permutex2var_ps(b0, odd, b1));
      __mmask16 gate_moves = _mm512_cmp_ps_mask(gate, Set(limit), _CMP_LE_OQ), up_moves = _mm512_cmp_ps_mask(_mm512_abs_ps(up), Set(limit), _CMP_LE_OQ);
      gate = _mm512_min_ps(gate, Set(limit)), up = _mm512_max_ps(_mm512_min_ps(up, Set(limit)), Set(-limit));
      V sigmoid = _mm512_div_ps(one, _mm512_add_ps(Exp(_mm512_mul_ps(gate, Set(-alpha))), one));
      V g = LoadHalf(dout + i * inner + j);
      // d/dgate gate s(alpha gate) = s (1 + alpha gate (1 - s))
      V slope = _mm512_mul_ps(sigmoid, Fma(_mm512_mul_ps(gate, Set(alpha)), _mm512_sub_ps(one, sigmoid), one));
      V dgate = _mm512_maskz_mul_ps(gate_moves, g, _mm512_mul_ps(slope, _mm512_add_ps(up, one)));
      V dup = _mm512_maskz_mul_ps(up_moves, g, _mm512_mul_ps(gate, sigmoid));
      __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(dgate)), high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(dup));
      _mm512_storeu_si512(dh + (i * inner + j) * 2, _mm512_or_epi32(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

// y [n, width] = sum over its top places p of weight[p] (x[place[p]] + bias[expert[place[p]]]); x in bfloat16.
void combine(int64_t n, int64_t top, int64_t width, const int64_t* place, const int64_t* expert, const float* weight, const uint16_t* x, const float* bias, float* y) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++)
    for (int64_t d = 0; d < width; d += 16) {
      V sum = _mm512_setzero_ps();
      for (int64_t t = i * top; t < (i + 1) * top; t++) {
        V one = LoadHalf(x + place[t] * width + d);
        if (bias) one = _mm512_add_ps(one, Load(bias + expert[place[t]] * width + d));
        sum = weight ? Fma(one, Set(weight[t]), sum) : _mm512_add_ps(one, sum);
      }
      Store(y + i * width + d, sum);
    }
}

// From the gradient dy of combine's y that of x, whose other rows are zero, and of weight.
void combine_back(int64_t n, int64_t top, int64_t width, const int64_t* place, const int64_t* expert, const float* weight, const uint16_t* x, const float* bias, const float* dy, uint16_t* dx,
                  float* dweight) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++)
    for (int64_t t = i * top; t < (i + 1) * top; t++) {
      V sum = _mm512_setzero_ps();
      for (int64_t d = 0; d < width; d += 16) {
        V g = Load(dy + i * width + d);
        sum = Fma(g, _mm512_add_ps(LoadHalf(x + place[t] * width + d), Load(bias + expert[place[t]] * width + d)), sum);
        StoreHalf(dx + place[t] * width + d, _mm512_mul_ps(g, Set(weight[t])));
      }
      dweight[t] = _mm512_reduce_add_ps(sum);
    }
}

// y [n, width] = x scale weight, scale [n] = 1 / sqrt(mean(x^2) + eps).
void norm(int64_t n, int64_t width, float eps, const float* x, const float* weight, float* scale, float* y) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const float* a = x + i * width;
    V sum = _mm512_setzero_ps();
    for (int64_t d = 0; d < width; d += 16) sum = Fma(Load(a + d), Load(a + d), sum);
    scale[i] = 1 / std::sqrt(_mm512_reduce_add_ps(sum) / width + eps);
    for (int64_t d = 0; d < width; d += 16) Store(y + i * width + d, _mm512_mul_ps(_mm512_mul_ps(Load(a + d), Set(scale[i])), Load(weight + d)));
  }
}

// From the gradient of norm's y those of x and of weight, which starts at zero.
void norm_back(int64_t n, int64_t width, const float* x, const float* weight, const float* scale, const float* dy, float* dx, float* dweight) {
  std::vector<float> sums(omp_get_max_threads() * width);  // added up in their order: seeds decide everything
#pragma omp parallel
  {
    float* own = &sums[omp_get_thread_num() * width];
#pragma omp for schedule(static)
    for (int64_t i = 0; i < n; i++) {
      const float *a = x + i * width, *g = dy + i * width;
      V sum = _mm512_setzero_ps(), r = Set(scale[i]);
      for (int64_t d = 0; d < width; d += 16) {
        V both = _mm512_mul_ps(Load(g + d), Load(a + d));
        sum = Fma(both, Load(weight + d), sum);
        Store(own + d, Fma(both, r, Load(own + d)));
      }
      V mean = Set(_mm512_reduce_add_ps(sum) / width * scale[i] * scale[i]);
      for (int64_t d = 0; d < width; d += 16)
        Store(dx + i * width + d, _mm512_mul_ps(r, _mm512_sub_ps(_mm512_mul_ps(Load(g + d), Load(weight + d)), _mm512_mul_ps(Load(a + d), mean))));
    }
  }
  for (size_t i = 0; i < sums.size(); i++) dweight[i % width] += sums[i];
}

// loss [n] = -log softmax(x [n, width])[target]; x becomes the gradient of their mean.
void cross_entropy(int64_t n, int64_t width, const int64_t* target, float* x, float* loss) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++) {
    float *a = x + i * width, wanted = a[target[i]];
    auto seen = [&](int64_t d) { return width - d >= 16 ? 0xffff : (1 << (width - d)) - 1; };
    V most = Set(-INFINITY), sum = _mm512_setzero_ps();
    for (int64_t d = 0; d < width; d += 16) most = _mm512_max_ps(most, _mm512_mask_loadu_ps(most, seen(d), a + d));
    float m = _mm512_reduce_max_ps(most);
    for (int64_t d = 0; d < width; d += 16) {
      V e = Exp(_mm512_sub_ps(_mm512_maskz_loadu_ps(seen(d), a + d), Set(m)));
      sum = _mm512_mask_add_ps(sum, seen(d), sum, e);
      _mm512_mask_storeu_ps(a + d, seen(d), e);
    }
    float total = _mm512_reduce_add_ps(sum), scale = 1 / (total * n);
    for (int64_t d = 0; d < width; d += 16) _mm512_mask_storeu_ps(a + d, seen(d), _mm512_mul_ps(_mm512_maskz_loadu_ps(seen(d), a + d), Set(scale)));
    a[target[i]] -= 1.f / n;
    loss[i] = m + std::log(total) - wanted;
  }
}

// y [n, width] = x in bfloat16 + bias.
void widen(int64_t n, int64_t width, const uint16_t* x, const float* bias, float* y) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++)
    for (int64_t d = 0; d < width; d += 16) Store(y + i * width + d, _mm512_add_ps(LoadHalf(x + i * width + d), Load(bias + d)));
}

// y = x rounded to MXFP4, n blocks of 32: of the two exponents around largest/6 the one with the smaller error, as in mxfp4.py.
void mxfp4(int64_t n, const float* x, float* y) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++) {
    V a[2] = {Load(x + i * 32), Load(x + i * 32 + 16)}, best[2];
    float most = std::max(_mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a[0]), _mm512_abs_ps(a[1]))), 0x1p-100f);
    int high;
    if (std::frexp(most / 6, &high) == 0.5f) high--;
    float error = INFINITY;
    for (int exponent : {high, high - 1}) {
      V v[2], square = _mm512_setzero_ps();
      for (int k = 0; k < 2; k++) {
        V size = _mm512_scalef_ps(_mm512_abs_ps(a[k]), Set(-exponent));
        V step = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(size, Set(2), _CMP_LT_OQ), _mm512_mask_blend_ps(_mm512_cmp_ps_mask(size, Set(4), _CMP_LT_OQ), Set(2), Set(1)), Set(0.5f));
        V near = _mm512_min_ps(_mm512_mul_ps(_mm512_roundscale_ps(_mm512_div_ps(size, step), 0), step), Set(6));
        v[k] = _mm512_scalef_ps(near, Set(exponent));
        V d = _mm512_sub_ps(v[k], _mm512_abs_ps(a[k]));
        square = Fma(d, d, square);
      }
      float e = _mm512_reduce_add_ps(square);
      if (e < error) error = e, best[0] = v[0], best[1] = v[1];
    }
    for (int k = 0; k < 2; k++) {
      __m512i sign = _mm512_and_epi32(_mm512_castps_si512(a[k]), _mm512_set1_epi32(0x80000000));
      Store(y + i * 32 + 16 * k, _mm512_castsi512_ps(_mm512_or_epi32(_mm512_castps_si512(best[k]), sign)));
    }
  }
}

}  // extern "C"
