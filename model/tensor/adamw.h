// The kernels of AdamW and of sums. Included by kernels.h.
// One pass over parameter, gradient and both moments. c1 and c2 are the bias corrections 1 - b^t; scale multiplies the
// gradient (clipping). The operations and their order are as in torch.optim.AdamW without foreach.
void popri_adamw(float *restrict p, const float *restrict g, float *restrict m, float *restrict v, int64_t n, float lr,
                 float b1, float b2, float eps, float wd, float c1, float c2, float scale) {
  OPERATION("popri::adamw");
  float decay = 1.0f - lr * wd, step = lr / c1, root = sqrtf(c2);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    floats gi = *(const floats *)(g + i) * scale;
    soon(p, i + AHEAD, 0), soon(g, i + AHEAD, 0), soon(m, i + AHEAD, 0), soon(v, i + AHEAD, 0);
    floats mi = b1 * *(floats *)(m + i) + (1.0f - b1) * gi, vi = b2 * *(floats *)(v + i) + (1.0f - b2) * gi * gi;
    *(floats *)(m + i) = mi;
    *(floats *)(v + i) = vi;
    *(floats *)(p + i) = *(floats *)(p + i) * decay - step * mi / (roots(vi) / root + eps);
  }
  for (; i < n; i++) {
    float gi = g[i] * scale;
    m[i] = b1 * m[i] + (1.0f - b1) * gi;
    v[i] = b2 * v[i] + (1.0f - b2) * gi * gi;
    p[i] = p[i] * decay - step * m[i] / (sqrtf(v[i]) / root + eps);
  }
}

INLINE void add(float *sum, const void *part, int64_t n, int bf16) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    soon(sum, i + AHEAD, 0), soon(part, i + AHEAD, bf16);
    *(floats *)(sum + i) += load(part, i, bf16);
  }
  for (; i < n; i++) sum[i] += value(part, i, bf16);
}

// sum += part, which is float32 or bfloat16.
void popri_add(float *sum, const void *part, int bf16, int64_t n) {
  OPERATION("popri::add");
  if (bf16)
    add(sum, part, n, 1);
  else
    add(sum, part, n, 0);
}

double popri_sum_squares(const float *x, int64_t n) {
  OPERATION("popri::sum_squares");
  double total = 0;
  for (int64_t at = 0; at < n; at += 4096) {
    int64_t end = at + 4096 < n ? at + 4096 : n;
    float part[16] = {0};
    int64_t i = at;
    for (; i + 16 <= end; i += 16)
      for (int k = 0; k < 16; k += LANES) {
        floats v = *(const floats *)(x + i + k);
        *(floats *)(part + k) += v * v;
      }
    for (; i < end; i++) part[0] += x[i] * x[i];
    for (int k = 0; k < 16; k++) total += part[k];
  }
  return total;
}
