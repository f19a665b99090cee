// Log-probabilities of targets. Included by kernels.h.
#define CHUNK 2048

static void widen(float *restrict out, const uint16_t *restrict x, int n) {
  for (int i = 0; i < n; i++) out[i] = from_bf16(x[i]);
}

// Overwrites n logits with -weight · softmax.
INLINE void softmax_grad(void *x, int n, float normaliser, float weight, int bf16) {
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    floats y = load(x, i, bf16), sum = {0};
    exp_floats((const float *)&y, normaliser, 1.0f, (float *)&y, &sum);
    store_floats(x, i, -weight * y, bf16);
  }
  for (; i < n; i++) store(x, i, -weight * fast_exp(value(x, i, bf16) - normaliser), bf16);
}

// The number of x above y.
static int above(const float *restrict x, int n, float y) {
  int count = 0;
  for (int i = 0; i < n; i++) count += x[i] > y;
  return count;
}

// The number of x not below y.
static int not_below(const float *restrict x, int n, float y) {
  int count = 0;
  for (int i = 0; i < n; i++) count += x[i] >= y;
  return count;
}

// Σ e·(x − max) over what is not vanishingly small; fast_exp is not 0 even for -INFINITY.
static float weighted_sum(const float *restrict e, const float *restrict x, int n, float max) {
  floats part = {0};
  int i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) part[k] += x[i + k] - max < -87 ? 0 : e[i + k] * (x[i + k] - max);
  float total = 0;
  for (; i < n; i++) total += x[i] - max < -87 ? 0 : e[i] * (x[i] - max);
  for (int j = 0; j < LANES; j++) total += part[j];
  return total;
}

// For the rows [from, to) of logits [n, vocab], float32 or bfloat16: the log-probability of the target, the log of the
// normaliser, and (where not null) the target's rank and the distribution's entropy. The rank counts the likelier
// tokens, and of equally likely ones those with lower ids. A row that is not finite yields NaN and the rank vocab.
void popri_logprobs(int64_t from, int64_t to, int vocab, const void *logits, int bf16, const int32_t *target,
                    float *out, float *normaliser, int32_t *rank, float *entropy) {
  OPERATION("popri::logprobs");
  float wide[CHUNK], e[CHUNK];
  for (int64_t r = from; r < to; r++) {
    const float *xf = (const float *)logits + r * vocab;
    const uint16_t *xb = (const uint16_t *)logits + r * vocab;
    float max = -INFINITY;
    double total = 0, weighted = 0;
    // One pass over the row: the sums are of e^(x − max) for the greatest logit so far.
    for (int at = 0; at < vocab; at += CHUNK) {
      int n = vocab - at < CHUNK ? vocab - at : CHUNK;
      if (bf16) widen(wide, xb + at, n);
      const float *part = bf16 ? wide : xf + at;
      float m = max_of(part, n);
      if (m > max) {
        // What came before is smaller by e^(max − m): by all of it, if it was minus infinity. NaN stays.
        double smaller = max == -INFINITY ? 0 : exp((double)max - m);
        weighted = smaller > 0 ? smaller * (weighted + ((double)max - m) * total) : 0;
        total *= smaller;
        max = m;
      }
      total += exp_sum(e, part, n, max == -INFINITY ? 0 : max, 1.0f);
      if (entropy && max > -INFINITY) weighted += weighted_sum(e, part, n, max);
    }
    int bad = !(max > -INFINITY && max < INFINITY && total > 0);
    float norm = max + (float)log(total);
    float x = bf16 ? from_bf16(xb[target[r]]) : xf[target[r]];
    out[r] = bad ? NAN : x - norm;
    normaliser[r] = norm;
    if (entropy) entropy[r] = bad ? NAN : (float)(log(total) - weighted / total);
    if (rank) {
      rank[r] = 0;
      for (int at = 0; at < vocab; at += CHUNK) {
        int n = vocab - at < CHUNK ? vocab - at : CHUNK;
        if (bf16) widen(wide, xb + at, n);
        const float *part = bf16 ? wide : xf + at;
        int before = target[r] - at < 0 ? 0 : target[r] - at < n ? target[r] - at : n;
        rank[r] += not_below(part, before, x) + above(part + before, n - before, x);
      }
      if (bad) rank[r] = vocab;
    }
  }
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
