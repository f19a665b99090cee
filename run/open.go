package run

import (
	"cmp"
	"context"
	"runtime/debug"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/fedsim"
	"popri/internal/atomicfile"
	"popri/methods"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/sampling/vllm"
	"popri/model/embedding"
	"popri/run/assembly"
	"popri/run/federated"
	"popri/run/inputs"
	"popri/run/tracking"
	"popri/scoring"
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
	// Shortened says what was left out of the run so that it takes less time; "" for nothing.
	Shortened string
	// Device, if not "", replaces the configuration's device, also for a resumed run.
	Device string
	// AcceptChanges resumes a run with changed inputs. The changes are recorded.
	AcceptChanges bool
	// Warn is called with warnings before the run begins, and with one for each tracker that fails; it may be nil.
	Warn func(text string)
	// Trackers are the programs that show the run's figures (trackers.Names).
	Trackers []string
	// Aggregators are asked where the clients are behind them (fed.clients and aggregate.least above 0).
	Aggregators federated.Aggregators
	// Common, if not nil, keeps what further runs of this process may have in common with this one.
	Common *assembly.Common
	// Evaluates refuses a run that could not be evaluated afterwards; without it, that is a warning.
	Evaluates bool
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
	log       *tracking.Log
	tracking  *tracking.Listener
	encoder   embedding.Encoder
	topics    *scoring.Topics // nil where the method has none
	clients   population
}

// Open reads the data and the models, fits the encoder and prepares the trainer. Only then does it make the folder of a
// new run, with its configuration, and the ledger: a process that ends earlier leaves nothing behind. A resumed run
// must have the inputs that it began with. Open stops between two steps when ctx ends.
func Open(ctx context.Context, o Options) (_ *Session, err error) {
	if err := o.configuration(); err != nil {
		return nil, err
	}
	s := &Session{Config: o.Config, Dir: o.Dir}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	method, told := methods.Of(s.Config), o.events()
	if s.Data, err = opening(ctx, told, "read data", func(rounds.Stage) (*assembly.Corpus, error) {
		return o.data()
	}); err != nil {
		return nil, err
	}
	if s.budget, err = assembly.Budget(s.Config, s.Data.Private); err != nil {
		return nil, err
	}
	if o.Resume { // acquires the folder's lock
		if s.ledger, s.Sigma, err = openLedger(s.Config, s.Dir, s.budget); err != nil {
			return nil, err
		}
	}
	if s.generator, err = opening(ctx, told, "load the generator", func(rounds.Stage) (assembly.Generator, error) {
		return generator(s.Config)
	}); err != nil {
		return nil, err
	}
	if s.encoder, err = opening(ctx, told, "prepare the encoder", func(rounds.Stage) (embedding.Encoder, error) {
		return o.Common.Encoder(s.Config, s.Data.Public)
	}); err != nil {
		return nil, err
	}
	s.Config.Scoring.Dim = embedding.Sentence(s.encoder).Dim() // an encoder with weights of its own decides it
	if s.method, err = opening(ctx, told, "prepare the method", func(stage rounds.Stage) (rounds.Method, error) {
		return s.newMethod(ctx, o.Common, stage.Progress)
	}); err != nil {
		return nil, err
	}
	began, err := opening(ctx, told, "check inputs", func(rounds.Stage) (inputs.Inputs, error) { return s.inputs(o) })
	if err != nil {
		return nil, err
	}
	if !o.Resume {
		if s.Sigma, err = assembly.Plan(s.Config, s.budget); err != nil {
			return nil, err
		}
	}
	if s.clients, err = opening(ctx, told, "embed the clients' texts", func(stage rounds.Stage) (population, error) {
		return s.population(ctx, o, stage.Progress)
	}); err != nil {
		return nil, err
	}
	debug.FreeOSMemory() // reading the data takes far more memory than keeping it
	if !o.Resume {
		if err := s.begin(began, o); err != nil {
			return nil, err
		}
		if s.ledger, s.Sigma, err = openLedger(s.Config, s.Dir, s.budget); err != nil {
			return nil, err
		}
	}
	if err := atomicfile.RemoveTemporary(o.Dir); err != nil { // with the lock held, they belong to a process that was killed
		return nil, err
	}
	if s.log, err = tracking.OpenLog(o.Dir); err != nil {
		return nil, err
	}
	s.log.Write("open", map[string]any{"resumed": o.Resume})
	federation, err := fedsim.New(s.clients.Clients, assembly.Mechanism(s.Config, s.Sigma, s.budget),
		assembly.Federation(s.Config, o.Dir, s.ledger))
	if err != nil {
		return nil, err
	}
	s.tracking = tracking.Open(o.Trackers, o.Dir, s.Config, o.Warn)
	s.runner = s.newRunner(method, federation, rounds.Tee(s.log.Events(), told, s.tracking.Events()))
	return s, nil
}

// generator opens the generator, without weights where clients train the small model: an evaluation alone needs them.
func generator(c configs.Config) (assembly.Generator, error) {
	if c.AtClients() {
		return assembly.OpenGenerator(c)
	}
	return assembly.LoadGenerator(c)
}

// opening makes a part of a run in a stage of its own.
func opening[T any](ctx context.Context, told rounds.Events, name string,
	part func(rounds.Stage) (T, error)) (made T, err error) {
	err = told.Opening(name, func(stage rounds.Stage) (err error) { made, err = part(stage); return err })
	return made, cmp.Or(err, ctx.Err())
}

// events are the listeners that the run was opened with.
func (o *Options) events() rounds.Events {
	var listener rounds.Events
	if o.Listen != nil {
		listener = o.Listen(methods.Of(o.Config).Series.WithPrivacy().Columns)
	}
	return rounds.Tee(o.Events, listener)
}

// newRunner makes the loop of the rounds.
func (s *Session) newRunner(d method.Description, federation *fedsim.Federation, events rounds.Events) *rounds.Runner {
	t := s.Config.Trainer
	o := rounds.Options{Dir: s.Dir, Rounds: d.Rounds(s.Config), By: s.Config.SelectsBy(), Patience: t.Patience,
		Method: s.method, Clients: federation, Spent: s.ledger.Spent, Events: events}
	if d.ChoosesMix(s.Config) {
		o.Choose = s.chooseMix
	}
	return rounds.New(o)
}

// openLedger opens the ledger of the run in dir, which locks the folder, and fixes the noise multiplier.
func openLedger(c configs.Config, dir string, b ledger.Budget) (*ledger.Ledger, float64, error) {
	l, err := assembly.OpenLedger(c, dir, b)
	if err != nil {
		return nil, 0, err
	}
	sigma, err := assembly.Calibrate(c, b, assembly.Inherited(l))
	return l, sigma, err
}

// Close releases everything.
func (s *Session) Close() {
	if s.method != nil {
		s.method.Close()
	}
	s.clients.Close()
	if s.generator.Model != nil {
		s.generator.Model.Free()
	}
	assembly.FreeEncoder(s.encoder)
	s.tracking.Close()
	s.tracking = nil
	if s.ledger != nil {
		s.ledger.Close()
	}
	s.log.Close()
}
