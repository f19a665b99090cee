// Kernels for a GPU: the kernels of norm.h, heads.h, logprobs.h, attend.h and sample.h, with the same arithmetic.
// gpu.c compiles them, behind params.h, when a GPU is first used. A block does a row unless its kernel says otherwise,
// and n is how many there are; sums have an order of their own, so that a result never changes. On a CPU,
// gpu_emulated.cpp runs them with blocks of one thread: no loop here depends on how many threads a block has.

#define KERNEL(name, params) GPU_ENTRY void name(params p, int64_t n)
#define ROW ((int64_t)blockIdx.x)
#define EACH(i, n) for (int64_t i = threadIdx.x; i < (n); i += blockDim.x)

__device__ float load(const void *x, int64_t i, int bf16) {
  if (bf16) return __uint_as_float((uint32_t)((const uint16_t *)x)[i] << 16);
  return ((const float *)x)[i];
}

__device__ void store(void *y, int64_t i, float v, int bf16) { // rounded to the nearest, ties to even
  if (!bf16) {
    ((float *)y)[i] = v;
    return;
  }
  uint32_t u = __float_as_uint(v);
  ((uint16_t *)y)[i] = v != v ? 0x7fc0 : (uint16_t)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

// Two values that follow each other, of which the second may not be there: then it is 0, and not stored.
struct twin {
  float a, b;
};

__device__ twin load2(const void *x, int64_t i, int bf16, int both) {
  twin t = {0, 0};
  if (bf16 && both && (i & 1) == 0) {
    word u = *(const word *)((const uint16_t *)x + i);
    t.a = __uint_as_float(u << 16);
    t.b = __uint_as_float(u & 0xffff0000u);
    return t;
  }
  t.a = load(x, i, bf16);
  if (both) t.b = load(x, i + 1, bf16);
  return t;
}

// One value of each of the queries that a block handles together.
struct __align__(16) column {
  float v[GPU_QUERIES];
};

// What a warp and a block have of their threads' values, of which join makes one of two. All threads get it.
#define OF_BLOCK(type, name, a, b, join)                                                                              \
  __device__ type name##_of_warp(type a) {                                                                            \
    for (int distance = WARP / 2; distance; distance /= 2) {                                                          \
      type b = __shfl_xor_sync(~0u, a, distance);                                                                     \
      a = join;                                                                                                       \
    }                                                                                                                 \
    return a;                                                                                                         \
  }                                                                                                                   \
  __device__ type name##_of_block(type mine) {                                                                        \
    __shared__ type part[32];                                                                                         \
    type a = name##_of_warp(mine);                                                                                    \
    __syncthreads();                                                                                                  \
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = a;                                                        \
    __syncthreads();                                                                                                  \
    a = part[0];                                                                                                      \
    for (int i = 1; i < blockDim.x / WARP; i++) {                                                                     \
      type b = part[i];                                                                                               \
      a = join;                                                                                                       \
    }                                                                                                                 \
    return a;                                                                                                         \
  }

OF_BLOCK(float, sum, a, b, a + b)
OF_BLOCK(double, total, a, b, a + b)
OF_BLOCK(float, most, a, b, a > b ? a : b)
OF_BLOCK(unsigned long long, whole, a, b, a + b)
OF_BLOCK(int64_t, least, a, b, a < b ? a : b)

// Norms.

__device__ void moments(const popri_rows &p, int64_t at, float *mean, float *scale) {
  float sum = 0, square = 0;
  EACH(i, p.n) sum += load(p.x, at + i, p.bf16);
  float m = sum_of_block(sum) / (float)p.n;
  EACH(i, p.n) {
    float v = load(p.x, at + i, p.bf16) - m;
    square += v * v;
  }
  *mean = m;
  *scale = 1.0f / sqrtf(sum_of_block(square) / (float)p.n + p.eps);
}

KERNEL(layernorm_rows, popri_rows) {
  float mean, scale;
  int64_t at = ROW * p.n;
  moments(p, at, &mean, &scale);
  EACH(i, p.n) store(p.y, at + i, (load(p.x, at + i, p.bf16) - mean) * scale * p.w[i] + p.b[i], p.bf16);
}

// A block does p.block rows, and what they add to the gradients of the weights.
// What the gradient for x has from elsewhere.
__device__ float more(const popri_rows &p, int64_t i) { return p.more ? load(p.more, i, p.bf16) : 0; }

KERNEL(layernorm_grad, popri_rows) {
  int64_t end = (ROW + 1) * p.block < p.rows ? (ROW + 1) * p.block : p.rows;
  float *dw = p.dw ? p.dw + 2 * ROW * p.n : 0;
  for (int64_t r = ROW * p.block; r < end; r++) {
    int64_t at = r * p.n;
    float mean, scale, sum = 0, dot = 0;
    moments(p, at, &mean, &scale);
    EACH(i, p.n) {
      float g = load(p.dy, at + i, p.bf16) * p.w[i];
      sum += g;
      dot += g * (load(p.x, at + i, p.bf16) - mean);
    }
    sum = sum_of_block(sum) / (float)p.n;
    dot = sum_of_block(dot) * scale / (float)p.n;
    EACH(i, p.n) {
      float u = (load(p.x, at + i, p.bf16) - mean) * scale, dy = load(p.dy, at + i, p.bf16);
      store(p.y, at + i, scale * (dy * p.w[i] - sum - u * dot) + more(p, at + i), p.bf16);
      if (dw) dw[i] += dy * u, dw[p.n + i] += dy;
    }
  }
}

KERNEL(rmsnorm_rows, popri_rows) {
  int64_t at = ROW * p.n;
  float square = 0;
  EACH(i, p.n) {
    float v = load(p.x, at + i, p.bf16);
    square += v * v;
  }
  float scale = 1.0f / sqrtf(sum_of_block(square) / (float)p.n + p.eps);
  EACH(i, p.n) store(p.y, at + i, load(p.x, at + i, p.bf16) * scale * p.w[i], p.bf16);
}

// A block does p.block rows, and what they add to the gradient of the weight.
KERNEL(rmsnorm_grad, popri_rows) {
  int64_t end = (ROW + 1) * p.block < p.rows ? (ROW + 1) * p.block : p.rows;
  float *dw = p.dw ? p.dw + ROW * p.n : 0;
  for (int64_t r = ROW * p.block; r < end; r++) {
    int64_t at = r * p.n;
    float square = 0, dot = 0;
    EACH(i, p.n) {
      float v = load(p.x, at + i, p.bf16);
      square += v * v;
      dot += v * load(p.dy, at + i, p.bf16) * p.w[i];
    }
    float scale = 1.0f / sqrtf(sum_of_block(square) / (float)p.n + p.eps);
    float back = scale * scale * scale * sum_of_block(dot) / (float)p.n;
    EACH(i, p.n) {
      float v = load(p.x, at + i, p.bf16), g = load(p.dy, at + i, p.bf16);
      store(p.y, at + i, scale * g * p.w[i] - back * v + more(p, at + i), p.bf16);
      if (dw) dw[i] += g * v * scale;
    }
  }
}

// Activations.

__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

KERNEL(swiglu_rows, popri_rows) {
  int64_t at = 2 * ROW * p.n;
  EACH(i, p.n) {
    float gate = load(p.x, at + i, p.bf16);
    store(p.y, ROW * p.n + i, gate * sigmoid(gate) * load(p.x, at + p.n + i, p.bf16), p.bf16);
  }
}

KERNEL(swiglu_grad, popri_rows) {
  int64_t at = 2 * ROW * p.n;
  EACH(i, p.n) {
    float gate = load(p.x, at + i, p.bf16), up = load(p.x, at + p.n + i, p.bf16), sig = sigmoid(gate);
    float g = load(p.dy, ROW * p.n + i, p.bf16);
    store(p.y, at + i, g * up * sig * (1 + gate * (1 - sig)), p.bf16);
    store(p.y, at + p.n + i, g * gate * sig, p.bf16);
  }
}

KERNEL(gelu_rows, popri_rows) {
  EACH(i, p.n) {
    float x = load(p.x, ROW * p.n + i, p.bf16);
    store(p.y, ROW * p.n + i, x * sigmoid(GELU_SCALE * x * (1 + GELU_CUBE * x * x)), p.bf16);
  }
}

KERNEL(gelu_grad, popri_rows) {
  EACH(i, p.n) {
    float x = load(p.x, ROW * p.n + i, p.bf16), cube = GELU_CUBE * x * x;
    float sig = sigmoid(GELU_SCALE * x * (1 + cube));
    float grad = sig * (1 + GELU_SCALE * x * (1 - sig) * (1 + 3 * cube));
    store(p.y, ROW * p.n + i, load(p.dy, ROW * p.n + i, p.bf16) * grad, p.bf16);
  }
}

// Dropout, of the elements that drop.h hides: NVRTC does not take its statement expression.
KERNEL(drop_rows, popri_drop) {
  uint64_t z = (uint64_t)*p.key + ((uint64_t)ROW + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  EACH(i, p.n) {
    uint32_t word = (uint32_t)i + (uint32_t)z;
    word = (word ^ (word >> 16)) * 0x7feb352du + (uint32_t)(z >> 32);
    word = (word ^ (word >> 15)) * 0x846ca68bu;
    word ^= word >> 16;
    int64_t at = ROW * p.n + i;
    store(p.y, at, word < p.limit ? 0 : load(p.x, at, p.bf16) * p.factor, p.bf16);
  }
}

// Heads: a block does a token.

__device__ void heads(const popri_heads &p, int back) {
  int64_t all = p.heads + 2 * p.kv_heads, b = ROW / p.tokens, t = ROW % p.tokens, half = p.dim / 2;
  int64_t angle = ROW % p.angles * p.dim;
  EACH(i, all * p.dim) {
    int64_t k = i / p.dim, d = i % p.dim;
    int64_t first = k < p.heads ? 0 : k < p.heads + p.kv_heads ? p.heads : p.heads + p.kv_heads;
    int64_t count = k < p.heads ? p.heads : p.kv_heads;
    void *part = k < p.heads ? p.q : k < p.heads + p.kv_heads ? p.k : p.v;
    int64_t joined = (ROW * all + k) * p.dim, split = ((b * count + k - first) * p.tokens + t) * p.dim;
    const void *from = back ? part : p.x;
    int64_t at = back ? split : joined;
    float v = from ? load(from, at + d, p.bf16) : 0;
    if (from && p.cosines && k < p.heads + p.kv_heads) {
      int64_t other = d < half ? d + half : d - half;
      float sine = load(p.sines, angle + (back ? other : d), p.bf16);
      v = v * load(p.cosines, angle + d, p.bf16) + load(from, at + other, p.bf16) * sine;
    }
    if (back)
      store(p.x, joined + d, v, p.bf16);
    else
      store(part, split + d, v, p.bf16);
  }
}

KERNEL(split_heads, popri_heads) { heads(p, 0); }

KERNEL(split_heads_grad, popri_heads) { heads(p, 1); }

KERNEL(rotate, popri_gpu_rotate) {
  int64_t half = p.dim / 2, angle = ROW % p.angles * p.dim;
  EACH(i, p.heads * half) {
    int64_t d = i % half;
    float *a = p.x + ROW * p.width + i / half * p.dim + d, u = a[0], v = a[half];
    a[0] = u * p.cosines[angle + d] + v * p.sines[angle + d];
    a[half] = v * p.cosines[angle + half + d] + u * p.sines[angle + half + d];
  }
}

// The softmax of scale·scores + mask, and its gradient.

KERNEL(softmax_rows, popri_softmax) {
  int64_t at = ROW * p.width;
  int64_t hidden = (ROW / p.batch_rows % p.masks * p.mask_rows + ROW % p.mask_rows) * p.width;
  float top = -INFINITY, sum = 0;
  EACH(i, p.width) {
    float v = load(p.scores, at + i, p.bf16) * p.scale + load(p.mask, hidden + i, p.bf16);
    top = v > top ? v : top;
  }
  top = most_of_block(top);
  EACH(i, p.width) sum += expf(load(p.scores, at + i, p.bf16) * p.scale + load(p.mask, hidden + i, p.bf16) - top);
  float scale = 1 / sum_of_block(sum);
  EACH(i, p.width) {
    float v = load(p.scores, at + i, p.bf16) * p.scale + load(p.mask, hidden + i, p.bf16) - top;
    store(p.y, at + i, expf(v) * scale, p.bf16);
  }
}

KERNEL(softmax_grad, popri_softmax) {
  int64_t at = ROW * p.width;
  float dot = 0;
  EACH(i, p.width) dot += load(p.y, at + i, p.bf16) * load(p.dy, at + i, p.bf16);
  dot = sum_of_block(dot);
  EACH(i, p.width)
    store(p.dx, at + i, load(p.y, at + i, p.bf16) * (load(p.dy, at + i, p.bf16) - dot) * p.scale, p.bf16);
}

// AdamW, as popri_adamw does it, and sums of squares: a block does GPU_ELEMENTS elements.

KERNEL(adamw, popri_gpu_adamw) {
  float decay = 1.0f - p.lr * p.wd, step = p.lr / p.c1, root = sqrtf(p.c2);
  int64_t from = ROW * GPU_ELEMENTS, to = from + GPU_ELEMENTS < n ? from + GPU_ELEMENTS : n;
  for (int64_t i = from + threadIdx.x; i < to; i += blockDim.x) {
    float g = p.g[i] * p.scale;
    float m = p.b1 * p.m[i] + (1.0f - p.b1) * g, v = p.b2 * p.v[i] + (1.0f - p.b2) * g * g;
    p.m[i] = m;
    p.v[i] = v;
    p.p[i] = p.p[i] * decay - step * m / (sqrtf(v) / root + p.eps);
  }
}

KERNEL(squares, popri_gpu_adamw) {
  int64_t from = ROW * GPU_ELEMENTS, to = from + GPU_ELEMENTS < n ? from + GPU_ELEMENTS : n;
  float sum = 0;
  for (int64_t i = from + threadIdx.x; i < to; i += blockDim.x) sum += p.g[i] * p.g[i];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) p.squares[ROW] = sum;
}

// Decoding: a block of one warp does a run and a head of keys. For the scores, a lane takes tokens that follow each
// other, for the outputs dimensions, and a value that is read serves all queries.

// Four values that follow each other, from a multiple of four on.
struct four {
  float v[4];
};

struct __align__(8) words {
  word a, b;
};

struct __align__(16) floats {
  float v[4];
};

__device__ four load4(const void *x, int64_t i, int bf16) {
  if (!bf16) {
    const floats *f = (const floats *)((const float *)x + i);
    return four{f->v[0], f->v[1], f->v[2], f->v[3]};
  }
  words u = *(const words *)((const uint16_t *)x + i);
  return four{__uint_as_float(u.a << 16), __uint_as_float(u.a & 0xffff0000u), __uint_as_float(u.b << 16),
              __uint_as_float(u.b & 0xffff0000u)};
}

// The queries from and up to of a run belong to one of its rows.
#define EACH_QUERY _Pragma("unroll") for (int j = 0; j < GPU_QUERIES; j++)
#define OF_ROW(j) ((j) >= from && (j) < to)

KERNEL(attend, popri_gpu_step) {
  const popri_cache &c = p.cache;
  int64_t kv = ROW % c.kv_heads, each = c.heads / c.kv_heads, dim = c.dim, width = (c.heads + 2 * c.kv_heads) * dim;
  const int64_t *run = p.runs + ROW / c.kv_heads * 3;
  int64_t first = run[1], queries = run[2];
  int row = (int)run[0];
  int64_t shared = (p.prefix[row] * c.kv_heads + kv) * dim * c.prefix_room;
  int before = (int)p.prefix_len[row];
  column *scores = (column *)p.scores + ROW * p.room;
  __shared__ column q[GPU_DIM]; // the queries, later the outputs

  EACH(i, GPU_QUERIES * dim) {
    int64_t j = i / dim, d = i % dim, h = first + j;
    q[d].v[j] = j < queries ? p.qkv[(row + h / each) * width + (kv * each + h % each) * dim + d] * c.scale : 0;
  }
  int last = row + (int)((first + queries - 1) / each); // the last row of which there is a query
  EACH(i, (last - row + 1) * dim) {
    int64_t r = row + i / dim, d = i % dim, own = (p.slot[r] * c.kv_heads + kv) * dim * c.suffix_room;
    const float *key = p.qkv + r * width + (c.heads + kv) * dim, *value = key + c.kv_heads * dim;
    store(c.suffix_k, own + d * c.suffix_room + p.suffix_len[r], key[d], c.bf16);
    store(c.suffix_v, own + p.suffix_len[r] * dim + d, value[d], c.bf16);
  }
  __syncthreads();

  for (int t = 4 * threadIdx.x; t < before; t += 4 * WARP) {
    column sums[4] = {};
#pragma unroll 4
    for (int d = 0; d < dim; d++) {
      four k = load4(c.prefix_k, shared + d * c.prefix_room + t, c.bf16);
      column l = q[d];
#pragma unroll
      for (int i = 0; i < 4; i++) EACH_QUERY sums[i].v[j] += l.v[j] * k.v[i];
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (t + i < before) scores[t + i] = sums[i];
  }
  int longest = 0; // tokens of a row of its own, at most
  int seen[GPU_QUERIES] = {};
  for (int r = row; r <= last; r++) {
    int64_t own = (p.slot[r] * c.kv_heads + kv) * dim * c.suffix_room;
    int length = (int)p.suffix_len[r] + 1;
    int from = (int)((r - row) * each - first), to = from + (int)each;
    longest = length > longest ? length : longest;
    EACH_QUERY if (OF_ROW(j) && j < queries) seen[j] = (int)(before + length);
    for (int t = 2 * threadIdx.x; t < length; t += 2 * WARP) {
      column a = {}, b = {};
#pragma unroll 4
      for (int d = 0; d < dim; d++) {
        twin k = load2(c.suffix_k, own + d * c.suffix_room + t, c.bf16, 1);
        column l = q[d];
        EACH_QUERY a.v[j] += l.v[j] * k.a, b.v[j] += l.v[j] * k.b;
      }
      EACH_QUERY if (OF_ROW(j)) {
        scores[before + t].v[j] = a.v[j];
        if (t + 1 < length) scores[before + t + 1].v[j] = b.v[j];
      }
    }
  }
  __syncthreads();

#define CAPPED(s) (c.cap > 0 ? c.cap * tanhf((s) / c.cap) : (s))
  column top, sum = {};
  EACH_QUERY top.v[j] = -INFINITY;
  EACH(t, before + longest) {
    column s = scores[t];
    EACH_QUERY if (t < seen[j]) {
      float v = CAPPED(s.v[j]);
      top.v[j] = v > top.v[j] ? v : top.v[j];
    }
  }
  EACH_QUERY top.v[j] = most_of_warp(top.v[j]);
  EACH(t, before + longest) {
    column s = scores[t];
    EACH_QUERY sum.v[j] += s.v[j] = t < seen[j] ? expf(CAPPED(s.v[j]) - top.v[j]) : 0;
    scores[t] = s;
  }
  EACH_QUERY sum.v[j] = sum_of_warp(sum.v[j]);
  __syncthreads();

  // Where a head is narrow, groups of lanes take every so manieth token.
  int lanes = (int)dim / 4, groups = WARP / lanes > 1 ? WARP / lanes : 1;
  for (int begin = 0; begin < dim; begin += 4 * WARP) {
    int group = threadIdx.x / lanes, d = begin + 4 * (threadIdx.x % lanes);
    column sums[4] = {};
    if (group < groups && d < dim) {
#pragma unroll 4
      for (int t = group; t < before; t += groups) {
        four v = load4(c.prefix_v, shared + t * dim + d, c.bf16);
        column s = scores[t];
#pragma unroll
        for (int i = 0; i < 4; i++) EACH_QUERY sums[i].v[j] += s.v[j] * v.v[i];
      }
      for (int r = row; r <= last; r++) {
        int64_t own = (p.slot[r] * c.kv_heads + kv) * dim * c.suffix_room;
        int from = (int)((r - row) * each - first), to = from + (int)each;
#pragma unroll 4
        for (int t = group; t <= p.suffix_len[r]; t += groups) {
          four v = load4(c.suffix_v, own + t * dim + d, c.bf16);
          column s = scores[before + t];
#pragma unroll
          for (int i = 0; i < 4; i++) EACH_QUERY sums[i].v[j] += OF_ROW(j) ? s.v[j] * v.v[i] : 0;
        }
      }
    }
    for (int g = 0; g < groups; g++) {
      if (group == g && d < dim) {
#pragma unroll
        for (int i = 0; i < 4; i++) EACH_QUERY q[d + i].v[j] = sums[i].v[j] / sum.v[j] + (g ? q[d + i].v[j] : 0);
      }
      __syncthreads();
    }
  }
  EACH(i, queries * dim) {
    int64_t j = i / dim, d = i % dim, h = first + j;
    p.out[((row + h / each) * c.heads + kv * each + h % each) * dim + d] = q[d].v[j];
  }
}

// Log-probabilities, and draws.

KERNEL(logprobs, popri_gpu_scores) {
  int64_t at = ROW * p.vocab, target = p.target[ROW];
  float top = -INFINITY, sum = 0, weighted = 0, plain = 0, higher = 0;
  EACH(i, p.vocab) {
    float v = load(p.logits, at + i, p.bf16);
    top = v > top ? v : top;
  }
  top = most_of_block(top);
  float own = load(p.logits, at + target, p.bf16), base = top > -INFINITY ? top : 0;
  EACH(i, p.vocab) {
    float v = load(p.logits, at + i, p.bf16), d = v - base, e = expf(d);
    sum += e;
    if (d >= -87.0f) weighted += e * d;
    plain += v;
    higher += i < target ? v >= own : v > own;
  }
  double all = total_of_block(sum);
  weighted = sum_of_block(weighted);
  plain = sum_of_block(plain);
  higher = sum_of_block(higher);
  if (threadIdx.x) return;
  int bad = !(top > -INFINITY && top < INFINITY && all > 0);
  float norm = top + (float)log(all);
  p.out[ROW] = bad ? NAN : own - norm;
  p.normaliser[ROW] = norm;
  if (p.rank) p.rank[ROW] = bad ? (float)p.vocab : higher;
  if (p.entropy) p.entropy[ROW] = bad ? NAN : (float)(log(all) - weighted / all);
  if (p.mean) p.mean[ROW] = bad ? NAN : plain / (float)p.vocab;
}

KERNEL(logprobs_grad, popri_gpu_scores) {
  int64_t at = ROW * p.vocab, target = p.target[ROW];
  float weight = p.weight[ROW], norm = p.normaliser[ROW];
  EACH(i, p.vocab) {
    float prob = expf(load(p.logits, at + i, p.bf16) - norm);
    store(p.logits, at + i, weight * ((i == target) - prob), p.bf16);
  }
}

// Larger numbers for larger floats.
__device__ uint32_t order_key(float x) {
  uint32_t u = __float_as_uint(x);
  return u >> 31 ? ~u : u | 0x80000000u;
}

// Draws as popri_sample and popri_sample_top do. Weights are multiples of 2^-44, whose sums do not depend on the order.
// The smallest kept logit is found by a radix search over order keys; of equal ones, the first ids are kept.
enum { DIGITS = 11, BINS = 1 << DIGITS };

KERNEL(sample, popri_gpu_draws) {
  float *x = p.logits + ROW * p.vocab;
  double u = p.u[ROW];
  if (p.ban && p.ban[ROW]) EACH(i, p.bans) x[p.banned[i]] = -INFINITY;
  __syncthreads();
  float top = -INFINITY, nan = 0;
  EACH(i, p.vocab) {
    top = x[i] > top ? x[i] : top;
    nan += x[i] != x[i];
  }
  top = most_of_block(top);
  nan = sum_of_block(nan);
  if (nan > 0 || !(top > -INFINITY && top < INFINITY)) {
    if (threadIdx.x == 0) p.drawn[ROW] = -1;
    return;
  }
  if (u < 0) {
    int64_t id = p.vocab;
    EACH(i, p.vocab) if (x[i] == top && i < id) id = i;
    id = least_of_block(id);
    if (threadIdx.x == 0) p.drawn[ROW] = id;
    return;
  }
#define MASS(x) ((unsigned long long)(exp((double)((x) - top) * p.k) * 17592186044416.0)) // 2^44

  // Tokens with a key above from are kept, and of those with the key from, ids up to last.
  uint32_t from = 0;
  int64_t last = p.vocab;
  if (p.p < 1) {
    __shared__ unsigned long long mass[BINS];
    __shared__ unsigned long long above, want;
    __shared__ uint32_t found;
    for (int shift = 32 - DIGITS, digit = 0; digit < 3; digit++, shift = shift > DIGITS ? shift - DIGITS : 0) {
      int bits = digit < 2 ? DIGITS : 32 - 2 * DIGITS;
      EACH(i, BINS) mass[i] = 0;
      if (threadIdx.x == 0 && digit == 0) above = 0;
      __syncthreads();
      EACH(i, p.vocab) {
        uint32_t at = order_key(x[i]);
        if (digit && at >> (shift + bits) != from) continue;
        unsigned long long own = MASS(x[i]);
        if (own) atomicAdd(&mass[(at >> shift) & ((1 << bits) - 1)], own);
      }
      __syncthreads();
      if (threadIdx.x == 0) {
        if (digit == 0) {
          unsigned long long all = 0;
          for (int i = 0; i < BINS; i++) all += mass[i];
          want = (unsigned long long)(p.p * (double)all);
        }
        int i = (1 << bits) - 1;
        for (; i > 0 && above + mass[i] < want; i--) above += mass[i];
        found = i;
      }
      __syncthreads();
      from = from << bits | found;
    }
    // Tokens with the key from have one weight: as many are kept as are missing, the first ids.
    __shared__ int64_t missing;
    if (threadIdx.x == 0) {
      unsigned long long own = MASS(__uint_as_float(from >> 31 ? from & 0x7fffffffu : ~from));
      missing = (int64_t)((want - above + own - 1) / own);
    }
    __syncthreads();
    int64_t low = -1, high = p.vocab - 1; // of the ids up to low there are too few, up to high there are enough
    while (high - low > 1) {
      int64_t middle = low + (high - low) / 2;
      double held = 0;
      EACH(i, middle + 1) held += order_key(x[i]) == from;
      if (total_of_block(held) < (double)missing)
        low = middle;
      else
        high = middle;
    }
    last = high;
  }
#define KEPT(i) (x[i] > -INFINITY && (order_key(x[i]) > from || (order_key(x[i]) == from && (i) <= last)))

  // Each warp adds up a part of the ids; the one whose part u falls into looks for the token.
  __shared__ unsigned long long part[32];
  int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
  int64_t size = (p.vocab + warps - 1) / warps, begin = warp * size;
  int64_t end = begin + size < p.vocab ? begin + size : p.vocab;
  unsigned long long mine = 0;
  for (int64_t i = begin + lane; i < end; i += WARP)
    if (KEPT(i)) mine += MASS(x[i]);
  mine = whole_of_warp(mine);
  if (lane == 0) part[warp] = mine;
  __syncthreads();
  unsigned long long all = 0, passed = 0;
  int at = 0;
  for (int i = 0; i < warps; i++) all += part[i];
  unsigned long long wanted = (unsigned long long)(u * (double)all);
  if (wanted >= all) wanted = all - 1;
  for (; at < warps - 1 && passed + part[at] <= wanted; at++) passed += part[at];
  if (warp != at) return;
  for (int64_t i = begin; i < end; i += WARP) {
    int64_t id = i + lane;
    unsigned long long own = id < end && KEPT(id) ? MASS(x[id]) : 0, upto = own;
    for (int distance = 1; distance < WARP; distance *= 2) {
      unsigned long long before = __shfl_up_sync(~0u, upto, distance);
      if (lane >= distance) upto += before;
    }
    if (passed + upto > wanted && passed + upto - own <= wanted) p.drawn[ROW] = id;
    passed += __shfl_sync(~0u, upto, WARP - 1);
    if (passed > wanted) return;
  }
}
