package rounds

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"popri/internal/fault"
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

// ForgetBegun removes what the round under way made of other settings: the state of its training, and with samples all
// but what the clients were asked and answered. It refuses where they answered about those samples; once says that the
// run's one answer is about none.
func ForgetBegun(dir string, samples, once bool) error {
	done, err := Latest(dir)
	if err != nil {
		return err
	}
	round := rundir.Round(dir, done+1)
	entries, err := os.ReadDir(round)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var made []string
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "release"):
			if samples && !once {
				return fault.Userf("round %d has an answer about samples that other settings wrote: change these settings back, and "+
					"let the round end first", done+1)
			}
		case name == rundir.Announcement, name == rundir.Question:
		case samples, strings.HasPrefix(name, "training"):
			made = append(made, name)
		}
	}
	for _, name := range made {
		if err := os.RemoveAll(filepath.Join(round, name)); err != nil {
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
