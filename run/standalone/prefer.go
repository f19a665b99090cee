// Package standalone trains an adapter on preference pairs from anywhere, without clients and without differential
// privacy: the work of popri dpo. A training that was interrupted continues and ends with the same bytes.
package standalone

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"popri/configs"
	"popri/dpo"
	"popri/dpo/preference"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/filelock"
	"popri/internal/modelcache"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/internal/version"
	"popri/lora"
	"popri/model/tensor"
	"popri/run/assembly"
	"popri/run/tracking"
	"popri/show/trackers"
	"popri/trainer"
)

// Files of a training besides the adapter's, [preference.StepsFile] and [preference.EvalsFile].
const (
	settingsFile  = "settings.yaml"         // the configuration, and where the pairs came from
	referenceFile = "reference.safetensors" // log-probabilities of the pairs without adapters
	trainingFile  = "training.safetensors"  // the state after the last update, while the training is not done
	trainingLock  = "training.lock"
	resultFile    = "result.json" // the [Result] of a training that is done
	// lastGood is the folder of the adapter as it was before a loss or gradient that was not finite ended the training.
	lastGood = "last-good"
)

// Options are the inputs and the output of a preference training.
type Options struct {
	Config    configs.Config // model.path, lora, dpo and seed are used
	Pairs     string         // JSON lines or Parquet of TRL's form, or a run's pairs.parquet
	EvalPairs string         // pairs to measure on, in the same form; "" holds out dpo.eval_share of Pairs
	Reference string         // file that keeps the reference log-probabilities; "" is one next to the adapter
	Out       string         // folder of the adapter, in PEFT's format
	Resume    bool           // Out holds a training to resume; Config and the files' names are then read from it
	Device    string         // if not "", replaces model.device
	Step      func(m dpo.Metrics, done, total int)
	Eval      func(dpo.Evaluation)
	Prepared  func(p Prepared) // called when everything has been read
	// Trackers are the programs that show the steps' figures (trackers.Names); Warn is called with a sentence for each
	// that fails, and of a training that moved nothing.
	Trackers []string
	Warn     func(text string)
}

// Prepared describes a preference training that is about to begin.
type Prepared struct {
	Pairs, Held, Steps int
	Cut                dpo.Cut // held-out ones among them
	Resumed            bool
}

// Result is the result of a preference training.
type Result struct {
	Pairs int `json:"pairs"` // trained on
	Held  int `json:"eval_pairs"`
	// Pairs that were cut to dpo.max_length, and those that are left out because nothing was left of them.
	Truncated int `json:"truncated_pairs"`
	Dropped   int `json:"dropped_pairs"`
	Steps     int `json:"steps"`
	// Reference log-probabilities and steps, without loading, since the last interruption; not in the file, which is the
	// same whenever a training was interrupted.
	Seconds float64         `json:"train_runtime,omitempty"`
	Loss    float64         `json:"train_loss"` // mean over the steps
	Last    dpo.Metrics     `json:"last"`
	Eval    *dpo.Evaluation `json:"eval,omitempty"` // the measurement of the adapter that was written
	Cached  bool            `json:"reference_read"` // reference log-probabilities came from the file
	Stale   string          `json:"reference_stale,omitempty"`
	Out     string          `json:"out,omitempty"`
	Done    bool            `json:"-"` // the training was done before; nothing was computed
}

// provenance keys of settingsFile.
const (
	pairsKey     = "pairs"
	evalPairsKey = "eval_pairs"
	referenceKey = "reference"
)

// Train trains an adapter on preference pairs, with the model without adapter as the reference, and writes it to a
// folder that holds none. An interrupted training is resumed and gives the same bytes; one that is done gives its
// result again.
func Train(ctx context.Context, o Options) (*Result, error) {
	if o.Resume {
		if r, err := readDone(o.Out); r != nil || err != nil {
			return r, err
		}
	}
	if err := o.configure(); err != nil {
		return nil, err
	}
	_, before := os.Stat(o.Out)
	lock, err := o.claim()
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	unbegun := errors.Is(before, fs.ErrNotExist)
	defer func() {
		if unbegun { // nothing but the lock is in the folder
			os.Remove(filepath.Join(o.Out, trainingLock))
			os.Remove(o.Out)
		}
	}()
	l, err := load(o.Config)
	if err != nil {
		return nil, err
	}
	defer l.free()
	train, held, cut, err := l.pairs(o)
	if err != nil {
		return nil, err
	}
	f := preference.NewFit(o.Config, l.tuner, train, held)
	f.Checkpoint.Path = filepath.Join(o.Out, trainingFile)
	if err := l.tuner.ResetSchedule(preference.Schedule(o.Config.Optimizer, f.Total())); err != nil {
		return nil, err
	}
	if f.Checkpoint.Key, err = trainingKey(o.Config, l.tuner, train, held); err != nil {
		return nil, err
	}
	resumed := rundir.Has(o.Out, trainingFile)
	if err := o.begin(); err != nil {
		return nil, err
	}
	unbegun = false
	if o.Prepared != nil {
		o.Prepared(Prepared{Pairs: len(train), Held: len(held), Steps: f.Total(), Cut: cut, Resumed: resumed})
	}

	if text := assembly.SlowType(o.Config.Model); text != "" && o.Warn != nil {
		o.Warn(text)
	}
	begun := time.Now()
	all := slices.Concat(train, held)
	cached, err := l.tuner.ReferenceFrom(ctx, all, cmp.Or(o.Reference, filepath.Join(o.Out, referenceFile)))
	if err != nil {
		return nil, err
	}
	f.Pairs, f.Held = all[:len(train)], all[len(train):]
	tracked := o.tracked(f)
	outcome, err := f.Run(ctx)
	if tracked.Fail(err) == nil {
		tracked.EndWith(nil)
	}
	tracked.Close()
	if err != nil {
		return nil, l.failed(err, o.Out)
	}
	if text := preference.Idle(o.Config, outcome.Steps); text != "" && o.Warn != nil {
		o.Warn(text)
	}
	r := newResult(f, outcome, cached)
	r.Truncated, r.Dropped = cut.Truncated, cut.Dropped
	r.Out, r.Seconds = o.Out, time.Since(begun).Seconds()
	return r, l.finish(o.Out, outcome, *r)
}

// tracked gives the figures of the training to the trackers and to the caller.
func (o *Options) tracked(f *dpo.Fit) *tracking.Listener {
	tracked := tracking.OpenTraining(o.Trackers, o.Out, f.Checkpoint.Path, o.Config, o.Warn)
	tracked.Begin("dpo", 0)
	f.OnStep = func(m dpo.Metrics, done, total int) {
		tracked.Log(trackers.Step, 1, m)
		if o.Step != nil {
			o.Step(m, done, total)
		}
	}
	f.OnEval = func(e dpo.Evaluation) {
		tracked.Log(trackers.DPOEval, 1, e)
		if o.Eval != nil {
			o.Eval(e)
		}
	}
	return tracked
}

// readDone returns the result of a training that is done, or nil.
func readDone(out string) (*Result, error) {
	if rundir.Has(out, trainingFile) || !rundir.Has(out, lora.ConfigFile) || !rundir.Has(out, resultFile) {
		return nil, nil
	}
	var r Result
	if err := atomicfile.ReadJSON(filepath.Join(out, resultFile), &r); err != nil {
		return nil, fault.Userf("%w", err)
	}
	r.Out, r.Done = out, true
	return &r, nil
}

// configure reads the configuration of a training to resume, and checks all that can be checked before files are read.
func (o *Options) configure() error {
	if o.Resume {
		c, err := configs.Load(configs.LoadOptions{File: filepath.Join(o.Out, settingsFile)})
		if errors.Is(err, fs.ErrNotExist) {
			return fault.Userf("%s holds no training to resume: there is no %s", o.Out, settingsFile)
		}
		if err != nil {
			return err
		}
		c.Model.Threads = cmp.Or(o.Config.Model.Threads, c.Model.Threads)
		o.Config, o.Pairs, o.EvalPairs, o.Reference = *c, c.Provenance[pairsKey], c.Provenance[evalPairsKey],
			c.Provenance[referenceKey]
	}
	o.Config.Model.Device = cmp.Or(o.Device, o.Config.Model.Device)
	c := o.Config
	if err := tracking.Check(o.Trackers); err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return err
	}
	if c.DPO.Engine != "local" {
		return fault.Userf("dpo.engine is %q, must be \"local\" here: TRL trains on such pairs without popri",
			c.DPO.Engine)
	}
	if o.EvalPairs != "" && c.DPO.EvalShare > 0 {
		return fault.Userf("held-out pairs are given, so dpo.eval_share must be 0, but is %v", c.DPO.EvalShare)
	}
	if o.EvalPairs != "" && assembly.SameFile(o.EvalPairs, o.Pairs) {
		return fault.Userf("%s has both the pairs to train on and the held-out ones, which must be others", o.EvalPairs)
	}
	if err := preference.CheckMeasures(c.DPO, o.EvalPairs != "" || c.DPO.EvalShare > 0, false); err != nil {
		return fault.Userf("%w", err)
	}
	return assembly.SetCompute(c)
}

// claim makes the adapter's folder and locks it. The folder may hold a training to resume, but neither an adapter nor
// another training.
func (o *Options) claim() (*filelock.Lock, error) {
	if err := atomicfile.CheckFolder(o.Out); err != nil {
		return nil, fault.User(err)
	}
	if o.Reference != "" {
		if err := dpo.CheckReference(o.Reference); err != nil {
			return nil, fault.User(err)
		}
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, fault.Userf("the adapter's folder cannot be made: %w", err)
	}
	finished := func() error {
		if !rundir.Has(o.Out, trainingFile) && rundir.Has(o.Out, lora.ConfigFile) {
			return fault.Userf("%s holds an adapter already: name another folder", o.Out)
		}
		return nil
	}
	if err := finished(); err != nil {
		return nil, err
	}
	lock, err := filelock.Acquire(filepath.Join(o.Out, trainingLock))
	if err != nil {
		return nil, fault.Userf("%w", err)
	}
	err = finished() // by another process, between the check and the lock
	if err == nil && !o.Resume && (rundir.Has(o.Out, trainingFile) || rundir.Has(o.Out, settingsFile)) {
		err = fault.Userf("%s holds a training that is not done: go on with it (--resume) or name another folder",
			o.Out)
	}
	if err == nil {
		err = atomicfile.RemoveTemporary(o.Out)
	}
	if err != nil {
		lock.Release()
	}
	return lock, err
}

// begin writes the settings of a new training, with what --resume needs to find.
func (o *Options) begin() error {
	if o.Resume {
		return nil
	}
	c := &o.Config
	c.Provenance = map[string]string{pairsKey: absolute(o.Pairs), "program": version.Program(),
		"libtorch": version.Libtorch(), "compute": assembly.ComputeType(c.Model.DType).String(),
		"device": tensor.DefaultDevice().String()}
	if o.EvalPairs != "" {
		c.Provenance[evalPairsKey] = absolute(o.EvalPairs)
	}
	if o.Reference != "" {
		c.Provenance[referenceKey] = absolute(o.Reference)
	}
	// A name stays a name, of a model that comes with the program, that the set-up fetched, or of the hub.
	_, named := modelcache.Find(c.Model.Path)
	if info, err := os.Stat(c.Model.Path); err == nil && info.IsDir() && !named && c.Model.Path != "embedded" {
		c.Model.Path = absolute(c.Model.Path)
	}
	return atomicfile.WriteBytes(filepath.Join(o.Out, settingsFile), c.YAML())
}

// loaded is the model with its new adapter and what trains it.
type loaded struct {
	assembly.Generator
	adapter *lora.Adapter
	tuner   *dpo.Tuner
}

func load(c configs.Config) (l *loaded, err error) {
	g, err := assembly.LoadGenerator(c)
	if err != nil {
		return nil, err
	}
	l = &loaded{Generator: g}
	defer func() {
		if err != nil {
			l.free()
		}
	}()
	if l.adapter, err = lora.New(l.Model, preference.Adapter(c.LoRA, g.Dir), rng.New(c.Seed, "lora")); err != nil {
		return l, fault.Userf("%w", err)
	}
	l.tuner, err = preference.NewDPO(c, l.Model, l.adapter, 1)
	return l, err
}

func (l *loaded) free() {
	if l.tuner != nil {
		l.tuner.Optimizer.Free()
	}
	if l.adapter != nil {
		l.adapter.Free()
	}
	l.Model.Free()
}

// pairs reads the pairs to train on, and those to measure on.
func (l *loaded) pairs(o Options) (train, held []dpo.Pair, cut dpo.Cut, err error) {
	context := l.Model.Config.Context
	length := cmp.Or(o.Config.DPO.MaxLength, context)
	if length > context {
		return nil, nil, cut, fault.Userf("dpo.max_length is %d, must be at most the model's context, %d", length,
			context)
	}
	read := func(path string) ([]dpo.Pair, error) {
		pairs, lost, err := dpo.Read(path, dpo.ReadOptions{Tokenizer: l.Tokenizer, Folder: l.Dir, MaxLength: length})
		cut.Truncated, cut.Dropped = cut.Truncated+lost.Truncated, cut.Dropped+lost.Dropped
		if err == nil {
			err = l.tuner.Check(pairs)
		}
		if c := o.Config; err == nil && c.DPO.Loss == "qrpo" {
			for i, p := range pairs {
				if p.RejectedRank > c.Generate.Samples {
					return nil, fault.Userf("%s: row %d has the rejected_rank %d of %d samples: set generate.samples to the number "+
						"that each prompt had", path, i, p.RejectedRank, c.Generate.Samples)
				}
			}
		}
		if err != nil && !strings.Contains(err.Error(), path) {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return pairs, fault.User(err)
	}
	pairs, err := read(o.Pairs)
	if err != nil {
		return nil, nil, cut, err
	}
	train, held = dpo.HoldOut(pairs, o.Config.DPO.EvalShare, rng.New(o.Config.Seed, "held").Perm)
	if o.EvalPairs != "" {
		held, err = read(o.EvalPairs)
	} else if o.Config.DPO.EvalShare > 0 && len(held) == 0 {
		err = fault.Userf("%s holds pairs of a single prompt: none can be held out", o.Pairs)
	}
	return train, held, cut, err
}

// failed says what a training that failed leaves in the folder.
func (l *loaded) failed(err error, out string) error {
	if errors.Is(err, trainer.ErrForeignCheckpoint) {
		return fault.Userf("%w: the pairs, the model or how it computes have changed since it was begun", err)
	}
	if _, ok := errors.AsType[*trainer.NonFinite](err); ok {
		if saved := l.adapter.Save(filepath.Join(out, lastGood)); saved != nil {
			return errors.Join(err, saved)
		}
		return fmt.Errorf("%w; the adapter before this step is in %s", err, filepath.Join(out, lastGood))
	}
	return err
}

// finish writes the metrics, the result and the adapter. The checkpoint goes last.
func (l *loaded) finish(out string, o *dpo.Outcome, r Result) error {
	r.Seconds, r.Cached, r.Stale, r.Out = 0, false, "", "" // of this process, not of the training
	if err := atomicfile.WriteJSON(filepath.Join(out, resultFile), r); err != nil {
		return err
	}
	if err := rows.WriteLines(filepath.Join(out, preference.StepsFile), o.Steps); err != nil {
		return err
	}
	if len(o.Evals) > 0 {
		if err := rows.WriteLines(filepath.Join(out, preference.EvalsFile), o.Evals); err != nil {
			return err
		}
	}
	if err := l.adapter.Save(out); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(out, trainingFile)); err != nil {
		return err
	}
	return os.Remove(filepath.Join(out, trainingLock))
}

func newResult(f *dpo.Fit, o *dpo.Outcome, cached dpo.Cached) *Result {
	r := &Result{Pairs: len(f.Pairs), Held: len(f.Held), Steps: len(o.Steps),
		Cached: cached.Read, Last: o.Steps[len(o.Steps)-1]}
	if cached.Stale != nil {
		r.Stale = cached.Stale.Error()
	}
	for _, s := range o.Steps {
		r.Loss += s.Loss / float64(len(o.Steps))
	}
	if n := len(o.Evals); n > 0 {
		r.Eval = &o.Evals[n-1]
		if f.KeepBest {
			r.Eval = &o.Evals[o.Best]
		}
	}
	return r
}

// trainingKey hashes everything that the course of a training depends on: the settings, the model and the pairs.
func trainingKey(c configs.Config, t *dpo.Tuner, train, held []dpo.Pair) (string, error) {
	pairs, err := t.Key(train, held)
	if err != nil {
		return "", err
	}
	// The pairs' key includes weights and arithmetic.
	c.Provenance, c.Model.Threads, c.Model.Device, c.Model.Path = nil, 0, "", ""
	h := sha256.New()
	h.Write(c.YAML())
	fmt.Fprintln(h, pairs)
	for _, p := range slices.Concat(train, held) { // some losses read them
		fmt.Fprintln(h, p.ChosenScore, p.RejectedScore, p.RejectedRank)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// absolute makes a path that stays valid when the training is resumed from another folder.
func absolute(path string) string {
	if a, err := filepath.Abs(path); err == nil {
		return a
	}
	return path
}
