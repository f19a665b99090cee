// Sums of products on the vector unit.
#pragma once
#include "packed.h"

#ifdef PACKED

enum { LINES = 12 }; // rows of sums that the registers hold, 32 a row

// Adds depth blocks of products to n × 32 sums, width apart, n up to LINES. The first chunk has none yet. Rows of a are
// stride apart. A row's sums do not depend on the others.
AVX void popri_lines(int n, const uint16_t *a, int64_t stride, const uint16_t *b, int64_t depth, int first, float *sums,
                     int64_t width);

// popri_lines in float32, for as many inputs as there are, with sums BLOCK apart.
void popri_wide_lines(int n, const float *a, int64_t stride, const float *b, int64_t inputs, int first, float *sums);

#endif
