// What products with packed weights have in common, on the matrix unit of the CPU (amx.c) and on its vector unit
// (packed.c, packed8.c): the layout, what happens to the sums before they are stored, and sums on the vector unit.
#pragma once
#include "bf16.h"

// PACKED is defined where the compiler knows the instructions.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && (defined(__clang__) || __GNUC__ >= 11)
#define PACKED

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define AVX __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define INLINE AVX static inline __attribute__((always_inline))

enum { BLOCK = 32, TILE = 512 }; // columns and depth of a block; elements of a tile

// exp on (-inf, 0], as in vector.h.
INLINE __m512 exp_negative(__m512 x) {
  x = _mm512_max_ps(x, _mm512_set1_ps(-87.0f));
  __m512 y = _mm512_mul_ps(x, _mm512_set1_ps(1.44269504088896341f));
  __m512 k = _mm512_roundscale_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 f = _mm512_mul_ps(_mm512_sub_ps(y, k), _mm512_set1_ps(0.69314718055994531f));
  __m512 p = _mm512_set1_ps(0.00138888889f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.00833333333f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.0416666667f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.166666667f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, k);
}

INLINE __mmask16 up_to(int64_t n) { return n >= 16 ? 0xffff : n > 0 ? (__mmask16)((1u << n) - 1) : 0; }

INLINE __m512 widen(__m256i bf16) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16)); }

INLINE __m512 load_bf16(const uint16_t *p, __mmask16 m) { return widen(_mm256_maskz_loadu_epi16(m, p)); }

INLINE void store_bf16(uint16_t *p, __mmask16 m, __m512 x) {
  _mm256_mask_storeu_epi16(p, m, (__m256i)_mm512_cvtneps_pbh(x));
}

// What is done with rows × 32 sums, BLOCK apart, before they are stored in g->y: bias, activation and residual. They are
// those of row and column on.
typedef void finisher(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column);

// The finisher of products with g's activation, residual and types (finish.c).
finisher *popri_finisher(const popri_product *g);

enum { LINES = 12 }; // rows of sums that the registers hold, 32 a row

// Adds depth blocks of products to n × 32 sums, width apart, n up to LINES. The first chunk has none yet. Rows of a are
// stride apart. A row's sums do not depend on the others.
AVX void popri_lines(int n, const uint16_t *a, int64_t stride, const uint16_t *b, int64_t depth, int first, float *sums,
                     int64_t width);

#endif
