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
func (t *Runner) Product(ctx context.Context) error {
	return t.ProductIn(ctx, t.Dir)
}

// ProductIn is Product with another folder for the files.
func (t *Runner) ProductIn(ctx context.Context, dir string) error {
	if m, ok := t.Method.(ModelMethod); ok {
		return t.model(m, filepath.Join(dir, rundir.Small))
	}
	method := t.Method.(TextMethod)
	file := filepath.Join(dir, rundir.Synthetic)
	if _, err := os.Stat(file); err == nil {
		return os.RemoveAll(sampling.PartsOf(file)) // a kill after the last part may have left them
	}
	state, restore, err := t.state()
	if err != nil {
		return err
	}
	return t.Stage("synthesize after "+state, 0, func(s Stage) error {
		if err := restore(); err != nil {
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
	state, restore, err := t.state()
	if err != nil {
		return err
	}
	return t.Stage("write the model after "+state, 0, func(s Stage) error {
		if err := restore(); err != nil {
			return err
		}
		return atomicfile.Folder(dir, func(dir string) error { return m.Model(s, dir) })
	})
}

// state names the state that the product is of, and returns what sets the method to it. It follows from the figures of
// the rounds, so that a resumed run chooses the same.
func (t *Runner) state() (name string, restore func() error, err error) {
	round, err := Latest(t.Dir)
	if err != nil {
		return "", nil, err
	}
	if t.Mean {
		first := SecondHalf(round)
		return fmt.Sprintf("rounds %d to %d", first, round),
			func() error { return t.Method.(Averager).Average(first, round) }, nil
	}
	if t.By != "" {
		rounds, err := ReadMetrics(t.Dir)
		if err != nil {
			return "", nil, err
		}
		chosen, ok := Best(rounds, t.By)
		if !ok {
			return "", nil, fmt.Errorf("rounds: none of the %d rounds in %s has a %s to choose by", len(rounds), t.Dir, t.By)
		}
		t.Events.Log("selected", 0, chosen)
		round = chosen.Round
	}
	return fmt.Sprintf("round %d", round), func() error { return t.Method.Restore(round) }, nil
}

// SecondHalf is the first of the rounds whose states [Options.Mean] averages, of this many rounds.
func SecondHalf(rounds int) int { return rounds/2 + 1 }
