package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/eval/downstream"
	"popri/run/evaluation"
)

// A table has no column in which every cell is empty, says why the gap is missing, and has a dash in a cell without a
// figure.
func TestTableHasNoEmptyColumns(t *testing.T) {
	print := func(e evaluation.Outcome) (text string, head []string) {
		t.Helper()
		var out strings.Builder
		if err := (&app{out: &out}).emit(e, func(w io.Writer) { evaluationTable(w, &e) }); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(out.String(), "\n")
		for cell := range strings.SplitSeq(first, "  ") {
			if cell = strings.TrimSpace(cell); cell != "" {
				head = append(head, cell)
			}
		}
		return out.String(), head
	}
	bare := []downstream.Result{{Key: downstream.Public, Name: "public", Accuracy: .1, Perplexity: 20},
		{Key: "popri", Name: "product", Accuracy: .2, Perplexity: 10}}
	text, head := print(evaluation.Outcome{Results: bare})
	if want := []string{"trained on", "texts", "accuracy %", "perplexity"}; !slices.Equal(head, want) ||
		!strings.Contains(text, "no share of the gap closed") {
		t.Errorf("%q\n%s", head, text)
	}
	full := append(slices.Clone(bare), downstream.Result{Key: downstream.Private, Name: "private", Accuracy: .3,
		Perplexity: 5})
	full[1].GapClosed, full[1].GapClosedCI, full[1].AccuracyCI = new(0.5), &downstream.Interval{.4,
		.6}, &downstream.Interval{.19, .21}
	text, head = print(evaluation.Outcome{Results: full})
	if want := []string{"trained on", "texts", "accuracy %", "95 % interval", "perplexity", "gap closed %",
		"95 % interval"}; !slices.Equal(head, want) || strings.Contains(text, "no share") ||
		strings.Count(text, "–") != 6 {
		t.Errorf("%q\n%s", head, text)
	}
	labelled := slices.Clone(bare)
	labelled[1].MacroF1 = new(0.4)
	_, head = print(evaluation.Outcome{Results: labelled, Task: configs.Classification})
	if want := []string{"trained on", "texts", "accuracy %", "macro F1 %"}; !slices.Equal(head, want) {
		t.Errorf("%q", head)
	}
}
