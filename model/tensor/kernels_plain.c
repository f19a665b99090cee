// For any CPU.
#ifdef __x86_64__
#define SET plain
#endif
#define LANES 4
#include "kernels.h"
