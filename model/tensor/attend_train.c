#include "torch.h"
#include "profile.h"
#include "amx.h"
#include "packed_heads.h"
#include "drop.h"
#include <stdlib.h>

// Attention that is trained, in bfloat16 with float32 scores and sums: the scores of 32 queries at a time are in
// memory, never those of all, and blocks of tokens that the mask hides are left out (FlashAttention, arXiv 2205.14135).
// The backward pass computes the shares again from scores and the logarithms of their sums. Products are those with
// packed weights, on the matrix unit or on the vector unit.

#ifdef AMX

enum { QUERIES = 32 };

typedef enum { HIDDEN, MASKED, OPEN } sight; // of a block of 32 queries and 32 keys: none, some or all

// What a head of keys and values, and the heads of queries that share it, are computed with.
typedef struct {
  const popri_attention *p;
  int64_t sequence, kv;           // which one
  int64_t at, tokens;             // the sequence's place among the tokens of all, and how many it has
  int64_t room, depth;            // tokens up to a multiple of 32, and blocks of 32
  uint16_t *q, *dy;               // [32][dim], zeros behind the last query
  uint16_t *keys, *values;        // keys as weights [dim, room], values as weights [room, dim]
  uint16_t *key_rows, *value_columns; // keys as weights [room, dim], values as weights [dim, room]
  uint16_t *shares, *slopes;      // [32][room]
  uint16_t *packed;               // [32, room] as weights
  uint16_t *turned;               // [dim][32]
  float *scores, *share_slopes;   // [32][room]
  float *out;                     // [32][dim]
  float *dk, *dv;                 // [dim][room]
  uint8_t *sees;                  // [depth]
  char *memory;
} head;

static void *take(char **at, int64_t bytes) {
  void *p = *at;
  *at += (bytes + 63) / 64 * 64;
  return p;
}

// Lays the memory out from start on, and returns its end.
static char *lay_out(head *h, char *start, int back) {
  int64_t room = h->room, dim = h->p->dim, all = room * dim;
  char *at = start;
  h->q = take(&at, QUERIES * dim * 2);
  h->keys = take(&at, all * 2);
  h->scores = take(&at, QUERIES * room * 4);
  h->shares = take(&at, QUERIES * room * 2);
  h->out = take(&at, QUERIES * dim * 4);
  h->sees = take(&at, h->depth);
  if (!back) {
    h->values = take(&at, all * 2);
    return at;
  }
  h->dy = take(&at, QUERIES * dim * 2);
  h->key_rows = take(&at, all * 2);
  h->value_columns = take(&at, all * 2);
  h->share_slopes = take(&at, QUERIES * room * 4);
  h->slopes = take(&at, QUERIES * room * 2);
  h->packed = take(&at, QUERIES * room * 2);
  h->turned = take(&at, dim * QUERIES * 2);
  h->dk = take(&at, all * 4);
  h->dv = take(&at, all * 4);
  return at;
}

// Turns to a head of keys of all sequences: its number counts the heads of a sequence after those before.
static inline void turn_to(head *h, int64_t unit) {
  const popri_attention *p = h->p;
  h->sequence = unit / p->kv_heads, h->kv = unit % p->kv_heads;
  h->at = p->starts ? p->starts[h->sequence] : h->sequence * p->tokens;
  h->tokens = p->starts ? p->starts[h->sequence + 1] - h->at : p->tokens;
  h->room = rounded(h->tokens), h->depth = h->room / BLOCK;
}

// The first row of a head among those of all heads, of which a sequence has the given number.
INLINE int64_t rows_of(const head *h, int64_t of, int64_t heads) {
  return h->p->starts ? of * h->p->tokens + h->at : (h->sequence * heads + of) * h->p->tokens;
}

// With memory for the longest of the sequences of units [from, to).
static head begin(const popri_attention *p, int64_t from, int64_t to, int back) {
  head h = {.p = p};
  int64_t room = 0;
  for (int64_t unit = from; unit < to; unit++) {
    turn_to(&h, unit);
    room = h.room > room ? h.room : room;
  }
  h.room = room, h.depth = room / BLOCK;
  int64_t bytes = lay_out(&h, 0, back) - (char *)0;
  if (posix_memalign((void **)&h.memory, 64, bytes)) abort();
  lay_out(&h, h.memory, back);
  return h;
}

// Adds depth blocks of products to rows × 32 sums, width apart; first says that there are none yet. On the matrix unit,
// a and sums have 32 rows.
INLINE void multiply(int tiles, int rows, const uint16_t *a, int64_t stride, const uint16_t *b, int64_t depth,
                     int first, float *sums, int64_t width) {
  if (!tiles) {
    for (int r = 0; r < rows; r += LINES) {
      int n = rows - r < LINES ? rows - r : LINES;
      popri_lines(n, a + r * stride, stride, b, depth, first, sums + r * width, width);
    }
    return;
  }
  load_sums(first, sums, width);
  for (int64_t k = 0; k < depth; k++, a += BLOCK, b += 2 * TILE) {
    _tile_loadd(4, a, stride * 2);
    _tile_loadd(5, a + 16 * stride, stride * 2);
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + TILE, 64);
    four_products(1);
  }
  store_sums(1, sums, width);
}

static const uint16_t *mask_of(const head *h, int64_t query) {
  const popri_attention *p = h->p;
  return p->mask + ((p->masks == 1 ? 0 : h->sequence) * p->mask_width + query) * p->mask_width;
}

// What n queries from the given one on see of each block. A row that sees nothing sees all, as the softmax has it.
INLINE void look(head *h, int64_t query, int n) {
  int64_t tokens = h->tokens;
  int any = 0;
  for (int64_t j = 0; j < h->depth; j++) {
    int64_t left = tokens - j * BLOCK;
    __mmask32 columns = left >= BLOCK ? 0xffffffff : (__mmask32)((1u << left) - 1);
    __mmask32 seen = 0;
    __m512i all = _mm512_setzero_si512();
    for (int r = 0; r < n; r++) {
      __m512i x = _mm512_maskz_loadu_epi16(columns, mask_of(h, query + r) + j * BLOCK);
      seen |= _mm512_mask_cmplt_epu16_mask(columns, x, _mm512_set1_epi16((short)0xf000)); // above -1.6e29
      all = _mm512_or_si512(all, x);
    }
    h->sees[j] = !seen ? HIDDEN : left >= BLOCK && !_mm512_test_epi16_mask(all, all) ? OPEN : MASKED;
    any |= h->sees[j];
  }
  for (int64_t j = 0; !any && j < h->depth; j++) h->sees[j] = MASKED;
}

// The next run of blocks from j on that are seen, up to the returned end; begins where the run does.
INLINE int64_t run_of(const head *h, int64_t j, int64_t *begins) {
  while (j < h->depth && h->sees[j] == HIDDEN) j++;
  *begins = j;
  while (j < h->depth && h->sees[j] != HIDDEN) j++;
  return j;
}

#define SEEN(h, j) for (int64_t j = 0; j < (h)->depth; j++) if ((h)->sees[j] != HIDDEN)

// n rows of the given width, which lie stride apart, and zeros up to 32.
INLINE void copy_rows(uint16_t *to, const uint16_t *from, int64_t stride, int n, int64_t width) {
  for (int r = 0; r < n; r++) memcpy(to + r * width, from + r * stride, width * 2);
  memset(to + n * width, 0, (QUERIES - n) * width * 2);
}

// Scores, or the same of slopes and values, of n rows with all tokens that they see.
INLINE void with_tokens(const head *h, int n, const uint16_t *rows, const uint16_t *columns, float *out) {
  int64_t dim = h->p->dim;
  SEEN(h, j) multiply(h->p->tiles, n, rows, dim, columns + j * BLOCK * dim, dim / BLOCK, 1, out + j * BLOCK, h->room);
}

// Σ over the tokens that are seen of what n rows have for each, times the token's row.
INLINE void over_tokens(const head *h, int n, const uint16_t *rows, const uint16_t *tokens, float *out) {
  int64_t dim = h->p->dim, begins;
  for (int64_t d = 0; d < dim; d += BLOCK)
    for (int64_t j = 0, first = 1; j < h->depth; first = 0) {
      j = run_of(h, j, &begins);
      if (begins == j) break;
      multiply(h->p->tiles, n, rows + begins * BLOCK, h->room, tokens + (d / BLOCK * h->depth + begins) * 2 * TILE,
               j - begins, (int)first, out + d, dim);
    }
}

// A score with the scale and, where tokens are hidden, the mask.
INLINE __m512 score(const head *h, const float *scores, const uint16_t *mask, int64_t t, int masked, __m512 scale) {
  __m512 x = _mm512_mul_ps(_mm512_loadu_ps(scores + t), scale);
  return masked ? _mm512_add_ps(x, load_bf16(mask + t, up_to(h->tokens - t))) : x;
}

// Which of 16 tokens from t on dropout keeps for a row of queries.
INLINE __mmask16 kept_of(const head *h, uint64_t row, int64_t t) {
  typedef uint32_t words __attribute__((vector_size(64)));
  const words lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  words word = HIDDEN_WORD(lanes + (uint32_t)t, row);
  return _mm512_cmpge_epu32_mask((__m512i)word, _mm512_set1_epi32((int)h->p->hidden));
}

// Makes shares of a query's scores, not yet divided by their sum; returns the logarithm of the sum, and one over it.
// What dropout hides has none, but belongs to the sum.
INLINE float soften(const head *h, int r, int64_t query, int64_t place, float *inverse) {
  uint64_t row = h->p->hidden ? hidden_row(h->p->key, place) : 0;
  float *scores = h->scores + r * h->room;
  uint16_t *out = h->shares + r * h->room;
  const uint16_t *mask = mask_of(h, query);
  __m512 scale = _mm512_set1_ps(h->p->scale), most = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
  __m512 least = _mm512_set1_ps(-87.0f);
  SEEN(h, j)
  for (int64_t t = j * BLOCK; t < (j + 1) * BLOCK; t += 16) {
    __m512 x = score(h, scores, mask, t, h->sees[j] == MASKED, scale);
    _mm512_storeu_ps(scores + t, x);
    most = _mm512_mask_max_ps(most, up_to(h->tokens - t), most, x);
  }
  float max = _mm512_reduce_max_ps(most);
  most = _mm512_set1_ps(max);
  SEEN(h, j)
  for (int64_t t = j * BLOCK; t < (j + 1) * BLOCK; t += 16) {
    __m512 x = _mm512_sub_ps(_mm512_loadu_ps(scores + t), most);
    // A hidden token has no weight, not one that is slow to multiply with; what is not a number stays.
    __mmask16 m = up_to(h->tokens - t) & _mm512_cmp_ps_mask(x, least, _CMP_NLE_UQ);
    __m512 e = _mm512_maskz_mov_ps(m, exp_negative(x));
    sum = _mm512_add_ps(sum, e);
    store_bf16(out + t, 0xffff, h->p->hidden ? _mm512_maskz_mov_ps(kept_of(h, row, t), e) : e);
  }
  float total = _mm512_reduce_add_ps(sum);
  *inverse = h->p->kept / total;
  return max + logf(total);
}

// Attention of heads [from, to) of keys and values of all sequences.
AMX void popri_attend_train(const void *attention, int64_t from, int64_t to) {
  const popri_attention *p = attention;
  head h = begin(p, from, to, 0);
  int64_t dim = p->dim, group = p->heads / p->kv_heads;
  if (p->tiles) tiles_on();
  for (int64_t unit = from; unit < to; unit++) {
    turn_to(&h, unit);
    int64_t tokens = h.tokens, own = rows_of(&h, h.kv, p->kv_heads) * dim;
    pack_keys(p->k + own, dim, tokens, dim, h.keys);
    pack_values(p->v + own, dim, tokens, dim, h.values);
    for (int64_t t = 0; t < tokens; t += QUERIES) {
      int n = tokens - t < QUERIES ? (int)(tokens - t) : QUERIES;
      look(&h, t, n);
      for (int64_t k = 0; k < group; k++) {
        int64_t row = rows_of(&h, h.kv * group + k, p->heads) + t;
        copy_rows(h.q, p->q + row * dim, dim, n, dim);
        with_tokens(&h, n, h.q, h.keys, h.scores);
        float inverse[QUERIES];
        for (int r = 0; r < n; r++) p->sums[row + r] = soften(&h, r, t + r, row + r, inverse + r);
        over_tokens(&h, n, h.shares, h.values, h.out);
        for (int r = 0; r < n; r++) {
          uint16_t *y = p->y + ((h.at + t + r) * p->heads + h.kv * group + k) * dim;
          for (int64_t d = 0; d < dim; d += 16)
            store_bf16(y + d, 0xffff,
                       _mm512_mul_ps(_mm512_loadu_ps(h.out + r * dim + d), _mm512_set1_ps(inverse[r])));
        }
      }
    }
  }
  if (p->tiles) _tile_release();
  free(h.memory);
}

INLINE float dot(const uint16_t *a, const uint16_t *b, int64_t n) {
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < n; i += 16) sum = _mm512_fmadd_ps(load_bf16(a + i, 0xffff), load_bf16(b + i, 0xffff), sum);
  return _mm512_reduce_add_ps(sum);
}

// A query's shares and the slopes of its scores: p = exp(score - logarithm of the sum), p·(slope of p - own)·scale.
// Dropout changes the shares that are stored, and the slope of p, but not p in the second.
INLINE void slopes_of(const head *h, int r, int64_t query, int64_t place, float sums, float own) {
  uint64_t row = h->p->hidden ? hidden_row(h->p->key, place) : 0;
  __m512 kept = _mm512_set1_ps(h->p->kept);
  const float *scores = h->scores + r * h->room, *of_shares = h->share_slopes + r * h->room;
  uint16_t *shares = h->shares + r * h->room, *slopes = h->slopes + r * h->room;
  const uint16_t *mask = mask_of(h, query);
  __m512 scale = _mm512_set1_ps(h->p->scale), sum = _mm512_set1_ps(sums), mean = _mm512_set1_ps(own);
  __m512 least = _mm512_set1_ps(-87.0f);
  SEEN(h, j)
  for (int64_t t = j * BLOCK; t < (j + 1) * BLOCK; t += 16) {
    __m512 x = _mm512_sub_ps(score(h, scores, mask, t, h->sees[j] == MASKED, scale), sum);
    __mmask16 m = up_to(h->tokens - t) & _mm512_cmp_ps_mask(x, least, _CMP_NLE_UQ);
    __m512 e = _mm512_maskz_mov_ps(m, exp_negative(x));
    __m512 slope = _mm512_loadu_ps(of_shares + t);
    if (h->p->hidden) {
      __mmask16 seen = kept_of(h, row, t);
      store_bf16(shares + t, 0xffff, _mm512_maskz_mul_ps(seen, e, kept));
      slope = _mm512_maskz_mul_ps(seen, slope, kept);
    } else {
      store_bf16(shares + t, 0xffff, e);
    }
    store_bf16(slopes + t, 0xffff, _mm512_mul_ps(_mm512_mul_ps(e, _mm512_sub_ps(slope, mean)), scale));
  }
}

// Adds Σ over 32 queries of what they have for each token, times the query's row: sums [dim][room], rows [32][dim],
// of_tokens [32][room].
INLINE void over_queries(const head *h, const uint16_t *rows, const uint16_t *of_tokens, float *sums) {
  int64_t dim = h->p->dim, begins;
  for (int64_t d = 0; d < dim; d += BLOCK) {
    pack_values(rows + d, dim, QUERIES, BLOCK, h->packed);
    for (int half = 0; half < 2; half++)
      transpose_words((const int32_t *)(h->packed + half * TILE), 16, 16,
                      (int32_t *)(h->turned + (d + 16 * half) * QUERIES));
  }
  for (int64_t j = 0; j < h->depth;) {
    j = run_of(h, j, &begins);
    if (begins < j)
      pack_values(of_tokens + begins * BLOCK, h->room, QUERIES, (j - begins) * BLOCK, h->packed + begins * 2 * TILE);
  }
  for (int64_t d = 0; d < dim; d += BLOCK)
    SEEN(h, j)
    multiply(h->p->tiles, BLOCK, h->turned + d * QUERIES, QUERIES, h->packed + j * 2 * TILE, 1, 0,
             sums + d * h->room + j * BLOCK, h->room);
}

// Rows of [tokens, dim] of [dim][room].
INLINE void store_turned(const head *h, const float *from, uint16_t *to) {
  float part[16 * 16] __attribute__((aligned(64)));
  for (int64_t t = 0; t < h->tokens; t += 16)
    for (int64_t d = 0; d < h->p->dim; d += 16) {
      transpose_words((const int32_t *)(from + d * h->room + t), h->room, 16, (int32_t *)part);
      for (int r = 0; r < 16 && t + r < h->tokens; r++)
        store_bf16(to + (t + r) * h->p->dim + d, 0xffff, _mm512_load_ps(part + 16 * r));
    }
}

// The gradients for queries, keys and values.
AMX void popri_attend_train_grad(const void *attention, int64_t from, int64_t to) {
  const popri_attention *p = attention;
  head h = begin(p, from, to, 1);
  int64_t dim = p->dim, group = p->heads / p->kv_heads, width = p->heads * dim;
  if (p->tiles) tiles_on();
  for (int64_t unit = from; unit < to; unit++) {
    turn_to(&h, unit);
    int64_t tokens = h.tokens, own = rows_of(&h, h.kv, p->kv_heads) * dim;
    const uint16_t *k = p->k + own, *v = p->v + own;
    pack_keys(k, dim, tokens, dim, h.keys);
    pack_values(k, dim, tokens, dim, h.key_rows);
    pack_keys(v, dim, tokens, dim, h.value_columns);
    memset(h.dk, 0, h.room * dim * 4);
    memset(h.dv, 0, h.room * dim * 4);
    for (int64_t t = 0; t < tokens; t += QUERIES) {
      int n = tokens - t < QUERIES ? (int)(tokens - t) : QUERIES;
      look(&h, t, n);
      if (n < QUERIES) {
        memset(h.shares + n * h.room, 0, (QUERIES - n) * h.room * 2);
        memset(h.slopes + n * h.room, 0, (QUERIES - n) * h.room * 2);
      }
      for (int64_t i = 0; i < group; i++) {
        int64_t row = rows_of(&h, h.kv * group + i, p->heads) + t;
        int64_t place = (h.at + t) * width + (h.kv * group + i) * dim; // in y and dy
        copy_rows(h.q, p->q + row * dim, dim, n, dim);
        copy_rows(h.dy, p->dy + place, width, n, dim);
        with_tokens(&h, n, h.q, h.keys, h.scores);
        with_tokens(&h, n, h.dy, h.value_columns, h.share_slopes);
        for (int r = 0; r < n; r++)
          slopes_of(&h, r, t + r, row + r, p->sums[row + r], dot(h.dy + r * dim, p->y + place + r * width, dim));
        over_tokens(&h, n, h.slopes, h.key_rows, h.out);
        for (int64_t d = 0; d < n * dim; d += 16)
          store_bf16(p->dq + row * dim + d, 0xffff, _mm512_loadu_ps(h.out + d));
        over_queries(&h, h.q, h.slopes, h.dk);
        over_queries(&h, h.dy, h.shares, h.dv);
      }
    }
    store_turned(&h, h.dk, p->dk + own);
    store_turned(&h, h.dv, p->dv + own);
  }
  if (p->tiles) _tile_release();
  free(h.memory);
}

#else

void popri_attend_train(const void *attention, int64_t from, int64_t to) {}
void popri_attend_train_grad(const void *attention, int64_t from, int64_t to) {}

#endif
