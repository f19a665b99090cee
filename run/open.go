package run

import (
	"cmp"
	"context"
	"path/filepath"
	"runtime/debug"
	"time"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/datasets/clients"
	"popri/fedsim"
	"popri/fedsim/local"
	"popri/fedsim/teachers"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/sampling/vllm"
	"popri/model/embedding"
	"popri/run/assembly"
	"popri/run/evaluator"
	"popri/run/inputs"
	"popri/run/logging"
	"popri/run/sharding"
	"popri/run/tracking"
	"popri/show/series"
)

// Options say what to run and where.
type Options struct {
	Config configs.Config
	Dir    string
	Resume bool // Dir holds a run to resume; Config is then read from it
	Events rounds.Events
	// Listen, if not nil, makes a further listener. Its argument has the figures of the method's rounds.
	Listen func([]series.Series) rounds.Events
	// Title is the report's title, and Command the command for the same run; "" takes the folder and popri run.
	Title, Command string
	// Device, if not "", replaces the configuration's device, also for a resumed run.
	Device string
	// AcceptChanges resumes a run with changed inputs. The changes are recorded.
	AcceptChanges bool
	// Warn is called with warnings before the run begins, and with one for each tracker that fails; it may be nil.
	Warn func(text string)
	// Trackers are the programs that show the run's figures (trackers.Names).
	Trackers []string
	// Aggregators are asked where the clients are behind them (fed.clients and aggregate.least above 0).
	Aggregators *sharding.Aggregators
	// Common, if not nil, keeps what further runs of this process may have in common with this one.
	Common *assembly.Common
	// Announced is told when a round is announced to them and until when it waits; it may be nil.
	Announced func(text string)
}

// Session is an open run. Close releases its models and the lock on its folder.
type Session struct {
	Config configs.Config
	Dir    string
	Data   *assembly.Corpus
	Sigma  float64 // noise multiplier of a release

	ledger    *ledger.Ledger
	budget    ledger.Budget
	generator assembly.Generator
	engine    *vllm.Server // draws samples; nil is this program
	method    rounds.Method
	runner    *rounds.Runner
	prompter  *sampling.Prompter
	log       *logging.Log
	tracking  *tracking.Listener
	encoder   embedding.Encoder
	learner   *local.Clients     // nil unless clients train the small model
	teachers  *teachers.Ensemble // nil unless clients' texts are prompts of teachers
}

// Open reads the data and the models, fits the encoder and prepares the trainer. Only then does it make the folder of a
// new run, with its configuration, and the ledger: a process that ends earlier leaves nothing behind. A resumed run
// must have the inputs that it began with. Open stops between two steps when ctx ends.
func Open(ctx context.Context, o Options) (s *Session, err error) {
	if err := o.configuration(); err != nil {
		return nil, err
	}
	c := o.Config
	if err := assembly.SetCompute(c); err != nil {
		return nil, err
	}
	if err := assembly.CheckSampleWeights(c); err != nil {
		return nil, err
	}
	s = &Session{Config: c, Dir: o.Dir}
	d := methods.Of(c)
	var listener rounds.Events
	if o.Listen != nil {
		listener = o.Listen(d.Series.WithPrivacy().Columns)
	}
	told := rounds.Tee(o.Events, listener)
	opening := func(name string, f func(rounds.Stage) error) func() error {
		return func() error { return told.Opening(name, f) }
	}
	defer func(opened *Session) { // returning an error has set s to nil
		if err != nil {
			opened.Close()
		}
	}(s)
	var (
		began    inputs.Inputs
		federate func(fedsim.Config) (*fedsim.Federation, error)
	)
	for _, step := range []func() error{
		opening("read data", func(rounds.Stage) (err error) {
			if s.Data, err = assembly.LoadRun(c, o.Warn); err == nil {
				s.budget, err = assembly.Budget(c, s.Data.Private)
			}
			return err
		}),
		func() error {
			if !o.Resume {
				return nil
			}
			return s.openLedger() // acquires the folder's lock
		},
		opening("load the generator", func(rounds.Stage) (err error) {
			s.generator, err = assembly.LoadGenerator(c)
			return err
		}),
		opening("prepare the encoder", func(rounds.Stage) (err error) {
			if s.encoder, err = o.Common.Encoder(c, s.Data.Public); err == nil {
				s.Config.Scoring.Dim = embedding.Sentence(s.encoder).Dim() // an encoder with weights of its own decides it
			}
			return err
		}),
		opening("prepare the method", func(stage rounds.Stage) (err error) {
			s.method, err = s.newMethod(o.Common, stage.Progress)
			return err
		}),
		opening("check inputs", func(rounds.Stage) (err error) {
			if began, err = inputs.Of(s.Config, s.Data.Public.Hash(), embedding.Key(s.encoder)); err != nil {
				return err
			}
			began.Content[inputs.HeldOut], err = assembly.Tag(s.Data.Private, clients.Validation, clients.Test)
			return err
		}),
		func() error {
			if o.Resume {
				return began.Compare(s.Dir, s.Config, o.AcceptChanges)
			}
			if rundir.Exists(o.Dir) { // another process has begun a run there since o was checked
				return taken(o.Dir)
			}
			if path := filepath.Join(o.Dir, rundir.Ledger); rundir.Has(o.Dir, rundir.Ledger) {
				return fault.Userf("%s is the ledger of a run whose %s is gone: restore it, or name another folder",
					path, rundir.Config)
			}
			s.Sigma, err = assembly.Plan(c, s.budget)
			return err
		},
		opening("embed the clients' texts", func(stage rounds.Stage) (err error) {
			federate, err = s.clients(ctx, o, stage.Progress)
			return err
		}),
		func() error {
			debug.FreeOSMemory() // reading the data takes far more memory than keeping it
			if !o.Resume {
				if err := s.begin(began, o); err != nil {
					return err
				}
				if err := s.openLedger(); err != nil {
					return err
				}
			}
			return atomicfile.RemoveTemporary(o.Dir) // with the lock held, they belong to a process that was killed
		},
	} {
		if err := cmp.Or(step(), ctx.Err()); err != nil {
			return nil, err
		}
	}
	if s.log, err = logging.Open(o.Dir); err != nil {
		return nil, err
	}
	s.log.Write("open", map[string]any{"resumed": o.Resume})
	federation, err := federate(assembly.Federation(c, o.Dir, s.ledger, s.Sigma))
	if err != nil {
		return nil, err
	}
	s.tracking = tracking.Open(o.Trackers, o.Dir, s.Config, o.Warn)
	all := rounds.Options{Dir: o.Dir, Rounds: d.RoundsOf(s.Config), By: s.Config.SelectsBy(),
		Patience: s.Config.Trainer.Patience, MaxTime: time.Duration(s.Config.Trainer.MaxHours * float64(time.Hour)),
		Method: s.method, Clients: federation,
		Spent:  s.ledger.Spent,
		Events: rounds.Tee(s.log.Events(), told, s.tracking.Events())}
	if d.ChoosesMix(s.Config) {
		all.Choose = s.chooseMix
	}
	s.runner = rounds.New(all)
	return s, nil
}

// configuration reads the configuration of a run to resume, or checks that of a new run.
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
	}
	o.Config.Model.Device = cmp.Or(o.Device, o.Config.Model.Device)
	if err := o.Config.Validate(); err != nil {
		return err
	}
	return evaluator.CheckTask(o.Config)
}

// clients embeds the texts of the train clients, where they are not elsewhere, and returns what makes them a
// federation.
func (s *Session) clients(ctx context.Context, o Options,
	tell func(done, total int)) (func(fedsim.Config) (*fedsim.Federation, error), error) {
	behind := s.Config.Fed.Elsewhere() && s.Config.Aggregate.Least > 0
	if behind != (o.Aggregators != nil) {
		return nil,
			fault.Userf("two aggregators are given: %v; fed.clients is %d and aggregate.least %d, which needs them: %v",
				o.Aggregators != nil, s.Config.Fed.Clients, s.Config.Aggregate.Least, behind)
	}
	if behind {
		return func(f fedsim.Config) (*fedsim.Federation, error) {
			noised := sharding.Gather(ctx, s.Dir, s.Config, f.Sigma, s.budget.Clients, s.encoder, o.Aggregators,
				o.Announced)
			return fedsim.NewAggregated(s.budget.Clients, noised, f)
		}, nil
	}
	if s.Config.Fed.Elsewhere() {
		ask := sharding.Ask(s.Dir, s.Config, s.budget.Clients, s.encoder)
		return func(o fedsim.Config) (*fedsim.Federation,
			error) {
			return fedsim.NewRemote(s.budget.Clients, ask, o)
		}, nil
	}
	if s.Config.Learns() {
		return s.learners(ctx)
	}
	if s.Config.Votes() {
		return s.voters(ctx)
	}
	d := methods.Of(s.Config)
	var classes []string
	if d.NeedsLabels {
		classes = append([]string{}, s.Data.Public.Classes()...)
	}
	embedded, err := o.Common.Embedded(ctx, s.Data.Private.Split(clients.Train), s.encoder, d.NeedsTextsOf(s.Config),
		classes, tell)
	return func(o fedsim.Config) (*fedsim.Federation, error) { return fedsim.New(embedded, o) }, err
}

// openLedger opens the run's ledger, which locks the folder, and fixes the noise.
func (s *Session) openLedger() (err error) {
	if s.ledger, err = assembly.OpenLedger(s.Config, s.Dir, s.budget); err != nil {
		return err
	}
	s.Sigma, err = assembly.Calibrate(s.Config, s.budget, assembly.Inherited(s.ledger))
	return err
}

// Close releases everything.
func (s *Session) Close() {
	if s.method != nil {
		s.method.Close()
	}
	s.teachers.Close()
	if s.generator.Model != nil {
		s.generator.Model.Free()
	}
	s.learner.Close()
	assembly.FreeEncoder(s.encoder)
	s.tracking.Close()
	s.tracking = nil
	if s.ledger != nil {
		s.ledger.Close()
	}
	s.log.Close()
}
