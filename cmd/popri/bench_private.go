package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"popri/configs"
	"popri/study/quality"
)

// The measurements of this file read clients' texts without noise, of the embedded default alone.

// measured completes a verb that measures what a configuration does.
func measured[T any](a *app, cmd *cobra.Command, measure func(configs.Config) (T, error),
	print func(io.Writer, T)) *cobra.Command {
	var flags configFlags
	flags.add(cmd)
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(*cobra.Command, []string) error {
		c, err := flags.load()
		if err != nil {
			return err
		}
		q, err := measure(c)
		if err != nil {
			return err
		}
		return a.emit(q, func(w io.Writer) { print(w, q) })
	}
	return cmd
}

func (a *app) benchEncoder() *cobra.Command {
	var sigmas []float64
	cmd := &cobra.Command{
		Use:   "encoder",
		Short: "Measure how well an encoder tells clients' texts from public ones, and how noise changes pairs",
		Long: `Measures how well the configured encoder tells clients' texts from public ones, and for which share of the prompts the
noised scores give the same pair as the scores without noise, or a pair that the scores without noise order in the same
way: as released, and after the projection. It reads clients' texts without noise, so it accepts the embedded default only.`,
		Example: "  popri bench encoder --set scoring.encoder=hashing --set scoring.dim=256\n" +
			"  popri bench encoder --noise-multiplier 1.047,5.518 --json",
	}
	cmd.Flags().Float64SliceVar(&sigmas, "noise-multiplier", []float64{1.047, 5.518},
		"σ in units of the clip norm; separate several by commas")
	measure := func(c configs.Config) (*quality.Encoder, error) { return quality.MeasureEncoder(c, sigmas) }
	return measured(a, cmd, measure, func(w io.Writer, q *quality.Encoder) {
		fmt.Fprintf(w, "encoder\t%s\nAUC\t%.3f\n\n"+
			"noise multiplier\tsame pair: released, projected\tsame chosen\ttrue order\n",
			q.Encoder, q.AUC)
		for _, p := range q.Pairs {
			fmt.Fprintf(w, "%g", p.Sigma)
			for _, shares := range [][2]float64{p.Pair, p.Chosen, p.Ordered} {
				fmt.Fprintf(w, "\t%.2f, %.2f", shares[0], shares[1])
			}
			fmt.Fprintln(w)
		}
	})
}

func (a *app) benchPooling() *cobra.Command {
	var o quality.PoolingOptions
	cmd := &cobra.Command{
		Use:   "pooling",
		Short: "Measure how many pairs survive the noise with and without pooled releases",
		Long: `Simulates the releases of a run, with public texts in place of samples, and measures for which share of the prompts the
noised scores give the same pair as the scores without noise: with each release projected (scoring.denoise=project) and with
all releases so far pooled (pool). The mean of three draws. It reads clients' texts without noise, so it accepts the embedded
default only.`,
		Example: "  popri bench pooling --preset demo-rounds --noise-multiplier 1.71,9.01 --rounds 8",
	}
	cmd.Flags().Float64SliceVar(&o.Sigmas, "noise-multiplier", []float64{1.71, 9.01},
		"σ of each release in units of the clip norm; separate several by commas")
	cmd.Flags().IntVar(&o.Rounds, "rounds", 8, "releases")
	cmd.Flags().Float64Var(&o.InDomain, "in-domain", 0,
		"share of the last round's samples that are public texts of the clients' folders; it grows from 0")
	measure := func(c configs.Config) (*quality.Pooling, error) { return quality.MeasurePooling(c, o) }
	return measured(a, cmd, measure, func(w io.Writer, q *quality.Pooling) {
		fmt.Fprintf(w, "encoder\t%s\n\nnoise multiplier\tround\tsame pair: projected\tpooled\n", q.Encoder)
		for _, r := range q.Rounds {
			for i := range r.Pooled {
				fmt.Fprintf(w, "%g\t%d\t%.2f\t%.2f\n", r.Sigma, i+1, r.Projected[i], r.Pooled[i])
			}
		}
	})
}
