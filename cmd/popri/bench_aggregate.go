package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/workload"
	"popri/internal/fault"
)

func (a *app) benchAggregate() *cobra.Command {
	var clients int
	var values []int
	var proofs []string
	cmd := &cobra.Command{
		Use:   "aggregate",
		Short: "Time reports to two aggregators, with and without range proofs",
		Long: `Has made-up clients report to two aggregators in this process, on all cores, without the network and without the
encoder: split vectors into shares (with the proof), seal and sign, take reports (signature, decryption, disk),
compare identifiers, check proofs and decide, sum up with noise. Prints reports a second, and the bytes that a
client sends. The aggregators' files are in the folder for temporary files ($TMPDIR): a client with 18000 values
and a range proof takes 9 MB there.`,
		Example: "  popri bench aggregate --clients 1000 --values 384,1400 --json\n" +
			"  popri bench aggregate --values 18000 --proof range --clients 20",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []*workload.Times
			for _, proof := range proofs {
				if !slices.Contains([]string{"none", aggregate.RangeProof}, proof) {
					return fault.Userf("bench: --proof is %q, want none, %s or both, separated by a comma", proof,
						aggregate.RangeProof)
				}
			}
			for _, n := range values {
				for _, proof := range proofs {
					t, err := timeReports(cmd.Context(), clients, n, proof)
					if err != nil {
						return fmt.Errorf("bench: %w", err)
					}
					all = append(all, t)
				}
			}
			return a.emit(map[string]any{"stage": "aggregate", "results": all},
				func(w io.Writer) { printReports(w, all) })
		},
	}
	cmd.Flags().IntVar(&clients, "clients", 100, "made-up clients")
	cmd.Flags().IntSliceVar(&values, "values", []int{384, 1400, 18000},
		"values of a vector; separate several by commas")
	cmd.Flags().StringSliceVar(&proofs, "proof", []string{"none", aggregate.RangeProof},
		"none, range, or both, separated by a comma")
	return cmd
}

func timeReports(ctx context.Context, clients, values int, proof string) (*workload.Times, error) {
	dir, err := os.MkdirTemp("", "popri-aggregate-")
	if err != nil {
		return nil, err
	}
	o := workload.Options{Clients: clients, Values: values, Dir: filepath.Join(dir, "work")}
	if proof == aggregate.RangeProof {
		o.Proof = proof
	}
	t, err := workload.Run(ctx, o)
	return t, errors.Join(err, os.RemoveAll(dir))
}

func printReports(w io.Writer, all []*workload.Times) {
	rate := func(r float64) string {
		if r == 0 {
			return "-"
		}
		return humanize.SIWithDigits(r, 1, "")
	}
	fmt.Fprintln(w,
		"values\tproof\tbytes of a client\tsplit/s\tseal/s\taggregator\ttake/s\tintersect/s\tverify/s\tdecide/s\tsum/s")
	for _, t := range all {
		for _, role := range aggregate.Roles {
			s := t.Sides[string(role)]
			fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.Values, t.Proof,
				t.ClientBytes["leader"]+t.ClientBytes["helper"], rate(t.Split), rate(t.Seal), role, rate(s.Take),
				rate(s.Intersect),
				rate(s.Verify), rate(s.Decide), rate(s.Sum))
		}
	}
}
