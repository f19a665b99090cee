package reporting

import (
	"errors"
	"io/fs"
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/show/report"
)

// views reads where the samples of some rounds lie; rounds without that are left out.
func views(dir string, rounds, selected int) (list []report.View, err error) {
	for _, round := range report.Views(rounds, selected) {
		var v method.View
		err := atomicfile.ReadJSON(filepath.Join(rundir.Round(dir, round), rundir.View), &v)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, report.View{Round: round, Points: v.Points, Reference: v.Reference})
	}
	return list, nil
}
