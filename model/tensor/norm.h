// Norms, dropout, activations and rotary positions. Included by kernels.h.
#include "drop.h"
#if defined __x86_64__ && LANES == 16
#include "sigmoid.h"
#endif

INLINE void rmsnorm(const void *x, int bf16, const float *w, void *y, int64_t rows, int64_t n, float eps) {
  for (int64_t r = 0; r < rows; r++) {
    int64_t at = r * n, i = 0;
    floats squares = {0};
    for (; i + LANES <= n; i += LANES) {
      floats v = load(x, at + i, bf16);
      soon(x, at + n + i, bf16);
      squares += v * v;
    }
    float sum = 0;
    for (int k = 0; k < LANES; k++) sum += squares[k];
    for (; i < n; i++) {
      float v = value(x, at + i, bf16);
      sum += v * v;
    }
    float scale = 1.0f / sqrtf(sum / (float)n + eps);
    for (i = 0; i + LANES <= n; i += LANES)
      store_floats(y, at + i, load(x, at + i, bf16) * scale * *(const floats *)(w + i), bf16);
    for (; i < n; i++) store(y, at + i, value(x, at + i, bf16) * scale * w[i], bf16);
  }
}

// The sum of the lanes, in halves: one after the other, each addition would wait for the one before.
INLINE float total(floats v) {
  float part[LANES];
  *(floats *)part = v;
  for (int width = LANES / 2; width; width /= 2)
    for (int k = 0; k < width; k++) part[k] += part[k + width];
  return part[0];
}

// What a row's gradient has from elsewhere, from element i on.
INLINE floats more(const popri_rows *p, int64_t i, int bf16) { return p->more ? load(p->more, i, bf16) : (floats){0}; }

INLINE float more_value(const popri_rows *p, int64_t i, int bf16) { return p->more ? value(p->more, i, bf16) : 0; }

INLINE void rmsnorm_grad(const popri_rows *p, int bf16, float *dw, int64_t from, int64_t to) {
  const void *x = p->x, *dy = p->dy;
  const float *w = p->w;
  int64_t n = p->n;
  for (int64_t r = from; r < to; r++) {
    int64_t at = r * n, i = 0;
    floats squares = {0}, dots = {0};
    for (; i + LANES <= n; i += LANES) {
      floats v = load(x, at + i, bf16);
      squares += v * v;
      soon(x, at + n + i, bf16), soon(dy, at + n + i, bf16);
      dots += v * load(dy, at + i, bf16) * *(const floats *)(w + i);
    }
    float square = total(squares), dot = total(dots);
    for (; i < n; i++) {
      float v = value(x, at + i, bf16);
      square += v * v;
      dot += v * value(dy, at + i, bf16) * w[i];
    }
    float scale = 1.0f / sqrtf(square / (float)n + p->eps), back = scale * scale * scale * dot / (float)n;
    for (i = 0; i + LANES <= n; i += LANES) {
      floats v = load(x, at + i, bf16), g = load(dy, at + i, bf16);
      store_floats(p->y, at + i, scale * g * *(const floats *)(w + i) - back * v + more(p, at + i, bf16), bf16);
      if (dw) *(floats *)(dw + i) += g * v * scale;
    }
    for (; i < n; i++) {
      float v = value(x, at + i, bf16), g = value(dy, at + i, bf16);
      store(p->y, at + i, scale * g * w[i] - back * v + more_value(p, at + i, bf16), bf16);
      if (dw) dw[i] += g * v * scale;
    }
  }
}

void popri_rmsnorm_rows(const void *rows, int64_t from, int64_t to) {
  const popri_rows *p = rows;
  int64_t at = from * p->n;
  if (p->bf16)
    rmsnorm((const uint16_t *)p->x + at, 1, p->w, (uint16_t *)p->y + at, to - from, p->n, p->eps);
  else
    rmsnorm((const float *)p->x + at, 0, p->w, (float *)p->y + at, to - from, p->n, p->eps);
}

// The gradient for x, and what each block of rows adds to that for w.
void popri_rmsnorm_grad(const void *rows, int64_t from, int64_t to) {
  const popri_rows *p = rows;
  for (int64_t i = from; i < to; i++) {
    int64_t end = (i + 1) * p->block;
    float *dw = p->dw ? p->dw + i * p->n : 0;
    if (end > p->rows) end = p->rows;
    if (p->bf16)
      rmsnorm_grad(p, 1, dw, i * p->block, end);
    else
      rmsnorm_grad(p, 0, dw, i * p->block, end);
  }
}

// What the LayerNorm of a row takes of it: mean and 1/√(variance + eps).
INLINE void moments(const void *x, int64_t at, int bf16, int64_t n, float eps, float *mean, float *scale) {
  int64_t i = 0;
  floats sums = {0}, squares = {0};
  for (; i + LANES <= n; i += LANES) sums += load(x, at + i, bf16), soon(x, at + n + i, bf16);
  float sum = total(sums);
  for (; i < n; i++) sum += value(x, at + i, bf16);
  float m = sum / (float)n;
  for (i = 0; i + LANES <= n; i += LANES) {
    floats v = load(x, at + i, bf16) - m;
    squares += v * v;
  }
  float square = total(squares);
  for (; i < n; i++) {
    float v = value(x, at + i, bf16) - m;
    square += v * v;
  }
  *mean = m;
  *scale = 1.0f / sqrtf(square / (float)n + eps);
}

INLINE void layernorm(const popri_rows *p, int64_t from, int64_t to, int bf16) {
  const float *w = p->w, *b = p->b;
  for (int64_t r = from; r < to; r++) {
    int64_t at = r * p->n, i = 0;
    float mean, scale;
    moments(p->x, at, bf16, p->n, p->eps, &mean, &scale);
    for (; i + LANES <= p->n; i += LANES) {
      floats u = (load(p->x, at + i, bf16) - mean) * scale;
      store_floats(p->y, at + i, u * *(const floats *)(w + i) + *(const floats *)(b + i), bf16);
    }
    for (; i < p->n; i++) store(p->y, at + i, (value(p->x, at + i, bf16) - mean) * scale * w[i] + b[i], bf16);
  }
}

// y = (x - mean)/√(variance + eps)·w + b, row by row.
BOTH_TYPES(popri_layernorm_rows, popri_rows, layernorm)

// With u = (x - mean)·scale: dx = scale·(dy·w - mean of dy·w - u·mean of dy·w·u), dw = Σ dy·u, db = Σ dy.
INLINE void layernorm_grad(const popri_rows *p, int64_t block, int64_t last, int bf16) {
  int64_t n = p->n;
  const float *w = p->w;
  for (; block < last; block++) {
    int64_t from = block * p->block, to = from + p->block < p->rows ? from + p->block : p->rows;
    float *dw = p->dw ? p->dw + 2 * block * n : 0;
    for (int64_t r = from; r < to; r++) {
      int64_t at = r * n, i = 0;
      float mean, scale;
      moments(p->x, at, bf16, n, p->eps, &mean, &scale);
      floats sums = {0}, dots = {0};
      for (; i + LANES <= n; i += LANES) {
        floats g = load(p->dy, at + i, bf16) * *(const floats *)(w + i);
        soon(p->dy, at + n + i, bf16);
        sums += g;
        dots += g * (load(p->x, at + i, bf16) - mean);
      }
      float sum = total(sums), dot = total(dots);
      for (; i < n; i++) {
        float g = value(p->dy, at + i, bf16) * w[i];
        sum += g;
        dot += g * (value(p->x, at + i, bf16) - mean);
      }
      sum /= (float)n;
      dot *= scale / (float)n;
      for (i = 0; i + LANES <= n; i += LANES) {
        floats u = (load(p->x, at + i, bf16) - mean) * scale, dy = load(p->dy, at + i, bf16);
        floats dx = scale * (dy * *(const floats *)(w + i) - sum - u * dot);
        store_floats(p->y, at + i, dx + more(p, at + i, bf16), bf16);
        if (dw) {
          *(floats *)(dw + i) += dy * u;
          *(floats *)(dw + n + i) += dy;
        }
      }
      for (; i < n; i++) {
        float u = (value(p->x, at + i, bf16) - mean) * scale, dy = value(p->dy, at + i, bf16);
        store(p->y, at + i, scale * (dy * w[i] - sum - u * dot) + more_value(p, at + i, bf16), bf16);
        if (dw) dw[i] += dy * u, dw[n + i] += dy;
      }
    }
  }
}

// The gradient for x, and what each block of rows adds to those for w and b.
BOTH_TYPES(popri_layernorm_grad, popri_rows, layernorm_grad)

INLINE void drop(const popri_drop *p, int64_t from, int64_t to, int bf16) {
  words lanes;
  for (int k = 0; k < LANES; k++) lanes[k] = k;
  for (int64_t r = from; r < to; r++) {
    uint64_t row = hidden_row((uint64_t)*p->key, r);
    int64_t at = r * p->n, i = 0;
    for (; i + LANES <= p->n; i += LANES) {
      soon(p->x, at + i + AHEAD, bf16);
      ints kept = HIDDEN_WORD(lanes + (uint32_t)i, row) >= p->limit;
      store_floats(p->y, at + i, (floats)((ints)(load(p->x, at + i, bf16) * p->factor) & kept), bf16);
    }
    for (; i < p->n; i++)
      store(p->y, at + i, HIDDEN_WORD((uint32_t)i, row) < p->limit ? 0 : value(p->x, at + i, bf16) * p->factor, bf16);
  }
}

BOTH_TYPES(popri_drop_rows, popri_drop, drop)

// 1/(1 + exp(-x)): for bfloat16 to 12 bits where there are instructions for it, else by exp of a negative number.
INLINE floats sigmoids(floats x, int bf16) {
#if defined __x86_64__ && LANES == 16
  if (bf16) return (floats)rough_sigmoid((__m512)x);
#endif
  ints low = x < 0;
  floats size = (floats)((ints)x & 0x7fffffff), sum = {0}, e; // its absolute value
  size = -size;
  exp_floats((const float *)&size, 0, 1, (float *)&e, &sum);
  return (floats)(((ints)e & low) | ((ints)((floats){0} + 1) & ~low)) / (1 + e);
}

INLINE float sigmoid(float x) {
  float e = fast_exp(x < 0 ? x : -x);
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}

INLINE void swiglu(const void *x, int bf16, void *y, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; r++) {
    int64_t at = 2 * r * n, i = 0;
    for (; i + LANES <= n; i += LANES) {
      floats gate = load(x, at + i, bf16);
      store_floats(y, r * n + i, gate * sigmoids(gate, bf16) * load(x, at + n + i, bf16), bf16);
    }
    for (; i < n; i++) {
      float gate = value(x, at + i, bf16);
      store(y, r * n + i, gate * sigmoid(gate) * value(x, at + n + i, bf16), bf16);
    }
  }
}

INLINE void swiglu_grad(const void *x, const void *dy, int bf16, void *dx, int64_t from, int64_t to, int64_t n) {
  for (int64_t r = from; r < to; r++) {
    int64_t at = 2 * r * n, i = 0;
    for (; i + LANES <= n; i += LANES) {
      floats gate = load(x, at + i, bf16), g = load(dy, r * n + i, bf16), sig = sigmoids(gate, bf16);
      store_floats(dx, at + i, g * load(x, at + n + i, bf16) * sig * (1 + gate * (1 - sig)), bf16);
      store_floats(dx, at + n + i, g * gate * sig, bf16);
    }
    for (; i < n; i++) {
      float gate = value(x, at + i, bf16), g = value(dy, r * n + i, bf16), sig = sigmoid(gate);
      store(dx, at + i, g * value(x, at + n + i, bf16) * sig * (1 + gate * (1 - sig)), bf16);
      store(dx, at + n + i, g * gate * sig, bf16);
    }
  }
}

// GELU in its tanh form is x·sigmoid(2u) with u = √(2/π)·(x + 0.044715·x³): ½(1 + tanh u) = sigmoid(2u).

INLINE void gelu(const popri_rows *p, int64_t from, int64_t to, int bf16) {
  for (; from < to; from++) { // row by row, so that what is left of a row does not depend on where a thread begins
    int64_t i = from * p->n, end = i + p->n;
    for (; i + LANES <= end; i += LANES) {
      floats x = load(p->x, i, bf16);
      soon(p->x, i + AHEAD, bf16);
      store_floats(p->y, i, x * sigmoids(GELU_SCALE * x * (1 + GELU_CUBE * x * x), bf16), bf16);
    }
    for (; i < end; i++) {
      float x = value(p->x, i, bf16);
      store(p->y, i, x * sigmoid(GELU_SCALE * x * (1 + GELU_CUBE * x * x)), bf16);
    }
  }
}

INLINE void gelu_grad(const popri_rows *p, int64_t from, int64_t to, int bf16) {
  for (; from < to; from++) {
    int64_t i = from * p->n, end = i + p->n;
    for (; i + LANES <= end; i += LANES) {
      floats x = load(p->x, i, bf16), cube = GELU_CUBE * x * x, sig = sigmoids(GELU_SCALE * x * (1 + cube), bf16);
      floats grad = sig * (1 + GELU_SCALE * x * (1 - sig) * (1 + 3 * cube));
      soon(p->x, i + AHEAD, bf16), soon(p->dy, i + AHEAD, bf16);
      store_floats(p->y, i, load(p->dy, i, bf16) * grad, bf16);
    }
    for (; i < end; i++) {
      float x = value(p->x, i, bf16), cube = GELU_CUBE * x * x, sig = sigmoid(GELU_SCALE * x * (1 + cube));
      float grad = sig * (1 + GELU_SCALE * x * (1 - sig) * (1 + 3 * cube));
      store(p->y, i, value(p->dy, i, bf16) * grad, bf16);
    }
  }
}

BOTH_TYPES(popri_gelu_rows, popri_rows, gelu)

BOTH_TYPES(popri_gelu_grad, popri_rows, gelu_grad)

void popri_swiglu_rows(const void *rows, int64_t from, int64_t to) {
  const popri_rows *p = rows;
  int64_t at = from * p->n;
  if (p->bf16)
    swiglu((const uint16_t *)p->x + 2 * at, 1, (uint16_t *)p->y + at, to - from, p->n);
  else
    swiglu((const float *)p->x + 2 * at, 0, (float *)p->y + at, to - from, p->n);
}

void popri_swiglu_grad(const void *rows, int64_t from, int64_t to) {
  const popri_rows *p = rows;
  if (p->bf16)
    swiglu_grad(p->x, p->dy, 1, p->y, from, to, p->n);
  else
    swiglu_grad(p->x, p->dy, 0, p->y, from, to, p->n);
}

// Rotates the first heads of each row of x [rows, width], dim values each, by the row's cosines and sines: row r has
// the ones of r modulo angles.
void popri_rotate(float *x, const float *cosines, const float *sines, int64_t rows, int64_t angles, int64_t width,
                         int64_t heads, int64_t dim) {
  OPERATION("popri::rotate");
  int64_t half = dim / 2;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t h = 0; h < heads; h++) {
      float *restrict a = x + r * width + h * dim, *restrict b = a + half;
      const float *c = cosines + r % angles * dim, *s = sines + r % angles * dim;
      for (int64_t i = 0; i < half; i++) {
        float u = a[i], v = b[i];
        a[i] = u * c[i] + v * s[i];
        b[i] = v * c[half + i] + u * s[half + i];
      }
    }
}
