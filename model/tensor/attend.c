#include "torch.h"
#include "profile.h"
#include "vector.h"
#include <math.h>

// The decoding kernels take up to GROUP queries of one head that share keys and values, so that a key read from memory
// serves all of them. They are written for a constant number of queries and one type of stored values, and inlined for
// each. Values are stored as float32 or as bfloat16.
#define GROUP 5

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
    if (c->cap > 0)
      for (int t = 0; t < np + ns; t++) s[t] = c->cap / c->scale * tanhf(s[t] * c->scale / c->cap);
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
  OPERATION("popri::attend");
  if (c->bf16)
    attend(1, c, from, to, qkv, out, slot, suffix_len, prefix, prefix_len, scratch);
  else
    attend(0, c, from, to, qkv, out, slot, suffix_len, prefix, prefix_len, scratch);
}
