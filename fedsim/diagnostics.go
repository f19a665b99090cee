package fedsim

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"popri/fedsim/release"
	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/scoring/query"
)

// UnsafeFolder is the name of the folder for figures without noise.
const UnsafeFolder = rundir.Unsafe

// UnsafeDiagnostics writes what the noise hides: the true sums, and figures that compare them with the noised ones. It
// breaks the privacy guarantee of the run.
type UnsafeDiagnostics struct {
	// Dir is where the folder unsafe_diagnostics is made.
	Dir string
	// Compare returns figures by name for a true and a noised sum; nil for none. The file has an object for each kind.
	Compare func(q query.Query, truth, noised []float64) (map[string]map[string]float64, error)
}

// Diagnosis is the content of unsafe_diagnostics/round-0001.json.
type Diagnosis struct {
	Warning string    `json:"warning"`
	Round   int       `json:"round"`
	TrueSum []float64 `json:"true_sum"`
	// Figures are the results of [UnsafeDiagnostics.Compare].
	Figures map[string]map[string]float64 `json:"figures,omitempty"`
}

// diagnosisPath is the path of a round's file for a run in dir.
func diagnosisPath(dir string, round int) string {
	return filepath.Join(dir, UnsafeFolder, fmt.Sprintf("round-%04d.json", round))
}

// ReadDiagnosis reads the figures without noise of a round of the run in dir; none if the run did not write any.
func ReadDiagnosis(dir string, round int) (d Diagnosis, err error) {
	_, err = atomicfile.ReadJSONIfAny(diagnosisPath(dir, round), &d)
	return d, err
}

// write writes the true sum of a question next to its release.
func (u *UnsafeDiagnostics) write(clients Embedded, q query.Query, answer *release.Release) error {
	sum, err := q.Sum(clients.Clients) // over all clients, not only the cohort: the release estimates this
	if err != nil {
		return err
	}
	d := Diagnosis{Warning: "not private: computed without noise", Round: answer.Round, TrueSum: sum}
	if u.Compare != nil {
		if d.Figures, err = u.Compare(q, sum, answer.Sum); err != nil {
			return fmt.Errorf("compare the noised sum with the true one: %w", err)
		}
	}
	path := diagnosisPath(u.Dir, answer.Round)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(d) })
}
