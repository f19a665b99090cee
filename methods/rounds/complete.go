package rounds

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/show/series"
)

// Done is the number of complete rounds; 0 if it cannot be read.
func (t *Runner) Done() int {
	done, err := Latest(t.Dir)
	if err != nil {
		return 0
	}
	return done
}

// Adapter is the folder of the adapter that wrote the run's synthetic set, or else of the newest round's; "" for a run
// without adapters.
func Adapter(run string) (string, error) {
	newest, err := Latest(run)
	for _, of := range []string{run, rundir.Round(run, newest)} {
		if rundir.Has(of, rundir.Adapter) {
			return filepath.Join(of, rundir.Adapter), err
		}
	}
	return "", err
}

// Latest returns the newest complete round of a run, 0 if there is none.
func Latest(run string) (int, error) {
	b, err := os.ReadFile(filepath.Join(run, rundir.Latest))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var round int
	if _, err := fmt.Sscanf(strings.TrimSpace(string(b)), "rounds/%d", &round); err != nil || round < 1 {
		return 0, fmt.Errorf("rounds: %s names %q, which is no round", filepath.Join(run, rundir.Latest), b)
	}
	return round, nil
}

// ReadMetrics returns the figures of the complete rounds, in order.
func ReadMetrics(run string) ([]series.Round, error) {
	last, err := Latest(run)
	if err != nil {
		return nil, err
	}
	var out []series.Round
	for n := 1; n <= last; n++ {
		var r series.Round
		if err := atomicfile.ReadJSON(filepath.Join(rundir.Round(run, n), rundir.Metrics), &r); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
