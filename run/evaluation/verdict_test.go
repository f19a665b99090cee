package evaluation

import (
	"strings"
	"testing"

	"popri/eval/downstream"
)

// TestVerdict: the product is compared with the best other text, and reference points do not count.
func TestVerdict(t *testing.T) {
	row := func(key string, behind float64, ci ...float64) downstream.Result {
		r := downstream.Result{Key: key, Name: "text " + key, Deficit: &behind}
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
		{[]downstream.Result{row("a", .03, .02, .04), row("b", .011, .0052, .0171), row(downstream.Private, -.05, -.06, -.04)},
			"The product is better than the strongest baseline, text b: +1.10 points of accuracy (95 % interval over 40 test clients " +
				"+0.52 to +1.71), so the choice of test clients does not explain it."},
		{[]downstream.Result{row("a", .001, -.002, .004)}, "The product and the strongest baseline, text a, are not told apart: +0.10 points of accuracy (95 % interval over 40 test clients −0.20 to +0.40)"},
		{[]downstream.Result{row("a", -.01, -.02, -.004), row("b", .1, .09, .11)}, "The product is worse than the strongest baseline, " +
			"text a: −1.00 points of accuracy"},
		{[]downstream.Result{row("a", .01)}, "nothing says whether that is chance"},
		{[]downstream.Result{row("a", 0, 0, 0), row("b", .011, .0052, .0171)}, "The product was chosen on validation clients and is the " +
			"same as the row text a. The product is better than the strongest baseline, text b: +1.10"},
		{[]downstream.Result{row("a", 0, 0, 0)}, "is the same as the row text a."},
	} {
		e := Outcome{Results: c.rows, Clients: 40}
		if got := e.Verdict(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
