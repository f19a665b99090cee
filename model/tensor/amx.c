#include "torch.h"
#include "profile.h"
#include "amx.h"
#include "finish.h"
#include "product.h"
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

static int64_t blocks_of(int64_t n) { return (n + BLOCK - 1) / BLOCK; }

// Splits the inputs of a row, n blocks of them from the given one on, with zeros where there are none. They become row
// i of [block of 32 rows][block of 32 inputs][plane][2] tiles, so that a step reads adjacent tiles.
INLINE void split_row(const popri_product *g, int64_t row, int64_t from, int64_t n, int64_t i, uint16_t *parts) {
  uint16_t *to = parts + (i / BLOCK * n * g->planes * BLOCK + i % BLOCK) * BLOCK;
  int64_t at = row * g->in + from * BLOCK, left = row < g->rows ? g->in - from * BLOCK : 0;
  for (int64_t kb = 0; kb < n; kb++, at += BLOCK, left -= BLOCK) {
    __mmask16 m0 = up_to(left), m1 = up_to(left - 16);
    if (g->x_bf16) {
      _mm512_store_si512(to, _mm512_maskz_loadu_epi16(m0 | (uint32_t)m1 << 16, (const uint16_t *)g->x + at));
      to += 2 * TILE;
      continue;
    }
    __m512 x = elements(g->x, 0, at, m0), y = elements(g->x, 0, at + 16, m1);
    for (int p = 0; p < g->planes; p++, to += 2 * TILE) _mm512_store_si512(to, next_part(&x, &y));
  }
}

// Columns of bfloat16, up to 32, from one on become rows of two tiles.
INLINE void transpose_tiles(const popri_product *g, int64_t k, int64_t column, uint16_t *to) {
  const uint16_t *x = g->x;
  __m512i low[16], high[16]; // of two inputs: columns 0 to 3 of each 8, and 4 to 7
  __mmask32 m = (__mmask32)up_to(g->rows - column - 16) << 16 | up_to(g->rows - column);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) {
    int64_t at = k + 2 * i;
    const uint16_t *a = x + at * g->transposed + column, *b = a + g->transposed;
    __m512i p = _mm512_maskz_loadu_epi16(at < g->in ? m : 0, a);
    __m512i q = _mm512_maskz_loadu_epi16(at + 1 < g->in ? m : 0, b);
    _mm_prefetch((const char *)(a + BLOCK), _MM_HINT_T1); // the next block's
    _mm_prefetch((const char *)(b + BLOCK), _MM_HINT_T1);
    low[i] = _mm512_unpacklo_epi16(p, q);
    high[i] = _mm512_unpackhi_epi16(p, q);
  }
  transpose(low);
  transpose(high);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) {
    _mm512_store_si512(to + (i / 4 * 8 + i % 4) * BLOCK, low[i]);
    _mm512_store_si512(to + (i / 4 * 8 + i % 4 + 4) * BLOCK, high[i]);
  }
}

// split_row for the 32 rows of a block that are columns of x.
INLINE void split_columns(const popri_product *g, int64_t block, int64_t from, int64_t n, uint16_t *parts) {
  uint16_t *to = parts + block * n * g->planes * 2 * TILE;
  if (g->x_bf16) {
    for (int64_t k = from; k < from + n; k++, to += 2 * TILE) transpose_tiles(g, k * BLOCK, block * BLOCK, to);
    return;
  }
  for (int64_t k = from * BLOCK; k < (from + n) * BLOCK; k += BLOCK, to += g->planes * 2 * TILE)
    for (int half = 0; half < 2; half++) {
      int64_t column = block * BLOCK + half * 16;
      __mmask16 m = up_to(g->rows - column);
      __m512i r[3][16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; i++) {
        int64_t at = k + 2 * i;
        __m512 x = elements(g->x, 0, at * g->transposed + column, at < g->in ? m : 0),
               y = elements(g->x, 0, (at + 1) * g->transposed + column, at + 1 < g->in ? m : 0);
        for (int p = 0; p < g->planes; p++) r[p][i] = side_by_side(next_part(&x, &y));
      }
      for (int p = 0; p < g->planes; p++) {
        transpose(r[p]);
        for (int i = 0; i < 16; i++) _mm512_store_si512(to + p * 2 * TILE + half * TILE + i * BLOCK, r[p][i]);
      }
    }
}

// Sums that are complete and not stored yet: their rows are finished while the next sums are computed, since a row that
// was just stored from a tile keeps the vector unit waiting.
typedef struct {
  finisher *finish;
  const popri_product *g;
  const float *sums;
  int64_t row, column;
  int left; // rows
} pending;

INLINE void finish_some(pending *p, int most) {
  int n = p->left < most ? p->left : most;
  if (n <= 0) return;
  p->finish(p->g, p->sums, p->row, n, p->column);
  p->sums += n * BLOCK, p->row += n, p->left -= n;
}

// Weights that are read ahead, from next to end.
typedef struct {
  const char *next, *end;
  int lines; // a step
} ahead;

INLINE void read_on(ahead *f) {
  for (int i = 0; i < f->lines && f->next < f->end; i++, f->next += 64) _mm_prefetch(f->next, _MM_HINT_T1);
}

// Tiles 4 and 5 hold inputs of a plane, 6 and 7 weights.
#define INPUTS(p)                                                                                                     \
  _tile_loadd(4, a + (p) * 2 * TILE, 64);                                                                             \
  if (two) _tile_loadd(5, a + (p) * 2 * TILE + TILE, 64);
#define WEIGHTS(p)                                                                                                    \
  _tile_loadd(6, b + (p) * 2 * TILE, 64);                                                                             \
  _tile_loadd(7, b + (p) * 2 * TILE + TILE, 64);
#define STEP four_products(two), read_on(f)

// Adds depth blocks of products to 32 × 32 sums, of which the first chunk has none yet.
INLINE void block(const uint16_t *a, const uint16_t *b, int64_t depth, int planes, int two, int first, float *sums,
                  ahead *f, pending *p) {
  int rows = (int)((BLOCK + depth - 1) / depth);
  load_sums(first, sums, BLOCK);
  for (int64_t kb = 0; kb < depth; kb++, a += 2 * TILE * planes, b += 2 * TILE * planes) {
    if (planes == 1) {
      INPUTS(0)
      WEIGHTS(0)
      STEP;
      finish_some(p, rows);
      continue;
    }
    SIX_PRODUCTS(STEP, finish_some(p, rows))
  }
  store_sums(two, sums, BLOCK);
}

INLINE void block_of(int planes, const uint16_t *a, const uint16_t *b, int64_t depth, int two, int first, float *sums,
                     ahead *f, pending *p) {
  if (planes == 1)
    block(a, b, depth, 1, two, first, sums, f, p);
  else
    block(a, b, depth, 3, two, first, sums, f, p);
}

// The inputs of one pass over the weights should stay in the second-level cache beside a block of weights.
enum { CACHED = 960 << 10, PANEL = 512 };

// Most rows that are multiplied at once: PANEL, or fewer that stay in the cache.
static int64_t most_rows(const popri_product *g) {
  int64_t fit = CACHED / (2 * blocks_of(g->in) * BLOCK * g->planes);
  return fit < PANEL / 2 || fit > PANEL ? PANEL : fit;
}

// Rows of nearly equal panels.
int64_t popri_tiles_panel(const popri_product *g) {
  int64_t panels = (g->rows + most_rows(g) - 1) / most_rows(g);
  return panels < 2 ? g->rows : blocks_of((g->rows + panels - 1) / panels) * BLOCK;
}

// Bytes of the inputs, split, for depth blocks.
static int64_t split_size(const popri_product *g, int64_t depth) {
  return blocks_of(g->rows) * depth * BLOCK * BLOCK * g->planes * 2;
}

// Blocks of depth that one pass takes.
static int64_t chunk_of(const popri_product *g) {
  int64_t depth = blocks_of(g->in), chunks = (split_size(g, depth) + CACHED - 1) / CACHED;
  return chunks < depth ? (depth + chunks - 1) / chunks : 1;
}

// Elements of the inputs of one pass, split.
static int64_t parts_of(const popri_product *g) { return split_size(g, chunk_of(g)) / 2; }

// Enough for fewer rows, too, whose passes may be deeper.
int64_t popri_tiles_scratch(const popri_product *g) {
  popri_product p = *g;
  if (p.rows > most_rows(g)) p.rows = blocks_of(most_rows(g)) * BLOCK;
  int64_t whole = split_size(&p, blocks_of(p.in)), pass = CACHED + split_size(&p, 1);
  if (chunk_of(&p) == blocks_of(p.in)) return whole + 64;
  return (whole < pass ? whole : pass) + blocks_of(p.rows) * blocks_of(p.out) * BLOCK * BLOCK * 4 + 64;
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
  int64_t rows = blocks_of(g->rows) * BLOCK, padded = blocks_of(g->in) * BLOCK;
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

// The product's columns, or their parts' sums for a draw. parts has room for popri_tiles_scratch bytes.
INLINE void tiles_of(const popri_product *g, uint16_t *parts, const popri_draws *d, const draw_scratch *s) {
  int64_t depth = blocks_of(g->in), chunk = chunk_of(g), blocks = blocks_of(g->rows);
  float buffers[2][BLOCK * BLOCK] __attribute__((aligned(64)));
  int buffer = 0;
  float *all = (float *)(parts + parts_of(g));
  int64_t step = 2 * TILE * g->planes, panel = depth * step; // elements of a block of weights, and of all its depth
  const char *last = (const char *)(g->w + blocks_of(g->out) * panel);
  popri_product y = *g;
  if (d) y.y = s->logits, y.out = SAMPLE_PART;
  pending p = {.finish = popri_finisher(&y), .g = &y};
  for (int64_t from = 0; from < depth; from += chunk) {
    int64_t n = depth - from < chunk ? depth - from : chunk;
    if (g->transposed)
      for (int64_t r = 0; r < blocks; r++) split_columns(g, r, from, n, parts);
    else
      for (int64_t r = 0; r < blocks * BLOCK; r++) split_row(g, r, from, n, r, parts);
    ahead f = {.lines = (int)(n * step * 2 / 64 / (blocks * n * (g->planes == 1 ? 1 : 6)) + 1)};
    for (int64_t o = 0; o < g->out; o += BLOCK) {
      const uint16_t *b = g->w + o / BLOCK * panel + from * step;
      f.next = (const char *)(b + panel), f.end = f.next + n * step * 2;
      if (f.next >= last) f.next = f.end;
      int64_t column = d ? o % SAMPLE_PART : o;
      for (int64_t r = 0; r < blocks; r++) {
        int rows = g->rows - r * BLOCK < BLOCK ? (int)(g->rows - r * BLOCK) : BLOCK;
        float *sums = chunk < depth ? all + (o / BLOCK * blocks + r) * BLOCK * BLOCK : buffers[buffer ^= 1];
        block_of(g->planes, parts + r * n * step, b, n, rows > 16, from == 0, sums, &f, &p);
        if (from + n < depth) continue;
        finish_some(&p, BLOCK);
        p.sums = sums, p.row = r * BLOCK, p.column = column, p.left = rows;
      }
      if (!d || from + n < depth || (column + BLOCK < SAMPLE_PART && o + BLOCK < g->out)) continue;
      finish_some(&p, BLOCK);
      int width = part_width(g, o - column);
      for (int64_t r = 0; r < g->rows; r++) leave_out(d, r, s->logits + r * SAMPLE_PART, o - column, width);
      popri_sample_part((int)g->rows, s->logits, SAMPLE_PART, width, d->k, s->top + o / SAMPLE_PART,
                        s->sum + o / SAMPLE_PART, s->parts, s->e);
    }
  }
  finish_some(&p, BLOCK);
}

static uint16_t *aligned(void *scratch) { return (uint16_t *)(((uintptr_t)scratch + 63) / 64 * 64); }

AMX void popri_tiles_run(const popri_product *g, void *scratch) {
  tiles_on();
  tiles_of(g, aligned(scratch), 0, 0);
  _tile_release();
}

// Rows that are drawn for at once: where their inputs stay in the cache, one pass over the weights needs no sums of all
// columns.
static int64_t draw_panel(const popri_product *g) {
  int64_t rows = CACHED / (2 * blocks_of(g->in) * BLOCK * g->planes) / BLOCK * BLOCK;
  return rows < 4 * BLOCK ? 4 * BLOCK : rows > 16 * BLOCK ? 16 * BLOCK : rows;
}

int64_t popri_draw_scratch(const popri_product *g) {
  popri_product p = *g;
  if (p.rows > draw_panel(g)) p.rows = draw_panel(g);
  draw_scratch s;
  return popri_tiles_scratch(&p) + draw_layout(&p, 0, &s) + 64;
}

AMX static void draw_rows(const popri_product *g, const popri_draws *d, void *scratch) {
  int64_t depth = blocks_of(g->in), panel = depth * 2 * TILE * g->planes;
  uint16_t *parts = aligned(scratch);
  draw_scratch s;
  draw_layout(g, (char *)parts + popri_tiles_scratch(g), &s);
  tiles_on();
  tiles_of(g, parts, d, &s);
  for (int64_t p = 0; p < s.parts; p++) s.first[p] = -1;
  for (int64_t r = g->rows - 1; r >= 0; r--) {
    int p = popri_sample_choose(s.top + r * s.parts, s.sum + r * s.parts, (int)s.parts, d->k, d->u[r], s.rest + r, s.e);
    d->out[r] = -1;
    if (p < 0) continue;
    s.next[r] = s.first[p];
    s.first[p] = (int32_t)r;
  }
  memset(s.picked, 0, panel * 2);
  popri_product y = *g;
  y.y = s.logits, y.out = SAMPLE_PART;
  finisher *finish = popri_finisher(&y);
  ahead none = {0};
  pending finished = {0};
  float sums[BLOCK * BLOCK] __attribute__((aligned(64)));
  for (int64_t p = 0; p < s.parts; p++)
    for (int32_t r = s.first[p]; r >= 0;) {
      int32_t row[BLOCK];
      int rows = 0, width = part_width(g, p * SAMPLE_PART);
      for (; r >= 0 && rows < BLOCK; r = s.next[r]) row[rows++] = r;
      for (int i = 0; i < rows; i++) split_row(g, row[i], 0, depth, i, s.picked);
      for (int64_t o = p * SAMPLE_PART; o < p * SAMPLE_PART + width; o += BLOCK) {
        block_of(g->planes, s.picked, g->w + o / BLOCK * panel, depth, rows > 16, 1, sums, &none, &finished);
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
// twice: all of them, of which the parts' sums are kept, and then the logits of the drawn part. Only g's rows,
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
