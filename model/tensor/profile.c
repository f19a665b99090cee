#include "profile.h"
#include "torch.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Each thread keeps a stack of what is under way and a table of the time by name and region. An operation's own time is
// its time without the time of the operations inside of it.

int popri_recording;
static int number; // of the last recording

enum { DEEPEST = 256, LINES = 2048 }; // LINES is a power of two, of which three quarters are used

typedef struct {
  popri_line *line;
  int64_t begun, inner; // nanoseconds
  int times;            // threads that the operation occupies
  int region;           // of the thread before it
} frame;

typedef struct {
  int64_t from, to; // nodes that were made in the region
  int region;
} nodes;

typedef struct recorder {
  struct recorder *next;
  int recording; // number at the last use
  int used;
  popri_line lines[LINES];
  int depth;
  frame stack[DEEPEST];
  int region;
  nodes *made; // in the order of from
  int64_t made_count, made_room;
} recorder;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static recorder *all;
static __thread recorder *own;
static __thread int width = 1;

static recorder *of_thread(void) {
  if (!own) {
    if (!(own = calloc(1, sizeof *own))) abort();
    pthread_mutex_lock(&lock);
    own->next = all;
    all = own;
    pthread_mutex_unlock(&lock);
  }
  if (own->recording != number) { // what an earlier recording left
    for (int i = 0; i < LINES; i++) free(own->lines[i].name);
    memset(own->lines, 0, sizeof own->lines);
    own->depth = own->used = own->region = own->made_count = 0;
    own->recording = number;
  }
  return own;
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

static popri_line *line_of(recorder *r, const char *name) {
  uint64_t h = 14695981039346656037u + (uint64_t)r->region;
  for (const char *c = name; *c; c++) h = (h ^ (unsigned char)*c) * 1099511628211u;
  for (uint64_t i = h ^ h >> 32;; i++) {
    popri_line *l = &r->lines[i % LINES];
    if (l->name && l->region == r->region && !strcmp(l->name, name)) return l;
    if (l->name) continue;
    if (r->used >= LINES * 3 / 4) return NULL;
    if (!(l->name = strdup(name))) return NULL;
    l->region = r->region;
    r->used++;
    return l;
  }
}

static void begins(const char *name, int times, int region) {
  recorder *r = of_thread();
  if (r->depth >= DEEPEST) {
    r->depth++;
    return;
  }
  frame *f = &r->stack[r->depth++];
  f->region = r->region;
  r->region = region < 0 ? r->region : region;
  f->line = line_of(r, name);
  f->inner = 0;
  f->times = times;
  f->begun = now();
}

void popri_operation_begins(const char *name) { begins(name, 1, -1); }

void popri_shared_operation_begins(const char *name) { begins(name, width, -1); }

void popri_region_begins(const char *name, int region) { begins(name, 1, region); }

void popri_operation_ends(void) {
  recorder *r = of_thread();
  if (r->depth == 0) return;
  if (--r->depth >= DEEPEST) return;
  frame *f = &r->stack[r->depth];
  int64_t took = now() - f->begun;
  if (f->line) {
    f->line->nanoseconds += (took - f->inner) * f->times;
    f->line->calls++;
  }
  r->region = f->region;
  if (r->depth > 0) r->stack[r->depth - 1].inner += took;
}

int popri_region(void) { return of_thread()->region; }

static int region_of(const recorder *r, int64_t node) {
  int64_t low = 0, high = r->made_count; // the last entry whose from is not after the node
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (r->made[middle].from <= node)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 && node < r->made[low - 1].to ? r->made[low - 1].region : 0;
}

// What libtorch reports. A step of a backward pass belongs to the region in which its node was made.
static void torch_begins(const char *name, int64_t node) {
  begins(name, width, node >= 0 ? region_of(of_thread(), node) : -1);
}

void popri_made(int64_t from, int region) {
  recorder *r = of_thread();
  int64_t to = popri_next_node();
  if (to == from || (r->made_count > 0 && r->made[r->made_count - 1].to > from)) return; // none, or a region's inside
  if (r->made_count == r->made_room) {
    int64_t room = r->made_room ? 2 * r->made_room : 1024;
    nodes *more = realloc(r->made, room * sizeof *more);
    if (!more) return;
    r->made = more;
    r->made_room = room;
  }
  r->made[r->made_count++] = (nodes){from, to, region};
}

void popri_occupied(int threads) { width = threads; }

void popri_record(int recording) {
  if (recording) number = recording;
  popri_recording = recording;
  popri_observe(recording ? torch_begins : NULL, recording ? popri_operation_ends : NULL);
}

int popri_recorded(popri_line *lines, int room) {
  int n = 0;
  pthread_mutex_lock(&lock);
  for (recorder *r = all; r; r = r->next)
    for (int i = 0; r->recording == number && i < LINES; i++)
      if (r->lines[i].name) {
        if (n < room) lines[n] = r->lines[i];
        n++;
      }
  pthread_mutex_unlock(&lock);
  return n;
}
