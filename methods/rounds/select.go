package rounds

import "popri/show/series"

// Figures of a round by which [Best] chooses: what its samples are measured by, and the same, with [After] behind the name, of
// samples that its own adapters wrote afterwards.
const (
	Distance = "distance" // released, from the clients
	FID      = "fid"      // without noise, from the validation clients
	After    = "_after"
)

// Selection is a choice among the states of a run.
type Selection struct {
	Round int     `json:"after_round"` // the state after this round; 0 is the beginning
	By    string  `json:"by"`          // Distance or FID
	Value float64 `json:"value"`       // of samples that this state wrote
}

// Best chooses the state with the least value of a figure, the earliest of equals. The samples of a round are written before
// its training, so they measure the state after the round before. ok is false if no value is known.
func Best(rounds []series.Round, by string) (s Selection, ok bool) {
	consider := func(round int, value *float64) {
		if value != nil && (!ok || *value < s.Value) {
			s, ok = Selection{round, by, *value}, true
		}
	}
	for _, r := range rounds {
		consider(r.Number-1, r.Get(by))
		consider(r.Number, r.Get(by+After))
	}
	return s, ok
}
