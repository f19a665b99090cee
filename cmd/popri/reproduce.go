package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"popri/configs"
	"popri/run/reporting"
	"popri/study"
	"popri/study/cost"
	"popri/study/grid"
	"popri/study/reproduction"
)

// reproduceOptions are the flags of the verb reproduce.
type reproduceOptions struct {
	ablateFlags
	scale string
}

func (a *app) reproduce() *cobra.Command {
	var o reproduceOptions
	cmd := &cobra.Command{
		Use:   "reproduce [NAME] [--scale demo|small|paper] [--plan] [--seeds N] [--out DIR]",
		Short: "Run a table or figure of the POPri paper",
		Long: `Runs the grid behind a table or a figure of the POPri paper, as "popri ablate" does, with all its conveniences: repeat the
command to go on, add --seeds, or do the runs on a cluster with --on. Without a name, it lists what there is.

--scale demo, the default, takes the embedded text and models, and minutes for each run on two processors. --scale small takes
SmolLM2 and MiniLM on the speeches that come with popri, and about ten minutes for each run. --scale paper takes the paper's
settings; name your own data.private, data.public, model.path, scoring.encoder and downstream.model with --set.
--plan prints the runs, their work, time, memory and privacy budget, and ends. The time is an estimate from the number of
floating-point operations. docs/reproduction.md has what was found.`,
		Example: "  popri reproduce\n  popri reproduce table4-rank --seeds 3\n  popri reproduce figure6\n" +
			"  popri reproduce scaling --scale small\n" +
			"  popri reproduce table1-congress --scale paper --set data.private=c.parquet --set data.public=c4.parquet " +
			"--set model.path=llama --set scoring.encoder=./minilm --set downstream.model=distilgpt2 --plan",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listReproductions()
			}
			return a.runReproduce(cmd, args[0], o)
		},
	}
	o.addRuns(cmd)
	out := cmd.Flags().Lookup("out")
	out.DefValue, out.Usage = filepath.Join("runs", "paper", "NAME"), "folder of the grid; each run is a folder in it"
	cmd.Flags().StringVar(&o.scale, "scale", reproduction.Scales[0], "size of the runs: "+joined(reproduction.Scales))
	return cmd
}

// runReproduce runs the grid behind a table or a figure.
func (a *app) runReproduce(cmd *cobra.Command, name string, o reproduceOptions) error {
	e, err := reproduction.Find(name)
	if err != nil {
		return usage(err)
	}
	if e.Command != "" {
		return a.reproduceElsewhere(cmd, e, o.plan)
	}
	g, err := e.Grid(o.scale)
	if err != nil {
		return usage(fmt.Errorf("--scale: %w", err))
	}
	o.preset = cmp.Or(o.preset, g.Preset)
	o.data.name = g.World
	o.set = append(g.Set, o.set...)
	o.over, o.instead, o.costs, o.curves = g.Over, g.Instead, e.Costs, e.Curves
	o.title = strings.ToUpper(e.Title[:1]) + e.Title[1:]
	if !cmd.Flags().Changed("out") {
		o.out = filepath.Join("runs", "paper", cmp.Or(g.Runs, e.Name))
		if o.scale != reproduction.Scales[0] {
			o.out += "-" + o.scale
		}
	}
	if err := o.check(cmd); err != nil {
		return usage(err)
	}
	a.say("%s: %s. %s", e.Of, e.Title, e.Paper)
	if e.Note != "" {
		a.say("%s", e.Note)
	}
	return a.ablateAll(cmd, o.ablateFlags)
}

// roughly is a time with two digits or so.
func roughly(seconds float64) string {
	switch {
	case seconds < 90:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 90*60:
		return fmt.Sprintf("%.0f min", seconds/60)
	case seconds < 48*3600:
		return fmt.Sprintf("%.0f h", seconds/3600)
	}
	return fmt.Sprintf("%.0f days", seconds/86400)
}

func (a *app) listReproductions() error {
	list := reproduction.All()
	return a.emit(list, func(w io.Writer) {
		for _, e := range list {
			fmt.Fprintf(w, "%s\t%s\t%s\n", e.Name, e.Of, e.Title)
		}
	})
}

// reproduceElsewhere does the work of an experiment that another verb computes.
func (a *app) reproduceElsewhere(cmd *cobra.Command, e reproduction.Experiment, plan bool) error {
	a.say("%s: %s. %s", e.Of, e.Title, e.Paper)
	a.say("%s", e.Command)
	if plan { // there is no run
		return nil
	}
	root := cmd.Root()
	words := strings.Fields(e.Command)[1:]
	for _, flag := range []string{"json", "quiet"} {
		if f := root.PersistentFlags().Lookup(flag); f != nil && f.Changed {
			words = append(words, "--"+flag)
		}
	}
	root.SetArgs(words)
	return root.ExecuteContext(cmd.Context())
}

// printCosts prints what the training of each run cost a client and the server.
func printCosts(w io.Writer, costs []reporting.Cost) {
	if len(costs) == 0 {
		return
	}
	fmt.Fprintln(w, "\nin all rounds\trounds\ta client receives\tsends\tcomputes\tthe server computes")
	for _, c := range costs {
		client, server := "–", "–"
		if c.Client > 0 {
			client = fmt.Sprintf("%.2g ms", 1000*c.Client)
		}
		if c.Server > 0 {
			server = roughly(c.Server)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", c.Name, c.Rounds, humanize.IBytes(uint64(c.Received)),
			humanize.IBytes(uint64(c.Sent)), client, server)
	}
}

// printCurves prints figures by round, the means over the seeds.
func printCurves(w io.Writer, curves []study.Curve) {
	if len(curves) == 0 {
		return
	}
	fmt.Fprintln(w, "\nby round:")
	for _, c := range curves {
		fmt.Fprintf(w, "%s\t%s", strings.Join(c.Values, " "), c.Key)
		for _, v := range c.Rounds {
			fmt.Fprintf(w, "\t%.3f", v)
		}
		fmt.Fprintln(w)
	}
}

// planAblation prints what an ablation would do.
func (a *app) planAblation(flags ablateFlags, base configs.Config, cells []grid.Cell) error {
	composed, _, failed := cost.Epsilon(cells, flags.order(), flags.shares())
	counts, err := cost.CountsOf(base)
	if err = cmp.Or(failed, err); err != nil {
		return err
	}
	var plan []cost.Work
	for _, c := range cells {
		w, err := cost.Estimate(c, counts)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		if w.Done, err = study.Finished(c, flags.out); err != nil {
			return err
		}
		plan = append(plan, w)
	}
	rate, seconds, err := speed(base)
	if err == nil && flags.out != "" {
		err = a.sayEarlier(flags.out, cells)
	}
	if err != nil {
		return err
	}
	total := 0.0
	for _, p := range plan {
		if !p.Done {
			total += seconds(p.Flops)
		}
	}
	return a.emit(map[string]any{"runs": plan, "composed": composed, "flops_per_second": rate, "seconds": total},
		func(w io.Writer) {
			fmt.Fprintln(w, "run\tsamples\tpairs\tproduct texts\tsmall models\tPFLOP\ttime, about\tGiB\tdone")
			for _, p := range plan {
				done := ""
				if p.Done {
					done = "yes"
				}
				fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%.2g\t%s\t%.1f\t%s\n", p.Name, p.Samples, p.Pairs, p.Product,
					p.SmallModels, p.Flops/1e15, roughly(seconds(p.Flops)), float64(p.Memory)/(1<<30), done)
			}
			fmt.Fprintf(w,
				"\nIn all about %s for what is not done, on this machine (%.0f GFLOP/s in large matrix products).\n",
				roughly(total), rate/1e9)
			printComposed(w, composed)
		})
}
