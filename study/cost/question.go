package cost

import (
	"fmt"
	"slices"
	"strings"

	"popri/configs"
	"popri/methods"
	"popri/study/grid"
)

// asks are the keys, and the sections, that decide what a run asks the clients and with which noise.
var asks = []string{"seed", "data", "model.path", "generate.by_label", "scoring", "fed", "aggregate", "privacy"}

// Question is equal for runs that ask the clients once and, as far as their settings tell, the same with the same
// noise, so that one release serves them all; "" for a run that asks in each round, continues another run's ledger, or
// does not ask here.
func Question(c grid.Cell) string {
	if methods.Of(c.Config).ReleasesOf(c.Config) != 1 || c.Config.Scoring.Release != "once" ||
		c.Config.Privacy.Continues != "" || c.Config.Fed.Elsewhere() {
		return ""
	}
	var b strings.Builder
	for _, k := range configs.Keys() {
		section, _, _ := strings.Cut(k.Name, ".")
		if slices.Contains(asks, k.Name) || slices.Contains(asks, section) {
			value, _ := c.Config.Get(k.Name)
			fmt.Fprintln(&b, k.Name, value)
		}
	}
	return b.String()
}
