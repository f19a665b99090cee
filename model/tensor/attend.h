// Attention of written text. Included by kernels.h.
#include <math.h>

// The decoding kernels take up to ATTEND_QUERIES queries that share keys and values, so that a key read from memory
// serves all of them: of the heads that share them, and of the rows that share a prompt. The loops are written for a
// constant number of queries and one type of stored values, float32 or bfloat16, and inlined for each.

// scores[g][t] = sum over d of q[g][d] · k[d][t], for t below n rounded up to a multiple of LANES, of which room is
// one, wide vectors of them at a time. With few queries, more than two vectors hide how long a sum takes.
INLINE void score_wide(int g, int wide, int bf16, float *scores, int stride, const float *const *q, const void *k,
                       int64_t from, int dim, int room) {
  floats sum[ATTEND_QUERIES][4] = {{{0}}};
  for (int d = 0; d < dim; d++, from += room) {
    floats x[4];
    for (int w = 0; w < wide; w++) x[w] = load(k, from + w * LANES, bf16);
    for (int i = 0; i < g; i++)
      for (int w = 0; w < wide; w++) sum[i][w] += x[w] * q[i][d];
  }
  for (int i = 0; i < g; i++)
    for (int w = 0; w < wide; w++) *(floats *)(scores + i * stride + w * LANES) = sum[i][w];
}

INLINE void score(int g, int bf16, float *scores, int stride, const float *const *q, const void *k, int64_t at,
                  int dim, int n, int room) {
  int t = 0;
  if (g < 4)
    for (; t + 3 * LANES < n; t += 4 * LANES) score_wide(g, 4, bf16, scores + t, stride, q, k, at + t, dim, room);
  for (; t + LANES < n; t += 2 * LANES) score_wide(g, 2, bf16, scores + t, stride, q, k, at + t, dim, room);
  if (t < n) score_wide(g, 1, bf16, scores + t, stride, q, k, at + t, dim, room);
}

// out[g][d] += sum over t of p[g][t] · v[t][d], wide vectors of dimensions at a time.
INLINE void blend_wide(int g, int wide, int bf16, float *const *out, int d, const float *p, int stride, const void *v,
                       int64_t from, int dim, int n) {
  floats sum[ATTEND_QUERIES][4] = {{{0}}};
  for (int t = 0; t < n; t++, from += dim) {
    floats x[4];
    for (int w = 0; w < wide; w++) x[w] = load(v, from + w * LANES, bf16);
    for (int i = 0; i < g; i++)
      for (int w = 0; w < wide; w++) sum[i][w] += x[w] * p[i * stride + t];
  }
  for (int i = 0; i < g; i++)
    for (int w = 0; w < wide; w++) *(floats *)(out[i] + d + w * LANES) += sum[i][w];
}

INLINE void blend(int g, int bf16, float *const *out, const float *p, int stride, const void *v, int64_t at, int dim,
                  int n) {
  int d = 0;
  if (g < 4)
    for (; d + 3 * LANES < dim; d += 4 * LANES) blend_wide(g, 4, bf16, out, d, p, stride, v, at + d, dim, n);
  for (; d + LANES < dim; d += 2 * LANES) blend_wide(g, 2, bf16, out, d, p, stride, v, at + d, dim, n);
  if (d < dim) blend_wide(g, 1, bf16, out, d, p, stride, v, at + d, dim, n);
}

// f(n, …) with a loop of its own for each number of queries up to ATTEND_QUERIES.
#define EACH(n, f, ...)                                                                                               \
  switch (n) {                                                                                                        \
  case 1: f(1, __VA_ARGS__); break;                                                                                   \
  case 2: f(2, __VA_ARGS__); break;                                                                                   \
  case 3: f(3, __VA_ARGS__); break;                                                                                   \
  case 4: f(4, __VA_ARGS__); break;                                                                                   \
  case 5: f(5, __VA_ARGS__); break;                                                                                   \
  default: f(6, __VA_ARGS__);                                                                                         \
  }

static void scores_of(int g, int bf16, float *scores, int stride, const float *const *q, const void *k,
                             int64_t at, int dim, int n, int room) {
  if (bf16)
    EACH(g, score, 1, scores, stride, q, k, at, dim, n, room)
  else
    EACH(g, score, 0, scores, stride, q, k, at, dim, n, room)
}

static void blend_of(int g, int bf16, float *const *out, const float *p, int stride, const void *v, int64_t at,
                            int dim, int n) {
  if (bf16)
    EACH(g, blend, 1, out, p, stride, v, at, dim, n)
  else
    EACH(g, blend, 0, out, p, stride, v, at, dim, n)
}

// The queries first to first + g of the head kv of keys, of rows from r that share a prompt. A row's queries follow
// each other.
static void attend_queries(int g, const popri_cache *c, int kv, int r, int first, const float *qkv, float *out,
                           const int32_t *slot, const int32_t *suffix_len, const int32_t *prefix,
                           const int32_t *prefix_len, float *scratch) {
  int dim = c->dim, kvh = c->kv_heads, each = c->heads / kvh, np = prefix_len[r], bf16 = c->bf16;
  int64_t width = (int64_t)(c->heads + 2 * kvh) * dim;
  int stride = c->prefix_room + c->suffix_room + 2 * LANES;
  int64_t shared = ((int64_t)prefix[r] * kvh + kv) * dim * c->prefix_room;
  const float *q[ATTEND_QUERIES];
  float *o[ATTEND_QUERIES];
  int row[ATTEND_QUERIES];
  for (int i = 0; i < g; i++) {
    int h = kv * each + (first + i) % each;
    row[i] = r + (first + i) / each;
    q[i] = qkv + row[i] * width + (int64_t)h * dim;
    o[i] = out + ((int64_t)row[i] * c->heads + h) * dim;
    for (int d = 0; d < dim; d++) o[i][d] = 0;
  }
  scores_of(g, bf16, scratch, stride, q, c->prefix_k, shared, dim, np, c->prefix_room);
  float inverse[ATTEND_QUERIES];
  for (int i = 0, n; i < g; i += n) {
    for (n = 1; i + n < g && row[i + n] == row[i]; n++) continue;
    int ns = suffix_len[row[i]] + 1;
    int64_t own = ((int64_t)slot[row[i]] * kvh + kv) * dim * c->suffix_room;
    scores_of(n, bf16, scratch + i * stride + np, stride, q + i, c->suffix_k, own, dim, ns, c->suffix_room);
    for (int k = i; k < i + n; k++) {
      float *s = scratch + k * stride;
      if (c->cap > 0)
        for (int t = 0; t < np + ns; t++) s[t] = c->cap / c->scale * tanhf(s[t] * c->scale / c->cap);
      inverse[k] = 1.0f / exp_sum(s, s, np + ns, max_of(s, np + ns), c->scale);
    }
  }
  blend_of(g, bf16, o, scratch, stride, c->prefix_v, shared, dim, np);
  for (int i = 0, n; i < g; i += n) {
    for (n = 1; i + n < g && row[i + n] == row[i]; n++) continue;
    int64_t own = ((int64_t)slot[row[i]] * kvh + kv) * dim * c->suffix_room;
    blend_of(n, bf16, o + i, scratch + i * stride + np, stride, c->suffix_v, own, dim, suffix_len[row[i]] + 1);
  }
  for (int i = 0; i < g; i++)
    for (int d = 0; d < dim; d++) o[i][d] *= inverse[i];
}

// One decoding step of attention for the rows [from, to): stores each row's new key and value in its slot and attends
// over its prompt's shared part and its own part. dim is a multiple of 16; scratch holds ATTEND_QUERIES rows of
// prefix_room + suffix_room + 32 floats.
void popri_attend(const popri_cache *c, int from, int to, const float *qkv, float *out, const int32_t *slot,
                  const int32_t *suffix_len, const int32_t *prefix, const int32_t *prefix_len, float *scratch) {
  OPERATION("popri::attend");
  int dim = c->dim, kvh = c->kv_heads, bf16 = c->bf16;
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
    int queries = alike * (c->heads / kvh), groups = (queries + ATTEND_QUERIES - 1) / ATTEND_QUERIES;
    for (int kv = 0; kv < kvh; kv++)
      for (int i = 0; i < groups; i++) {
        int first = (int)((int64_t)i * queries / groups), n = (int)((int64_t)(i + 1) * queries / groups) - first;
        attend_queries(n, c, kv, r, first, qkv, out, slot, suffix_len, prefix, prefix_len, scratch);
      }
    r += alike;
  }
}
