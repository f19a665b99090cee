#include "torch.h"
#include "profile.h"
#include "packed.h"

// Lays weights out for products with them.

#ifdef PACKED

int64_t popri_packed_size(int64_t in, int64_t out, int planes) {
  return (in + BLOCK - 1) / BLOCK * ((out + BLOCK - 1) / BLOCK) * block_size(planes);
}

// What a weight of input i and output o is: w[i·row + o·col], with row or col 1.
typedef struct {
  const void *w;
  int bf16;
  int64_t row, col, in;
} given;

// Lays 32 inputs from i on and n outputs, up to 16, from o on out as the planes' tiles, 2·TILE apart, or as one of
// float32.
INLINE void pack_tile(const given *g, int64_t i, int64_t o, int64_t n, int planes, uint16_t *to) {
  __mmask16 outputs = up_to(n);
  if (!planes) {
    __m512i r[16];
    for (int half = 0; half < BLOCK; half += 16) {
      for (int k = 0; k < 16; k++) {
        int64_t at = i + half + k;
        if (g->col == 1)
          r[k] = (__m512i)elements(g->w, g->bf16, at * g->row + o, at < g->in ? outputs : 0);
        else
          r[k] = (__m512i)elements(g->w, g->bf16, i + half + (o + k) * g->col, k < n ? up_to(g->in - i - half) : 0);
      }
      if (g->col != 1) transpose(r);
      for (int k = 0; k < 16; k++) _mm512_storeu_si512((float *)to + (half + k) * 16, r[k]);
    }
    return;
  }
  __m512i r[3][16]; // of the planes
#pragma GCC unroll 16
  for (int k = 0; k < 16; k++) {
    int64_t at, next; // two inputs, or two halves of an output's
    __mmask16 m, of_next;
    if (g->col == 1) {
      at = (i + 2 * k) * g->row + o, next = at + g->row;
      m = i + 2 * k < g->in ? outputs : 0, of_next = i + 2 * k + 1 < g->in ? outputs : 0;
    } else {
      at = i + (o + k) * g->col, next = at + 16;
      m = k < n ? up_to(g->in - i) : 0, of_next = k < n ? up_to(g->in - i - 16) : 0;
    }
    if (g->bf16 && planes == 1) {
      const uint16_t *w = g->w;
      __m256i x = _mm256_maskz_loadu_epi16(m, w + at), y = _mm256_maskz_loadu_epi16(of_next, w + next);
      r[0][k] = _mm512_inserti64x4(_mm512_castsi256_si512(x), y, 1);
      if (g->col == 1) r[0][k] = side_by_side(r[0][k]);
      continue;
    }
    __m512 x = elements(g->w, g->bf16, at, m), y = elements(g->w, g->bf16, next, of_next);
    for (int p = 0; p < planes; p++) {
      r[p][k] = next_part(&x, &y);
      if (g->col == 1) r[p][k] = side_by_side(r[p][k]);
    }
  }
  for (int p = 0; p < planes; p++, to += 2 * TILE) {
    if (g->col != 1) transpose(r[p]);
    for (int k = 0; k < 16; k++) _mm512_storeu_si512(to + k * BLOCK, r[p][k]);
  }
}

// Lays blocks [from, to) of 32 outputs out. The weight of input k and output n is w[k·row + n·col], float32 or
// bfloat16, and row or col is 1. Where gated, a block is 16 outputs of the first half and the 16 of the second half that
// they gate.
AVX void popri_pack(const void *w, int bf16, int64_t row, int64_t col, int64_t in, int64_t out, int planes, int gated,
                    int64_t from, int64_t to, uint16_t *packed) {
  OPERATION("popri::pack");
  given g = {w, bf16, row, col, in};
  int64_t depth = (in + BLOCK - 1) / BLOCK;
  for (int64_t b = from; b < to; b++)
    for (int64_t kb = 0; kb < depth; kb++)
      for (int half = 0; half < 2; half++) {
        int64_t o = gated ? b * 16 + half * (out / 2) : b * BLOCK + half * 16;
        int64_t n = (gated ? (half + 1) * (out / 2) : out) - o;
        uint16_t *at = packed + (b * depth + kb) * block_size(planes) + half * (planes ? TILE : 2 * TILE);
        pack_tile(&g, kb * BLOCK, n > 0 ? o : 0, n, planes, at);
      }
}

#else

int64_t popri_packed_size(int64_t in, int64_t out, int planes) { return 0; }
void popri_pack(const void *w, int bf16, int64_t row, int64_t col, int64_t in, int64_t out, int planes, int gated,
                int64_t from, int64_t to, uint16_t *packed) {}

#endif
