package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"popri/eval/benchmark"
	"popri/run/assembly"
)

func (a *app) benchEnsemble() *cobra.Command {
	var o benchmark.EnsembleOptions
	var dtype string
	cmd := &cobra.Command{
		Use:   "ensemble",
		Short: "Compare coordinated and independent votes of teachers (Hot PATE)",
		Long: `Lets teachers vote for tokens, all with the same random numbers (coordinated) or each with its own (independent),
and prints what thresholds on the counts let through, without noise: the share of the votes (coverage), how many
different tokens (sparsity), the total variation distance to the teachers' mean distribution, and the mass that so
many teachers have in common (robust).

With --model, the teachers are prompts that list the same three-digit numbers, and one of their own, and ask for an
example: the demonstration of Hot PATE's paper with any model. Where a number is several tokens, the likelihood of
the whole number counts. Without it, they are made up: a share --alpha of their distributions is uniform over --common
tokens, the rest differs; the share of the votes with a majority is printed beside its formula, 1 − 2^(−α/(1−α)).`,
		Example: "  popri bench ensemble --alpha 0.25 --common 100\n" +
			"  popri bench ensemble --model smollm2 --teachers 300 --common 20 --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.DType, err = benchType(dtype); err != nil {
				return err
			}
			if o.Model != "" {
				if o.Model, err = assembly.GeneratorDir(o.Model); err != nil {
					return err
				}
			}
			p := a.progress()
			p.begin("vote")
			o.Progress = p.update
			e, err := benchmark.CompareVotes(cmd.Context(), o)
			p.stop()
			if err != nil {
				return fmt.Errorf("bench: %w", err)
			}
			return a.emit(e, func(w io.Writer) { printVotes(w, e) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "", "folder or name of a model; none: made-up teachers")
	f.StringVar(&dtype, "dtype", "auto", "auto, float32 or bfloat16")
	f.Float64Var(&o.Alpha, "alpha", 0.25, "share that made-up teachers have in common")
	f.IntVar(&o.Teachers, "teachers", 300, "prompts, or made-up teachers")
	f.IntVar(&o.Common, "common", 20, "numbers that all prompts list, or tokens that made-up teachers have in common")
	f.IntVar(&o.Histograms, "histograms", 1000, "votes of each kind")
	f.Float64SliceVar(&o.Thresholds, "thresholds", []float64{.01, .02, .05, .1, .2, .5},
		"shares of the teachers; separate several by commas")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of prompts and votes")
	return cmd
}

func printVotes(w io.Writer, e *benchmark.Ensemble) {
	fmt.Fprintf(w, "votes\t%d teachers, %d histograms of each kind, %.1f s\n", e.Teachers, e.Histograms, e.Seconds)
	if e.Model != "" {
		fmt.Fprintf(w,
			"mass\t%.3f on three-digit numbers, %.3f on the %d that all list, %.3f on the prompt's own; largest mean "+
				"%.3f\n",
			e.Numbers, e.Listed, e.Common, e.Private, e.Largest)
	}
	limit := ""
	if e.Limit > 0 {
		limit = fmt.Sprintf("; the formula has %.4f", e.Limit)
	}
	fmt.Fprintf(w, "majority\t%.4f coordinated, %.4f independent%s\n", e.Majority.Coordinated, e.Majority.Independent,
		limit)
	fmt.Fprintln(w, "threshold\tcoverage\tsparsity\ttotal variation\trobust")
	for _, r := range e.Rows {
		hot, cold := r.Coordinated, r.Independent
		fmt.Fprintf(w, "%d\t%.1f / %.1f %%\t%d / %d\t%.3f / %.3f\t%.1f %%\n", r.Threshold, 100*hot.Coverage,
			100*cold.Coverage, hot.Sparsity, cold.Sparsity, hot.Distance, cold.Distance, 100*r.Robust)
	}
}
