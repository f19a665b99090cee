#include "torch.h"
#include "amx.h"
#include <sys/syscall.h>
#include <unistd.h>

// Products with packed weights (packed.h) on the matrix unit of the CPU (AMX): bfloat16 tiles of 16×32 times 32×16,
// sums in float32. A float32 product is made of bfloat16 ones: each factor is split into three parts of 8 bits, of
// whose nine products the six largest count; what is left out is below the rounding of float32.

#ifdef AMX

// The kernel enables the tiles' registers for a process that asks (XFEATURE_XTILEDATA).
int popri_amx_enable(void) {
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
  return __builtin_cpu_supports("avx512bf16") && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
}

// Tiles 4 and 5 hold inputs, 6 and 7 weights.
#define STEP(b)                                                                                                       \
  _tile_loadd(6, (b), 64);                                                                                            \
  _tile_loadd(7, (b) + TILE, 64);                                                                                     \
  four_products(two);                                                                                                 \
  for (int i = 0; i < ahead && next < end; i++, next += 64) _mm_prefetch(next, _MM_HINT_T1);
#define ROWS(p)                                                                                                       \
  _tile_loadd(4, a + (p) * plane + kb * BLOCK, stride);                                                               \
  if (two) _tile_loadd(5, a + (p) * plane + 16 * padded + kb * BLOCK, stride);

// Adds depth blocks of products to 32 × 32 sums, of which the first chunk has none yet. Meanwhile it fetches ahead
// lines a step of what comes next, from next to end.
INLINE const char *block(const uint16_t *a, int64_t plane, int64_t padded, const uint16_t *b, int64_t depth, int planes,
                         int two, int first, float *sums, const char *next, const char *end, int ahead) {
  int64_t stride = padded * 2;
  load_sums(first, sums, BLOCK);
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
  store_sums(two, sums, BLOCK);
  return next;
}

// The inputs of one pass over the weights should stay in the second-level cache beside a block of weights.
enum { CACHED = 1280 << 10 };

// Blocks of depth that one pass takes.
static int64_t chunk_of(const popri_product *g) {
  int64_t depth = (g->in + BLOCK - 1) / BLOCK, row = 2 * BLOCK * g->planes,
          rows = (g->rows + BLOCK - 1) / BLOCK * BLOCK;
  int64_t chunks = (depth * row * rows + CACHED - 1) / CACHED;
  if (chunks > 8) chunks = 8;
  return (depth + chunks - 1) / chunks;
}

int64_t popri_tiles_scratch(const popri_product *g) {
  int64_t bytes = parts_of(g) * 2, depth = (g->in + BLOCK - 1) / BLOCK;
  if (chunk_of(g) < depth) bytes += (g->rows + BLOCK - 1) / BLOCK * BLOCK * ((g->out + BLOCK - 1) / BLOCK * BLOCK) * 4;
  return bytes;
}

AMX void popri_tiles_run(const popri_product *g, void *scratch) {
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

#else

int popri_amx_enable(void) { return 0; }

#endif
