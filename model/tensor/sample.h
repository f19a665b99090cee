// Draws of tokens. Included by kernels.h.
#include <stdlib.h>
#include <string.h>

// The first maximum of a row, or -1 where it has a NaN or no finite maximum.
static int32_t first_maximum(const float *x, int n) {
  float max = max_of(x, n);
  int nan = 0;
  for (int i = 0; i < n; i++) nan |= x[i] != x[i];
  if (nan || !(max > -INFINITY && max < INFINITY)) return -1;
  for (int32_t i = 0;; i++)
    if (x[i] == max) return i;
}

INLINE float largest_of(floats v) {
  float x[LANES];
  *(floats *)x = v;
  for (int n = LANES / 2; n > 0; n /= 2)
    for (int i = 0; i < n; i++) x[i] = x[i] > x[i + n] ? x[i] : x[i + n];
  return x[0];
}

INLINE float sum_of(floats v) {
  float x[LANES];
  *(floats *)x = v;
  for (int n = LANES / 2; n > 0; n /= 2)
    for (int i = 0; i < n; i++) x[i] += x[i + n];
  return x[0];
}

// A draw looks at the parts of a row, SAMPLE_PART values each but for the last one: first at the largest value of each
// part and at the sum of its exponentials relative to that value, then at the part that u falls into. popri_sample_part
// writes both for n values of each of some rows, which are stride apart, parts apart. e has room for n values.
void popri_sample_part(int rows, const float *logits, int64_t stride, int n, float k, float *top, float *sum,
                       int64_t parts, float *e) {
  for (int r = 0; r < rows; r++, logits += stride, top += parts, sum += parts) {
    floats most = (floats){0} - INFINITY, all = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
      floats x = *(const floats *)(logits + i);
      ints more = x > most;
      most = (floats)(((ints)x & more) | ((ints)most & ~more));
    }
    float max = largest_of(most);
    for (; i < n; i++) max = logits[i] > max ? logits[i] : max;
    *top = max, *sum = 0;
    // A part of nothing but minus infinity has no exponentials; one with a NaN beside that has none either.
    if (max == -INFINITY) {
      for (i = 0; i < n; i++) *sum += logits[i] != logits[i] ? logits[i] : 0;
      continue;
    }
    for (i = 0; i + LANES <= n; i += LANES) exp_floats(logits + i, max, k, e + i, &all);
    *sum = sum_of(all);
    for (; i < n; i++) *sum += fast_exp((logits[i] - max) * k);
  }
}

// The part of a row that u in [0, 1) falls into, or -1 where the row has a NaN or no finite maximum; *rest is what u
// leaves of it, in units of the part's exponentials. sum becomes the weights of the parts. e has room for one value a
// part.
int popri_sample_choose(const float *top, float *sum, int parts, float k, double u, double *rest, float *e) {
  float max = max_of(top, parts);
  if (!(max > -INFINITY && max < INFINITY)) return -1;
  exp_sum(e, top, parts, max, k);
  double total = 0;
  for (int p = 0; p < parts; p++) total += sum[p] *= e[p];
  if (!(total > 0 && total < INFINITY)) return -1;
  double want = u * total;
  int last = -1; // the last part with anything in it
  for (int p = 0; p < parts; p++) {
    if (sum[p] == 0) continue;
    last = p;
    if (sum[p] > want) break;
    want -= sum[p];
  }
  *rest = want / e[last];
  return last;
}

// The index in a part of n values, whose maximum is top, at which the sum of exponentials passes rest.
int popri_sample_pick(const float *x, int n, float top, float k, double rest, float *e) {
  exp_sum(e, x, n, top, k);
  double passed = 0;
  int at = 0;
  for (int i = 0; i < n; i++) {
    if (x[i] == -INFINITY) continue;
    passed += e[i];
    at = i;
    if (passed > rest) break;
  }
  return at;
}

// Draws one token a row by inverting the cumulative softmax at u in [0, 1); u < 0 takes the first maximum. A row
// without a finite maximum yields -1. scratch has room for three floats a part and one part.
void popri_sample(int from, int to, int vocab, const float *logits, float k, const double *u, int32_t *out,
                  float *scratch) {
  OPERATION("popri::sample");
  int parts = (vocab + SAMPLE_PART - 1) / SAMPLE_PART;
  float *top = scratch, *sum = scratch + parts, *e = scratch + 2 * parts;
  for (int r = from; r < to; r++) {
    const float *x = logits + (int64_t)r * vocab;
    if (u[r] < 0) {
      out[r] = first_maximum(x, vocab);
      continue;
    }
    for (int p = 0; p < parts; p++) {
      int at = p * SAMPLE_PART;
      popri_sample_part(1, x + at, 0, vocab - at < SAMPLE_PART ? vocab - at : SAMPLE_PART, k, top + p, sum + p, 0, e);
    }
    double rest;
    int p = popri_sample_choose(top, sum, parts, k, u[r], &rest, e), at = p * SAMPLE_PART;
    int n = vocab - at < SAMPLE_PART ? vocab - at : SAMPLE_PART;
    out[r] = p < 0 ? -1 : at + popri_sample_pick(x + at, n, top[p], k, rest, e);
  }
}

// Lists the indices of the elements of x that are at least least, in order, and returns how many there are.
static int indices_from(const float *x, int n, float least, int32_t *index) {
  enum { STEP = 8 * LANES };
  int found = 0, i = 0;
  for (; i + STEP <= n; i += STEP) {
    ints near = {0};
    for (int k = 0; k < STEP; k += LANES) near |= *(const floats *)(x + i + k) >= least;
    int any = 0;
    for (int k = 0; k < LANES; k++) any |= near[k];
    for (int k = 0; any && k < STEP; k++) {
      index[found] = i + k;
      found += x[i + k] >= least;
    }
  }
  for (; i < n; i++) {
    index[found] = i;
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

enum { TOP_PART = 4096 }; // values whose exponentials popri_sample_top adds up at once

// As in truncate.go: a bucket is 1/32 of a nat wide, and the last one has all larger distances.
enum { BUCKETS = 2048, PER_NAT = 32 };

static int bucket_of(float distance, float k) {
  float d = distance * k * PER_NAT;
  return d < BUCKETS - 1 ? (int)d : BUCKETS - 1;
}

int64_t popri_sample_top_scratch(int vocab) {
  return (int64_t)vocab * (sizeof(float) + sizeof(int32_t) + sizeof(candidate)) + BUCKETS * sizeof(double) + 64;
}

// Draws as popri_sample does, from the smallest set of the likeliest tokens whose probability reaches p < 1 (top_p).
// Ties at the border go to the lower id. All tokens whose probability is below (1-p)/vocab hold less than 1-p
// together, so the set is among the others, which are few, and only those at its border are sorted.
void popri_sample_top(int from, int to, int vocab, const float *logits, float k, double p, const double *u,
                      int32_t *out, void *scratch) {
  OPERATION("popri::sample");
  double *mass = scratch;
  candidate *border = (candidate *)(mass + BUCKETS);
  float *e = (float *)(border + vocab);
  int32_t *index = (int32_t *)(e + vocab);
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
    for (int at = 0; at < vocab; at += TOP_PART)
      total += exp_sum(e + at, x + at, vocab - at < TOP_PART ? vocab - at : TOP_PART, max, k);
    if (!(total > 0 && total < INFINITY)) continue; // also where there is a NaN
    double kept_mass = p * total;
    int n = indices_from(e, vocab, (float)((1 - p) * total / vocab), index);
    memset(mass, 0, BUCKETS * sizeof *mass);
    for (int i = 0; i < n; i++) mass[bucket_of(max - x[index[i]], k)] += e[index[i]];
    int last = 0;
    double sum = 0;
    for (; last < BUCKETS - 1 && sum + mass[last] < kept_mass; last++) sum += mass[last];
    int ties = 0, kept = 0;
    for (int i = 0; i < n; i++) {
      int b = bucket_of(max - x[index[i]], k);
      if (b > last) continue;
      if (b == last) border[ties++] = (candidate){x[index[i]], e[index[i]], kept};
      index[kept++] = index[i];
    }
    qsort(border, ties, sizeof *border, likelier);
    double all = sum;
    for (int i = 0; i < ties; i++) {
      if (all < kept_mass)
        all += border[i].e;
      else
        index[border[i].at] = -1;
    }
    double want = u[r] * all, passed = 0;
    for (int i = 0; i < kept; i++) {
      if (index[i] < 0) continue;
      passed += e[index[i]];
      out[r] = index[i];
      if (passed > want) break;
    }
  }
}
