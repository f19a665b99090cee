package trainer

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"popri/model/safetensors"
	"popri/model/tensor"
)

// pull is an objective of one parameter x [3]: the mean of ½‖x − y_i‖² over examples y_i, whose gradient is x − mean y.
type pull struct {
	x       tensor.Tensor
	targets [][]float32
	used    [][]int
	parts   int
	began   float32 // what Begin computes from x, which later updates add to the gradient
}

func (p *pull) Batch(_ context.Context, indices []int) (Batch, error) {
	b := Batch{Examples: len(indices), What: "target", Tokens: int64(len(indices))}
	pass := func(from, to int) Pass {
		return func(s *tensor.Scope) ([]tensor.Tensor, error) {
			g := make([]float32, 3)
			for _, i := range indices[from:to] {
				for k, y := range p.targets[i] {
					if math.IsNaN(float64(y)) {
						return nil, &NonFinite{What: b.What, Examples: []int{slices.Index(indices, i)},
							Why: []string{"NaN"}}
					}
					g[k] += (p.x.Host()[k] - y + p.began) / float32(len(indices))
				}
			}
			return []tensor.Tensor{s.FromFloat32(g, 3)}, nil
		}
	}
	parts := min(p.parts, len(indices))
	for i := range parts {
		b.Passes = append(b.Passes, pass(i*len(indices)/parts, (i+1)*len(indices)/parts))
	}
	b.Alone = func(i int) Pass { return pass(i, i+1) }
	b.Done = func(Update) { p.used = append(p.used, slices.Clone(indices)) }
	return b, nil
}

func (p *pull) Begin(context.Context) error {
	p.began = p.x.Host()[0] / 8
	return nil
}

func (p *pull) Tensors() []safetensors.Tensor {
	return []safetensors.Tensor{safetensors.FromFloat32("began", []int64{1}, []float32{p.began})}
}

func (p *pull) Restore(f *safetensors.File) error {
	t, ok := f.Tensor("began")
	if !ok {
		return errors.New("no tensor")
	}
	v, err := t.Float32s()
	if err == nil {
		p.began = v[0]
	}
	return err
}

// world makes a loop over n random targets.
func world(t *testing.T, n int) (*Loop, *pull) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	p := &pull{parts: 2}
	for range n {
		p.targets = append(p.targets, []float32{float32(r.NormFloat64()), float32(r.NormFloat64()), 3})
	}
	err := tensor.Run(func(s *tensor.Scope) error {
		p.x = s.Keep(s.FromFloat32([]float32{1, 2, 5}, 3))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.x.Free)
	o := NewOptimizer([]tensor.Tensor{p.x}, AdamW{Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, MaxNorm: 1})
	t.Cleanup(o.Free)
	epochs := &Epochs{Examples: n, Size: 4, Order: func(epoch int) []int {
		return rand.New(rand.NewPCG(5, uint64(epoch))).Perm(n)
	}}
	return &Loop{Optimizer: o, Objective: p, Batches: epochs, Schedule: Schedule{Kind: "linear", Peak: 0.1, Total: 30},
		Updates: 3 * epochs.Updates()}, p
}

// Every epoch has each example once; batches that go over its end are all of one size.
func TestEpochs(t *testing.T) {
	for _, across := range []bool{false, true} {
		e := &Epochs{Examples: 10, Size: 4, Across: across, Order: func(epoch int) []int {
			return rand.New(rand.NewPCG(1, uint64(epoch))).Perm(10)
		}}
		var all []int
		for u := range 15 {
			batch := e.Indices(u)
			if want := map[bool]int{true: 4, false: []int{4, 4, 2}[u%3]}[across]; len(batch) != want {
				t.Errorf("across %v: update %d has %d examples, want %d", across, u, len(batch), want)
			}
			if again := e.Indices(u); !slices.Equal(again, batch) {
				t.Errorf("update %d: %v, then %v", u, batch, again)
			}
			all = append(all, batch...)
		}
		for epoch := range len(all) / 10 {
			if got := slices.Sorted(slices.Values(all[10*epoch : 10*epoch+10])); !slices.Equal(got,
				[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
				t.Errorf("across %v: epoch %d has %v", across, epoch, got)
			}
		}
		if slices.Equal(all[:10], all[10:20]) {
			t.Error("two epochs have one order")
		}
	}
}

// A training that ends after each update, in each way, has the bits of one that does not.
func TestLoopResumes(t *testing.T) {
	type outcome struct {
		Progress
		Values []float64
	}
	for _, keep := range []Keep{Last, BestWeights, BestState} {
		train := func(path string, stop bool) (State, outcome, Counters) {
			for {
				loop, p := world(t, 10)
				var o outcome
				o.Progress = Begun()
				ctx, cancel := context.WithCancel(t.Context())
				loop.Keep, loop.MeasureEvery, loop.MeasureFirst = keep, 2, true
				loop.Checkpoint = Checkpoint{Path: path, Key: "k"}
				loop.Record = &o
				loop.Measure = func(_ context.Context, done int) (bool, error) {
					o.Values = append(o.Values, math.Abs(float64(p.x.Host()[2])-4.55))
					return o.Values[len(o.Values)-1] < slices.Min(append([]float64{math.Inf(1)},
						o.Values[:len(o.Values)-1]...)), nil
				}
				loop.OnUpdate = func(int) error {
					if stop {
						cancel()
					}
					return nil
				}
				err := loop.Run(ctx)
				cancel()
				if err == nil {
					return loop.Optimizer.State().Clone(), o, loop.Optimizer.Done
				}
				if !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
			}
		}
		want, wantRecord, wantDone := train("", false)
		if b := wantRecord.Best; b == 0 || b == wantRecord.Measured-1 || wantDone.Steps != 9 || wantDone.Tokens != 30 {
			t.Fatalf("the training is too plain to tell much: %+v, %+v", wantRecord, wantDone)
		}
		path := filepath.Join(t.TempDir(), "new", "training.safetensors")
		got, record, done := train(path, true)
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(record, wantRecord) || done != wantDone {
			t.Errorf("keep %d: %v, %+v, %+v, want %v, %+v, %+v", keep, got, record, done, want, wantRecord, wantDone)
		}
		loop, _ := world(t, 10)
		loop.Checkpoint = Checkpoint{Path: path, Key: "other"}
		if err := loop.Run(t.Context()); !errors.Is(err, ErrForeignCheckpoint) {
			t.Errorf("another training's checkpoint gives %v", err)
		}
		loop.Checkpoint.Key, loop.Updates = "k", 5
		if err := loop.Run(t.Context()); err == nil {
			t.Error("a checkpoint of more updates than there are is read")
		}
		if err := loop.Checkpoint.Remove(); err != nil || loop.Checkpoint.Remove() != nil {
			t.Errorf("removing: %v", err)
		}
	}
}

// Examples that are not finite end the training by name.
func TestLoopNamesWhatIsNotFinite(t *testing.T) {
	loop, p := world(t, 10)
	p.targets[7][1] = float32(math.NaN())
	err := loop.Run(t.Context())
	failed, ok := errors.AsType[*UpdateError](err)
	if refused := NonFiniteExamples(err); !ok || len(refused) != 1 || failed.Indices[refused[0]] != 7 {
		t.Fatalf("%v", err)
	}
}

// The number of passes changes an update by rounding alone; threads do not change it.
func TestPasses(t *testing.T) {
	defer tensor.SetThreads(tensor.Threads())
	run := func(parts, threads int) []float32 {
		tensor.SetThreads(threads)
		loop, p := world(t, 10)
		p.parts = parts
		if err := loop.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(p.x.Host())
	}
	one := run(1, 1)
	for _, parts := range []int{1, 2, 3} {
		want := run(parts, 1)
		for i := range one {
			if math.Abs(float64(one[i]-want[i])) > 1e-5 {
				t.Errorf("%d passes: %v, one: %v", parts, want, one)
			}
		}
		for _, threads := range []int{2, 3} {
			if got := run(parts, threads); !slices.Equal(got, want) {
				t.Errorf("%d passes on %d threads: %v, want %v", parts, threads, got, want)
			}
		}
	}
	if _, err := (&Optimizer{}).Update(Batch{}, 1); err == nil {
		t.Error("a batch without a pass is an update")
	}
}
