#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define SET avx2
#define LANES 8
#include "kernels.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
