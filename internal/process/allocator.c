#include "allocator.h"

// glibc returns large buffers to the kernel after every operation and faults their pages in again, which costs up to
// half of the speed on a CPU. One arena, no mmap and no trimming keep the buffers; tensor.Trim returns them between
// stages.
#include <stdlib.h> // defines __GLIBC__
#ifdef __GLIBC__
#include <malloc.h>
void popri_keep_large_buffers(void) {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
}
#else
void popri_keep_large_buffers(void) {}
#endif

// posix_memalign, free and realloc for the whole program. libtorch calls posix_memalign and free thousands of times a
// second, mostly with sizes that it has used before. glibc's memalign takes more memory than was asked for and frees
// the surplus, so a freed block is slightly too small for the next request of the same size: the heap keeps growing,
// and the kernel spends a quarter of the time on clearing fresh pages. This allocator keeps freed blocks in lists by
// size class, in one reserved range of huge pages. glibc serves blocks below SMALLEST, and all blocks if the range
// cannot be reserved.

#if defined(__linux__) && defined(__GLIBC__) && defined(__x86_64__)

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
extern void *__libc_realloc(void *, size_t);

#define SMALLEST ((size_t)16 << 10)
#define HUGE ((size_t)2 << 20)
#define RESERVED ((size_t)256 << 30)
#define STEPS 8 // sizes between two powers of two
#define CLASSES (STEPS * 40)
#define KEPT ((size_t)1024 << 20) // free bytes beyond the peak that keep their pages for reuse

// The header is HEADER bytes before the block's memory, which keeps that memory aligned to 64 bytes.
typedef struct block {
  struct block *next;
  int class, cold; // cold: its pages were returned to the kernel
} block;
#define HEADER 64

static struct {
  pthread_mutex_t lock;
  char *begin, *end, *top; // end is null before the first use and where nothing could be reserved
  int failed;
  block *free[2][CLASSES]; // with their pages, and cold
  size_t used, warm; // bytes in use, bytes free with their pages
  size_t peak;       // most bytes in use since the last trim: the current stage needs them again
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int class_of(size_t n) { // the first class of at least n bytes
  int log = 63 - __builtin_clzll(n);
  size_t base = (size_t)1 << log, step = base / STEPS;
  return log * STEPS + (int)((n - base + step - 1) / step);
}

static size_t size_of(int class) {
  size_t base = (size_t)1 << class / STEPS;
  return base + base / STEPS * (class % STEPS);
}

static int inside(const void *p) { return (const char *)p >= pool.begin && (const char *)p < pool.end; }

static block *header(void *p) { return (block *)((char *)p - HEADER); }

static void reserve(void) {
  char *p = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    pool.failed = 1;
    return;
  }
  pool.begin = pool.top = p;
  pool.end = p + RESERVED;
  madvise(p, RESERVED, MADV_HUGEPAGE);
}

// Returns the whole pages of this size inside a free block to the kernel.
static void cool(block *b, uintptr_t page) {
  uintptr_t from = ((uintptr_t)b + HEADER + page - 1) & ~(page - 1);
  uintptr_t to = ((uintptr_t)b + HEADER + size_of(b->class)) & ~(page - 1);
  if (to > from) madvise((void *)from, to - from, MADV_DONTNEED);
  b->cold = 1;
}

static void *take(size_t n) {
  int class = class_of(n);
  pthread_mutex_lock(&pool.lock);
  if (!pool.end && !pool.failed) reserve();
  block *b = NULL;
  if (pool.end) {
    // A larger block with its pages is better than one that the kernel must clear first.
    for (int cold = 0; cold < 2 && !b; cold++)
      for (int c = class; c <= class + STEPS && !b; c++)
        if (pool.free[cold][c]) {
          b = pool.free[cold][c];
          pool.free[cold][c] = b->next;
          if (!cold) pool.warm -= size_of(c);
        }
    if (!b) {
      size_t whole = (HEADER + size_of(class) + 63) & ~(size_t)63;
      if (whole >= 4 * HUGE) pool.top = (char *)(((uintptr_t)pool.top + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
      if ((size_t)(pool.end - pool.top) >= whole) {
        b = (block *)pool.top;
        pool.top += whole;
        b->class = class;
      }
    }
    if (b) {
      b->cold = 0;
      pool.used += size_of(b->class);
      if (pool.used > pool.peak) pool.peak = pool.used;
    }
  }
  pthread_mutex_unlock(&pool.lock);
  return b ? (char *)b + HEADER : NULL;
}

static void give(void *p) {
  block *b = header(p);
  size_t n = size_of(b->class);
  pthread_mutex_lock(&pool.lock);
  pool.used -= n;
  // A part of a huge page that goes back comes again as small pages, one fault each.
  if (n >= 4 * HUGE && pool.used + pool.warm + n > pool.peak + KEPT)
    cool(b, HUGE);
  else
    pool.warm += n;
  b->next = pool.free[b->cold][b->class];
  pool.free[b->cold][b->class] = b;
  pthread_mutex_unlock(&pool.lock);
}

void popri_release_free_blocks(void) {
  pthread_mutex_lock(&pool.lock);
  for (int c = 0; c < CLASSES; c++)
    while (pool.free[0][c]) {
      block *b = pool.free[0][c];
      pool.free[0][c] = b->next;
      cool(b, 4096);
      b->next = pool.free[1][c];
      pool.free[1][c] = b;
    }
  pool.warm = 0;
  pool.peak = pool.used;
  pthread_mutex_unlock(&pool.lock);
}

// libtorch's calls reach these definitions instead of glibc's, because the executable comes first in symbol lookup.

int posix_memalign(void **out, size_t alignment, size_t n) {
  if (alignment < sizeof(void *) || alignment & (alignment - 1)) return EINVAL;
  void *p = n >= SMALLEST && n < RESERVED / 4 && alignment <= 64 ? take(n) : NULL;
  if (!p) p = __libc_memalign(alignment, n);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}

void free(void *p) {
  if (inside(p))
    give(p);
  else
    __libc_free(p);
}

void *realloc(void *p, size_t n) {
  if (!inside(p)) return __libc_realloc(p, n);
  if (n == 0) {
    give(p);
    return NULL;
  }
  size_t had = size_of(header(p)->class);
  if (n <= had) return p;
  void *q = malloc(n);
  if (q) {
    memcpy(q, p, had);
    give(p);
  }
  return q;
}

#else
void popri_release_free_blocks(void) {}
#endif
