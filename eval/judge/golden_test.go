package judge

import (
	"math"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/stat"

	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/testkit/golden"
)

// TestGoldenJudge compares MAUVE with its authors' program, and divergences, tests and bounds with SciPy.
func TestGoldenJudge(t *testing.T) {
	var cases struct {
		Histograms []struct {
			P, Q          []float64
			Mauve         float64
			JensenShannon float64 `json:"jensen_shannon"`
		}
		Points []struct {
			P, Q      [][]float32
			Mean, Std float64
		}
		Fisher []struct {
			Members, Of, Controls int
			OfControls            int `json:"of_controls"`
			P                     float64
		}
		Bounds []struct {
			K, N         int
			Lower, Upper float64
		} `json:"clopper_pearson"`
	}
	golden.ReadJSON(t, filepath.Join(golden.Folder(t, "judge"), "cases.json"), &cases)
	near := func(what string, got, want, tolerance float64) {
		t.Helper()
		if !(math.Abs(got-want) <= tolerance) {
			t.Errorf("%s: %.12g, want %.12g", what, got, want)
		}
	}
	for _, h := range cases.Histograms {
		near("MAUVE of histograms", frontier(h.P, h.Q), h.Mauve, 1e-9)
		a, b := counts{}, counts{}
		for i := range h.P {
			a[string(rune('a'+i))], b[string(rune('a'+i))] = h.P[i], h.Q[i]
		}
		near("Jensen-Shannon divergence", divergence(a, b), h.JensenShannon, 1e-9)
	}
	golden.Checked(t, "judge/histograms", len(cases.Histograms))
	matrix := func(rows [][]float32) embedding.Matrix {
		m := embedding.NewMatrix(len(rows), len(rows[0]))
		for i, row := range rows {
			copy(m.Row(i), row)
		}
		return m
	}
	for _, k := range cases.Points {
		var values []float64
		for seed := range uint64(10) {
			v, err := mauve(matrix(k.P), matrix(k.Q), rng.New(seed, "golden"))
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		mean, std := stat.MeanStdDev(values, nil)
		t.Logf("MAUVE of points: %.4f ± %.4f, the authors' program %.4f ± %.4f", mean, std, k.Mean, k.Std)
		near("MAUVE of points", mean, k.Mean, 4*math.Hypot(std, k.Std)/math.Sqrt(10)+0.01)
	}
	golden.Checked(t, "judge/points", len(cases.Points))
	for _, k := range cases.Fisher {
		near("Fisher's exact test", fisher(k.Members, k.Of, k.Controls, k.OfControls), k.P, 1e-9)
	}
	golden.Checked(t, "judge/fisher", len(cases.Fisher))
	for _, k := range cases.Bounds {
		near("the lower bound", numeric.ProbabilityAtLeast(k.K, k.N, 0.025), k.Lower, 1e-9)
		near("the upper bound", numeric.ProbabilityAtMost(k.K, k.N, 0.025), k.Upper, 1e-9)
	}
	golden.Checked(t, "judge/clopper-pearson", len(cases.Bounds))
}
