// σ on the vector unit with AVX-512. INLINE is the includer's.
#pragma once
#include <immintrin.h>

// σ(x) to 2^-13 of itself, for results that are rounded to bfloat16.
INLINE __m512 rough_sigmoid(__m512 x) {
  __m512 y = _mm512_mul_ps(x, _mm512_set1_ps(-1.44269504088896341f));
  __m512 k = _mm512_roundscale_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), f = _mm512_sub_ps(y, k);
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0.0096181291f), f, _mm512_set1_ps(0.0555041087f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.2402265070f)); // 2^f, |f| ≤ ½
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.6931471806f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return _mm512_rcp14_ps(_mm512_add_ps(_mm512_scalef_ps(p, k), _mm512_set1_ps(1.0f)));
}
