#include "torch.h"
#include "bf16.h"
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

// Sixteen floats at once, as the compiler's vector type: it becomes one register with AVX-512 and several without.
typedef float floats __attribute__((vector_size(64), aligned(4)));
typedef int32_t ints __attribute__((vector_size(64), aligned(4)));
#define INLINE static inline __attribute__((always_inline))

// exp on (-inf, 0]: 2^(x·log2 e) with a degree-6 polynomial for the fraction, relative error below 3e-7.
#define EXP_BODY(F, I, TO_INT, TO_FLOAT)                                                                            \
  F y = x * 1.44269504088896341f;                                                                                   \
  I k = TO_INT(y - 0.5f); /* towards zero from below: the nearest integer, as y <= 0 */                             \
  F f = (y - TO_FLOAT(k)) * 0.69314718055994531f;                                                                   \
  F p = 0.0416666667f + f * (0.00833333333f + f * 0.00138888889f);                                                  \
  p = 1.0f + f * (1.0f + f * (0.5f + f * (0.166666667f + f * p)));

INLINE float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  EXP_BODY(float, int32_t, (int32_t), (float))
  union {
    int32_t i;
    float f;
  } scale = {(k + 127) << 23};
  return p * scale.f;
}

#define TO_INTS(v) __builtin_convertvector(v, ints)
#define TO_FLOATS(v) __builtin_convertvector(v, floats)

INLINE void exp_floats(const float *in, float max, float factor, float *out, floats *sum) {
  floats x = (*(const floats *)in - max) * factor;
  ints low = x < -87.0f;
  floats least = (floats){0} - 87.0f;
  x = (floats)(((ints)x & ~low) | ((ints)least & low));
  EXP_BODY(floats, ints, TO_INTS, TO_FLOATS)
  floats e = p * (floats)((k + 127) << 23);
  *(floats *)out = e;
  *sum += e;
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

CLONES static float exp_sum(float *e, const float *x, int n, float max, float k) {
  floats part = {0};
  int i = 0;
  for (; i + LANES <= n; i += LANES) exp_floats(x + i, max, k, e + i, &part);
  float total = 0;
  for (; i < n; i++) total += e[i] = fast_exp((x[i] - max) * k);
  for (int j = 0; j < LANES; j++) total += part[j];
  return total;
}

// The decoding kernels take up to GROUP queries of one head that share keys and values, so that a key read from memory
// serves all of them. They are written for a constant number of queries and one type of stored values, and inlined for
// each. Values are stored as float32 or as bfloat16.
#define GROUP 5

typedef uint16_t halves __attribute__((vector_size(32), aligned(2)));

INLINE floats load(const void *p, int64_t at, int bf16) {
  if (!bf16) return *(const floats *)((const float *)p + at);
  return (floats)(__builtin_convertvector(*(const halves *)((const uint16_t *)p + at), ints) << 16);
}

INLINE float value(const void *p, int64_t at, int bf16) {
  return bf16 ? from_bf16(((const uint16_t *)p)[at]) : ((const float *)p)[at];
}

INLINE void store_floats(void *p, int64_t at, floats x, int bf16) {
  if (!bf16) {
    *(floats *)((float *)p + at) = x;
    return;
  }
  ints u = (ints)x, nan = x != x;
  u = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  *(halves *)((uint16_t *)p + at) = __builtin_convertvector((u & ~nan) | (nan & 0x7fc0), halves);
}

INLINE void store(void *p, int64_t at, float x, int bf16) {
  if (bf16)
    ((uint16_t *)p)[at] = to_bf16(x);
  else
    ((float *)p)[at] = x;
}

// scores[g][t] = sum over d of q[g][d] · k[d][t], for t below n rounded up to a multiple of 16 (room is one).
INLINE void score(int g, int bf16, float *scores, int stride, const float *const *q, const void *k, int64_t at, int dim, int n, int room) {
  for (int t = 0; t < n; t += 2 * LANES) {
    floats a[GROUP] = {{0}}, b[GROUP] = {{0}};
    int64_t from = at + t;
    if (t + LANES < n) {
      for (int d = 0; d < dim; d++, from += room) {
        floats x = load(k, from, bf16), y = load(k, from + LANES, bf16);
        for (int i = 0; i < g; i++) {
          a[i] += x * q[i][d];
          b[i] += y * q[i][d];
        }
      }
      for (int i = 0; i < g; i++) *(floats *)(scores + i * stride + t + LANES) = b[i];
    } else {
      for (int d = 0; d < dim; d++, from += room) {
        floats x = load(k, from, bf16);
        for (int i = 0; i < g; i++) a[i] += x * q[i][d];
      }
    }
    for (int i = 0; i < g; i++) *(floats *)(scores + i * stride + t) = a[i];
  }
}

// out[g][d] += sum over t of p[g][t] · v[t][d], 32 dimensions at a time.
INLINE void blend(int g, int bf16, float *const *out, const float *p, int stride, const void *v, int64_t at, int dim, int n) {
  for (int d = 0; d < dim; d += 2 * LANES) {
    floats a[GROUP] = {{0}}, b[GROUP] = {{0}};
    int two = d + LANES < dim;
    int64_t from = at + d;
    for (int t = 0; t < n; t++, from += dim) {
      floats x = load(v, from, bf16), y = two ? load(v, from + LANES, bf16) : x;
      for (int i = 0; i < g; i++) {
        float w = p[i * stride + t];
        a[i] += x * w;
        b[i] += y * w;
      }
    }
    for (int i = 0; i < g; i++) {
      *(floats *)(out[i] + d) += a[i];
      if (two) *(floats *)(out[i] + d + LANES) += b[i];
    }
  }
}

// One head of g rows that share a prompt.
INLINE void attend_rows(int g, int bf16, const popri_cache *c, int h, int r, const float *qkv, float *out, const int32_t *slot,
                        const int32_t *suffix_len, const int32_t *prefix, const int32_t *prefix_len, float *scratch) {
  int dim = c->dim, kvh = c->kv_heads, kv = h / (c->heads / kvh), np = prefix_len[r];
  int64_t width = (int64_t)(c->heads + 2 * kvh) * dim;
  int stride = c->prefix_room + c->suffix_room + 2 * LANES;
  int64_t shared = ((int64_t)prefix[r] * kvh + kv) * dim * c->prefix_room;
  const float *q[GROUP];
  float *o[GROUP];
  for (int i = 0; i < g; i++) {
    q[i] = qkv + (r + i) * width + (int64_t)h * dim;
    o[i] = out + ((int64_t)(r + i) * c->heads + h) * dim;
    for (int d = 0; d < dim; d++) o[i][d] = 0;
  }
  score(g, bf16, scratch, stride, q, c->prefix_k, shared, dim, np, c->prefix_room);
  float inverse[GROUP];
  for (int i = 0; i < g; i++) {
    float *s = scratch + i * stride;
    int ns = suffix_len[r + i] + 1;
    int64_t own = ((int64_t)slot[r + i] * kvh + kv) * dim * c->suffix_room;
    score(1, bf16, s + np, 0, q + i, c->suffix_k, own, dim, ns, c->suffix_room);
    inverse[i] = 1.0f / exp_sum(s, s, np + ns, max_of(s, np + ns), c->scale);
  }
  blend(g, bf16, o, scratch, stride, c->prefix_v, shared, dim, np);
  for (int i = 0; i < g; i++) {
    int64_t own = ((int64_t)slot[r + i] * kvh + kv) * dim * c->suffix_room;
    blend(1, bf16, o + i, scratch + i * stride + np, 0, c->suffix_v, own, dim, suffix_len[r + i] + 1);
    for (int d = 0; d < dim; d++) o[i][d] *= inverse[i];
  }
}

INLINE void attend(int bf16, const popri_cache *c, int from, int to, const float *qkv, float *out, const int32_t *slot,
                   const int32_t *suffix_len, const int32_t *prefix, const int32_t *prefix_len, float *scratch) {
  int dim = c->dim, kvh = c->kv_heads;
  int64_t width = (int64_t)(c->heads + 2 * kvh) * dim;
  for (int r = from; r < to; r++) {
    const float *k = qkv + r * width + (int64_t)c->heads * dim, *v = k + (int64_t)kvh * dim;
    for (int h = 0; h < kvh; h++) {
      int64_t at = ((int64_t)slot[r] * kvh + h) * dim * c->suffix_room;
      for (int d = 0; d < dim; d++) {
        store(c->suffix_k, at + (int64_t)d * c->suffix_room + suffix_len[r], k[h * dim + d], bf16);
        store(c->suffix_v, at + (int64_t)suffix_len[r] * dim + d, v[h * dim + d], bf16);
      }
    }
  }
  for (int r = from; r < to;) {
    int alike = 1;
    while (r + alike < to && prefix[r + alike] == prefix[r]) alike++;
    int groups = (alike + GROUP - 1) / GROUP;
    for (int h = 0; h < c->heads; h++)
      for (int i = 0; i < groups; i++) {
        int first = r + i * alike / groups;
        switch (r + (i + 1) * alike / groups - first) {
        case 5: attend_rows(5, bf16, c, h, first, qkv, out, slot, suffix_len, prefix, prefix_len, scratch); break;
        case 4: attend_rows(4, bf16, c, h, first, qkv, out, slot, suffix_len, prefix, prefix_len, scratch); break;
        case 3: attend_rows(3, bf16, c, h, first, qkv, out, slot, suffix_len, prefix, prefix_len, scratch); break;
        case 2: attend_rows(2, bf16, c, h, first, qkv, out, slot, suffix_len, prefix, prefix_len, scratch); break;
        default: attend_rows(1, bf16, c, h, first, qkv, out, slot, suffix_len, prefix, prefix_len, scratch);
        }
      }
    r += alike;
  }
}

// One decoding step of attention for the rows [from, to): stores each row's new key and value in its slot and attends
// over its prompt's shared part and its own part. dim is a multiple of 16; scratch holds 5 rows of
// prefix_room + suffix_room + 32 floats.
CLONES void popri_attend(const popri_cache *c, int from, int to, const float *qkv, float *out, const int32_t *slot,
                         const int32_t *suffix_len, const int32_t *prefix, const int32_t *prefix_len, float *scratch) {
  if (c->bf16)
    attend(1, c, from, to, qkv, out, slot, suffix_len, prefix, prefix_len, scratch);
  else
    attend(0, c, from, to, qkv, out, slot, suffix_len, prefix, prefix_len, scratch);
}

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
  if (bf16)
    rmsnorm(x, 1, w, y, rows, n, eps);
  else
    rmsnorm(x, 0, w, y, rows, n, eps);
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
  if (bf16)
    swiglu(x, 1, y, rows, n);
  else
    swiglu(x, 0, y, rows, n);
}

// Turns the first heads of each row of x [rows, width], dim values each, by the row's cosines and sines: row r has those of
// r modulo angles.
CLONES void popri_rotate(float *x, const float *cosines, const float *sines, int64_t rows, int64_t angles, int64_t width,
                         int64_t heads, int64_t dim) {
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

// e[i] = exp((x[i] - max)·k), for x[i] up to max.
void popri_exp(float *e, const float *x, int n, float max, float k) { exp_sum(e, x, n, max, k); }

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

// Σ e·(x − max); a probability of 0 counts as 0 even where the logit is -INFINITY.
CLONES static float weighted_sum(const float *restrict e, const float *restrict x, int n, float max) {
  floats part = {0};
  int i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) part[k] += e[i + k] > 0 ? e[i + k] * (x[i + k] - max) : 0;
  float total = 0;
  for (; i < n; i++) total += e[i] > 0 ? e[i] * (x[i] - max) : 0;
  for (int j = 0; j < LANES; j++) total += part[j];
  return total;
}

// For the rows [from, to) of logits [n, vocab], float32 or bfloat16: the log-probability of the target, the log of the
// normaliser, and (where not null) the likeliest token and the distribution's entropy. A row that is not finite yields NaN.
void popri_logprobs(int64_t from, int64_t to, int vocab, const void *logits, int bf16, const int32_t *target, float *out,
                    float *normaliser, int32_t *best, float *entropy) {
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
    double total = 0, weighted = 0;
    for (int at = 0; at < vocab; at += CHUNK) {
      int n = vocab - at < CHUNK ? vocab - at : CHUNK;
      if (bf16) widen(wide, xb + at, n);
      total += exp_sum(e, bf16 ? wide : xf + at, n, max, 1.0f);
      if (entropy) weighted += weighted_sum(e, bf16 ? wide : xf + at, n, max);
    }
    bad = !(max > -INFINITY && max < INFINITY && total > 0);
    float norm = max + (float)log(total);
    float x = bf16 ? from_bf16(xb[target[r]]) : xf[target[r]];
    out[r] = bad ? NAN : x - norm;
    normaliser[r] = norm;
    if (entropy) entropy[r] = bad ? NAN : (float)(log(total) - weighted / total);
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
