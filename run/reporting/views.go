package reporting

import (
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/show/report"
)

// views reads where the samples of some rounds are; rounds without that are left out.
func views(dir string, rounds, selected int) (list []report.View, err error) {
	for _, round := range report.Views(rounds, selected) {
		v := report.View{Round: round}
		there, err := atomicfile.ReadJSONIfAny(filepath.Join(rundir.Round(dir, round), rundir.View), &v)
		if err != nil {
			return nil, err
		}
		if there {
			list = append(list, v)
		}
	}
	return list, nil
}
