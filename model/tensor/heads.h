// Attention that is trained. Included by kernels.h.
#include <stdlib.h>
#include <string.h>

// Queries, keys and values of attention that is trained: from side by side to heads and back, and the softmax of their
// scores.

// One head rotated by cosines and sines, half of whose dimensions follow each other; back rotates it the other way.
INLINE void rotate(const void *x, int64_t from, void *y, int64_t to, int bf16, const void *cosines, const void *sines,
                 int64_t angle, int64_t half, int back) {
  int64_t i = 0;
  for (; i + LANES <= half; i += LANES) {
    floats u = load(x, from + i, bf16), v = load(x, from + half + i, bf16);
    floats c = load(cosines, angle + i, bf16), d = load(cosines, angle + half + i, bf16);
    floats s = load(sines, angle + i, bf16), t = load(sines, angle + half + i, bf16);
    store_floats(y, to + i, u * c + v * (back ? t : s), bf16);
    store_floats(y, to + half + i, v * d + u * (back ? s : t), bf16);
  }
  for (; i < half; i++) {
    float u = value(x, from + i, bf16), v = value(x, from + half + i, bf16);
    float s = value(sines, angle + i, bf16), t = value(sines, angle + half + i, bf16);
    store(y, to + i, u * value(cosines, angle + i, bf16) + v * (back ? t : s), bf16);
    store(y, to + half + i, v * value(cosines, angle + half + i, bf16) + u * (back ? s : t), bf16);
  }
}

INLINE void heads(const popri_heads *h, int64_t from, int64_t to, int bf16, int back) {
  int64_t size = bf16 ? 2 : 4, all = h->heads + 2 * h->kv_heads;
  for (int64_t r = from; r < to; r++) {
    int64_t b = r / h->tokens, t = r % h->tokens, angle = r % h->angles * h->dim;
    for (int64_t k = 0; k < all; k++) {
      int64_t first = k < h->heads ? 0 : k < h->heads + h->kv_heads ? h->heads : h->heads + h->kv_heads;
      int64_t count = k < h->heads ? h->heads : h->kv_heads;
      char *part = k < h->heads ? h->q : k < h->heads + h->kv_heads ? h->k : h->v;
      int64_t joined = (r * all + k) * h->dim, split = ((b * count + k - first) * h->tokens + t) * h->dim;
      int rotates = h->cosines && k < h->heads + h->kv_heads;
      if (back && !part)
        memset((char *)h->x + joined * size, 0, h->dim * size);
      else if (back && rotates)
        rotate(part, split, h->x, joined, bf16, h->cosines, h->sines, angle, h->dim / 2, 1);
      else if (back)
        memcpy((char *)h->x + joined * size, part + split * size, h->dim * size);
      else if (rotates)
        rotate(h->x, joined, part, split, bf16, h->cosines, h->sines, angle, h->dim / 2, 0);
      else
        memcpy(part + split * size, (const char *)h->x + joined * size, h->dim * size);
    }
  }
}

// Takes tokens of x split.
void popri_split_heads(const void *p, int64_t from, int64_t to) {
  const popri_heads *h = p;
  if (h->bf16)
    heads(h, from, to, 1, 0);
  else
    heads(h, from, to, 0, 0);
}

// The gradient: puts tokens together in x. A part that is null counts as zeros.
void popri_split_heads_grad(const void *p, int64_t from, int64_t to) {
  const popri_heads *h = p;
  if (h->bf16)
    heads(h, from, to, 1, 1);
  else
    heads(h, from, to, 0, 1);
}

// exp on (-inf, 0], and 0 where it would be smallest: a hidden token has no weight, not one that is slow to multiply
// with.
INLINE floats exp_or_zero(floats x) {
  floats sum = {0}, e;
  exp_floats((const float *)&x, 0, 1, (float *)&e, &sum);
  return (floats)((ints)e & ~(x <= -87.0f)); // NaN stays
}

// Makes row exp(row - its largest), padded values, a multiple of LANES, -∞ where there are none; returns their sum.
INLINE float exponents(float *row, int64_t padded) {
  floats most = *(floats *)row, sums = {0};
  for (int64_t i = LANES; i < padded; i += LANES) {
    ints more = *(floats *)(row + i) > most;
    most = (floats)((*(ints *)(row + i) & more) | ((ints)most & ~more));
  }
  float max = -INFINITY, sum = 0;
  for (int k = 0; k < LANES; k++) max = most[k] > max ? most[k] : max;
  for (int64_t i = 0; i < padded; i += LANES) {
    floats e = exp_or_zero(*(floats *)(row + i) - max);
    *(floats *)(row + i) = e;
    sums += e;
  }
  for (int k = 0; k < LANES; k++) sum += sums[k];
  return sum;
}

// The lane that a value is added to depends on its column alone, so that hidden columns at the end of a row change nothing.
INLINE void softmax(const popri_softmax *p, int64_t from, int64_t to, int bf16) {
  int64_t n = p->width, padded = (n + LANES - 1) / LANES * LANES;
  float *row = malloc(padded * sizeof *row);
  if (!row) abort();
  for (int64_t r = from; r < to; r++) {
    int64_t at = r * n, i = 0;
    int64_t hidden = (r / p->batch_rows % p->masks * p->mask_rows + r % p->mask_rows) * n;
    for (; i + LANES <= n; i += LANES)
      *(floats *)(row + i) = load(p->scores, at + i, bf16) * p->scale + load(p->mask, hidden + i, bf16);
    for (; i < n; i++) row[i] = value(p->scores, at + i, bf16) * p->scale + value(p->mask, hidden + i, bf16);
    for (; i < padded; i++) row[i] = -INFINITY;
    float sum = exponents(row, padded);
    float scale = 1 / sum;
    for (i = 0; i + LANES <= n; i += LANES) store_floats(p->y, at + i, *(floats *)(row + i) * scale, bf16);
    for (; i < n; i++) store(p->y, at + i, row[i] * scale, bf16);
  }
  free(row);
}

// The softmax of scale·scores + mask.
BOTH_TYPES(popri_softmax_rows, popri_softmax, softmax)

INLINE void softmax_gradient(const popri_softmax *p, int64_t from, int64_t to, int bf16) {
  int64_t n = p->width;
  for (int64_t r = from; r < to; r++) {
    int64_t at = r * n, i = 0;
    floats dots = {0};
    for (; i + LANES <= n; i += LANES) dots += load(p->y, at + i, bf16) * load(p->dy, at + i, bf16);
    float dot = 0;
    for (int k = 0; k < LANES; k++) dot += dots[k];
    for (; i < n; i++) dot += value(p->y, at + i, bf16) * value(p->dy, at + i, bf16);
    for (i = 0; i + LANES <= n; i += LANES)
      store_floats(p->dx, at + i, load(p->y, at + i, bf16) * (load(p->dy, at + i, bf16) - dot) * p->scale, bf16);
    for (; i < n; i++)
      store(p->dx, at + i, value(p->y, at + i, bf16) * (value(p->dy, at + i, bf16) - dot) * p->scale, bf16);
  }
}

// The gradient for the scores, of the softmax y.
BOTH_TYPES(popri_softmax_grad, popri_softmax, softmax_gradient)
