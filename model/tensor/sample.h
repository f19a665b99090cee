// Draws of tokens. Included by kernels.h.
#include <stdlib.h>
#include <string.h>

// e[i] = exp((x[i] - max)·k), for x[i] up to max.
void popri_exp(float *e, const float *x, int n, float max, float k) {
  OPERATION("popri::exp");
  exp_sum(e, x, n, max, k);
}

// The first maximum of a row, or -1 where it has a NaN or no finite maximum.
static int32_t first_maximum(const float *x, int n) {
  float max = max_of(x, n);
  int nan = 0;
  for (int i = 0; i < n; i++) nan |= x[i] != x[i];
  if (nan || !(max > -INFINITY && max < INFINITY)) return -1;
  for (int32_t i = 0;; i++)
    if (x[i] == max) return i;
}

// Draws one token a row by inverting the cumulative softmax at u in [0, 1); u < 0 takes the first maximum. A row
// without a finite maximum yields -1. A row is read once, part by part: each part has its own maximum and a sum
// relative to it, and only the part that u falls into is looked at again. scratch has room for two floats a part and
// one part.
void popri_sample(int from, int to, int vocab, const float *logits, float k, const double *u, int32_t *out,
                  float *scratch) {
  OPERATION("popri::sample");
  int parts = (vocab + SAMPLE_PART - 1) / SAMPLE_PART;
  float *top = scratch, *sum = scratch + parts, *e = scratch + 2 * parts;
  for (int r = from; r < to; r++) {
    const float *x = logits + (int64_t)r * vocab;
    out[r] = -1;
    if (u[r] < 0) {
      out[r] = first_maximum(x, vocab);
      continue;
    }
    float max = -INFINITY;
    for (int p = 0; p < parts; p++) {
      int at = p * SAMPLE_PART, n = vocab - at < SAMPLE_PART ? vocab - at : SAMPLE_PART;
      top[p] = max_of(x + at, n);
      // A part of nothing but minus infinity has no exponentials; one with a NaN beside that has none either.
      sum[p] = 0;
      if (top[p] > -INFINITY)
        sum[p] = exp_sum(e, x + at, n, top[p], k);
      else
        for (int i = 0; i < n; i++) sum[p] += x[at + i] != x[at + i] ? x[at + i] : 0;
      max = top[p] > max ? top[p] : max;
    }
    if (!(max > -INFINITY && max < INFINITY)) continue;
    double total = 0;
    for (int p = 0; p < parts; p++) total += sum[p] == 0 ? 0 : sum[p] * (double)fast_exp((top[p] - max) * k);
    if (!(total > 0 && total < INFINITY)) continue;
    double want = u[r] * total;
    int last = -1; // the last part with anything in it
    for (int p = 0; p < parts; p++) {
      if (sum[p] == 0) continue;
      double share = sum[p] * (double)fast_exp((top[p] - max) * k);
      last = p;
      if (share > want) break;
      want -= share;
    }
    int at = last * SAMPLE_PART, n = vocab - at < SAMPLE_PART ? vocab - at : SAMPLE_PART;
    exp_sum(e, x + at, n, top[last], k);
    want /= fast_exp((top[last] - max) * k);
    double passed = 0;
    for (int i = 0; i < n; i++) {
      if (x[at + i] == -INFINITY) continue;
      passed += e[i];
      out[r] = at + i;
      if (passed > want) break;
    }
  }
}

// Lists the places of x that are at least least, in their order, and returns how many there are.
static int places_from(const float *x, int n, float least, int32_t *place) {
  enum { STEP = 8 * LANES };
  int found = 0, i = 0;
  for (; i + STEP <= n; i += STEP) {
    ints near = {0};
    for (int k = 0; k < STEP; k += LANES) near |= *(const floats *)(x + i + k) >= least;
    int any = 0;
    for (int k = 0; k < LANES; k++) any |= near[k];
    for (int k = 0; any && k < STEP; k++) {
      place[found] = i + k;
      found += x[i + k] >= least;
    }
  }
  for (; i < n; i++) {
    place[found] = i;
    found += x[i] >= least;
  }
  return found;
}

typedef struct {
  float x, e;
  int32_t at; // in the list of candidates
} candidate;

static int likelier(const void *a, const void *b) {
  const candidate *p = a, *q = b;
  if (p->x != q->x) return p->x > q->x ? -1 : 1;
  return p->at < q->at ? -1 : 1;
}

// As in truncate.go: a bucket is 1/32 of a nat wide, and the last one has all larger distances.
enum { BUCKETS = 2048, PER_NAT = 32 };

static int bucket_of(float distance, float k) {
  float d = distance * k * PER_NAT;
  return d < BUCKETS - 1 ? (int)d : BUCKETS - 1;
}

int64_t popri_sample_top_scratch(int vocab) {
  return (int64_t)vocab * (sizeof(float) + sizeof(int32_t) + sizeof(candidate)) + BUCKETS * sizeof(double) + 64;
}

// Draws as popri_sample does, from the smallest set of the likeliest tokens that holds the share p < 1 of the
// probability. Ties at the border go to the lower id. All tokens whose share is below (1-p)/vocab hold less than 1-p
// together, so the set is among the others, which are few, and only those at its border are sorted.
void popri_sample_top(int from, int to, int vocab, const float *logits, float k, double p, const double *u,
                      int32_t *out, void *scratch) {
  OPERATION("popri::sample");
  double *mass = scratch;
  candidate *border = (candidate *)(mass + BUCKETS);
  float *e = (float *)(border + vocab);
  int32_t *place = (int32_t *)(e + vocab);
  for (int r = from; r < to; r++) {
    const float *x = logits + (int64_t)r * vocab;
    out[r] = -1;
    if (u[r] < 0) {
      out[r] = first_maximum(x, vocab);
      continue;
    }
    float max = max_of(x, vocab);
    if (!(max > -INFINITY && max < INFINITY)) continue;
    double total = 0;
    for (int at = 0; at < vocab; at += SAMPLE_PART)
      total += exp_sum(e + at, x + at, vocab - at < SAMPLE_PART ? vocab - at : SAMPLE_PART, max, k);
    if (!(total > 0 && total < INFINITY)) continue; // also where there is a NaN
    double share = p * total;
    int n = places_from(e, vocab, (float)((1 - p) * total / vocab), place);
    memset(mass, 0, BUCKETS * sizeof *mass);
    for (int i = 0; i < n; i++) mass[bucket_of(max - x[place[i]], k)] += e[place[i]];
    int last = 0;
    double sum = 0;
    for (; last < BUCKETS - 1 && sum + mass[last] < share; last++) sum += mass[last];
    int ties = 0, kept = 0;
    for (int i = 0; i < n; i++) {
      int b = bucket_of(max - x[place[i]], k);
      if (b > last) continue;
      if (b == last) border[ties++] = (candidate){x[place[i]], e[place[i]], kept};
      place[kept++] = place[i];
    }
    qsort(border, ties, sizeof *border, likelier);
    double all = sum;
    for (int i = 0; i < ties; i++) {
      if (all < share)
        all += border[i].e;
      else
        place[border[i].at] = -1;
    }
    double want = u[r] * all, passed = 0;
    for (int i = 0; i < kept; i++) {
      if (place[i] < 0) continue;
      passed += e[place[i]];
      out[r] = place[i];
      if (passed > want) break;
    }
  }
}
