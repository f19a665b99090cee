package tracking

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"popri/dpo/preference"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/model/safetensors"
	"popri/show/trackers"
)

// Training is what a training has done so far; a checkpoint holds it as JSON.
type Training struct {
	Steps []map[string]any `json:"steps"`
	Evals []map[string]any `json:"evals"`
}

// points are the figures of a training in a round; at gives the time of a step.
func (p Training) points(r *trackers.Reader, round int,
	at func(event string, step float64) time.Time) (points []trackers.Point) {
	for _, s := range p.Steps {
		step, _ := s["step"].(float64)
		points = append(points, r.Read(trackers.Step, round, s, at(trackers.Step, step))...)
	}
	for _, e := range p.Evals {
		step, _ := e["step"].(float64)
		points = append(points, r.Read(trackers.DPOEval, round, e, at(trackers.DPOEval, step))...)
	}
	return points
}

// readTraining reads the lines of a finished training in dir, or the checkpoint of one that is not. Without either
// there is nothing.
func readTraining(dir, checkpoint string) (p Training, err error) {
	if p.Steps, err = rows.ReadLines[map[string]any](filepath.Join(dir, preference.StepsFile)); err == nil {
		if p.Evals, err = rows.ReadLines[map[string]any](filepath.Join(dir, preference.EvalsFile)); errors.Is(err,
			fs.ErrNotExist) {
			err = nil
		}
		return p, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	if !rundir.Has(filepath.Split(checkpoint)) {
		return p, nil
	}
	file, err := safetensors.Open(checkpoint)
	if err != nil {
		return p, err
	}
	defer file.Close()
	if err := json.Unmarshal([]byte(file.Metadata()["progress"]), &p); err != nil {
		return p, fmt.Errorf("%s: progress: %w", checkpoint, err)
	}
	return p, nil
}

// modified is when a file was written; the present if nobody knows.
func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Now()
	}
	return info.ModTime()
}
