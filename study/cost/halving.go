package cost

import (
	"slices"

	"popri/internal/fault"
	"popri/methods"
	"popri/study/grid"
)

// Halving is successive halving (Jamieson and Talwalkar 2016; one bracket of Hyperband, Li et al. 2018): all settings
// are run for a part of their rounds, the best 1/Eta of them continue, and so forth up to all rounds.
//
// Its resource is the round, because a run continues where it ended. A release has the noise of the run's full plan, so
// a run that is dropped has spent less than its budget. A setting is judged by the text that its newest adapters
// write: the small model is trained on it and measured on the validation clients. Test clients take no part.
type Halving struct {
	Eta       int // 2 or more
	MinRounds int // of the first rung, 1 or more
}

// Rung is a stop on the way: the best Keep settings continue after the given number of rounds.
type Rung struct {
	Rounds int `json:"rounds"`
	Keep   int `json:"kept"`
}

// Rungs returns the stops for n settings with the given number of rounds. The end of the runs is no stop: nothing is
// dropped after it.
func (h Halving) Rungs(n, rounds int) (list []Rung) {
	for share := h.Eta; n >= h.Eta && rounds/share >= h.MinRounds; share *= h.Eta {
		list = append(list, Rung{Rounds: rounds / share})
		n /= h.Eta
	}
	slices.Reverse(list)
	return list
}

// Plan returns the rungs of a grid in which each setting has the given number of seeds.
func (h Halving) Plan(cells []grid.Cell, seeds int) ([]Rung, error) {
	if h.Eta < 2 || h.MinRounds < 1 {
		return nil, fault.Userf("--adaptive: --eta is %d and --min-rounds %d, want 2 or more and 1 or more", h.Eta,
			h.MinRounds)
	}
	rounds := methods.Of(cells[0].Config).Rounds(cells[0].Config)
	for _, c := range cells {
		if n := methods.Of(c.Config).Rounds(c.Config); n != rounds {
			return nil, fault.Userf("--adaptive: the settings have %d and %d rounds; rounds are what it divides, so "+
				"all must have as many", rounds, n)
		}
	}
	n := len(cells) / seeds
	list := h.Rungs(n, rounds)
	if len(list) == 0 {
		return nil, fault.Userf("--adaptive: there is nothing to drop of %d settings of %d rounds; it needs %d "+
			"settings and %d rounds, or less of --eta and --min-rounds", n, rounds, h.Eta, h.Eta*h.MinRounds)
	}
	for i := range list {
		n /= h.Eta
		list[i].Keep = n
	}
	return list, nil
}
