// What the kernels for the matrix unit of the CPU (AMX) share. AMX is defined where the compiler knows it.
#include "packed.h"

#ifdef PACKED
#define AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#undef INLINE
#define INLINE AMX static inline __attribute__((always_inline))

typedef struct {
  uint8_t palette, start, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_config;

// All eight tiles get 16 rows of 64 bytes, until _tile_release.
INLINE void tiles_on(void) {
  tile_config config;
  memset(&config, 0, sizeof config);
  config.palette = 1;
  for (int i = 0; i < 8; i++) config.row_bytes[i] = 64, config.rows[i] = 16;
  _tile_loadconfig(&config);
}

// Tiles 0 to 3 hold 32 × 32 sums: zeros at first, else the sums at steps of width.
INLINE void load_sums(int first, const float *sums, int64_t width) {
  if (first) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, width * 4);
    _tile_loadd(1, sums + 16, width * 4);
    _tile_loadd(2, sums + 16 * width, width * 4);
    _tile_loadd(3, sums + 16 * width + 16, width * 4);
  }
}

// Adds the products of tiles 4 and, where there are two, 5 with tiles 6 and 7.
INLINE void four_products(int two) {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  if (two) {
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

// The six largest products of the three parts of inputs and of weights, in an order in which few tiles are read twice.
// INPUTS(p) loads part p of the inputs, WEIGHTS(p) of the weights, and step adds their products.
#define SIX_PRODUCTS(step, after_first)                                                                               \
  INPUTS(1)                                                                                                           \
  WEIGHTS(1)                                                                                                          \
  step;                                                                                                               \
  after_first;                                                                                                        \
  WEIGHTS(0)                                                                                                          \
  step;                                                                                                               \
  INPUTS(2)                                                                                                           \
  step;                                                                                                               \
  INPUTS(0)                                                                                                           \
  step;                                                                                                               \
  WEIGHTS(1)                                                                                                          \
  step;                                                                                                               \
  WEIGHTS(2)                                                                                                          \
  step;

INLINE void store_sums(int two, float *sums, int64_t width) {
  _tile_stored(0, sums, width * 4);
  _tile_stored(1, sums + 16, width * 4);
  if (two) {
    _tile_stored(2, sums + 16 * width, width * 4);
    _tile_stored(3, sums + 16 * width + 16, width * 4);
  }
}

#endif
