package lm

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/model/safetensors"
	"popri/model/tensor"
	"popri/testkit/golden"
	"popri/testkit/testfile"
)

var threeLabels = []string{"a", "b", "c"}

func loadClassifier(t *testing.T, dir string, labels []string, seed uint64) *Model {
	t.Helper()
	m, err := LoadClassifier(dir, labels, Options{}, rand.New(rand.NewPCG(seed, 0)).NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	return m
}

// classLogits are the model's logits of rows, side by side.
func classLogits(t *testing.T, m *Model, rows []Row) (out []float32) {
	t.Helper()
	err := tensor.Run(func(s *tensor.Scope) error {
		var ids [][]int32
		for _, r := range rows {
			ids = append(ids, r.Tokens)
		}
		in := PaddedInput(s, ids, m.Config.Context)
		if m.Config.twoWay() {
			in = wholeRows(s, rows, in)
		}
		at, _, _ := m.targets(rows, in.rowStarts(len(rows)))
		out = s.Float32s(m.Logits(s, m.pick(s, m.Hidden(s, in, nil), s.FromInt64(at, int64(len(at))), dropout{})))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestGoldenClassifiers compares with transformers' …ForSequenceClassification: logits, the losses of a training in one
// pass, in passes side by side and with recomputed blocks, and what the trained model says.
func TestGoldenClassifiers(t *testing.T) {
	root := golden.Folder(t, "downstream")
	var list struct {
		Classes int
		Cases   []struct {
			Model        string
			Head         map[string][]float32
			Rows         [][]int32
			Classes      []int32
			Logits       [][]float32
			LearningRate float64 `json:"learning_rate"`
			Batch        int
			Order        [][]int
			Losses       []float64
			Loss         float64
			Best         []int32
		}
	}
	golden.ReadJSON(t, filepath.Join(root, "classifier.json"), &list)
	checked := 0
	for _, k := range list.Cases {
		var rows []Row
		for i, ids := range k.Rows {
			rows = append(rows, Row{Tokens: ids, Class: k.Classes[i]})
		}
		for _, way := range []string{"one pass", "passes", "recomputed"} {
			name := k.Model + ", " + way
			m := loadClassifier(t, filepath.Join(root, k.Model), threeLabels[:list.Classes], 1)
			for tensor, values := range k.Head {
				m.Param(tensor).Store(values)
			}
			sameValues(t, name, classLogits(t, m, rows), slices.Concat(k.Logits...), 1e-4)
			m.Recompute = way == "recomputed"
			optimizer := newDescent(t, m)
			err := tensor.Run(func(s *tensor.Scope) error {
				step := 0
				for _, order := range k.Order {
					for batch := range slices.Chunk(order, k.Batch) {
						var picked []Row
						for _, i := range batch {
							picked = append(picked, rows[i])
						}
						parts := 2
						if way == "one pass" {
							parts = 1
						}
						loss, _, err := optimizer.step(picked, parts, k.LearningRate)
						if err != nil || math.Abs(loss-k.Losses[step]) > 1e-3 {
							t.Errorf("%s: the loss of update %d is %g, want %g (%v)", name, step+1, loss,
								k.Losses[step], err)
						}
						step++
						checked++
					}
				}
				scores, err := m.EvaluateRows(s, rows, nil, 40, nil)
				if err != nil {
					return err
				}
				loss := 0.0
				for i, r := range scores {
					loss += r.Loss / float64(len(rows))
					right := map[bool]int{true: 1}[r.Best == rows[i].Class]
					if r.Best != k.Best[i] || r.Tokens != 1 || r.Correct != right {
						t.Errorf("%s: row %d: %+v, want the label %d", name, i, r, k.Best[i])
					}
				}
				if math.Abs(loss-k.Loss) > 1e-3 {
					t.Errorf("%s: the loss is %g, want %g", name, loss, k.Loss)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	golden.Checked(t, "downstream/classifier", checked)
}

// TestClassifierFolders: a language model of every kind gets a new head that follows from the seed; a saved classifier
// is read with its own head and labels, and refuses others.
func TestClassifierFolders(t *testing.T) {
	rows := []Row{{Tokens: []int32{5, 6, 7, 8}}, {Tokens: []int32{9, 3}}}
	for name, c := range every() {
		t.Run(name, func(t *testing.T) {
			k, _ := newCheckpoint(t, c)
			if labels, err := ClassifierLabels(k.dir); err != nil || labels != nil {
				t.Fatalf("a language model has the labels %q (%v)", labels, err)
			}
			m := loadClassifier(t, k.dir, threeLabels, 7)
			want := classLogits(t, m, rows)
			sameValues(t, "the same seed", classLogits(t, loadClassifier(t, k.dir, threeLabels, 7), rows), want, 0)
			if other := classLogits(t, loadClassifier(t, k.dir, threeLabels, 8), rows); slices.Equal(other, want) {
				t.Error("another seed gives the same head")
			}
			if m.canSample() {
				t.Error("a classifier can write texts")
			}
			dir := t.TempDir()
			if err := m.Save(dir, safetensors.F32); err != nil {
				t.Fatal(err)
			}
			if labels, err := ClassifierLabels(dir); err != nil || !slices.Equal(labels, threeLabels) {
				t.Errorf("the saved classifier has the labels %q (%v)", labels, err)
			}
			sameValues(t, "read again", classLogits(t, loadClassifier(t, dir, threeLabels, 9), rows), want, 0)
			for _, labels := range [][]string{{"a", "b"}, {"a", "c", "b"}, {"a"}, {"a", "a", "b"}} {
				if _, err := LoadClassifier(dir, labels, Options{}, nil); err == nil {
					t.Errorf("the classifier of %q takes the labels %q", threeLabels, labels)
				}
			}
			if _, err := Load(dir, Options{}); err == nil || !strings.Contains(err.Error(), "tensor") {
				t.Errorf("a classifier is read as a language model: %v", err)
			}
			config := filepath.Join(dir, "config.json")
			content := testfile.Read(t, config)
			if strings.Contains(string(content), `"is_decoder": true`) {
				t.Errorf("transformers would mask the classifier as a decoder: %s", content)
			}
			for old, now := range map[string]string{`"2": "c"`: `"3": "c"`, `"0": "a",`: ``,
				`"2": "c"` + "\n": `"2": "a"`, "{\n": `{"problem_type": "regression",`} {
				changed := strings.Replace(string(content), old, now, 1)
				if changed == string(content) {
					t.Fatalf("%q is not there", old)
				}
				testfile.Write(t, config, changed)
				if labels, err := ClassifierLabels(dir); err == nil {
					t.Errorf("%s: the labels are %q", now, labels)
				}
			}
		})
	}
}

// TestClassifierSees: a decoder's classifier reads the last token, and tokens see those before them; BERT's reads the
// first one, which sees all. The padding of a batch changes neither.
func TestClassifierSees(t *testing.T) {
	row := []int32{5, 6, 7, 8, 9}
	for name, c := range every() {
		k, _ := newCheckpoint(t, c)
		m := loadClassifier(t, k.dir, threeLabels, 7)
		alone := classLogits(t, m, []Row{{Tokens: row}})
		padded := classLogits(t, m, []Row{{Tokens: row}, {Tokens: slices.Repeat([]int32{4}, 30)}})
		sameValues(t, name+" padded", padded[:3], alone, 1e-4)
		for i := range row {
			changed := slices.Clone(row)
			changed[i] += 20
			if slices.Equal(classLogits(t, m, []Row{{Tokens: changed}}), alone) {
				t.Errorf("%s: token %d changes nothing", name, i)
			}
		}
	}
}

// TestClassifierDropout: the masks follow from the seed and include the pooler's, also where blocks are computed again.
func TestClassifierDropout(t *testing.T) {
	for _, name := range []string{"gpt2", "bert"} {
		c := every()[name]
		c.Layers = 1
		k, _ := newCheckpoint(t, c)
		losses := map[string]float64{}
		for _, way := range []string{"plain", "again", "recomputed", "other seed"} {
			m := loadClassifier(t, k.dir, threeLabels, 7)
			m.Recompute = way == "recomputed"
			o := newDescent(t, m)
			o.drop = Dropout{Rate: 0.3, Seed: map[bool]uint64{true: 2}[way == "other seed"]}
			var err error
			for range 3 { // the later losses show the gradients
				losses[way], _, err = o.step([]Row{{Tokens: []int32{5, 6, 7}, Class: 2}, {Tokens: []int32{8}}}, 1, 1e-2)
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if losses["plain"] != losses["again"] || math.Abs(losses["plain"]-losses["recomputed"]) > 1e-4 ||
			losses["plain"] == losses["other seed"] {
			t.Errorf("%s: losses %v", name, losses)
		}
	}
}

// TestClassifierWithoutCap: the head of a classifier has no cap of logits, in its losses and in its gradients.
func TestClassifierWithoutCap(t *testing.T) {
	var losses []float64
	for _, limit := range []float64{0.01, 30} {
		c := every()["gemma2"]
		c.Layers, c.LogitsCap = 1, limit
		k, _ := newCheckpoint(t, c)
		o := newDescent(t, loadClassifier(t, k.dir, threeLabels, 7))
		for range 3 { // the later losses show the gradients
			loss, _, err := o.step([]Row{{Tokens: []int32{5, 6, 7}, Class: 2}, {Tokens: []int32{8}}}, 1, 1e-2)
			if err != nil {
				t.Fatal(err)
			}
			losses = append(losses, loss)
		}
	}
	if !slices.Equal(losses[:3], losses[3:]) || losses[2] >= losses[0] {
		t.Errorf("the losses are %v with a small cap, %v with a large one", losses[:3], losses[3:])
	}
}
