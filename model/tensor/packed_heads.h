// Keys and values of a head laid out as packed weights (packed.h), so that scores and blends are products with them.
#pragma once
#include "packed.h"

static inline int64_t rounded(int64_t n) { return (n + 31) / 32 * 32; }

#ifdef PACKED

// Transposes 16 × 16 words; rows of from are stride words apart, and those from n on count as zeros.
INLINE void transpose_words(const int32_t *from, int64_t stride, int n, int32_t *to) {
  __m512i r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) r[i] = i < n ? _mm512_loadu_si512(from + i * stride) : _mm512_setzero_si512();
  transpose(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) _mm512_storeu_si512(to + 16 * i, r[i]);
}

// Lays the keys of n tokens out as weights [dim, n]: row t of k, width apart, is token t.
INLINE void pack_keys(const uint16_t *k, int64_t width, int64_t n, int64_t dim, uint16_t *to) {
  for (int64_t t = 0; t < rounded(n); t += 16)
    for (int64_t d = 0; d < dim; d += BLOCK) {
      int64_t left = n - t;
      transpose_words((const int32_t *)(k + t * width + d), width / 2, left < 0 ? 0 : left < 16 ? (int)left : 16,
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

#endif
