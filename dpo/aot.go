package dpo

import (
	"cmp"

	"popri/internal/numeric"
)

// aot aligns distributions instead of pairs (Melnyk et al. 2024, arXiv 2406.05882, algorithm 1): it is the
// [conservative] loss of the differences of sorted values. Paired, these are log π(chosen) − log π(rejected) and the
// same of the reference; unpaired, the log-ratios of the chosen and of the rejected completions.
type aot struct {
	conservative
	unpaired bool
}

func (l aot) EvalAll(list []Example) []Value {
	of, against := Example.policy, Example.reference
	if l.unpaired {
		of, against = Example.chosen, Example.rejected
	}
	values := make([]Value, len(list))
	upper, lower := sorted(list, of), sorted(list, against)
	for rank, i := range upper {
		j := lower[rank]
		loss, grad := l.of(of(list[i]) - against(list[j]))
		values[i].Loss, values[i].GradChosen = loss, grad
		if l.unpaired {
			values[j].GradRejected = -grad
		} else {
			values[i].GradRejected = -grad
		}
	}
	return values
}

// policy and reference are the chosen completion's log-probability less the rejected one's.
func (e Example) policy() float64    { return e.PolicyChosen - e.PolicyRejected }
func (e Example) reference() float64 { return e.RefChosen - e.RefRejected }

// sorted returns the indices of examples in the order of a value. Equal ones keep their order.
func sorted(list []Example, of func(Example) float64) []int {
	return numeric.SortedIndices(len(list), func(a, b int) int { return cmp.Compare(of(list[a]), of(list[b])) })
}
