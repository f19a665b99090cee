#include "torch.h"
#include "packed.h"

// What happens to the sums of products with packed weights before they are stored.

#ifdef PACKED

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
static float parabola[2][3][PARTS]; // of gelu's two forms, the parabola's constant, linear and quadratic factors

static double phi(int tanh_form, double x) {
  return tanh_form ? 1 / (1 + exp(2 * 0.79788456080286536 * (x + 0.044715 * x * x * x)))
                   : 0.5 * erfc(x * 0.70710678118654752);
}

// The parabolas through three points of each part.
__attribute__((constructor)) static void fill_phi(void) {
  for (int form = 0; form < 2; form++)
    for (int i = 0; i < PARTS; i++) {
      double u = 0.0669873, step = PHI_END / PARTS, y[3]; // Chebyshev's points: u, ½ and 1 - u
      for (int k = 0; k < 3; k++) y[k] = phi(form, (i + u + k * (0.5 - u)) * step);
      double c = (y[2] - 2 * y[1] + y[0]) / 2 / ((0.5 - u) * (0.5 - u)), b = (y[1] - y[0]) / (0.5 - u) - c * (u + 0.5);
      parabola[form][0][i] = (float)(y[0] - b * u - c * u * u);
      parabola[form][1][i] = (float)b;
      parabola[form][2][i] = (float)c;
    }
}

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
AVX static void finish_gated(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column) {
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
    if (g->tiles && g->planes == 1) _mm_prefetch((char *)g->y + (at + BLOCK) * (g->y_bf16 ? 2 : 4), _MM_HINT_T1);
    if (g->y_bf16)
      store_bf16((uint16_t *)g->y + at, 0xffff, y);
    else
      _mm512_storeu_ps((float *)g->y + at, y);
  }
}

// Stores 16 values of a row, on one side of its 32, at the element at, and has the next block's line of the result
// fetched: a step of bfloat16 products takes less time than a line that is not in the cache.
INLINE void put(const popri_product *g, int half, int side, int64_t at, __mmask16 m, __m512 x) {
  if (g->tiles && g->planes == 1 && !(half && side))
    _mm_prefetch((const char *)g->y + (at + BLOCK) * (half ? 2 : 4), _MM_HINT_T1);
  if (half)
    store_bf16((uint16_t *)g->y + at, m, x);
  else
    _mm512_mask_storeu_ps((float *)g->y + at, m, x);
}

// Adds the bias, applies the activation, adds the residual and stores rows × 32 sums.
INLINE void finish_as(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column, int act,
                      int residual, int half) {
  const float *bias = g->bias, *r32 = g->residual;
  const uint16_t *r16 = g->residual;
  int64_t out = g->out;
  __m512 phi[6];
  int rough = half && (act == ACT_GELU || act == ACT_GELU_TANH);
  if (rough)
    for (int k = 0; k < 6; k++) phi[k] = _mm512_loadu_ps(parabola[act == ACT_GELU_TANH][k / 2] + k % 2 * 16);
  for (int side = 0; side < 2; side++) {
    int64_t n = column + 16 * side, at = row * out + n;
    if (n >= out) return;
    __mmask16 m = up_to(out - n);
    __m512 b = bias ? _mm512_maskz_loadu_ps(m, bias + n) : _mm512_setzero_ps();
    for (int r = 0; r < rows; r++, at += out) {
      __m512 x = activate(act, rough ? phi : 0, _mm512_add_ps(_mm512_loadu_ps(sums + r * BLOCK + 16 * side), b));
      if (residual == 4) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(m, r32 + at));
      if (residual == 2) x = _mm512_add_ps(x, load_bf16(r16 + at, m));
      put(g, half, side, at, m, x);
    }
  }
}

// Finishers with a loop of their own for each way that models use.
#define WAYS(W)                                                                                                       \
  W(plain_float, ACT_NONE, 0, 0)                                                                                      \
  W(plain, ACT_NONE, 0, 1)                                                                                            \
  W(add, ACT_NONE, 2, 1)                                                                                              \
  W(add_float, ACT_NONE, 4, 0)                                                                                        \
  W(gelu, ACT_GELU, 0, 1)                                                                                             \
  W(gelu_tanh_form, ACT_GELU_TANH, 0, 1)
#define DEFINE(name, a, bytes, half)                                                                                  \
  AVX static void name(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column) {            \
    finish_as(g, sums, row, rows, column, a, bytes, half);                                                            \
  }
WAYS(DEFINE)

// Bytes of a value of the residual.
static int residual_of(const popri_product *g) { return !g->residual ? 0 : g->residual_bf16 ? 2 : 4; }

AVX static void any(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column) {
  finish_as(g, sums, row, rows, column, g->act, residual_of(g), g->y_bf16);
}

// adapted for a constant number of rows, up to 4.
INLINE void adapted_rows(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column) {
  const popri_low_rank *a = &g->added;
  for (int side = 0; side < 2; side++) {
    int64_t n = column + 16 * side, at = row * g->out + n;
    if (n >= g->out) return;
    __mmask16 m = up_to(g->out - n);
    __m512 x[4], b = g->bias ? _mm512_maskz_loadu_ps(m, g->bias + n) : _mm512_setzero_ps();
    for (int r = 0; r < rows; r++) x[r] = _mm512_add_ps(_mm512_loadu_ps(sums + r * BLOCK + 16 * side), b);
    const float *low = a->low + row * a->ranks, *up = a->up;
    for (int i = 0; i < a->parts; low += a->rank[i], up += a->rank[i] * a->width[i], i++) {
      int64_t first = n - a->offset[i]; // of the part's columns; negative where the part begins later
      __mmask16 part = up_to(a->width[i] - first) & ~up_to(-first);
      if (!part) continue;
      for (int64_t k = 0; k < a->rank[i]; k++) {
        __m512 u = _mm512_maskz_loadu_ps(part, up + k * a->width[i] + first);
        for (int r = 0; r < rows; r++) x[r] = _mm512_fmadd_ps(_mm512_set1_ps(low[r * a->ranks + k]), u, x[r]);
      }
    }
    for (int r = 0; r < rows; r++, at += g->out) put(g, g->y_bf16, side, at, m, x[r]);
  }
}

// Adds the bias and what an adapter changes, and stores rows × 32 sums.
AVX static void adapted(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column) {
  for (; rows >= 4; rows -= 4, row += 4, sums += 4 * BLOCK) adapted_rows(g, sums, row, 4, column);
  for (; rows >= 2; rows -= 2, row += 2, sums += 2 * BLOCK) adapted_rows(g, sums, row, 2, column);
  if (rows) adapted_rows(g, sums, row, 1, column);
}

finisher *popri_finisher(const popri_product *g) {
  if (g->gated) return finish_gated;
  if (g->added.parts) return adapted;
#define CHOOSE(name, a, bytes, half)                                                                                  \
  if (g->act == a && residual_of(g) == bytes && !g->y_bf16 == !half) return name;
  WAYS(CHOOSE)
  return any;
}

#endif
