package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"popri/accountant"
	"popri/configs"
	"popri/experiment"
	"popri/internal/fault"
)

func (a *app) ablate() *cobra.Command {
	var flags configFlags
	var over, instead []string
	var seeds int
	var out string
	cmd := &cobra.Command{
		Use:   "ablate --over KEY=V1,V2,… [--over …] | --instead KEY=VALUE [--instead …] [--seeds N] [--out DIR]",
		Short: "Compare settings over a grid of runs",
		Long: `Does a run for every combination of values (--over), or of the configuration as it is and of each change alone
(--instead), and for every seed. Trains the small model on each run's text, and prints means and standard deviations over
the seeds. The folder also gets a page with the plot, and ablation.json. All configurations
are checked before the first run starts.

Repeating the command resumes an interrupted ablation or extends a finished one; finished runs are read back. Every run
spends its own privacy budget on the same clients.`,
		Example: "  popri ablate --preset demo --over dpo.rejected_rank=2,5,8,10 --seeds 3 --out runs/rank\n" +
			"  popri ablate --over dpo.beta=0.05,0.1 --over trainer.rounds=2,3 --out runs/grid --json\n" +
			"  popri ablate --preset demo --instead generate.quote=public --instead 'dpo.loss=ipo dpo.beta=0.01' --out runs/without",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			base, err := flags.load()
			if err != nil {
				return err
			}
			if a.threads > 0 {
				base.Model.Threads = a.threads
			}
			base.Model.Device = cmp.Or(a.device, base.Model.Device)
			if base, err = a.prepared(cmd, base); err != nil {
				return fmt.Errorf("ablate: %w", err)
			}
			axes, cells, err := planned(base, over, instead, seeds)
			if err != nil {
				return err
			}
			result, err := experiment.Ablate(cmd.Context(), axes, cells,
				experiment.AblateOptions{Dir: out, Listen: a.events,
					Begin: func(i, n int, c experiment.Cell, done bool) {
						state := ""
						if done {
							state = " (done before)"
						}
						a.say("run %d of %d: %s%s", i+1, n, c.Name, state)
					},
					Progress: func(c experiment.Cell) experiment.EvalProgress {
						return a.evalProgress(c.Config.Downstream.Steps)
					}})
			if errors.Is(err, context.Canceled) {
				a.say("interrupted; the same command goes on")
			}
			if err != nil {
				return err
			}
			page, err := filepath.Abs(filepath.Join(out, experiment.ReportFile))
			if err != nil {
				return err
			}
			if a.json {
				return a.emit(struct {
					*experiment.Ablation
					Report string `json:"report"`
				}{result, page}, nil)
			}
			if err := ablationTable(a.out, result); err != nil {
				return err
			}
			fmt.Fprintln(a.out)
			printComposed(a.out, result.Composed)
			fmt.Fprintf(a.out, "\nreport:  %s\n", page)
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().StringArrayVar(&over, "over", nil,
		"a key and its values: dpo.rejected_rank=2,5,8; may be repeated for a grid")
	cmd.Flags().StringArrayVar(&instead, "instead", nil,
		"keys and values of one row: 'dpo.loss=ipo dpo.beta=0.01'; repeated, each row has one of the changes")
	cmd.Flags().IntVar(&seeds, "seeds", 1, "runs of each combination, with successive seeds")
	cmd.Flags().StringVar(&out, "out", filepath.Join("runs", "ablation"),
		"folder of the ablation; each run is a folder in it")
	return cmd
}

// planned are the axes and the runs of an ablation's flags.
func planned(base configs.Config, over, instead []string, seeds int) ([]experiment.Axis, []experiment.Cell, error) {
	if len(instead) > 0 {
		if len(over) > 0 {
			return nil, nil, fault.Userf("ablate: --over and --instead: one ablation takes one of them")
		}
		var changes []experiment.Change
		for _, text := range instead {
			c, err := experiment.ParseChange(text)
			if err != nil {
				return nil, nil, err
			}
			changes = append(changes, c)
		}
		return experiment.OneAtATime(base, changes, seeds)
	}
	var axes []experiment.Axis
	for _, text := range over {
		axis, err := experiment.ParseAxis(text)
		if err != nil {
			return nil, nil, err
		}
		axes = append(axes, axis)
	}
	cells, err := experiment.Grid(base, axes, seeds)
	return axes, cells, err
}

// ablationTable prints a row for each combination of values; the base configuration's is marked.
func ablationTable(w io.Writer, r *experiment.Ablation) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	var keys []string
	for _, x := range r.Axes {
		keys = append(keys, x.Key)
	}
	fmt.Fprintln(t, strings.Join(keys, "\t")+"\taccuracy %\tperplexity\tgap closed %\tε = 0 %\tε = ∞ %\tε spent\tseeds\t")
	for _, row := range r.Rows {
		gap, private, mark := "–", "–", ""
		if row.Private != nil {
			private = spread(*row.Private, 100, 2)
		}
		if row.GapClosed != nil {
			gap = spread(*row.GapClosed, 100, 1)
		}
		if row.Base {
			mark = "configured"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", strings.Join(row.Values, "\t"),
			spread(row.Accuracy, 100, 2), spread(row.Perplexity, 1, 1), gap,
			spread(row.Public, 100, 2), private, accountant.RoundUp(row.Epsilon.Mean, 4), len(row.Accuracy.Values), mark)
	}
	return t.Flush()
}

func spread(s experiment.Summary, scale float64, decimals int) string {
	if s.SD == nil {
		return fmt.Sprintf("%.*f", decimals, scale*s.Mean)
	}
	return fmt.Sprintf("%.*f ± %.*f", decimals, scale*s.Mean, decimals, scale**s.SD)
}
