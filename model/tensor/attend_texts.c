#include "torch.h"
#include "profile.h"
#include "amx_heads.h"

// Attention within texts that are behind each other without padding, in bfloat16 with float32 scores and sums. Keys and
// values of a head are laid out as packed weights, so that scores and blends are products with them.

enum { QUERIES = 32 };

// Bytes for texts of up to most tokens: keys, values, 32 rows of scores and of probabilities, the queries and their blends.
int64_t popri_attend_texts_scratch(int64_t most, int64_t dim) {
  return rounded(most) * (4 * dim + QUERIES * 6) + QUERIES * dim * 6 + 64;
}

#ifdef PACKED

// exp(scores - their maximum) of n scores, in bfloat16 with zeros up to a multiple of 32, and one over their sum.
INLINE float probabilities(float *scores, const float *bias, int64_t n, uint16_t *out) {
  __m512 most = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
  for (int64_t t = 0; t < n; t += 16) {
    __mmask16 m = up_to(n - t);
    __m512 x = _mm512_maskz_loadu_ps(m, scores + t);
    if (bias) _mm512_storeu_ps(scores + t, x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(m, bias + t)));
    most = _mm512_mask_max_ps(most, m, most, x);
  }
  most = _mm512_set1_ps(_mm512_reduce_max_ps(most));
  for (int64_t t = 0; t < rounded(n); t += 16) {
    __mmask16 m = up_to(n - t);
    __m512 e = _mm512_maskz_mov_ps(m, exp_negative(_mm512_sub_ps(_mm512_loadu_ps(scores + t), most)));
    sum = _mm512_add_ps(sum, e);
    store_bf16(out + t, 0xffff, e);
  }
  return 1.0f / _mm512_reduce_add_ps(sum);
}

AMX void popri_attend_texts(int from, int to, const int32_t *starts, int heads, int64_t dim, const uint16_t *qkv,
                            const float *bias, int64_t most, int tiles, uint16_t *out, void *scratch) {
  OPERATION("popri::attend_texts");
  int64_t all = heads * dim, width = 3 * all;
  if (tiles) tiles_on();
  for (int i = from; i < to; i++) {
    int64_t n = starts[i + 1] - starts[i], room = rounded(n), depth = room / BLOCK;
    uint16_t *keys = (uint16_t *)(((uintptr_t)scratch + 63) / 64 * 64), *values = keys + room * dim,
             *p = values + room * dim, *queries = p + QUERIES * room;
    float *scores = (float *)(queries + QUERIES * dim), *blends = scores + QUERIES * room;
    for (int h = 0; h < heads; h++) {
      const uint16_t *q = qkv + starts[i] * width + h * dim;
      pack_keys(q + all, width, n, dim, keys);
      pack_values(q + 2 * all, width, n, dim, values);
      for (int64_t r = 0; r < n; r += QUERIES) {
        int rows = n - r < QUERIES ? (int)(n - r) : QUERIES;
        for (int k = 0; k < rows; k++) memcpy(queries + k * dim, q + (r + k) * width, dim * 2);
        for (int64_t b = 0; b < depth; b++)
          multiply(tiles, 1, rows, (factor){queries, dim}, (factor){keys + b * BLOCK * dim}, dim / BLOCK, 1,
                   scores + b * BLOCK, room);
        float scale[QUERIES];
        for (int k = 0; k < rows; k++)
          scale[k] = probabilities(scores + k * room, bias ? bias + (h * most + r + k) * most : 0, n, p + k * room);
        for (int64_t d = 0; d < dim; d += BLOCK)
          multiply(tiles, 1, rows, (factor){p, room}, (factor){values + d * room}, depth, 1, blends + d, dim);
        for (int k = 0; k < rows; k++)
          for (int64_t d = 0; d < dim; d += 16)
            store_bf16(out + (starts[i] + r + k) * all + h * dim + d, 0xffff,
                       _mm512_mul_ps(_mm512_loadu_ps(blends + k * dim + d), _mm512_set1_ps(scale[k])));
      }
    }
  }
  if (tiles) _tile_release();
}

#else

void popri_attend_texts(int from, int to, const int32_t *starts, int heads, int64_t dim, const uint16_t *qkv,
                        const float *bias, int64_t most, int tiles, uint16_t *out, void *scratch) {}

#endif
