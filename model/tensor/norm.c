#include "torch.h"
#include "profile.h"
#include "vector.h"

INLINE void rmsnorm(const void *x, int bf16, const float *w, void *y, int64_t rows, int64_t n, float eps) {
  for (int64_t r = 0; r < rows; r++) {
    int64_t at = r * n, i = 0;
    floats squares = {0};
    for (; i + LANES <= n; i += LANES) {
      floats v = load(x, at + i, bf16);
      squares += v * v;
    }
    float sum = 0;
    for (int k = 0; k < LANES; k++) sum += squares[k];
    for (; i < n; i++) {
      float v = value(x, at + i, bf16);
      sum += v * v;
    }
    float scale = 1.0f / sqrtf(sum / (float)n + eps);
    for (i = 0; i + LANES <= n; i += LANES) store_floats(y, at + i, load(x, at + i, bf16) * scale * *(const floats *)(w + i), bf16);
    for (; i < n; i++) store(y, at + i, value(x, at + i, bf16) * scale * w[i], bf16);
  }
}

// y = x/√(mean of squares + eps)·w, row by row.
CLONES void popri_rmsnorm(const void *x, int bf16, const float *w, void *y, int64_t rows, int64_t n, float eps) {
  OPERATION("popri::rmsnorm");
  if (bf16)
    rmsnorm(x, 1, w, y, rows, n, eps);
  else
    rmsnorm(x, 0, w, y, rows, n, eps);
}

INLINE void layernorm(const void *x, int bf16, const float *w, const float *b, void *y, int64_t rows, int64_t n, float eps) {
  for (int64_t r = 0; r < rows; r++) {
    int64_t at = r * n, i = 0;
    floats sums = {0}, squares = {0};
    for (; i + LANES <= n; i += LANES) sums += load(x, at + i, bf16);
    float sum = 0, square = 0;
    for (int k = 0; k < LANES; k++) sum += sums[k];
    for (; i < n; i++) sum += value(x, at + i, bf16);
    float mean = sum / (float)n;
    for (i = 0; i + LANES <= n; i += LANES) {
      floats v = load(x, at + i, bf16) - mean;
      squares += v * v;
    }
    for (int k = 0; k < LANES; k++) square += squares[k];
    for (; i < n; i++) {
      float v = value(x, at + i, bf16) - mean;
      square += v * v;
    }
    float scale = 1.0f / sqrtf(square / (float)n + eps);
    for (i = 0; i + LANES <= n; i += LANES)
      store_floats(y, at + i, (load(x, at + i, bf16) - mean) * scale * *(const floats *)(w + i) + *(const floats *)(b + i), bf16);
    for (; i < n; i++) store(y, at + i, (value(x, at + i, bf16) - mean) * scale * w[i] + b[i], bf16);
  }
}

// y = (x - mean)/√(variance + eps)·w + b, row by row.
CLONES void popri_layernorm(const void *x, int bf16, const float *w, const float *b, void *y, int64_t rows, int64_t n, float eps) {
  OPERATION("popri::layernorm");
  if (bf16)
    layernorm(x, 1, w, b, y, rows, n, eps);
  else
    layernorm(x, 0, w, b, y, rows, n, eps);
}

INLINE void swiglu(const void *x, int bf16, void *y, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; r++) {
    int64_t at = 2 * r * n, i = 0;
    for (; i + LANES <= n; i += LANES) {
      floats gate = load(x, at + i, bf16), sum = {0}, e;
      ints low = gate < 0;
      floats size = (floats)((ints)gate & 0x7fffffff); // its absolute value
      size = -size;
      exp_floats((const float *)&size, 0, 1, (float *)&e, &sum);
      floats share = (floats)(((ints)e & low) | ((ints)((floats){0} + 1) & ~low)) / (1 + e);
      store_floats(y, r * n + i, gate * share * load(x, at + n + i, bf16), bf16);
    }
    for (; i < n; i++) {
      float gate = value(x, at + i, bf16), e = fast_exp(gate < 0 ? gate : -gate);
      store(y, r * n + i, gate * ((gate < 0 ? e : 1.0f) / (1.0f + e)) * value(x, at + n + i, bf16), bf16);
    }
  }
}

// y = silu(gate)·up for rows of x that hold gate and up, n values each, side by side.
CLONES void popri_swiglu(const void *x, int bf16, void *y, int64_t rows, int64_t n) {
  OPERATION("popri::swiglu");
  if (bf16)
    swiglu(x, 1, y, rows, n);
  else
    swiglu(x, 0, y, rows, n);
}

// Turns the first heads of each row of x [rows, width], dim values each, by the row's cosines and sines: row r has those of
// r modulo angles.
CLONES void popri_rotate(float *x, const float *cosines, const float *sines, int64_t rows, int64_t angles, int64_t width,
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
