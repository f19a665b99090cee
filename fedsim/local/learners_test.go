package local_test

import (
	"math"
	"os"
	"slices"
	"sync"
	"testing"

	"popri/eval/downstream"
	"popri/fedsim/local"
	"popri/internal/numeric"
	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/scoring/update"
	"popri/testkit/testworld"
)

func TestMain(m *testing.M) { os.Exit(testworld.Main(m)) }

// world has clients with as many counted tokens each, and one whose text is empty.
type world struct {
	*testing.T
	rows  [][]lm.Row
	all   *local.Learners
	part  *lora.Part
	model *lm.Model
	start []float32
}

func open(t *testing.T) world {
	t.Helper()
	dir := testworld.Shared(t).Config.Downstream.Model
	load := func() (*lora.Part, error) {
		m, err := lm.Load(dir, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
		if err != nil {
			return nil, err
		}
		return lora.Whole(m)
	}
	m, err := load()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	w := world{T: t, part: m, model: m.Model}
	for i := range 5 {
		var rows []lm.Row
		for k := range 3 {
			row := make([]int32, 9)
			for p := range row {
				row[p] = int32((7*i + 5*k + p*p) % m.Model.Config.Vocab)
			}
			rows = append(rows, lm.Row{Tokens: row})
		}
		w.rows = append(w.rows, rows)
	}
	w.rows = append(w.rows, []lm.Row{{Tokens: []int32{1}}}) // no token of it counts
	if w.all, err = local.NewLearners(t.Context(), w.rows, load); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.all.Close)
	w.start = m.Flat()
	return w
}

func (w world) changes(t update.Training, which ...int) map[int][]float64 {
	w.Helper()
	out, mutex := map[int][]float64{}, sync.Mutex{}
	err := w.all.Each(update.Question{Training: t, Weights: w.start, Round: 1, Seed: 3}, which,
		func(_, i int, change []float64) error {
			mutex.Lock()
			defer mutex.Unlock()
			out[i] = slices.Clone(change)
			return nil
		})
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// gradient is of the mean loss of rows, at the first weights, as the trainings of eval/downstream compute it.
func (w world) gradient(rows []lm.Row) (flat []float32) {
	w.Helper()
	if err := w.part.Set(w.start); err != nil {
		w.Fatal(err)
	}
	params, err := w.model.Trainable()
	if err != nil {
		w.Fatal(err)
	}
	err = tensor.Parallel(1, func(_ int, s *tensor.Scope) error {
		_, grads := w.model.LossGradients(s, rows, nil, params, w.model.Counted(rows), lm.Dropout{})
		for i, g := range grads {
			if g.Defined() {
				flat = append(flat, s.Float32s(g)...)
			} else {
				flat = append(flat, make([]float32, params[i].NumElements())...)
			}
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return flat
}

// TestOneClientIsOneStep: one client, one epoch, all rows in a batch: its weights equal one step of gradient descent,
// bit for bit.
func TestOneClientIsOneStep(t *testing.T) {
	w := open(t)
	const rate = .25
	change := w.changes(update.Training{Rate: rate, Epochs: 1, Batch: 100}, 2)[2]
	var g []float32
	same := false
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} { // of the rows in the batch: sums round
		g = w.gradient([]lm.Row{w.rows[2][order[0]], w.rows[2][order[1]], w.rows[2][order[2]]})
		differs := func(i int) bool { return float32(float64(w.start[i])+change[i]) != w.start[i]+float32(-rate)*g[i] }
		same = same || !slices.ContainsFunc(numeric.Indices(len(g)), differs)
	}
	if !same {
		t.Error("the update is no step of gradient descent on the client's rows in any order")
	}
	// Independent of the gradient's code: the loss falls by rate·‖g‖² to the first order.
	small := w.changes(update.Training{Rate: 1e-3, Epochs: 1, Batch: 100}, 2)[2]
	before, _, err := downstream.Measure(w.model, nil, w.rows[2])
	if err != nil {
		t.Fatal(err)
	}
	after := slices.Clone(w.start)
	for i := range after {
		after[i] = float32(float64(after[i]) + small[i])
	}
	if err := w.part.Set(after); err != nil {
		t.Fatal(err)
	}
	loss, _, err := downstream.Measure(w.model, nil, w.rows[2])
	squares := 0.0
	for _, v := range g {
		squares += float64(v) * float64(v)
	}
	if fall := before - loss; err != nil || math.Abs(fall-1e-3*squares) > .05*1e-3*squares {
		t.Errorf("the loss falls by %g, the gradient says %g (%v)", fall, 1e-3*squares, err)
	}
}

// TestMeanOfStepsIsCentral: one step of clients with as many tokens each, averaged, is a step on all their rows
// together.
func TestMeanOfStepsIsCentral(t *testing.T) {
	w := open(t)
	const rate = .5
	changes := w.changes(update.Training{Rate: rate, Epochs: 1, Batch: 3}, 0, 1, 2, 3)
	g := w.gradient(slices.Concat(w.rows[:4]...))
	worst, norm := 0.0, 0.0
	for i, v := range g {
		mean := (changes[0][i] + changes[1][i] + changes[2][i] + changes[3][i]) / 4
		worst, norm = max(worst, math.Abs(mean+rate*float64(v))), max(norm, math.Abs(rate*float64(v)))
	}
	if !(worst < 1e-5*max(norm, 1e-2)) {
		t.Errorf("the mean of the steps differs by %g from the central one, whose largest change is %g", worst, norm)
	}
}

// TestSameUpdateEachTime: an update does not depend on who else is asked, and the order of rows on nothing but seed, round
// and their number. Several steps go further than one, and a client without a counted token changes nothing.
func TestSameUpdateEachTime(t *testing.T) {
	w := open(t)
	training := update.Training{Rate: .1, Epochs: 2, Batch: 2}
	alone, together := w.changes(training, 3)[3], w.changes(training, 5, 4, 3, 2, 1, 0)
	if !slices.Equal(alone, together[3]) {
		t.Error("a client's update depends on the others")
	}
	if update.Norm(together[5]) != 0 {
		t.Errorf("a client without a token moves the weights by %g", update.Norm(together[5]))
	}
	fewer := training
	if fewer.Rows = 1; fewer.Name() == training.Name() || slices.Equal(w.changes(fewer, 3)[3], alone) {
		t.Error("a client trains on all rows where one was asked for")
	}
	if fewer.Rows = 100; !slices.Equal(w.changes(fewer, 3)[3], alone) {
		t.Error("a client with fewer rows than were asked for does not train on all")
	}
	training.Epochs = 1
	if one := w.changes(training, 3)[3]; !(update.Norm(alone) > update.Norm(one)) || update.Norm(one) == 0 {
		t.Errorf("two epochs move the weights by %g, one by %g", update.Norm(alone), update.Norm(one))
	}
}
