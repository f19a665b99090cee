package methods_test

import (
	"fmt"

	"popri/configs"
	"popri/methods"
)

// The methods that a configuration can name, with the number of its releases under the default settings.
func Example() {
	c := configs.Default()
	for _, d := range methods.All {
		c.Method = d.Name
		fmt.Printf("%s: %s, %d releases\n", d.Name, d.Title, d.Releases(c))
	}
	// Output:
	// popri: POPri, 1 releases
	// private_evolution: Private Evolution, 4 releases
	// private_evolution_sft: PE+SFT, 1 releases
	// grpo: GRPO, 1 releases
	// public_selection: Public selection, 1 releases
	// dp_fedavg: DP-FedAvg, 4 releases
	// dp_ftrl: DP-FTRL, 4 releases
	// wasp: WASP, 3 releases
	// hot_pate: Hot PATE, 512 releases
	// genetic_eda: Genetic EDA, 4 releases
	// buttress: Buttress, 0 releases
	// word_pairs: Word-pair table, 1 releases
	// ctcl: CTCL, 4 releases
}
