// Where the time goes: see profile.go. A kernel announces itself by OPERATION, which costs a branch while nothing is
// recorded.
#pragma once

extern int popri_recording;
void popri_operation_begins(const char *name);
void popri_shared_operation_begins(const char *name); // on all of libtorch's threads
void popri_operation_ends(void);

static inline __attribute__((always_inline)) int popri_announce(const char *name) {
  if (__builtin_expect(!popri_recording, 1)) return 0;
  popri_operation_begins(name);
  return 1;
}

static inline __attribute__((always_inline)) int popri_announce_shared(const char *name) {
  if (__builtin_expect(!popri_recording, 1)) return 0;
  popri_shared_operation_begins(name);
  return 1;
}

static inline __attribute__((always_inline)) void popri_announced(int *on) {
  if (__builtin_expect(*on, 0)) popri_operation_ends();
}

// OPERATION names what follows until the end of the block.
#define OPERATION(name) __attribute__((cleanup(popri_announced), unused)) int announced = popri_announce(name)
#define SHARED_OPERATION(name) \
  __attribute__((cleanup(popri_announced), unused)) int announced = popri_announce_shared(name)
