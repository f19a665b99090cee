// MKL keeps its AVX-512 kernels for processors whose vendor is Intel, and computes float32 products on others with
// AVX2: half of what an AMD processor of the fifth Zen generation can do. It asks the function below, which the dynamic
// linker takes from the executable instead of libtorch. Any processor with the instructions that those kernels use gets
// them. POPRI_MKL=stock leaves the choice to MKL.
#if defined(__x86_64__)
#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

static int is_intel(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(0, &a, &b, &c, &d)) return 0;
  return b == signature_INTEL_ebx && c == signature_INTEL_ecx && d == signature_INTEL_edx;
}

int mkl_serv_intel_cpu_true(void) {
  if (is_intel()) return 1;
  const char *choice = getenv("POPRI_MKL");
  if (choice && !strcmp(choice, "stock")) return 0;
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif
