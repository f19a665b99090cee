package lora

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"popri/model/lm"
	"popri/model/tensor"
	"popri/trainer"
)

// factors is what dropout multiplies the inputs of a projection by, in tokens of width n, one row after the other.
func factors(t *testing.T, name string, seeds []uint64, tokens, n int64, share float64) (out []float64) {
	h := fnv.New64a()
	h.Write([]byte(name))
	var keys []uint64
	for _, seed := range seeds {
		keys = append(keys, rand.NewPCG(seed, h.Sum64()).Uint64())
	}
	err := tensor.Run(func(s *tensor.Scope) error {
		ones := s.Full(tensor.Float32, 1, int64(len(seeds)), tokens, n)
		out = s.Float64s(s.Drop(ones, share, keys...))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// y + s·B·(A·(mask∘x)), and its gradients, are those of products computed by hand with the known mask.
func TestDropoutMask(t *testing.T) {
	const in, out, rank, length, share = 6, 5, 2, 3, 0.25
	const scale = 4.0
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	av, bv, xv, yv, gv := draw(rank*in), draw(out*rank), draw(2*length*in), draw(2*length*out), draw(2*length*out)
	seeds := []uint64{11, 12}
	mask := factors(t, "q", seeds, length, in, share)
	err := tensor.Run(func(s *tensor.Scope) error {
		p := &Pair{A: s.FromFloat32(av, rank, in), B: s.FromFloat32(bv, out, rank), Rank: rank, Scale: scale}
		a := &Adapter{Config: Config{Dropout: share}, Modules: map[string]*Pair{"q": p}}
		params, err := a.Trainable()
		if err != nil {
			return err
		}
		s.WithGrad(func() {
			y := a.Training(seeds).Apply(s, "q", s.FromFloat32(xv, 2, length, in), s.FromFloat32(yv, 2, length, out))
			grads := s.Backward(s.Sum(s.Mul(y, s.FromFloat32(gv, 2, length, out))), params)
			got, gradA, gradB := s.Float32s(y), s.Float32s(grads[0]), s.Float32s(grads[1])
			wantA, wantB := make([]float64, rank*in), make([]float64, out*rank)
			near := func(what string, got float32, want float64) {
				t.Helper()
				if math.Abs(float64(got)-want) > 1e-5*(1+math.Abs(want)) {
					t.Errorf("%s is %g, want %g", what, got, want)
				}
			}
			for row := range 2 * length {
				low := make([]float64, rank)
				for k := range rank {
					for j := range in {
						low[k] += float64(av[k*in+j]) * mask[row*in+j] * float64(xv[row*in+j])
					}
				}
				for o := range out {
					sum, g := float64(yv[row*out+o]), float64(gv[row*out+o])
					for k := range rank {
						sum += scale * float64(bv[o*rank+k]) * low[k]
						wantB[o*rank+k] += scale * g * low[k]
						for j := range in {
							wantA[k*in+j] += scale * g * float64(bv[o*rank+k]) * mask[row*in+j] * float64(xv[row*in+j])
						}
					}
					near("an output", got[row*out+o], sum)
				}
			}
			for i, want := range wantA {
				near("a gradient of A", gradA[i], want)
			}
			for i, want := range wantB {
				near("a gradient of B", gradB[i], want)
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Next-token training has the masks of the rows' places: in one pass, or a row at a time.
func TestDropoutOfNextToken(t *testing.T) {
	models, _ := kinds()
	m, err := lm.New(models["qwen2"], lm.Options{}, rand.New(rand.NewPCG(1, 1)).NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	rows := []lm.Row{{Tokens: []int32{3, 1, 4, 1, 5}}, {Tokens: []int32{9, 2, 6}}, {Tokens: []int32{5, 3, 5, 8}}}
	train := func(share float64, seed uint64, parts int) (losses [2]float64) {
		a := filled(t, m, Config{Rank: 4, Alpha: 8, Dropout: share})
		params, err := a.Trainable()
		if err != nil {
			t.Fatal(err)
		}
		o := trainer.NewOptimizer(params, trainer.AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8})
		defer o.Free()
		loss := trainer.NextToken{Model: m, Adapter: a, Optimizer: o, Parts: trainer.InParts(parts), Seed: seed}
		for i := range losses {
			if losses[i], _, err = loss.Step(rows, 1e-3); err != nil {
				t.Fatal(err)
			}
		}
		return losses
	}
	near := func(a, b [2]float64) bool { return math.Abs(a[0]-b[0])+math.Abs(a[1]-b[1]) < 1e-4 }
	want := train(0.3, 1, 1)
	if got := train(0.3, 1, 3); !near(got, want) {
		t.Errorf("in three passes, the losses are %v, in one %v", got, want)
	}
	if near(train(0, 1, 1), want) || near(train(0.3, 2, 1), want) {
		t.Error("the share or the seed changes nothing")
	}
}

// Without dropout, training uses the adapter itself. With it, only training does; the folder names the share, as PEFT's
// does.
func TestDropoutInTrainingAlone(t *testing.T) {
	models, _ := kinds()
	m, err := lm.New(models["gpt2"], lm.Options{}, rand.New(rand.NewPCG(1, 1)).NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	a := filled(t, m, Config{Rank: 4, Alpha: 8})
	if got := a.Training([]uint64{1}); got != lm.Adapter(a) {
		t.Errorf("without dropout, training uses a %T", got)
	}
	logits := func(a lm.Adapter) (out []float32) {
		err := tensor.Run(func(s *tensor.Scope) error {
			in := lm.Input{IDs: s.FromInt64([]int64{3, 1, 4, 1, 5, 9}, 1, 6)}
			out = s.Float32s(m.Logits(s, m.Hidden(s, in, a)))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	plain := logits(a)
	a.Config.Dropout = 0.3
	if !slices.Equal(logits(a), plain) {
		t.Error("the share changes the adapter outside of training")
	}
	one, other := logits(a.Training([]uint64{1})), logits(a.Training([]uint64{2}))
	if slices.Equal(one, plain) || slices.Equal(one, other) || !slices.Equal(logits(a.Training([]uint64{1})), one) {
		t.Error("the masks do not follow from the rows' seeds")
	}
	dir := filepath.Join(t.TempDir(), "adapter")
	if err := a.Save(dir); err != nil {
		t.Fatal(err)
	}
	b, err := Load(dir, m)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Free()
	if b.Config.Dropout != 0.3 || !slices.Equal(logits(b.Training([]uint64{1})), one) {
		t.Errorf("the folder's lora_dropout is %g", b.Config.Dropout)
	}
	if _,
		err := parseConfig([]byte(`{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q"], "lora_dropout": 1}`)); err == nil {
		t.Error("lora_dropout 1 is accepted")
	}
}
