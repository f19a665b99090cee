#include "torch.h"
#include "profile.h"

// The layers of a BERT over texts that are behind each other, all layers for a few texts after each other: what they
// hold stays in the second-level cache.

enum { GROUP = 288 }; // tokens of some texts, or the tokens of a longer one

static popri_product product(const popri_encoder *e, int64_t rows, int64_t in, int64_t out, const uint16_t *x,
                             const uint16_t *w, const float *bias, int act, const uint16_t *residual, uint16_t *y) {
  return (popri_product){.rows = rows,
                         .in = in,
                         .out = out,
                         .planes = 1,
                         .x = x,
                         .w = w,
                         .bias = bias,
                         .residual = residual,
                         .y = y,
                         .x_bf16 = 1,
                         .residual_bf16 = 1,
                         .y_bf16 = 1,
                         .act = act,
                         .tiles = e->tiles};
}

static int64_t scratch_of(const popri_encoder *e, int64_t in, int64_t out, int64_t rows) {
  popri_product p = product(e, rows, in, out, 0, 0, 0, ACT_NONE, 0, 0);
  return popri_product_scratch(&p);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t room(int64_t bytes) { return (bytes + 63) / 64 * 64; }

static int64_t working(const popri_encoder *e, int64_t rows, int64_t most) {
  int64_t h = e->hidden, n = scratch_of(e, h, 3 * h, rows);
  n = larger(n, larger(scratch_of(e, h, e->inner, rows), scratch_of(e, e->inner, h, rows)));
  return room(larger(n, popri_attend_texts_scratch(most, h / e->heads)));
}

// Bytes for texts of up to most tokens.
int64_t popri_encode_scratch(const popri_encoder *e, int64_t most) {
  int64_t rows = larger(GROUP, most), h = e->hidden;
  return working(e, rows, most) + room(rows * larger(3 * h, e->inner) * 2) + 2 * room(rows * h * 2) +
         room((h + 63) * 4) + 64;
}

// x [starts[texts], hidden] becomes the last layer's result.
void popri_encode(const popri_encoder *e, const int32_t *starts, int texts, int64_t most, uint16_t *x, void *scratch) {
  OPERATION("popri::encode");
  int64_t rows = larger(GROUP, most), h = e->hidden;
  char *work = (char *)(((uintptr_t)scratch + 63) / 64 * 64), *at = work + working(e, rows, most);
  uint16_t *wide = (uint16_t *)at, *blend = (uint16_t *)(at += room(rows * larger(3 * h, e->inner) * 2));
  uint16_t *y = (uint16_t *)(at += room(rows * h * 2));
  float *row = (float *)(at + room(rows * h * 2));
  for (int from = 0, to; from < texts; from = to) {
    for (to = from + 1; to < texts && starts[to + 1] - starts[from] <= GROUP;) to++;
    int64_t n = starts[to] - starts[from];
    uint16_t *z = x + starts[from] * h;
    for (int i = 0; n > 0 && i < e->layers; i++) {
      const popri_encoder_layer *l = e->layer + i;
      popri_product p = product(e, n, h, 3 * h, z, l->qkv, l->qkv_bias, ACT_NONE, 0, wide);
      popri_product_run(&p, work);
      popri_attend_texts(from, to, starts, e->heads, h / e->heads, wide - starts[from] * 3 * h, e->bias, e->width,
                         e->tiles, blend - starts[from] * h, work);
      p = product(e, n, h, h, blend, l->out, l->out_bias, ACT_NONE, z, y);
      popri_product_run(&p, work);
      popri_layernorm_bf16(y, l->norm, l->norm_bias, y, n, h, e->eps, row);
      p = product(e, n, h, e->inner, y, l->up, l->up_bias, ACT_GELU, 0, wide);
      popri_product_run(&p, work);
      p = product(e, n, e->inner, h, wide, l->down, l->down_bias, ACT_NONE, y, z);
      popri_product_run(&p, work);
      popri_layernorm_bf16(z, l->norm2, l->norm2_bias, z, n, h, e->eps, row);
    }
  }
}
