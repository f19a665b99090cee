package incontext

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/stat"

	"popri/eval/downstream"
	"popri/internal/numeric"
	"popri/model/lm"
)

// Outcome is what a language model reached with demonstrations of several kinds.
type Outcome struct {
	Model   string   `json:"model"`
	Labels  []string `json:"labels"`
	Texts   int      `json:"test_texts"` // that were asked about, for each set of demonstrations
	Seed    uint64   `json:"seed"`
	Header  string   `json:"header,omitempty"`
	Item    string   `json:"item"`
	Results []Result `json:"results"`
}

// Result is what demonstrations of one kind reached: means over the draws, and their standard deviations.
type Result struct {
	Key          string  `json:"key"`
	Name         string  `json:"name"`
	Shots        int     `json:"shots"` // demonstrations shown
	Texts        int     `json:"texts"` // that they were drawn from
	Accuracy     float64 `json:"accuracy"`
	AccuracySD   float64 `json:"accuracy_sd"`
	Calibrated   float64 `json:"calibrated_accuracy"`
	CalibratedSD float64 `json:"calibrated_accuracy_sd"`
	MacroF1      float64 `json:"macro_f1"`
	CalibratedF1 float64 `json:"calibrated_macro_f1"`
	Draws        []Score `json:"draws"`
}

// Score is what one set of demonstrations reached.
type Score struct {
	Accuracy     float64 `json:"accuracy"` // fraction of the test texts that get their label
	Calibrated   float64 `json:"calibrated_accuracy"`
	MacroF1      float64 `json:"macro_f1"` // over the labels that test texts or answers have
	CalibratedF1 float64 `json:"calibrated_macro_f1"`
}

// Test asks about each test text with the same demonstrations, and compares the answers with the texts' labels.
func (f Format) Test(ctx context.Context, m *lm.Model, demonstrations, tests []Example, labels []string,
	told func(done int)) (*Score, error) {
	texts := numeric.Map(tests, func(t Example) string { return t.Text })
	answers, err := f.Ask(ctx, m, demonstrations, texts, labels, told)
	if err != nil {
		return nil, err
	}
	measure := func(calibrated bool) (accuracy, f1 float64) {
		return measured(numeric.Tabulate(len(tests), func(i int) downstream.Named {
			return downstream.Named{int32(slices.Index(labels, tests[i].Label)), int32(answers.Label(i, calibrated))}
		}))
	}
	var s Score
	s.Accuracy, s.MacroF1 = measure(false)
	s.Calibrated, s.CalibratedF1 = measure(true)
	return &s, nil
}

// measured is the accuracy and macro F1 of pairs of a true and a given label.
func measured(pairs []downstream.Named) (accuracy, f1 float64) {
	right := 0
	for _, p := range pairs {
		if p[0] == p[1] {
			right++
		}
	}
	return float64(right) / float64(len(pairs)), downstream.MacroF1([]downstream.Score{{Named: pairs}})
}

// Summed fills in the means over the draws.
func (r Result) Summed() Result {
	spread := func(of func(Score) float64) (mean, sd float64) {
		values := numeric.Map(r.Draws, of)
		if mean, sd = stat.MeanStdDev(values, nil); len(values) < 2 {
			sd = 0
		}
		return mean, sd
	}
	r.Accuracy, r.AccuracySD = spread(func(s Score) float64 { return s.Accuracy })
	r.Calibrated, r.CalibratedSD = spread(func(s Score) float64 { return s.Calibrated })
	r.MacroF1, _ = spread(func(s Score) float64 { return s.MacroF1 })
	r.CalibratedF1, _ = spread(func(s Score) float64 { return s.CalibratedF1 })
	return r
}
