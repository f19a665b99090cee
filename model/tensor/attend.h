// Attention of written text. Included by kernels.h.
#include <math.h>

// The decoding kernels take up to ATTEND_QUERIES queries that share keys and values, so that a key read from memory
// serves all of them: of the heads that share them, and of the rows that share a prompt. The loops are written for a
// constant number of queries and one type of stored values, float32 or bfloat16, and inlined for each.

// scores[g][t] = sum over d of q[g][d] · k[d][t], for t below n rounded up to a multiple of LANES, of which room is
// one, wide vectors of them at a time. With few queries, more than two vectors hide how long a sum takes. What is
// as far behind next is fetched.
INLINE void score_wide(int g, int wide, int bf16, float *scores, int stride, const float *const *q, const void *k,
                       int64_t from, int64_t next, int dim, int room) {
  floats sum[ATTEND_QUERIES][4] = {{{0}}};
  for (int d = 0; d < dim; d++, from += room, next += room) {
    floats x[4];
    for (int w = 0; w < wide; w++) x[w] = load(k, from + w * LANES, bf16), soon(k, next + w * LANES, bf16);
    for (int i = 0; i < g; i++)
      for (int w = 0; w < wide; w++) sum[i][w] += x[w] * q[i][d];
  }
  for (int i = 0; i < g; i++)
    for (int w = 0; w < wide; w++) *(floats *)(scores + i * stride + w * LANES) = sum[i][w];
}

INLINE void score(int g, int bf16, float *scores, int stride, const float *const *q, const void *k, int64_t at,
                  int64_t next, int dim, int n, int room) {
  int t = 0;
  if (g < 4)
    for (; t + 3 * LANES < n; t += 4 * LANES)
      score_wide(g, 4, bf16, scores + t, stride, q, k, at + t, next + t, dim, room);
  for (; t + LANES < n; t += 2 * LANES) score_wide(g, 2, bf16, scores + t, stride, q, k, at + t, next + t, dim, room);
  if (t < n) score_wide(g, 1, bf16, scores + t, stride, q, k, at + t, next + t, dim, room);
}

// out[g][d] += sum over t of p[g][t] · v[t][d], wide vectors of dimensions at a time. As much is fetched from next on.
INLINE void blend_wide(int g, int wide, int bf16, float *const *out, int d, const float *p, int stride, const void *v,
                       int64_t from, int64_t next, int dim, int n) {
  floats sum[ATTEND_QUERIES][4] = {{{0}}};
  for (int t = 0; t < n; t++, from += dim, next += dim) {
    floats x[4];
    for (int w = 0; w < wide; w++) x[w] = load(v, from + w * LANES, bf16), soon(v, next + w * LANES, bf16);
    for (int i = 0; i < g; i++)
      for (int w = 0; w < wide; w++) sum[i][w] += x[w] * p[i * stride + t];
  }
  for (int i = 0; i < g; i++)
    for (int w = 0; w < wide; w++) *(floats *)(out[i] + d + w * LANES) += sum[i][w];
}

INLINE void blend(int g, int bf16, float *const *out, const float *p, int stride, const void *v, int64_t at,
                  int64_t next, int dim, int n) {
  int d = 0;
  if (g < 4)
    for (; d + 3 * LANES < dim; d += 4 * LANES) blend_wide(g, 4, bf16, out, d, p, stride, v, at + d, next + d, dim, n);
  for (; d + LANES < dim; d += 2 * LANES) blend_wide(g, 2, bf16, out, d, p, stride, v, at + d, next + d, dim, n);
  if (d < dim) blend_wide(g, 1, bf16, out, d, p, stride, v, at + d, next + d, dim, n);
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
                             int64_t at, int64_t next, int dim, int n, int room) {
  if (bf16)
    EACH(g, score, 1, scores, stride, q, k, at, next, dim, n, room)
  else
    EACH(g, score, 0, scores, stride, q, k, at, next, dim, n, room)
}

static void blend_of(int g, int bf16, float *const *out, const float *p, int stride, const void *v, int64_t at,
                            int64_t next, int dim, int n) {
  if (bf16)
    EACH(g, blend, 1, out, p, stride, v, at, next, dim, n)
  else
    EACH(g, blend, 0, out, p, stride, v, at, next, dim, n)
}

// The queries first to first + g of the head kv of keys, of the alike rows from r that share a prompt. A row's queries
// follow each other. Each row's new key and value are stored first. What the same queries of the next head, or prompt,
// read is fetched.
static void attend_queries(int g, const popri_cache *c, int kv, int r, int alike, int to, int first, const float *qkv,
                           float *out, const int32_t *slot, const int32_t *suffix_len, const int32_t *prefix,
                           const int32_t *prefix_len, float *scratch) {
  int dim = c->dim, kvh = c->kv_heads, each = c->heads / kvh, np = prefix_len[r], bf16 = c->bf16, last = kv + 1 == kvh;
  int64_t width = (int64_t)(c->heads + 2 * kvh) * dim, block = (int64_t)dim * c->suffix_room;
  int stride = c->prefix_room + c->suffix_room + 2 * LANES;
  int64_t room = (int64_t)dim * c->prefix_room, shared = ((int64_t)prefix[r] * kvh + kv) * room, ahead = shared;
  if (first == 0 && !last) ahead += room;
  if (first == 0 && last && r + alike < to) ahead = prefix[r + alike] * kvh * room;
  const float *q[ATTEND_QUERIES];
  float *o[ATTEND_QUERIES];
  int row[ATTEND_QUERIES];
  int64_t own[ATTEND_QUERIES], next[ATTEND_QUERIES];
  for (int i = 0; i < g; i++) {
    int h = kv * each + (first + i) % each;
    row[i] = r + (first + i) / each;
    q[i] = qkv + row[i] * width + (int64_t)h * dim;
    o[i] = out + ((int64_t)row[i] * c->heads + h) * dim;
    for (int d = 0; d < dim; d++) o[i][d] = 0;
    own[i] = next[i] = ((int64_t)slot[row[i]] * kvh + kv) * block;
    if (!last) next[i] += block;
    if (last && row[i] + alike < to) next[i] = slot[row[i] + alike] * kvh * block;
  }
  scores_of(g, bf16, scratch, stride, q, c->prefix_k, shared, ahead, dim, np, c->prefix_room);
  float inverse[ATTEND_QUERIES];
  for (int i = 0, n; i < g; i += n) {
    for (n = 1; i + n < g && row[i + n] == row[i]; n++) continue;
    int t = suffix_len[row[i]];
    const float *k = qkv + row[i] * width + (int64_t)(c->heads + kv) * dim, *v = k + (int64_t)kvh * dim;
    for (int d = 0; d < dim; d++) {
      store(c->suffix_k, own[i] + (int64_t)d * c->suffix_room + t, k[d], bf16);
      store(c->suffix_v, own[i] + (int64_t)t * dim + d, v[d], bf16);
    }
    scores_of(n, bf16, scratch + i * stride + np, stride, q + i, c->suffix_k, own[i], next[i], dim, t + 1,
              c->suffix_room);
    for (int j = i; j < i + n; j++) {
      float *s = scratch + j * stride;
      if (c->cap > 0)
        for (int x = 0; x < np + t + 1; x++) s[x] = c->cap / c->scale * tanhf(s[x] * c->scale / c->cap);
      inverse[j] = 1.0f / exp_sum(s, s, np + t + 1, max_of(s, np + t + 1), c->scale);
    }
  }
  blend_of(g, bf16, o, scratch, stride, c->prefix_v, shared, ahead, dim, np);
  for (int i = 0, n; i < g; i += n) {
    for (n = 1; i + n < g && row[i + n] == row[i]; n++) continue;
    blend_of(n, bf16, o + i, scratch + i * stride + np, stride, c->suffix_v, own[i], next[i], dim,
             suffix_len[row[i]] + 1);
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
  for (int r = from; r < to;) {
    int alike = 1;
    while (r + alike < to && prefix[r + alike] == prefix[r]) alike++;
    int queries = alike * (c->heads / c->kv_heads), groups = (queries + ATTEND_QUERIES - 1) / ATTEND_QUERIES;
    for (int kv = 0; kv < c->kv_heads; kv++)
      for (int i = 0; i < groups; i++) {
        int first = (int)((int64_t)i * queries / groups), n = (int)((int64_t)(i + 1) * queries / groups) - first;
        attend_queries(n, c, kv, r, alike, to, first, qkv, out, slot, suffix_len, prefix, prefix_len, scratch);
      }
    r += alike;
  }
}
