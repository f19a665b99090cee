package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"popri/run/trying"
	"popri/show/tryout"
	"popri/show/watch"
)

func (a *app) try() *cobra.Command {
	addr := anyPort
	cmd := &cobra.Command{
		Use:   "try RUN",
		Short: "Type with a run's small model, and write with its generator, in a browser",
		Long: `Serves a page with a text field, under which stand the three words that the small model suggests before and after its
training (RUN/` + "small" + `), as on a telephone's keyboard. Below, the generator writes from one prompt of the run, untuned and tuned.

The page is served to this machine alone, unless --addr says otherwise. What is typed is stored nowhere.`,
		Example: "  popri try runs/demo\n  popri try runs/demo --addr 127.0.0.1:8701",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runTry(cmd.Context(), args[0], addr) },
	}
	cmd.Flags().StringVar(&addr, "addr", addr, "address to serve at; port 0 takes a free one")
	return cmd
}

// runTry serves the page until ctx ends.
func (a *app) runTry(ctx context.Context, run, addr string) error {
	models, err := trying.Open(run)
	if err != nil {
		return err
	}
	defer models.Close()
	l, err := a.listen(addr)
	if err != nil {
		return err
	}
	err = a.emit(map[string]any{"url": address(l, ""), "run": run}, func(w io.Writer) { fmt.Fprintln(w, address(l, "")) })
	if err != nil {
		return err
	}
	return watch.Serve(ctx, l, tryout.Handler(l.Addr().String(), models), func() {})
}
