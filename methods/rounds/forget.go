package rounds

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"popri/internal/rundir"
	"popri/methods/sampling"
)

// Forget removes what the run in dir made after its rounds, for other rounds or settings to make again: with texts, the
// synthetic set and the texts that it is compared with, and in any case the small model and the evaluation.
func Forget(dir string, texts bool) error {
	names := []string{rundir.Eval, rundir.InContext, rundir.Small}
	if texts {
		if err := ForgetWritten(dir); err != nil {
			return err
		}
		// The products go last: where they are gone, nothing is left to forget.
		names = append(append([]string{rundir.Untuned, rundir.Untrained, rundir.Mixes, rundir.Adapter}, names...), rundir.Synthetic)
	}
	for _, name := range names {
		if err := removeWithParts(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// ForgetWritten removes what a model wrote after a round had ended: it depends on the rounds that followed. What a round
// noted when it ended stays.
func ForgetWritten(dir string) error {
	done, err := Latest(dir)
	if err != nil {
		return err
	}
	for round := range max(1, done) {
		of := rundir.Round(dir, round+1)
		sums, err := os.ReadFile(filepath.Join(of, rundir.Checksums))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if bytes.Contains(sums, []byte("  "+rundir.Written+"\n")) {
			continue
		}
		if err := removeWithParts(filepath.Join(of, rundir.Written)); err != nil {
			return err
		}
	}
	return nil
}

func removeWithParts(path string) error {
	return errors.Join(os.RemoveAll(path), os.RemoveAll(sampling.PartsOf(path)))
}
