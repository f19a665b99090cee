// The layout of packed weights, and instructions that several kernels for them use.
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

// The words of two rows side by side: row 0's word 0, row 1's word 0, row 0's word 1, … both has row 0's in its lower
// half.
INLINE __m512i side_by_side(__m512i both) {
  static const uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                     8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_loadu_si512(order), both);
}

// Transposes 16 × 16 words of 32 bits.
INLINE void transpose(__m512i *r) {
  __m512i t[16];
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
    t[i] = _mm512_shuffle_i32x4(a, c, 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(b, d, 0x88);
    t[8 + i] = _mm512_shuffle_i32x4(a, c, 0xdd);
    t[12 + i] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) r[i] = t[i];
}

// Elements at, up to 16 of them, of a matrix in float32 or bfloat16.
INLINE __m512 elements(const void *p, int bf16, int64_t at, __mmask16 m) {
  return bf16 ? load_bf16((const uint16_t *)p + at, m) : _mm512_maskz_loadu_ps(m, (const float *)p + at);
}

// The next part, of 8 bits, of x in the lower half and of y in the upper one, which lose it.
INLINE __m512i next_part(__m512 *x, __m512 *y) {
  __m512i both = (__m512i)_mm512_cvtne2ps_pbh(*y, *x);
  *x = _mm512_sub_ps(*x, widen(_mm512_castsi512_si256(both)));
  *y = _mm512_sub_ps(*y, widen(_mm512_extracti64x4_epi64(both, 1)));
  return both;
}

// Elements of uint16_t of a block of weights: those in float32 (no planes) have two each.
static inline int64_t block_size(int planes) { return 2 * TILE * (planes ? planes : 2); }

#endif
