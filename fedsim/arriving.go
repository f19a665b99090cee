package fedsim

import (
	"fmt"
	"math"

	"popri/internal/rng"
)

// day is the number of rounds after which a client's chance to report repeats itself.
const day = 24

// Arriving draws the clients whose reports arrive in a round ([Config.Reports]): each with the given probability on average over
// a day. A client's chance rises and falls with the round, so that two rounds near each other hear much the same clients; it does
// not depend on what the client has written. A client that is off, slow or gone between its two uploads does not arrive.
func Arriving(clients int, probability float64, seed uint64) func(round int) []int {
	swing := math.Min(probability, 1-probability)
	return func(round int) []int {
		chance := rng.New(seed, "arriving", fmt.Sprint(round))
		own := rng.New(seed, "hours")
		var arrived []int
		for i := range clients {
			p := probability + swing*math.Cos(2*math.Pi*(float64(round)/day+own.Float64()))
			if chance.Float64() < p {
				arrived = append(arrived, i)
			}
		}
		return arrived
	}
}
