// Products of the rows of a head with its keys and values, laid out as packed weights, on the matrix unit or, in
// bfloat16, on the vector unit.
#pragma once
#include "amx.h"
#include "lines.h"
#include "packed_heads.h"

#ifdef PACKED

// A factor of a product: rows are stride apart, or the weights; planes are plane apart.
typedef struct {
  const uint16_t *at;
  int64_t stride, plane;
} factor;

#define INPUTS(p)                                                                                                     \
  _tile_loadd(4, a.at + (p) * a.plane, a.stride * 2);                                                                 \
  _tile_loadd(5, a.at + (p) * a.plane + 16 * a.stride, a.stride * 2);
#define WEIGHTS(p)                                                                                                    \
  _tile_loadd(6, b.at + (p) * b.plane, 64);                                                                           \
  _tile_loadd(7, b.at + (p) * b.plane + TILE, 64);

// Adds depth blocks of products to rows × 32 sums, width apart; first says that there are none yet. On the matrix unit,
// a and sums have 32 rows.
INLINE void multiply(int tiles, int planes, int rows, factor a, factor b, int64_t depth, int first,
                     float *sums, int64_t width) {
  if (!tiles) {
    for (int r = 0; r < rows; r += LINES) {
      int n = rows - r < LINES ? rows - r : LINES;
      popri_lines(n, a.at + r * a.stride, a.stride, b.at, depth, first, sums + r * width, width);
    }
    return;
  }
  load_sums(first, sums, width);
  for (int64_t k = 0; k < depth; k++, a.at += BLOCK, b.at += 2 * TILE) {
    if (planes == 1) {
      INPUTS(0)
      WEIGHTS(0)
      four_products(1);
      continue;
    }
    SIX_PRODUCTS(four_products(1), )
  }
  store_sums(1, sums, width);
}

#endif
