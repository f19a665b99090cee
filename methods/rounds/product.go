package rounds

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/sampling"
)

// Product writes the synthetic set, or the model, of the newest complete round, or of the nearest state. An existing
// one stays as it is.
func (t *Runner) Product(ctx context.Context) error { return t.product(ctx, t.Dir, t.state) }

// NewestIn is Product of the newest complete round, whatever a state is chosen by, with another folder for the files.
func (t *Runner) NewestIn(ctx context.Context, dir string) error {
	return t.product(ctx, dir, func() (int, error) { return Latest(t.Dir) })
}

func (t *Runner) product(ctx context.Context, dir string, of func() (int, error)) error {
	if m, ok := t.Method.(ModelMethod); ok {
		return t.model(m, filepath.Join(dir, rundir.Small))
	}
	method := t.Method.(TextMethod)
	file := filepath.Join(dir, rundir.Synthetic)
	if _, err := os.Stat(file); err == nil {
		return os.RemoveAll(sampling.PartsOf(file)) // a kill after the last part may have left them
	}
	state, err := of()
	if err != nil {
		return err
	}
	return t.Stage(fmt.Sprintf("synthesize after round %d", state), 0, func(s Stage) error {
		if err := t.Method.Restore(state); err != nil {
			return err
		}
		if t.Choose == nil {
			_, err := method.Product(ctx, s, file)
			return err
		}
		product, err := method.Product(ctx, s, filepath.Join(dir, rundir.Mixes))
		if err != nil {
			return err
		}
		if product, err = t.Choose(ctx, s, product); err != nil {
			return err
		}
		return rows.Write(file, product)
	})
}

// model writes the folder of a model as a whole: it has its name when all files are in it.
func (t *Runner) model(m ModelMethod, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	state, err := t.state()
	if err != nil {
		return err
	}
	return t.Stage(fmt.Sprintf("write the model after round %d", state), 0, func(s Stage) error {
		if err := m.Restore(state); err != nil {
			return err
		}
		return atomicfile.Folder(dir, func(dir string) error { return m.Model(s, dir) })
	})
}

// state is the number of the round after which the synthetic set's state stood. It follows from the figures of the rounds, so
// that a resumed run chooses the same.
func (t *Runner) state() (int, error) {
	if t.By == "" {
		return Latest(t.Dir)
	}
	rounds, err := ReadMetrics(t.Dir)
	if err != nil {
		return 0, err
	}
	chosen, ok := Best(rounds, t.By)
	if !ok {
		return 0, fmt.Errorf("rounds: none of the %d rounds in %s has a %s to choose by", len(rounds), t.Dir, t.By)
	}
	t.Events.Log("selected", 0, chosen)
	return chosen.Round, nil
}
