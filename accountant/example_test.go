package accountant_test

import (
	"fmt"

	"popri/accountant"
)

// The noise that three rounds need in which all clients are asked, and what ten rounds with this noise spend.
func Example() {
	plan := accountant.Plan{Each: accountant.Event{SamplingRate: 1, Count: 3}}
	sigma, err := plan.Sigma(accountant.Exact{}, 7, 1e-4)
	if err != nil {
		panic(err)
	}
	fmt.Printf("three rounds at epsilon 7: noise multiplier %.3f\n", sigma)
	spent, err := accountant.PLD{}.Epsilon([]accountant.Event{{Sigma: sigma, SamplingRate: 1, Count: 10}}, 1e-4)
	if err != nil {
		panic(err)
	}
	fmt.Printf("ten rounds with it: epsilon %.2f\n", spent)
	// Output:
	// three rounds at epsilon 7: noise multiplier 1.047
	// ten rounds with it: epsilon 15.14
}
