// Sums in one order on a GPU, where additions to one place otherwise come as they happen.
#include <ATen/Context.h>
#include <torch/version.h>

extern "C" {
// popri_deterministic makes operations give the same bits each time. Those that cannot say so.
void popri_deterministic() {
  at::globalContext().setDeterministicAlgorithms(true, true);
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 2
  at::globalContext().setDeterministicFillUninitializedMemory(false); // all that is read has been written
#endif
}
}
