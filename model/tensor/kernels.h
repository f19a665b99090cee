// The kernels that are compiled once for each instruction set. A file for each set (kernels_….c) includes this with
// SET, which ends their names, and LANES, the floats of a register. kernels.c chooses a set.
#ifdef SET
#define JOIN(name, set) name##_##set
#define OF_SET(name, set) JOIN(name, set)
#define popri_adamw OF_SET(popri_adamw, SET)
#define popri_add OF_SET(popri_add, SET)
#define popri_sum_squares OF_SET(popri_sum_squares, SET)
#define popri_attend OF_SET(popri_attend, SET)
#define popri_layernorm_rows OF_SET(popri_layernorm_rows, SET)
#define popri_layernorm_grad OF_SET(popri_layernorm_grad, SET)
#define popri_rotate OF_SET(popri_rotate, SET)
#define popri_rmsnorm_rows OF_SET(popri_rmsnorm_rows, SET)
#define popri_rmsnorm_grad OF_SET(popri_rmsnorm_grad, SET)
#define popri_drop_rows OF_SET(popri_drop_rows, SET)
#define popri_swiglu_rows OF_SET(popri_swiglu_rows, SET)
#define popri_swiglu_grad OF_SET(popri_swiglu_grad, SET)
#define popri_gelu_rows OF_SET(popri_gelu_rows, SET)
#define popri_gelu_grad OF_SET(popri_gelu_grad, SET)
#define popri_add_gelu_rows OF_SET(popri_add_gelu_rows, SET)
#define popri_add_layernorm_rows OF_SET(popri_add_layernorm_rows, SET)
#define popri_attend_float_scratch OF_SET(popri_attend_float_scratch, SET)
#define popri_attend_float OF_SET(popri_attend_float, SET)
#define popri_split_heads OF_SET(popri_split_heads, SET)
#define popri_split_heads_grad OF_SET(popri_split_heads_grad, SET)
#define popri_softmax_rows OF_SET(popri_softmax_rows, SET)
#define popri_softmax_grad OF_SET(popri_softmax_grad, SET)
#define popri_low_rank_rows OF_SET(popri_low_rank_rows, SET)
#define popri_low_rank_grad OF_SET(popri_low_rank_grad, SET)
#define popri_low_rank_sums OF_SET(popri_low_rank_sums, SET)
#define popri_sample_part OF_SET(popri_sample_part, SET)
#define popri_sample_choose OF_SET(popri_sample_choose, SET)
#define popri_sample_pick OF_SET(popri_sample_pick, SET)
#define popri_sample OF_SET(popri_sample, SET)
#define popri_sample_top_scratch OF_SET(popri_sample_top_scratch, SET)
#define popri_sample_top OF_SET(popri_sample_top, SET)
#define popri_logprobs OF_SET(popri_logprobs, SET)
#define popri_logprobs_grad OF_SET(popri_logprobs_grad, SET)
#endif

#include "torch.h"
#include "profile.h"
#include "vector.h"

#include "adamw.h"
#include "attend.h"
#include "heads.h"
#include "logprobs.h"
#include "norm.h"
#include "lowrank.h"
#include "sample.h"
#include "texts.h"
