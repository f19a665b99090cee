package guarantee

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/internal/quote"
	"popri/internal/rundir"
)

// Refusals counts what clients sent to two aggregators and no sum has. Each client sends to both, so of the counts of
// both the larger one is taken.
type Refusals struct {
	Unproved int `json:"unproved"` // reports whose proof did not hold
	Invalid  int `json:"invalid"`  // uploads that were no valid report of an enrolled client
}

// readRefusals adds up the refusals of all rounds of the run in dir; nil if no round's clients reported to aggregators.
func readRefusals(dir string) (*Refusals, error) {
	rounds, err := os.ReadDir(filepath.Join(dir, rundir.Rounds))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var sum *Refusals
	for _, round := range rounds {
		if !round.IsDir() {
			continue
		}
		var r Refusals
		found, err := atomicfile.ReadJSONIfAny(filepath.Join(dir, rundir.Rounds, round.Name(), rundir.Refusals), &r)
		if err != nil {
			return nil, err
		}
		if found {
			sum = cmp.Or(sum, &Refusals{})
			sum.Unproved, sum.Invalid = sum.Unproved+r.Unproved, sum.Invalid+r.Invalid
		}
	}
	return sum, nil
}

// String says in a sentence how much was refused.
func (r Refusals) String() string {
	n := r.Unproved + r.Invalid
	if n == 0 {
		return "The aggregators refused no upload."
	}
	return fmt.Sprintf("The aggregators refused %s, of which no sum has anything: %d whose proofs did not hold, %d "+
		"that were no valid reports.", quote.Count(n, "upload", ""), r.Unproved, r.Invalid)
}
