// bfloat16 is the upper half of a float32.
#pragma once
#include <stdint.h>

// Without the attribute, GCC calls these from loops whose functions have other options, and vectorises none of them.
#define BF16_INLINE static inline __attribute__((always_inline))

BF16_INLINE float from_bf16(uint16_t x) {
  union {
    uint32_t i;
    float f;
  } u = {(uint32_t)x << 16};
  return u.f;
}

BF16_INLINE uint16_t to_bf16(float x) { // round to nearest even; a NaN stays one
  union {
    float f;
    uint32_t i;
  } u = {x};
  return x != x ? 0x7fc0 : (uint16_t)((u.i + 0x7fffu + ((u.i >> 16) & 1)) >> 16);
}
