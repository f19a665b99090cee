// bfloat16 is the upper half of a float32.
#pragma once
#include <stdint.h>

static inline float from_bf16(uint16_t x) {
  union {
    uint32_t i;
    float f;
  } u = {(uint32_t)x << 16};
  return u.f;
}

static inline uint16_t to_bf16(float x) { // round to nearest even; a NaN stays one
  union {
    float f;
    uint32_t i;
  } u = {x};
  return x != x ? 0x7fc0 : (uint16_t)((u.i + 0x7fffu + ((u.i >> 16) & 1)) >> 16);
}
