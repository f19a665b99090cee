#include "lines.h"

#ifdef PACKED

// popri_lines for a constant n, whose sums stay in registers.
INLINE void lines(int n, const uint16_t *a, int64_t stride, const uint16_t *b, int64_t depth, int first, float *sums,
                  int64_t width) {
  __m512 s[LINES][2];
#pragma GCC unroll 12
  for (int r = 0; r < n; r++) {
    s[r][0] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + r * width);
    s[r][1] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + r * width + 16);
  }
  for (int64_t kb = 0; kb < depth; kb++, a += BLOCK, b += 2 * TILE)
    for (int k = 0; k < BLOCK; k += 2) {
      __m512bh b0 = (__m512bh)_mm512_loadu_si512(b + k * 16), b1 = (__m512bh)_mm512_loadu_si512(b + TILE + k * 16);
#pragma GCC unroll 12
      for (int r = 0; r < n; r++) {
        int pair;
        memcpy(&pair, a + r * stride + k, sizeof pair);
        __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
        s[r][0] = _mm512_dpbf16_ps(s[r][0], x, b0);
        s[r][1] = _mm512_dpbf16_ps(s[r][1], x, b1);
      }
    }
#pragma GCC unroll 12
  for (int r = 0; r < n; r++) {
    _mm512_storeu_ps(sums + r * width, s[r][0]);
    _mm512_storeu_ps(sums + r * width + 16, s[r][1]);
  }
}

#define CASE(k)                                                                                                       \
  case k: lines(k, a, stride, b, depth, first, sums, width); break;

AVX void popri_lines(int n, const uint16_t *a, int64_t stride, const uint16_t *b, int64_t depth, int first, float *sums,
                     int64_t width) {
  switch (n) {
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
  }
}

// popri_wide_lines for a constant n.
INLINE void wide_lines(int n, const float *a, int64_t stride, const float *b, int64_t inputs, int first, float *sums) {
  __m512 s[LINES][2];
#pragma GCC unroll 12
  for (int r = 0; r < n; r++) {
    s[r][0] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + r * BLOCK);
    s[r][1] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + r * BLOCK + 16);
  }
  for (int64_t from = 0; from < inputs; from += BLOCK, b += 2 * TILE) {
    int64_t to = inputs - from < BLOCK ? inputs - from : BLOCK;
    for (int64_t k = 0; k < to; k++) {
      __m512 b0 = _mm512_loadu_ps(b + k * 16), b1 = _mm512_loadu_ps(b + TILE + k * 16);
#pragma GCC unroll 12
      for (int r = 0; r < n; r++) {
        __m512 x = _mm512_set1_ps(a[r * stride + from + k]);
        s[r][0] = _mm512_fmadd_ps(x, b0, s[r][0]);
        s[r][1] = _mm512_fmadd_ps(x, b1, s[r][1]);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < n; r++) {
    _mm512_storeu_ps(sums + r * BLOCK, s[r][0]);
    _mm512_storeu_ps(sums + r * BLOCK + 16, s[r][1]);
  }
}

#define WIDE(k)                                                                                                       \
  case k: wide_lines(k, a, stride, b, inputs, first, sums); break;

AVX void popri_wide_lines(int n, const float *a, int64_t stride, const float *b, int64_t inputs, int first,
                          float *sums) {
  switch (n) {
    WIDE(1) WIDE(2) WIDE(3) WIDE(4) WIDE(5) WIDE(6) WIDE(7) WIDE(8) WIDE(9) WIDE(10) WIDE(11) WIDE(12)
  }
}

#endif
