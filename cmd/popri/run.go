package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"popri/accountant/guarantee"
	"popri/configs"
	"popri/eval/domain"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/aggregate/service"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/run"
	"popri/run/evaluation"
	"popri/run/federated"
	"popri/run/reporting"
	"popri/show/report"
	"popri/show/series"
	"popri/study"
)

// configFlags are the flags that choose and change a configuration.
type configFlags struct {
	file, preset string
	set          []string
	data         worldFlags // between preset and file; the zero value adds nothing
}

func (f *configFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "config", "", "configuration file (YAML)")
	cmd.Flags().StringVar(&f.preset, "preset", "", "named configuration: "+joined(configs.Presets()))
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "set a key: --set dpo.rejected_rank=7; may be repeated")
}

// name sets keys that a verb's own flags name; a flag that was not given leaves its key.
func (f *configFlags) name(keys map[string]string) {
	for key, value := range keys {
		if value != "" {
			f.set = append(f.set, key+"="+value)
		}
	}
}

func (f *configFlags) load() (configs.Config, error) {
	if name := f.data.typedName(); name != "" && f.file != "" {
		return configs.Config{}, usage(fmt.Errorf("--config %s says which data there are (data.private, data.public); do "+
			"not combine it with --%s: --set changes its keys", f.file, name))
	}
	options, _, err := f.data.options(f.preset, f.set)
	if err != nil {
		return configs.Config{}, err
	}
	options.File = f.file
	c, err := configs.Load(options)
	if err != nil {
		return configs.Config{}, usage(err)
	}
	return *c, nil
}

// runOptions are the flags of the verb run.
type runOptions struct {
	flags               configFlags
	own                 ownFlag
	live                watchFlags
	track               trackFlag
	behind              clientsFlag
	out                 string
	resume, accept, dry bool
}

func (a *app) run() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run --config FILE | --preset NAME [--set a.b=c]… --out DIR",
		Short: "Run the rounds and write the synthetic set",
		Long: `Runs the rounds of a method (POPri by default) and writes the synthetic set and the report into the run's folder. "popri
eval --run" then trains small models on the set and tests them.

Settings come from --preset or --config, then from POPRI_… variables, then from --set. Without either, the preset demo is used.
--world, or --private and --public, choose clients and public text, --model and --encoder what writes and compares, as for
"popri demo".

--resume continues a run that was interrupted or killed, with its own config.yaml; the run ends with the same bytes as an
uninterrupted one. Its inputs (settings, weights, public text, clients) must be those it began with: --resume compares them
and refuses changes, unless --accept-changes is given.

If the budget ends before the last round, the synthetic set comes from the finished rounds and the exit code is 3.

--dry-run prints what the run would read, cost, spend and publish, and ends before anything is trained or spent. The time is an
estimate from the number of floating-point operations.

--watch serves a page that shows the run while it trains, and prints its address; see "popri watch". On a terminal the page
stays after the run's end, until Ctrl-C; elsewhere it ends with the run, and "popri watch" shows it again.

With fed.clients and aggregate.least above 0, the run reads no train client. --clients names the two aggregators to which the
clients report, and --identity the trainer's folder of "popri aggregate ca": the run announces each question to both, waits for
aggregate.minutes and goes on with their sums. If too few clients reported, it ends with exit code 4, and --resume asks again.

` + trackersHelp,
		Example: "  popri run --preset demo --set privacy.epsilon=1 --out runs/eps1\n  popri run --resume --out " +
			"runs/eps1\n  popri run --preset paper --dry-run\n" +
			"  popri run --preset demo --out runs/shown --report-to tensorboard,mlflow",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runRounds(cmd, o) },
	}
	o.add(cmd)
	return cmd
}

func (o *runOptions) add(cmd *cobra.Command) {
	o.flags.add(cmd)
	o.flags.data.add(cmd)
	o.flags.data.addModels(cmd)
	cmd.Flags().StringVar(&o.out, "out", "", "folder of the run")
	o.live.add(cmd)
	cmd.Flags().BoolVar(&o.resume, "resume", false, "continue the run in --out")
	cmd.Flags().BoolVar(&o.accept, "accept-changes", false, "with --resume: accept changed inputs and record the changes")
	o.own.add(cmd)
	addDryRun(cmd, &o.dry)
	o.track.add(cmd)
	o.behind.add(cmd)
}

// runRounds runs the rounds of a method and writes the report.
func (a *app) runRounds(cmd *cobra.Command, o runOptions) (err error) {
	var c configs.Config
	if o.resume {
		if other := changed(cmd, slices.Concat([]string{"config", "preset", "set"}, worldNames)...); other != "" {
			return usage(fmt.Errorf("run: --resume uses the run's own configuration; do not combine it with --%s",
				other))
		}
	} else {
		var err error
		if c, err = o.flags.load(); err != nil {
			return fmt.Errorf("run: %w", err)
		}
	}
	if o.out == "" && !o.dry {
		return usage(errors.New("run: --out names no folder"))
	}
	if err := o.track.check(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	c.Model.Threads = cmp.Or(a.threads, c.Model.Threads)
	if o.accept && !o.resume {
		return usage(errors.New("run: --accept-changes needs --resume"))
	}
	if o.dry && o.resume {
		return usage(errors.New("run: --resume goes on with the plan that the run has; do not combine it " +
			"with --dry-run"))
	}
	if !o.dry {
		if err := checkFolder("run", o.out); err != nil {
			return err
		}
	}
	if !o.resume {
		err := o.own.check(cmd, c)
		if err != nil {
			return err
		}
		if o.dry {
			return a.dryRun(c, o.out, false)
		}
		if c, err = a.prepared(cmd, c); err != nil {
			return fmt.Errorf("run: %w", err)
		}
	}
	if c.Eval.ReferencePrivate && c.Data.Private != configs.Default().Data.Private {
		a.warn("eval.reference_private is true: popri eval trains a small model on the train clients' texts " +
			"themselves. " +
			guarantee.Reference)
	}
	stop, err := a.watchRun(cmd, o.live, o.out)
	if err != nil {
		return err
	}
	defer func() { stop(err) }()
	to, err := o.behind.connect()
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	s, err := run.Open(cmd.Context(),
		run.Options{Config: c, Aggregators: to, Announced: func(text string) { a.say("%s", text) },
			Dir: o.out, Resume: o.resume, AcceptChanges: o.accept,
			Device: a.device, Warn: a.warn, Listen: a.events, Trackers: o.track.names})
	if err != nil {
		return a.stopped(err, o.out)
	}
	defer s.Close()
	ended := s.Train(cmd.Context())
	if ended != nil && !refused(ended) {
		return a.stopped(ended, o.out)
	}
	path, err := reporting.Write(o.out)
	if err != nil {
		return a.stopped(err, o.out)
	}
	return cmp.Or(a.summary(o.out, path, nil, nil), ended)
}

// clientsFlag names the two aggregators of clients that are elsewhere.
type clientsFlag struct {
	urls     []string
	identity string
}

func (f *clientsFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.urls, "clients", nil,
		"the leader's and the helper's address: --clients https://leader,https://helper")
	cmd.Flags().StringVar(&f.identity, "identity", "", "with --clients: the trainer's folder of popri aggregate ca")
}

// connect returns the aggregators; nil where none are named.
func (f *clientsFlag) connect() (*federated.Aggregators, error) {
	if len(f.urls) == 0 && f.identity == "" {
		return nil, nil
	}
	if len(f.urls) != 2 || f.identity == "" {
		return nil,
			usage(fmt.Errorf("--clients names %d addresses and --identity is %q, want two, the leader's first, and "+
				"the trainer's folder",
				len(f.urls), f.identity))
	}
	federation, err := identity.ReadFederation(filepath.Join(f.identity, identity.FederationFile))
	if err != nil {
		return nil, err
	}
	secrets, err := federation.ClientTLS(f.identity)
	if err != nil {
		return nil, err
	}
	for _, u := range f.urls {
		if err := identity.CheckURL(u); err != nil {
			return nil, usage(fmt.Errorf("--clients: %w", err))
		}
	}
	return &federated.Aggregators{Leader: service.NewRemote(f.urls[0], secrets),
		Helper: service.NewRemote(f.urls[1], secrets)}, nil
}

// events prints the progress of a run: on a terminal, a moving line with rate and time left; in a log, a line a stage.
func (a *app) events(columns []series.Series) rounds.Events {
	p := a.progress()
	name := func(s rounds.Stage) string {
		if s.Round > 0 {
			return fmt.Sprintf("round %d  %s", s.Round, s.Name)
		}
		return s.Name
	}
	return rounds.Events{
		StageBegin: func(s rounds.Stage) { p.begin(name(s)) },
		Progress:   func(_ rounds.Stage, done, total int) { p.update(done, total) },
		StageEnd: func(s rounds.Stage) {
			if s.Opening {
				p.endIfLong()
			} else {
				p.end()
			}
		},
		Say: func(text string) { a.say("%s", text) },
		RoundEnd: func(r series.Round) {
			var figures []string
			for _, c := range columns {
				if v := r.Get(c.Key); v != nil {
					figures = append(figures, fmt.Sprintf("%s %s", report.Lowered(c.Name), report.Figure(c, *v)))
				}
			}
			a.say("round %d  done: %s", r.Number, strings.Join(figures, ", "))
		},
	}
}

// result is the output of demo and run with --json.
type result struct {
	Epsilon     float64            `json:"epsilon"`
	Delta       float64            `json:"delta"`
	Rounds      int                `json:"rounds"`
	Clients     int                `json:"clients"`
	Accuracy    map[string]float64 `json:"accuracy,omitempty"`
	Perplexity  map[string]float64 `json:"perplexity,omitempty"`
	MacroF1     map[string]float64 `json:"macro_f1,omitempty"` // of a classification, instead of the perplexity
	GapClosed   *float64           `json:"gap_closed,omitempty"`
	GapClosedCI *[2]float64        `json:"gap_closed_ci,omitempty"`
	// PublicDistance says how far public text is from the clients.
	PublicDistance *domain.Distance   `json:"public_distance,omitempty"`
	Seconds        map[string]float64 `json:"seconds"`
	Report         string             `json:"report"`
	Run            string             `json:"run"`
	// Guarantee states the guarantee in one sentence; Warnings say who or what is outside of it.
	Guarantee string   `json:"guarantee"`
	Warnings  []string `json:"warnings"`
	// With has the results of other methods, for demo --with.
	With *study.Comparison `json:"with,omitempty"`
}

// summary prints the results of a run, and of other methods' runs beside it: the table for people, or one object. e and
// beside may be nil.
func (a *app) summary(dir, path string, e *evaluation.Outcome, beside *study.Comparison) error {
	r, err := reporting.Of(dir)
	if err != nil {
		return err
	}
	facts, err := guarantee.Read(dir)
	if err != nil {
		return err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	out := result{Guarantee: facts.Headline(), Warnings: nonNil(facts.Warnings()),
		Epsilon: r.Privacy.Spent, Delta: r.Privacy.Delta, Rounds: len(r.Rounds), Clients: r.Privacy.Clients,
		Seconds: map[string]float64{}, Report: abs, Run: dir, With: beside}
	if beside != nil {
		e = beside.Results(e)
	}
	for _, s := range r.Stages {
		out.Seconds[s.Name] = s.Seconds
	}
	if e != nil {
		out.Accuracy, out.Perplexity, out.MacroF1 = map[string]float64{}, map[string]float64{}, map[string]float64{}
		out.PublicDistance = e.PublicDistance
		for _, x := range e.Results {
			if out.Accuracy[x.Key] = x.Accuracy; x.MacroF1 != nil {
				out.MacroF1[x.Key] = *x.MacroF1
			} else {
				out.Perplexity[x.Key] = x.Perplexity
			}
			if x.Key == r.Main {
				out.GapClosed = x.GapClosed
				if x.GapClosedCI != nil {
					ci := [2]float64(*x.GapClosedCI)
					out.GapClosedCI = &ci
				}
			}
		}
	}
	return a.emit(out, func(w io.Writer) {
		for _, s := range r.Stages {
			fmt.Fprintf(w, "%-32s %8s\n", s.Name,
				time.Duration(s.Seconds*float64(time.Second)).Round(100*time.Millisecond))
		}
		if e != nil {
			fmt.Fprintln(w)
			evaluationTable(w, e)
		}
		fmt.Fprintf(w, "\nguarantee: %s\n", out.Guarantee)
		for _, text := range out.Warnings {
			fmt.Fprintf(w, "note:      %s\n", text)
		}
		if r.Convergence != "" {
			fmt.Fprintf(w, "rounds:    %s\n", r.Convergence)
		}
		fmt.Fprintf(w, "report:    %s\n", abs)
		if beside != nil {
			fmt.Fprintln(w)
			for _, o := range beside.Others {
				fmt.Fprintf(w, "%s spent ε = %s: %s\n", o.Method, roundedUp(o.Epsilon), o.Run)
			}
			printComposed(w, beside.Composed)
		}
	})
}

// warn prints a warning before the run begins.
func (a *app) warn(text string) {
	a.lines.Lock()
	defer a.lines.Unlock()
	fmt.Fprintln(a.err, "warning: "+text)
}

// stopped says how to continue after Ctrl-C, a request to stop or a full disk.
func (a *app) stopped(err error, dir string) error {
	if !rundir.Exists(dir) {
		return err
	}
	switch {
	case errors.As(err, new(*federated.FewError)):
		a.say("too few clients reported; ask them again with: popri run --resume --out %s --clients … --identity …",
			dir)
	case errors.As(err, new(rounds.Stopped)):
		a.say("the round is complete; go on with: popri run --resume --out %s", dir)
	case errors.Is(err, context.Canceled):
		a.say("interrupted; go on with: popri run --resume --out %s", dir)
	case fault.IsFull(err):
		a.say("the disk is full; make room and go on with: popri run --resume --out %s", dir)
	}
	return err
}
