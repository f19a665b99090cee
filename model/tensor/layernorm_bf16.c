#include "torch.h"
#include "profile.h"
#include "packed.h"

#ifdef PACKED

// y = (x - mean)/√(variance + eps)·w + b, row by row, in bfloat16 with float32 sums; row has room for n rounded up
// to 64.
AVX void popri_layernorm_bf16(const uint16_t *x, const float *w, const float *b, uint16_t *y, int64_t rows, int64_t n,
                              float eps, float *row) {
  OPERATION("popri::layernorm");
  for (int64_t r = 0; r < rows; r++, x += n, y += n) {
    __m512 sum[4], square[4];
    for (int k = 0; k < 4; k++) sum[k] = square[k] = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i += 64)
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        __m512 v = load_bf16(x + i + 16 * k, up_to(n - i - 16 * k));
        _mm512_storeu_ps(row + i + 16 * k, v);
        sum[k] = _mm512_add_ps(sum[k], v);
      }
    __m512 mean = _mm512_set1_ps(
        _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3]))) / (float)n);
    for (int64_t i = 0; i < n; i += 64)
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        __m512 v = _mm512_maskz_sub_ps(up_to(n - i - 16 * k), _mm512_loadu_ps(row + i + 16 * k), mean);
        square[k] = _mm512_fmadd_ps(v, v, square[k]);
      }
    float squares =
        _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(square[0], square[1]), _mm512_add_ps(square[2], square[3])));
    __m512 scale = _mm512_set1_ps(1.0f / sqrtf(squares / (float)n + eps));
    for (int64_t i = 0; i < n; i += 16) {
      __mmask16 m = up_to(n - i);
      __m512 v = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(row + i), mean), scale);
      store_bf16(y + i, m, _mm512_fmadd_ps(v, _mm512_maskz_loadu_ps(m, w + i), _mm512_maskz_loadu_ps(m, b + i)));
    }
  }
}

#else

void popri_layernorm_bf16(const uint16_t *x, const float *w, const float *b, uint16_t *y, int64_t rows, int64_t n,
                          float eps, float *row) {}

#endif
