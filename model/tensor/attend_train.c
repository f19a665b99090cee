#include "torch.h"
#include "profile.h"
#include "amx_heads.h"
#include "drop.h"
#include <stdlib.h>

// Attention that is trained, in bfloat16 or float32, with float32 scores and sums: the scores of 32 queries at a time
// are in memory, never all scores, and blocks of tokens that the mask hides are left out (FlashAttention, arXiv
// 2205.14135). The backward pass computes the probabilities again from scores and the logarithms of their sums. It
// multiplies with packed weights, on the matrix unit or, in bfloat16, on the vector unit. In float32 each factor is in
// three planes of bfloat16, as in amx.c.

#ifdef AMX

enum { QUERIES = 32, SPAN = 2 * QUERIES }; // SPAN: queries whose gradients for keys and values are added at once

typedef enum { HIDDEN, MASKED, OPEN } sight; // of a block of 32 queries and 32 keys: none, some or all

// What a head of keys and values, and the heads of queries that share it, are computed with. Each factor of a product
// has p->planes parts, one behind the other.
typedef struct {
  const popri_attention *p;
  int64_t sequence, kv;           // which one
  int64_t at, tokens;             // the sequence's first token, and how many it has
  int64_t room, depth;            // tokens up to a multiple of 32, and blocks of 32
  int64_t seen;                   // the sequence that block_mask belongs to; -1: none
  uint8_t *block_mask;            // of each 32 queries and 32 keys [depth][depth]
  const uint8_t *sees;            // masks of the queries under way [depth]
  uint8_t *any;                   // what some of SPAN queries see [depth]
  int64_t span;                   // rows of the factors that follow: 32 or, for gradients, SPAN
  uint16_t *q, *dy;               // [span][dim], zeros behind the last query
  uint16_t *rows;                 // of keys or values in float32, their parts [room][dim]
  uint16_t *keys, *values;        // keys as weights [dim, room], values as weights [room, dim]
  uint16_t *key_rows, *value_columns; // keys as weights [room, dim], values as weights [dim, room]
  uint16_t *probs, *score_grads;      // [span][room]
  uint16_t *packed;               // [span, room] as weights
  uint16_t *transposed;               // [dim][span]
  float *scores, *prob_grads;   // [32][room]
  float *out;                     // [32][dim]
  float *dk, *dv;                 // [dim][room]
  char *memory;
} head;

static void *take(char **at, int64_t bytes) {
  void *p = *at;
  *at += (bytes + 63) / 64 * 64;
  return p;
}

// Lays the memory out from start on, and returns its end.
static char *lay_out(head *h, char *start, int back) {
  int64_t room = h->room, dim = h->p->dim, words = 2 * h->p->planes, all = room * dim;
  char *at = start;
  h->span = back ? SPAN : QUERIES;
  h->q = take(&at, h->span * dim * words);
  h->keys = take(&at, all * words);
  h->scores = take(&at, QUERIES * room * 4);
  h->probs = take(&at, h->span * room * words);
  h->out = take(&at, QUERIES * dim * 4);
  h->block_mask = take(&at, h->depth * (h->depth + 1)); // one row too many: a span may end behind the last
  h->any = take(&at, h->depth);
  h->rows = take(&at, h->p->planes > 1 ? all * words : 0);
  if (!back) {
    h->values = take(&at, all * words);
    return at;
  }
  h->dy = take(&at, h->span * dim * words);
  h->key_rows = take(&at, all * words);
  h->value_columns = take(&at, all * words);
  h->prob_grads = take(&at, QUERIES * room * 4);
  h->score_grads = take(&at, h->span * room * words);
  h->packed = take(&at, h->span * room * words);
  h->transposed = take(&at, dim * h->span * words);
  h->dk = take(&at, all * 4);
  h->dv = take(&at, all * 4);
  return at;
}

// Selects a head of keys: unit counts the heads of all sequences, one sequence after the other.
static inline void select_head(head *h, int64_t unit) {
  const popri_attention *p = h->p;
  h->sequence = unit / p->kv_heads, h->kv = unit % p->kv_heads;
  h->at = p->starts ? p->starts[h->sequence] : h->sequence * p->tokens;
  h->tokens = p->starts ? p->starts[h->sequence + 1] - h->at : p->tokens;
  h->room = rounded(h->tokens), h->depth = h->room / BLOCK;
}

// The first row of a head among the rows of all heads, of which a sequence has the given number.
INLINE int64_t rows_of(const head *h, int64_t of, int64_t heads) {
  return h->p->starts ? of * h->p->tokens + h->at : (h->sequence * heads + of) * h->p->tokens;
}

// With memory for the longest of the sequences of units [from, to).
static head begin(const popri_attention *p, int64_t from, int64_t to, int back) {
  head h = {.p = p, .seen = -1};
  int64_t room = 0;
  for (int64_t unit = from; unit < to; unit++) {
    select_head(&h, unit);
    room = h.room > room ? h.room : room;
  }
  h.room = room, h.depth = room / BLOCK;
  int64_t bytes = lay_out(&h, 0, back) - (char *)0;
  if (posix_memalign((void **)&h.memory, 64, bytes)) abort();
  lay_out(&h, h.memory, back);
  return h;
}

// Stores what two vectors hold, side by side, in parts that are plane apart.
INLINE void store_parts(uint16_t *to, int64_t plane, int planes, __m512 x, __m512 y) {
  for (int i = 0; i < planes; i++) _mm512_storeu_si512(to + i * plane, next_part(&x, &y));
}

static const uint16_t *mask_of(const head *h, int64_t query) {
  const popri_attention *p = h->p;
  return p->mask + ((p->masks == 1 ? 0 : h->sequence) * p->mask_width + query) * p->mask_width;
}

// What n queries from the given one on see of each block. A row that sees nothing sees all, as the softmax has it.
INLINE void look(const head *h, int64_t query, int n, uint8_t *sees) {
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
    sees[j] = !seen ? HIDDEN : left >= BLOCK && !_mm512_test_epi16_mask(all, all) ? OPEN : MASKED;
    any |= sees[j];
  }
  for (int64_t j = 0; !any && j < h->depth; j++) sees[j] = MASKED;
}

// What the sequence sees, once for all its heads.
INLINE void look_at_all(head *h) {
  if (h->seen == h->sequence) return;
  h->seen = h->sequence;
  for (int64_t t = 0; t < h->tokens; t += QUERIES)
    look(h, t, h->tokens - t < QUERIES ? (int)(h->tokens - t) : QUERIES, h->block_mask + t / QUERIES * h->depth);
}

// The next run of blocks from j on that are seen, up to the returned end; begins where the run does.
INLINE int64_t run_of(const head *h, int64_t j, int64_t *begins) {
  while (j < h->depth && h->sees[j] == HIDDEN) j++;
  *begins = j;
  while (j < h->depth && h->sees[j] != HIDDEN) j++;
  return j;
}

#define SEEN(h, j) for (int64_t j = 0; j < (h)->depth; j++) if ((h)->sees[j] != HIDDEN)

// The parts, plane apart, of n rows of the given width, of which the element at is the first and which are stride
// apart, and zeros up to 32.
INLINE void copy_rows(uint16_t *to, int64_t plane, int planes, const void *from, int64_t at, int64_t stride, int n,
                      int64_t width) {
  if (planes == 1) {
    for (int r = 0; r < n; r++) memcpy(to + r * width, (const uint16_t *)from + at + r * stride, width * 2);
  } else {
    for (int r = 0; r < n; r++)
      for (int64_t d = 0; d < width; d += BLOCK) {
        const float *x = (const float *)from + at + r * stride + d;
        store_parts(to + r * width + d, plane, planes, _mm512_loadu_ps(x), _mm512_loadu_ps(x + 16));
      }
  }
  for (int i = 0; i < planes; i++) memset(to + i * plane + n * width, 0, (QUERIES - n) * width * 2);
}

// The head's rows of keys or values, of which the element at is the first, in bfloat16; their parts if they are
// float32.
INLINE const uint16_t *rows_in_parts(const head *h, int planes, const void *from, int64_t at) {
  if (planes == 1) return (const uint16_t *)from + at;
  const float *x = (const float *)from + at;
  for (int64_t i = 0; i < h->tokens * h->p->dim; i += BLOCK)
    store_parts(h->rows + i, h->room * h->p->dim, planes, _mm512_loadu_ps(x + i), _mm512_loadu_ps(x + i + 16));
  return h->rows;
}

// Lays rows_in_parts out as weights, as columns [dim, room] or as rows [room, dim].
INLINE void as_columns(const head *h, int planes, const uint16_t *rows, uint16_t *to) {
  int64_t dim = h->p->dim, plane = h->room * dim;
  for (int i = 0; i < planes; i++) pack_keys(rows + i * plane, dim, h->tokens, dim, to + i * plane);
}

INLINE void as_rows(const head *h, int planes, const uint16_t *rows, uint16_t *to) {
  int64_t dim = h->p->dim, plane = h->room * dim;
  for (int i = 0; i < planes; i++) pack_values(rows + i * plane, dim, h->tokens, dim, to + i * plane);
}

// Products of n rows with the keys (scores) or, in the backward pass, of gradients and values, of n rows with all tokens that they see.
INLINE void with_tokens(const head *h, int planes, int n, const uint16_t *rows, const uint16_t *columns, float *out) {
  int64_t dim = h->p->dim;
  SEEN(h, j)
  multiply(h->p->tiles, planes, n, (factor){rows, dim, h->span * dim},
           (factor){columns + j * BLOCK * dim, 0, h->room * dim}, dim / BLOCK, 1, out + j * BLOCK, h->room);
}

// Σ over the tokens that are seen of what n rows have for each, times the token's row.
INLINE void over_tokens(const head *h, int planes, int n, const uint16_t *rows, const uint16_t *tokens, float *out) {
  int64_t dim = h->p->dim, begins;
  for (int64_t d = 0; d < dim; d += BLOCK)
    for (int64_t j = 0, first = 1; j < h->depth; first = 0) {
      j = run_of(h, j, &begins);
      if (begins == j) break;
      multiply(h->p->tiles, planes, n, (factor){rows + begins * BLOCK, h->room, h->span * h->room},
               (factor){tokens + (d / BLOCK * h->depth + begins) * 2 * TILE, 0, h->room * dim}, j - begins, (int)first,
               out + d, dim);
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

// Turns a query's scores into probabilities without the division by their sum. Returns the logarithm of the sum;
// inverse is its reciprocal, times the factor of dropout. Elements that dropout hides count in the sum.
INLINE float soften(const head *h, int planes, int r, int64_t query, int64_t position, float *inverse) {
  uint64_t row = h->p->hidden ? hidden_row(h->p->key, position) : 0;
  float *scores = h->scores + r * h->room;
  uint16_t *out = h->probs + r * h->room;
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
  SEEN(h, j) {
    __m512 e[2];
    for (int i = 0; i < 2; i++) {
      int64_t t = j * BLOCK + 16 * i;
      __m512 x = _mm512_sub_ps(_mm512_loadu_ps(scores + t), most);
      // A hidden token has no weight, not one that is slow to multiply with; what is not a number stays.
      __mmask16 m = up_to(h->tokens - t) & _mm512_cmp_ps_mask(x, least, _CMP_NLE_UQ);
      e[i] = _mm512_maskz_mov_ps(m, exp_negative(x));
      sum = _mm512_add_ps(sum, e[i]);
      if (h->p->hidden) e[i] = _mm512_maskz_mov_ps(kept_of(h, row, t), e[i]);
    }
    store_parts(out + j * BLOCK, h->span * h->room, planes, e[0], e[1]);
  }
  float total = _mm512_reduce_add_ps(sum);
  *inverse = h->p->kept / total;
  return max + logf(total);
}

// Stores 16 values at an element of a result.
INLINE void store_as(void *to, int planes, int64_t at, __m512 x) {
  if (planes == 1)
    store_bf16((uint16_t *)to + at, 0xffff, x);
  else
    _mm512_storeu_ps((float *)to + at, x);
}

INLINE void attend(const popri_attention *p, int planes, int64_t from, int64_t to) {
  head h = begin(p, from, to, 0);
  int64_t dim = p->dim, group = p->heads / p->kv_heads;
  for (int64_t unit = from; unit < to; unit++) {
    select_head(&h, unit);
    look_at_all(&h);
    int64_t tokens = h.tokens, own = rows_of(&h, h.kv, p->kv_heads) * dim;
    as_columns(&h, planes, rows_in_parts(&h, planes, p->k, own), h.keys);
    as_rows(&h, planes, rows_in_parts(&h, planes, p->v, own), h.values);
    for (int64_t t = 0; t < tokens; t += QUERIES) {
      int n = tokens - t < QUERIES ? (int)(tokens - t) : QUERIES;
      h.sees = h.block_mask + t / QUERIES * h.depth;
      for (int64_t k = 0; k < group; k++) {
        int64_t row = rows_of(&h, h.kv * group + k, p->heads) + t;
        copy_rows(h.q, QUERIES * dim, planes, p->q, row * dim, dim, n, dim);
        with_tokens(&h, planes, n, h.q, h.keys, h.scores);
        float inverse[QUERIES];
        for (int r = 0; r < n; r++) p->sums[row + r] = soften(&h, planes, r, t + r, row + r, inverse + r);
        over_tokens(&h, planes, n, h.probs, h.values, h.out);
        for (int r = 0; r < n; r++) {
          int64_t y = ((h.at + t + r) * p->heads + h.kv * group + k) * dim;
          for (int64_t d = 0; d < dim; d += 16)
            store_as(p->y, planes, y + d,
                     _mm512_mul_ps(_mm512_loadu_ps(h.out + r * dim + d), _mm512_set1_ps(inverse[r])));
        }
      }
    }
  }
  free(h.memory);
}

// Attention of heads [from, to) of keys and values of all sequences.
AMX void popri_attend_train(const void *attention, int64_t from, int64_t to) {
  const popri_attention *p = attention;
  if (p->tiles) tiles_on();
  if (p->planes == 1)
    attend(p, 1, from, to);
  else
    attend(p, 3, from, to);
  if (p->tiles) _tile_release();
}

// Σ of the products of n elements of two matrices, from the given ones on.
INLINE float dot(int planes, const void *a, int64_t i, const void *b, int64_t j, int64_t n) {
  __m512 sum = _mm512_setzero_ps();
  for (int64_t end = i + n; i < end; i += 16, j += 16)
    sum = _mm512_fmadd_ps(elements(a, planes == 1, i, 0xffff), elements(b, planes == 1, j, 0xffff), sum);
  return _mm512_reduce_add_ps(sum);
}

// A query's probabilities p = exp(score - logarithm of the sum), and the gradients of its scores, p·(dp - own)·scale,
// where dp is the gradient of p. Dropout changes the stored probabilities and dp, but not the factor p.
INLINE void score_gradients(const head *h, int planes, int r, int64_t query, int64_t position, float sums, float own,
                            uint16_t *probs, uint16_t *score_grads) {
  uint64_t row = h->p->hidden ? hidden_row(h->p->key, position) : 0;
  __m512 kept = _mm512_set1_ps(h->p->kept);
  const float *scores = h->scores + r * h->room, *dp = h->prob_grads + r * h->room;
  const uint16_t *mask = mask_of(h, query);
  __m512 scale = _mm512_set1_ps(h->p->scale), sum = _mm512_set1_ps(sums), mean = _mm512_set1_ps(own);
  __m512 least = _mm512_set1_ps(-87.0f);
  int64_t plane = h->span * h->room;
  SEEN(h, j) {
    __m512 prob[2], grad[2];
    for (int i = 0; i < 2; i++) {
      int64_t t = j * BLOCK + 16 * i;
      __m512 x = _mm512_sub_ps(score(h, scores, mask, t, h->sees[j] == MASKED, scale), sum);
      __mmask16 m = up_to(h->tokens - t) & _mm512_cmp_ps_mask(x, least, _CMP_NLE_UQ);
      __m512 e = _mm512_maskz_mov_ps(m, exp_negative(x)), given = _mm512_loadu_ps(dp + t);
      prob[i] = e;
      if (h->p->hidden) {
        __mmask16 seen = kept_of(h, row, t);
        prob[i] = _mm512_maskz_mul_ps(seen, e, kept);
        given = _mm512_maskz_mul_ps(seen, given, kept);
      }
      grad[i] = _mm512_mul_ps(_mm512_mul_ps(e, _mm512_sub_ps(given, mean)), scale);
    }
    store_parts(probs + j * BLOCK, plane, planes, prob[0], prob[1]);
    store_parts(score_grads + j * BLOCK, plane, planes, grad[0], grad[1]);
  }
}

// Adds Σ over SPAN queries of what they have for each token that any of them sees, times the query's row: sums
// [dim][room], rows [SPAN][dim], of_tokens [SPAN][room].
INLINE void over_queries(const head *h, int planes, const uint16_t *rows, const uint16_t *of_tokens, float *sums) {
  int64_t dim = h->p->dim, room = h->room, plane = SPAN * room, begins;
  for (int64_t d = 0; d < dim; d += BLOCK)
    for (int k = 0; k < planes * SPAN; k += BLOCK) { // of all parts
      int64_t part = k / SPAN, first = k % SPAN;
      pack_values(rows + k * dim + d, dim, BLOCK, BLOCK, h->packed);
      for (int half = 0; half < 2; half++) {
        int32_t words[16 * 16] __attribute__((aligned(64)));
        transpose_words((const int32_t *)(h->packed + half * TILE), 16, 16, words);
        for (int i = 0; i < 16; i++)
          memcpy(h->transposed + (part * dim + d + 16 * half + i) * SPAN + first, words + 16 * i, 64);
      }
    }
  for (int i = 0; i < planes; i++)
    for (int64_t j = 0; j < h->depth;) {
      j = run_of(h, j, &begins);
      if (begins < j)
        pack_values(of_tokens + i * plane + begins * BLOCK, room, SPAN, (j - begins) * BLOCK,
                    h->packed + i * plane + begins * SPAN / BLOCK * 2 * TILE);
    }
  for (int64_t d = 0; d < dim; d += BLOCK)
    SEEN(h, j)
    multiply(h->p->tiles, planes, BLOCK, (factor){h->transposed + d * SPAN, SPAN, dim * SPAN},
             (factor){h->packed + j * SPAN / BLOCK * 2 * TILE, 0, plane}, SPAN / BLOCK, 0, sums + d * room + j * BLOCK,
             room);
}

// Rows of [tokens, dim], from the element at on, of [dim][room].
INLINE void store_transposed(const head *h, int planes, const float *from, void *to, int64_t at) {
  float part[16 * 16] __attribute__((aligned(64)));
  for (int64_t t = 0; t < h->tokens; t += 16)
    for (int64_t d = 0; d < h->p->dim; d += 16) {
      transpose_words((const int32_t *)(from + d * h->room + t), h->room, 16, (int32_t *)part);
      for (int r = 0; r < 16 && t + r < h->tokens; r++)
        store_as(to, planes, at + (t + r) * h->p->dim + d, _mm512_load_ps(part + 16 * r));
    }
}

// The gradients for 32 queries of a head, from t on. Their rows, probabilities and gradients of scores are stored in the
// span of SPAN queries, from row first on. Rows behind the last query are zeros, and so are blocks that only other
// queries of the span see.
INLINE void gradients_of(head *h, int planes, int64_t t, int first, int64_t of) {
  const popri_attention *p = h->p;
  int64_t dim = p->dim, room = h->room, left = h->tokens - t;
  int n = left > QUERIES ? QUERIES : left > 0 ? (int)left : 0;
  int64_t row = rows_of(h, of, p->heads) + t, width = p->heads * dim, position = (h->at + t) * width + of * dim;
  uint16_t *q = h->q + first * dim, *dy = h->dy + first * dim, *probs = h->probs + first * room,
           *score_grads = h->score_grads + first * room;
  copy_rows(q, SPAN * dim, planes, p->q, row * dim, dim, n, dim);
  copy_rows(dy, SPAN * dim, planes, p->dy, position, width, n, dim);
  // The next rows, which no stream of the CPU finds: they have left the cache since the forward pass.
  for (int64_t r = QUERIES; r < 2 * QUERIES && r < left; r++)
    for (int64_t byte = 0, size = planes == 1 ? 2 : 4; byte < dim * size; byte += 64) {
      _mm_prefetch((const char *)p->dy + (position + r * width) * size + byte, _MM_HINT_T1);
      _mm_prefetch((const char *)p->y + (position + r * width) * size + byte, _MM_HINT_T1);
    }
  h->sees = h->block_mask + t / QUERIES * h->depth;
  for (int64_t j = 0; j < h->depth; j++)
    for (int r = h->any[j] == HIDDEN ? QUERIES : h->sees[j] == HIDDEN ? 0 : n; r < QUERIES; r++)
      for (int i = 0; i < planes; i++) {
        memset(probs + (i * SPAN + r) * room + j * BLOCK, 0, BLOCK * 2);
        memset(score_grads + (i * SPAN + r) * room + j * BLOCK, 0, BLOCK * 2);
      }
  if (!n) return;
  with_tokens(h, planes, n, q, h->keys, h->scores);
  with_tokens(h, planes, n, dy, h->value_columns, h->prob_grads);
  for (int r = 0; r < n; r++)
    score_gradients(h, planes, r, t + r, row + r, p->sums[row + r],
                    dot(planes, p->dy, position + r * width, p->y, position + r * width, dim), probs + r * room,
              score_grads + r * room);
  over_tokens(h, planes, n, score_grads, h->key_rows, h->out);
  for (int64_t d = 0; d < n * dim; d += 16) store_as(p->dq, planes, row * dim + d, _mm512_loadu_ps(h->out + d));
}

INLINE void attend_grad(const popri_attention *p, int planes, int64_t from, int64_t to) {
  head h = begin(p, from, to, 1);
  int64_t dim = p->dim, group = p->heads / p->kv_heads;
  for (int64_t unit = from; unit < to; unit++) {
    select_head(&h, unit);
    look_at_all(&h);
    int64_t tokens = h.tokens, own = rows_of(&h, h.kv, p->kv_heads) * dim;
    const uint16_t *rows = rows_in_parts(&h, planes, p->k, own);
    as_columns(&h, planes, rows, h.keys);
    as_rows(&h, planes, rows, h.key_rows);
    as_columns(&h, planes, rows_in_parts(&h, planes, p->v, own), h.value_columns);
    memset(h.dk, 0, h.room * dim * 4);
    memset(h.dv, 0, h.room * dim * 4);
    for (int64_t t = 0; t < tokens; t += SPAN) {
      const uint8_t *sees = h.block_mask + t / QUERIES * h.depth;
      for (int64_t j = 0; j < h.depth; j++) h.any[j] = sees[j] | (t + QUERIES < tokens ? sees[h.depth + j] : HIDDEN);
      for (int64_t i = 0; i < group; i++) {
        for (int first = 0; first < SPAN; first += QUERIES)
          gradients_of(&h, planes, t + first, first, h.kv * group + i);
        h.sees = h.any;
        over_queries(&h, planes, h.q, h.score_grads, h.dk);
        over_queries(&h, planes, h.dy, h.probs, h.dv);
      }
    }
    store_transposed(&h, planes, h.dk, p->dk, own);
    store_transposed(&h, planes, h.dv, p->dv, own);
  }
  free(h.memory);
}

// The gradients for queries, keys and values.
AMX void popri_attend_train_grad(const void *attention, int64_t from, int64_t to) {
  const popri_attention *p = attention;
  if (p->tiles) tiles_on();
  if (p->planes == 1)
    attend_grad(p, 1, from, to);
  else
    attend_grad(p, 3, from, to);
  if (p->tiles) _tile_release();
}

#else

void popri_attend_train(const void *attention, int64_t from, int64_t to) {}
void popri_attend_train_grad(const void *attention, int64_t from, int64_t to) {}

#endif
