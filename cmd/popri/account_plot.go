package main

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"popri/accountant"
	"popri/show/report"
)

// plotPoints is about how many numbers of rounds a plot asks about.
const plotPoints = 24

func (a *app) accountPlot() *cobra.Command {
	var q question
	var sigmas []float64
	var rounds int
	var out string
	var logarithmic bool
	cmd := &cobra.Command{
		Use:   "plot",
		Short: "Draw ε over rounds for several noise multipliers",
		Example: "  popri account plot --noise-multipliers 1,2,4 --rounds 100 --delta 1e-5 --sampling-rate 0.05 " +
			"--out epsilon.svg",
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.Float64SliceVar(&sigmas, "noise-multipliers", nil, "noise multipliers, one curve each")
	f.IntVar(&rounds, "rounds", 0, "number of rounds on the x axis")
	f.Float64Var(&q.delta, "delta", 0, "δ, below 1/clients")
	f.StringVar(&out, "out", "", "file to write: .svg or .png")
	f.BoolVar(&logarithmic, "log", false, "draw ε on a logarithmic scale")
	q.samplingFlags(f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		fail := func(err error) error { return usage(fmt.Errorf("account plot: %w", err)) }
		if err := required(cmd, "noise-multipliers", "rounds", "delta", "out"); err != nil {
			return fail(err)
		}
		if err := q.settle(f); err != nil {
			return fail(err)
		}
		if rounds < 1 || rounds > mostRounds {
			return fail(fmt.Errorf("--rounds is %d, want 1 to %d", rounds, mostRounds))
		}
		if err := checkOut("account plot", out); err != nil {
			return err
		}
		all := q.accountants()
		result := plotted{Out: out, Delta: q.delta, Relation: q.relation, TakingPart: q.taking()}
		c := report.Curves{Title: fmt.Sprintf("δ = %g, %s", q.delta, q.taking()), X: "rounds", Y: "ε", LogY: logarithmic}
		for _, sigma := range sigmas {
			line := report.Curve{Name: fmt.Sprintf("σ = %g", sigma)}
			for _, n := range roundsUpTo(rounds) {
				e := q.event
				e.Sigma, e.Count = sigma, n
				epsilon, name, err := tightest(all, e, q.delta)
				if err != nil {
					return fail(err)
				}
				result.Accountant = name
				line.X, line.Y = append(line.X, float64(n)), append(line.Y, epsilon)
			}
			c.Lines = append(c.Lines, line)
			curve := plottedCurve{Sigma: sigma}
			for i := range line.X {
				curve.Rounds, curve.Epsilon = append(curve.Rounds, int(line.X[i])), append(curve.Epsilon, figure(line.Y[i]))
			}
			result.Curves = append(result.Curves, curve)
		}
		if err := c.Write(out); err != nil {
			return fail(err)
		}
		return a.emit(result, func(w io.Writer) {
			fmt.Fprintf(w, "σ\tε after %d rounds (%s)\n", rounds, result.Accountant)
			for _, c := range result.Curves {
				fmt.Fprintf(w, "%g\t%s\n", c.Sigma, roundedUp(float64(c.Epsilon[len(c.Epsilon)-1])))
			}
			q.statement(w)
			fmt.Fprintf(w, "\ndrawn\t%s\n", out)
		})
	}
	return cmd
}

type plotted struct {
	Out        string         `json:"out"`
	Delta      float64        `json:"delta"`
	Relation   string         `json:"relation"`
	TakingPart string         `json:"taking_part"`
	Accountant string         `json:"accountant"`
	Curves     []plottedCurve `json:"curves"`
}

type plottedCurve struct {
	Sigma   float64  `json:"sigma"`
	Rounds  []int    `json:"rounds"`
	Epsilon []figure `json:"epsilon"`
}

// roundsUpTo returns at most the given number of whole numbers from 1 to n, closer together where curves bend.
func roundsUpTo(n int) []int {
	var out []int
	for i := range plotPoints + 1 {
		x := float64(i) / plotPoints
		at := max(1, int(math.Round(float64(n)*x*x)))
		if len(out) == 0 || at > out[len(out)-1] {
			out = append(out, at)
		}
	}
	return out
}

// tightest asks the first accountant that covers the event.
func tightest(all []accountant.Accountant, e accountant.Event, delta float64) (float64, string, error) {
	var last error
	for _, acc := range all {
		epsilon, err := acc.Epsilon([]accountant.Event{e}, delta)
		if err == nil {
			return epsilon, acc.Name(), nil
		}
		if last = err; !errors.Is(err, accountant.ErrNotApplicable) {
			break
		}
	}
	return 0, "", last
}
