package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"popri/internal/rundir"
	"popri/internal/version"
	"popri/run/reporting"
	"popri/show/datacard"
)

// pushOptions are the flags of the verb data push-ready.
type pushOptions struct {
	datacard.Options
	out string
}

func (a *app) dataPushReady() *cobra.Command {
	var o pushOptions
	cmd := &cobra.Command{
		Use:   "push-ready RUN --out DIR",
		Short: "Make a folder of a run's product that a hub takes",
		Long: `Writes ` + datacard.Data +
			` and README.md, a dataset card with the guarantee, the settings and the hashes. --model writes the run's small
model instead, with a model card that says the same, which transformers opens.
A run that "popri account audit" finds a problem in is refused (without the measurement for which samples are encoded again).
datasets.load_dataset(DIR) opens the folder. The card counts what a model wrote and what is public text, word for word, capitals aside: a licence must suit both. The
folder of another run is replaced with --force only. Nothing is uploaded. The card holds the whole configuration, paths
included: read it before you publish it.`,
		Example: "  popri data push-ready runs/mine --out hub/mine --license cc-by-4.0 --language en",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.runPushReady(args[0], o) },
	}
	cmd.Flags().StringVar(&o.out, "out", "", "folder to write")
	cmd.Flags().StringVar(&o.Name, "name", "", "the data set's name (default: the run's folder)")
	cmd.Flags().StringVar(&o.License, "license", "", "the data set's licence as the hub names it, such as cc-by-4.0")
	cmd.Flags().StringVar(&o.Language, "language", "", "the texts' language, such as en")
	cmd.Flags().BoolVar(&o.Force, "force", false, "replace the folder of another run")
	cmd.Flags().BoolVar(&o.Unprotected, "unprotected", false, "allow the texts of a run that protects nobody")
	cmd.Flags().BoolVar(&o.Model, "model", false, "write the small model that was trained on the texts, in place of these")
	return cmd
}

// runPushReady makes the folder.
func (a *app) runPushReady(run string, o pushOptions) error {
	if err := checkFolder(o.out); err != nil {
		return err
	}
	o.Program = version.Program()
	var err error
	if rundir.Exists(run) { // else it is no run, as Write says
		err = mayLeave(run)
	}
	if err == nil {
		o.Small, err = reporting.SmallCard(run)
	}
	if err != nil {
		return err
	}
	r, err := datacard.Write(run, o.out, o.Options)
	if err != nil {
		return err
	}
	return a.emit(r, func(w io.Writer) {
		if r.Texts == 0 { // a model
			fmt.Fprintf(w, "model\t%s\nguarantee\t%s\ncard\t%s\n", r.SHA256, r.Guarantee,
				filepath.Join(o.out, datacard.Card))
			return
		}
		fmt.Fprintf(w, "rows\t%d (%d empty ones were left out)\nwritten by a model\t%d\npublic texts\t%d\n",
			r.Texts, r.LeftOut, r.Written, r.Public)
		fmt.Fprintf(w, "distinct texts\t%d\nguarantee\t%s\ncard\t%s\n", r.Distinct, r.Guarantee,
			filepath.Join(o.out, datacard.Card))
	})
}
