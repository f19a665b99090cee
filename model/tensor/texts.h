// Layers of a sentence encoder in float32, beside the library's products. Included by kernels.h.
#include <string.h>

// x·Φ(x), with erf to 1.5e-7 (Abramowitz and Stegun 7.1.26).
INLINE floats gelu_erf(floats x) {
  floats z = (floats)((ints)x & 0x7fffffff) * 0.70710678118654752f, t = 1 / (1 + 0.3275911f * z);
  floats p = 1.421413741f + t * (-1.453152027f + t * 1.061405429f);
  p = t * (0.254829592f + t * (-0.284496736f + t * p)) * exp_or_zero(-z * z); // 1 - erf(z)
  ints low = x < 0;
  floats phi = (floats)(((ints)(0.5f * p) & low) | ((ints)(1 - 0.5f * p) & ~low));
  return x * phi;
}

// y = gelu(y + bias), of rows [from, to), n a multiple of LANES.
void popri_add_gelu_rows(const void *rows, int64_t from, int64_t to) {
  const popri_rows *p = rows;
  for (int64_t r = from; r < to; r++) {
    float *y = (float *)p->y + r * p->n;
    for (int64_t i = 0; i < p->n; i += LANES)
      *(floats *)(y + i) = gelu_erf(*(floats *)(y + i) + *(const floats *)(p->w + i));
  }
}

// y = the LayerNorm of y + bias + x, of rows [from, to), n a multiple of LANES. w is bias, weight and shift [3, n].
void popri_add_layernorm_rows(const void *rows, int64_t from, int64_t to) {
  const popri_rows *p = rows;
  int64_t n = p->n;
  const float *bias = p->w, *weight = bias + n, *shift = weight + n;
  for (int64_t r = from; r < to; r++) {
    float *y = (float *)p->y + r * n;
    const float *x = (const float *)p->x + r * n;
    floats sum = {0}, squares = {0};
    for (int64_t i = 0; i < n; i += LANES)
      sum += *(floats *)(y + i) += *(const floats *)(bias + i) + *(const floats *)(x + i);
    float mean = total(sum) / (float)n;
    for (int64_t i = 0; i < n; i += LANES) {
      floats v = *(floats *)(y + i) - mean;
      squares += v * v;
    }
    float scale = 1.0f / sqrtf(total(squares) / (float)n + p->eps);
    for (int64_t i = 0; i < n; i += LANES)
      *(floats *)(y + i) = (*(floats *)(y + i) - mean) * scale * *(const floats *)(weight + i) +
                           *(const floats *)(shift + i);
  }
}

static int64_t lanes(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

// Floats for texts of up to most tokens: keys, values, scores and queries.
int64_t popri_attend_float_scratch(int64_t most, int64_t dim) {
  return lanes(most) * dim + most * dim + ATTEND_QUERIES * (lanes(most) + dim);
}

// Attention within the texts [from, to), see AttendTexts. dim is a multiple of LANES. bias [heads, most, most] or null
// is added to the scores.
void popri_attend_float(int from, int to, const int32_t *starts, int heads, int64_t dim, const float *qkv,
                        const float *shift, const float *bias, int64_t most, float *out, float *scratch) {
  OPERATION("popri::attend_texts");
  int64_t all = heads * dim, width = 3 * all;
  for (int i = from; i < to; i++) {
    int n = starts[i + 1] - starts[i], room = (int)lanes(n);
    float *keys = scratch, *values = keys + room * dim, *scores = values + n * dim,
          *queries = scores + ATTEND_QUERIES * room;
    memset(keys, 0, room * dim * sizeof(float));
    for (int h = 0; h < heads; h++) {
      const float *q = qkv + starts[i] * width + h * dim, *add = shift + h * dim;
      for (int64_t t = 0; t < n; t++)
        for (int64_t d = 0; d < dim; d++) keys[d * room + t] = q[t * width + all + d] + add[all + d];
      for (int64_t t = 0; t < n; t++)
        for (int64_t d = 0; d < dim; d += LANES)
          *(floats *)(values + t * dim + d) =
              *(const floats *)(q + t * width + 2 * all + d) + *(const floats *)(add + 2 * all + d);
      for (int r = 0; r < n; r += ATTEND_QUERIES) {
        int g = n - r < ATTEND_QUERIES ? n - r : ATTEND_QUERIES;
        float inverse[ATTEND_QUERIES], *o[ATTEND_QUERIES];
        const float *query[ATTEND_QUERIES];
        for (int k = 0; k < g; k++) {
          query[k] = queries + k * dim;
          o[k] = out + (starts[i] + r + k) * all + h * dim;
          for (int64_t d = 0; d < dim; d += LANES) {
            *(floats *)(queries + k * dim + d) =
                *(const floats *)(q + (r + k) * width + d) + *(const floats *)(add + d);
            *(floats *)(o[k] + d) = (floats){0};
          }
        }
        scores_of(g, 0, scores, room, query, keys, 0, 0, (int)dim, n, room);
        for (int k = 0; k < g; k++) {
          float *s = scores + k * room;
          if (bias)
            for (int t = 0; t < n; t++) s[t] += bias[(h * most + r + k) * most + t];
          for (int t = n; t < room; t++) s[t] = -INFINITY;
          inverse[k] = 1.0f / exponents(s, room);
        }
        blend_of(g, 0, o, scores, room, values, 0, 0, (int)dim, n);
        for (int k = 0; k < g; k++)
          for (int64_t d = 0; d < dim; d += LANES) *(floats *)(o[k] + d) *= inverse[k];
      }
    }
  }
}
