#include "torch.h"
#include "finish.h"
#ifdef PACKED
#include "sigmoid.h"
#endif

// What happens to the sums of products with packed weights before they are stored.

#ifdef PACKED

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

// The fraction of x that its negative loses, Φ(-|x|), for results that are rounded to bfloat16: a parabola for each of
// PARTS parts up to PHI_END. Its error is below 2e-5.
enum { PARTS = 32 };
#define PHI_END 5.5f
static float parabola[3][PARTS]; // the parabola's constant, linear and quadratic factors

// The parabolas through three points of each part.
__attribute__((constructor)) static void fill_phi(void) {
  for (int i = 0; i < PARTS; i++) {
    double u = 0.0669873, step = PHI_END / PARTS, y[3]; // Chebyshev's points: u, ½ and 1 - u
    for (int k = 0; k < 3; k++) y[k] = 0.5 * erfc((i + u + k * (0.5 - u)) * step * 0.70710678118654752);
    double c = (y[2] - 2 * y[1] + y[0]) / 2 / ((0.5 - u) * (0.5 - u)), b = (y[1] - y[0]) / (0.5 - u) - c * (u + 0.5);
    parabola[0][i] = (float)(y[0] - b * u - c * u * u);
    parabola[1][i] = (float)b;
    parabola[2][i] = (float)c;
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
  case ACT_GELU: return phi ? gelu_rough(x, phi) : gelu_erf(x);
  case ACT_RELU: return _mm512_max_ps(x, _mm512_setzero_ps());
  }
  return x;
}

// Stores 16 values of a row, on one side of its 32, at the element at, and has the next block's line of the result
// fetched: a step of bfloat16 products takes less time than a line that is not in the cache.
INLINE void put(const popri_product *g, void *y, int half, int side, int64_t at, __mmask16 m, __m512 x) {
  if (g->tiles && g->planes == 1 && !(half && side))
    _mm_prefetch((const char *)y + (at + BLOCK) * (half ? 2 : 4), _MM_HINT_T1);
  if (half)
    store_bf16((uint16_t *)y + at, m, x);
  else
    _mm512_mask_storeu_ps((float *)y + at, m, x);
}

// Adds the bias, applies the activation, adds the residual and stores rows × 32 sums.
INLINE void finish_as(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column, int act,
                      int residual, int half) {
  const float *bias = g->bias, *r32 = g->residual;
  const uint16_t *r16 = g->residual;
  int64_t out = g->out;
  __m512 phi[6];
  int rough = half && act == ACT_GELU;
  if (rough)
    for (int k = 0; k < 6; k++) phi[k] = _mm512_loadu_ps(parabola[k / 2] + k % 2 * 16);
  for (int side = 0; side < 2; side++) {
    int64_t n = column + 16 * side, at = row * out + n;
    if (n >= out) return;
    __mmask16 m = up_to(out - n);
    __m512 b = bias ? _mm512_maskz_loadu_ps(m, bias + n) : _mm512_setzero_ps();
    for (int r = 0; r < rows; r++, at += out) {
      __m512 x = activate(act, rough ? phi : 0, _mm512_add_ps(_mm512_loadu_ps(sums + r * BLOCK + 16 * side), b));
      if (residual) _mm_prefetch((const char *)g->residual + (at + BLOCK) * residual, _MM_HINT_T1);
      if (residual == 4) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(m, r32 + at));
      if (residual == 2) x = _mm512_add_ps(x, load_bf16(r16 + at, m));
      put(g, g->y, half, side, at, m, x);
    }
  }
}

// Finishers with a loop of their own for each way that models use.
#define WAYS(W)                                                                                                       \
  W(plain_float, ACT_NONE, 0, 0)                                                                                      \
  W(plain, ACT_NONE, 0, 1)                                                                                            \
  W(add, ACT_NONE, 2, 1)                                                                                              \
  W(add_float, ACT_NONE, 4, 0)                                                                                        \
  W(gelu, ACT_GELU, 0, 1)
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

INLINE __m512 sigmoid(__m512 x, int half) {
  if (half) return rough_sigmoid(x);
  // 1/(1 + exp(-x)) where x ≥ 0, and exp(x)/(1 + exp(x)) elsewhere
  __m512 one = _mm512_set1_ps(1.0f), zero = _mm512_setzero_ps();
  __m512 e = exp_negative(_mm512_sub_ps(zero, _mm512_abs_ps(x)));
  return _mm512_div_ps(_mm512_mask_mov_ps(one, _mm512_cmp_ps_mask(x, zero, _CMP_LT_OQ), e), _mm512_add_ps(one, e));
}

// As a matrix of bfloat16 would hold it.
INLINE __m512 rounded_if(int half, __m512 x) { return half ? widen((__m256i)_mm512_cvtneps_pbh(x)) : x; }

// What is done with sums to which the bias and the adapter's part were added: nothing, an activation, or the gradient
// of one. In bfloat16, activations are applied to what a matrix would hold, whether it is kept or not, so that a pass
// with gradients has the results of one without.
typedef enum { CHANGED, GELU, GATES, GELU_GRAD, GATES_GRAD } change;

// Stores the 32 values of a row that two vectors hold, and of which m says which there are, at the element at. The next
// block's line is fetched, as put does it.
INLINE void put_both(const popri_product *g, void *y, int half, int64_t at, __mmask32 m, __m512 x0, __m512 x1) {
  if (!half) {
    put(g, y, 0, 0, at, (__mmask16)m, x0);
    put(g, y, 0, 1, at + 16, (__mmask16)(m >> 16), x1);
    return;
  }
  if (g->tiles && g->planes == 1) _mm_prefetch((const char *)((uint16_t *)y + at + BLOCK), _MM_HINT_T1);
  _mm512_mask_storeu_epi16((uint16_t *)y + at, m, (__m512i)_mm512_cvtne2ps_pbh(x1, x0));
}

// The same past the caches, where the values fill lines: for what is read much later.
INLINE void stream_both(void *y, int half, int64_t at, __mmask32 m, __m512 x0, __m512 x1) {
  char *to = (char *)y + at * (half ? 2 : 4);
  int whole = (uintptr_t)to % 64 == 0 && m == 0xffffffff;
  if (half) {
    __m512i x = (__m512i)_mm512_cvtne2ps_pbh(x1, x0);
    if (whole)
      _mm512_stream_si512((void *)to, x);
    else
      _mm512_mask_storeu_epi16(to, m, x);
  } else if (whole) {
    _mm512_stream_ps((void *)to, x0);
    _mm512_stream_ps((void *)(to + 64), x1);
  } else {
    _mm512_mask_storeu_ps(to, (__mmask16)m, x0);
    _mm512_mask_storeu_ps(to + 64, (__mmask16)(m >> 16), x1);
  }
}

// Has the lines of n blocks fetched that begin with the element at.
INLINE void fetch(const void *p, int half, int64_t at, int n) {
  const char *next = (const char *)p + at * (half ? 2 : 4);
  for (int i = 0; i < (half ? n : 2 * n); i++) _mm_prefetch(next + 64 * i, _MM_HINT_T1);
}

// GELU in its tanh form is x·σ(2u), u = √(2/π)·(x + 0.044715·x³); the same of norm.h. *grad is the gradient of the result.
INLINE __m512 gelu_of(int half, __m512 x, __m512 *grad) {
  __m512 one = _mm512_set1_ps(1.0f), u = _mm512_mul_ps(_mm512_set1_ps(GELU_SCALE), x);
  __m512 cube = _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(GELU_CUBE), x), x);
  __m512 sig = sigmoid(_mm512_fmadd_ps(u, cube, u), half);
  if (grad) {
    __m512 inner = _mm512_mul_ps(_mm512_mul_ps(u, _mm512_sub_ps(one, sig)),
                                 _mm512_fmadd_ps(_mm512_set1_ps(3.0f), cube, one));
    *grad = _mm512_mul_ps(*grad, _mm512_fmadd_ps(sig, inner, sig));
  }
  return _mm512_mul_ps(x, sig);
}

// silu(gate)·up = gate·σ(gate)·up; *grad, of the result, becomes the gradient of gate, and *of_up the gradient of up.
INLINE __m512 swiglu_of(int half, __m512 gate, __m512 up, __m512 *grad, __m512 *of_up) {
  __m512 one = _mm512_set1_ps(1.0f), sig = sigmoid(gate, half), open = _mm512_mul_ps(gate, sig);
  if (grad) {
    __m512 given = *grad;
    // sig·(1 + gate·(1 - sig))
    *grad = _mm512_mul_ps(_mm512_mul_ps(given, up), _mm512_fmadd_ps(open, _mm512_sub_ps(one, sig), sig));
    *of_up = _mm512_mul_ps(given, open);
  }
  return _mm512_mul_ps(open, up);
}

// Finishes a row of 32 sums from a column on, to which bias and adapter were added, as c says. Of gates, x0 is gate
// and x1 is up, of 16 columns: what is kept of them for the gradient has them side by side, as the product has. Where
// outputs alone are wanted, they are in the order of the matrix.
INLINE void finish_row(const popri_product *g, change c, int64_t row, int64_t column, __mmask32 m, __m512 x0,
                       __m512 x1) {
  int half = g->y_bf16;
  __mmask16 m0 = (__mmask16)m, m1 = (__mmask16)(m >> 16);
  int64_t width = g->out, at = row * width + column;
  if (c == CHANGED || c == GELU) {
    if (c == GELU) {
      if (g->pre) stream_both(g->pre, half, at, m, x0, x1);
      x0 = gelu_of(half, rounded_if(half, x0), 0), x1 = gelu_of(half, rounded_if(half, x1), 0);
    }
    if (g->residual) {
      fetch(g->residual, g->residual_bf16, at + BLOCK, 1);
      x0 = _mm512_add_ps(x0, elements(g->residual, g->residual_bf16, at, m0));
      x1 = _mm512_add_ps(x1, elements(g->residual, g->residual_bf16, at + 16, m1));
    }
    put_both(g, g->y, half, at, m, x0, x1);
  } else if (c == GELU_GRAD) {
    fetch(g->grad_of, half, at + BLOCK, 1);
    __m512 h0 = gelu_of(half, elements(g->grad_of, half, at, m0), &x0),
           h1 = gelu_of(half, elements(g->grad_of, half, at + 16, m1), &x1);
    put_both(g, g->y, half, at, m, x0, x1);
    put_both(g, g->again, half, at, m, h0, h1);
  } else if (c == GATES && !g->y) {
    put(g, g->pre, half, 0, at, m0, x0);
    put(g, g->pre, half, 0, at + width / 2, m0, x1);
  } else if (c == GATES) {
    if (g->pre) stream_both(g->pre, half, at + column, m, x0, x1);
    x0 = swiglu_of(half, rounded_if(half, x0), rounded_if(half, x1), 0, 0);
    put(g, g->y, half, 0, row * width / 2 + column, m0, x0);
  } else {
    int64_t pre = 2 * at, y = at + row * width;
    fetch(g->grad_of, half, pre + 2 * BLOCK, 2);
    __m512 gate0 = elements(g->grad_of, half, pre, m0), gate1 = elements(g->grad_of, half, pre + 32, m1);
    __m512 up0 = elements(g->grad_of, half, pre + 16, m0), up1 = elements(g->grad_of, half, pre + 48, m1);
    __m512 h0 = swiglu_of(half, gate0, up0, &x0, &up0), h1 = swiglu_of(half, gate1, up1, &x1, &up1);
    put_both(g, g->y, half, y, m, x0, x1);
    put_both(g, g->y, half, y + width, m, up0, up1);
    put_both(g, g->again, half, at, m, h0, h1);
  }
}

// Adds the bias and what an adapter changes to a constant number of rows of 32 sums, up to 4, and continues as c says.
INLINE void changed_rows(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column, change c) {
  const popri_low_rank *a = &g->added;
  __m512 x[2][4];
  int64_t begin = c == GATES ? column / 2 : column, second = c == GATES ? g->out / 2 : 16;
#pragma GCC unroll 2
  for (int side = 0; side < 2; side++) {
    int64_t n = begin + side * second;
    __m512 b = g->bias ? _mm512_maskz_loadu_ps(up_to(g->out - n), g->bias + n) : _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) x[side][r] = _mm512_add_ps(_mm512_loadu_ps(sums + r * BLOCK + 16 * side), b);
    const float *low = a->low + row * a->ranks, *up = a->up;
    for (int i = 0; i < a->parts; low += a->rank[i], up += a->rank[i] * a->width[i], i++) {
      int64_t first = n - a->offset[i]; // of the part's columns; negative where the part begins later
      __mmask16 part = up_to(a->width[i] - first) & ~up_to(-first);
      if (!part) continue;
      for (int64_t k = 0; k < a->rank[i]; k++) {
        __m512 u = _mm512_maskz_loadu_ps(part, up + k * a->width[i] + first);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
          x[side][r] = _mm512_fmadd_ps(_mm512_set1_ps(low[r * a->ranks + k]), u, x[side][r]);
      }
    }
  }
  __mmask32 m = (__mmask32)up_to(g->out - begin - second) << 16 | up_to(g->out - begin);
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) finish_row(g, c, row + r, begin, m, x[0][r], x[1][r]);
}

#define CHANGES(name, c)                                                                                              \
  AVX static void name(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column) {            \
    for (; rows >= 4; rows -= 4, row += 4, sums += 4 * BLOCK) changed_rows(g, sums, row, 4, column, c);               \
    for (; rows >= 2; rows -= 2, row += 2, sums += 2 * BLOCK) changed_rows(g, sums, row, 2, column, c);               \
    if (rows) changed_rows(g, sums, row, 1, column, c);                                                               \
  }
CHANGES(changed, CHANGED)
CHANGES(changed_gelu, GELU)
CHANGES(gated, GATES)
CHANGES(gelu_gradient, GELU_GRAD)
CHANGES(gated_gradient, GATES_GRAD)

finisher *popri_finisher(const popri_product *g) {
  if (g->grad_of) return g->act == ACT_SWIGLU ? gated_gradient : gelu_gradient;
  if (g->gated) return gated;
  if (g->act == ACT_GELU_TANH) return changed_gelu;
  if (g->added.parts) return changed;
#define CHOOSE(name, a, bytes, half)                                                                                  \
  if (g->act == a && residual_of(g) == bytes && !g->y_bf16 == !half) return name;
  WAYS(CHOOSE)
  return any;
}

#endif
