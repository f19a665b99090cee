#include "torch.h"
#include "profile.h"

// Whether one of n floats of the given size in bytes has all exponent bits set. The loops have no early exit, so that
// the compiler makes them vectors: they run as fast as memory is read.
#define ANY(T)                                                                                                      \
  {                                                                                                                 \
    const T *v = (const T *)x;                                                                                      \
    T e = (T)exponent, bad = 0;                                                                                     \
    for (int64_t i = 0; i < n; i++) bad |= (T)((v[i] & e) == e);                                                    \
    return bad != 0;                                                                                                \
  }

int popri_not_finite(const void *x, int64_t n, int size, uint64_t exponent) {
  OPERATION("popri::not_finite");
  if (size == 2) ANY(uint16_t)
  if (size == 4) ANY(uint32_t)
  ANY(uint64_t)
}
