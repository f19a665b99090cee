package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"popri/accountant"
	"popri/study/reproduction"
)

func (a *app) accountTable3() *cobra.Command {
	return &cobra.Command{
		Use:     "table3",
		Short:   "Table 3 of the POPri paper: its noise, the ε of that noise, and the noise that its ε needs",
		Example: "  popri account table3",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runTable3(cmd.Context()) },
	}
}

// runTable3 computes the rows of the paper's table.
func (a *app) runTable3(ctx context.Context) error {
	var rows []reproduction.NoiseRow
	for _, s := range reproduction.NoiseSettings {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := s.Compute()
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	return a.emit(map[string]any{"rounds": reproduction.NoiseRounds, "delta": reproduction.NoiseDelta, "rows": rows},
		func(w io.Writer) { printTable3(w, rows) })
}

func printTable3(w io.Writer, rows []reproduction.NoiseRow) {
	fmt.Fprintf(w, "%d rounds, δ = %g; ε by accountant for the paper's σ, and the σ needed for its ε\n"+
		"\n", reproduction.NoiseRounds, reproduction.NoiseDelta)
	fmt.Fprintln(w, "\t\t\t\tPoisson, add or remove\t\t\tfixed size, replace\t\tσ needed\t\tDP-FTRL\t20 "+
		"passes\t\t20 rounds")
	fmt.Fprintln(w, "clients\ta round\tε\tpaper's σ\texact\tpld\trdp\tpld\trdp\tPoisson\tfixed size\tpaper's "+
		"σ\texact\tσ needed\tσ needed")
	for _, r := range rows {
		exact := ""
		if r.Exact != nil {
			exact = decimalsUp(*r.Exact)
		}
		fmt.Fprintf(w, "%d\t%d\t%g\t%g\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%g\t%s\t%s\t%s\n", r.Clients,
			r.PerRound, r.Epsilon, r.Sigma, exact, decimalsUp(r.PLD), decimalsUp(r.RDP),
			decimalsUp(r.FixedPLD), decimalsUp(r.FixedRDP),
			decimalsUp(r.NeededSigma), decimalsUp(r.NeededFixedSigma), r.TreeSigma, decimalsUp(r.Tree),
			decimalsUp(r.NeededTreeSigma), decimalsUp(r.NeededTreeRounds))
	}
}

// decimalsUp shows four decimals, rounded up, for columns of a table.
func decimalsUp(v float64) string {
	const decimals = 4
	digits := decimals + 1 + int(math.Floor(math.Log10(v)))
	if !(v > 0) || digits < 1 || digits > 15 {
		return accountant.RoundUp(v, decimals)
	}
	shown, err := strconv.ParseFloat(accountant.RoundUp(v, digits), 64)
	if err != nil {
		return accountant.RoundUp(v, digits)
	}
	return strconv.FormatFloat(shown, 'f', decimals, 64)
}
