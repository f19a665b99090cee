package downstream

import (
	"math"
	"testing"

	"popri/datasets/clients"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/model/lm"
	"popri/model/mixture"
	"popri/model/tensor"
	"popri/testkit/testmodel"
)

// TestTableOfNothing: with a table that changes nothing, a model scores as by itself, token for token.
func TestTableOfNothing(t *testing.T) {
	w, _, _ := world(t)
	m := testmodel.Load(t, w.Device, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
	defer m.Free()
	rows, _ := texts(t)
	err := tensor.Run(func(s *tensor.Scope) error {
		want, err := Tested{Model: m}.rows(s, rows, nil)
		if err != nil {
			return err
		}
		told := 0
		got, err := Tested{m, &mixture.Table{}}.rows(s, rows, func(tokens int) error { told += tokens; return nil })
		for i := range want {
			g := got[i]
			if math.Abs(g.Loss-want[i].Loss) > 1e-4*(1+want[i].Loss) {
				t.Errorf("row %d has the loss %g, want %g", i, g.Loss, want[i].Loss)
			}
			if g.Loss = want[i].Loss; g != want[i] {
				t.Errorf("row %d has %+v, want %+v", i, g, want[i])
			}
		}
		if told != lm.Tokens(rows) {
			t.Errorf("the work is %d tokens of %d", told, lm.Tokens(rows))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTableOfBigrams: a model that knows nothing gets, with the table of the true pairs, their conditional entropy as
// loss, and predicts the likelier follower.
func TestTableOfBigrams(t *testing.T) {
	w, _, _ := world(t)
	m := testmodel.Load(t, w.Device, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
	defer m.Free()
	err := tensor.Run(func(s *tensor.Scope) error {
		for _, name := range m.Names() {
			p := m.Param(name)
			s.NoGrad(func() { s.Copy_(p, s.Zeros(p.DType(), p.Shape()...)) })
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// After 3 comes 4 with probability 3/4, else 3. After 4 comes 3.
	random, rows := rng.New(1, t.Name()), []lm.Row{}
	pairs := map[[2]int32]float64{}
	for range 300 {
		row := []int32{3}
		for range 15 {
			next := int32(3)
			if row[len(row)-1] == 3 && random.IntN(4) > 0 {
				next = 4
			}
			pairs[[2]int32{row[len(row)-1], next}]++
			row = append(row, next)
		}
		rows = append(rows, lm.Row{Tokens: row})
	}
	after3, n := pairs[[2]int32{3, 3}]+pairs[[2]int32{3, 4}], 300*15.
	four := pairs[[2]int32{3, 4}] / after3
	table := &mixture.Table{Rows: map[int32]mixture.Row{3: {Weight: 1, Next: map[int32]float64{4: four, 3: 1 - four}},
		4: {Weight: 1, Next: map[int32]float64{3: 1}}}}
	loss, accuracy, err := Tested{m, table}.Measure(rows)
	entropy := -after3 / n * (four*math.Log(four) + (1-four)*math.Log(1-four))
	if right := (n - after3*(1-four)) / n; err != nil || math.Abs(loss-entropy) > 1e-6 || math.Abs(accuracy-right) > 1e-12 {
		t.Errorf("loss %g, accuracy %g (%v), want %g and %g", loss, accuracy, err, entropy, right)
	}
	if loss, _, err := (Tested{Model: m}).Measure(rows); err != nil ||
		math.Abs(loss-math.Log(float64(m.Config.Vocab))) > 1e-5 {
		t.Errorf("without a table the loss is %g (%v)", loss, err)
	}
	// In a suite, the folder of a model with a table is tested with it.
	dir := t.TempDir()
	if err := m.SaveLike(w.Device, dir, "F32"); err != nil {
		t.Fatal(err)
	}
	if err := table.Write(dir); err != nil {
		t.Fatal(err)
	}
	opened, err := OpenTested(dir, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Free()
	if again, _, err := opened.Measure(rows); err != nil || again != loss {
		t.Errorf("from its folder, the loss is %g (%v), want %g", again, err, loss)
	}
	p, err := clients.Read(w.Private)
	if err != nil {
		t.Fatal(err)
	}
	u := Suite{ModelDir: dir, Population: p, Options: options(2)}
	sources := []Source{{Key: "x", Name: "x", Texts: clients.Texts(p.Split(clients.Validation))}}
	if _, err := u.Run(t.Context(), sources); !fault.IsUser(err) {
		t.Errorf("a model with a table was trained: %v", err)
	}
}
