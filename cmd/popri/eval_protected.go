package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/configs"
	"popri/internal/rundir"
	"popri/run/assembly"
	"popri/run/evaluator"
)

// evalProtected evaluates the synthetic set of a run, or a file of texts, on test clients who are protected.
func (a *app) evalProtected(cmd *cobra.Command, o evalOptions) error {
	run, file, out := o.run, o.synthetic, o.out
	if !(o.protect > 0) {
		return usage(fmt.Errorf("--protect-test is %g, must be above 0", o.protect))
	}
	options := a.evaluating()
	if options.Small = filepath.Join(cmp.Or(run, out), rundir.Small); run != "" {
		switch {
		case !rundir.Exists(run):
			return usage(fmt.Errorf("%s holds no run", run))
		case rundir.Has(run, rundir.Eval):
			return usage(fmt.Errorf("%s has figures of the test clients without noise (%s): these clients are not "+
				"protected", run, rundir.Eval))
		case out != "":
			return usage(errors.New("--out cannot be combined with --run, whose folder gets the figures"))
		}
		if file = filepath.Join(run, rundir.Synthetic); !rundir.Has(run, rundir.Synthetic) {
			file = filepath.Join(run, rundir.Small)
		}
		out = filepath.Join(run, rundir.ProtectedEval)
	} else if out == "" {
		return usage(errors.New("--protect-test with --synthetic needs --out, the folder of ledger and release"))
	}
	c, err := o.config()
	if err != nil {
		return err
	}
	if c.Model.Path == configs.Trained && run == "" {
		c.Model.Path = configs.Default().Model.Path // no generator is needed
	}
	if c, err = a.prepared(cmd, c); err != nil {
		return err
	}
	if run != "" && (o.model != "" || slices.ContainsFunc(o.flags.set,
		func(s string) bool { return strings.HasPrefix(s, "downstream.model=") })) {
		record, err := ledger.Inspect(filepath.Join(run, rundir.Ledger))
		if err == nil {
			err = assembly.CheckSources(c, record.Budget, record.Entries, "downstream.model")
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	e, err := evaluator.Protect(cmd.Context(), c, file, out, o.protect, options)
	if err != nil {
		return err
	}
	return a.emit(e, func(w io.Writer) {
		fmt.Fprintln(w, "trained on\tmean accuracy of a client %\tstandard deviation of the noise")
		for _, r := range e.Rows {
			fmt.Fprintf(w, "%s\t%.2f\t%.2f\n", r.Name, 100*r.Accuracy, 100*r.Noise)
		}
		fmt.Fprintf(w,
			"\n%d test clients are protected: ε = %s at δ = %.3g is spent on them. Validation clients chose each "+
				"model's step and are not.\n", e.Clients, accountant.RoundUp(e.Epsilon, 4), e.Delta)
	})
}
