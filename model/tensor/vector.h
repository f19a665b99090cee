// What the kernels have in common: vectors of floats, exp.
#pragma once
#include "bf16.h"
#include <math.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

// LANES floats at once, as the compiler's vector type: one register of the instruction set that includes this (sets.h).
// Types of another width than a register's would be in memory.
typedef float floats __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t ints __attribute__((vector_size(4 * LANES), aligned(4)));
typedef uint32_t words __attribute__((vector_size(4 * LANES), aligned(4)));
typedef uint16_t halves __attribute__((vector_size(2 * LANES), aligned(2)));
#define INLINE static inline __attribute__((always_inline))
// The kernel name for rows [from, to) of what a type says, as f does it for each type of elements.
#define BOTH_TYPES(name, type, f)                                                                                     \
  void name(const void *rows, int64_t from, int64_t to) {                                                             \
    const type *p = rows;                                                                                             \
    if (p->bf16)                                                                                                      \
      f(p, from, to, 1);                                                                                              \
    else                                                                                                              \
      f(p, from, to, 0);                                                                                              \
  }

enum { AHEAD = 2048 }; // elements of a long row

// Has the line of element i fetched into the second-level cache: the CPU does not guess what is read next where rows are
// short, heads are far apart, or a page ends.
INLINE void soon(const void *p, int64_t i, int bf16) {
  __builtin_prefetch((const char *)p + i * (bf16 ? 2 : 4), 0, 2);
}

// exp on (-inf, 0]: 2^(x·log2 e) with a degree-6 polynomial for the fraction, relative error below 3e-7.
#define EXP_BODY(F, I, TO_INT, TO_FLOAT)                                                                            \
  F y = x * 1.44269504088896341f;                                                                                   \
  I k = TO_INT(y - 0.5f); /* towards zero from below: the nearest integer, as y <= 0 */                             \
  F f = (y - TO_FLOAT(k)) * 0.69314718055994531f;                                                                   \
  F p = 0.0416666667f + f * (0.00833333333f + f * 0.00138888889f);                                                  \
  p = 1.0f + f * (1.0f + f * (0.5f + f * (0.166666667f + f * p)));

INLINE float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  EXP_BODY(float, int32_t, (int32_t), (float))
  union {
    int32_t i;
    float f;
  } scale = {(k + 127) << 23};
  return p * scale.f;
}

#define TO_INTS(v) __builtin_convertvector(v, ints)
#define TO_FLOATS(v) __builtin_convertvector(v, floats)

INLINE void exp_floats(const float *in, float max, float factor, float *out, floats *sum) {
  floats x = (*(const floats *)in - max) * factor;
  ints low = x < -87.0f;
  floats least = (floats){0} - 87.0f;
  x = (floats)(((ints)x & ~low) | ((ints)least & low));
  EXP_BODY(floats, ints, TO_INTS, TO_FLOATS)
  floats e = p * (floats)((k + 127) << 23);
  *(floats *)out = e;
  *sum += e;
}

static float max_of(const float *x, int n) {
  float best[LANES];
  for (int k = 0; k < LANES; k++) best[k] = -INFINITY;
  int i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) best[k] = x[i + k] > best[k] ? x[i + k] : best[k];
  for (; i < n; i++) best[0] = x[i] > best[0] ? x[i] : best[0];
  for (int k = 1; k < LANES; k++) best[0] = best[k] > best[0] ? best[k] : best[0];
  return best[0];
}

static float exp_sum(float *e, const float *x, int n, float max, float k) {
  floats part = {0};
  int i = 0;
  for (; i + LANES <= n; i += LANES) exp_floats(x + i, max, k, e + i, &part);
  float total = 0;
  for (; i < n; i++) total += e[i] = fast_exp((x[i] - max) * k);
  for (int j = 0; j < LANES; j++) total += part[j];
  return total;
}

// The compiler makes no vectors of calls of sqrtf, which may set errno.
INLINE floats roots(floats x) {
#if !defined __x86_64__
  for (int k = 0; k < LANES; k++) x[k] = sqrtf(x[k]);
  return x;
#elif LANES == 16
  return (floats)_mm512_sqrt_ps((__m512)x);
#elif LANES == 8
  return (floats)_mm256_sqrt_ps((__m256)x);
#else
  return (floats)_mm_sqrt_ps((__m128)x);
#endif
}

// GCC converts 16 values in halves.
#if defined __x86_64__ && LANES == 16
#define WHOLE_CONVERSIONS
#endif

INLINE floats load(const void *p, int64_t at, int bf16) {
  if (!bf16) return *(const floats *)((const float *)p + at);
#ifdef WHOLE_CONVERSIONS
  return (floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((void *)((const uint16_t *)p + at))), 16);
#else
  return (floats)(__builtin_convertvector(*(const halves *)((const uint16_t *)p + at), ints) << 16);
#endif
}

INLINE float value(const void *p, int64_t at, int bf16) {
  return bf16 ? from_bf16(((const uint16_t *)p)[at]) : ((const float *)p)[at];
}

INLINE void store_floats(void *p, int64_t at, floats x, int bf16) {
  if (!bf16) {
    *(floats *)((float *)p + at) = x;
    return;
  }
  ints u = (ints)x;
  u = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
#ifdef WHOLE_CONVERSIONS
  __mmask16 no_number = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
  u = (ints)_mm512_mask_mov_epi32((__m512i)u, no_number, _mm512_set1_epi32(0x7fc0));
  _mm256_storeu_si256((void *)((uint16_t *)p + at), _mm512_cvtepi32_epi16((__m512i)u));
#else
  ints nan = x != x;
  *(halves *)((uint16_t *)p + at) = __builtin_convertvector((u & ~nan) | (nan & 0x7fc0), halves);
#endif
}

INLINE void store(void *p, int64_t at, float x, int bf16) {
  if (bf16)
    ((uint16_t *)p)[at] = to_bf16(x);
  else
    ((float *)p)[at] = x;
}
