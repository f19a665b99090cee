#include "torch.h"
#include "finish.h"
#include "lines.h"
#include "product.h"

// Products with packed weights on the vector unit, of bfloat16 or float32.

#ifdef PACKED

// Bytes of weights that stay in the first-level cache.
enum { NEAR = 32 << 10 };

// Elements of g's inputs in bfloat16, if weights are.
static int64_t inputs_of(const popri_product *g) {
  return g->planes ? (g->rows + BLOCK - 1) / BLOCK * BLOCK * ((g->in + BLOCK - 1) / BLOCK * BLOCK) : 0;
}

int64_t popri_vector_scratch(const popri_product *g) { return inputs_of(g) * 2 + (g->rows + LINES) * BLOCK * 4; }

// Copies rows of the inputs as bfloat16, stride apart, with zeros where there are none.
AVX static void round_rows(const popri_product *g, int64_t stride, uint16_t *to) {
  for (int64_t r = 0; r < g->rows; r++)
    for (int64_t k = 0; k < stride; k += 16) {
      __mmask16 m = up_to(g->in - k);
      int64_t at = r * g->in + k;
      store_bf16(to + r * stride + k, 0xffff, elements(g->x, g->x_bf16, at, m));
    }
}

// The product on the vector unit, of bfloat16, or of float32 where there are no planes: a block of weights after the
// other, for all rows.
AVX void popri_vector_run(const popri_product *g, void *scratch) {
  int64_t depth = (g->in + BLOCK - 1) / BLOCK, block = block_size(g->planes), near = NEAR / 2 / block;
  int64_t chunks = (depth + near - 1) / near, chunk = (depth + chunks - 1) / chunks;
  int64_t stride = g->planes ? depth * BLOCK : g->in;
  float *all = (float *)((uint16_t *)scratch + inputs_of(g));
  const char *last = (const char *)(g->w + (g->out + BLOCK - 1) / BLOCK * depth * block);
  const uint16_t *x = g->x;
  finisher *finish = popri_finisher(g);
  if (g->planes && (!g->x_bf16 || g->in % BLOCK)) {
    round_rows(g, stride, scratch);
    x = scratch;
  }
  for (int64_t o = 0; o < g->out; o += BLOCK)
    for (int64_t from = 0; from < depth; from += chunk) {
      int64_t n = depth - from < chunk ? depth - from : chunk;
      const uint16_t *b = g->w + (o / BLOCK * depth + from) * block;
      const char *next = (const char *)(b + n * block); // the weights that follow
      int64_t ahead = n * 2 * block * LINES / g->rows / 64 * 64 + 64;
      for (int64_t r = 0; r < g->rows; r += LINES, next += ahead) {
        for (int64_t at = 0; at < ahead && next + at < last; at += 64) _mm_prefetch(next + at, _MM_HINT_T1);
        int rows = g->rows - r < LINES ? (int)(g->rows - r) : LINES;
        float *sums = all + (chunks > 1 ? r * BLOCK : 0);
        int64_t begin = from * BLOCK, inputs = g->in - begin < n * BLOCK ? g->in - begin : n * BLOCK;
        if (g->planes)
          popri_lines(rows, x + r * stride + begin, stride, b, n, from == 0, sums, BLOCK);
        else
          popri_wide_lines(rows, (const float *)g->x + r * stride + begin, stride, (const float *)b, inputs, from == 0, sums);
        if (from + n < depth) continue;
        finish(g, sums, r, rows, o);
      }
    }
}

#endif
