package judge

import (
	"cmp"
	"math"
	"slices"

	"popri/eval/metrics"
	"popri/internal/numeric"
)

// Attack guesses from the synthetic set which clients are members. It is a lower bound of what can be learnt; the stated ε is
// an upper one.
type Attack struct {
	Name    string  `json:"name"`
	AUC     float64 `json:"auc"`     // probability that a member looks more like one than a control
	Epsilon float64 `json:"epsilon"` // that the attack shows, with 95 % confidence; 0 for none
}

// Guess has a score of each of some clients: the higher, the more a client looks like a member.
type Guess struct {
	Name              string
	Members, Controls []float64
}

// attacks scores clients by how near the synthetic set is to their texts, and by their longest run of words in it.
func (in Input) attacks(found runs, e embedded) []Attack {
	near := func(cosines []float64, of []int) (means []float64) {
		for i := 0; i < len(of); {
			sum, first := 0.0, i
			for ; i < len(of) && of[i] == of[first]; i++ {
				sum += cosines[i]
			}
			means = append(means, sum/float64(i-first))
		}
		return means
	}
	members, _ := nearest(e.members, e.product, anyRow)
	controls, _ := nearest(e.controls, e.product, anyRow)
	lengths := func(list []run) []float64 {
		return numeric.Map(list, func(r run) float64 { return float64(r.Words) })
	}
	out := []Attack{
		in.attack("nearest text of the synthetic set", near(members, e.memberOf), near(controls, e.controlOf)),
		in.attack("longest run of words in the synthetic set", lengths(found.members), lengths(found.controls)),
	}
	for _, g := range in.Guesses {
		out = append(out, in.attack(g.Name, g.Members, g.Controls))
	}
	return out
}

// attack chooses the threshold that is best on one half of the clients, and measures it on the other.
func (in Input) attack(name string, members, controls []float64) Attack {
	a := Attack{Name: name, AUC: metrics.AUC(members, controls)}
	split := func(list []float64, what string) (fit, test []float64) {
		for i, at := range in.random("attack " + what).Perm(len(list)) {
			if i < len(list)/2 {
				fit = append(fit, list[at])
			} else {
				test = append(test, list[at])
			}
		}
		return fit, test
	}
	fitMembers, testMembers := split(members, "members")
	fitControls, testControls := split(controls, "controls")
	if len(fitMembers) == 0 || len(fitControls) == 0 {
		return a
	}
	candidates := slices.Compact(slices.Sorted(slices.Values(slices.Concat(fitMembers, fitControls))))
	threshold := slices.MaxFunc(candidates, func(s, t float64) int {
		return cmp.Compare(in.shown(fitMembers, fitControls, s), in.shown(fitMembers, fitControls, t))
	})
	a.Epsilon = in.shown(testMembers, testControls, threshold)
	return a
}

// shown is the ε that a guess at a threshold shows with 95 % confidence, never below 0 (Jagielski et al. 2020, with δ):
// both fractions of right and wrong guesses are bounded by Clopper and Pearson at 97.5 %.
func (in Input) shown(members, controls []float64, threshold float64) float64 {
	least := func(list []float64) int {
		return numeric.Sum(list, func(x float64) int { return one(x >= threshold) })
	}
	const miss = 0.025
	k, n, f, m := least(members), len(members), least(controls), len(controls)
	epsilon := func(right, wrong float64) float64 {
		if right-in.Delta <= 0 {
			return 0
		}
		return math.Log((right - in.Delta) / wrong)
	}
	return max(0, epsilon(numeric.ProbabilityAtLeast(k, n, miss), numeric.ProbabilityAtMost(f, m, miss)),
		epsilon(numeric.ProbabilityAtLeast(m-f, m, miss), numeric.ProbabilityAtMost(n-k, n, miss)))
}
