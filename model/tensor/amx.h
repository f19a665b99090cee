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

#endif
