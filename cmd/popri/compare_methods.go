package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"popri/configs"
	"popri/configs/worlds"
	"popri/internal/modelcache"
	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/run/auditing"
	"popri/study"
	"popri/study/grid"
	"popri/study/reproduction"
)

// compareOptions are the flags of the verb compareMethods.
type compareOptions struct {
	flags            ablateFlags
	epsilon, methods []string
}

func (a *app) compareMethods() *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:   "compare-methods [--world NAME] [--epsilon 1,7] [--seeds N] [--methods A,B] [--out DIR]",
		Short: "Compare POPri and its rivals on the same clients at the same ε",
		Long: `Runs each method for each ε and each seed, on the same clients, and prints one table. It has the small
model's figures on the method's text (or of the model that the method trained), the bytes that a client sends, and the
time. The ledgers and releases of all runs are audited. report.html has the table, and a picture of the gap closed
against the bytes that a client sends.

The world godoc takes the embedded text and models, in minutes for each run; any other takes SmolLM2 and MiniLM, in ten
minutes or more for each, and SmolLM2 as the small model unless --small names one. study/reproduction/methods.yaml has
each method's settings. Every text method writes as many rows, without public ones. A second call starts no finished run
again, and --seeds adds seeds. What --set says holds for every method that does not set it itself; --config takes a
configuration in place of the world's.`,
		Example: "  popri compare-methods --world godoc --epsilon 1,7 --seeds 3\n" +
			"  popri compare-methods --world speeches --epsilon 7 --methods " + strings.Join(configs.Choices("method")[:2], ","),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runCompareMethods(cmd, o) },
	}
	o.flags.addGrid(cmd, "methods")
	o.flags.data.add(cmd)
	smallFlag(cmd, &o.flags.data.small)
	cmd.Flags().StringSliceVar(&o.epsilon, "epsilon", []string{"1", "7"}, "privacy budgets")
	cmd.Flags().StringSliceVar(&o.methods, "methods", nil, "methods to compare: "+strings.Join(reproduction.MethodNames(), ", ")+
		" (default: all)")
	return cmd
}

// runCompareMethods compares methods on the same clients.
func (a *app) runCompareMethods(cmd *cobra.Command, o compareOptions) error {
	scale := reproduction.Small
	if o.flags.data.name == worlds.Default && o.flags.data.private == "" && o.flags.file == "" {
		scale = reproduction.Demo
	}
	if base := reproduction.MethodBase(scale); o.flags.file == "" {
		o.flags.preset, o.flags.set = cmp.Or(o.flags.preset, base.Preset), slices.Concat(base.Set, o.flags.set)
		if scale == reproduction.Small {
			o.flags.data.small = cmp.Or(o.flags.data.small, modelcache.SmolLM2)
		}
	}
	if err := checkFolder(o.flags.out); err != nil {
		return err
	}
	config, err := o.flags.load()
	if err != nil {
		return err
	}
	rows, err := reproduction.MethodRows(scale, o.methods, config.Generate.ByLabel)
	if err != nil {
		return usage(err)
	}
	config.Model.Threads = cmp.Or(a.threads, config.Model.Threads)
	if !o.flags.plan {
		if config, err = a.prepared(cmd, config); err != nil {
			return err
		}
	}
	axes, cells, err := grid.Named(config, "method", rows, grid.Axis{Key: "privacy.epsilon", Values: o.epsilon},
		o.flags.seeds)
	if err != nil {
		return err
	}
	if o.flags.plan {
		return a.planAblation(o.flags, config, cells)
	}
	if _, err := a.cost(o.flags, cells); err != nil {
		return err
	}
	options := a.ablateOptions(o.flags.out, o.flags.track)
	on := cmp.Or(o.flags.data.private, o.flags.data.name)
	if o.flags.file != "" {
		on = config.Data.Private
	}
	options.Title = "Methods on " + filepath.Base(on)
	options.Notes, options.AskEach, o.flags.costs = a.auditedAll, o.flags.askEach, true
	return a.ablateCells(cmd, o.flags, axes, cells, options)
}

// auditedAll audits the runs of a comparison, and says what was found.
func (a *app) auditedAll(r *study.Ablation) ([]string, error) {
	runs := slices.Concat(numeric.Map(r.Rows, func(row study.Row) []string { return row.Runs })...)
	result, err := auditing.Runs(runs, auditing.Options{})
	if err != nil {
		return nil, err
	}
	if err := result.Verdict(); err != nil && !errors.Is(err, auditing.ErrUnmeasured) {
		return nil, err
	}
	text := fmt.Sprintf("Audited: the ledgers and releases of %s agree, and the noise in them is that which was "+
		"charged, where it can be measured.", quote.Count(len(runs), "run", ""))
	a.say("%s", text)
	return []string{text}, nil
}
