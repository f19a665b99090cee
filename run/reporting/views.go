package reporting

import (
	"errors"
	"io/fs"
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/show/report"
)

// views reads where the samples of some rounds lie; rounds without that are left out.
func views(dir string, rounds, selected int) (list []report.View, err error) {
	for _, round := range report.Views(rounds, selected) {
		v := report.View{Round: round}
		err := atomicfile.ReadJSON(filepath.Join(rundir.Round(dir, round), rundir.View), &v)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}
