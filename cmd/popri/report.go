package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"popri/accountant/guarantee"
	"popri/internal/numeric"
	"popri/run/reporting"
	"popri/show/report"
)

func (a *app) report() *cobra.Command {
	return &cobra.Command{
		Use:   "report RUN…",
		Short: "Write the report.html of runs again",
		Long: `Writes each run's report.html from the files in its folder and prints the paths. The report of an unfinished run shows what
exists so far. The page of all samples and the small model's card are written again, too.`,
		Example: "  popri report runs/eps1 runs/eps7",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, runs []string) error { return a.runReport(runs) },
	}
}

// runReport writes the reports.
func (a *app) runReport(runs []string) error {
	paths, err := numeric.TryMap(runs, reporting.Write)
	if err == nil {
		paths, err = numeric.TryMap(paths, filepath.Abs)
	}
	if err != nil {
		return err
	}
	return a.emit(map[string]any{"reports": paths}, func(w io.Writer) { fmt.Fprintln(w, strings.Join(paths, "\n")) })
}

func (a *app) compare() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:     "compare RUN… --out FILE.html",
		Short:   "Show several runs side by side on one page",
		Long:    `Writes one page with the runs' guarantees, results and curves side by side, and the settings in which they differ.`,
		Example: "  popri compare runs/eps1 runs/eps7 --out compare.html",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, runs []string) error { return a.runCompare(runs, out) },
	}
	cmd.Flags().StringVar(&out, "out", "", "page to write")
	return cmd
}

// runCompare writes the page that shows runs side by side.
func (a *app) runCompare(runs []string, out string) error {
	if out == "" {
		return usage(errors.New("--out names no file"))
	}
	if err := checkOut(out); err != nil {
		return err
	}
	list, err := numeric.TryMap(runs, reporting.Of)
	if err != nil {
		return err
	}
	if err := report.Compare(out, list); err != nil {
		return err
	}
	composed, failed := guarantee.Compose(runs)
	abs, err := filepath.Abs(out)
	if err = cmp.Or(failed, err); err != nil {
		return err
	}
	return a.emit(map[string]any{"runs": runs, "report": abs, "composed": composed}, func(w io.Writer) {
		printComposed(w, composed)
		fmt.Fprintln(w, abs)
	})
}
