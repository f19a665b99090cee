// Log-probabilities of targets. Included by kernels.h.
#define CHUNK 2048

// Overwrites n logits with -weight · softmax.
INLINE void softmax_grad(void *x, int n, float normaliser, float weight, int bf16) {
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    floats y = load(x, i, bf16), sum = {0};
    soon(x, i + AHEAD, bf16);
    exp_floats((const float *)&y, normaliser, 1.0f, (float *)&y, &sum);
    store_floats(x, i, -weight * y, bf16);
  }
  for (; i < n; i++) store(x, i, -weight * fast_exp(value(x, i, bf16) - normaliser), bf16);
}

// The largest of n logits; NaN counts as none.
INLINE float max_logit(const void *x, int64_t at, int n, int bf16) {
  floats best = {0};
  best -= INFINITY;
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    floats v = load(x, at + i, bf16);
    soon(x, at + i + AHEAD, bf16);
    ints more = v > best;
    best = (floats)(((ints)v & more) | ((ints)best & ~more));
  }
  float max = -INFINITY;
  for (int k = 0; k < LANES; k++) max = best[k] > max ? best[k] : max;
  for (; i < n; i++) {
    float v = value(x, at + i, bf16);
    max = v > max ? v : max;
  }
  return max;
}

typedef struct {
  double total, weighted, plain; // Σ e, Σ e·(x − max) and Σ x, with e = exp(x − max)
} logit_sums;

// The sums over n logits, the last two where all are wanted.
INLINE logit_sums sums_of(const void *x, int64_t at, int n, int bf16, float max, int all) {
  floats total = {0}, weighted = {0}, plain = {0};
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    floats v = load(x, at + i, bf16), e, d = v - max;
    exp_floats((const float *)&v, max, 1.0f, (float *)&e, &total);
    if (!all) continue;
    weighted += (floats)((ints)(e * d) & ~(d < -87.0f)); // e is not 0 even for -INFINITY
    plain += v;
  }
  logit_sums s = {0};
  for (; i < n; i++) {
    float v = value(x, at + i, bf16), d = v - max, e = fast_exp(d);
    s.total += e;
    s.weighted += d < -87.0f ? 0 : e * d;
    s.plain += v;
  }
  for (int k = 0; k < LANES; k++) s.total += total[k], s.weighted += weighted[k], s.plain += plain[k];
  return s;
}

// How many of n logits are above y, or as high where those count.
INLINE int above(const void *x, int64_t at, int n, int bf16, float y, int equal) {
  ints counts = {0};
  int i = 0, count = 0;
  for (; i + LANES <= n; i += LANES) {
    floats v = load(x, at + i, bf16);
    counts -= equal ? v >= y : v > y;
  }
  for (; i < n; i++) {
    float v = value(x, at + i, bf16);
    count += equal ? v >= y : v > y;
  }
  for (int k = 0; k < LANES; k++) count += counts[k];
  return count;
}

INLINE void logprobs(int64_t from, int64_t to, int64_t vocab, const void *logits, int bf16, const int32_t *target,
                     float *out, float *normaliser, int32_t *rank, float *entropy, float *mean) {
  for (int64_t r = from; r < to; r++) {
    int64_t row = r * vocab;
    float max = -INFINITY;
    logit_sums all = {0};
    // One pass over memory, part by part: the sums are of e^(x − max) for the greatest logit so far.
    for (int64_t at = 0; at < vocab; at += CHUNK) {
      int n = vocab - at < CHUNK ? (int)(vocab - at) : CHUNK;
      float m = max_logit(logits, row + at, n, bf16);
      if (m > max) {
        // What came before is smaller by e^(max − m): by all of it, if it was minus infinity. NaN stays.
        double smaller = max == -INFINITY ? 0 : exp((double)max - m);
        all.weighted = smaller > 0 ? smaller * (all.weighted + ((double)max - m) * all.total) : 0;
        all.total *= smaller;
        max = m;
      }
      logit_sums s = sums_of(logits, row + at, n, bf16, max == -INFINITY ? 0 : max, entropy != 0);
      all.total += s.total;
      if (max > -INFINITY) all.weighted += s.weighted;
      all.plain += s.plain;
    }
    int bad = !(max > -INFINITY && max < INFINITY && all.total > 0);
    float norm = max + (float)log(all.total);
    float x = value(logits, row + target[r], bf16);
    out[r] = bad ? NAN : x - norm;
    normaliser[r] = norm;
    if (entropy) entropy[r] = bad ? NAN : (float)(log(all.total) - all.weighted / all.total);
    if (mean) mean[r] = bad ? NAN : (float)(all.plain / (double)vocab);
    if (!rank) continue;
    rank[r] = bad ? (int32_t)vocab
                  : above(logits, row, target[r], bf16, x, 1) +
                        above(logits, row + target[r], (int)(vocab - target[r]), bf16, x, 0);
  }
}

// For the rows [from, to) of logits [n, vocab], float32 or bfloat16: the log-probability of the target, the log of the
// normaliser, and (where not null) the target's rank, the distribution's entropy and, only with it, the mean logit. The
// rank counts the likelier tokens, and of equally likely ones those with lower ids. A row that is not finite yields NaN
// and the rank vocab.
void popri_logprobs(int64_t from, int64_t to, int vocab, const void *logits, int bf16, const int32_t *target,
                    float *out, float *normaliser, int32_t *rank, float *entropy, float *mean) {
  OPERATION("popri::logprobs");
  if (bf16)
    logprobs(from, to, vocab, logits, 1, target, out, normaliser, rank, entropy, mean);
  else
    logprobs(from, to, vocab, logits, 0, target, out, normaliser, rank, entropy, mean);
}

// Overwrites the rows [from, to) of logits with weight · d logprob(target) / d logits = weight · (one-hot - softmax).
void popri_logprobs_grad(int64_t from, int64_t to, int vocab, void *logits, int bf16, const int32_t *target,
                         const float *normaliser, const float *weight) {
  OPERATION("popri::logprobs_grad");
  for (int64_t r = from; r < to; r++) {
    void *x = (char *)logits + r * vocab * (bf16 ? sizeof(uint16_t) : sizeof(float));
    float own = weight[r] * (1.0f - fast_exp(value(x, target[r], bf16) - normaliser[r]));
    if (bf16)
      softmax_grad(x, vocab, normaliser[r], weight[r], 1);
    else
      softmax_grad(x, vocab, normaliser[r], weight[r], 0);
    store(x, target[r], own, bf16);
  }
}
