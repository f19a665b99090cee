// What kernels are given: the CPU's kernels and, on a GPU, the kernels of kernels.cu, which is compiled with this text.
#pragma once
typedef struct {
  int heads, kv_heads, dim; // query heads share kv_heads keys and values
  int head;                 // width of a head in what is given, up to dim (tiles)
  float scale;
  float cap;                // scores s become cap·tanh(s/cap) before the softmax; 0 for as they are
  int bf16;                 // keys and values are bfloat16, not float32
  const void *prefix_k;     // [prefix, kv_heads, dim, prefix_room]
  const void *prefix_v;     // [prefix, kv_heads, prefix_room, dim]
  int prefix_room;
  void *suffix_k;           // [slot, kv_heads, dim, suffix_room]
  void *suffix_v;           // [slot, kv_heads, suffix_room, dim]
  int suffix_room;
} popri_cache;

// Operations with gradients (norm.h, heads.h): rows [from, to) of one.
typedef struct {
  int bf16;
  float eps;
  int64_t n;              // width of a row
  const float *w, *b;     // of a norm; b of the LayerNorm alone
  const void *x, *dy;     // dy for a gradient
  const void *more;       // of a norm's gradient for x, what else it has; or null
  void *y;                // the result, or the gradient for x
  float *dw;              // [blocks, n] or, with db behind dw, [blocks, 2n]; null unless wanted
  int64_t rows, block;    // of a norm's gradient, whose from and to count blocks of rows
} popri_rows;

// GELU in its tanh form (norm.h): 2·√(2/π), and its factor of x³.
#define GELU_SCALE 1.5957691216057308f
#define GELU_CUBE 0.044715f

// Dropout (drop.h) of rows of x.
typedef struct {
  int bf16;
  uint32_t limit;         // the dropout rate times 2^32
  float factor;           // of what is kept
  int64_t n;              // width of a row
  const int64_t *key;
  const void *x;
  void *y;
} popri_drop;

// Attention that is trained (heads.h).
typedef struct {
  int bf16;
  int64_t tokens, heads, kv_heads, dim;
  int64_t angles;              // rows of the tables [angles, dim], which repeat
  const void *cosines, *sines; // null where positions rotate nothing
  void *x;                     // [batch, tokens, heads + 2·kv_heads, dim]
  void *q, *k, *v;             // [batch, heads or kv_heads, tokens, dim]
} popri_heads;

typedef struct {
  int bf16;
  float scale;
  int64_t width;
  int64_t batch_rows;       // of a batch: its heads times mask_rows
  int64_t mask_rows, masks; // mask [masks, mask_rows, width]; one is for all batches
  const void *scores, *mask;
  void *y;
  const void *dy;           // for the gradient
  void *dx;
} popri_softmax;

enum { LOW_RANK_PARTS = 3, LOW_RANK_COLUMNS = 64 }; // most parts; columns of one block of sums

// What an adapter adds to a projection (lowrank.h): y [n, out] += x [n, in]·downᵀ·up.
typedef struct {
  int bf16;                      // of x, y and dx; the rest is float32
  int64_t in, out, ranks;
  int parts;                     // of the outputs, each with factors of its own
  int64_t rank[LOW_RANK_PARTS], offset[LOW_RANK_PARTS], width[LOW_RANK_PARTS];
  const void *x;
  const float *down;             // [ranks, in]
  const float *up;               // [rank, width] of each part
  void *y;                       // the result, or null; for the gradient, what there is of it
  float *low;                    // [n, ranks]
  float *dlow;                   // the same for the gradient
  void *dx;                      // null where it is not wanted
} popri_low_rank;

typedef struct {
  int bf16;                      // of m
  int64_t rows, ranks, rank;     // factors: of low, and of the sums
  const float *low;              // [rows, ranks], from the first of the factors on
  const void *m;                 // [rows, stride], from offset on
  int64_t stride, offset, width;
  float *sums;                   // [rank, width]
} popri_low_rank_sum;

// The rest is for a GPU alone: there, what the CPU's kernels take as arguments is one struct, too.
// Queries that a block of decoding takes together, the widest head, and its threads; elements that a block of AdamW takes.
enum { GPU_QUERIES = 8, GPU_DIM = 256, GPU_THREADS = 32, GPU_ELEMENTS = 4096 };

// A step of decoding. A run is a row, the first of the queries from that row on, and how many queries share a prompt
// and a head of keys with it: the queries of the row's heads, then of the next row's.
typedef struct {
  popri_cache cache;
  const float *qkv;              // [rows, (heads + 2·kv_heads)·dim]
  float *out;                    // [rows, heads·dim]
  const int64_t *slot, *suffix_len, *prefix, *prefix_len; // of each row
  const int64_t *runs;           // [runs, 3]
  float *scores;                 // [runs, kv_heads, room, GPU_QUERIES]
  int64_t room;
} popri_gpu_step;

typedef struct {
  float *p, *m, *v;
  const float *g;
  float lr, b1, b2, eps, wd, c1, c2, scale;
  float *squares;                // sums of the squares of g, by blocks
} popri_gpu_adamw;

typedef struct {
  float *x;                      // [rows, width], whose first heads are rotated
  const float *cosines, *sines;  // [angles, dim], which repeat
  int64_t angles, width, heads, dim;
} popri_gpu_rotate;

typedef struct {
  int bf16;
  int64_t vocab;
  void *logits;                  // [rows, vocab]; for the gradient, what it overwrites
  const int64_t *target;
  float *out, *normaliser, *rank, *entropy, *mean; // the last three may be null
  const float *weight;           // of the gradient
} popri_gpu_scores;

typedef struct {
  int64_t vocab;
  float *logits;                 // [rows, vocab]
  float k;                       // 1/temperature
  double p;                      // top_p: the probability of the likeliest tokens that are kept; 1: of all
  const double *u;               // below 0 for the maximum
  const uint8_t *ban;            // of rows that do not draw the banned tokens; or null
  const int64_t *banned;
  int64_t bans;
  int64_t *drawn;                // -1 where the logits are unusable
} popri_gpu_draws;

// What is launched, by name and by the struct that it takes.
#define GPU_KERNELS(X)                                                                                                \
  X(layernorm_rows, popri_rows)                                                                                       \
  X(layernorm_grad, popri_rows)                                                                                       \
  X(rmsnorm_rows, popri_rows)                                                                                         \
  X(rmsnorm_grad, popri_rows)                                                                                         \
  X(swiglu_rows, popri_rows)                                                                                          \
  X(swiglu_grad, popri_rows)                                                                                          \
  X(gelu_rows, popri_rows)                                                                                            \
  X(gelu_grad, popri_rows)                                                                                            \
  X(drop_rows, popri_drop)                                                                                            \
  X(split_heads, popri_heads)                                                                                         \
  X(split_heads_grad, popri_heads)                                                                                    \
  X(softmax_rows, popri_softmax)                                                                                      \
  X(softmax_grad, popri_softmax)                                                                                      \
  X(adamw, popri_gpu_adamw)                                                                                           \
  X(squares, popri_gpu_adamw)                                                                                         \
  X(rotate, popri_gpu_rotate)                                                                                         \
  X(attend, popri_gpu_step)                                                                                           \
  X(logprobs, popri_gpu_scores)                                                                                       \
  X(logprobs_grad, popri_gpu_scores)                                                                                  \
  X(sample, popri_gpu_draws)

enum {
#define GPU_KERNEL(name, params) GPU_##name,
  GPU_KERNELS(GPU_KERNEL)
#undef GPU_KERNEL
  GPU_COUNT
};
