// What products with packed weights have in common, on the matrix unit of the CPU (amx.c) and on its vector unit
// (packed.c): the layout, what happens to the sums before they are stored, and sums on the vector unit.
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

INLINE __m512 load_bf16(const uint16_t *p, __mmask16 m) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p)), 16));
}

INLINE void store_bf16(uint16_t *p, __mmask16 m, __m512 x) {
  _mm256_mask_storeu_epi16(p, m, (__m256i)_mm512_cvtneps_pbh(x));
}

// 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))
INLINE __m512 gelu_tanh(__m512 x) {
  __m512 cube = _mm512_mul_ps(_mm512_mul_ps(x, x), x);
  __m512 u = _mm512_mul_ps(_mm512_set1_ps(0.79788456080286536f), _mm512_fmadd_ps(_mm512_set1_ps(0.044715f), cube, x));
  // 1 + tanh(u) = 2/(1 + exp(-2u)) where u ≥ 0, and 2·exp(2u)/(1 + exp(2u)) elsewhere
  __m512 e = exp_negative(_mm512_mul_ps(_mm512_set1_ps(-2.0f), _mm512_abs_ps(u)));
  __m512 d = _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
  __mmask16 low = _mm512_cmp_ps_mask(u, _mm512_setzero_ps(), _CMP_LT_OQ);
  return _mm512_mask_mul_ps(d, low, d, e);
}

// x·Φ(x), with erf to 1.5e-7 (Abramowitz and Stegun 7.1.26).
INLINE __m512 gelu_erf(__m512 x) {
  __m512 one = _mm512_set1_ps(1.0f),
         d = _mm512_fmadd_ps(_mm512_set1_ps(0.3275911f * 0.70710678f), _mm512_abs_ps(x), one);
  __m512 t = _mm512_rcp14_ps(d);
  t = _mm512_mul_ps(t, _mm512_fnmadd_ps(d, t, _mm512_set1_ps(2.0f)));
  __m512 p = _mm512_set1_ps(0.5f * 1.061405429f);
  p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.5f * -1.453152027f));
  p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.5f * 1.421413741f));
  p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.5f * -0.284496736f));
  p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.5f * 0.254829592f));
  __m512 e = exp_negative(_mm512_mul_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(-0.5f)));
  __m512 low = _mm512_mul_ps(_mm512_mul_ps(_mm512_mul_ps(p, t), e), x); // x·Φ(-|x|)
  return _mm512_mask_sub_ps(low, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), x, low);
}

// The share of x that its negative loses, Φ(-|x|) or its tanh form, for results that are rounded to bfloat16: a
// parabola for each of PARTS parts up to PHI_END. Its error is below 2e-5.
enum { PARTS = 32 };
#define PHI_END 5.5f
extern float popri_phi[2][3][PARTS]; // of gelu's two forms, the parabola's constant, linear and quadratic factors

INLINE __m512 gelu_rough(__m512 x, const __m512 *phi) {
  __m512 at =
      _mm512_min_ps(_mm512_mul_ps(_mm512_abs_ps(x), _mm512_set1_ps(PARTS / PHI_END)), _mm512_set1_ps(PARTS - 0.001f));
  __m512i part = _mm512_cvttps_epi32(at);
  __m512 f = _mm512_sub_ps(at, _mm512_cvtepi32_ps(part));
#define PICK(k) _mm512_permutex2var_ps(phi[2 * k], part, phi[2 * k + 1])
  __m512 low = _mm512_mul_ps(x, _mm512_fmadd_ps(_mm512_fmadd_ps(PICK(2), f, PICK(1)), f, PICK(0)));
#undef PICK
  return _mm512_mask_sub_ps(low, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), x, low);
}

// phi is given for results that are rounded.
INLINE __m512 activate(int act, const __m512 *phi, __m512 x) {
  switch (act) {
  case ACT_GELU_TANH: return phi ? gelu_rough(x, phi) : gelu_tanh(x);
  case ACT_GELU: return phi ? gelu_rough(x, phi) : gelu_erf(x);
  case ACT_RELU: return _mm512_max_ps(x, _mm512_setzero_ps());
  }
  return x;
}

// Adds the bias to both halves of rows × 32 sums and stores silu(first)·second, 16 a row.
INLINE void finish_gated(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column) {
  int64_t n = column / 2, width = g->out / 2;
  __m512 zero = _mm512_setzero_ps(), one = _mm512_set1_ps(1.0f), b0 = g->bias ? _mm512_loadu_ps(g->bias + n) : zero,
         b1 = g->bias ? _mm512_loadu_ps(g->bias + width + n) : zero;
  for (int r = 0; r < rows; r++) {
    __m512 gate = _mm512_add_ps(_mm512_loadu_ps(sums + r * BLOCK), b0),
           x = _mm512_add_ps(_mm512_loadu_ps(sums + r * BLOCK + 16), b1);
    // σ(gate) = 1/(1 + exp(-gate)) where gate ≥ 0, and exp(gate)/(1 + exp(gate)) elsewhere
    __m512 e = exp_negative(_mm512_sub_ps(zero, _mm512_abs_ps(gate)));
    __m512 y = _mm512_mul_ps(_mm512_div_ps(gate, _mm512_add_ps(one, e)), x);
    y = _mm512_mask_mul_ps(y, _mm512_cmp_ps_mask(gate, zero, _CMP_LT_OQ), y, e);
    int64_t at = (row + r) * width + n;
    if (g->y_bf16)
      store_bf16((uint16_t *)g->y + at, 0xffff, y);
    else
      _mm512_storeu_ps((float *)g->y + at, y);
  }
}

// Adds the bias, applies the activation, adds the residual and stores rows × 32 sums.
INLINE void finish_as(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column, int act,
                      int residual, int half) {
  const float *bias = g->bias, *r32 = g->residual;
  const uint16_t *r16 = g->residual;
  float *y32 = g->y;
  uint16_t *y16 = g->y;
  int64_t out = g->out;
  __m512 phi[6];
  int rough = half && (act == ACT_GELU || act == ACT_GELU_TANH);
  if (rough)
    for (int k = 0; k < 6; k++) phi[k] = _mm512_loadu_ps(popri_phi[act == ACT_GELU_TANH][k / 2] + k % 2 * 16);
  for (int side = 0; side < 2; side++) {
    int64_t n = column + 16 * side, at = row * out + n;
    if (n >= out) return;
    __mmask16 m = up_to(out - n);
    __m512 b = bias ? _mm512_maskz_loadu_ps(m, bias + n) : _mm512_setzero_ps();
    for (int r = 0; r < rows; r++, at += out) {
      __m512 x = activate(act, rough ? phi : 0, _mm512_add_ps(_mm512_loadu_ps(sums + r * BLOCK + 16 * side), b));
      if (residual == 4) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(m, r32 + at));
      if (residual == 2) x = _mm512_add_ps(x, load_bf16(r16 + at, m));
      if (half)
        store_bf16(y16 + at, m, x);
      else
        _mm512_mask_storeu_ps(y32 + at, m, x);
    }
  }
}

// finish_as with a loop of its own for each way that models use.
INLINE void finish(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column) {
  int residual = !g->residual ? 0 : g->residual_bf16 ? 2 : 4; // bytes of a value
#define WAY(a, bytes, half)                                                                                           \
  if (g->act == a && residual == bytes && !g->y_bf16 == !half) {                                                      \
    finish_as(g, sums, row, rows, column, a, bytes, half);                                                            \
    return;                                                                                                           \
  }
  WAY(ACT_NONE, 0, 0)
  WAY(ACT_NONE, 0, 1)
  WAY(ACT_NONE, 2, 1)
  WAY(ACT_NONE, 4, 0)
  WAY(ACT_GELU, 0, 1)
  WAY(ACT_GELU_TANH, 0, 1)
#undef WAY
  finish_as(g, sums, row, rows, column, g->act, residual, g->y_bf16);
}

// Splits rows × depth·32 inputs into planes of bfloat16, [plane][row][depth·32], with zeros where there are none.
INLINE void split(const popri_product *g, int64_t row, int rows, int64_t padded, uint16_t *parts, int64_t plane) {
  for (int r = 0; r < rows; r++)
    for (int64_t k = 0; k < padded; k += 16) {
      __mmask16 m = up_to(g->in - k);
      int64_t at = (row + r) * g->in + k;
      if (g->x_bf16) {
        _mm256_storeu_si256((__m256i *)(parts + r * padded + k),
                            _mm256_maskz_loadu_epi16(m, (const uint16_t *)g->x + at));
        continue;
      }
      __m512 x = _mm512_maskz_loadu_ps(m, (const float *)g->x + at);
      for (int p = 0; p < g->planes; p++) {
        __m256i part = (__m256i)_mm512_cvtneps_pbh(x);
        _mm256_storeu_si256((__m256i *)(parts + p * plane + r * padded + k), part);
        x = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(part), 16)));
      }
    }
}

// Elements of g's inputs, split; none where weights are float32.
static inline int64_t parts_of(const popri_product *g) {
  return (g->rows + BLOCK - 1) / BLOCK * BLOCK * ((g->in + BLOCK - 1) / BLOCK * BLOCK) * g->planes;
}

enum { LINES = 12 }; // rows of sums that the registers hold, 32 a row

// Adds depth blocks of products to n × 32 sums, width apart, n up to LINES. The first chunk has none yet. Rows of a are
// stride apart. A row's sums do not depend on the others.
AVX void popri_lines(int n, const uint16_t *a, int64_t stride, const uint16_t *b, int64_t depth, int first, float *sums,
                     int64_t width);

#endif
