package rounds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"popri/accountant/guarantee"
	"popri/fedsim/release"
	"popri/internal/atomicfile"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/sampling"
	"popri/scoring/query"
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

// Options are the parts of a run.
type Options struct {
	Dir    string // the run's folder, which exists
	Rounds int
	By     string // the figure by which [Best] chooses the state that the product is of; "" takes the last one
	// Patience ends the rounds where By did not fall for so many rounds in a row (see [ProgressOf]); 0 never does.
	Patience int
	// MaxTime bounds the time of the rounds that this process does: none but the first begins that would end later, if
	// it took as long as the one before. 0 is no bound.
	MaxTime time.Duration
	Method  Method
	Clients release.Collector
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

// Round is the environment of a method in one round.
type Round struct {
	Number  int // from 1
	Dir     string
	Figures *series.Round // goes to metrics.json

	runner *Runner
}

// Stage does a part of the round under a name.
func (r *Round) Stage(name string, f func(Stage) error) error {
	return r.runner.Stage(name, r.Number, f)
}

// Log reports an event of the method's own.
func (r *Round) Log(event string, v any) { r.runner.Events.Log(event, r.Number, v) }

// StageCollect is the stage in which clients answer.
const StageCollect = "collect"

// Collect asks the clients and notes the release's figures.
func (r *Round) Collect(q query.Question) (*release.Release, error) { return r.collect(q, r.Number) }

// CollectOnce asks a question whose answer serves all rounds. Round 1 asks it; later rounds get the same release.
func (r *Round) CollectOnce(q query.Question) (*release.Release, error) { return r.collect(q, 1) }

// CollectPart asks the question of a part of the round, from 1. It is no stage of its own: a round may have very many.
func (r *Round) CollectPart(q query.Question, part int) (*release.Release, error) {
	return r.runner.Clients.Collect(release.Request{Round: r.Number, Part: part, Query: q, Dir: r.Dir})
}

// NoteSpent notes what is spent, after the last part of a round.
func (r *Round) NoteSpent() error {
	if r.runner.Spent == nil {
		return nil
	}
	spent, err := r.runner.Spent()
	if err == nil {
		r.Figures.Set(series.EpsilonKey, spent)
	}
	return err
}

// collect asks the question of a round: a round that was answered before gets the same release and charges nothing.
func (r *Round) collect(q query.Question, round int) (answer *release.Release, err error) {
	dir := rundir.Round(r.runner.Dir, round)
	err = r.Stage(StageCollect, func(Stage) error {
		answer, err = r.runner.Clients.Collect(release.Request{Round: round, Query: q, Dir: dir})
		return err
	})
	if err != nil {
		return nil, err
	}
	r.Figures.Set("clients", float64(answer.Clients))
	r.Figures.Set("noise_multiplier", answer.Sigma)
	var refused guarantee.Refusals
	if there, err := atomicfile.ReadJSONIfAny(filepath.Join(dir, rundir.Refusals), &refused); err != nil {
		return nil, err
	} else if there {
		r.Figures.Set("refused_unproved", float64(refused.Unproved))
		r.Figures.Set("refused_late", float64(refused.Late))
		r.Figures.Set("refused_invalid", float64(refused.Invalid))
	}
	return answer, r.NoteSpent()
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
// which somebody asked for it. A request from before is dropped, because a run that is started is meant to go on.
func (t *Runner) Train(ctx context.Context) error { return t.TrainTo(ctx, t.Rounds) }

// TrainTo is Train up to a round, of which a later process goes on as after any other.
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
	clock := clock{began: time.Now()}
	for round := done + 1; round <= min(last, t.Rounds); round++ {
		if ended, err := t.converged(); err != nil || ended {
			return err
		}
		if m, ok := t.Method.(Ender); ok {
			if why := m.Ended(); why != "" {
				t.Events.Say(fmt.Sprintf("the rounds end after %d of at most %d: %s", round-1, t.Rounds, why))
				t.Events.Log("ended", round-1, struct{}{})
				return nil
			}
		}
		if ended, err := t.late(round-1, clock); err != nil || ended {
			return err
		}
		begin := time.Now()
		if err := t.round(ctx, round); err != nil {
			return err
		}
		clock.last = time.Since(begin)
		if rundir.Has(t.Dir, rundir.Stop) {
			t.Events.Log("stopped", round, struct{}{})
			return errors.Join(Stopped{round}, dropRequest(t.Dir))
		}
	}
	return nil
}

// converged reports whether more rounds would not help, as far as the figure tells that the state is chosen by.
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
	t.Events.Say(fmt.Sprintf("the rounds end after %d of at most %d: the samples' %s has not fallen below %.4f for "+
		"%d rounds (trainer.patience)", len(figures), t.Rounds, t.By, p.Least, p.Idle))
	t.Events.Log("converged", len(figures), p)
	return true, nil
}

func (t *Runner) round(ctx context.Context, number int) error {
	r := &Round{Number: number, Dir: rundir.Round(t.Dir, number), Figures: series.NewRound(number), runner: t}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return err
	}
	if err := t.Method.Round(ctx, r); err != nil {
		return err
	}
	if err := atomicfile.WriteJSON(filepath.Join(r.Dir, rundir.Metrics), r.Figures); err != nil {
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

// Product writes the synthetic set, or the model, of the newest complete round, or of the nearest state. An existing
// one stays as it is.
func (t *Runner) Product(ctx context.Context) error {
	return t.ProductIn(ctx, t.Dir)
}

// ProductIn is Product with another folder for the files.
func (t *Runner) ProductIn(ctx context.Context, dir string) error {
	if m, ok := t.Method.(ModelMethod); ok {
		return t.model(m, filepath.Join(dir, rundir.Model))
	}
	method := t.Method.(TextMethod)
	file := filepath.Join(dir, rundir.Synthetic)
	if _, err := os.Stat(file); err == nil {
		return os.RemoveAll(sampling.PartsOf(file)) // a kill after the last part may have left them
	}
	state, err := t.state()
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
		unfinished := filepath.Join(filepath.Dir(dir), atomicfile.TempPrefix+filepath.Base(dir))
		if err := errors.Join(os.RemoveAll(unfinished), os.Mkdir(unfinished, 0o755)); err != nil {
			return err
		}
		if err := m.Model(s, unfinished); err != nil {
			return err
		}
		if err := errors.Join(atomicfile.SyncDir(unfinished), os.Rename(unfinished, dir)); err != nil {
			return err
		}
		return atomicfile.SyncDir(filepath.Dir(dir))
	})
}

// state is the number of the round after which the product's state stood. It follows from the figures of the rounds, so
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

// Done is the number of complete rounds; 0 if it cannot be read.
func (t *Runner) Done() int {
	done, err := Latest(t.Dir)
	if err != nil {
		return 0
	}
	return done
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
