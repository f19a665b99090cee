#include "torch.h"
#include "profile.h"
#include "amx.h"

// Attention while sampling, in bfloat16 on the matrix unit. Up to 32 queries that share keys are the rows of one
// product with them: a prompt's samples, times the heads that share a head of keys (Hydragen, arXiv 2402.05099). A
// sample's own keys, which only its own heads share, take the vector unit's bfloat16 products. Keys and values are
// stored so that both units read them without moving anything: number (t, d) of a head's keys is in the block of 16
// tokens t/16 at (d/2, t%16, d%2), of its values at (t/2, d, t%2). Scores, sums and the softmax are float32.

#ifdef AMX

enum { QUERIES = 32, SIDE = 16 };

typedef struct {
  float *scores, *own_scores, *out; // [32][room], [32][own room], [32][dim]
  uint16_t *q, *p, *own_p;          // [32][dim], [32][room], [32][own room]
  int room, own_room, dim;
} attend_scratch;

// One more line than a power of two keeps rows from sharing the cache's sets.
static int spaced(int n) { return (n + 31) / 32 * 32 + 32; }

static int64_t lay_out(const popri_cache *c, char *start, attend_scratch *s) {
  char *at = start + (-(uintptr_t)start & 63);
  s->room = spaced(c->prefix_room), s->own_room = spaced(c->suffix_room), s->dim = c->dim;
  s->scores = (float *)at, at += QUERIES * s->room * 4;
  s->own_scores = (float *)at, at += QUERIES * s->own_room * 4;
  s->out = (float *)at, at += QUERIES * s->dim * 4;
  s->q = (uint16_t *)at, at += QUERIES * s->dim * 2;
  s->p = (uint16_t *)at, at += QUERIES * s->room * 2;
  s->own_p = (uint16_t *)at, at += QUERIES * s->own_room * 2;
  return at - start;
}

int64_t popri_attend_scratch(const popri_cache *c) {
  attend_scratch s;
  return lay_out(c, 0, &s) + 64;
}

// A head's query, rounded; what the padded width has more is zero.
INLINE void round_row(uint16_t *to, const float *x, int n, int dim) {
  for (int d = 0; d < dim; d += SIDE) store_bf16(to + d, 0xffff, _mm512_maskz_loadu_ps(up_to(n - d), x + d));
}

// Stores the key and value of token t, n wide, into a head's. The first of a pair of values zeroes the second one,
// which is multiplied by a probability of zero until it is there.
INLINE void store_token(uint16_t *k, uint16_t *v, int t, const float *key, const float *value, int n, int dim) {
  int *kt = (int *)(k + (int64_t)(t / SIDE) * SIDE * dim) + t % SIDE; // pairs of dimensions, 16 tokens apart
  const __m256i apart = _mm256_setr_epi32(0, 16, 32, 48, 64, 80, 96, 112);
  uint16_t *vt = v + (int64_t)(t / 2) * 2 * dim;
  for (int d = 0; d < dim; d += SIDE) {
    __mmask16 m = up_to(n - d);
    _mm256_i32scatter_epi32(kt + d / 2 * SIDE, apart, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(m, key + d)),
                            4);
    __m512i x = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(m, value + d)));
    if (t % 2) x = _mm512_or_si512(_mm512_slli_epi32(x, 16), _mm512_loadu_si512(vt + 2 * d));
    _mm512_storeu_si512(vt + 2 * d, x);
  }
}

// Asks for n lines of 32 elements to be in the second-level cache soon.
INLINE void fetch(const uint16_t *p, int n) {
  for (int i = 0; i < n; i++) _mm_prefetch((const char *)(p + 32 * i), _MM_HINT_T1);
}

// The queries' scores with the first n keys, rounded up to 32. Without two there are 16 queries at most. As much is
// fetched at next.
INLINE void tile_scores(const attend_scratch *s, int two, const uint16_t *k, const uint16_t *next, int n) {
  int dim = s->dim;
  for (int t = 0; t < n; t += 2 * SIDE) {
    load_sums(1, 0, 0);
    for (int d = 0; d < dim; d += 2 * SIDE) {
      const uint16_t *b = k + (int64_t)t * dim + d * SIDE;
      fetch(next + (b - k), SIDE);
      fetch(next + (b - k) + SIDE * dim, SIDE);
      _tile_loadd(4, s->q + d, dim * 2);
      if (two) _tile_loadd(5, s->q + SIDE * dim + d, dim * 2);
      _tile_loadd(6, b, 64);
      _tile_loadd(7, b + SIDE * dim, 64);
      four_products(two);
    }
    store_sums(two, s->scores + t, s->room);
  }
}

// The values weighted by the probabilities of the first n, rounded up to 32. As much is fetched at next.
INLINE void tile_blend(const attend_scratch *s, int two, const uint16_t *v, const uint16_t *next, int n) {
  int dim = s->dim;
  for (int d = 0; d < dim; d += 2 * SIDE) {
    load_sums(1, 0, 0);
    for (int t = 0; t < n; t += 2 * SIDE) {
      const uint16_t *b = v + (int64_t)t * dim + 2 * d;
      fetch(next + (int64_t)t * dim + d * SIDE, SIDE);
      fetch(next + ((int64_t)t + SIDE) * dim + d * SIDE, SIDE);
      _tile_loadd(4, s->p + t, s->room * 2);
      if (two) _tile_loadd(5, s->p + SIDE * s->room + t, s->room * 2);
      _tile_loadd(6, b, dim * 4);
      _tile_loadd(7, b + 2 * SIDE, dim * 4);
      four_products(two);
    }
    store_sums(two, s->out + d, dim);
  }
}

#define PAIR(p) ((__m512bh)_mm512_set1_epi32(*(const int *)(p)))

// Scores of g queries with n keys of their own, rounded up to 16.
INLINE void own_scores(int g, const attend_scratch *s, int row, const uint16_t *k, const uint16_t *next, int n) {
  for (int t = 0; t < n; t += SIDE) {
    __m512 even[4], odd[4];
    for (int i = 0; i < g; i++) even[i] = odd[i] = _mm512_setzero_ps();
    const uint16_t *b = k + (int64_t)t * s->dim, *q = s->q + row * s->dim, *after = next + (int64_t)t * s->dim;
    for (int d = 0; d < s->dim; d += 4) {
      fetch(after + d * SIDE, 2);
      __m512bh x = (__m512bh)_mm512_loadu_si512(b + d * SIDE), y = (__m512bh)_mm512_loadu_si512(b + (d + 2) * SIDE);
      for (int i = 0; i < g; i++) {
        even[i] = _mm512_dpbf16_ps(even[i], x, PAIR(q + i * s->dim + d));
        odd[i] = _mm512_dpbf16_ps(odd[i], y, PAIR(q + i * s->dim + d + 2));
      }
    }
    for (int i = 0; i < g; i++)
      _mm512_storeu_ps(s->own_scores + (row + i) * s->own_room + t, _mm512_add_ps(even[i], odd[i]));
  }
}

// Adds g queries' own values to what they have, over n tokens.
INLINE void own_blend(int g, const attend_scratch *s, int row, const uint16_t *v, const uint16_t *next, int n) {
  for (int d = 0; d < s->dim; d += 2 * SIDE) {
    __m512 a[4], b[4];
    for (int i = 0; i < g; i++) {
      float *o = s->out + (row + i) * s->dim + d;
      a[i] = _mm512_loadu_ps(o), b[i] = _mm512_loadu_ps(o + SIDE);
    }
    for (int t = 0; t < n; t += 2) {
      const uint16_t *at = v + (int64_t)t * s->dim + 2 * d;
      fetch(next + (at - v), 2);
      __m512bh x = (__m512bh)_mm512_loadu_si512(at), y = (__m512bh)_mm512_loadu_si512(at + 2 * SIDE);
      for (int i = 0; i < g; i++) {
        __m512bh w = PAIR(s->own_p + (row + i) * s->own_room + t);
        a[i] = _mm512_dpbf16_ps(a[i], x, w);
        b[i] = _mm512_dpbf16_ps(b[i], y, w);
      }
    }
    for (int i = 0; i < g; i++) {
      float *o = s->out + (row + i) * s->dim + d;
      _mm512_storeu_ps(o, a[i]), _mm512_storeu_ps(o + SIDE, b[i]);
    }
  }
}

// Calls f for g queries at a time, of a number known to the compiler.
#define IN_FOURS(heads, row, f, ...)                                                                                  \
  for (int first = 0; first < (heads); first += 4) switch ((heads) - first) {                                         \
    case 1: f(1, s, (row) + first, __VA_ARGS__); break;                                                               \
    case 2: f(2, s, (row) + first, __VA_ARGS__); break;                                                               \
    case 3: f(3, s, (row) + first, __VA_ARGS__); break;                                                               \
    default: f(4, s, (row) + first, __VA_ARGS__);                                                                     \
    }

INLINE __m512 largest(__m512 top, const float *x, int n) {
  for (int t = 0; t < n; t += SIDE) {
    __mmask16 m = up_to(n - t);
    top = _mm512_mask_max_ps(top, m, top, _mm512_maskz_loadu_ps(m, x + t));
  }
  return top;
}

// p = exp((x - top)·scale) for n values, zeros behind them up to end; returns the sums.
INLINE __m512 exponentials(uint16_t *p, const float *x, int n, int end, __m512 top, __m512 scale) {
  __m512 sum = _mm512_setzero_ps();
  for (int t = 0; t < n; t += SIDE) {
    __m512 e = _mm512_maskz_mov_ps(up_to(n - t),
                                   exp_negative(_mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(x + t), top), scale)));
    store_bf16(p + t, 0xffff, e);
    sum = _mm512_add_ps(sum, e);
  }
  for (int t = (n + SIDE - 1) / SIDE * SIDE; t < end; t += SIDE) store_bf16(p + t, 0xffff, _mm512_setzero_ps());
  return sum;
}

// Turns a query's scores, n shared and own ones, into probabilities and returns the inverse of their sum. Shared ones
// get zeros up to end.
INLINE float soft(const attend_scratch *s, int row, int n, int own, int end, float scale) {
  float *x = s->scores + row * s->room, *y = s->own_scores + row * s->own_room;
  __m512 top = _mm512_set1_ps(-INFINITY);
  top = largest(largest(top, x, n), y, own);
  top = _mm512_set1_ps(_mm512_reduce_max_ps(top));
  __m512 k = _mm512_set1_ps(scale), sum = exponentials(s->p + row * s->room, x, n, end, top, k);
  sum = _mm512_add_ps(sum, exponentials(s->own_p + row * s->own_room, y, own, own, top, k));
  return 1.0f / _mm512_reduce_add_ps(sum);
}

INLINE void write_row(uint16_t *to, const float *x, int n, float scale) {
  for (int d = 0; d < n; d += SIDE) {
    __mmask16 m = up_to(n - d);
    store_bf16(to + d, m, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + d), _mm512_set1_ps(scale)));
  }
}

static int64_t width_of(const popri_cache *c) { return (int64_t)(c->heads + 2 * c->kv_heads) * c->head; }

// Where a block's keys and values are: its prompt's and its samples', from the row r on.
typedef struct {
  const popri_cache *c;
  const int32_t *slot;
  int kv, r, prefix;
} attend_block;

static const uint16_t *of_prompt(const attend_block *b, const void *x) {
  return (const uint16_t *)x + ((int64_t)b->prefix * b->c->kv_heads + b->kv) * b->c->dim * b->c->prefix_room;
}

static uint16_t *of_sample(const attend_block *b, void *x, int i) {
  return (uint16_t *)x + ((int64_t)b->slot[b->r + i] * b->c->kv_heads + b->kv) * b->c->dim * b->c->suffix_room;
}

// Samples × heads queries of a block's samples, of heads from h on of those that share its keys. What the next block
// will read is fetched meanwhile.
INLINE void decode_block(const attend_scratch *s, const attend_block *b, const attend_block *next, int h, int heads,
                         int samples, const float *qkv, uint16_t *out, const int32_t *suffix_len, int n) {
  const popri_cache *c = b->c;
  int dim = c->dim, queries = heads * samples, two = queries > SIDE, end = (n + 31) / 32 * 32;
  for (int i = 0; i < samples; i++)
    for (int j = 0; j < heads; j++)
      round_row(s->q + (i * heads + j) * dim, qkv + (b->r + i) * width_of(c) + (int64_t)(h + j) * c->head, c->head,
                dim);
  tile_scores(s, two, of_prompt(b, c->prefix_k), of_prompt(next, c->prefix_k), n);
  float inverse[QUERIES];
  for (int i = 0; i < samples; i++) {
    int own = suffix_len[b->r + i] + 1;
    uint16_t *k = of_sample(b, c->suffix_k, i);
    const float *key = qkv + (b->r + i) * width_of(c) + (int64_t)(c->heads + b->kv) * c->head;
    store_token(k, of_sample(b, c->suffix_v, i), own - 1, key, key + (int64_t)c->kv_heads * c->head, c->head, dim);
    const uint16_t *after = of_sample(next, c->suffix_k, i);
    IN_FOURS(heads, i * heads, own_scores, k, after, own)
    for (int j = 0; j < heads; j++) inverse[i * heads + j] = soft(s, i * heads + j, n, own, end, c->scale);
  }
  tile_blend(s, two, of_prompt(b, c->prefix_v), of_prompt(next, c->prefix_v), n);
  for (int i = 0; i < samples; i++) {
    const uint16_t *v = of_sample(b, c->suffix_v, i), *after = of_sample(next, c->suffix_v, i);
    IN_FOURS(heads, i * heads, own_blend, v, after, suffix_len[b->r + i] + 1)
    for (int j = 0; j < heads; j++)
      write_row(out + ((int64_t)(b->r + i) * c->heads + h + j) * c->head, s->out + (i * heads + j) * dim, c->head,
                inverse[i * heads + j]);
  }
}

// One decoding step for the rows [from, to), as popri_attend does it, with a result in bfloat16. dim and prefix_room
// are multiples of 32, suffix_room of 16; scratch has popri_attend_scratch bytes.
AMX void popri_attend_tiles(const popri_cache *c, int from, int to, const float *qkv, uint16_t *out,
                            const int32_t *slot, const int32_t *suffix_len, const int32_t *prefix,
                            const int32_t *prefix_len, void *scratch) {
  OPERATION("popri::attend");
  attend_scratch all, *s = &all;
  lay_out(c, scratch, s);
  int group = c->heads / c->kv_heads, most = group < QUERIES ? group : QUERIES, together = QUERIES / most;
  tiles_on();
  for (int r = from; r < to;) {
    int alike = 1;
    while (r + alike < to && prefix[r + alike] == prefix[r]) alike++;
    for (int i = 0; i < alike; i += together) {
      int samples = alike - i < together ? alike - i : together;
      for (int kv = 0; kv < c->kv_heads; kv++) {
        attend_block b = {c, slot, kv, r + i, prefix[r + i]}, next = b;
        if (kv + 1 < c->kv_heads)
          next.kv++;
        else if (r + i + 2 * samples <= to)
          next = (attend_block){c, slot, 0, r + i + samples, prefix[r + i + samples]};
        for (int h = 0; h < group; h += most)
          decode_block(s, &b, &next, kv * group + h, group - h < most ? group - h : most, samples, qkv, out, suffix_len,
                       prefix_len[r]);
      }
    }
    r += alike;
  }
  _tile_release();
}

// Causal attention within the prompts [from, to) of a batch whose rows are width tokens: qkv is float32
// [prompts, width, (heads + 2·kv_heads)·head], of which lengths tokens count, and the result bfloat16
// [prompts, width, heads·head], zero where they do not. Keys and values go to the prompts' prefixes.
AMX void popri_prefill_tiles(const popri_cache *c, int from, int to, int width, const float *qkv, uint16_t *out,
                             const int32_t *prefix, const int32_t *lengths, void *scratch) {
  OPERATION("popri::prefill");
  attend_scratch all, *s = &all;
  lay_out(c, scratch, s);
  int dim = c->dim, group = c->heads / c->kv_heads;
  int64_t row = width_of(c), out_row = (int64_t)c->heads * c->head;
  tiles_on();
  for (int b = from; b < to; b++) {
    int n = lengths[b];
    const float *x = qkv + b * width * row;
    uint16_t *y = out + b * width * out_row;
    memset(y + n * out_row, 0, (width - n) * out_row * 2);
    for (int kv = 0; kv < c->kv_heads; kv++) {
      int64_t at = ((int64_t)prefix[b] * c->kv_heads + kv) * dim * c->prefix_room;
      uint16_t *k = (uint16_t *)c->prefix_k + at, *v = (uint16_t *)c->prefix_v + at;
      for (int t = 0; t < n; t++) {
        const float *key = x + t * row + (int64_t)(c->heads + kv) * c->head;
        store_token(k, v, t, key, key + (int64_t)c->kv_heads * c->head, c->head, dim);
      }
      int pairs = (n + 1) / 2, end = (n + 31) / 32 * 16;
      memset(v + (int64_t)pairs * 2 * dim, 0, (int64_t)(end - pairs) * 2 * dim * 2);
      for (int h = kv * group; h < (kv + 1) * group; h++)
        for (int t = 0; t < n; t += QUERIES) {
          int queries = n - t < QUERIES ? n - t : QUERIES, two = queries > SIDE, seen = t + queries;
          for (int i = 0; i < queries; i++)
            round_row(s->q + i * dim, x + (t + i) * row + (int64_t)h * c->head, c->head, dim);
          tile_scores(s, two, k, k, seen);
          float inverse[QUERIES];
          for (int i = 0; i < queries; i++) inverse[i] = soft(s, i, t + i + 1, 0, (seen + 31) / 32 * 32, c->scale);
          tile_blend(s, two, v, v, seen);
          for (int i = 0; i < queries; i++)
            write_row(y + (t + i) * out_row + (int64_t)h * c->head, s->out + i * dim, c->head, inverse[i]);
        }
    }
  }
  _tile_release();
}

#else

int64_t popri_attend_scratch(const popri_cache *c) { return 0; }
void popri_attend_tiles(const popri_cache *c, int from, int to, const float *qkv, uint16_t *out, const int32_t *slot,
                        const int32_t *suffix_len, const int32_t *prefix, const int32_t *prefix_len, void *scratch) {}
void popri_prefill_tiles(const popri_cache *c, int from, int to, int width, const float *qkv, uint16_t *out,
                         const int32_t *prefix, const int32_t *lengths, void *scratch) {}

#endif
