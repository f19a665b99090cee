package downstream

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"popri/datasets/clients"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
)

// texts returns rows of train and validation clients.
func texts(t *testing.T) (rows, validation []lm.Row) {
	t.Helper()
	w, tok, eos := world(t)
	p, err := clients.Read(w.Private)
	if err != nil {
		t.Fatal(err)
	}
	e := Encoder{Tokenizer: tok, Rows: Document, Begin: eos, End: eos, Length: 40}
	return e.Encode(clients.Texts(p.Split(clients.Train))), e.Encode(clients.Texts(p.Split(clients.Validation)))
}

// again fine-tunes a fresh device model at 5e-3 and returns its first parameter.
func again(ctx context.Context, t *testing.T, rows, validation []lm.Row, o Options, checkpoint string) (curve []Point,
	weights []float32, err error) {
	t.Helper()
	w, _, _ := world(t)
	m := testmodel.Load(t, w.Device, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
	defer m.Free()
	err = tensor.Run(func(s *tensor.Scope) error {
		_, curve, err = FineTune(ctx, s, m, nil, rows, validation, 5e-3, o, checkpoint)
		weights = s.Float32s(m.Param(m.Names()[0]))
		return err
	})
	return curve, weights, err
}

func TestEpochs(t *testing.T) {
	rows, validation := texts(t)
	rows = rows[:21]
	o := options(1000)
	o.Epochs, o.EvalEvery, o.Micro, o.Schedule = 3, 0, 3, "constant"
	p, err := o.plan(len(rows), 1)
	if err != nil {
		t.Fatal(err)
	}
	// Each epoch has every row once, in an order of its own; its last update has what is left.
	batches := p.batches(len(rows))
	var orders [][]int
	for epoch := range 3 {
		var sizes, order []int
		for k := range 3 {
			places := batches.Indices(3*epoch + k)
			sizes, order = append(sizes, len(places)), append(order, places...)
		}
		orders = append(orders, order)
		if seen := slices.Compact(slices.Sorted(slices.Values(order))); len(seen) != 21 ||
			!reflect.DeepEqual(sizes, []int{8, 8, 5}) {
			t.Errorf("batches of %v, %d different rows", sizes, len(seen))
		}
	}
	if reflect.DeepEqual(orders[0], orders[1]) {
		t.Error("two epochs have one order")
	}
	curve, _, err := again(t.Context(), t, rows, validation, o, "")
	if err != nil {
		t.Fatal(err)
	}
	var steps []int
	for _, p := range curve {
		steps = append(steps, p.Step)
	}
	if !reflect.DeepEqual(steps, []int{0, 3, 6, 9}) {
		t.Errorf("measured after %v", steps)
	}
}

// Passes of few texts give what one pass gives, to rounding, and the same bits on any number of threads.
func TestMicroTexts(t *testing.T) {
	defer tensor.SetThreads(tensor.Threads())
	rows, validation := texts(t)
	o := options(6)
	o.EvalEvery = 3
	whole, _, err := again(t.Context(), t, rows, validation, o, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, dropout := range []float64{0, 0.2} {
		o.Micro, o.Dropout = 3, dropout
		var first []float32
		for _, threads := range []int{1, 2, 3} {
			tensor.SetThreads(threads)
			for _, recompute := range []bool{false, true} {
				o.Recompute = recompute
				curve, weights, err := again(t.Context(), t, rows, validation, o, "")
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case first == nil:
					first = weights
				case recompute: // the same masks; gradients of a block are added up in another order
					for i := range weights {
						if math.Abs(float64(weights[i]-first[i])) > 1e-4 {
							t.Fatalf("dropout %g: weight %d is %g when blocks are computed again, %g else", dropout, i,
								weights[i], first[i])
						}
					}
				case !reflect.DeepEqual(weights, first):
					t.Errorf("dropout %g: %d threads give other weights", dropout, threads)
				}
				for i, p := range curve {
					if near := math.Abs(p.Loss-whole[i].Loss) < 1e-4; near != (dropout == 0 || i == 0) {
						t.Errorf("dropout %g, after %d steps: loss %g, in one pass without dropout %g", dropout, p.Step,
							p.Loss, whole[i].Loss)
					}
				}
			}
		}
	}
}

func TestTrainingGoesOn(t *testing.T) {
	defer func(d time.Duration) { checkpointEvery = d }(checkpointEvery)
	checkpointEvery = 0
	rows, validation := texts(t)
	o := options(12)
	o.Dropout, o.Schedule, o.EvalEvery = 0.1, "linear", 3
	curve, weights, err := again(t.Context(), t, rows, validation, o, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []int{3, 7, 8} {
		if end == 8 {
			checkpointEvery = time.Hour // a training that is cancelled is written all the same
		}
		path := filepath.Join(t.TempDir(), "new", "training.safetensors")
		ctx, cancel := context.WithCancel(t.Context())
		steps := 0
		update := func(work int) bool { return work != lm.Tokens(validation) } // and no measurement
		o.Worked = func(work int) {
			if update(work) {
				steps++
			}
			if steps == end {
				cancel()
			}
		}
		if _, _, err := again(ctx, t, rows, validation, o, path); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled: %v", err)
		}
		steps, o.Worked = 0, func(work int) {
			if update(work) {
				steps++
			}
		}
		got, same, err := again(t.Context(), t, rows, validation, o, path)
		if err != nil || !reflect.DeepEqual(got, curve) || !reflect.DeepEqual(same, weights) {
			t.Errorf("ended after %d steps: %v, %v, want %v", end, err, got, curve)
		}
		if steps != 12-end {
			t.Errorf("ended after %d steps: %d were done again", end, steps)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the state of a finished training is left")
		}
		testfile.Write(t, path, "{}")
		if _, _, err := again(t.Context(), t, rows, validation, o, path); err == nil ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("a damaged file: %v", err)
		}
	}
}

func TestBest(t *testing.T) {
	a, b := Point{Step: 1, Loss: 2, Accuracy: 0.1}, Point{Step: 2, Loss: 3, Accuracy: 0.2}
	o := Options{Best: "loss"}
	if !o.better(a, b) || o.better(b, a) || o.better(Point{Loss: math.NaN()}, a) {
		t.Error("by loss")
	}
	o.Best = "accuracy"
	if o.better(a, b) || !o.better(b, a) || o.better(b, b) {
		t.Error("by accuracy")
	}
	rows, validation := texts(t)
	o = options(40)
	for _, change := range []func(o *Options){
		func(o *Options) { o.Batch = 0 }, func(o *Options) { o.EvalEvery = 0 }, func(o *Options) { o.Rows = "other" },
		func(o *Options) { o.Best = "other" }, func(o *Options) { o.Schedule = "other" },
		func(o *Options) { o.Steps = 0 },
	} {
		bad := options(4)
		change(&bad)
		if _, _, err := again(t.Context(), t, rows, validation, bad, ""); err == nil {
			t.Errorf("%+v is no error", bad)
		}
	}
}

// Of several learning rates, each source takes the one that is best on the validation clients.
func TestLearningRates(t *testing.T) {
	w, _, _ := world(t)
	p, err := clients.Read(w.Private)
	if err != nil {
		t.Fatal(err)
	}
	sources := []Source{{Key: "own", Name: "train text", Texts: clients.Texts(p.Split(clients.Train))}}
	u := Suite{ModelDir: w.Device, Population: p, Options: options(8)}
	var done, planned int
	u.Progress = func(d, p int) { done, planned = d, p }
	one, err := u.Run(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, s := range one[0].scores {
		tested += s.Tokens
	}
	tested += len(clients.Texts(p.Split(clients.Test))) // a row's first token is not predicted
	once := done - 2*tested
	if done != planned {
		t.Errorf("%d of %d were done", done, planned)
	}
	u.Options.LearningRates = []float64{1e-7, 5e-3, 1e-6}
	three, err := u.Run(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	if x := three[1]; x.LearningRate != 5e-3 || x.Accuracy != one[1].Accuracy || done != planned || done-2*tested != 3*once {
		t.Errorf("%+v after %d of %d, with one rate %+v after %d", x, done, planned, one[1], once)
	}
	if x := one[1]; !(x.Top3 > x.Accuracy && x.Top5 > x.Top3 && x.Top5 < 1) {
		t.Errorf("accuracy %g, top 3 %g, top 5 %g", x.Accuracy, x.Top3, x.Top5)
	}
}
