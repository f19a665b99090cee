package run

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"popri/configs"
	"popri/datasets/clients"
	"popri/fedsim/release"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/filelock"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/rounds"
	"popri/model/embedding"
	"popri/run/assembly"
	"popri/run/evaluator"
	"popri/run/inputs"
)

// begin makes the folder of a new run with its inputs and its configuration. The configuration is written last and
// makes the folder a run's: of two processes that begin a run in one folder, one succeeds, and the other changes
// nothing.
func (s *Session) begin(began inputs.Inputs, o Options) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fault.Userf("the run's folder cannot be made: %w", err)
	}
	// Of two processes that begin in one folder, the later one must not write over the other's files.
	lock, err := filelock.Folder(s.Dir)
	if err != nil {
		return fault.Userf("the run's folder cannot be opened: %w", err)
	}
	defer lock.Release()
	if rundir.Exists(s.Dir) {
		return overtaken(s.Dir)
	}
	s.Config.Provenance, err = inputs.Provenance(s.Config,
		inputs.Origin{Inputs: began, Public: s.Data.Public.Name, Private: s.Data.Private.Name,
			Clients: s.budget.Clients, Unit: s.Data.Private.Unit,
			Validation: len(s.Data.Private.Split(clients.Validation)),
			Sigma:      s.Sigma, Title: o.Title, Command: o.Command, Shortened: o.Shortened})
	if err != nil {
		return err
	}
	if err = began.Write(s.Dir); err == nil {
		err = atomicfile.CreateBytes(filepath.Join(s.Dir, rundir.Config), s.Config.YAML(), 0o644)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return overtaken(s.Dir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.Userf("the run's folder cannot be written to: %w", err)
	}
	return err
}

func taken(dir string) error {
	return fault.Userf("%s holds a run already: resume it (--resume) or name another folder", dir)
}

// overtaken is the error of a process that found the folder free when it started.
func overtaken(dir string) error {
	return fault.Userf("%s holds a run already, which another process has begun since this one started: name another "+
		"folder", dir)
}

// data reads the data, and checks what an evaluation will need of it before anything is charged.
func (o *Options) data() (*assembly.Corpus, error) {
	corpus, err := assembly.LoadRun(o.Config, o.Warn)
	if err != nil {
		return nil, err
	}
	if text := assembly.SlowType(o.Config.Model); text != "" && o.Warn != nil {
		o.Warn(text)
	}
	err = evaluator.Check(o.Config, corpus.Private)
	if err == nil || o.Evaluates {
		return corpus, err
	}
	if o.Warn != nil {
		o.Warn("popri eval could not evaluate this run: " + err.Error())
	}
	return corpus, nil
}

// inputs are what the run reads. A resumed run must have those that it began with; a new one needs a free folder.
func (s *Session) inputs(o Options) (inputs.Inputs, error) {
	began, err := inputs.Of(s.Config, s.Data.Public.Hash(), embedding.Key(s.encoder))
	if err != nil {
		return began, err
	}
	if began.Content[inputs.HeldOut], err = assembly.Tag(s.Data.Private, clients.Validation, clients.Test); err != nil {
		return began, err
	}
	if o.Resume {
		return began, began.Compare(s.Dir, o.AcceptChanges, s.accept)
	}
	if rundir.Exists(o.Dir) { // another process has begun a run there since o was checked
		return began, taken(o.Dir)
	}
	if path := filepath.Join(o.Dir, rundir.Ledger); rundir.Has(o.Dir, rundir.Ledger) {
		return began, fault.Userf("%s is the ledger of a run whose %s is gone: restore it, or name another folder",
			path, rundir.Config)
	}
	for _, name := range []string{rundir.Rounds, rundir.Synthetic, rundir.Small, rundir.Eval, rundir.InContext, rundir.Adapter} {
		if rundir.Has(o.Dir, name) { // a run would replace it
			return began, fault.Userf("%s is there and belongs to no run: name another folder", filepath.Join(o.Dir, name))
		}
	}
	return began, nil
}

// accept removes what the run made of other inputs, once these have been checked.
func (s *Session) accept(c inputs.Changed) error {
	if len(c.Keys) > 0 {
		if err := assembly.CheckSources(s.Config, s.budget, s.ledger.Entries(), c.Keys...); err != nil {
			return err
		}
	}
	of := methods.Of(s.Config)
	once := s.Config.Scoring.Release == "once" && of.Releases(s.Config) == 1
	answered := rundir.Has(rundir.Round(s.Dir, 1), release.File)
	// The encoder is another one, too, where the words or the public text are.
	for _, key := range []string{"scoring.words", "scoring.form", "scoring.release", "data.public", "scoring.encoder"} {
		if once && answered && slices.Contains(c.Keys, key) {
			return fault.Userf("%s is part of the question that the clients have answered: change it back, or begin again in "+
				"another folder", key)
		}
	}
	if c.Texts {
		samples := slices.ContainsFunc(c.Keys, func(key string) bool {
			section, _, _ := strings.Cut(key, ".")
			return !slices.Contains([]string{"trainer", "optimizer", "lora", "dpo", "synthetic", "privacy"}, section)
		})
		if err := rounds.ForgetBegun(s.Dir, samples, once); err != nil {
			return err
		}
	}
	if texts := c.Texts || c.Evaluation && (of.ChoosesMix(s.Config) || of.Needs(s.Config).Small); texts || c.Evaluation {
		return rounds.Forget(s.Dir, texts)
	}
	return nil
}

// configuration reads the configuration of a run to resume, or checks a new run's, and sets the computer up for it.
func (o *Options) configuration() error {
	switch {
	case o.Resume && !rundir.Exists(o.Dir):
		return fault.Userf("%s holds no run to resume: there is no %s", o.Dir, rundir.Config)
	case o.Resume:
		c, err := configs.Load(configs.LoadOptions{File: filepath.Join(o.Dir, rundir.Config)})
		if err != nil {
			return err
		}
		o.Config = *c
	case rundir.Exists(o.Dir):
		return taken(o.Dir)
	default:
		if err := assembly.CheckContinues(o.Config); err != nil {
			return err
		}
	}
	o.Config.Model.Device = cmp.Or(o.Device, o.Config.Model.Device)
	for _, check := range []func(configs.Config) error{configs.Config.Validate, evaluator.CheckTask,
		assembly.CheckSampleWeights, assembly.SetCompute} {
		if err := check(o.Config); err != nil {
			return err
		}
	}
	return nil
}
