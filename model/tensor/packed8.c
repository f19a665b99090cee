#include "torch.h"
#include "profile.h"
#include "finish.h"
#include "lines.h"
#include "product.h"

// Products of 8-bit integers on the vector unit: weights with one scale for each output, inputs with one for each row,
// sums in 32-bit integers (W8A8, Dettmers et al. 2022 without the outliers' own product; Xiao et al. 2023). The
// instruction multiplies unsigned by signed bytes: weights are stored with 128 added to them, which 128 times the sum
// of the row's inputs undoes.

#ifdef PACKED

#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx512vnni")))
#define INLINE8 VNNI static inline __attribute__((always_inline))

enum { DEEP = 64 }; // depth of a block: four inputs for each of the 16 words of a register

static int64_t deep(int64_t in) { return (in + DEEP - 1) / DEEP; }

int64_t popri_packed8_size(int64_t in, int64_t out) { return (out + BLOCK - 1) / BLOCK * deep(in) * DEEP * BLOCK; }

// Lays blocks [from, to) of 32 outputs out, as popri_pack, and fills the scales of the outputs in the blocks' order.
void popri_pack8(const void *w, int bf16, int64_t row, int64_t col, int64_t in, int64_t out, int gated, int64_t from,
                 int64_t to, uint8_t *packed, float *scales) {
  OPERATION("popri::pack");
  for (int64_t b = from; b < to; b++)
    for (int c = 0; c < BLOCK; c++) {
      int64_t half = c / 16, n = c % 16, o = gated ? b * 16 + half * (out / 2) + n : b * BLOCK + c;
      float most = 0, back = 0;
      for (int64_t i = 0; i < in && o < out; i++) {
        float x = bf16 ? from_bf16(((const uint16_t *)w)[i * row + o * col]) : ((const float *)w)[i * row + o * col];
        most = fabsf(x) > most ? fabsf(x) : most;
      }
      scales[b * BLOCK + c] = most / 127;
      if (most > 0) back = 127 / most;
      uint8_t *at = packed + b * deep(in) * DEEP * BLOCK;
      for (int64_t i = 0; i < deep(in) * DEEP; i++) {
        float x = 0;
        if (i < in && o < out)
          x = bf16 ? from_bf16(((const uint16_t *)w)[i * row + o * col]) : ((const float *)w)[i * row + o * col];
        at[(i / DEEP * 2 + half) * (DEEP * 16) + i % DEEP / 4 * 64 + n * 4 + i % 4] = (uint8_t)(128 + lrintf(x * back));
      }
    }
}

// Rounds rows of inputs to bytes. A row that is not finite gets a scale that is not.
INLINE8 void quantise(const popri_product *g, int8_t *a, float *scales, int32_t *offsets) {
  int64_t stride = deep(g->in) * DEEP;
  for (int64_t r = 0; r < g->rows; r++) {
    const float *x32 = (const float *)g->x + r * g->in;
    const uint16_t *x16 = (const uint16_t *)g->x + r * g->in;
#define INPUT(k, m) (g->x_bf16 ? load_bf16(x16 + (k), m) : _mm512_maskz_loadu_ps(m, x32 + (k)))
    __m512 most = _mm512_setzero_ps();
    __mmask16 odd = 0;
    for (int64_t k = 0; k < g->in; k += 16) {
      __m512 x = INPUT(k, up_to(g->in - k));
      odd |= _mm512_fpclass_ps_mask(x, 0x99); // infinite or NaN
      most = _mm512_max_ps(most, _mm512_abs_ps(x));
    }
    float max = _mm512_reduce_max_ps(most);
    scales[r] = odd ? NAN : max / 127;
    __m512 back = _mm512_set1_ps(odd || max == 0 ? 0 : 127 / max);
    __m512i sum = _mm512_setzero_si512();
    for (int64_t k = 0; k < stride; k += 16) {
      __m512i q =
          _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_mov_ps(odd ? 0 : 0xffff, INPUT(k, up_to(g->in - k))), back));
      sum = _mm512_add_epi32(sum, q);
      _mm_storeu_si128((__m128i *)(a + r * stride + k), _mm512_cvtsepi32_epi8(q));
    }
    offsets[r] = 128 * _mm512_reduce_add_epi32(sum);
#undef INPUT
  }
}

// Of the intrinsic, GCC 12 copies the sums before and after each product.
#define DPBUSD(sum, b, x) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(b), "v"(x))

// n × 32 sums of products for a constant n, which stay in registers, as floats.
INLINE8 void lines8(int n, const int8_t *a, int64_t stride, const uint8_t *b, int64_t depth, const float *scales,
                    const int32_t *offsets, const float *columns, float *sums) {
  __m512i s[LINES][2];
#pragma GCC unroll 12
  for (int r = 0; r < n; r++) s[r][0] = s[r][1] = _mm512_setzero_si512();
  for (int64_t kb = 0; kb < depth; kb++, a += DEEP, b += 2 * DEEP * 16)
    for (int k = 0; k < DEEP; k += 4) {
      __m512i b0 = _mm512_loadu_si512(b + k * 16), b1 = _mm512_loadu_si512(b + DEEP * 16 + k * 16);
#pragma GCC unroll 12
      for (int r = 0; r < n; r++) {
        int four;
        memcpy(&four, a + r * stride + k, sizeof four);
        __m512i x = _mm512_set1_epi32(four);
        DPBUSD(s[r][0], b0, x);
        DPBUSD(s[r][1], b1, x);
      }
    }
  __m512 c0 = _mm512_loadu_ps(columns), c1 = _mm512_loadu_ps(columns + 16);
#pragma GCC unroll 12
  for (int r = 0; r < n; r++) {
    __m512i offset = _mm512_set1_epi32(offsets[r]);
    __m512 scale = _mm512_set1_ps(scales[r]);
    _mm512_storeu_ps(sums + r * BLOCK,
                     _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(s[r][0], offset)), scale), c0));
    _mm512_storeu_ps(sums + r * BLOCK + 16,
                     _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(s[r][1], offset)), scale), c1));
  }
}

#define CASE8(k)                                                                                                      \
  case k: lines8(k, a, stride, b, depth, scales, offsets, columns, sums); break;

VNNI static void some_lines8(int n, const int8_t *a, int64_t stride, const uint8_t *b, int64_t depth,
                             const float *scales, const int32_t *offsets, const float *columns, float *sums) {
  switch (n) {
    CASE8(1)
    CASE8(2)
    CASE8(3)
    CASE8(4)
    CASE8(5)
    CASE8(6)
    CASE8(7)
    CASE8(8)
    CASE8(9)
    CASE8(10)
    CASE8(11)
    CASE8(12)
  }
}

int64_t popri_product8_scratch(const popri_product *g) { return g->rows * (deep(g->in) * DEEP + 8) + 64; }

// A block of weights after the other, for all rows.
VNNI void popri_product8_run(const popri_product *g, void *scratch) {
  int64_t depth = deep(g->in), stride = depth * DEEP;
  float sums[LINES * BLOCK] __attribute__((aligned(64)));
  float *scales = scratch;
  int32_t *offsets = (int32_t *)(scales + g->rows);
  int8_t *a = (int8_t *)(offsets + g->rows);
  finisher *finish = popri_finisher(g);
  quantise(g, a, scales, offsets);
  for (int64_t o = 0; o < g->out; o += BLOCK)
    for (int64_t r = 0; r < g->rows; r += LINES) {
      int n = g->rows - r < LINES ? (int)(g->rows - r) : LINES;
      some_lines8(n, a + r * stride, stride, (const uint8_t *)g->w + o * stride, depth, scales + r, offsets + r,
                  g->scales + o, sums);
      finish(g, sums, r, n, o);
    }
}

#else

int64_t popri_packed8_size(int64_t in, int64_t out) { return 0; }
void popri_pack8(const void *w, int bf16, int64_t row, int64_t col, int64_t in, int64_t out, int gated, int64_t from,
                 int64_t to, uint8_t *packed, float *scales) {}
int64_t popri_product8_scratch(const popri_product *g) { return 0; }
void popri_product8_run(const popri_product *g, void *scratch) {}

#endif
