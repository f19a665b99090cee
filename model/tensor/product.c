#include "torch.h"
#include "profile.h"
#include "lines.h"
#include "product.h"

// Products with packed weights, panel by panel: by bytes (packed8.c), on the matrix unit (amx.c) or on the vector unit
// (product_vector.c).

#ifdef PACKED

// Bytes of inputs that stay in the second-level cache.
enum { CACHED_INPUTS = 640 << 10 };

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
  return g->scales ? popri_product8_scratch(&p) : popri_vector_scratch(&p);
}

// y = act(x·w + bias) + residual. scratch has room for popri_product_scratch bytes.
void popri_product_run(const popri_product *g, void *scratch) {
  OPERATION("popri::product");
  int64_t panel = panel_of(g);
  for (int64_t r = 0; r < g->rows; r += panel) {
    popri_product p = *g;
    p.rows = g->rows - r < panel ? g->rows - r : panel;
    p.x = (const char *)g->x + r * (g->transposed ? 1 : g->in) * (g->x_bf16 ? 2 : 4);
    int64_t half = g->out / 2, size = g->y_bf16 ? 2 : 4, inner = r * g->out * (g->act == ACT_SWIGLU ? 2 : 1) * size;
    p.y = g->y ? (char *)g->y + (g->gated ? r * half * size : inner) : 0;
    p.pre = g->pre ? (char *)g->pre + inner : 0;
    p.grad_of = g->grad_of ? (const char *)g->grad_of + inner : 0;
    p.again = g->again ? (char *)g->again + r * g->out * size : 0;
    if (g->added.parts) p.added.low += r * g->added.ranks;
    if (g->residual) p.residual = (const char *)g->residual + r * g->out * (g->residual_bf16 ? 2 : 4);
    if (g->scales)
      popri_product8_run(&p, scratch);
    else if (g->tiles)
      popri_tiles_run(&p, scratch);
    else
      popri_vector_run(&p, scratch);
  }
  if (g->pre) _mm_sfence(); // other threads may read it, and it was written past the caches
}

#else

int64_t popri_product_scratch(const popri_product *g) { return 0; }
void popri_product_run(const popri_product *g, void *scratch) {}

#endif
