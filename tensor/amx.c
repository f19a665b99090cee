#include "torch.h"
#include "amx.h"
#include <sys/syscall.h>
#include <unistd.h>

// Products with weights laid out beforehand for the matrix unit of the CPU (AMX): bfloat16 tiles of 16×32 times 32×16,
// sums in float32. A float32 product is made of bfloat16 ones: each factor is split into three parts of 8 bits, of whose
// nine products the six largest count; what is left out is below the rounding of float32.

#ifdef AMX

// The kernel enables the tiles' registers for a process that asks (XFEATURE_XTILEDATA).
int popri_amx_enable(void) {
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
  return __builtin_cpu_supports("avx512bf16") && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
}

enum { BLOCK = 32, TILE = 512 }; // columns and depth of a block; elements of a tile

int64_t popri_packed_size(int64_t in, int64_t out, int planes) {
  return (in + BLOCK - 1) / BLOCK * ((out + BLOCK - 1) / BLOCK) * 2 * TILE * planes;
}

// Lays blocks [from, to) of 32 outputs out. The weight of input k and output n is w[k·row + n·col], float32 or bfloat16.
// Where gated, a block is 16 outputs of the first half and those of the second half that they gate.
void popri_pack(const void *w, int bf16, int64_t row, int64_t col, int64_t in, int64_t out, int planes, int gated, int64_t from,
                int64_t to, uint16_t *packed) {
  int64_t depth = (in + BLOCK - 1) / BLOCK;
  for (int64_t b = from; b < to; b++)
    for (int64_t kb = 0; kb < depth; kb++) {
      uint16_t *at = packed + (b * depth + kb) * 2 * TILE * planes;
      for (int half = 0; half < 2; half++)
        for (int k = 0; k < BLOCK; k++)
          for (int n = 0; n < 16; n++) {
            int64_t i = kb * BLOCK + k, o = gated ? b * 16 + half * (out / 2) + n : b * BLOCK + half * 16 + n;
            float x = 0;
            if (i < in && o < out) x = bf16 ? from_bf16(((const uint16_t *)w)[i * row + o * col]) : ((const float *)w)[i * row + o * col];
            for (int p = 0; p < planes; p++) {
              uint16_t part = to_bf16(x);
              at[(p * 2 + half) * TILE + k / 2 * 32 + n * 2 + k % 2] = part;
              x -= from_bf16(part);
            }
          }
    }
}

// 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))
INLINE __m512 gelu_tanh(__m512 x) {
  __m512 cube = _mm512_mul_ps(_mm512_mul_ps(x, x), x);
  __m512 u = _mm512_mul_ps(_mm512_set1_ps(0.79788456080286536f), _mm512_fmadd_ps(_mm512_set1_ps(0.044715f), cube, x));
  // 1 + tanh(u) = 2/(1 + exp(-2u)) where u ≥ 0, and 2·exp(2u)/(1 + exp(2u)) elsewhere
  __m512 e = exp_negative(_mm512_mul_ps(_mm512_set1_ps(-2.0f), _mm512_abs_ps(u)));
  __m512 d = _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
  __mmask16 low = _mm512_cmp_ps_mask(u, _mm512_setzero_ps(), _CMP_LT_OQ);
  return _mm512_mask_mul_ps(d, low, d, e);
}

// Adds the bias to both halves of rows × 32 sums and stores silu(first)·second, 16 a row.
INLINE void finish_gated(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column) {
  int64_t n = column / 2, width = g->out / 2;
  __m512 zero = _mm512_setzero_ps(), one = _mm512_set1_ps(1.0f), b0 = g->bias ? _mm512_loadu_ps(g->bias + n) : zero,
         b1 = g->bias ? _mm512_loadu_ps(g->bias + width + n) : zero;
  for (int r = 0; r < rows; r++) {
    __m512 gate = _mm512_add_ps(_mm512_loadu_ps(sums + r * BLOCK), b0), x = _mm512_add_ps(_mm512_loadu_ps(sums + r * BLOCK + 16), b1);
    // σ(gate) = 1/(1 + exp(-gate)) where gate ≥ 0, and exp(gate)/(1 + exp(gate)) elsewhere
    __m512 e = exp_negative(_mm512_sub_ps(zero, _mm512_abs_ps(gate)));
    __m512 y = _mm512_mul_ps(_mm512_div_ps(gate, _mm512_add_ps(one, e)), x);
    y = _mm512_mask_mul_ps(y, _mm512_cmp_ps_mask(gate, zero, _CMP_LT_OQ), y, e);
    int64_t at = (row + r) * width + n;
    if (g->y_bf16)
      store_bf16((uint16_t *)g->y + at, 0xffff, y);
    else
      _mm512_storeu_ps((float *)g->y + at, y);
  }
}

// Adds the bias, applies the activation, adds the residual and stores rows × 32 sums.
INLINE void finish(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column) {
  for (int half = 0; half < 2; half++) {
    int64_t n = column + 16 * half;
    if (n >= g->out) return;
    __mmask16 m = g->out - n >= 16 ? 0xffff : (__mmask16)((1u << (g->out - n)) - 1);
    __m512 bias = g->bias ? _mm512_maskz_loadu_ps(m, g->bias + n) : _mm512_setzero_ps();
    for (int r = 0; r < rows; r++) {
      int64_t at = (row + r) * g->out + n;
      __m512 x = _mm512_add_ps(_mm512_loadu_ps(sums + r * BLOCK + 16 * half), bias);
      if (g->gelu) x = gelu_tanh(x);
      if (g->residual)
        x = _mm512_add_ps(x, g->residual_bf16 ? load_bf16((const uint16_t *)g->residual + at, m) : _mm512_maskz_loadu_ps(m, (const float *)g->residual + at));
      if (g->y_bf16)
        store_bf16((uint16_t *)g->y + at, m, x);
      else
        _mm512_mask_storeu_ps((float *)g->y + at, m, x);
    }
  }
}

// Splits rows × depth·32 inputs into planes of bfloat16, [plane][row][depth·32], with zeros where there are none.
INLINE void split(const popri_product *g, int64_t row, int rows, int64_t padded, uint16_t *parts, int64_t plane) {
  for (int r = 0; r < rows; r++)
    for (int64_t k = 0; k < padded; k += 16) {
      __mmask16 m = g->in - k >= 16 ? 0xffff : g->in > k ? (__mmask16)((1u << (g->in - k)) - 1) : 0;
      int64_t at = (row + r) * g->in + k;
      if (g->x_bf16) {
        _mm256_storeu_si256((__m256i *)(parts + r * padded + k), _mm256_maskz_loadu_epi16(m, (const uint16_t *)g->x + at));
        continue;
      }
      __m512 x = _mm512_maskz_loadu_ps(m, (const float *)g->x + at);
      for (int p = 0; p < g->planes; p++) {
        __m256i part = (__m256i)_mm512_cvtneps_pbh(x);
        _mm256_storeu_si256((__m256i *)(parts + p * plane + r * padded + k), part);
        x = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(part), 16)));
      }
    }
}

// Tiles 0 to 3 hold the sums, 4 and 5 inputs, 6 and 7 weights.
#define STEP(b)                                                                                                       \
  _tile_loadd(6, (b), 64);                                                                                            \
  _tile_loadd(7, (b) + TILE, 64);                                                                                     \
  _tile_dpbf16ps(0, 4, 6);                                                                                            \
  _tile_dpbf16ps(1, 4, 7);                                                                                            \
  if (two) {                                                                                                          \
    _tile_dpbf16ps(2, 5, 6);                                                                                          \
    _tile_dpbf16ps(3, 5, 7);                                                                                          \
  }                                                                                                                   \
  for (int i = 0; i < ahead && next < end; i++, next += 64) _mm_prefetch(next, _MM_HINT_T1);
#define ROWS(p)                                                                                                       \
  _tile_loadd(4, a + (p) * plane + kb * BLOCK, stride);                                                               \
  if (two) _tile_loadd(5, a + (p) * plane + 16 * padded + kb * BLOCK, stride);

// Adds depth blocks of products to 32 × 32 sums, of which the first chunk has none yet. Meanwhile it fetches ahead lines
// a step of what comes next, from next to end.
INLINE const char *block(const uint16_t *a, int64_t plane, int64_t padded, const uint16_t *b, int64_t depth, int planes, int two,
                         int first, float *sums, const char *next, const char *end, int ahead) {
  int64_t stride = padded * 2;
  if (first) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, BLOCK * 4);
    _tile_loadd(1, sums + 16, BLOCK * 4);
    _tile_loadd(2, sums + 16 * BLOCK, BLOCK * 4);
    _tile_loadd(3, sums + 16 * BLOCK + 16, BLOCK * 4);
  }
  if (planes == 1) {
    for (int64_t kb = 0; kb < depth; kb++, b += 2 * TILE) {
      ROWS(0)
      STEP(b)
    }
  } else {
    for (int64_t kb = 0; kb < depth; kb++, b += 6 * TILE) {
      ROWS(2)
      STEP(b)
      ROWS(1)
      STEP(b + 2 * TILE)
      STEP(b)
      ROWS(0)
      STEP(b + 4 * TILE)
      STEP(b + 2 * TILE)
      STEP(b)
    }
  }
  _tile_stored(0, sums, BLOCK * 4);
  _tile_stored(1, sums + 16, BLOCK * 4);
  if (two) {
    _tile_stored(2, sums + 16 * BLOCK, BLOCK * 4);
    _tile_stored(3, sums + 16 * BLOCK + 16, BLOCK * 4);
  }
  return next;
}

// The inputs of one pass over the weights should stay in the second-level cache beside a block of weights.
enum { CACHED = 1280 << 10 };

// Blocks of depth that one pass takes.
static int64_t chunk_of(const popri_product *g) {
  int64_t depth = (g->in + BLOCK - 1) / BLOCK, row = 2 * BLOCK * g->planes, rows = (g->rows + BLOCK - 1) / BLOCK * BLOCK;
  int64_t chunks = (depth * row * rows + CACHED - 1) / CACHED;
  if (chunks > 8) chunks = 8;
  return (depth + chunks - 1) / chunks;
}

static int64_t parts_of(const popri_product *g) {
  return (g->rows + BLOCK - 1) / BLOCK * BLOCK * ((g->in + BLOCK - 1) / BLOCK * BLOCK) * g->planes;
}

static int64_t scratch_of(const popri_product *g) {
  int64_t bytes = parts_of(g) * 2, depth = (g->in + BLOCK - 1) / BLOCK;
  if (chunk_of(g) < depth) bytes += (g->rows + BLOCK - 1) / BLOCK * BLOCK * ((g->out + BLOCK - 1) / BLOCK * BLOCK) * 4;
  return bytes;
}

AMX static void panel_run(const popri_product *g, void *scratch) {
  int64_t depth = (g->in + BLOCK - 1) / BLOCK, padded = depth * BLOCK, chunk = chunk_of(g);
  int64_t blocks = (g->rows + BLOCK - 1) / BLOCK, plane = blocks * BLOCK * padded;
  uint16_t *parts = scratch;
  float *all = (float *)(parts + parts_of(g)), single[BLOCK * BLOCK] __attribute__((aligned(64)));
  split(g, 0, (int)g->rows, padded, parts, plane);
  for (int p = 0; p < g->planes; p++) memset(parts + p * plane + g->rows * padded, 0, (plane - g->rows * padded) * 2);
  tiles_on();
  int64_t step = 2 * TILE * g->planes; // elements of a block of weights
  const char *last = (const char *)(g->w + (g->out + BLOCK - 1) / BLOCK * depth * step);
  for (int64_t from = 0; from < depth; from += chunk) {
    int64_t n = depth - from < chunk ? depth - from : chunk;
    int ahead = (int)(n * step * 2 / 64 / (blocks * n * (g->planes == 1 ? 1 : 6)) + 1);
    for (int64_t o = 0; o < g->out; o += BLOCK) {
      const uint16_t *b = g->w + (o / BLOCK * depth + from) * step;
      const char *next = (const char *)(b + depth * step), *end = next + n * step * 2;
      if (next >= last) next = end;
      for (int64_t r = 0; r < blocks; r++) {
        int rows = g->rows - r * BLOCK < BLOCK ? (int)(g->rows - r * BLOCK) : BLOCK;
        float *sums = chunk < depth ? all + (o / BLOCK * blocks + r) * BLOCK * BLOCK : single;
        const uint16_t *a = parts + r * BLOCK * padded + from * BLOCK;
        if (g->planes == 1)
          next = block(a, plane, padded, b, n, 1, rows > 16, from == 0, sums, next, end, ahead);
        else
          next = block(a, plane, padded, b, n, 3, rows > 16, from == 0, sums, next, end, ahead);
        if (from + n < depth) continue;
        if (g->gated)
          finish_gated(g, sums, r * BLOCK, rows, o);
        else
          finish(g, sums, r * BLOCK, rows, o);
      }
    }
  }
  _tile_release();
}

// Rows of one panel: more would leave the cache between two blocks of weights.
enum { PANEL = 512 };

int64_t popri_product_scratch(const popri_product *g) {
  popri_product p = *g;
  if (p.rows > PANEL) p.rows = PANEL;
  return scratch_of(&p);
}

// y = act(x·w + bias) + residual. scratch has room for popri_product_scratch bytes.
void popri_product_run(const popri_product *g, void *scratch) {
  for (int64_t r = 0; r < g->rows; r += PANEL) {
    popri_product p = *g;
    p.rows = g->rows - r < PANEL ? g->rows - r : PANEL;
    p.x = (const char *)g->x + r * g->in * (g->x_bf16 ? 2 : 4);
    p.y = (char *)g->y + r * (g->gated ? g->out / 2 : g->out) * (g->y_bf16 ? 2 : 4);
    if (g->residual) p.residual = (const char *)g->residual + r * g->out * (g->residual_bf16 ? 2 : 4);
    panel_run(&p, scratch);
  }
}

#else

int popri_amx_enable(void) { return 0; }
int64_t popri_packed_size(int64_t in, int64_t out, int planes) { return 0; }
void popri_pack(const void *w, int bf16, int64_t row, int64_t col, int64_t in, int64_t out, int planes, int gated, int64_t from,
                int64_t to, uint16_t *packed) {}
int64_t popri_product_scratch(const popri_product *g) { return 0; }
void popri_product_run(const popri_product *g, void *scratch) {}

#endif
