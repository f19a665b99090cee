#include "torch.h"
#include "profile.h"
#include "packed.h"

#ifdef PACKED

// Elements of uint16_t of a block of weights: those in float32 (no planes) have two each.
static int64_t block_size(int planes) { return 2 * TILE * (planes ? planes : 2); }

int64_t popri_packed_size(int64_t in, int64_t out, int planes) {
  return (in + BLOCK - 1) / BLOCK * ((out + BLOCK - 1) / BLOCK) * block_size(planes);
}

// What a weight of input i and output o is: w[i·row + o·col], with row or col 1.
typedef struct {
  const void *w;
  int bf16;
  int64_t row, col, in;
} given;

// Lays 32 inputs from i on and n outputs, up to 16, from o on out as the planes' tiles, 2·TILE apart, or as one of
// float32.
INLINE void pack_tile(const given *g, int64_t i, int64_t o, int64_t n, int planes, uint16_t *to) {
  __mmask16 outputs = up_to(n);
  if (!planes) {
    __m512i r[16];
    for (int half = 0; half < BLOCK; half += 16) {
      for (int k = 0; k < 16; k++) {
        int64_t at = i + half + k;
        if (g->col == 1)
          r[k] = (__m512i)elements(g->w, g->bf16, at * g->row + o, at < g->in ? outputs : 0);
        else
          r[k] = (__m512i)elements(g->w, g->bf16, i + half + (o + k) * g->col, k < n ? up_to(g->in - i - half) : 0);
      }
      if (g->col != 1) transpose(r);
      for (int k = 0; k < 16; k++) _mm512_storeu_si512((float *)to + (half + k) * 16, r[k]);
    }
    return;
  }
  __m512i r[3][16]; // of the planes
#pragma GCC unroll 16
  for (int k = 0; k < 16; k++) {
    int64_t at, next; // two inputs, or two halves of an output's
    __mmask16 m, of_next;
    if (g->col == 1) {
      at = (i + 2 * k) * g->row + o, next = at + g->row;
      m = i + 2 * k < g->in ? outputs : 0, of_next = i + 2 * k + 1 < g->in ? outputs : 0;
    } else {
      at = i + (o + k) * g->col, next = at + 16;
      m = k < n ? up_to(g->in - i) : 0, of_next = k < n ? up_to(g->in - i - 16) : 0;
    }
    if (g->bf16 && planes == 1) {
      const uint16_t *w = g->w;
      __m256i x = _mm256_maskz_loadu_epi16(m, w + at), y = _mm256_maskz_loadu_epi16(of_next, w + next);
      r[0][k] = _mm512_inserti64x4(_mm512_castsi256_si512(x), y, 1);
      if (g->col == 1) r[0][k] = side_by_side(r[0][k]);
      continue;
    }
    __m512 x = elements(g->w, g->bf16, at, m), y = elements(g->w, g->bf16, next, of_next);
    for (int p = 0; p < planes; p++) {
      r[p][k] = next_part(&x, &y);
      if (g->col == 1) r[p][k] = side_by_side(r[p][k]);
    }
  }
  for (int p = 0; p < planes; p++, to += 2 * TILE) {
    if (g->col != 1) transpose(r[p]);
    for (int k = 0; k < 16; k++) _mm512_storeu_si512(to + k * BLOCK, r[p][k]);
  }
}

// Lays blocks [from, to) of 32 outputs out. The weight of input k and output n is w[k·row + n·col], float32 or
// bfloat16, and row or col is 1. Where gated, a block is 16 outputs of the first half and those of the second half that
// they gate.
AVX void popri_pack(const void *w, int bf16, int64_t row, int64_t col, int64_t in, int64_t out, int planes, int gated,
                    int64_t from, int64_t to, uint16_t *packed) {
  OPERATION("popri::pack");
  given g = {w, bf16, row, col, in};
  int64_t depth = (in + BLOCK - 1) / BLOCK;
  for (int64_t b = from; b < to; b++)
    for (int64_t kb = 0; kb < depth; kb++)
      for (int half = 0; half < 2; half++) {
        int64_t o = gated ? b * 16 + half * (out / 2) : b * BLOCK + half * 16;
        int64_t n = (gated ? (half + 1) * (out / 2) : out) - o;
        uint16_t *at = packed + (b * depth + kb) * block_size(planes) + half * (planes ? TILE : 2 * TILE);
        pack_tile(&g, kb * BLOCK, n > 0 ? o : 0, n, planes, at);
      }
}

// y = (x - mean)/√(variance + eps)·w + b, row by row, in bfloat16 with float32 sums; row has room for n rounded up
// to 64.
AVX void popri_layernorm_bf16(const uint16_t *x, const float *w, const float *b, uint16_t *y, int64_t rows, int64_t n,
                              float eps, float *row) {
  OPERATION("popri::layernorm");
  for (int64_t r = 0; r < rows; r++, x += n, y += n) {
    __m512 sum[4], square[4];
    for (int k = 0; k < 4; k++) sum[k] = square[k] = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i += 64)
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        __m512 v = load_bf16(x + i + 16 * k, up_to(n - i - 16 * k));
        _mm512_storeu_ps(row + i + 16 * k, v);
        sum[k] = _mm512_add_ps(sum[k], v);
      }
    __m512 mean = _mm512_set1_ps(
        _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3]))) / (float)n);
    for (int64_t i = 0; i < n; i += 64)
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        __m512 v = _mm512_maskz_sub_ps(up_to(n - i - 16 * k), _mm512_loadu_ps(row + i + 16 * k), mean);
        square[k] = _mm512_fmadd_ps(v, v, square[k]);
      }
    float squares =
        _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(square[0], square[1]), _mm512_add_ps(square[2], square[3])));
    __m512 scale = _mm512_set1_ps(1.0f / sqrtf(squares / (float)n + eps));
    for (int64_t i = 0; i < n; i += 16) {
      __mmask16 m = up_to(n - i);
      __m512 v = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(row + i), mean), scale);
      store_bf16(y + i, m, _mm512_fmadd_ps(v, _mm512_maskz_loadu_ps(m, w + i), _mm512_maskz_loadu_ps(m, b + i)));
    }
  }
}

// popri_lines for a constant n, whose sums stay in registers.
INLINE void lines(int n, const uint16_t *a, int64_t stride, const uint16_t *b, int64_t depth, int first, float *sums,
                  int64_t width) {
  __m512 s[LINES][2];
#pragma GCC unroll 12
  for (int r = 0; r < n; r++) {
    s[r][0] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + r * width);
    s[r][1] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + r * width + 16);
  }
  for (int64_t kb = 0; kb < depth; kb++, a += BLOCK, b += 2 * TILE)
    for (int k = 0; k < BLOCK; k += 2) {
      __m512bh b0 = (__m512bh)_mm512_loadu_si512(b + k * 16), b1 = (__m512bh)_mm512_loadu_si512(b + TILE + k * 16);
#pragma GCC unroll 12
      for (int r = 0; r < n; r++) {
        int pair;
        memcpy(&pair, a + r * stride + k, sizeof pair);
        __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
        s[r][0] = _mm512_dpbf16_ps(s[r][0], x, b0);
        s[r][1] = _mm512_dpbf16_ps(s[r][1], x, b1);
      }
    }
#pragma GCC unroll 12
  for (int r = 0; r < n; r++) {
    _mm512_storeu_ps(sums + r * width, s[r][0]);
    _mm512_storeu_ps(sums + r * width + 16, s[r][1]);
  }
}

#define CASE(k)                                                                                                       \
  case k: lines(k, a, stride, b, depth, first, sums, width); break;

AVX void popri_lines(int n, const uint16_t *a, int64_t stride, const uint16_t *b, int64_t depth, int first, float *sums,
                     int64_t width) {
  switch (n) {
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
  }
}

// popri_lines in float32, for as many inputs as there are, with sums BLOCK apart.
INLINE void wide_lines(int n, const float *a, int64_t stride, const float *b, int64_t inputs, int first, float *sums) {
  __m512 s[LINES][2];
#pragma GCC unroll 12
  for (int r = 0; r < n; r++) {
    s[r][0] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + r * BLOCK);
    s[r][1] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + r * BLOCK + 16);
  }
  for (int64_t from = 0; from < inputs; from += BLOCK, b += 2 * TILE) {
    int64_t to = inputs - from < BLOCK ? inputs - from : BLOCK;
    for (int64_t k = 0; k < to; k++) {
      __m512 b0 = _mm512_loadu_ps(b + k * 16), b1 = _mm512_loadu_ps(b + TILE + k * 16);
#pragma GCC unroll 12
      for (int r = 0; r < n; r++) {
        __m512 x = _mm512_set1_ps(a[r * stride + from + k]);
        s[r][0] = _mm512_fmadd_ps(x, b0, s[r][0]);
        s[r][1] = _mm512_fmadd_ps(x, b1, s[r][1]);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < n; r++) {
    _mm512_storeu_ps(sums + r * BLOCK, s[r][0]);
    _mm512_storeu_ps(sums + r * BLOCK + 16, s[r][1]);
  }
}

#define WIDE(k)                                                                                                       \
  case k: wide_lines(k, a, stride, b, inputs, first, sums); break;

AVX static void wide_cases(int n, const float *a, int64_t stride, const float *b, int64_t inputs, int first,
                           float *sums) {
  switch (n) {
    WIDE(1) WIDE(2) WIDE(3) WIDE(4) WIDE(5) WIDE(6) WIDE(7) WIDE(8) WIDE(9) WIDE(10) WIDE(11) WIDE(12)
  }
}

// Bytes of weights that stay in the first-level cache, and of inputs that stay in the second-level one.
enum { NEAR = 32 << 10, CACHED_INPUTS = 640 << 10 };

// Elements of g's inputs in bfloat16, if weights are.
static int64_t inputs_of(const popri_product *g) {
  return g->planes ? (g->rows + BLOCK - 1) / BLOCK * BLOCK * ((g->in + BLOCK - 1) / BLOCK * BLOCK) : 0;
}

static int64_t vector_scratch(const popri_product *g) { return inputs_of(g) * 2 + (g->rows + LINES) * BLOCK * 4; }

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
AVX static void vector_run(const popri_product *g, void *scratch) {
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
      int64_t share = n * 2 * block * LINES / g->rows / 64 * 64 + 64;
      for (int64_t r = 0; r < g->rows; r += LINES, next += share) {
        for (int64_t at = 0; at < share && next + at < last; at += 64) _mm_prefetch(next + at, _MM_HINT_T1);
        int rows = g->rows - r < LINES ? (int)(g->rows - r) : LINES;
        float *sums = all + (chunks > 1 ? r * BLOCK : 0);
        int64_t begin = from * BLOCK, inputs = g->in - begin < n * BLOCK ? g->in - begin : n * BLOCK;
        if (g->planes)
          popri_lines(rows, x + r * stride + begin, stride, b, n, from == 0, sums, BLOCK);
        else
          wide_cases(rows, (const float *)g->x + r * stride + begin, stride, (const float *)b, inputs, from == 0, sums);
        if (from + n < depth) continue;
        finish(g, sums, r, rows, o);
      }
    }
}

// Rows of one panel: more would leave the cache between two blocks of weights. At least one.
static int64_t panel_of(const popri_product *g) {
  if (g->tiles) return popri_tiles_panel(g);
  int64_t rows = CACHED_INPUTS / (g->in * (g->planes ? 2 : 4)) / LINES * LINES;
  return rows < 8 * LINES ? 8 * LINES : rows > 42 * LINES ? 42 * LINES : rows;
}

int64_t popri_product_scratch(const popri_product *g) {
  if (g->tiles && !g->scales) return popri_tiles_scratch(g);
  popri_product p = *g;
  if (p.rows > panel_of(g)) p.rows = panel_of(g);
  return g->scales ? popri_product8_scratch(&p) : vector_scratch(&p);
}

// y = act(x·w + bias) + residual. scratch has room for popri_product_scratch bytes.
void popri_product_run(const popri_product *g, void *scratch) {
  OPERATION("popri::product");
  int64_t panel = panel_of(g);
  for (int64_t r = 0; r < g->rows; r += panel) {
    popri_product p = *g;
    p.rows = g->rows - r < panel ? g->rows - r : panel;
    p.x = (const char *)g->x + r * (g->turned ? 1 : g->in) * (g->x_bf16 ? 2 : 4);
    int64_t half = g->out / 2, size = g->y_bf16 ? 2 : 4, inner = r * g->out * (g->act == ACT_SWIGLU ? 2 : 1) * size;
    p.y = g->y ? (char *)g->y + (g->gated ? r * half * size : inner) : 0;
    p.pre = g->pre ? (char *)g->pre + inner : 0;
    p.slope_of = g->slope_of ? (const char *)g->slope_of + inner : 0;
    p.again = g->again ? (char *)g->again + r * g->out * size : 0;
    if (g->added.parts) p.added.low += r * g->added.ranks;
    if (g->residual) p.residual = (const char *)g->residual + r * g->out * (g->residual_bf16 ? 2 : 4);
    if (g->scales)
      popri_product8_run(&p, scratch);
    else if (g->tiles)
      popri_tiles_run(&p, scratch);
    else
      vector_run(&p, scratch);
  }
  if (g->pre) _mm_sfence(); // other threads may read it, and it was written past the caches
}

#else

void popri_layernorm_bf16(const uint16_t *x, const float *w, const float *b, uint16_t *y, int64_t rows, int64_t n,
                          float eps, float *row) {}
int64_t popri_packed_size(int64_t in, int64_t out, int planes) { return 0; }
void popri_pack(const void *w, int bf16, int64_t row, int64_t col, int64_t in, int64_t out, int planes, int gated,
                int64_t from, int64_t to, uint16_t *packed) {}
int64_t popri_product_scratch(const popri_product *g) { return 0; }
void popri_product_run(const popri_product *g, void *scratch) {}

#endif
