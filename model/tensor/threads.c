#define _GNU_SOURCE
#include "torch.h"
#include "profile.h"
#include <dlfcn.h>
#include <pthread.h>

// Kernels within a graph share the threads of libtorch's operations, which wait for work for a while after each: other
// threads would have to be woken, on processors that these keep. They belong to the OpenMP library that libtorch has
// loaded.

static void (*omp_parallel)(void (*)(void *), void *, unsigned, unsigned);
static int (*omp_thread)(void), (*omp_threads)(void), (*omp_inside)(void);
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void) {
  *(void **)&omp_thread = dlsym(RTLD_DEFAULT, "omp_get_thread_num");
  *(void **)&omp_threads = dlsym(RTLD_DEFAULT, "omp_get_num_threads");
  *(void **)&omp_inside = dlsym(RTLD_DEFAULT, "omp_in_parallel");
  if (omp_thread && omp_threads && omp_inside) *(void **)&omp_parallel = dlsym(RTLD_DEFAULT, "GOMP_parallel");
}

typedef struct {
  popri_range f;
  const void *kernel;
  int64_t n;
} split_work;

static void part(void *p) {
  const split_work *s = p;
  int64_t k = omp_thread(), of = omp_threads();
  int64_t from = s->n * k / of, to = s->n * (k + 1) / of;
  if (from < to) s->f(s->kernel, from, to);
}

void popri_shared(const char *name, popri_range f, const void *kernel, int64_t n, int threads) {
  pthread_once(&once, find);
  if (threads < 2 || n < 2 || !omp_parallel || omp_inside()) {
    OPERATION(name);
    f(kernel, 0, n);
    return;
  }
  SHARED_OPERATION(name);
  split_work s = {f, kernel, n};
  omp_parallel(part, &s, threads < n ? threads : n, 0);
}
