#include "torch.h"
#include "profile.h"
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

// The memory of a draw for the rows of a product: what is known of each part of a row, and one part of all rows.
typedef struct {
  int64_t parts;
  double *rest;            // [rows]
  float *logits;           // [rows, at least BLOCK; SAMPLE_PART]
  float *top, *sum, *e;    // [rows, parts], and a row of work
  int32_t *first, *next;   // [parts], [rows]: the rows that fall into a part, as a list; -1 ends it
  uint16_t *picked;        // inputs of BLOCK rows, as split has them
} draw_scratch;

static int64_t draw_layout(const popri_product *g, char *start, draw_scratch *s) {
  int64_t rows = (g->rows + BLOCK - 1) / BLOCK * BLOCK, padded = (g->in + BLOCK - 1) / BLOCK * BLOCK;
  char *at = start + (-(uintptr_t)start & 63);
  s->parts = (g->out + SAMPLE_PART - 1) / SAMPLE_PART;
  s->picked = (uint16_t *)at, at += BLOCK * padded * g->planes * 2;
  s->logits = (float *)at, at += rows * SAMPLE_PART * 4;
  s->rest = (double *)at, at += rows * 8;
  s->top = (float *)at, at += rows * s->parts * 4;
  s->sum = (float *)at, at += rows * s->parts * 4;
  s->e = (float *)at, at += (s->parts + SAMPLE_PART) * 4;
  s->first = (int32_t *)at, at += s->parts * 4;
  s->next = (int32_t *)at, at += rows * 4;
  return at - start;
}

static int part_width(const popri_product *g, int64_t at) {
  return g->out - at < SAMPLE_PART ? (int)(g->out - at) : SAMPLE_PART;
}

// Leaves the banned tokens out of a row's part, of n tokens from the token at on.
static void leave_out(const popri_draws *d, int64_t row, float *logits, int64_t at, int n) {
  if (!d->ban || !d->ban[row]) return;
  for (int64_t i = 0; i < d->bans; i++)
    if (d->banned[i] >= at && d->banned[i] < at + n) logits[d->banned[i] - at] = -INFINITY;
}

// The product's columns, or their parts' sums for a draw, from inputs that are split.
INLINE void tiles_of(const popri_product *g, const uint16_t *parts, float *all, const popri_draws *d,
                     const draw_scratch *s) {
  int64_t depth = (g->in + BLOCK - 1) / BLOCK, padded = depth * BLOCK, chunk = chunk_of(g);
  int64_t blocks = (g->rows + BLOCK - 1) / BLOCK, plane = blocks * BLOCK * padded;
  float single[BLOCK * BLOCK] __attribute__((aligned(64)));
  int64_t step = 2 * TILE * g->planes; // elements of a block of weights
  const char *last = (const char *)(g->w + (g->out + BLOCK - 1) / BLOCK * depth * step);
  popri_product y = *g;
  if (d) y.y = s->logits, y.out = SAMPLE_PART;
  for (int64_t from = 0; from < depth; from += chunk) {
    int64_t n = depth - from < chunk ? depth - from : chunk;
    int ahead = (int)(n * step * 2 / 64 / (blocks * n * (g->planes == 1 ? 1 : 6)) + 1);
    for (int64_t o = 0; o < g->out; o += BLOCK) {
      const uint16_t *b = g->w + (o / BLOCK * depth + from) * step;
      const char *next = (const char *)(b + depth * step), *end = next + n * step * 2;
      if (next >= last) next = end;
      int64_t column = d ? o % SAMPLE_PART : o;
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
          finish_gated(&y, sums, r * BLOCK, rows, column);
        else
          finish(&y, sums, r * BLOCK, rows, column);
      }
      if (!d || from + n < depth || (column + BLOCK < SAMPLE_PART && o + BLOCK < g->out)) continue;
      int width = part_width(g, o - column);
      for (int64_t r = 0; r < g->rows; r++) leave_out(d, r, s->logits + r * SAMPLE_PART, o - column, width);
      popri_sample_part((int)g->rows, s->logits, SAMPLE_PART, width, d->k, s->top + o / SAMPLE_PART,
                        s->sum + o / SAMPLE_PART, s->parts, s->e);
    }
  }
}

// Splits the inputs and returns where the sums of a product begin that takes several chunks.
INLINE float *split_all(const popri_product *g, uint16_t *parts) {
  int64_t padded = (g->in + BLOCK - 1) / BLOCK * BLOCK, plane = (g->rows + BLOCK - 1) / BLOCK * BLOCK * padded;
  split(g, 0, (int)g->rows, padded, parts, plane);
  for (int p = 0; p < g->planes; p++) memset(parts + p * plane + g->rows * padded, 0, (plane - g->rows * padded) * 2);
  return (float *)(parts + parts_of(g));
}

AMX void popri_tiles_run(const popri_product *g, void *scratch) {
  float *all = split_all(g, scratch);
  tiles_on();
  tiles_of(g, scratch, all, 0, 0);
  _tile_release();
}

// Rows that are drawn for at once: where their inputs stay in the cache, one pass over the weights needs no sums of all
// columns.
static int64_t draw_panel(const popri_product *g) {
  int64_t rows = CACHED / (2 * ((g->in + BLOCK - 1) / BLOCK * BLOCK) * g->planes) / BLOCK * BLOCK;
  return rows < 4 * BLOCK ? 4 * BLOCK : rows > 16 * BLOCK ? 16 * BLOCK : rows;
}

int64_t popri_draw_scratch(const popri_product *g) {
  popri_product p = *g;
  if (p.rows > draw_panel(g)) p.rows = draw_panel(g);
  draw_scratch s;
  return (popri_tiles_scratch(&p) + 63) / 64 * 64 + draw_layout(&p, 0, &s) + 64;
}

AMX static void draw_rows(const popri_product *g, const popri_draws *d, void *scratch) {
  int64_t depth = (g->in + BLOCK - 1) / BLOCK, padded = depth * BLOCK, step = 2 * TILE * g->planes;
  int64_t plane = (g->rows + BLOCK - 1) / BLOCK * BLOCK * padded;
  const uint16_t *parts = scratch;
  draw_scratch s;
  draw_layout(g, (char *)scratch + (popri_tiles_scratch(g) + 63) / 64 * 64, &s);
  float *all = split_all(g, scratch);
  tiles_on();
  tiles_of(g, parts, all, d, &s);
  for (int64_t p = 0; p < s.parts; p++) s.first[p] = -1;
  for (int64_t r = g->rows - 1; r >= 0; r--) {
    int p = popri_sample_choose(s.top + r * s.parts, s.sum + r * s.parts, (int)s.parts, d->k, d->u[r], s.rest + r, s.e);
    d->out[r] = -1;
    if (p < 0) continue;
    s.next[r] = s.first[p];
    s.first[p] = (int32_t)r;
  }
  memset(s.picked, 0, BLOCK * padded * g->planes * 2);
  popri_product y = *g;
  y.y = s.logits, y.out = SAMPLE_PART;
  float sums[BLOCK * BLOCK] __attribute__((aligned(64)));
  for (int64_t p = 0; p < s.parts; p++)
    for (int32_t r = s.first[p]; r >= 0;) {
      int32_t row[BLOCK];
      int rows = 0, width = part_width(g, p * SAMPLE_PART);
      for (; r >= 0 && rows < BLOCK; r = s.next[r]) row[rows++] = r;
      for (int i = 0; i < rows; i++)
        for (int k = 0; k < g->planes; k++)
          memcpy(s.picked + (k * BLOCK + i) * padded, parts + k * plane + row[i] * padded, padded * 2);
      for (int64_t o = p * SAMPLE_PART; o < p * SAMPLE_PART + width; o += BLOCK) {
        const uint16_t *b = g->w + o / BLOCK * depth * step;
        if (g->planes == 1)
          block(s.picked, 0, padded, b, depth, 1, rows > 16, 1, sums, 0, 0, 0);
        else
          block(s.picked, BLOCK * padded, padded, b, depth, 3, rows > 16, 1, sums, 0, 0, 0);
        finish(&y, sums, 0, rows, o % SAMPLE_PART);
      }
      for (int i = 0; i < rows; i++) {
        float *x = s.logits + i * SAMPLE_PART;
        leave_out(d, row[i], x, p * SAMPLE_PART, width);
        d->out[row[i]] = (int32_t)(p * SAMPLE_PART) + popri_sample_pick(x, width, s.top[row[i] * s.parts + p], d->k,
                                                                      s.rest[row[i]], s.e);
      }
    }
  _tile_release();
}

// Draws a token for each row of the product g as popri_sample does, without the logits in memory. They are computed
// twice: all of them, of which the parts' sums are kept, and then those of the part that is drawn from. Only g's rows,
// in, out, planes, w and x count. scratch has room for popri_draw_scratch bytes.
void popri_draw_run(const popri_product *g, const popri_draws *d, void *scratch) {
  OPERATION("popri::draw");
  int64_t panel = draw_panel(g);
  for (int64_t r = 0; r < g->rows; r += panel) {
    popri_product p = *g;
    popri_draws of = *d;
    p.rows = g->rows - r < panel ? g->rows - r : panel;
    p.x = (const char *)g->x + r * g->in * (g->x_bf16 ? 2 : 4);
    of.u += r, of.out += r;
    if (of.ban) of.ban += r;
    draw_rows(&p, &of, scratch);
  }
}

#else

int popri_amx_enable(void) { return 0; }
int64_t popri_draw_scratch(const popri_product *g) { return 0; }
void popri_draw_run(const popri_product *g, const popri_draws *d, void *scratch) {}

#endif
