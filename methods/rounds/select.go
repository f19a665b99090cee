package rounds

import "popri/show/series"

// Figures of a round by which [Nearest] chooses: the released distance of its samples from the clients, and that of
// samples which its own adapters wrote afterwards.
const (
	Distance      = "distance"
	DistanceAfter = "distance_after"
)

// Selection is a choice among the states of a run.
type Selection struct {
	Round    int     `json:"after_round"` // the state after this round; 0 is the beginning
	Distance float64 `json:"distance"`    // of samples that this state wrote
}

// Nearest chooses the state with the least released distance, the earliest of equals. The samples of a round are written
// before its training, so they measure the state after the round before. ok is false if no distance is known.
func Nearest(rounds []series.Round) (s Selection, ok bool) {
	consider := func(round int, distance *float64) {
		if distance != nil && (!ok || *distance < s.Distance) {
			s, ok = Selection{round, *distance}, true
		}
	}
	for _, r := range rounds {
		consider(r.Number-1, r.Get(Distance))
		consider(r.Number, r.Get(DistanceAfter))
	}
	return s, ok
}
