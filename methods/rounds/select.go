package rounds

import (
	"math"

	"popri/show/series"
)

// Figures of a round by which [Best] chooses: what its samples are measured by, and the same, with [After] behind the
// name, of samples that its own adapters wrote afterwards.
const (
	Distance = "distance" // released, from the clients
	FID      = "fid"      // without noise, from the validation clients
	After    = "_after"
	Chance   = "_se" // behind a name: the figure's standard error from the draw of the samples
	// PublicDistance is the released distance of all public texts, without weights, from the clients.
	PublicDistance = "public_distance"
)

// Selection is a choice among the states of a run.
type Selection struct {
	Round int     `json:"after_round"` // the state after this round; 0 is the beginning
	By    string  `json:"by"`          // Distance or FID
	Value float64 `json:"value"`       // of samples that this state wrote
}

// Best chooses the state with the least value of a figure, the earliest of equals. The samples of a round are written
// before its training, so they measure the state after the round before. ok is false if no value is known.
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

// Progress says how a figure that [Best] chooses by went over the rounds.
type Progress struct {
	First, Last float64 // of the first and of the last samples that were measured
	Least       float64 // the least so far that is below the ones before by more than chance
	Idle        int     // measurements since then
	Measured    int
}

// ProgressOf follows a figure. A value counts as a fall if it is below the last fall by more than the standard error of
// their difference.
func ProgressOf(rounds []series.Round, by string) (p Progress) {
	chance := 0.0
	see := func(r series.Round, key string) {
		v := r.Get(key)
		if v == nil {
			return
		}
		own := 0.0
		if se := r.Get(key + Chance); se != nil {
			own = *se
		}
		if p.Measured == 0 {
			p.First = *v
		}
		p.Last = *v
		if p.Measured == 0 || *v < p.Least-math.Hypot(own, chance) {
			p.Least, p.Idle, chance = *v, 0, own
		} else {
			p.Idle++
		}
		p.Measured++
	}
	for i, r := range rounds {
		if see(r, by); i == len(rounds)-1 { // before another round, it is what that one measures at first
			see(r, by+After)
		}
	}
	return p
}
