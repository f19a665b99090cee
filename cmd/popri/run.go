package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"popri/accountant/guarantee"
	"popri/configs"
	"popri/internal/quote"
	"popri/internal/rundir"
	"popri/methods"
	"popri/run"
)

// runOptions are the flags of the verb run.
type runOptions struct {
	flags               configFlags
	own                 ownFlag
	live                watchFlags
	track               trackFlag
	behind              clientsFlag
	out, after          string
	resume, accept, dry bool
}

func (a *app) run() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run --config FILE | --preset NAME [--set a.b=c]… --out DIR",
		Short: "Run the rounds and write the synthetic set",
		Long: `Runs the rounds of a method (POPri by default) and writes the synthetic set and the report into the run's folder. "popri
eval --run" then trains small models on the set and tests them.

Settings come from --preset or --config, then from POPRI_… variables, then from --set. Without either, from popri.yaml of the
working directory ("popri init"), and the run's folder is runs/first; without that file, from the preset demo.
--world, or --private and --public, choose clients and public text, --model and --encoder what writes and compares, as for
"popri demo".

--resume continues a run that was interrupted or killed, with its own config.yaml; the run ends with the same bytes as an
uninterrupted one. Its inputs (settings, weights, public text, clients) must be those it began with: --resume compares them
and refuses changes, unless --accept-changes is given.

If the budget ends before the last round, the synthetic set comes from the finished rounds and the exit code is 3.

--at-clients RUN trains the small model of a finished run further: the clients train an adapter of it and release a noised sum
in each of ten rounds. All other settings are as in RUN. Its charges count against privacy.epsilon, so RUN must have spent less:
--set privacy.epsilon=7 after a run with ε = 1. Clients of a federation need RUN/small: popri client --small.

--dry-run prints what the run would read, cost, spend and publish, and ends before anything is trained or spent. The time is an
estimate from the number of floating-point operations.

--watch serves a page that shows the run while it trains, and prints its address; see "popri watch". On a terminal the page
stays after the run's end, until Ctrl-C; elsewhere it ends with the run, and "popri watch" shows it again.

With fed.clients and aggregate.least above 0, the run reads no train client. --clients names the two aggregators to which the
clients report, and --identity the trainer's folder of "popri aggregate ca": the run announces each question to both,
waits for aggregate.minutes and continues with their sums. If too few clients reported, it ends with exit code 4, and --resume asks again.

` + trackersHelp,
		Example: "  popri run --preset demo --set privacy.epsilon=1 --out runs/eps1\n  popri run --resume --out " +
			"runs/eps1\n  popri run --preset paper --dry-run\n" +
			"  popri run --preset demo --out runs/shown --report-to tensorboard,mlflow",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runRounds(cmd, o) },
	}
	o.flags.add(cmd)
	o.flags.data.add(cmd)
	o.flags.data.addModels(cmd)
	cmd.Flags().StringVar(&o.out, "out", "", "folder of the run")
	cmd.Flags().StringVar(&o.after, "at-clients", "", "a finished run whose small model clients train further; --out is another folder")
	o.live.add(cmd)
	cmd.Flags().BoolVar(&o.resume, "resume", false, "continue the run in --out")
	cmd.Flags().BoolVar(&o.accept, "accept-changes", false, "with --resume: accept changed inputs, record the changes, and make again what followed the rounds")
	o.own.add(cmd)
	addDryRun(cmd, &o.dry)
	o.track.add(cmd)
	o.behind.add(cmd)
	return cmd
}

// follow takes the configuration of the run whose small model clients train further, if one is named.
func (o *runOptions) follow(cmd *cobra.Command) error {
	if o.after == "" {
		return nil
	}
	if other := changed(cmd, slices.Concat([]string{"config", "preset"}, worldNames)...); other != "" {
		return usage(fmt.Errorf("--at-clients uses the configuration of %s; do not combine it with --%s", o.after, other))
	}
	if !rundir.Exists(o.after) {
		return usage(fmt.Errorf("%s holds no run: there is no %s", o.after, rundir.Config))
	}
	if !rundir.Has(o.after, rundir.Small) {
		return usage(fmt.Errorf("%s has no small model: popri eval --run %[1]s trains it", o.after))
	}
	further := methods.Further(o.after)
	if slices.Contains(o.flags.set, "trainer.rounds=auto") {
		further = slices.DeleteFunc(further, func(s string) bool { return strings.HasPrefix(s, "trainer.patience=") })
	}
	o.flags.file, o.flags.set = filepath.Join(o.after, rundir.Config), append(further, o.flags.set...)
	return nil
}

// runRounds runs the rounds of a method and writes the report.
func (a *app) runRounds(cmd *cobra.Command, o runOptions) (err error) {
	var c configs.Config
	ownRun(&o, cmd)
	if o.resume {
		if other := changed(cmd, slices.Concat([]string{"config", "preset", "set", "at-clients"}, worldNames)...); other != "" {
			return usage(fmt.Errorf("--resume uses the run's own configuration; do not combine it with --%s", other))
		}
	} else {
		if err := o.follow(cmd); err != nil {
			return err
		}
		if c, err = o.flags.load(); err != nil {
			return err
		}
	}
	c.Model.Threads = cmp.Or(a.threads, c.Model.Threads)
	if o.accept && !o.resume {
		return usage(errors.New("--accept-changes needs --resume"))
	}
	if o.dry && o.resume {
		return usage(errors.New("--resume follows the plan that the run has; do not combine it with --dry-run"))
	}
	if !o.dry {
		if err := checkFolder(o.out); err != nil {
			return err
		}
	}
	if !o.resume {
		if o.after == "" { // an earlier run's public text and models were answered for
			if err := o.own.check(cmd, c); err != nil {
				return err
			}
		}
		if o.dry {
			return a.dryRun(c, o.out, false)
		}
		if c, err = a.prepared(cmd, c); err != nil {
			return err
		}
	}
	if c.Eval.ReferencePrivate && c.Data.Private != configs.Default().Data.Private {
		a.warn("eval.reference_private is true: popri eval trains a small model on the train clients' texts " +
			"themselves. " + guarantee.Reference)
	}
	stop, err := a.watchRun(cmd, o.live, o.out)
	if err != nil {
		return err
	}
	defer func() { stop(err) }()
	to, err := o.behind.connect()
	if err != nil {
		return err
	}
	return a.finish(cmd, "popri run --resume --out "+quote.Shell(o.out), run.Options{Config: c, Aggregators: to,
		Announced: func(text string) { a.say("%s", text) }, Dir: o.out, Resume: o.resume, AcceptChanges: o.accept,
		Trackers: o.track.names})
}
