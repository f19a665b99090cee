package fedsim

import (
	"fmt"
	"math"

	"popri/internal/numeric"
	"popri/internal/rng"
)

// day is the number of rounds after which a client's probability to report repeats itself.
const day = 24

// Participation says which simulated clients report. Nothing of it depends on what the clients have written.
type Participation struct {
	Clients int
	// Available is the probability with which a client sends a report at all, on average over a day. A client's
	// probability rises and falls with the round, so that two rounds near each other hear much the same clients. One that is off,
	// or gone between its two uploads, sends none.
	Available float64
	Seed      uint64
}

// Arriving returns the clients whose reports arrive in a round, in ascending order ([Reporting.Arrived]).
func (p Participation) Arriving(round int) []int {
	swing := math.Min(p.Available, 1-p.Available)
	chance := rng.New(p.Seed, "arriving", fmt.Sprint(round))
	own := rng.New(p.Seed, "hours")
	return numeric.Where(p.Clients, func(int) bool {
		probability := p.Available + swing*math.Cos(2*math.Pi*(float64(round)/day+own.Float64()))
		return chance.Float64() < probability
	})
}
