#include "torch.h"
#include <math.h>

#ifdef __GNUC__
#pragma GCC optimize("no-math-errno")
#endif
// The compiler makes one version for each instruction set and the loader picks the best that the CPU has.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

// One pass over parameter, gradient and both moments. c1 and c2 are the bias corrections 1 - b^t; scale multiplies the
// gradient (clipping). The operations and their order are those of torch.optim.AdamW without foreach.
CLONES void popri_adamw(float *restrict p, const float *restrict g, float *restrict m, float *restrict v, int64_t n, float lr,
                 float b1, float b2, float eps, float wd, float c1, float c2, float scale) {
  float decay = 1.0f - lr * wd, step = lr / c1, root = sqrtf(c2);
  for (int64_t i = 0; i < n; i++) {
    float gi = g[i] * scale;
    m[i] = b1 * m[i] + (1.0f - b1) * gi;
    v[i] = b2 * v[i] + (1.0f - b2) * gi * gi;
    p[i] = p[i] * decay - step * m[i] / (sqrtf(v[i]) / root + eps);
  }
}

CLONES double popri_sum_squares(const float *x, int64_t n) {
  double total = 0;
  for (int64_t at = 0; at < n; at += 4096) {
    int64_t end = at + 4096 < n ? at + 4096 : n;
    float part[16] = {0};
    int64_t i = at;
    for (; i + 16 <= end; i += 16)
      for (int k = 0; k < 16; k++) part[k] += x[i + k] * x[i + k];
    for (; i < end; i++) part[0] += x[i] * x[i];
    for (int k = 0; k < 16; k++) total += part[k];
  }
  return total;
}

// exp on (-inf, 0]: 2^(x·log2 e) with a degree-5 polynomial for the fraction, relative error below 3e-7. The compiler
// vectorises it, which it cannot do with a call of expf.
static inline float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  float y = x * 1.44269504088896341f;
  float n = (float)(int)(y - 0.5f); // towards zero from below: the nearest integer, as y <= 0
  float f = (y - n) * 0.69314718055994531f;
  float p = 1.0f + f * (1.0f + f * (0.5f + f * (0.166666667f + f * (0.0416666667f + f * (0.00833333333f + f * 0.00138888889f)))));
  union {
    int32_t i;
    float f;
  } scale = {((int32_t)n + 127) << 23};
  return p * scale.f;
}

#define LANES 16

CLONES static float max_of(const float *x, int n) {
  float best[LANES];
  for (int k = 0; k < LANES; k++) best[k] = -INFINITY;
  int i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) best[k] = x[i + k] > best[k] ? x[i + k] : best[k];
  for (; i < n; i++) best[0] = x[i] > best[0] ? x[i] : best[0];
  for (int k = 1; k < LANES; k++) best[0] = best[k] > best[0] ? best[k] : best[0];
  return best[0];
}

CLONES static float exp_sum(float *restrict e, const float *restrict x, int n, float max, float k) {
  float part[LANES] = {0};
  int i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; j++) part[j] += e[i + j] = fast_exp((x[i + j] - max) * k);
  for (; i < n; i++) part[0] += e[i] = fast_exp((x[i] - max) * k);
  for (int j = 1; j < LANES; j++) part[0] += part[j];
  return part[0];
}

// scores[t] += sum over d of q[d] · k[d][t]
CLONES static void products(float *restrict scores, const float *restrict q, const float *restrict k, int dim, int n,
                            int stride) {
  for (int t = 0; t < n; t++) scores[t] = 0;
  int d = 0;
  for (; d + 4 <= dim; d += 4) {
    const float *a = k + (int64_t)d * stride, *b = a + stride, *c = b + stride, *e = c + stride;
    float w = q[d], x = q[d + 1], y = q[d + 2], z = q[d + 3];
    for (int t = 0; t < n; t++) scores[t] += w * a[t] + x * b[t] + y * c[t] + z * e[t];
  }
  for (; d < dim; d++) {
    const float *a = k + (int64_t)d * stride;
    for (int t = 0; t < n; t++) scores[t] += q[d] * a[t];
  }
}

CLONES static void accumulate(float *restrict out, const float *restrict p, const float *restrict v, int dim, int n) {
  int t = 0;
  for (; t + 4 <= n; t += 4) {
    const float *a = v + (int64_t)t * dim, *b = a + dim, *c = b + dim, *e = c + dim;
    for (int d = 0; d < dim; d++) out[d] += p[t] * a[d] + p[t + 1] * b[d] + p[t + 2] * c[d] + p[t + 3] * e[d];
  }
  for (; t < n; t++)
    for (int d = 0; d < dim; d++) out[d] += p[t] * v[(int64_t)t * dim + d];
}

CLONES static void scale_by(float *x, int n, float k) {
  for (int i = 0; i < n; i++) x[i] *= k;
}

// One decoding step of attention for the rows [from, to): stores each row's new key and value in its slot and attends
// over its prompt's shared part and its own part. scratch holds prefix_room + 2·suffix_room floats, twice.
void popri_attend(const popri_cache *c, int from, int to, const float *qkv, float *out, const int32_t *slot,
                  const int32_t *suffix_len, const int32_t *prefix, const int32_t *prefix_len, float *scratch) {
  int dim = c->dim, kvh = c->kv_heads, group = c->heads / kvh;
  int64_t width = (int64_t)(c->heads + 2 * kvh) * dim;
  for (int r = from; r < to; r++) {
    const float *k = qkv + r * width + (int64_t)c->heads * dim, *v = k + (int64_t)kvh * dim;
    int at = suffix_len[r];
    for (int h = 0; h < kvh; h++) {
      float *sk = c->suffix_k + ((int64_t)slot[r] * kvh + h) * dim * c->suffix_room;
      float *sv = c->suffix_v + ((int64_t)slot[r] * kvh + h) * dim * c->suffix_room;
      for (int d = 0; d < dim; d++) sk[(int64_t)d * c->suffix_room + at] = k[h * dim + d];
      for (int d = 0; d < dim; d++) sv[(int64_t)at * dim + d] = v[h * dim + d];
    }
  }
  for (int h = 0; h < c->heads; h++) {
    int kv = h / group;
    for (int r = from; r < to; r++) {
      const float *q = qkv + r * width + (int64_t)h * dim;
      int np = prefix_len[r], ns = suffix_len[r] + 1;
      const float *pk = c->prefix_k + ((int64_t)prefix[r] * kvh + kv) * dim * c->prefix_room;
      const float *pv = c->prefix_v + ((int64_t)prefix[r] * kvh + kv) * dim * c->prefix_room;
      const float *sk = c->suffix_k + ((int64_t)slot[r] * kvh + kv) * dim * c->suffix_room;
      const float *sv = c->suffix_v + ((int64_t)slot[r] * kvh + kv) * dim * c->suffix_room;
      float *scores = scratch, *p = scratch + c->prefix_room + 2 * c->suffix_room;
      products(scores, q, pk, dim, np, c->prefix_room);
      products(scores + np, q, sk, dim, ns, c->suffix_room);
      float max = max_of(scores, np + ns);
      float total = exp_sum(p, scores, np + ns, max, c->scale);
      float *o = out + ((int64_t)r * c->heads + h) * dim;
      for (int d = 0; d < dim; d++) o[d] = 0;
      accumulate(o, p, pv, dim, np);
      accumulate(o, p + np, sv, dim, ns);
      scale_by(o, dim, 1.0f / total);
    }
  }
}

// Draws one token a row by inverting the cumulative softmax at u in [0, 1); u < 0 takes the first maximum. A row without
// a finite maximum yields -1.
void popri_sample(int from, int to, int vocab, const float *logits, float inverse_temperature, const double *u,
                  int32_t *out, float *scratch) {
  for (int r = from; r < to; r++) {
    const float *x = logits + (int64_t)r * vocab;
    float max = max_of(x, vocab);
    out[r] = -1;
    if (!(max > -INFINITY && max < INFINITY)) continue;
    if (u[r] < 0) {
      for (int i = 0; i < vocab && out[r] < 0; i++)
        if (x[i] == max) out[r] = i;
      continue;
    }
    double total = 0;
    for (int at = 0; at < vocab; at += 4096)
      total += exp_sum(scratch + at, x + at, vocab - at < 4096 ? vocab - at : 4096, max, inverse_temperature);
    if (!(total > 0 && total < INFINITY)) continue;
    double want = u[r] * total, sum = 0;
    int last = -1;
    for (int i = 0; i < vocab; i++) {
      if (x[i] == -INFINITY) continue;
      sum += scratch[i];
      last = i;
      if (sum > want) break;
    }
    out[r] = last;
  }
}

static inline float from_bf16(uint16_t x) {
  union {
    uint32_t i;
    float f;
  } u = {(uint32_t)x << 16};
  return u.f;
}

static inline uint16_t to_bf16(float x) { // round to nearest even
  union {
    float f;
    uint32_t i;
  } u = {x};
  return (uint16_t)((u.i + 0x7fffu + ((u.i >> 16) & 1)) >> 16);
}

#define CHUNK 2048

CLONES static void widen(float *restrict out, const uint16_t *restrict x, int n) {
  for (int i = 0; i < n; i++) out[i] = from_bf16(x[i]);
}

CLONES static void softmax_grad(float *restrict x, int n, float normaliser, float weight) {
  for (int i = 0; i < n; i++) x[i] = -weight * fast_exp(x[i] - normaliser);
}

CLONES static void softmax_grad_bf16(uint16_t *restrict x, int n, float normaliser, float weight) {
  for (int i = 0; i < n; i++) x[i] = to_bf16(-weight * fast_exp(from_bf16(x[i]) - normaliser));
}

// For the rows [from, to) of logits [n, vocab], float32 or bfloat16: the log-probability of the target, the log of the
// normaliser, and (best not null) the likeliest token. A row that is not finite yields NaN.
void popri_logprobs(int64_t from, int64_t to, int vocab, const void *logits, int bf16, const int32_t *target, float *out,
                    float *normaliser, int32_t *best) {
  float wide[CHUNK], e[CHUNK];
  for (int64_t r = from; r < to; r++) {
    const float *xf = (const float *)logits + r * vocab;
    const uint16_t *xb = (const uint16_t *)logits + r * vocab;
    float max = -INFINITY;
    int bad = 0;
    for (int at = 0; at < vocab; at += CHUNK) {
      int n = vocab - at < CHUNK ? vocab - at : CHUNK;
      if (bf16) widen(wide, xb + at, n);
      float m = max_of(bf16 ? wide : xf + at, n);
      max = m > max ? m : max;
    }
    double total = 0;
    for (int at = 0; at < vocab; at += CHUNK) {
      int n = vocab - at < CHUNK ? vocab - at : CHUNK;
      if (bf16) widen(wide, xb + at, n);
      total += exp_sum(e, bf16 ? wide : xf + at, n, max, 1.0f);
    }
    bad = !(max > -INFINITY && max < INFINITY && total > 0);
    float norm = max + (float)log(total);
    float x = bf16 ? from_bf16(xb[target[r]]) : xf[target[r]];
    out[r] = bad ? NAN : x - norm;
    normaliser[r] = norm;
    if (best) {
      best[r] = -1;
      for (int i = 0; i < vocab && best[r] < 0; i++)
        if ((bf16 ? from_bf16(xb[i]) : xf[i]) == max) best[r] = i;
    }
  }
}

// Overwrites the rows [from, to) of logits with weight · d logprob(target) / d logits = weight · (one-hot - softmax).
void popri_logprobs_grad(int64_t from, int64_t to, int vocab, void *logits, int bf16, const int32_t *target,
                         const float *normaliser, const float *weight) {
  for (int64_t r = from; r < to; r++) {
    if (bf16) {
      uint16_t *x = (uint16_t *)logits + r * vocab;
      float own = weight[r] * (1.0f - fast_exp(from_bf16(x[target[r]]) - normaliser[r]));
      softmax_grad_bf16(x, vocab, normaliser[r], weight[r]);
      x[target[r]] = to_bf16(own);
    } else {
      float *x = (float *)logits + r * vocab;
      float own = weight[r] * (1.0f - fast_exp(x[target[r]] - normaliser[r]));
      softmax_grad(x, vocab, normaliser[r], weight[r]);
      x[target[r]] = own;
    }
  }
}
