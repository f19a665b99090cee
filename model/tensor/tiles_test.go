package tensor

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTileAttention: the matrix unit's attention over prompts and over samples' own tokens is what sums in float64 over
// the rounded queries, keys and values give. What the caches hold besides them does not matter.
func TestTileAttention(t *testing.T) {
	if !MatrixUnit() {
		t.Skip("this CPU has no matrix unit")
	}
	rounded := func(x float64) float64 {
		u := math.Float32bits(float32(x))
		return float64(math.Float32frombits((u + 0x7fff + u>>16&1) &^ 0xffff))
	}
	for _, shape := range []struct{ heads, kv, head int }{{4, 4, 64}, {9, 3, 64}, {6, 2, 16}, {8, 1, 80}, {80, 2, 32},
		{5, 1, 7}} {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			heads, kv, head := shape.heads, shape.kv, shape.head
			width := (heads + 2*kv) * head
			lengths, samples := []int32{1, 33, 64, 90}, []int{40, 1, 10, 3}
			places := []int32{2, 0, 3, 1}
			const room, own, steps = 96, 32, 19
			slots := 0
			for _, n := range samples {
				slots += n
			}
			fill := func(n int) []float32 { return normals(random, n, 1.5) }
			// A token's query, key or value of a head.
			part := func(token []float32, kind, h int) []float32 {
				at := h * head
				if kind > 0 {
					at = (heads + (kind-1)*kv + h) * head
				}
				return token[at : at+head]
			}
			scale := 1 / math.Sqrt(float64(head))
			check := func(what string, got []float32, query []float32, tokens [][]float32) {
				t.Helper()
				for h := range heads {
					scores := make([]float64, len(tokens))
					top, sum := math.Inf(-1), 0.0
					for i, token := range tokens {
						for d, k := range part(token, 1, h*kv/heads) {
							scores[i] += rounded(float64(part(query, 0, h)[d])) * rounded(float64(k))
						}
						top = math.Max(top, scores[i])
					}
					want, size := make([]float64, head), make([]float64, head)
					for i, token := range tokens {
						e := math.Exp((scores[i] - top) * scale)
						sum += e
						for d, v := range part(token, 2, h*kv/heads) {
							want[d] += e * rounded(float64(v))
							size[d] += e * math.Abs(rounded(float64(v)))
						}
					}
					for d := range want {
						// Probabilities and the result are rounded to 8 bits.
						if e := math.Abs(float64(got[h*head+d]) - want[d]/sum); !(e <= size[d]/sum/128) {
							t.Fatalf("%s, head %d, dimension %d: %g, want %g", what, h, d, got[h*head+d], want[d]/sum)
						}
					}
				}
			}
			err := Run(func(s *Scope) error {
				dim := (head + 31) / 32 * 32
				spoiled := func(n, a, b int) Tensor {
					return s.Full(BFloat16, math.NaN(), int64(n), int64(kv), int64(a),
						int64(b))
				}
				c := &DecodeCache{Heads: heads, KVHeads: kv, Dim: dim, Head: head, Scale: float32(scale),
					DType: BFloat16, Tiles: true, PrefixRoom: room, SuffixRoom: own,
					PrefixK: spoiled(len(places), dim, room), PrefixV: spoiled(len(places), room,
						dim), SuffixK: spoiled(slots, dim, own), SuffixV: spoiled(slots, own, dim)}
				const padded = 90
				prompts := make([][][]float32, len(lengths))
				flat := []float32{}
				for b, n := range lengths {
					for i := range padded {
						token := fill(width)
						if i < int(n) {
							prompts[b] = append(prompts[b], token)
						}
						flat = append(flat, token...)
					}
				}
				got := s.Float32s(c.Prefill(s, s.FromFloat32(flat, int64(len(lengths)), padded, int64(width)), places,
					lengths))
				for b, n := range lengths {
					for i := range padded {
						row := got[(b*padded+i)*heads*head:][:heads*head]
						if i < int(n) {
							check(fmt.Sprintf("prompt of %d, token %d", n, i), row, prompts[b][i], prompts[b][:i+1])
							continue
						}
						for _, x := range row {
							if x != 0 {
								t.Fatalf("padding has the result %g", x)
							}
						}
					}
				}
				ownTokens := make([][][]float32, slots)
				for step := range steps {
					var rows Rows
					var flat []float32
					slot := 0
					for b, n := range samples {
						for i := range n {
							// Samples of one prompt may be at different places.
							if step >= i%5 {
								token := fill(width)
								rows.Slot, rows.SuffixLen = append(rows.Slot, int32(slot)), append(rows.SuffixLen,
									int32(len(ownTokens[slot])))
								rows.Prefix, rows.PrefixLen = append(rows.Prefix, places[b]), append(rows.PrefixLen,
									lengths[b])
								ownTokens[slot] = append(ownTokens[slot], token)
								flat = append(flat, token...)
							}
							slot++
						}
					}
					s.Do(func() {
						got := s.Float32s(c.Attend(s, s.FromFloat32(flat, int64(len(rows.Slot)), int64(width)), rows))
						for r, slot := range rows.Slot {
							b := 0
							for places[b] != rows.Prefix[r] {
								b++
							}
							tokens := append(append([][]float32{}, prompts[b]...), ownTokens[slot]...)
							check(fmt.Sprintf("step %d, slot %d", step, slot), got[r*heads*head:][:heads*head],
								flat[r*width:][:width], tokens)
						}
					})
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestDrawFrom: a draw that keeps no logits takes the tokens that one from all logits takes, also where inputs do not
// fit the cache at once, rows take several panels, or a row has no token.
func TestDrawFrom(t *testing.T) {
	if !MatrixUnit() {
		t.Skip("this CPU has no matrix unit")
	}
	random := rand.New(rand.NewPCG(5, 1))
	for _, shape := range []struct{ rows, in, vocab int }{{1, 7, 3}, {40, 64, 128}, {65, 40, 1000}, {600, 96, 257},
		{150, 3000, 700}} {
		for _, dtype := range []DType{BFloat16, Float32} {
			err := Run(func(s *Scope) error {
				x := normals(random, shape.rows*shape.in, 1)
				x[0] = float32(math.NaN())
				w := s.Pack(s.FromFloat32(normals(random, shape.vocab*shape.in, 3/math.Sqrt(float64(shape.in))),
					int64(shape.vocab), int64(shape.in)), false, false, dtype)
				defer w.Free()
				hidden := s.To(s.FromFloat32(x, int64(shape.rows), int64(shape.in)), dtype)
				u, ban := make([]float64, shape.rows), make([]bool, shape.rows)
				for i := range u {
					u[i], ban[i] = random.Float64(), i%2 == 0
				}
				d := Sampler{Temperature: 0.8, Banned: []int32{int32(shape.vocab - 1), 0}}
				want := d.Draw(s, w.Product(s, hidden, Epilogue{DType: Float32}), u, ban)
				got := d.DrawFrom(s, w, hidden, u, ban)
				if !slices.Equal(got, want) || got[0] != -1 {
					t.Errorf("%v %v: %v, want %v", shape, dtype, got, want)
				}
				if distinct := len(slices.Compact(slices.Sorted(slices.Values(got)))); shape.rows > 9 &&
					distinct < 9 {
					t.Errorf("%v %v: %d distinct tokens", shape, dtype, distinct)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, d := range []Sampler{{}, {Temperature: 1, TopP: 0.5}, {Temperature: 1, TopK: 2}} {
		err := Run(func(s *Scope) error {
			w := s.Pack(s.Zeros(BFloat16, 64, 32), false, false, BFloat16)
			defer w.Free()
			d.DrawFrom(s, w, s.Zeros(BFloat16, 1, 32), []float64{0.5}, nil)
			return nil
		})
		if e, ok := errors.AsType[*Error](err); !ok || e.Op != "DrawFrom" {
			t.Errorf("%+v: %v", d, err)
		}
	}
}

// A decoding step of GPT-2 small's attention in all layers: 20 prompts of 200 tokens, ten samples of each, 32 tokens
// far.
func benchmarkAttend(b *testing.B, d DType) {
	const prompts, samples, layers, heads, head, room, own = 20, 10, 12, 12, 64, 224, 64
	err := Run(func(s *Scope) error {
		var caches []*DecodeCache
		for range layers {
			zeros := func(n, a, b int64) Tensor { return s.Zeros(d, n, heads, a, b) }
			caches = append(caches, &DecodeCache{Heads: heads, KVHeads: heads, Dim: head, Head: head, Scale: 0.125,
				DType: d, Tiles: d == BFloat16 &&
					MatrixUnit(), PrefixRoom: room, SuffixRoom: own, PrefixK: zeros(prompts, head,
					room), PrefixV: zeros(prompts, room, head),
				SuffixK: zeros(prompts*samples, head, own), SuffixV: zeros(prompts*samples, own, head)})
		}
		var rows Rows
		for i := range int32(prompts * samples) {
			rows.Slot, rows.SuffixLen = append(rows.Slot, i), append(rows.SuffixLen, own/2)
			rows.Prefix, rows.PrefixLen = append(rows.Prefix, i/samples), append(rows.PrefixLen, 200)
		}
		qkv := s.Zeros(Float32, prompts*samples, 3*heads*head)
		for b.Loop() {
			for _, c := range caches {
				s.Do(func() { c.Attend(s, qkv, rows) })
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	bytes := float64(layers*heads*head*2*d.Size()) * float64(prompts*200+prompts*samples*own/2)
	b.ReportMetric(bytes*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
}

func BenchmarkAttendFloat32(b *testing.B)  { benchmarkAttend(b, Float32) }
func BenchmarkAttendBFloat16(b *testing.B) { benchmarkAttend(b, BFloat16) }

// The head of GPT-2 small and a token for each of 200 rows, with and without the logits in memory.
func benchmarkHead(b *testing.B, draw func(s *Scope, w *Packed, x Tensor, u []float64)) {
	if !MatrixUnit() {
		b.Skip("this CPU has no matrix unit")
	}
	const n, in, vocab = 200, 768, 50257
	err := Run(func(s *Scope) error {
		random := rand.New(rand.NewPCG(1, 1))
		w := s.Pack(s.FromFloat32(normals(random, in*vocab, 0.1), vocab, in), false, false, BFloat16)
		defer w.Free()
		x := s.To(s.FromFloat32(normals(random, n*in, 1), n, in), BFloat16)
		u := make([]float64, n)
		for i := range u {
			u[i] = float64(i) / n
		}
		for b.Loop() {
			s.Do(func() { draw(s, w, x, u) })
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkDrawFrom(b *testing.B) {
	d := Sampler{Temperature: 1}
	benchmarkHead(b, func(s *Scope, w *Packed, x Tensor, u []float64) { d.DrawFrom(s, w, x, u, nil) })
}

func BenchmarkLogitsAndDraw(b *testing.B) {
	d := Sampler{Temperature: 1}
	benchmarkHead(b, func(s *Scope, w *Packed, x Tensor, u []float64) {
		d.Draw(s, w.Product(s, x, Epilogue{DType: Float32}), u, nil)
	})
}

// One token for each of 200 rows of GPT-2's vocabulary.
func BenchmarkDraw(b *testing.B) {
	const n, vocab = 200, 50257
	err := Run(func(s *Scope) error {
		logits := s.FromFloat32(normals(rand.New(rand.NewPCG(1, 1)), n*vocab, 3), n, vocab)
		u := make([]float64, n)
		for i := range u {
			u[i] = float64(i) / n
		}
		d := Sampler{Temperature: 1}
		for b.Loop() {
			d.Draw(s, logits, u, nil)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "rows/s")
}
