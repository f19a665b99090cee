#include "torch.h"
#include "profile.h"
#include "vector.h"

// e[i] = exp((x[i] - max)·k), for x[i] up to max.
void popri_exp(float *e, const float *x, int n, float max, float k) {
  OPERATION("popri::exp");
  exp_sum(e, x, n, max, k);
}

// The first maximum of a row, or -1 where it has a NaN or no finite maximum.
static int32_t first_maximum(const float *x, int n) {
  float max = max_of(x, n);
  int nan = 0;
  for (int i = 0; i < n; i++) nan |= x[i] != x[i];
  if (nan || !(max > -INFINITY && max < INFINITY)) return -1;
  for (int32_t i = 0;; i++)
    if (x[i] == max) return i;
}

// Draws one token a row by inverting the cumulative softmax at u in [0, 1); u < 0 takes the first maximum. A row without
// a finite maximum yields -1. A row is read once, part by part: each part has its own maximum and a sum relative to it, and
// only the part that u falls into is looked at again. scratch has room for two floats a part and one part.
void popri_sample(int from, int to, int vocab, const float *logits, float k, const double *u, int32_t *out, float *scratch) {
  OPERATION("popri::sample");
  int parts = (vocab + SAMPLE_PART - 1) / SAMPLE_PART;
  float *top = scratch, *sum = scratch + parts, *e = scratch + 2 * parts;
  for (int r = from; r < to; r++) {
    const float *x = logits + (int64_t)r * vocab;
    out[r] = -1;
    if (u[r] < 0) {
      out[r] = first_maximum(x, vocab);
      continue;
    }
    float max = -INFINITY;
    for (int p = 0; p < parts; p++) {
      int at = p * SAMPLE_PART, n = vocab - at < SAMPLE_PART ? vocab - at : SAMPLE_PART;
      top[p] = max_of(x + at, n);
      // A part of nothing but minus infinity has no exponentials; one with a NaN beside that has none either.
      sum[p] = 0;
      if (top[p] > -INFINITY)
        sum[p] = exp_sum(e, x + at, n, top[p], k);
      else
        for (int i = 0; i < n; i++) sum[p] += x[at + i] != x[at + i] ? x[at + i] : 0;
      max = top[p] > max ? top[p] : max;
    }
    if (!(max > -INFINITY && max < INFINITY)) continue;
    double total = 0;
    for (int p = 0; p < parts; p++) total += sum[p] == 0 ? 0 : sum[p] * (double)fast_exp((top[p] - max) * k);
    if (!(total > 0 && total < INFINITY)) continue;
    double want = u[r] * total;
    int last = -1; // the last part with anything in it
    for (int p = 0; p < parts; p++) {
      if (sum[p] == 0) continue;
      double share = sum[p] * (double)fast_exp((top[p] - max) * k);
      last = p;
      if (share > want) break;
      want -= share;
    }
    int at = last * SAMPLE_PART, n = vocab - at < SAMPLE_PART ? vocab - at : SAMPLE_PART;
    exp_sum(e, x + at, n, top[last], k);
    want /= fast_exp((top[last] - max) * k);
    double passed = 0;
    for (int i = 0; i < n; i++) {
      if (x[at + i] == -INFINITY) continue;
      passed += e[i];
      out[r] = at + i;
      if (passed > want) break;
    }
  }
}
