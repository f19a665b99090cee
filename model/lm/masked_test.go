package lm

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/model/tensor"
	"popri/testkit/golden"
)

// maskedCases are the golden models that predict masked tokens.
func maskedCases(t *testing.T) (folders []string) {
	t.Helper()
	root := golden.Folder(t, "masked")
	list, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		folders = append(folders, filepath.Join(root, e.Name()))
	}
	return folders
}

type maskedCase struct {
	Row    []int32
	Masked []int
	Best   []int32
	Logits [][]float32
}

func openMasked(t *testing.T, dir string) (m *Model, mask int32, cases []maskedCase) {
	t.Helper()
	var list struct {
		Mask  int32
		Cases []maskedCase
	}
	golden.ReadJSON(t, filepath.Join(dir, "cases.json"), &list)
	m, err := LoadMasked(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	return m, list.Mask, list.Cases
}

// TestGoldenMasked compares with transformers' …ForMaskedLM: the logits of masked tokens in rows of several lengths,
// and the likeliest tokens.
func TestGoldenMasked(t *testing.T) {
	checked := 0
	for _, dir := range maskedCases(t) {
		m, mask, cases := openMasked(t, dir)
		var rows [][]int32
		var places [][]int
		for _, k := range cases {
			rows, places = append(rows, k.Row), append(places, k.Masked)
		}
		filled, err := m.Fill(t.Context(), rows, places, FillOptions{Mask: mask})
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range cases {
			want := slices.Clone(k.Row)
			hidden := slices.Clone(k.Row)
			for j, at := range k.Masked {
				want[at], hidden[at] = k.Best[j], mask
			}
			if !slices.Equal(filled[i], want) {
				t.Errorf("%s: row %d is filled as %v, want %v", dir, i, filled[i], want)
			}
			sameValues(t, dir, maskedLogits(t, m, hidden, k.Masked), slices.Concat(k.Logits...), 1e-3)
			checked += len(k.Masked)
		}
	}
	golden.Checked(t, "masked tokens", checked)
}

// maskedLogits are the logits at some places of a row, side by side.
func maskedLogits(t *testing.T, m *Model, row []int32, places []int) (out []float32) {
	t.Helper()
	err := tensor.Run(func(s *tensor.Scope) error {
		in := wholeRows(s, []Row{{Tokens: row}}, PaddedInput(s, [][]int32{row}, m.Config.Context))
		flat := make([]int64, len(places))
		for i, at := range places {
			flat[i] = int64(at)
		}
		h := s.Reshape(m.Hidden(s, in, nil), -1, int64(m.Config.Hidden))
		out = s.Float32s(m.Logits(s, s.IndexSelect(h, 0, s.FromInt64(flat, int64(len(flat))))))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestFillDraws: drawn tokens have the model's probabilities, banned ones are left out, other tokens stay, and a row's
// draws depend on its place and the seed alone.
func TestFillDraws(t *testing.T) {
	m, mask, cases := openMasked(t, maskedCases(t)[0])
	k := cases[0]
	at := k.Masked[:1]
	hidden := slices.Clone(k.Row)
	hidden[at[0]] = mask
	logits := maskedLogits(t, m, hidden, at)
	const n = 4000
	o := FillOptions{Mask: mask, Temperature: 0.5, Banned: []int32{k.Best[0]}, Seed: 3}
	rows, places := make([][]int32, n), make([][]int, n)
	for i := range rows {
		rows[i], places[i] = k.Row, at
	}
	filled, err := m.Fill(t.Context(), rows, places, o)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]float64, m.Config.Vocab)
	for _, row := range filled {
		counts[row[at[0]]] += 1 / float64(n)
		rest := slices.Clone(row)
		if rest[at[0]] = k.Row[at[0]]; !slices.Equal(rest, k.Row) {
			t.Fatalf("%v became %v", k.Row, row)
		}
	}
	total := 0.0
	for id, x := range logits {
		if int32(id) != k.Best[0] {
			total += math.Exp(float64(x) / o.Temperature)
		}
	}
	for id, x := range logits {
		p := math.Exp(float64(x)/o.Temperature) / total
		if int32(id) == k.Best[0] {
			p = 0
		}
		if d := math.Abs(counts[id] - p); d > 5*math.Sqrt(p*(1-p)/n)+map[bool]float64{true: 3.0 / n}[p > 0] {
			t.Errorf("token %d is drawn in %.4f of the rows, want %.4f", id, counts[id], p)
		}
	}
	again, err := m.Fill(t.Context(), rows[:7], places[:7], o)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range again {
		if !slices.Equal(row, filled[i]) {
			t.Errorf("row %d of fewer rows is another one", i)
		}
	}
	one := func(seed uint64) []int32 {
		out, err := m.Fill(t.Context(), [][]int32{k.Row}, [][]int{k.Masked},
			FillOptions{Mask: mask, Temperature: 1, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	if slices.Equal(one(1), one(2)) && slices.Equal(one(2), one(3)) {
		t.Error("the seed changes nothing")
	}
}

func TestFillRefuses(t *testing.T) {
	m, mask, cases := openMasked(t, maskedCases(t)[0])
	row := cases[0].Row
	for want, fill := range map[string]func() ([][]int32, error){
		"has no token": func() ([][]int32, error) {
			return m.Fill(t.Context(), [][]int32{row}, [][]int{{len(row)}}, FillOptions{Mask: mask})
		},
		"masks for 0 rows": func() ([][]int32,
			error) {
			return m.Fill(t.Context(), [][]int32{row}, nil, FillOptions{Mask: mask})
		},
		"outside the vocabulary": func() ([][]int32, error) {
			return m.Fill(t.Context(), [][]int32{row}, [][]int{{0}}, FillOptions{Mask: 1 << 20})
		},
		"longer than the context": func() ([][]int32, error) {
			return m.Fill(t.Context(), [][]int32{make([]int32, 1000)}, [][]int{{0}}, FillOptions{Mask: mask})
		},
		"out of range": func() ([][]int32, error) {
			return m.Fill(t.Context(), [][]int32{row}, [][]int{{0}}, FillOptions{Mask: mask, Temperature: math.NaN()})
		},
	} {
		if _, err := fill(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error: %v", want, err)
		}
	}
	folder := filepath.Join(golden.Folder(t, "models"), "gpt2-tiny")
	if _, err := LoadMasked(folder, Options{}); err == nil ||
		!strings.Contains(err.Error(), "does not fill masked tokens") {
		t.Errorf("GPT-2 fills masked tokens: %v", err)
	}
	for _, dir := range maskedCases(t) {
		if strings.HasSuffix(dir, "roberta") {
			if _, err := Load(dir, Options{}); err == nil || !strings.Contains(err.Error(), "not supported") {
				t.Errorf("RoBERTa is read as a language model: %v", err)
			}
		}
	}
}
