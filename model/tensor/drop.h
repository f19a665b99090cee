// Dropout: which elements are hidden follows from a key, the element's row and its column, so that a gradient needs no
// mask in memory and threads change nothing. Included by kernels.h and attend_train.c.
#pragma once
#include <stdint.h>

// Two words of a row, from which the words of its columns follow (the last steps of SplitMix64).
static inline uint64_t hidden_row(uint64_t key, int64_t row) {
  uint64_t z = key + ((uint64_t)row + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The word of a column, of an unsigned number or a vector of them; an element is hidden if it is below a limit.
#define HIDDEN_WORD(column, row)                                                                                      \
  ({                                                                                                                  \
    __typeof__(column) word = (column) + (uint32_t)(row);                                                             \
    word = (word ^ (word >> 16)) * 0x7feb352du + (uint32_t)((row) >> 32);                                             \
    word = (word ^ (word >> 15)) * 0x846ca68bu;                                                                       \
    word ^ (word >> 16);                                                                                              \
  })
