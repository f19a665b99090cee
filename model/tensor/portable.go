package tensor

// #include "torch.h"
import "C"

import (
	"math"
	"slices"

	"popri/internal/numeric"
)

// The kernels of this package as operations of libtorch, for a GPU that cannot take kernels.cu, and for what has no
// kernel there: see [Scope.fused]. Everything stays on the tensors' device; one number for each row returns to the host.

// portable is [DecodeCache.Attend]. The rows that share a prompt are one product with its keys and one with its values
// (Juravsky et al. 2024, Hydragen); each row's own part is a product by itself; one softmax covers both.
func (c *DecodeCache) portable(s *Scope, qkv Tensor, rows Rows) Tensor {
	n, kv, group, d := int64(len(rows.Slot)), int64(c.KVHeads), int64(c.Heads/c.KVHeads), int64(c.Dim)
	if n == 0 {
		return s.Zeros(Float32, 0, int64(c.Heads)*d)
	}
	g := groupRows(rows)
	// All indices go to the device at once.
	sent := s.FromInt64(slices.Concat(g.slot, g.suffixLen, g.at, g.prefix, g.prefixLen, g.row),
		int64(3*len(rows.Slot)+2*len(g.prefix)+len(g.row)))
	from := int64(0)
	take := func(list []int64) Tensor {
		from += int64(len(list))
		return s.Narrow(sent, 0, from-int64(len(list)), int64(len(list)))
	}
	slot, suffixLen, at, prefix, prefixLen, row := take(g.slot), take(g.suffixLen), take(g.at), take(g.prefix),
		take(g.prefixLen), take(g.row)

	x := s.Narrow(s.View(qkv, -1, int64(c.Heads)+2*kv, d), 0, 0, n)
	q := s.MulScalar(s.Narrow(x, 1, 0, kv*group), float64(c.Scale)) // [n, Heads, d]
	s.indexPut(c.SuffixK, s.To(s.Narrow(x, 1, kv*group, kv), c.DType), slot, Tensor{}, Tensor{}, suffixLen)
	s.indexPut(c.SuffixV, s.To(s.Narrow(x, 1, kv*group+kv, kv), c.DType), slot, Tensor{}, suffixLen)

	// Memory behind a length may hold anything, also NaN.
	nothing, zero := s.Full(Float32, math.Inf(-1), 1), s.Zeros(Float32, 1)
	part := func(keys, values, which, lengths Tensor, longest int64, q Tensor) (scores, v Tensor) {
		count := which.Size(0)
		k := s.To(s.IndexSelect(s.Narrow(keys, 3, 0, longest), 0, which), Float32)
		v = s.To(s.IndexSelect(s.Narrow(values, 2, 0, longest), 0, which), Float32)
		held := s.greater(s.View(lengths, count, 1), s.Arange(0, longest)) // [count, longest]
		scores = s.MatMul(q, k)
		if c.Cap != 0 {
			scores = s.Capped(scores, float64(c.Cap))
		}
		scores = s.Where(s.View(held, count, 1, 1, longest), scores, nothing)
		return scores, s.Where(s.View(held, count, 1, longest, 1), v, zero)
	}
	own, ownV := part(c.SuffixK, c.SuffixV, slot, s.AddScalar(suffixLen, 1), slices.Max(g.suffixLen)+1,
		s.View(q, n, kv, group, d))
	longest := max(1, slices.Max(g.prefixLen))
	if c.Whole {
		longest = int64(c.PrefixRoom)
	}
	shared, sharedV := part(c.PrefixK, c.PrefixV, prefix, prefixLen, longest, g.gather(s, s.View(q, n, kv, group, d), row))
	shared = g.scatter(s, shared, at, group)

	p := s.Softmax(s.Cat(-1, shared, own), -1)
	y := g.scatter(s, s.MatMul(g.gather(s, s.Narrow(p, -1, 0, longest), row), sharedV), at, group)
	y = s.Add(y, s.MatMul(s.Narrow(p, -1, longest, own.Size(-1)), ownV))
	return s.View(y, n, int64(c.Heads)*d)
}

// grouped lists a step's rows by the prompt that they share.
type grouped struct {
	slot, suffixLen   []int64 // of each row
	prefix, prefixLen []int64 // of each prompt that occurs
	row               []int64 // [prompts, widest]: the rows of each prompt, padded with any row
	at                []int64 // of each row: its index in row
}

func groupRows(rows Rows) grouped {
	var g grouped
	number := map[int32]int{}
	var members [][]int64
	for i, p := range rows.Prefix {
		g.slot, g.suffixLen = append(g.slot, int64(rows.Slot[i])), append(g.suffixLen, int64(rows.SuffixLen[i]))
		if _, known := number[p]; !known {
			number[p] = len(members)
			g.prefix, g.prefixLen = append(g.prefix, int64(p)), append(g.prefixLen, int64(rows.PrefixLen[i]))
			members = append(members, nil)
		}
		members[number[p]] = append(members[number[p]], int64(i))
	}
	widest := numeric.Greatest(members, func(m []int64) int { return len(m) })
	g.row, g.at = make([]int64, len(members)*widest), make([]int64, len(rows.Prefix))
	for k, m := range members {
		for j, i := range m {
			g.row[k*widest+j], g.at[i] = i, int64(k*widest+j)
		}
	}
	return g
}

// gather puts x [rows, KV, group, …] into one batch for each prompt, [prompts, KV, widest·group, …].
func (g grouped) gather(s *Scope, x, row Tensor) Tensor {
	shape := x.Shape()
	prompts := int64(len(g.prefix))
	x = s.View(s.IndexSelect(x, 0, row), prompts, -1, shape[1], shape[2], shape[3])
	return s.Reshape(s.Permute(x, 0, 2, 1, 3, 4), prompts, shape[1], -1, shape[3])
}

// scatter is the inverse of gather.
func (g grouped) scatter(s *Scope, x, at Tensor, group int64) Tensor {
	shape := x.Shape()
	x = s.Permute(s.View(x, shape[0], shape[1], -1, group, shape[3]), 0, 2, 1, 3, 4)
	return s.IndexSelect(s.Reshape(x, -1, shape[1], group, shape[3]), 0, at)
}

// sampledAtOnce bounds the logits of one draw: each needs a few numbers of 8 bytes.
const sampledAtOnce = 1 << 24

// portable is [Sampler.Draw], in float64.
func (d *Sampler) portable(s *Scope, logits Tensor, u []float64, ban []bool, out []int32) {
	step := max(1, sampledAtOnce/int(logits.Size(1)))
	for from := 0; from < len(u); from += step {
		to := min(from+step, len(u))
		s.Do(func() {
			x := s.Narrow(logits, 0, int64(from), int64(to-from))
			if ban != nil {
				x = d.without(s, x, ban[from:to])
			}
			for i, id := range d.draw(s, x, u[from:to]) {
				out[from+i] = int32(id)
			}
		})
	}
}

// without sets the banned tokens' logits to minus infinity in the rows that ask for it.
func (d *Sampler) without(s *Scope, x Tensor, ban []bool) Tensor {
	if len(d.Banned) == 0 || !slices.Contains(ban, true) {
		return x
	}
	banned := make([]bool, x.Size(1))
	for _, id := range d.Banned {
		banned[id] = true
	}
	out := s.Mul(s.FromBools(ban, int64(len(ban)), 1), s.FromBools(banned, int64(len(banned))))
	return s.Where(out, s.Full(Float32, math.Inf(-1), 1), x)
}

func (d *Sampler) draw(s *Scope, x Tensor, u []float64) []int64 {
	v := x.Size(1)
	ids, none, end := s.Arange(0, v), s.Full(Int64, -1, 1), s.Full(Int64, float64(v), 1)
	top := s.reduce(x, maximum) // [n, 1]; NaN where the row has one
	id := s.reduce(s.Where(s.equal(x, top), ids, end), minimum)
	if slices.Max(u) >= 0 {
		temperature := d.Temperature
		if temperature <= 0 {
			temperature = 1
		}
		x = d.truncate(s, x, top, temperature)
		cumulated := s.cumSum(s.weights(x, top, temperature))
		at := s.fromFloat64(u, int64(len(u)), 1)
		want := s.Mul(at, s.Narrow(cumulated, 1, v-1, 1))
		// The first token beyond u, else (u is nearly 1) the last one that is left.
		left := s.isFinite(x)
		drawn := s.reduce(s.Where(s.Mul(left, s.greater(cumulated, want)), ids, end), minimum)
		drawn = s.Where(s.equal(drawn, end), s.reduce(s.Where(left, ids, none), maximum), drawn)
		id = s.Where(s.greater(s.Zeros(Float64, 1), at), id, drawn)
	}
	return s.Int64s(s.Where(s.isFinite(top), id, none))
}

// weights is exp((x-top)/temperature), float64.
func (s *Scope) weights(x, top Tensor, temperature float64) Tensor {
	return s.exp(s.MulScalar(s.Sub(s.To(x, Float64), s.To(top, Float64)), 1/temperature))
}

// truncate is truncation.keep, with the smallest set of the likeliest as well: equal logits keep the order of their ids.
func (d *Sampler) truncate(s *Scope, x, top Tensor, temperature float64) Tensor {
	v := x.Size(1)
	byCount, byMass := d.TopK > 0 && int64(d.TopK) < v, d.TopP > 0 && d.TopP < 1
	if !byCount && !byMass {
		return x
	}
	sorted, order := s.sortDown(x)
	nothing := s.Full(Float32, math.Inf(-1), 1)
	if byCount {
		sorted = s.Where(s.greater(s.Full(Int64, float64(d.TopK), 1), s.Arange(0, v)), sorted, nothing)
	}
	if byMass {
		weights := s.weights(sorted, top, temperature)
		cumulated := s.cumSum(weights)
		kept := s.MulScalar(s.Narrow(cumulated, 1, v-1, 1), d.TopP)
		sorted = s.Where(s.greater(kept, s.Sub(cumulated, weights)), sorted, nothing)
	}
	out := s.Empty(Float32, x.Shape()...)
	s.scatter(out, order, sorted)
	return out
}

// portable is [Scope.NewLogProbs].
func (l *LogProbs) portable() {
	s, n := l.scope, int64(len(l.targets))
	l.ids = s.FromInt64(numeric.Convert[int64](l.targets), n, 1)
	// Tensors of the size of the logits are freed as soon as possible.
	l.logSums = s.Nest(func() Tensor {
		x := s.To(l.logits, Float32)
		top := s.reduce(x, maximum)
		good := s.isFinite(top)
		bad := s.Full(Float32, math.NaN(), 1)
		if l.Rank != nil {
			v := x.Size(1)
			own := s.Gather(x, 1, l.ids)
			before := s.Mul(s.equal(x, own), s.greater(l.ids, s.Arange(0, v)))
			rank := s.sumRows(s.Add(s.To(s.greater(x, own), Float32), s.To(before, Float32)))
			for i, n := range s.Float32s(s.Where(good, rank, s.Full(Float32, float64(v), 1))) {
				l.Rank[i] = int32(n)
			}
		}
		logSums := s.Add(s.log(s.sumRows(s.exp(s.Sub(x, top)))), top)
		copy(l.Values, s.Float32s(s.Where(good, s.Sub(s.Gather(x, 1, l.ids), logSums), bad)))
		if l.Entropy != nil {
			// -Σ p·log p; a probability of 0 counts as 0 even if the logit is -Inf.
			logs := s.Sub(x, logSums)
			p := s.exp(logs)
			zero := s.Zeros(Float32, 1)
			copy(l.Entropy, s.Float32s(s.Where(good, s.Neg(s.sumRows(s.Where(s.greater(p, zero), s.Mul(p, logs), zero))), bad)))
			copy(l.Mean, s.Float32s(s.Where(good, s.MeanDim(x, 1), bad)))
		}
		return logSums
	})
}

// portableGrad is [LogProbs.Grad_].
func (l *LogProbs) portableGrad(weights []float32) {
	s := l.scope
	s.Do(func() {
		w := s.Neg(s.FromFloat32(weights, int64(len(weights)), 1))
		p := s.exp(s.Sub(s.To(l.logits, Float32), l.logSums))
		own := s.Mul(w, s.AddScalar(s.Gather(p, 1, l.ids), -1))
		grad := s.Mul(w, p)
		s.scatter(grad, l.ids, own)
		s.Copy_(l.logits, grad)
	})
}

func (s *Scope) portableRMSNorm(x, weight Tensor, eps float64) Tensor {
	wide := s.To(x, Float32)
	scale := s.rsqrt(s.AddScalar(s.MeanDim(s.Square(wide), -1), eps))
	return s.To(s.Mul(s.Mul(wide, scale), s.To(weight, Float32)), x.DType())
}

func (s *Scope) portableSwiGLU(x Tensor, n int64) Tensor {
	gate, up := s.To(s.Narrow(x, -1, 0, n), Float32), s.To(s.Narrow(x, -1, n, n), Float32)
	return s.To(s.Mul(s.silu(gate), up), x.DType())
}

// portableRotate is [Scope.Rotate_] for x [times, angles, width].
func (s *Scope) portableRotate(x, cosines, sines Tensor, heads, dim int64) {
	angles, half := x.Size(1), dim/2
	part := s.View(s.Narrow(x, 2, 0, heads*dim), -1, angles, heads, dim)
	swapped := s.Cat(3, s.Narrow(part, 3, half, half), s.Narrow(part, 3, 0, half))
	rotated := s.Add(s.Mul(part, s.View(cosines, angles, 1, dim)), s.Mul(swapped, s.View(sines, angles, 1, dim)))
	s.Copy_(part, rotated)
}

func (s *Scope) portableFinite(t Tensor) bool { return s.Int64s(s.all(s.isFinite(t)))[0] != 0 }

// indexPut sets a[…, index, …] to values, for the dimensions of a whose index is not none.
func (s *Scope) indexPut(a, values Tensor, index ...Tensor) {
	s.inPlace("indexPut", func(out *C.tensor) {
		C.atg_index_put_(out, a.c, handles(index), C.int(len(index)), values.c, 0)
	}, a, values)
}

// scatter sets a[i, index[i, k]] to src[i, k].
func (s *Scope) scatter(a, index, src Tensor) {
	s.inPlace("scatter", func(out *C.tensor) { C.atg_scatter_(out, a.c, 1, index.c, src.c) }, a, index, src)
}

func (s *Scope) greater(a, b Tensor) Tensor { return s.binary("greater", C.atg_gt_tensor, a, b) }

func (s *Scope) equal(a, b Tensor) Tensor { return s.binary("equal", C.atg_eq_tensor, a, b) }

func (s *Scope) isFinite(a Tensor) Tensor { return s.unary("isFinite", C.atg_isfinite, a) }

// cumSum adds along the rows of a [n, V].
func (s *Scope) cumSum(a Tensor) Tensor {
	return s.result("cumSum", func(out *C.tensor) { C.atg_cumsum(out, a.c, 1, C.int(a.DType())) }, a)
}

// sumRows is the sum of each row of a [n, V], [n, 1]; sumColumns is the sum of each column, [1, V].
func (s *Scope) sumRows(a Tensor) Tensor    { return s.sumOver(a, 1) }
func (s *Scope) sumColumns(a Tensor) Tensor { return s.sumOver(a, 0) }

func (s *Scope) sumOver(a Tensor, dim C.int64_t) Tensor {
	return s.result("sumOver", func(out *C.tensor) {
		C.atg_sum_dim_intlist(out, a.c, &dim, 1, 1, C.int(a.DType()))
	}, a)
}

const (
	minimum = iota
	maximum
)

// reduce is the minimum or maximum of each row of a [n, V], [n, 1].
func (s *Scope) reduce(a Tensor, what int) Tensor {
	d := C.int64_t(1)
	return s.result("reduce", func(out *C.tensor) {
		if what == minimum {
			C.atg_amin(out, a.c, &d, 1, 1)
		} else {
			C.atg_amax(out, a.c, &d, 1, 1)
		}
	}, a)
}

// sortDown sorts each row of a [n, V], the largest first, equals in their order, and also returns the indices.
func (s *Scope) sortDown(a Tensor) (sorted, order Tensor) {
	var out [2]C.tensor
	C.atg_sort_stable(&out[0], a.c, 1, 1, 1)
	return s.own("sortDown", out[0], a), s.own("sortDown", out[1], a)
}
