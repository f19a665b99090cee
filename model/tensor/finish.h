#pragma once
#include "packed.h"

#ifdef PACKED

// What is done with rows × 32 sums, BLOCK apart, before they are stored in g->y: bias, activation and residual. They
// begin at row and column.
typedef void finisher(const popri_product *g, const float *sums, int64_t row, int rows, int64_t column);

// The finisher of products with g's activation, residual and types (finish.c).
finisher *popri_finisher(const popri_product *g);

#endif
