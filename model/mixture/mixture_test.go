package mixture

import (
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/internal/fault"
	"popri/internal/rng"
	"popri/testkit/testfile"
)

// small is a table of three tokens. Token 2 has no row.
func small() *Table {
	return &Table{Tilt: .5, LogRatios: map[int32]float64{1: math.Log(4)}, Rows: map[int32]Row{
		0: {.25, map[int32]float64{1: .5, 2: .5}}, 1: {1, map[int32]float64{0: 1}}}}
}

// TestByHand: with equal logits, the tilt makes q = (1, 2, 1)/4.
func TestByHand(t *testing.T) {
	for before, want := range map[int32][3]float64{2: {.25, .5, .25}, 0: {.1875, .5, .3125}, 1: {1, 0, 0}} {
		logits := []float32{-3, -3, -3}
		small().Mix(before, logits)
		for v, l := range logits {
			if p := math.Exp(float64(l)); math.Abs(p-want[v]) > 1e-6 {
				t.Errorf("after %d, token %d has the probability %g, want %g", before, v, p, want[v])
			}
		}
	}
}

// TestSumsToOne: whatever model and table are. Without tilt and weight, the model is as it was.
func TestSumsToOne(t *testing.T) {
	random := rng.New(1, t.Name())
	for range 50 {
		const n = 300
		table := &Table{Tilt: random.Float64(), LogRatios: map[int32]float64{}, Rows: map[int32]Row{}}
		next, sum := map[int32]float64{}, 0.0
		for range 30 {
			table.LogRatios[int32(random.IntN(n))] = 3 * random.NormFloat64()
			v := int32(random.IntN(n))
			next[v] += random.Float64()
		}
		for _, p := range next {
			sum += p
		}
		for v := range next {
			next[v] /= sum
		}
		table.Rows[5] = Row{random.Float64(), next}
		logits, plain := make([]float32, n), make([]float32, n)
		norm := 0.0
		for v := range logits {
			logits[v] = float32(20 * random.NormFloat64())
			norm += math.Exp(float64(logits[v]))
		}
		copy(plain, logits)
		table.Mix(5, logits)
		sum = 0
		for _, l := range logits {
			sum += math.Exp(float64(l))
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Errorf("probabilities add up to %g", sum)
		}
		logits = append(logits[:0], plain...)
		table.Tilt = 0
		table.Mix(6, logits)
		for v, l := range logits {
			if want := float64(plain[v]) - math.Log(norm); math.Abs(float64(l)-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("token %d has %g without tilt and row, want %g", v, l, want)
			}
		}
	}
}

// TestFile: a table survives its file, and what is no table of a model names what is wrong.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	if got, err := Read(dir, 3); got != nil || err != nil || Has(dir) || Refuse(dir) != nil {
		t.Errorf("an empty folder has %v (%v)", got, err)
	}
	if err := small().Write(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(dir, 3); err != nil || !reflect.DeepEqual(got, small()) {
		t.Errorf("read %+v (%v)", got, err)
	}
	if err := Refuse(dir); !fault.IsUser(err) || !strings.Contains(err.Error(), "a table of words") {
		t.Errorf("%v", err)
	}
	if _, err := Read(dir, 2); !fault.IsUser(err) || !strings.Contains(err.Error(), "of 2 has the") {
		t.Errorf("a smaller vocabulary: %v", err)
	}
	for content, want := range map[string]string{
		`{`:                                     "unexpected end",
		`{"rows":{"x":{}}}`:                     "x",
		`{"rows":{"1":{"weight":2}}}`:           "weight 2",
		`{"rows":{"1":{"next":{"0":0.5}}}}`:     "sum 0.5",
		`{"rows":{"1":{"next":{"0":-1}}}}`:      "probability -1",
		`{"tilt":1e300,"log_ratios":{"0":1e9}}`: "1e+09",
	} {
		testfile.Write(t, filepath.Join(dir, File), content)
		if _, err := Read(dir, 3); !fault.IsUser(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), File) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}

// FuzzRead: what is read can be mixed.
func FuzzRead(f *testing.F) {
	f.Add(`{"tilt":1,"log_ratios":{"2":0.5},"rows":{"1":{"weight":0.5,"next":{"0":1}}}}`)
	f.Fuzz(func(t *testing.T, content string) {
		dir := t.TempDir()
		testfile.Write(t, filepath.Join(dir, File), content)
		if table, err := Read(dir, 3); err == nil {
			table.Mix(1, []float32{1, 2, 3})
		}
	})
}
