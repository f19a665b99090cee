package fedsim

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"popri/internal/atomicfile"
	"popri/scoring"
)

// UnsafeFolder is the name of the folder that un-noised figures go to.
const UnsafeFolder = "unsafe_diagnostics"

// UnsafeDiagnostics writes what noise is there to hide: the true sums, and how many preference pairs come out as they
// would without noise. It breaks the privacy guarantee of the run.
type UnsafeDiagnostics struct {
	// Dir is where the folder unsafe_diagnostics is made.
	Dir string
	// PerPrompt is the number of samples of a prompt, for PairsOrdered; 0 leaves that out.
	PerPrompt int
	// Rankers make pairs from a sum, each under a name, such as one with and one without denoising.
	Rankers map[string]func(samples *scoring.Samples, sum []float64) ([]scoring.Pair, error)
}

// Diagnosis is the content of unsafe_diagnostics/round-0001.json.
type Diagnosis struct {
	Warning string    `json:"warning"`
	Round   int       `json:"round"`
	TrueSum []float64 `json:"true_sum"`
	// PairsRecovered is, for each ranker, the share of its pairs on the true sum that it also finds on the noised one.
	PairsRecovered map[string]float64 `json:"pairs_recovered"`
	// ChosenRecovered is the same of the chosen samples alone.
	ChosenRecovered map[string]float64 `json:"chosen_recovered"`
	// PairsOrdered is the share of a ranker's pairs on the noised sum whose chosen sample has the higher true score:
	// pairs that teach the right thing.
	PairsOrdered map[string]float64 `json:"pairs_ordered,omitempty"`
}

// DiagnosisPath names a round's file.
func (u *UnsafeDiagnostics) DiagnosisPath(round int) string {
	return filepath.Join(u.Dir, UnsafeFolder, fmt.Sprintf("round-%04d.json", round))
}

func (f *Federation) diagnose(samples *scoring.Samples, release *Release) error {
	u := f.config.UnsafeDiagnostics
	sum, err := samples.Sum(f.means) // of all clients, whoever was asked: what the scores estimate
	if err != nil {
		return err
	}
	d := Diagnosis{Warning: "not private: computed without noise", Round: release.Round, TrueSum: sum, PairsRecovered: map[string]float64{},
		ChosenRecovered: map[string]float64{}, PairsOrdered: map[string]float64{}}
	for name, rank := range u.Rankers {
		want, err := rank(samples, sum)
		if err != nil {
			return fmt.Errorf("rank the true sum by %s: %w", name, err)
		}
		got, err := rank(samples, release.Sum)
		if err != nil {
			return fmt.Errorf("rank the noised sum by %s: %w", name, err)
		}
		d.PairsRecovered[name] = share(want, func(p scoring.Pair) bool { return slices.Contains(got, p) })
		d.ChosenRecovered[name] = share(want, func(p scoring.Pair) bool {
			return slices.ContainsFunc(got, func(g scoring.Pair) bool { return g.Prompt == p.Prompt && g.Chosen == p.Chosen })
		})
		if u.PerPrompt > 0 {
			d.PairsOrdered[name] = share(got, func(p scoring.Pair) bool {
				at := p.Prompt * u.PerPrompt
				return sum[at+p.Chosen] > sum[at+p.Rejected]
			})
		}
	}
	path := u.DiagnosisPath(release.Round)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(d) })
}

// share is the part of pairs for which holds is true; 0 without pairs.
func share(pairs []scoring.Pair, holds func(scoring.Pair) bool) float64 {
	n := 0
	for _, p := range pairs {
		if holds(p) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(pairs)))
}
