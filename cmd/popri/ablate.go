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

	"github.com/spf13/cobra"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/configs"
	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/internal/rundir"
	"popri/run/reporting"
	"popri/study"
	"popri/study/cost"
	"popri/study/grid"
)

// ablateFlags are the flags of the verb ablate.
type ablateFlags struct {
	configFlags
	over    []string
	instead []string
	seeds   int
	out     string
	resume  bool
	cell    string
	jobs    jobFlags
	own     ownFlag
	track   trackFlag
	askEach bool
	plan    bool
	title   string // of the page; "" for what is varied

	adaptive bool
	halving  cost.Halving
	costs    bool     // print what the runs cost clients and server
	curves   []string // figures of each round to print
}

// shares says that runs which ask the clients the same read one release. Jobs do not wait for each other.
func (f *ablateFlags) shares() bool { return !f.askEach && f.jobs.on == "" }

// order is the adaptive order, nil for the plain one.
func (f *ablateFlags) order() *cost.Halving {
	if !f.adaptive {
		return nil
	}
	return &f.halving
}

func (a *app) ablate() *cobra.Command {
	var flags ablateFlags
	cmd := &cobra.Command{
		Use: "ablate --over KEY=V1,V2,… [--over …] | --instead KEY=VALUE [--instead …] [--seeds N] [--adaptive] " +
			"[--out DIR] [--on slurm|ray|kubernetes]",
		Short: "Compare settings over a grid of runs",
		Long: `Does a run for every combination of values (--over), or of the configuration as it is and of each change alone
(--instead), and for every seed. Trains the small model on each run's text, and prints means and standard deviations over
the seeds. The folder also gets ablation.json and report.html, a page that shows any figure over any one or two of the keys.
All configurations are checked before the first run starts. --plan prints the runs, their work, time, memory and privacy budget,
and ends.

--world, or --private and --public, name the clients and the public text, --model and --encoder the generator and the
encoder, as for "popri demo"; --config names them itself.

Repeating the command resumes an interrupted ablation or extends a finished one; finished runs are read back. Runs of one seed
that ask the clients once (scoring.release "once"), and the same, read one release, which counts once; --ask-each lets each ask.
What all runs spend together is printed before the first one starts.

--adaptive drops bad settings early (successive halving, Jamieson and Talwalkar 2016): all settings run for a part of
their rounds, and the best 1/--eta of them continue to --eta times as many rounds, and so forth. The small model
judges: it is trained on the text that the newest adapters write, and measured on the validation clients.
Every setting must have as many rounds. Settings with equal results are not dropped by chance: if all are equal, the
command ends and says what helps.

The noise of a release is planned for the whole run, so a dropped run has spent less than its budget; its releases count.

--on does the runs as jobs of a cluster whose machines share the folder: an array of Slurm, a job of Ray for each run, or
an Indexed Job of Kubernetes. The command follows them until all are done, submits lost ones again, and gathers the results as
without --on. Ctrl-C leaves the jobs alone, and --resume follows them again. --job fills in the engine's template;
--print-template prints it, for --template to read an edited one. docs/jobs.md has more.

` + trackHelp + `
Each run of the grid is a run there. Jobs (--on) take the servers' addresses from the environment of their own machines.`,
		Example: "  popri ablate --preset demo --over dpo.rejected_rank=2,5,8,10 --seeds 3 --out runs/rank\n" +
			"  popri ablate --over dpo.beta=0.05,0.1 --over trainer.rounds=2,3 --out runs/grid --json\n" +
			"  popri ablate --over generate.temperature+synthetic.temperature=0.6..1.2:0.2 --out runs/temperature\n" +
			"  popri ablate --preset demo --instead generate.quote=public --instead dpo.sft_weight=1 --out " +
			"runs/without\n  popri ablate --world speeches --model smollm2 --encoder minilm --over dpo.rejected_rank=5,10 " +
			"--plan\n  popri ablate --private clients.parquet --public public.jsonl --over dpo.rejected_rank=5,10 " +
			"--plan\n  popri ablate --preset demo-rounds --over dpo.beta=0.025..0.4:0.025 --adaptive --out " +
			"runs/beta\n  popri ablate --over dpo.beta=0.05,0.1 --seeds 3 --out runs/beta --on slurm --job " +
			"partition=cpu --job time=4:00:00\n  popri ablate --over dpo.beta=0.05,0.1 --seeds 3 --out runs/beta " +
			"--on kubernetes --dry-run\n  popri ablate --resume --out runs/beta",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(cmd); err != nil {
				return usage(err)
			}
			if flags.cell != "" {
				return a.ablateCell(cmd, flags)
			}
			if flags.jobs.printTemplate {
				return a.printTemplate(flags.jobs)
			}
			return a.ablateAll(cmd, flags)
		},
	}
	flags.addRuns(cmd)
	flags.data.add(cmd)
	flags.data.addModels(cmd)
	cmd.Flags().StringArrayVar(&flags.over, "over", nil, "a key and its values, which may be ranges: "+
		"dpo.rejected_rank=2..10:2; keys with '+' between them take each value together; may be repeated for a grid")
	cmd.Flags().StringArrayVar(&flags.instead, "instead", nil,
		"keys and values of one row: 'dpo.loss=ipo dpo.beta=0.01'; repeated, each row has one of the changes")
	cmd.Flags().BoolVar(&flags.adaptive, "adaptive", false,
		"drop the settings that do worst on the validation clients early")
	cmd.Flags().IntVar(&flags.halving.Eta, "eta", 3,
		"with --adaptive: one of ETA settings continues, to ETA times the rounds")
	cmd.Flags().IntVar(&flags.halving.MinRounds, "min-rounds", 1,
		"with --adaptive: the least number of rounds before a setting is dropped")
	cmd.Flags().BoolVar(&flags.resume, "resume", false, "go on with the ablation that --on planned in --out")
	cmd.Flags().StringVar(&flags.cell, "cell", "",
		"do one planned run of the ablation in --out, by its number; of a list, the one that $"+indexVariable+" counts")
	return cmd
}

// addRuns adds what says how the runs of a grid are done, whatever it varies.
func (f *ablateFlags) addRuns(cmd *cobra.Command) {
	f.addGrid(cmd, "ablation")
	f.jobs.add(cmd)
	f.own.add(cmd)
}

// addGrid adds the flags of a grid that is done here; runs is the default's folder within the folder of all runs.
func (f *ablateFlags) addGrid(cmd *cobra.Command, runs string) {
	f.add(cmd)
	cmd.Flags().IntVar(&f.seeds, "seeds", 1, "runs of each combination, with successive seeds")
	cmd.Flags().StringVar(&f.out, "out", filepath.Join("runs", runs), "folder of the grid; each run is a folder in it")
	cmd.Flags().BoolVar(&f.askEach, "ask-each", false,
		"each run asks the clients itself and spends for it, also where another run's release would serve")
	cmd.Flags().BoolVar(&f.plan, "plan", false, "print the runs, their work, time, memory and privacy budget, and end")
	f.track.add(cmd)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if f.cell != "" { // what the machine of a job lacks must not end its run
			return nil
		}
		return f.track.check()
	}
}

// ablateAll does the whole ablation, here or on a cluster.
func (a *app) ablateAll(cmd *cobra.Command, flags ablateFlags) error {
	if err := checkFolder(flags.out); err != nil {
		return err
	}
	base, varied, err := a.varied(cmd, &flags)
	if err != nil {
		return err
	}
	if !flags.resume {
		if err = evaluable(base); err == nil && !flags.plan {
			base, err = a.prepared(cmd, base)
		}
		if err != nil {
			return err
		}
	}
	axes, cells, err := varied.Cells(base)
	if err != nil {
		return err
	}
	if flags.plan {
		return a.planAblation(flags, base, cells)
	}
	composed, err := a.cost(flags, cells)
	if err != nil {
		return err
	}
	options := a.ablateOptions(flags.out, flags.track)
	if flags.jobs.on != "" {
		var finished bool
		options.Elsewhere, finished, err = a.ablateOn(cmd, flags, base, varied, cells, composed)
		if err != nil || !finished {
			return err
		}
	}
	options.Halving, options.AskEach, options.Title = flags.order(), !flags.shares(), flags.title
	return a.ablateCells(cmd, flags, axes, cells, options)
}

// ablateCells does the runs of a grid here, and shows the results.
func (a *app) ablateCells(cmd *cobra.Command, flags ablateFlags, axes []grid.Axis, cells []grid.Cell,
	options study.Options) error {
	options.Command = cmp.Or(options.Command, quote.Shell(typed(cmd)...))
	result, err := study.Ablate(cmd.Context(), axes, cells, options)
	if errors.Is(err, context.Canceled) {
		a.say("interrupted; the same command continues")
	}
	if err != nil {
		return err
	}
	page, err := filepath.Abs(filepath.Join(flags.out, rundir.Report))
	if err != nil {
		return err
	}
	var costs []reporting.Cost
	if flags.costs {
		if costs, err = result.Costs(); err != nil {
			return err
		}
	}
	curves, err := result.Curves(flags.curves)
	if err != nil {
		return err
	}
	if err := a.showAblation(result, costs, curves, page); err != nil {
		return err
	}
	if n := len(result.Failed); n > 0 {
		return fmt.Errorf("%d of %d runs failed (above); the same command tries them again", n, len(cells))
	}
	return nil
}

func (a *app) showAblation(result *study.Ablation, costs []reporting.Cost, curves []study.Curve, page string) error {
	return a.emit(struct {
		*study.Ablation
		Costs  []reporting.Cost `json:"costs,omitempty"`
		Curves []study.Curve    `json:"curves,omitempty"`
		Report string           `json:"report"`
	}{result, costs, curves, page}, func(w io.Writer) {
		ablationTable(w, result)
		if h := result.Adaptive; h != nil {
			printRungs(w, h)
		}
		printCosts(w, costs)
		printCurves(w, curves)
		fmt.Fprintln(w)
		printComposed(w, result.Composed)
		fmt.Fprintf(w, "\nreport:  %s\n", page)
	})
}

// printRungs says which settings an adaptive order dropped.
func printRungs(w io.Writer, h *study.Halved) {
	for _, rung := range h.Rungs {
		fmt.Fprintf(w, "\nrounds: %d; accuracy on the validation clients:\n", rung.Rounds)
		for _, s := range rung.Settings {
			outcome := map[bool]string{true: "went on", false: "dropped"}[s.WentOn]
			fmt.Fprintf(w, "  %s  %s %%  %s\n", outcome, spread(&s.Accuracy, 100, 2), strings.Join(s.Values, ", "))
		}
	}
}

// varied reads what is varied, from the flags or from the plan that --resume continues with. It trains nothing.
func (a *app) varied(cmd *cobra.Command, flags *ablateFlags) (base configs.Config, v grid.Varied, err error) {
	if flags.resume {
		return a.resumed(flags)
	}
	if base, err = flags.load(); err != nil {
		return base, v, err
	}
	base.Model.Threads, base.Model.Device = cmp.Or(a.threads, base.Model.Threads), cmp.Or(a.device, base.Model.Device)
	if v, err = grid.Parse(flags.over, flags.instead, flags.seeds); err != nil {
		return base, v, err
	}
	if err = flags.own.checkCells(cmd, flags.out, base, v); err != nil {
		return base, v, err
	}
	return base, v, nil
}

// cost prints what all cells together will spend, unless all are done. It checks their folders and budgets.
func (a *app) cost(flags ablateFlags, cells []grid.Cell) ([]ledger.Composed, error) {
	h := flags.order()
	if err := study.Unused(flags.out, cells); err != nil {
		return nil, err
	}
	done, err := numeric.TryMap(cells, func(c grid.Cell) (bool, error) { return study.Finished(c, flags.out) })
	if err != nil || !slices.Contains(done, false) {
		return nil, err
	}
	composed, fixed, err := cost.Epsilon(cells, h, flags.shares())
	if err != nil {
		return nil, err
	}
	if flags.shares() && slices.ContainsFunc(cells, func(c grid.Cell) bool { return cost.Question(c) != "" }) {
		a.say("Runs of one seed that ask the clients once, and the same, read one release, which counts once.")
	}
	a.say("Each run has a budget of its own. Publishing all of them, or choosing among them by their results, " +
		"spends what they spend together. As planned:")
	if h != nil && !fixed {
		a.say("(Settings spend differently, so the total depends on which of them continue. This is the bound of all to " +
			"their end.)")
	}
	for _, c := range composed {
		a.say("%s.", c.Words("runs"))
	}
	return composed, a.sayEarlier(flags.out, cells)
}

// sayEarlier names the runs in an ablation's folder that are none of its own.
func (a *app) sayEarlier(dir string, cells []grid.Cell) error {
	earlier, err := study.Earlier(dir, cells)
	if err == nil && earlier > 0 {
		a.say("%s holds %s of earlier grids, which count as well: the result states what all of them spent together.",
			dir, quote.Count(earlier, "run", ""))
	}
	return err
}

// doneBefore says behind a run's name that it is only read.
var doneBefore = map[bool]string{true: " (done before)"}

func (a *app) ablateOptions(dir string, track trackFlag) study.Options {
	return study.Options{Dir: dir, Listen: a.events, Trackers: track.names, Warn: a.warn,
		Say: func(text string) { a.say("%s", text) },
		Begin: func(i, n int, c grid.Cell, done bool) {
			a.say("run %d of %d: %s%s", i+1, n, c.Name, doneBefore[done])
		},
		Failed:   func(err error) { a.say("failed: %v", err) },
		Progress: a.evalProgress}
}

// ablationTable prints a row for each combination of values; the base configuration's is marked.
func ablationTable(w io.Writer, r *study.Ablation) {
	second := "perplexity"
	if len(r.Rows) > 0 && r.Rows[0].MacroF1 != nil {
		second = "macro F1 %"
	}
	fmt.Fprintln(w, r.Keys("\t")+"\taccuracy %\t"+second+"\tgap closed %\tε = 0 %\tε = ∞ %\tε spent\tseeds\t")
	for _, row := range r.Rows {
		figure, mark := spread(row.Perplexity, 1, 1), ""
		if row.MacroF1 != nil {
			figure = spread(row.MacroF1, 100, 2)
		}
		if row.Base {
			mark = "configured"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", strings.Join(row.Values, "\t"),
			spread(&row.Accuracy, 100, 2), figure, spread(row.GapClosed, 100, 1), spread(&row.Public, 100, 2),
			spread(row.Private, 100, 2), accountant.RoundUp(row.Epsilon.Mean, 4), len(row.Accuracy.Values), mark)
	}
}

// spread is a mean and its standard deviation, if there are seeds for one; "–" for nil.
func spread(s *study.Summary, scale float64, decimals int) string {
	switch {
	case s == nil:
		return "–"
	case s.SD == nil:
		return fmt.Sprintf("%.*f", decimals, scale*s.Mean)
	}
	return fmt.Sprintf("%.*f ± %.*f", decimals, scale*s.Mean, decimals, scale**s.SD)
}
