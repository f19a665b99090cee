// The rate of the CPU's matrix unit (AMX) in products of bfloat16 tiles of random numbers, which take more power, and
// time, than zeros: with all tiles in registers, and with four tiles read for four products from the first-level and
// from the second-level cache.
//
//   gcc -O2 -march=sapphirerapids scripts/matrix_unit.c -o matrix_unit -lpthread && ./matrix_unit 2
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TILE = 1024, LARGE = 200 * 4 * TILE };
static int64_t size; // bytes that are read round and round; 0: none
static double rates[64];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void *run(void *rate) {
  struct {
    uint8_t palette, rest[15];
    uint16_t bytes[16];
    uint8_t rows[16];
  } config;
  memset(&config, 0, sizeof config);
  config.palette = 1;
  for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = 16;
  _tile_loadconfig(&config);
  char *all = aligned_alloc(4096, LARGE);
  for (int i = 0; i < LARGE / 2; i++) ((uint16_t *)all)[i] = 0x3c00 + (rand() & 0x83ff);
  _tile_loadd(4, all, 64);
  _tile_loadd(5, all + TILE, 64);
  _tile_loadd(6, all + 2 * TILE, 64);
  _tile_loadd(7, all + 3 * TILE, 64);
  double start = now();
  int64_t products = 0, at = 0;
  for (; now() - start < 2; products += 4000)
    for (int i = 0; i < 1000; i++) {
      if (size) {
        at = at + 4 * TILE < size ? at + 4 * TILE : 0;
        _tile_loadd(4, all + at, 64);
        _tile_loadd(5, all + at + TILE, 64);
        _tile_loadd(6, all + at + 2 * TILE, 64);
        _tile_loadd(7, all + at + 3 * TILE, 64);
      }
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  *(double *)rate = products * 16384.0 / (now() - start) / 1e9;
  _tile_release();
  return 0;
}

int main(int n, char **arguments) {
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
  int threads = n > 1 ? atoi(arguments[1]) : 1;
  if (threads < 1 || threads > 64 || syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA)) {
    fprintf(stderr, "usage: matrix_unit THREADS (1 to 64), on a CPU with AMX\n");
    return 2;
  }
  const char *names[] = {"registers", "first-level cache", "second-level cache"};
  const int64_t sizes[] = {0, 4 * 4 * TILE, LARGE};
  for (int i = 0; i < 3; i++) {
    pthread_t all[64];
    double sum = 0;
    size = sizes[i];
    for (int k = 0; k < threads; k++) pthread_create(all + k, 0, run, rates + k);
    for (int k = 0; k < threads; k++) pthread_join(all[k], 0), sum += rates[k];
    printf("%-18s %5.0f GFLOP/s\n", names[i], sum);
  }
}
