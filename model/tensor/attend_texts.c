#include "torch.h"
#include "profile.h"
#include "packed.h"

// Attention within texts that lie behind each other without padding, in bfloat16 with float32 scores and sums. Keys and
// values of a head are laid out as packed weights, so that scores and blends are products with them.

static int64_t rounded(int64_t n) { return (n + 31) / 32 * 32; }

// Bytes for texts of up to most tokens: keys, values, 12 rows of scores and of shares, and their blends.
int64_t popri_attend_texts_scratch(int64_t most, int64_t dim) {
  return rounded(most) * (4 * dim + 12 * 6) + 12 * dim * 4 + 64;
}

#ifdef PACKED

// Transposes 16 × 16 words; rows of from are stride words apart, and those from n on count as zeros.
INLINE void transpose(const int32_t *from, int64_t stride, int n, int32_t *to) {
  __m512i r[16], t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) r[i] = i < n ? _mm512_loadu_si512(from + i * stride) : _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    __m512i a = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88), b = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
    __m512i c = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88), d = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    _mm512_storeu_si512(to + 16 * i, _mm512_shuffle_i32x4(a, c, 0x88));
    _mm512_storeu_si512(to + 16 * (4 + i), _mm512_shuffle_i32x4(b, d, 0x88));
    _mm512_storeu_si512(to + 16 * (8 + i), _mm512_shuffle_i32x4(a, c, 0xdd));
    _mm512_storeu_si512(to + 16 * (12 + i), _mm512_shuffle_i32x4(b, d, 0xdd));
  }
}

// Lays the keys of n tokens out as weights [dim, n]: row t of k, width apart, is token t.
INLINE void pack_keys(const uint16_t *k, int64_t width, int64_t n, int64_t dim, uint16_t *to) {
  for (int64_t t = 0; t < rounded(n); t += 16)
    for (int64_t d = 0; d < dim; d += BLOCK) {
      int64_t left = n - t;
      transpose((const int32_t *)(k + t * width + d), width / 2, left < 0 ? 0 : left < 16 ? (int)left : 16,
                (int32_t *)(to + (t / BLOCK * (dim / BLOCK) + d / BLOCK) * 2 * TILE + t / 16 % 2 * TILE));
    }
}

// Lays the values of n tokens out as weights [n, dim].
INLINE void pack_values(const uint16_t *v, int64_t width, int64_t n, int64_t dim, uint16_t *to) {
  __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36,
                                 4, 35, 3, 34, 2, 33, 1, 32, 0);
  __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16)), zero = _mm512_setzero_si512();
  int64_t depth = rounded(n) / BLOCK;
  for (int64_t t = 0; t < rounded(n); t += 2)
    for (int64_t d = 0; d < dim; d += BLOCK) {
      uint16_t *at = to + (d / BLOCK * depth + t / BLOCK) * 2 * TILE + t % BLOCK * 16;
      __m512i a = t < n ? _mm512_loadu_si512(v + t * width + d) : zero;
      __m512i b = t + 1 < n ? _mm512_loadu_si512(v + (t + 1) * width + d) : zero;
      _mm512_storeu_si512(at, _mm512_permutex2var_epi16(a, low, b));
      _mm512_storeu_si512(at + TILE, _mm512_permutex2var_epi16(a, high, b));
    }
}

// exp(scores - their maximum) of n scores, in bfloat16 with zeros up to a multiple of 32, and one over their sum.
INLINE float shares(float *scores, const float *bias, int64_t n, uint16_t *out) {
  __m512 most = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
  for (int64_t t = 0; t < n; t += 16) {
    __mmask16 m = up_to(n - t);
    __m512 x = _mm512_maskz_loadu_ps(m, scores + t);
    if (bias) _mm512_storeu_ps(scores + t, x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(m, bias + t)));
    most = _mm512_mask_max_ps(most, m, most, x);
  }
  most = _mm512_set1_ps(_mm512_reduce_max_ps(most));
  for (int64_t t = 0; t < rounded(n); t += 16) {
    __mmask16 m = up_to(n - t);
    __m512 e = _mm512_maskz_mov_ps(m, exp_negative(_mm512_sub_ps(_mm512_loadu_ps(scores + t), most)));
    sum = _mm512_add_ps(sum, e);
    store_bf16(out + t, 0xffff, e);
  }
  return 1.0f / _mm512_reduce_add_ps(sum);
}

AVX void popri_attend_texts(int from, int to, const int32_t *starts, int heads, int64_t dim, const uint16_t *qkv,
                            const float *bias, int64_t most, uint16_t *out, void *scratch) {
  OPERATION("popri::attend_texts");
  int64_t all = heads * dim, width = 3 * all;
  for (int i = from; i < to; i++) {
    int64_t n = starts[i + 1] - starts[i], room = rounded(n), depth = room / BLOCK;
    uint16_t *keys = (uint16_t *)(((uintptr_t)scratch + 63) / 64 * 64), *values = keys + room * dim,
             *p = values + room * dim;
    float *scores = (float *)(p + LINES * room), *blends = scores + LINES * room;
    for (int h = 0; h < heads; h++) {
      const uint16_t *q = qkv + starts[i] * width + h * dim;
      pack_keys(q + all, width, n, dim, keys);
      pack_values(q + 2 * all, width, n, dim, values);
      for (int64_t r = 0; r < n; r += LINES) {
        int rows = n - r < LINES ? (int)(n - r) : LINES;
        for (int64_t b = 0; b < depth; b++)
          popri_lines(rows, q + r * width, width, keys + b * BLOCK * dim, dim / BLOCK, 1, scores + b * BLOCK, room);
        float scale[LINES];
        for (int k = 0; k < rows; k++)
          scale[k] = shares(scores + k * room, bias ? bias + (h * most + r + k) * most : 0, n, p + k * room);
        for (int64_t d = 0; d < dim; d += BLOCK)
          popri_lines(rows, p, room, values + d * room, depth, 1, blends + d, dim);
        for (int k = 0; k < rows; k++)
          for (int64_t d = 0; d < dim; d += 16)
            store_bf16(out + (starts[i] + r + k) * all + h * dim + d, 0xffff,
                       _mm512_mul_ps(_mm512_loadu_ps(blends + k * dim + d), _mm512_set1_ps(scale[k])));
      }
    }
  }
}

#else

void popri_attend_texts(int from, int to, const int32_t *starts, int heads, int64_t dim, const uint16_t *qkv,
                        const float *bias, int64_t most, uint16_t *out, void *scratch) {}

#endif
