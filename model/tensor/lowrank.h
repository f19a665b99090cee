// Products of low rank: what an adapter adds to a projection, and its gradients. Included by kernels.h.

// low[r][k] = Σ x[r][i]·a[k][i] over n values, for rows of x stride apart and as many factors, n apart.
INLINE void dots(int rows, int factors, const void *x, int64_t at, int64_t stride, int bf16, const float *a, int64_t n,
                 float *low, int64_t ranks) {
  floats sums[4][4];
  int64_t i = 0;
  for (int r = 0; r < rows; r++)
    for (int k = 0; k < factors; k++) sums[r][k] = (floats){0};
  for (; i + LANES <= n; i += LANES) {
    floats b[4];
    for (int k = 0; k < factors; k++) b[k] = *(const floats *)(a + k * n + i);
    for (int r = 0; r < rows; r++) {
      floats v = load(x, at + r * stride + i, bf16);
      soon(x, at + (r + rows) * stride + i, bf16);
      for (int k = 0; k < factors; k++) sums[r][k] += v * b[k];
    }
  }
  for (int r = 0; r < rows; r++)
    for (int k = 0; k < factors; k++) {
      float sum = total(sums[r][k]);
      for (int64_t j = i; j < n; j++) sum += value(x, at + r * stride + j, bf16) * a[k * n + j];
      low[r * ranks + k] = sum;
    }
}

// y[r][i] += Σ low[r][k]·a[k][i] over the factors, for n values of rows of y stride apart.
INLINE void spread(int rows, int64_t factors, const float *low, int64_t ranks, const float *a, int64_t n, void *y,
                   int64_t at, int64_t stride, int bf16) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    floats sums[4];
    for (int r = 0; r < rows; r++) sums[r] = load(y, at + r * stride + i, bf16);
    for (int64_t k = 0; k < factors; k++) {
      floats b = *(const floats *)(a + k * n + i);
      for (int r = 0; r < rows; r++) sums[r] += low[r * ranks + k] * b;
    }
    for (int r = 0; r < rows; r++) store_floats(y, at + r * stride + i, sums[r], bf16);
  }
  for (; i < n; i++)
    for (int r = 0; r < rows; r++) {
      float sum = value(y, at + r * stride + i, bf16);
      for (int64_t k = 0; k < factors; k++) sum += low[r * ranks + k] * a[k * n + i];
      store(y, at + r * stride + i, sum, bf16);
    }
}

// dots of any number of factors.
INLINE void all_dots(int rows, int64_t factors, const void *x, int64_t at, int64_t stride, int bf16, const float *a,
                     int64_t n, float *low, int64_t ranks) {
  int64_t k = 0;
  for (; k + 4 <= factors; k += 4) dots(rows, 4, x, at, stride, bf16, a + k * n, n, low + k, ranks);
  for (; k < factors; k++) dots(rows, 1, x, at, stride, bf16, a + k * n, n, low + k, ranks);
}

INLINE void low_rank(const popri_low_rank *p, int64_t row, int rows, int bf16) {
  float *low = p->low + row * p->ranks;
  all_dots(rows, p->ranks, p->x, row * p->in, p->in, bf16, p->down, p->in, low, p->ranks);
  if (!p->y) return;
  const float *up = p->up;
  for (int i = 0; i < p->parts; up += p->rank[i] * p->width[i], low += p->rank[i], i++)
    spread(rows, p->rank[i], low, p->ranks, up, p->width[i], p->y, row * p->out + p->offset[i], p->out, bf16);
}

INLINE void low_rank_grad(const popri_low_rank *p, int64_t row, int rows, int bf16) {
  float *low = p->dlow + row * p->ranks;
  const float *up = p->up;
  for (int i = 0; i < p->parts; up += p->rank[i] * p->width[i], low += p->rank[i], i++)
    all_dots(rows, p->rank[i], p->y, row * p->out + p->offset[i], p->out, bf16, up, p->width[i], low, p->ranks);
  if (p->dx)
    spread(rows, p->ranks, p->dlow + row * p->ranks, p->ranks, p->down, p->in, p->dx, row * p->in, p->in, bf16);
}

#define IN_ROWS(f)                                                                                                    \
  for (; from + 4 <= to; from += 4) f(p, from, 4, bf16);                                                              \
  for (; from < to; from++) f(p, from, 1, bf16);

INLINE void low_rank_rows(const popri_low_rank *p, int64_t from, int64_t to, int bf16) { IN_ROWS(low_rank) }
INLINE void low_rank_grad_rows(const popri_low_rank *p, int64_t from, int64_t to, int bf16) { IN_ROWS(low_rank_grad) }

// low = x·downᵀ of rows, and y += low·up, if there is y, where each part of y has its own factors.
BOTH_TYPES(popri_low_rank_rows, popri_low_rank, low_rank_rows)

// dlow = y·upᵀ of rows, where y has the gradient of the result, and dx += dlow·down.
BOTH_TYPES(popri_low_rank_grad, popri_low_rank, low_rank_grad_rows)

// sums[k][i] += Σ low[t][k]·m[t][i] over a few rows t, for factors and n values of rows of m stride apart. Memory is
// read row by row: m may have left the cache.
INLINE void outer(int factors, int rows, const float *low, int64_t ranks, const void *m, int64_t at, int64_t stride,
                  int bf16, int64_t n, float *sums, int64_t width) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    floats part[4];
    for (int k = 0; k < factors; k++) part[k] = *(const floats *)(sums + k * width + i);
    for (int t = 0; t < rows; t++) {
      floats v = load(m, at + t * stride + i, bf16);
      soon(m, at + (t + rows) * stride + i, bf16);
      for (int k = 0; k < factors; k++) part[k] += low[t * ranks + k] * v;
    }
    for (int k = 0; k < factors; k++) *(floats *)(sums + k * width + i) = part[k];
  }
  for (; i < n; i++)
    for (int k = 0; k < factors; k++)
      for (int t = 0; t < rows; t++)
        sums[k * width + i] += low[t * ranks + k] * value(m, at + t * stride + i, bf16);
}

// outer of any number of factors.
INLINE void all_outer(const popri_low_rank_sum *p, int64_t row, int rows, int64_t at, int64_t n, int bf16) {
  const float *low = p->low + row * p->ranks;
  int64_t first = row * p->stride + p->offset + at, k = 0;
  float *sums = p->sums + at;
  for (; k + 4 <= p->rank; k += 4)
    outer(4, rows, low + k, p->ranks, p->m, first, p->stride, bf16, n, sums + k * p->width, p->width);
  for (; k < p->rank; k++)
    outer(1, rows, low + k, p->ranks, p->m, first, p->stride, bf16, n, sums + k * p->width, p->width);
}

INLINE void low_rank_sums(const popri_low_rank_sum *p, int64_t from, int64_t to, int bf16) {
  int64_t at = from * LOW_RANK_COLUMNS, end = to * LOW_RANK_COLUMNS, row = 0;
  int64_t n = (end < p->width ? end : p->width) - at;
  for (int64_t k = 0; k < p->rank; k++) memset(p->sums + k * p->width + at, 0, n * sizeof(float));
  for (; row + 8 <= p->rows; row += 8) all_outer(p, row, 8, at, n, bf16);
  for (; row < p->rows; row++) all_outer(p, row, 1, at, n, bf16);
}

// Blocks [from, to) of the sums over all rows of what they have for each factor, times the row.
BOTH_TYPES(popri_low_rank_sums, popri_low_rank_sum, low_rank_sums)
