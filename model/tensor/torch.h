// Declarations of the functions that libtch exports (its own header is C++), as far as this package uses them.
#pragma once
#include <stdint.h>
#include <stddef.h>
#include "params.h"
typedef void *tensor;
typedef void *scalar;

char *get_and_reset_last_err();
tensor at_tensor_of_blob(void *, int64_t *, size_t, int64_t *, size_t, int, int);
tensor at_tensor_of_data(void *, int64_t *, size_t, size_t, int);
void at_copy_data(tensor, void *, size_t, size_t);
void *at_data_ptr(tensor);
int at_device(tensor);
size_t at_dim(tensor);
void at_shape(tensor, int64_t *);
int at_scalar_type(tensor);
int at_is_contiguous(tensor);
int at_requires_grad(tensor);
int at_grad_set_enabled(int);
void at_copy_(tensor, tensor);
void at_free(tensor);
int at_defined(tensor);
void at_run_backward(tensor *, int, tensor *, int, tensor *, int, int);
int at_get_num_threads();
int atc_cuda_is_available();
int atc_cuda_device_count();
void atc_synchronize(int64_t);
void at_manual_seed(int64_t);
int atc_cudnn_is_available();
scalar ats_int(int64_t);
scalar ats_float(double);
void ats_free(scalar);

void atg_abs(tensor *, tensor);
void atg_add(tensor *, tensor, tensor);
void atg_add_(tensor *, tensor, tensor);
void atg_add_scalar(tensor *, tensor, scalar);
void atg_addmm(tensor *, tensor, tensor, tensor);
void atg_addmm_(tensor *, tensor, tensor, tensor);
void atg_amax(tensor *, tensor, int64_t *, int, int);
void atg_amin(tensor *, tensor, int64_t *, int, int);
void atg_arange_start(tensor *, scalar, scalar, int, int);
void atg_cat(tensor *, tensor *, int, int64_t);
void atg_contiguous(tensor *, tensor);
void atg_div(tensor *, tensor, tensor);
void atg_cos(tensor *, tensor);
void atg_cumsum(tensor *, tensor, int64_t, int);
void atg_detach(tensor *, tensor);
void atg_embedding(tensor *, tensor, tensor, int64_t, int, int);
void atg_empty(tensor *, int64_t *, int, int, int);
void atg_eq_tensor(tensor *, tensor, tensor);
void atg_exp(tensor *, tensor);
void atg_full(tensor *, int64_t *, int, scalar, int, int);
void atg_gather(tensor *, tensor, int64_t, tensor, int);
void atg_gelu(tensor *, tensor, char *, int);
void atg_gt_tensor(tensor *, tensor, tensor);
void atg_index_select(tensor *, tensor, int64_t, tensor);
void atg_index_add_(tensor *, tensor, int64_t, tensor, tensor);
void atg_index_copy_(tensor *, tensor, int64_t, tensor, tensor);
void atg_index_put_(tensor *, tensor, tensor *, int, tensor, int);
void atg_isfinite(tensor *, tensor);
void atg_all(tensor *, tensor);
void atg_layer_norm(tensor *, tensor, int64_t *, int, tensor, tensor, double, int);
void atg_linear(tensor *, tensor, tensor, tensor);
void atg_log(tensor *, tensor);
void atg_logsumexp(tensor *, tensor, int64_t *, int, int);
void atg_matmul(tensor *, tensor, tensor);
void atg_mean_dim(tensor *, tensor, int64_t *, int, int, int);
void atg_mul(tensor *, tensor, tensor);
void atg_mul_scalar(tensor *, tensor, scalar);
void atg_narrow(tensor *, tensor, int64_t, int64_t, int64_t);
void atg_neg(tensor *, tensor);
void atg_normal_(tensor *, tensor, double, double);
void atg_permute(tensor *, tensor, int64_t *, int);
void atg_relu(tensor *, tensor);
void atg_reshape(tensor *, tensor, int64_t *, int);
void atg_rsqrt(tensor *, tensor);
void atg_scatter_(tensor *, tensor, int64_t, tensor, tensor);
void atg_select(tensor *, tensor, int64_t, int64_t);
void atg_set_requires_grad(tensor *, tensor, int);
void atg_silu(tensor *, tensor);
void atg_tanh(tensor *, tensor);
void atg_sqrt(tensor *, tensor);
void atg_sin(tensor *, tensor);
void atg_softmax(tensor *, tensor, int64_t, int);
void atg_sort_stable(tensor *, tensor, int, int64_t, int);
void atg_square(tensor *, tensor);
void atg_sub(tensor *, tensor, tensor);
void atg_sum(tensor *, tensor, int);
void atg_sum_dim_intlist(tensor *, tensor, int64_t *, int, int, int);
void atg_to(tensor *, tensor, int);
void atg_to_dtype(tensor *, tensor, int, int, int);
void atg_transpose(tensor *, tensor, int64_t, int64_t);
void atg_tril(tensor *, tensor, int64_t);
tensor *atg_unbind(tensor, int64_t);
void atg_unsqueeze(tensor *, tensor, int64_t);
void atg_view(tensor *, tensor, int64_t *, int);
void atg_where_self(tensor *, tensor, tensor, tensor);
void atg_zeros(tensor *, int64_t *, int, int, int);

// What internal/setup/libtch adds to the bindings.
void popri_deterministic(void);
void popri_observe(void (*begins)(const char *name, int64_t node), void (*ends)(void));
int64_t popri_next_node(void);
void popri_steps(char *(*backward)(int op, double *numbers, tensor *saved, tensor *grads, char *wanted,
                                   tensor *results));
char *popri_step(int op, double *numbers, int count, tensor *saved, int kept, tensor *inputs, int from, tensor *outputs,
                 int to);

// Recording of where the time goes (profile.c).
typedef struct {
  char *name;
  int region;
  int64_t nanoseconds; // of all calls, without what ran inside of them, times the threads that they occupied
  int64_t calls;
} popri_line;
void popri_record(int recording);                 // begins a recording of this number, or ends it (0)
int popri_recorded(popri_line *lines, int room);  // of the last recording: how many there are, and up to room of them
void popri_operation_begins(const char *name);    // on this thread
void popri_region_begins(const char *name, int region);
void popri_operation_ends(void);
int popri_region(void);                           // of this thread
void popri_made(int64_t from, int region);        // nodes of graphs since from belong to the region
void popri_occupied(int threads);                 // by operations of libtorch on this thread

// Kernels of our own (kernels.h), on raw memory, for each of these sets of instructions. popri_take takes one from now
// on where the CPU has it, else the best that it has, and returns the one that is taken.
enum { KERNELS_PLAIN, KERNELS_AVX2, KERNELS_AVX512 };
int popri_take(int set);
void popri_adamw(float *p, const float *g, float *m, float *v, int64_t n, float lr, float b1, float b2, float eps,
                 float wd, float c1, float c2, float scale);
void popri_add(float *sum, const void *part, int bf16, int64_t n);
double popri_sum_squares(const float *x, int64_t n);
void popri_attend(const popri_cache *c, int from, int to, const float *qkv, float *out, const int32_t *slot,
                  const int32_t *suffix_len, const int32_t *prefix, const int32_t *prefix_len, float *scratch);
void popri_rotate(float *x, const float *cosines, const float *sines, int64_t rows, int64_t angles, int64_t width,
                  int64_t heads, int64_t dim);
// What parts of rows do, and the threads of libtorch's operations doing it (threads.c).
typedef void (*popri_range)(const void *kernel, int64_t from, int64_t to);
void popri_shared(const char *name, popri_range f, const void *kernel, int64_t n, int threads);
// Kernels of a GPU (gpu.c, gpu_emulated.cpp).
const char *popri_gpu_make(const char *source);
int popri_gpu_launch(const char *shown, int kernel, const void *p, int64_t n, int64_t blocks, int threads);
void popri_gpu_emulate(const char *shown, int kernel, const void *p, int64_t n, int64_t blocks);
int64_t popri_gpu_memory(void);
int64_t popri_gpu_used(void);
int popri_gpu_generation(void);
void popri_layernorm_rows(const void *rows, int64_t from, int64_t to);
void popri_layernorm_grad(const void *rows, int64_t from, int64_t to);
void popri_rmsnorm_rows(const void *rows, int64_t from, int64_t to);
void popri_rmsnorm_grad(const void *rows, int64_t from, int64_t to);
void popri_swiglu_rows(const void *rows, int64_t from, int64_t to); // x [rows, 2n]
void popri_swiglu_grad(const void *rows, int64_t from, int64_t to);
void popri_gelu_rows(const void *rows, int64_t from, int64_t to);
void popri_gelu_grad(const void *rows, int64_t from, int64_t to);
void popri_add_gelu_rows(const void *rows, int64_t from, int64_t to);
void popri_add_layernorm_rows(const void *rows, int64_t from, int64_t to);
void popri_drop_rows(const void *drop, int64_t from, int64_t to);
int64_t popri_attend_float_scratch(int64_t most, int64_t dim);
void popri_attend_float(int from, int to, const int32_t *starts, int heads, int64_t dim, const float *qkv,
                        const float *shift, const float *bias, int64_t most, float *out, float *scratch);
void popri_split_heads(const void *heads, int64_t from, int64_t to);
void popri_split_heads_grad(const void *heads, int64_t from, int64_t to);
// The same without the scores in memory (attend_train.c): q and k are rotated.
typedef struct {
  int64_t tokens, heads, kv_heads, dim;
  const int64_t *starts;         // of the sequences in the one batch there is, and their end; null: a batch is one
  float scale;
  uint64_t key;                  // of dropout of the probabilities, by the query's row among all heads
  uint32_t hidden;               // of 2^32; 0 hides none
  float kept;                    // the factor of what is kept
  int planes, tiles;             // bfloat16 has one plane, float32 three, on the matrix unit
  int64_t masks, mask_width;     // [masks, mask_width, mask_width]; one is for all sequences, which begin with it
  const void *q, *k, *v;         // [batch, heads or kv_heads, tokens, dim]
  const uint16_t *mask;          // added to the scores
  void *y;                       // [batch, tokens, heads, dim]
  float *sums;                   // logarithms of the sums of exponentials [batch, heads, tokens]
  const void *dy;                // for the gradients
  void *dq, *dk, *dv;
} popri_attention;
void popri_attend_train(const void *attention, int64_t from, int64_t to); // of heads of keys, in all batches
void popri_attend_train_grad(const void *attention, int64_t from, int64_t to);
void popri_softmax_rows(const void *softmax, int64_t from, int64_t to);
void popri_softmax_grad(const void *softmax, int64_t from, int64_t to);
void popri_low_rank_rows(const void *low_rank, int64_t from, int64_t to);
void popri_low_rank_grad(const void *low_rank, int64_t from, int64_t to);
void popri_low_rank_sums(const void *sum, int64_t from, int64_t to);
enum { SAMPLE_PART = 128 }; // values; a multiple of packed.h's BLOCK
enum { ATTEND_QUERIES = 6 }; // that popri_attend computes together
void popri_sample_part(int rows, const float *logits, int64_t stride, int n, float k, float *top, float *sum,
                       int64_t parts, float *e);
int popri_sample_choose(const float *top, float *sum, int parts, float k, double u, double *rest, float *e);
int popri_sample_pick(const float *x, int n, float top, float k, double rest, float *e);
void popri_sample(int from, int to, int vocab, const float *logits, float k, const double *u, int32_t *out,
                  float *scratch);
int64_t popri_sample_top_scratch(int vocab);
void popri_sample_top(int from, int to, int vocab, const float *logits, float k, double p, const double *u,
                      int32_t *out, void *scratch);
void popri_logprobs(int64_t from, int64_t to, int vocab, const void *logits, int bf16, const int32_t *target,
                    float *out, float *normaliser, int32_t *rank, float *entropy, float *mean);
void popri_logprobs_grad(int64_t from, int64_t to, int vocab, void *logits, int bf16, const int32_t *target,
                         const float *normaliser, const float *weight);
// Products with packed weights (product.c), and attention on the matrix unit (amx_attend.c).
enum { ACT_NONE, ACT_GELU_TANH, ACT_GELU, ACT_RELU, ACT_SWIGLU }; // the last one is for grad_of alone
typedef struct {
  int64_t rows, in, out;
  int planes;               // of bfloat16: 1, or 3 for float32 weights on the matrix unit; 0: weights and x are float32
  const void *x;            // [rows, in]
  int64_t transposed;       // on the matrix unit, above 0: x is a matrix [in, transposed] whose columns are the rows
  const uint16_t *w;        // packed
  const float *scales;      // of the outputs, where weights are bytes (packed8.c); else null
  const float *bias;        // [out] or null
  const void *residual;     // [rows, out] or null
  void *y;                  // [rows, out], half as wide where gated
  int x_bf16, residual_bf16, y_bf16;
  int act;                  // ACT_…, before the residual
  int tiles;                // on the matrix unit, else on the vector unit
  int gated;                // packed so: silu(first half)·second half
  popri_low_rank added;     // its low·up joins the sums; no parts: nothing. Its activation is GELU's tanh form or none
  // An MLP that is trained. pre, or null, is of y's type and receives the activation's inputs [rows, out]; there is no
  // residual then, and a gated product may have no y. With grad_of, which has these inputs, the product is the gradient
  // of the activation's outputs [rows, out]: y receives the gradient of the inputs, and again, of y's type, the outputs.
  void *pre, *again;
  const void *grad_of;
} popri_product;
int popri_amx_enable(void);
// Draws from the softmax of k times a product's rows, which is not kept (amx.c).
typedef struct {
  float k;
  const double *u;          // [rows] in [0, 1)
  const uint8_t *ban;       // [rows]: whether a row leaves the banned tokens out; or null
  const int32_t *banned;
  int64_t bans;
  int32_t *out;             // [rows]; -1 where the row has a NaN or no finite maximum
} popri_draws;
int64_t popri_draw_scratch(const popri_product *g);
void popri_draw_run(const popri_product *g, const popri_draws *d, void *scratch);
int64_t popri_attend_scratch(const popri_cache *c);
void popri_attend_tiles(const popri_cache *c, int from, int to, const float *qkv, uint16_t *out, const int32_t *slot,
                        const int32_t *suffix_len, const int32_t *prefix, const int32_t *prefix_len, void *scratch);
void popri_prefill_tiles(const popri_cache *c, int from, int to, int width, const float *qkv, uint16_t *out,
                         const int32_t *prefix, const int32_t *lengths, void *scratch);
void popri_layernorm_bf16(const uint16_t *x, const float *w, const float *b, uint16_t *y, int64_t rows, int64_t n,
                          float eps, float *row);
int64_t popri_attend_texts_scratch(int64_t most, int64_t dim);
void popri_attend_texts(int from, int to, const int32_t *starts, int heads, int64_t dim, const uint16_t *qkv,
                        const float *bias, int64_t most, int tiles, uint16_t *out, void *scratch);
// The layers of a BERT (encode.c): packed weights, float32 biases and norms.
typedef struct {
  const uint16_t *qkv, *out, *up, *down;
  const float *qkv_bias, *out_bias, *up_bias, *down_bias, *norm, *norm_bias, *norm2, *norm2_bias;
} popri_encoder_layer;
typedef struct {
  int layers, heads, tiles;
  int64_t hidden, inner;
  float eps;
  const float *bias;        // [heads, width, width], added to the scores, or null
  int64_t width;
  const popri_encoder_layer *layer;
} popri_encoder;
int64_t popri_encode_scratch(const popri_encoder *e, int64_t most);
void popri_encode(const popri_encoder *e, const int32_t *starts, int texts, int64_t most, uint16_t *x, void *scratch);
int64_t popri_packed_size(int64_t in, int64_t out, int planes);
void popri_pack(const void *w, int bf16, int64_t row, int64_t col, int64_t in, int64_t out, int planes, int gated,
                int64_t from, int64_t to, uint16_t *packed);
int64_t popri_packed8_size(int64_t in, int64_t out);
void popri_pack8(const void *w, int bf16, int64_t row, int64_t col, int64_t in, int64_t out, int gated, int64_t from,
                 int64_t to, uint8_t *packed, float *scales);
int64_t popri_product_scratch(const popri_product *g);
void popri_product_run(const popri_product *g, void *scratch);
int popri_not_finite(const void *x, int64_t n, int size, uint64_t exponent);
