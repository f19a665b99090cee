// The kernels of kernels.cu on a CPU, block after block of one thread each, for POPRI_KERNELS=cuda: so their arithmetic
// is tested where there is no GPU.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "params.h"
extern "C" {
#include "profile.h"
}

namespace {
struct coordinates {
  int64_t x;
};
thread_local coordinates blockIdx;
const coordinates threadIdx = {0}, blockDim = {1};

float __uint_as_float(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

uint32_t __float_as_uint(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

unsigned long long atomicAdd(unsigned long long *sum, unsigned long long x) {
  *sum += x;
  return *sum - x;
}

// A warp of one thread has no neighbours.
template <typename T> T __shfl_xor_sync(unsigned, T x, int) { return x; }
template <typename T> T __shfl_up_sync(unsigned, T x, int) { return x; }
template <typename T> T __shfl_sync(unsigned, T x, int) { return x; }
void __syncthreads() {}

#define WARP 1
#define GPU_ENTRY static
#define __device__ static
#define __shared__ static thread_local
#define __align__(n) alignas(n)
typedef uint32_t word __attribute__((may_alias));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#include "kernels.cu"
#pragma GCC diagnostic pop

template <typename P> void blocks(void (*kernel)(P, int64_t), const void *p, int64_t n, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    blockIdx.x = i;
    kernel(*(const P *)p, n);
  }
}
} // namespace

extern "C" void popri_gpu_emulate(const char *shown, int kernel, const void *p, int64_t n, int64_t count) {
  OPERATION(shown);
  switch (kernel) {
#define CASE(name, params)                                                                                            \
  case GPU_##name:                                                                                                    \
    return blocks(name, p, n, count);
    GPU_KERNELS(CASE)
  }
}
