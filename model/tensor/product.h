// The ways to compute a product with packed weights, of which product.c chooses one.
#pragma once
#include "torch.h"

// On the matrix unit (amx.c): the rows of a panel, the bytes of scratch memory, and the product.
int64_t popri_tiles_panel(const popri_product *g);
int64_t popri_tiles_scratch(const popri_product *g);
void popri_tiles_run(const popri_product *g, void *scratch);

// On the vector unit, in bfloat16 or float32 (product_vector.c).
int64_t popri_vector_scratch(const popri_product *g);
void popri_vector_run(const popri_product *g, void *scratch);

// On the vector unit, of bytes (packed8.c).
int64_t popri_product8_scratch(const popri_product *g);
void popri_product8_run(const popri_product *g, void *scratch);
