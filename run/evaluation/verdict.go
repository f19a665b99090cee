package evaluation

import (
	"fmt"
	"strings"

	"popri/eval/downstream"
)

// Verdict says in a sentence or two how the synthetic set compares with the best of the other texts, and whether other test
// clients could have given another answer. It is "" where nothing was compared.
func (e *Outcome) Verdict() string {
	var best *downstream.Result
	helped := ""
	var same []string // rows whose small model is the synthetic set's: synthetic.mix=validated may choose one of these texts
	for i := range e.Results {
		r := &e.Results[i]
		untrained := r.Key == downstream.Public && r.Texts == 0
		if untrained && r.Deficit != nil && *r.Deficit <= 0 {
			helped = "The run did not help: the small model is as good without it (ε = 0). "
		}
		if r.Deficit == nil || r.Key == downstream.Private || untrained {
			continue
		}
		if Same(*r) {
			if r.BestStep > 0 { // else both are the model before training
				same = append(same, r.Name)
			}
			continue
		}
		// What the tuned model wrote is a part of the synthetic set and no baseline; only where it teaches more than other
		// test clients explain, a reader needs to know of it.
		if r.Key == KeyWritten && (*r.Deficit >= 0 || r.DeficitCI != nil && r.DeficitCI[1] >= 0) {
			continue
		}
		if best == nil || *r.Deficit < *best.Deficit {
			best = r
		}
	}
	chosen := helped
	if len(same) > 0 {
		chosen += "The synthetic set is the same as " + strings.Join(same, " and ") + ". "
	}
	if best == nil {
		return strings.TrimSpace(chosen)
	}
	difference := signed(100**best.Deficit) + " points of accuracy"
	if best.DeficitCI == nil {
		return chosen + fmt.Sprintf("The small model has %s against the strongest baseline, %s. There are no "+
			"intervals, so nothing says whether that is chance.", difference, best.Name)
	}
	low, high := 100*best.DeficitCI[0], 100*best.DeficitCI[1]
	words, chance := "The small model is better than the strongest baseline, "+
		best.Name, "so the choice of test clients does not explain it"
	switch {
	case high < 0:
		words = "The small model is worse than the strongest baseline, " + best.Name
	case low <= 0:
		words = "The small model and the strongest baseline, " + best.Name + ", are not distinguishable"
		chance = "so it could be the choice of test clients"
	}
	return chosen + fmt.Sprintf("%s: %s (95 %% interval over %d test clients %s to %s), %s. Other seeds show how much "+
		"another run's noise and samples change; this interval does not.", words, difference, e.Clients, signed(low),
		signed(high), chance)
}

// signed writes a number with its sign, and a minus as the pages have it.
func signed(v float64) string { return strings.Replace(fmt.Sprintf("%+.2f", v), "-", "−", 1) }

// Same reports whether a row's small model is the synthetic set's, as where synthetic.mix=validated chose the row's texts.
func Same(r downstream.Result) bool {
	return r.Deficit != nil && *r.Deficit == 0 && r.DeficitCI != nil && *r.DeficitCI == (downstream.Interval{}) &&
		!(r.Key == downstream.Public && r.Texts == 0)
}
