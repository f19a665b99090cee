package tensor

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"popri/internal/fault"
	"popri/testkit/tensortest"
)

var infinity = float32(math.Inf(1))

// both runs f with the kernels, where the device is the CPU, and with the operations of libtorch that stand in for them
// elsewhere, and returns what it gives with each.
func both[T any](t *testing.T, f func(s *Scope) T) []T {
	t.Helper()
	var out []T
	for _, portable := range []bool{false, true} {
		err := Run(func(s *Scope) error {
			s.portable = portable
			out = append(out, f(s))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func normals(random *rand.Rand, n int, scale float64) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(scale * random.NormFloat64())
	}
	return out
}

// TestAttend compares one decoding step, and what it leaves in the cache, with the definition in float64. Whatever is
// behind a part's length, NaN here, must not count.
func TestAttend(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 7))
	for _, heads := range [][2]int{{1, 1}, {4, 4}, {6, 2}, {5, 1}} {
		for _, dim := range []int{16, 48} {
			for _, d := range []DType{Float32, BFloat16} {
				const prefixes, prefixRoom, slots, suffixRoom, n = 4, 32, 16, 16, 13
				h, kv := heads[0], heads[1]
				lengths := []int32{7, 32, 1, 16}
				rows := Rows{}
				of := []int32{2, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 2, 3} // ragged, and not all in one place; nobody has prompt 1
				perm := random.Perm(slots)
				for i := range n {
					rows.Slot = append(rows.Slot, int32(perm[i]))
					rows.SuffixLen = append(rows.SuffixLen, int32(random.IntN(suffixRoom)))
					rows.Prefix, rows.PrefixLen = append(rows.Prefix, of[i]), append(rows.PrefixLen, lengths[of[i]])
				}
				nan := float32(math.NaN())
				// fill is a cache [count, KV, room, D], NaN from each length on.
				fill := func(count, room int, length func(i int) int) []float32 {
					out := normals(random, count*kv*room*dim, 1)
					for i := range out {
						if at := i / dim % room; at >= length(i/(dim*room*kv)) {
							out[i] = nan
						}
					}
					return out
				}
				suffixLength := func(slot int) int {
					if i := slices.Index(rows.Slot, int32(slot)); i >= 0 {
						return int(rows.SuffixLen[i])
					}
					return 0
				}
				pk, pv := fill(prefixes, prefixRoom, func(i int) int { return int(lengths[i]) }), fill(prefixes,
					prefixRoom, func(i int) int { return int(lengths[i]) })
				sk, sv := fill(slots, suffixRoom, suffixLength), fill(slots, suffixRoom, suffixLength)
				in := normals(random, (n+3)*(h+2*kv)*dim, 1) // rows behind the last are ignored
				scale, limit := 1/math.Sqrt(float64(dim)), 0.0
				if heads[1] > 1 { // capped, too
					limit = 1.5
				}

				type result struct{ y, pk, pv, sk, sv []float64 }
				results := both(t, func(s *Scope) (r result) {
					cache := func(x []float32, count, room int, transposed bool) Tensor {
						y := s.To(s.FromFloat32(x, int64(count), int64(kv), int64(room), int64(dim)), d)
						if transposed {
							y = s.Transpose(y, 2, 3)
						}
						return s.Clone(y)
					}
					c := &DecodeCache{Heads: h, KVHeads: kv, Dim: dim, Head: dim, Scale: float32(scale),
						Cap: float32(limit), DType: d, PrefixRoom: prefixRoom, SuffixRoom: suffixRoom,
						PrefixK: cache(pk, prefixes, prefixRoom, true), PrefixV: cache(pv, prefixes, prefixRoom, false),
						SuffixK: cache(sk, slots, suffixRoom, true), SuffixV: cache(sv, slots, suffixRoom, false)}
					r.pk, r.pv = s.Float64s(s.Transpose(c.PrefixK, 2, 3)), s.Float64s(c.PrefixV)
					qkv := s.FromFloat32(in, 1, n+3, int64((h+2*kv)*dim))
					y := c.Attend(s, qkv, rows)
					if !slices.Equal(y.Shape(), []int64{n, int64(h * dim)}) {
						t.Fatalf("the result is %v", y.Shape())
					}
					r.y, r.sk, r.sv = s.Float64s(y), s.Float64s(s.Transpose(c.SuffixK, 2, 3)), s.Float64s(c.SuffixV)
					return r
				})
				for which, r := range results {
					name := fmt.Sprintf("heads %v of %d, %v, portable %v", heads, dim, d, which == 1)
					for i := range n {
						for head := range h {
							k := head / (h / kv)
							at := func(cache []float64, place, room, token int) []float64 {
								return cache[((place*kv+k)*room+token)*dim:][:dim]
							}
							q := in[(i*(h+2*kv)+head)*dim:][:dim]
							var keys, values [][]float64
							for token := range int(rows.PrefixLen[i]) {
								keys, values = append(keys,
									at(r.pk, int(rows.Prefix[i]), prefixRoom, token)),
									append(values, at(r.pv, int(rows.Prefix[i]), prefixRoom, token))
							}
							for token := range int(rows.SuffixLen[i]) + 1 {
								keys, values = append(keys,
									at(r.sk, int(rows.Slot[i]), suffixRoom, token)),
									append(values, at(r.sv, int(rows.Slot[i]), suffixRoom, token))
							}
							for j, x := range in[(i*(h+2*kv)+h+k)*dim:][:dim] {
								if stored := keys[len(keys)-1][j]; math.Abs(stored-float64(x)) > math.Abs(float64(x))/250 {
									t.Fatalf("%s: row %d: the new key %g is stored as %g", name, i, x, stored)
								}
							}
							for j, x := range in[(i*(h+2*kv)+h+kv+k)*dim:][:dim] {
								if stored := values[len(values)-1][j]; math.Abs(stored-float64(x)) > math.Abs(float64(x))/250 {
									t.Fatalf("%s: row %d: the new value %g is stored as %g", name, i, x, stored)
								}
							}
							want, total := make([]float64, dim), 0.0
							for token := range keys {
								score := 0.0
								for j := range dim {
									score += float64(q[j]) * keys[token][j]
								}
								score *= scale
								if limit > 0 {
									score = limit * math.Tanh(score/limit)
								}
								e := math.Exp(score)
								total += e
								for j := range dim {
									want[j] += e * values[token][j]
								}
							}
							for j := range dim {
								if got := r.y[(i*h+head)*dim+j]; !(math.Abs(got-want[j]/total) < 1e-5) {
									t.Fatalf("%s: row %d, head %d: value %d is %g, want %g", name, i, head, j, got,
										want[j]/total)
								}
							}
						}
					}
				}
				if !equalBits(results[0].sk, results[1].sk) || !equalBits(results[0].sv, results[1].sv) {
					t.Errorf("heads %v of %d, %v: the caches differ", heads, dim, d)
				}
			}
		}
	}
}

func equalBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

// TestDraw: both ways take the token that the cumulative distribution, in float64, says, unless u is at the border
// between two within rounding.
func TestDraw(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 7))
	for trial := range 60 {
		const n = 50
		v := 1 + random.IntN(400)
		if trial%10 == 9 {
			v += 3 * 4096 // several parts of the kernel
		}
		d := Sampler{Temperature: math.Exp(0.7 * random.NormFloat64())}
		if trial%3 > 0 {
			d.TopK = random.IntN(v + 3)
		}
		if trial%4 > 1 {
			d.TopP = random.Float64()
		}
		logits := normals(random, n*v, 3)
		for i := range logits {
			if trial%5 == 0 {
				logits[i] = float32(random.IntN(4)) // many ties
			}
			if trial%7 == 0 && random.IntN(3) == 0 && i%v > 0 {
				logits[i] = -infinity
			}
			if trial == 29 && i%v > 0 && i%v < 9000 {
				logits[i] = -infinity // whole parts with nothing in them
			}
		}
		u, ban := make([]float64, n), make([]bool, n)
		if v > 3 {
			d.Banned = []int32{int32(v - 1), 2}
		}
		for i := range u {
			u[i], ban[i] = random.Float64(), i%3 == 0
			if i%5 == 0 {
				u[i] = -1
			}
			if i == 7 {
				u[i] = 1 - 1e-16
			}
		}
		got := both(t, func(s *Scope) []int32 {
			return d.Draw(s, s.FromFloat32(append(slices.Clone(logits), logits[:v]...), n+1, int64(v)), u, ban)
		})
		for i := range n {
			row := slices.Clone(logits[i*v : (i+1)*v])
			if ban[i] {
				for _, id := range d.Banned {
					row[id] = -infinity
				}
			}
			top := slices.Max(row)
			for which, ids := range got {
				id := int(ids[i])
				what := fmt.Sprintf("trial %d (%d tokens, %+v), row %d, portable %v: token %d", trial, v, d, i,
					which == 1, id)
				if u[i] < 0 {
					if id != slices.Index(row, top) {
						t.Errorf("%s is not the first of the likeliest", what)
					}
					continue
				}
				keep := tensortest.SortedCut(row, d.TopK, d.TopP, d.Temperature)
				total, below := 0.0, 0.0
				for k, x := range row {
					if p := math.Exp(float64(x-top) / d.Temperature); keep[k] {
						total += p
						if k < id {
							below += p
						}
					}
				}
				if id < 0 || row[id] == -infinity {
					t.Fatalf("%s is left out", what)
				}
				own := math.Exp(float64(row[id]-top) / d.Temperature)
				if want := u[i] * total; !keep[id] && own > 1e-5*total || below-want > 1e-5*total ||
					want-below-own > 1e-5*total {
					t.Errorf("%s covers %g to %g, u is %g", what, below/total, (below+own)/total, u[i])
				}
			}
		}
	}
}

// A row without a finite maximum has no token, whatever the settings are; the rows beside it have theirs.
func TestDrawRefuses(t *testing.T) {
	nan := float32(math.NaN())
	logits := []float32{nan, 1, 2, 3, 1, infinity, 2, 3, -infinity, -infinity, -infinity, -infinity, 0, 0, 9, 1, 1, 2,
		3, nan}
	for _, d := range []Sampler{{}, {Temperature: 1}, {Temperature: 0.5, TopK: 2},
		{Temperature: 2, TopP: 0.3, TopK: 3, Banned: []int32{1}}} {
		u, ban := []float64{0.5, 0.5, 0.5, 0.5, 0.5}, []bool{true, false, true, true, false}
		if d.Temperature == 0 {
			u = []float64{-1, -1, -1, -1, -1}
		}
		for which, got := range both(t,
			func(s *Scope) []int32 { return d.Draw(s, s.FromFloat32(logits, 5, 4), u, ban) }) {
			if !slices.Equal(got, []int32{-1, -1, -1, 2, -1}) {
				t.Errorf("%+v, portable %v: %v", d, which == 1, got)
			}
		}
	}
	for _, portable := range []bool{false, true} {
		err := Run(func(s *Scope) error {
			s.portable = portable
			(&Sampler{}).Draw(s, s.Zeros(Float32, 2, 4), make([]float64, 3), nil)
			return nil
		})
		if e, ok := errors.AsType[*Error](err); !ok || e.Op != "Draw" {
			t.Errorf("more tokens than rows: %v", err)
		}
	}
}

// TestLogProbsBothWays: kernels and libtorch agree on values, the way back, and on rows that are not finite.
func TestLogProbsBothWays(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 7))
	const n, v = 6, 77
	logits := normals(random, n*v, 5)
	logits[2*v+5] = float32(math.NaN())
	logits[3*v+6] = infinity
	logits[4*v+7], logits[4*v+8] = -infinity, -infinity
	for i := range v {
		logits[5*v+i] = -infinity
	}
	targets, weights := make([]int32, n), normals(random, n, 1)
	for i := range targets {
		targets[i] = int32(random.IntN(5))
	}
	for _, d := range []DType{Float32, BFloat16} {
		type result struct {
			l    LogProbs
			grad []float32
		}
		r := both(t, func(s *Scope) result {
			x := s.To(s.FromFloat32(logits, n, v), d)
			l := s.NewLogProbs(x, targets, true, true)
			l.Grad_(weights)
			return result{*l, s.Float32s(s.Narrow(x, 0, 0, 2))}
		})
		near := func(what string, a, b []float32, tolerance float64) {
			t.Helper()
			for i := range a {
				if a[i] != a[i] && b[i] != b[i] || a[i] == b[i] {
					continue
				}
				if !(math.Abs(float64(a[i]-b[i])) <= tolerance*(1+math.Abs(float64(a[i])))) {
					t.Errorf("%v: %s %d is %g with the kernels, %g without", d, what, i, a[i], b[i])
				}
			}
		}
		near("log-probability", r[0].l.Values, r[1].l.Values, 2e-6)
		near("entropy", r[0].l.Entropy, r[1].l.Entropy, 1e-5)
		near("mean", r[0].l.Mean, r[1].l.Mean, 1e-5)
		near("gradient", r[0].grad, r[1].grad, map[DType]float64{Float32: 1e-6, BFloat16: 4e-3}[d])
		for i, bad := range []bool{false, false, true, true, false, true} {
			for _, x := range r {
				if value := x.l.Values[i]; (value != value) != bad {
					t.Errorf("%v: row %d has the log-probability %g", d, i, value)
				}
			}
			if r[0].l.Rank[i] != r[1].l.Rank[i] {
				t.Errorf("%v: row %d: the rank is %d with the kernels, %d without", d, i, r[0].l.Rank[i],
					r[1].l.Rank[i])
			}
		}
	}
}

// What the host reads and writes of a tensor is the tensor's, whether it is its memory or a copy.
func TestHostAndStore(t *testing.T) {
	for _, off := range []bool{portable, true} {
		func() {
			defer func(before bool) { portable = before }(portable)
			portable = off
			err := Run(func(s *Scope) error {
				x := s.FromFloat32([]float32{1, 2, 3, 4}, 2, 2)
				s.RequireGrad(x, true)
				values := x.Host()
				values[2] = 9
				x.Store(values)
				if got := s.Float32s(x); !slices.Equal(got, []float32{1, 2, 9, 4}) {
					t.Errorf("a change gives %v", got)
				}
				x.Store([]float32{5, 6, 7, 8})
				if got := x.Host(); !slices.Equal(got, []float32{5, 6, 7, 8}) {
					t.Errorf("other values give %v", got)
				}
				if !x.RequiresGrad() {
					t.Error("it is no parameter any more")
				}
				if empty := s.Zeros(Float32, 0, 3); len(empty.Host()) != 0 {
					t.Error("nothing has values")
				}
				x.Store([]float32{1})
				return nil
			})
			if e, ok := errors.AsType[*Error](err); !ok || e.Op != "Store" {
				t.Errorf("too few values: %v", err)
			}
		}()
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name    string
		library bool
		devices int
		want    Device
		text    string // of the error
	}{
		{"", true, 1, CPU, ""}, {"cpu", true, 1, CPU, ""}, {"auto", false, 0, CPU, ""}, {"auto", true, 0, CPU, ""},
		{"auto", true, 2, 0, ""},
		{"cuda", true, 1, 0, ""}, {"cuda", true, 0, CPU, "no GPU"}, {"cuda", false, 0, CPU, "LIBTORCH"},
		{"gpu", true, 1, CPU, "auto, cpu, cuda"},
	} {
		got, err := find(c.name, c.library, func() int { return c.devices })
		if got != c.want || (err == nil) != (c.text == "") || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

func TestMixedDevices(t *testing.T) {
	err := Run(func(s *Scope) error {
		ts := []Tensor{s.Zeros(Float32, 2, 3), s.Zeros(Float32, 3), s.Zeros(BFloat16, 4)}
		if err := mixed("Op", ts, []Device{0, 0, 0}); err != nil {
			t.Error(err)
		}
		err := mixed("Op", ts, []Device{0, 0, CPU})
		for _, want := range []string{"Op", "float32[2 3]", "bfloat16[4]", "cuda:0", "argument 2 on cpu"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v lacks %q", err, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A device that is not there is an error of [SetDevice], and of whatever runs after it.
func TestSetDevice(t *testing.T) {
	if os.Getenv("POPRI_DEVICE") != "" {
		t.Skip("POPRI_DEVICE chooses the device here")
	}
	defer func() {
		if err := SetDevice("cpu"); err != nil {
			t.Error(err)
		}
	}()
	if err := SetDevice("auto"); err != nil {
		t.Error(err)
	}
	if CUDALibrary() && CUDADevices() > 0 {
		t.Skip("there is a GPU")
	}
	t.Setenv("POPRI_DEVICE", "cuda")
	err, again := SetDevice("auto"), Run(func(*Scope) error { return nil })
	if !fault.IsUser(err) || !fault.IsUser(again) {
		t.Errorf("without a GPU: SetDevice %v, Run %v", err, again)
	}
}

// TestDevice says what make cuda needs: scopes make their tensors where POPRI_DEVICE says.
func TestDevice(t *testing.T) {
	err := Run(func(s *Scope) error {
		x := s.Add(s.FromFloat32([]float32{1, 2}, 2), s.Zeros(Float32, 2))
		if got := x.device(); got != DefaultDevice() {
			t.Errorf("the sum lies on %v, want %v", got, DefaultDevice())
		}
		if got := s.Float32s(x); !slices.Equal(got, []float32{1, 2}) {
			t.Errorf("it is %v", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
