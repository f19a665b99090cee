// Package standalone trains an adapter on preference pairs from anywhere, without clients and without differential privacy: the
// work of popri dpo. A training that was interrupted goes on and ends with the same bytes.
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
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tensor"
	"popri/model/tokenizer"
	"popri/run/assembly"
	"popri/run/tracking"
	"popri/trainer"
)

// Files of a training beside the adapter's, [preference.StepsFile] and [preference.EvalsFile].
const (
	settingsFile  = "settings.yaml"         // the configuration, and where the pairs came from
	referenceFile = "reference.safetensors" // log-probabilities of the pairs without adapters
	trainingFile  = "training.safetensors"  // the state after the last update, while the training is not done
	trainingLock  = "training.lock"
	// lastGood is the folder of the adapter as it was before a loss or gradient that was not finite ended the training.
	lastGood = "last-good"
)

// Options are the inputs and the output of a preference training.
type Options struct {
	Config    configs.Config // model.path, lora, dpo and seed are used
	Pairs     string         // JSON lines or Parquet of TRL's form, or a run's pairs.parquet
	EvalPairs string         // pairs to measure on, in the same form; "" holds out dpo.eval_share of Pairs
	Reference string         // file that keeps the reference log-probabilities; "" is one beside the adapter
	Out       string         // folder of the adapter, in PEFT's format
	Resume    bool           // Out holds a training to resume; Config and the files' names are then read from it
	Device    string         // if not "", replaces model.device
	Step      func(m dpo.Metrics, done, total int)
	Eval      func(dpo.Evaluation)
	Prepared  func(p Prepared) // called when everything has been read
	// Trackers are the programs that show the steps' figures (trackers.Names); Warn is called with a sentence for each that
	// fails.
	Trackers []string
	Warn     func(text string)
}

// Prepared describes a preference training that is about to begin.
type Prepared struct {
	Pairs, Held, Steps int
	Resumed            bool
}

// Result is the result of a preference training.
type Result struct {
	Pairs int `json:"pairs"` // trained on
	Held  int `json:"eval_pairs"`
	Steps int `json:"steps"`
	// reference log-probabilities and steps, without loading; since the last interruption
	Seconds   float64         `json:"train_runtime"`
	Loss      float64         `json:"train_loss"` // mean over the steps
	Last      dpo.Metrics     `json:"last"`
	Eval      *dpo.Evaluation `json:"eval,omitempty"` // the measurement of the adapter that was written
	Stopped   bool            `json:"stopped"`        // early, by dpo.patience
	NonFinite int             `json:"non_finite"`     // number of times that a pair was left out of a step
	Cached    bool            `json:"reference_read"` // reference log-probabilities came from the file
	Stale     string          `json:"reference_stale,omitempty"`
	Out       string          `json:"out"`
}

// provenance keys of settingsFile.
const (
	pairsKey     = "pairs"
	evalPairsKey = "eval_pairs"
	referenceKey = "reference"
)

// Train trains an adapter on preference pairs, with the model without adapter as the reference, and writes it to a
// folder that holds none. An interrupted training is resumed and gives the same bytes.
func Train(ctx context.Context, o Options) (*Result, error) {
	settings := filepath.Join(o.Out, settingsFile)
	if o.Resume {
		c, err := configs.Load(configs.LoadOptions{File: settings})
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fault.Userf("%s holds no training to resume: there is no %s", o.Out, settingsFile)
		}
		if err != nil {
			return nil, err
		}
		threads := o.Config.Model.Threads
		o.Config, o.Pairs, o.EvalPairs, o.Reference = *c, c.Provenance[pairsKey], c.Provenance[evalPairsKey],
			c.Provenance[referenceKey]
		if threads > 0 {
			o.Config.Model.Threads = threads
		}
	}
	c := o.Config
	c.Model.Device = cmp.Or(o.Device, c.Model.Device)
	if err := tracking.Check(o.Trackers); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.DPO.Engine != "local" {
		return nil, fault.Userf("dpo.engine is %q, must be \"local\" here: TRL trains on such pairs without popri", c.DPO.Engine)
	}
	if o.EvalPairs != "" && c.DPO.EvalShare > 0 {
		return nil, fault.Userf("held-out pairs are given, so dpo.eval_share must be 0, but is %v", c.DPO.EvalShare)
	}
	if err := preference.CheckMeasures(c.DPO, o.EvalPairs != "" || c.DPO.EvalShare > 0, false); err != nil {
		return nil, fault.Userf("%w", err)
	}
	if err := assembly.SetCompute(c); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, fault.Userf("the adapter's folder cannot be made: %w", err)
	}
	checkpoint := filepath.Join(o.Out, trainingFile)
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
	defer lock.Release()
	if err := finished(); err != nil { // by another process, between the check and the lock
		return nil, err
	}
	if !o.Resume && (rundir.Has(o.Out, trainingFile) || rundir.Has(o.Out, settingsFile)) {
		return nil, fault.Userf("%s holds a training that is not done: go on with it (--resume) or name another folder", o.Out)
	}
	if err := atomicfile.RemoveTemporary(o.Out); err != nil {
		return nil, err
	}

	dir, err := assembly.ModelDir(c.Model.Path, shipped.Generator)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, fault.Userf("%w", err)
	}
	m, err := lm.Load(dir, assembly.ModelOptions(c.Model))
	if err != nil {
		return nil, fault.Userf("%w", err)
	}
	defer m.Free()
	if err := m.CheckVocabulary(tok.VocabSize()); err != nil {
		return nil, fault.Userf("%s: %w", dir, err)
	}
	adapter, err := lora.New(m, lora.Config{Rank: c.LoRA.Rank, Alpha: c.LoRA.Alpha, RSLoRA: c.LoRA.RSLoRA,
		Targets: c.LoRA.Targets}, rng.New(c.Seed, "lora"))
	if err != nil {
		return nil, fault.Userf("%w", err)
	}
	defer adapter.Free()
	t, err := preference.NewDPO(c, m, adapter, 1)
	if err != nil {
		return nil, err
	}
	defer t.Optimizer.Free()
	read := func(path string) ([]dpo.Pair, error) {
		pairs, err := readPairs(path, tok, m.Config.Context)
		if err == nil {
			err = t.Check(pairs)
		}
		if err != nil && !strings.Contains(err.Error(), path) {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return pairs, err
	}
	pairs, err := read(o.Pairs)
	if err != nil {
		return nil, fault.Userf("%w", err)
	}
	train, held := dpo.HoldOut(pairs, c.DPO.EvalShare, rng.New(c.Seed, "held").Perm)
	if o.EvalPairs != "" {
		if held, err = read(o.EvalPairs); err != nil {
			return nil, fault.Userf("%w", err)
		}
	}
	if c.DPO.EvalShare > 0 && len(held) == 0 {
		return nil, fault.Userf("%s holds pairs of a single prompt: none can be held out", o.Pairs)
	}
	f := preference.NewFit(c, t, train, held)
	f.Checkpoint.Path = checkpoint
	if err := t.ResetSchedule(preference.Schedule(c.Optimizer, f.Total())); err != nil {
		return nil, err
	}
	if f.Checkpoint.Key, err = trainingKey(c, t, train, held); err != nil {
		return nil, err
	}
	resumed := rundir.Has(o.Out, trainingFile)
	stored := c // with the provenance of a training that goes on
	if !o.Resume {
		stored.Provenance = map[string]string{pairsKey: absolute(o.Pairs), "program": version.Program(),
			"libtorch": version.Libtorch(), "compute": assembly.ComputeType(c.Model.DType).String(),
			"device": tensor.DefaultDevice().String()}
		if o.EvalPairs != "" {
			stored.Provenance[evalPairsKey] = absolute(o.EvalPairs)
		}
		if o.Reference != "" {
			stored.Provenance[referenceKey] = absolute(o.Reference)
		}
		if _, named := modelcache.Find(stored.Model.Path); !named && stored.Model.Path != "embedded" {
			stored.Model.Path = absolute(stored.Model.Path)
		}
		if err := atomicfile.WriteBytes(settings, stored.YAML()); err != nil {
			return nil, err
		}
	}
	if o.Prepared != nil {
		o.Prepared(Prepared{Pairs: len(train), Held: len(held), Steps: f.Total(), Resumed: resumed})
	}

	begun := time.Now()
	path := o.Reference
	if path == "" {
		path = filepath.Join(o.Out, referenceFile)
	}
	all := slices.Concat(train, held)
	cached, err := t.ReferenceFrom(ctx, all, path, false)
	if err != nil {
		return nil, err
	}
	f.Pairs, f.Held = all[:len(train)], all[len(train):]
	tracked := track(o, stored)
	f.OnStep, f.OnEval = tracked.step(o.Step), tracked.eval(o.Eval)
	result, err := f.Run(ctx)
	tracked.close(err)
	switch {
	case errors.Is(err, trainer.ErrForeignCheckpoint):
		return nil, fault.Userf("%w: the pairs, the model or how it computes have changed since it was begun", err)
	case err != nil:
		if _, ok := errors.AsType[*trainer.NonFinite](err); ok {
			if saved := adapter.Save(filepath.Join(o.Out, lastGood)); saved != nil {
				return nil, errors.Join(err, saved)
			}
			err = fmt.Errorf("%w; the adapter before this step is in %s", err, filepath.Join(o.Out, lastGood))
		}
		return nil, err
	}
	out := &Result{Pairs: len(train), Held: len(held), Steps: len(result.Steps), Stopped: result.Stopped,
		NonFinite: len(result.NonFinite), Cached: cached.Read, Out: o.Out,
		Seconds: time.Since(begun).Seconds(), Last: result.Steps[len(result.Steps)-1]}
	if cached.Stale != nil {
		out.Stale = cached.Stale.Error()
	}
	for _, s := range result.Steps {
		out.Loss += s.Loss / float64(len(result.Steps))
	}
	if err := rows.WriteLines(filepath.Join(o.Out, preference.StepsFile), result.Steps); err != nil {
		return nil, err
	}
	if n := len(result.Evals); n > 0 {
		out.Eval = &result.Evals[n-1]
		if f.KeepBest {
			out.Eval = &result.Evals[result.Best]
		}
		if err := rows.WriteLines(filepath.Join(o.Out, preference.EvalsFile), result.Evals); err != nil {
			return nil, err
		}
	}
	if err := adapter.Save(o.Out); err != nil {
		return nil, err
	}
	if err := os.Remove(checkpoint); err != nil {
		return nil, err
	}
	return out, os.Remove(filepath.Join(o.Out, trainingLock))
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
	return hex.EncodeToString(h.Sum(nil)), nil
}

// absolute makes a path that stays valid when the training is resumed from another folder.
func absolute(path string) string {
	if a, err := filepath.Abs(path); err == nil {
		return a
	}
	return path
}

func readPairs(path string, tok *tokenizer.Tokenizer, context int) ([]dpo.Pair, error) {
	if strings.EqualFold(filepath.Ext(path), ".parquet") {
		return dpo.ReadParquet(path, tok, context)
	}
	return dpo.ReadJSONL(path, tok, context)
}
