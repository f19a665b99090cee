package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"popri/accountant/guarantee"
	"popri/internal/quote"
	"popri/internal/rundir"
)

// publishOptions are the flags of the verb publish.
type publishOptions struct {
	to                     string
	evaluated, unprotected bool
}

func (a *app) publish() *cobra.Command {
	var o publishOptions
	cmd := &cobra.Command{
		Use:   "publish RUN --to DIR",
		Short: "Copy what the guarantee covers of a run's folder",
		Long: `Copies the files of a run that everybody may read, and lists the others with the reason. docs/run-folder.md lists all files of a
run. The copy can be audited and evaluated; --resume needs the run itself.

A run that "popri account audit" finds a problem in is refused (without the measurement for which samples are encoded again).
A run that protects nobody needs --unprotected.

Figures of validation and test clients have no noise. --evaluated copies them too, where these clients need no protection.`,
		Example: "  popri publish runs/mine --to public/mine",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.runPublish(args[0], o) },
	}
	cmd.Flags().StringVar(&o.to, "to", "", "folder to write, which must not be there yet")
	cmd.Flags().BoolVar(&o.evaluated, "evaluated", false, "copy figures of validation and test clients, and the report")
	cmd.Flags().BoolVar(&o.unprotected, "unprotected", false, "allow a run that protects nobody")
	return cmd
}

// within reports whether a path is a folder or in it.
func within(path, dir string) bool {
	path, errPath := filepath.Abs(path)
	dir, errDir := filepath.Abs(dir)
	inside, err := filepath.Rel(dir, path)
	return errors.Join(errPath, errDir, err) == nil && filepath.IsLocal(inside)
}

// runPublish audits the run and copies its files.
func (a *app) runPublish(run string, o publishOptions) error {
	if o.to == "" {
		return usage(errors.New("--to names no folder"))
	}
	if within(o.to, run) {
		return usage(fmt.Errorf("--to %s is inside the run %s: name another folder", o.to, run))
	}
	if err := mayLeave(run); err != nil {
		return err
	}
	facts, err := guarantee.Read(run)
	if err != nil {
		return err
	}
	if !facts.Protects() && !o.unprotected {
		return usage(fmt.Errorf("%s protects nobody; --unprotected publishes it nevertheless", run))
	}
	readers := []rundir.Reader{rundir.Everybody}
	if o.evaluated {
		readers = append(readers, rundir.Evaluated)
	}
	published, kept, err := rundir.Publish(run, o.to, readers...)
	if errors.Is(err, fs.ErrExist) {
		return usage(fmt.Errorf("%s is there already: name another folder", o.to))
	}
	if err != nil {
		return usage(err)
	}
	result := struct {
		Run       string        `json:"run"`
		Out       string        `json:"out"`
		Published []string      `json:"published"`
		Kept      []rundir.Kept `json:"kept"`
	}{run, o.to, published, nonNil(kept)}
	return a.emit(result, func(w io.Writer) {
		fmt.Fprintf(w, "%s copied to %s\n", quote.Count(len(published), "file", ""), o.to)
		for _, k := range kept {
			fmt.Fprintf(w, "not copied\t%s\t%s\n", k.Path, k.Why)
		}
	})
}
