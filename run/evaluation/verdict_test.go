package evaluation

import (
	"strings"
	"testing"

	"popri/eval/downstream"
)

func TestNoGap(t *testing.T) {
	row := func(key string, accuracy float64) downstream.Result {
		return downstream.Result{Key: key, Accuracy: accuracy}
	}
	closed := row("a", .2)
	closed.GapClosed = new(0.5)
	for want, rows := range map[string][]downstream.Result{
		"":                                       {row(downstream.Public, .1), closed, row(downstream.Private, .3)},
		"eval.reference_private=true shows them": {row(downstream.Public, .1), row("a", .2)},
		"so there is no gap": {row(downstream.Public, .3), row("a", .2),
			row(downstream.Private, .3)},
		"no other text": {row(downstream.Public, .1), row(downstream.Private, .3)},
	} {
		e := Outcome{Results: rows}
		if got := e.NoGap(); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestVerdict: the synthetic set is compared with the best other text, and reference points do not count.
func TestVerdict(t *testing.T) {
	row := func(key string, behind float64, ci ...float64) downstream.Result {
		r := downstream.Result{Key: key, Name: "text " + key, Deficit: &behind, BestStep: 20}
		if ci != nil {
			r.DeficitCI = &downstream.Interval{ci[0], ci[1]}
		}
		return r
	}
	for _, c := range []struct {
		rows []downstream.Result
		want string
	}{
		{nil, ""},
		{[]downstream.Result{row(downstream.Public, .05), row(downstream.Private, -.05)}, ""},
		{[]downstream.Result{row(downstream.Public, -.01), row("a", .01)}, "did not help"},
		{[]downstream.Result{row("a", .03, .02, .04), row("b", .011, .0052, .0171),
			row(downstream.Private, -.05, -.06, -.04)},
			"The small model is better than the strongest baseline, text b: +1.10 points of accuracy (95 % interval over " +
				"40 test clients +0.52 to +1.71), so the choice of test clients does not explain it."},
		{[]downstream.Result{row("a", .001, -.002, .004)},
			"The small model and the strongest baseline, text a, are not distinguishable: +0.10 points of accuracy (95 " +
				"% interval over 40 test clients −0.20 to +0.40)"},
		{[]downstream.Result{row("a", -.01, -.02, -.004), row("b", .1, .09, .11)},
			"The small model is worse than the strongest baseline, " +
				"text a: −1.00 points of accuracy"},
		{[]downstream.Result{row("a", .01)}, "nothing says whether that is chance"},
		{[]downstream.Result{row("a", 0, 0, 0), row("b", .011, .0052, .0171)},
			"The synthetic set is the same as text a. The small model is better than the strongest baseline, text b: +1.10"},
		{[]downstream.Result{{Key: "a", Deficit: new(0.0), DeficitCI: &downstream.Interval{}}}, ""},
		{[]downstream.Result{row(KeyWritten, .001, -.01, .02), row("b", .02, .01, .03)}, "strongest baseline, text b"},
		{[]downstream.Result{row(KeyWritten, -.001, -.01, .02), row("b", .02, .01, .03)}, "strongest baseline, text b"},
		{[]downstream.Result{row(KeyWritten, -.01, -.02, -.004), row("b", .02, .01, .03)},
			"worse than the strongest baseline, text written"},
		{[]downstream.Result{row("a", 0, 0, 0)}, "The synthetic set is the same as text a."},
	} {
		e := Outcome{Results: c.rows, Clients: 40}
		if got := e.Verdict(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
