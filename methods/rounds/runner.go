package rounds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"popri/fedsim/release"
	"popri/internal/atomicfile"
	"popri/internal/quote"
	"popri/internal/rundir"
	"popri/methods/sampling"
	"popri/show/series"
)

// Method is one way to make a product from the clients' releases. It is also a [TextMethod] or a [ModelMethod].
type Method interface {
	// Restore sets the method to its state after a complete round; 0 is the beginning.
	Restore(round int) error
	// Round does a round. Its files are in r.Dir; complete files of an earlier process are used again.
	Round(ctx context.Context, r *Round) error
	// Prune removes files of a complete round that are not needed any more. It may be called again for the same round.
	Prune(round int) error
	// Close releases the method's memory.
	Close()
}

// TextMethod is a method whose product is a synthetic set.
type TextMethod interface {
	Method
	// Product writes the synthetic set of the restored state to file, in parts that survive a kill.
	Product(ctx context.Context, s Stage, file string) ([]sampling.Row, error)
}

// ModelMethod is a method whose product is a model.
type ModelMethod interface {
	Method
	// Model writes the model of the restored state, with its tokenizer, into a folder that is there.
	Model(s Stage, dir string) error
}

// Ender is a method whose rounds may be at their end before the last one.
type Ender interface {
	// Ended says why no further round helps after the restored or the last one; "" if one may.
	Ended() string
}

// EndedEvent is the event of a run that its method ended before the last round; its field why says why.
const EndedEvent = "ended"

// Options are the parts of a run.
type Options struct {
	Dir    string // the run's folder, which exists
	Rounds int
	By     string // the figure by which [Best] chooses the state that the synthetic set is of; "" takes the last one
	// Patience ends the rounds where By did not fall for that many rounds in a row (see [ProgressOf]); 0 never does.
	Patience int
	Method   Method
	Clients  release.Collector
	// Choose, if not nil, returns the rows that the method's product becomes.
	Choose func(context.Context, Stage, []sampling.Row) ([]sampling.Row, error)
	Spent  func() (float64, error) // ε spent so far, from the ledger
	Events Events
}

// Runner runs the rounds of one run.
type Runner struct{ Options }

// New makes a runner.
func New(o Options) *Runner {
	o.Events = o.Events.complete()
	return &Runner{o}
}

// Stage reports the beginning and the end of f.
func (t *Runner) Stage(name string, round int, f func(Stage) error) error {
	err := t.Events.Stage(name, round, f)
	switch {
	case err == nil:
		return nil
	case round > 0:
		return fmt.Errorf("round %d: %s: %w", round, name, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Train does the rounds that are left. It stops between two steps when ctx ends, and with a [Stopped] after a round in
// which somebody asked for it. A request from before is dropped, because a run that is started is meant to continue.
func (t *Runner) Train(ctx context.Context) error { return t.TrainTo(ctx, t.Rounds) }

// TrainTo is Train up to a round, of which a later process continues as after any other.
func (t *Runner) TrainTo(ctx context.Context, last int) error {
	if err := dropRequest(t.Dir); err != nil {
		return err
	}
	done, err := Latest(t.Dir)
	if err != nil {
		return err
	}
	for round := 1; round <= done; round++ {
		if err := unchanged(rundir.Round(t.Dir, round)); err != nil {
			return err
		}
	}
	if done > 0 && !rundir.Has(rundir.Round(t.Dir, done), rundir.Checksums) { // a kill came after the round's end
		if err := t.ended(done); err != nil {
			return err
		}
	}
	if err := t.Method.Restore(done); err != nil {
		return err
	}
	for round := done + 1; round <= min(last, t.Rounds); round++ {
		if ended, err := t.converged(); err != nil || ended {
			return err
		}
		if m, ok := t.Method.(Ender); ok {
			if why := m.Ended(); why != "" {
				t.Events.Say(fmt.Sprintf("the rounds end after %d of at most %d: %s", round-1, t.Rounds, why))
				t.Events.Log(EndedEvent, round-1, struct {
					Why string `json:"why"`
				}{why})
				return nil
			}
		}
		if err := t.round(ctx, round); err != nil {
			return err
		}
		if rundir.Has(t.Dir, rundir.Stop) {
			t.Events.Log("stopped", round, struct{}{})
			return errors.Join(Stopped{round}, dropRequest(t.Dir))
		}
	}
	return nil
}

// converged reports whether more rounds would not help, by the figure that the state is chosen by.
func (t *Runner) converged() (bool, error) {
	if t.Patience == 0 || t.By == "" {
		return false, nil
	}
	figures, err := ReadMetrics(t.Dir)
	if err != nil {
		return false, err
	}
	p := ProgressOf(figures, t.By)
	if p.Idle < t.Patience {
		return false, nil
	}
	t.Events.Say(fmt.Sprintf("the rounds end after %d of at most %d: the samples' %s has not fallen below %.4f by more "+
		"than chance for %s (trainer.patience)", len(figures), t.Rounds, t.By, p.Least, quote.Count(p.Idle, "round", "rounds")))
	t.Events.Log("converged", len(figures), p)
	return true, nil
}

func (t *Runner) round(ctx context.Context, number int) error {
	r := &Round{Number: number, Dir: rundir.Round(t.Dir, number), Figures: series.NewRound(number), runner: t}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(r.Dir), t.Dir} { // so that a release that is charged has its folder after a power cut
		if err := atomicfile.SyncDir(dir); err != nil {
			return err
		}
	}
	if err := t.Method.Round(ctx, r); err != nil {
		return err
	}
	if err := atomicfile.WriteJSON(filepath.Join(r.Dir, rundir.Metrics), r.Figures); err != nil {
		return err
	}
	var err error
	switch { // what was written after fewer rounds, or begun
	case rundir.Complete(t.Dir):
		err = Forget(t.Dir, true)
	case number > 1:
		err = ForgetWritten(t.Dir)
	}
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(filepath.Join(t.Dir, rundir.Latest),
		fmt.Appendf(nil, "rounds/%04d\n", number)); err != nil {
		return err
	}
	t.Events.RoundEnd(*r.Figures)
	return t.ended(number)
}

// ended removes what a complete round needs no more, and notes what stays.
func (t *Runner) ended(round int) error {
	if err := t.Method.Prune(round); err != nil {
		return err
	}
	return seal(rundir.Round(t.Dir, round))
}
