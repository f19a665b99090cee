package fedsim

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

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
}

// DiagnosisPath names a round's file.
func (u *UnsafeDiagnostics) DiagnosisPath(round int) string {
	return filepath.Join(u.Dir, UnsafeFolder, fmt.Sprintf("round-%04d.json", round))
}

func (f *Federation) diagnose(samples *scoring.Samples, release *Release) error {
	u := f.config.UnsafeDiagnostics
	sum, err := samples.Sum(f.means)
	if err != nil {
		return err
	}
	d := Diagnosis{Warning: "not private: computed without noise", Round: release.Round, TrueSum: sum, PairsRecovered: map[string]float64{}}
	for name, rank := range u.Rankers {
		want, err := rank(samples, sum)
		if err != nil {
			return fmt.Errorf("rank the true sum by %s: %w", name, err)
		}
		got, err := rank(samples, release.Sum)
		if err != nil {
			return fmt.Errorf("rank the noised sum by %s: %w", name, err)
		}
		found := map[scoring.Pair]bool{}
		for _, p := range got {
			found[p] = true
		}
		same := 0
		for _, p := range want {
			if found[p] {
				same++
			}
		}
		if len(want) > 0 {
			d.PairsRecovered[name] = float64(same) / float64(len(want))
		}
	}
	path := u.DiagnosisPath(release.Round)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(d) })
}
