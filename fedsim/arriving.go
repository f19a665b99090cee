package fedsim

import (
	"fmt"
	"math"
	"math/rand/v2"

	"popri/internal/rng"
)

// day is the number of rounds after which a client's chance to report repeats itself.
const day = 24

// Participation says which simulated clients report. Nothing of it depends on what the clients have written.
type Participation struct {
	Clients int
	// Available is the probability with which a client sends a report at all, on average over a day. A client's chance
	// rises and falls with the round, so that two rounds near each other hear much the same clients. One that is off,
	// or gone between its two uploads, sends none.
	Available float64
	// Delay is the mean number of minutes until a report arrives, over all clients; 0: at once. Delays are exponential;
	// each client's mean is Delay times a log-normal factor of its own, of which the mean is 1.
	Delay float64
	// Minutes are how long reports are taken; later ones do not count. Of use with Delay alone.
	Minutes float64
	Seed    uint64
}

// Arriving returns the clients whose reports arrive in time in a round, in ascending order ([Config.Reports]).
func (p Participation) Arriving(round int) []int {
	swing := math.Min(p.Available, 1-p.Available)
	chance := rng.New(p.Seed, "arriving", fmt.Sprint(round))
	own := rng.New(p.Seed, "hours")
	wait, speed := rng.New(p.Seed, "delay", fmt.Sprint(round)), rng.New(p.Seed, "speed")
	var arrived []int
	for i := range p.Clients {
		likely := p.Available + swing*math.Cos(2*math.Pi*(float64(round)/day+own.Float64()))
		sends := chance.Float64() < likely
		if p.delay(wait, speed) <= p.Minutes && sends {
			arrived = append(arrived, i)
		}
	}
	return arrived
}

// delay draws how long the next client's report takes.
func (p Participation) delay(wait, speed *rand.Rand) float64 {
	if p.Delay == 0 {
		return 0
	}
	return p.Delay * math.Exp(speed.NormFloat64()-0.5) * wait.ExpFloat64()
}
