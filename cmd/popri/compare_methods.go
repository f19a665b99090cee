package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"popri/configs/worlds"
	"popri/internal/plural"
	"popri/run/auditing"
	"popri/study"
	"popri/study/comparison"
	"popri/study/grid"
)

func (a *app) compareMethods() *cobra.Command {
	var flags ablateFlags
	var epsilon, methods []string
	cmd := &cobra.Command{
		Use:   "compare-methods [--world NAME] [--epsilon 1,7] [--seeds N] [--methods A,B] [--out DIR]",
		Short: "Compare POPri and its rivals on the same clients at the same ε",
		Long: `Does a run of each method for each ε and each seed, on the same clients, and prints one table: what the small model learns from a
method's text (or what the method made of the small model itself), what a client sends, and how long it takes. The ledgers and
releases of all runs are audited. report.html has the table, and a picture of the gap closed against the bytes that a client sends.

The world godoc takes the embedded text and models, in minutes for each run; any other takes SmolLM2 and MiniLM, in ten minutes or
more for each. study/comparison/methods.yaml has each method's settings. Every text method writes as many rows, without
public ones. A second call starts no finished run again, and --seeds adds seeds. What --set says holds for every
method that does not set it itself; --config takes a configuration in place of the world's.`,
		Example: "  popri compare-methods --world godoc --epsilon 1,7 --seeds 3\n" +
			"  popri compare-methods --world speeches --epsilon 7 --methods popri,private_evolution",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fail := func(err error) error {
				if err != nil {
					err = fmt.Errorf("compare-methods: %w", err)
				}
				return err
			}
			asked := typed(cmd)
			scale := comparison.Small
			if flags.data.name == worlds.Default && flags.data.private == "" {
				scale = comparison.Demo
			}
			if base := comparison.BaseOf(scale); flags.file == "" {
				flags.preset, flags.set = cmp.Or(flags.preset,
					base.Preset), append(base.Set[:len(base.Set):len(base.Set)], flags.set...)
			}
			if err := flags.track.check(); err != nil {
				return fail(err)
			}
			if err := checkFolder(cmd.Name(), flags.out); err != nil {
				return err
			}
			config, err := flags.load()
			if err != nil {
				return fail(err)
			}
			rows, err := comparison.Rows(scale, methods, config.Generate.ByLabel)
			if err != nil {
				return fail(usage(err))
			}
			config.Model.Threads = cmp.Or(a.threads, config.Model.Threads)
			if !flags.plan {
				if config, err = a.prepared(cmd, config); err != nil {
					return fail(err)
				}
			}
			axes, cells, err := grid.Named(config, "method", rows, grid.Axis{Key: "privacy.epsilon", Values: epsilon},
				flags.seeds)
			if err != nil {
				return fail(err)
			}
			if flags.plan {
				return fail(a.planAblation(flags, config, cells))
			}
			if _, err := a.cost(flags, cells); err != nil {
				return err
			}
			options := a.ablateOptions(flags.out, flags.track)
			options.Title = "Methods on " + flags.data.name
			if flags.data.private != "" {
				options.Title = "Methods on " + filepath.Base(flags.data.private)
			}
			options.Command, options.Price, options.Notes = asked, true, a.auditedAll
			options.AskEach = flags.askEach
			flags.costs = true
			return a.ablateCells(cmd, flags, axes, cells, options)
		},
	}
	flags.addGrid(cmd, "methods")
	flags.data.add(cmd)
	cmd.Flags().StringSliceVar(&epsilon, "epsilon", []string{"1", "7"}, "privacy budgets")
	cmd.Flags().StringSliceVar(&methods, "methods", nil, "methods to compare: "+strings.Join(comparison.Names(), ", ")+
		" (default: all)")
	return cmd
}

// auditedAll audits the runs of a comparison, and says what was found.
func (a *app) auditedAll(r *study.Ablation) ([]string, error) {
	var runs []string
	for _, row := range r.Rows {
		runs = append(runs, row.Runs...)
	}
	result, err := auditing.Runs(runs, auditing.Options{})
	if err != nil {
		return nil, err
	}
	if err := result.Verdict(); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("Audited: the ledgers and releases of %s agree, and the noise in them is that which was "+
		"charged, where it can be measured.", plural.Of(len(runs), "run", ""))
	a.say("%s", text)
	return []string{text}, nil
}
