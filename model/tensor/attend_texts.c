#include "torch.h"
#include "profile.h"
#include "packed_heads.h"

// Attention within texts that lie behind each other without padding, in bfloat16 with float32 scores and sums. Keys and
// values of a head are laid out as packed weights, so that scores and blends are products with them.

// Bytes for texts of up to most tokens: keys, values, 12 rows of scores and of shares, and their blends.
int64_t popri_attend_texts_scratch(int64_t most, int64_t dim) {
  return rounded(most) * (4 * dim + 12 * 6) + 12 * dim * 4 + 64;
}

#ifdef PACKED

// exp(scores - their maximum) of n scores, in bfloat16 with zeros up to a multiple of 32, and one over their sum.
INLINE float shares(float *scores, const float *bias, int64_t n, uint16_t *out) {
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

AVX void popri_attend_texts(int from, int to, const int32_t *starts, int heads, int64_t dim, const uint16_t *qkv,
                            const float *bias, int64_t most, uint16_t *out, void *scratch) {
  OPERATION("popri::attend_texts");
  int64_t all = heads * dim, width = 3 * all;
  for (int i = from; i < to; i++) {
    int64_t n = starts[i + 1] - starts[i], room = rounded(n), depth = room / BLOCK;
    uint16_t *keys = (uint16_t *)(((uintptr_t)scratch + 63) / 64 * 64), *values = keys + room * dim,
             *p = values + room * dim;
    float *scores = (float *)(p + LINES * room), *blends = scores + LINES * room;
    for (int h = 0; h < heads; h++) {
      const uint16_t *q = qkv + starts[i] * width + h * dim;
      pack_keys(q + all, width, n, dim, keys);
      pack_values(q + 2 * all, width, n, dim, values);
      for (int64_t r = 0; r < n; r += LINES) {
        int rows = n - r < LINES ? (int)(n - r) : LINES;
        for (int64_t b = 0; b < depth; b++)
          popri_lines(rows, q + r * width, width, keys + b * BLOCK * dim, dim / BLOCK, 1, scores + b * BLOCK, room);
        float scale[LINES];
        for (int k = 0; k < rows; k++)
          scale[k] = shares(scores + k * room, bias ? bias + (h * most + r + k) * most : 0, n, p + k * room);
        for (int64_t d = 0; d < dim; d += BLOCK)
          popri_lines(rows, p, room, values + d * room, depth, 1, blends + d, dim);
        for (int k = 0; k < rows; k++)
          for (int64_t d = 0; d < dim; d += 16)
            store_bf16(out + (starts[i] + r + k) * all + h * dim + d, 0xffff,
                       _mm512_mul_ps(_mm512_loadu_ps(blends + k * dim + d), _mm512_set1_ps(scale[k])));
      }
    }
  }
}

#else

void popri_attend_texts(int from, int to, const int32_t *starts, int heads, int64_t dim, const uint16_t *qkv,
                        const float *bias, int64_t most, uint16_t *out, void *scratch) {}

#endif
