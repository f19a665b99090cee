package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"popri/accountant"
	"popri/cmd/internal/federated"
)

// treeOptions are the flags of the verb account tree.
type treeOptions struct {
	accountant.Tree
	sigma, delta float64
	trees        int
}

func (a *app) accountTree() *cobra.Command {
	var o treeOptions
	cmd := &cobra.Command{
		Use:   "tree",
		Short: "The ε of tree aggregation (DP-FTRL), given how often and how closely a client contributes",
		Example: "  popri account tree --steps 2048 --real-steps 2000 --max-participation 20 --min-separation 99 " +
			"--trees 5 --noise-multiplier 46.3 --delta 1e-5",
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.IntVar(&o.Steps, "steps", 0, "leaves of a tree, including empty ones that complete it")
	f.IntVar(&o.RealSteps, "real-steps", 0, "number of first leaves that clients contribute to (0: all)")
	f.IntVar(&o.MaxParticipation, "max-participation", 1, "most leaves of a tree that one client contributes to")
	f.IntVar(&o.MinSeparation, "min-separation", 0, "least number of leaves between two contributions of a client")
	f.BoolVar(&o.Periodic, "periodic", false,
		"contributions are exactly --min-separation apart, as with the same order in every epoch")
	f.IntVar(&o.trees, "trees", 1, "number of such trees in sequence (restarts + 1)")
	f.Float64Var(&o.sigma, "noise-multiplier", 0,
		"standard deviation of the noise of a node / norm bound of a contribution")
	f.Float64Var(&o.delta, "delta", 0, "δ, below 1/clients")
	federated.Required(cmd, "steps", "noise-multiplier", "delta")
	cmd.RunE = func(*cobra.Command, []string) error { return a.runTree(o) }
	return cmd
}

// taking says who takes part: nobody is sampled.
func (o treeOptions) taking() string {
	text := fmt.Sprintf("a client in %d leaves of a tree at most", o.MaxParticipation)
	switch {
	case o.MaxParticipation == 1:
		return "a client in one leaf of a tree at most"
	case o.Periodic:
		return text + fmt.Sprintf(", every %d leaves", o.MinSeparation)
	}
	return text + fmt.Sprintf(", %d or more apart", max(1, o.MinSeparation))
}

// runTree prints the ε of a tree's releases.
func (a *app) runTree(o treeOptions) error {
	if o.trees < 1 || o.trees > 1<<20 {
		return usage(fmt.Errorf("--trees is %d, want 1 to %d", o.trees, 1<<20))
	}
	one, err := o.SumSquares()
	if err != nil {
		return usage(err)
	}
	sum := one * o.trees
	r := answers{asked: question{relation: string(accountant.ZeroOut), part: o.taking(),
		event: accountant.Event{Mechanism: "gaussian"}},
		given: map[string]float64{"sum_of_squares": float64(sum), "delta": o.delta, "noise-multiplier": o.sigma}}
	for _, acc := range []accountant.Accountant{accountant.Exact{}, accountant.RDP{}} {
		epsilon, err := acc.Epsilon([]accountant.Event{accountant.TreeEvent(o.sigma, sum)}, o.delta)
		if err != nil {
			return usage(err)
		}
		r.byName = append(r.byName, named{acc.Name(), epsilon})
	}
	return a.emit(r, func(w io.Writer) {
		fmt.Fprintf(w, "squared sensitivity\t%d\t(sum over all nodes of the square of one client's "+
			"contributions, %d a tree)\n\naccountant\tε\n", sum, one)
		for _, n := range r.byName {
			fmt.Fprintf(w, "%s\t%s\n", n.name, roundedUp(n.value))
		}
		r.asked.statement(w)
	})
}
