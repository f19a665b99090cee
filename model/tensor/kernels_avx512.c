#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,fma")
#endif
#define SET avx512
#define LANES 16
#include "kernels.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
