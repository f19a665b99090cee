#include "torch.h"

// Each kernel of the set that is taken.
#ifdef __x86_64__
#define KERNELS(K)                                                                                                    \
  K(void, popri_adamw, (float *p, const float *g, float *m, float *v, int64_t n, float lr, float b1, float b2,        \
      float eps, float wd, float c1, float c2, float scale), (p, g, m, v, n, lr, b1, b2, eps, wd, c1, c2, scale))     \
  K(void, popri_add, (float *sum, const void *part, int bf16, int64_t n), (sum, part, bf16, n))                       \
  K(double, popri_sum_squares, (const float *x, int64_t n), (x, n))                                                   \
  K(void, popri_attend, (const popri_cache *c, int from, int to, const float *qkv, float *out,                        \
      const int32_t *slot, const int32_t *suffix_len, const int32_t *prefix, const int32_t *prefix_len,               \
      float *scratch), (c, from, to, qkv, out, slot, suffix_len, prefix, prefix_len, scratch))                        \
  K(void, popri_rotate, (float *x, const float *cosines, const float *sines, int64_t rows, int64_t angles,            \
      int64_t width, int64_t heads, int64_t dim), (x, cosines, sines, rows, angles, width, heads, dim))               \
  K(void, popri_layernorm_rows, (const void *p, int64_t from, int64_t to), (p, from, to))                             \
  K(void, popri_layernorm_grad, (const void *p, int64_t from, int64_t to), (p, from, to))                             \
  K(void, popri_rmsnorm_rows, (const void *p, int64_t from, int64_t to), (p, from, to))                               \
  K(void, popri_rmsnorm_grad, (const void *p, int64_t from, int64_t to), (p, from, to))                               \
  K(void, popri_drop_rows, (const void *p, int64_t from, int64_t to), (p, from, to))                                  \
  K(void, popri_swiglu_rows, (const void *p, int64_t from, int64_t to), (p, from, to))                                \
  K(void, popri_swiglu_grad, (const void *p, int64_t from, int64_t to), (p, from, to))                                \
  K(void, popri_gelu_rows, (const void *p, int64_t from, int64_t to), (p, from, to))                                  \
  K(void, popri_gelu_grad, (const void *p, int64_t from, int64_t to), (p, from, to))                                  \
  K(void, popri_add_gelu_rows, (const void *p, int64_t from, int64_t to), (p, from, to))                              \
  K(void, popri_add_layernorm_rows, (const void *p, int64_t from, int64_t to), (p, from, to))                         \
  K(int64_t, popri_attend_float_scratch, (int64_t most, int64_t dim), (most, dim))                                    \
  K(void, popri_attend_float, (int from, int to, const int32_t *starts, int heads, int64_t dim, const float *qkv,     \
      const float *shift, const float *bias, int64_t most, float *out, float *scratch),                               \
      (from, to, starts, heads, dim, qkv, shift, bias, most, out, scratch))                                           \
  K(void, popri_split_heads, (const void *p, int64_t from, int64_t to), (p, from, to))                                \
  K(void, popri_split_heads_grad, (const void *p, int64_t from, int64_t to), (p, from, to))                           \
  K(void, popri_softmax_rows, (const void *p, int64_t from, int64_t to), (p, from, to))                               \
  K(void, popri_softmax_grad, (const void *p, int64_t from, int64_t to), (p, from, to))                               \
  K(void, popri_low_rank_rows, (const void *p, int64_t from, int64_t to), (p, from, to))                              \
  K(void, popri_low_rank_grad, (const void *p, int64_t from, int64_t to), (p, from, to))                              \
  K(void, popri_low_rank_sums, (const void *p, int64_t from, int64_t to), (p, from, to))                              \
  K(void, popri_sample_part, (int rows, const float *logits, int64_t stride, int n, float k, float *top, float *sum,  \
      int64_t parts, float *e), (rows, logits, stride, n, k, top, sum, parts, e))                                     \
  K(int, popri_sample_choose, (const float *top, float *sum, int parts, float k, double u, double *rest, float *e),   \
      (top, sum, parts, k, u, rest, e))                                                                               \
  K(int, popri_sample_pick, (const float *x, int n, float top, float k, double rest, float *e),                       \
      (x, n, top, k, rest, e))                                                                                        \
  K(void, popri_sample, (int from, int to, int vocab, const float *logits, float k, const double *u, int32_t *out,    \
      float *scratch), (from, to, vocab, logits, k, u, out, scratch))                                                 \
  K(int64_t, popri_sample_top_scratch, (int vocab), (vocab))                                                          \
  K(void, popri_sample_top, (int from, int to, int vocab, const float *logits, float k, double p, const double *u,    \
      int32_t *out, void *scratch), (from, to, vocab, logits, k, p, u, out, scratch))                                 \
  K(void, popri_logprobs, (int64_t from, int64_t to, int vocab, const void *logits, int bf16,                         \
      const int32_t *target, float *out, float *normaliser, int32_t *rank, float *entropy,                            \
      float *mean), (from, to, vocab, logits, bf16, target, out, normaliser, rank, entropy, mean))                    \
  K(void, popri_logprobs_grad, (int64_t from, int64_t to, int vocab, void *logits, int bf16,                          \
      const int32_t *target, const float *normaliser, const float *weight),                                           \
      (from, to, vocab, logits, bf16, target, normaliser, weight))

#define CHOICE(ret, f, params, args)                                                                                  \
  extern __typeof__(f) f##_plain, f##_avx2, f##_avx512;                                                               \
  static __typeof__(f) *const f##_of[] = {f##_plain, f##_avx2, f##_avx512};                                           \
  ret f params { return f##_of[taken] args; }

static int taken; // by popri_take, as the program begins
KERNELS(CHOICE)

static int best(void) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx2")) return KERNELS_PLAIN;
  return __builtin_cpu_supports("avx512f") ? KERNELS_AVX512 : KERNELS_AVX2;
}

int popri_take(int set) {
  int most = best();
  return taken = set < most ? set : most;
}
#else
int popri_take(int set) { return KERNELS_PLAIN; } // there are no others
#endif
