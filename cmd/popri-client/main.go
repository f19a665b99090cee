// Command popri-client answers a run's question near the clients' data: what "popri client" and "popri aggregate" do, in
// pure Go, for machines without libtorch. It builds for every platform with CGO_ENABLED=0.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"popri/accountant/ledger"
	"popri/cmd/internal/federated"
	"popri/internal/fault"
)

// Exit codes, as in popri.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3
	exitInterrupted = 130
)

func main() {
	ctx, stop := fault.UntilEnded()
	defer stop()
	began := false
	verb, err := command(&began).ExecuteContextC(ctx)
	switch {
	case err == nil:
		return
	case errors.Is(err, context.Canceled):
		os.Exit(exitInterrupted)
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", verb.CommandPath(), err)
	switch {
	case errors.Is(err, ledger.ErrBudget):
		os.Exit(exitRefused)
	case fault.IsUser(err), !began:
		os.Exit(exitUsage)
	}
	os.Exit(exitFailed)
}

// command is the whole command line. began is set when it is valid.
func command(began *bool) *cobra.Command {
	c := &cobra.Command{
		Use:   "popri-client",
		Short: "Answer for a federation's clients, and run its aggregators, without libtorch",
		Long: `"popri-client answer" answers for one client of a federation with two aggregators, or for each client of a file, and
"popri-client aggregate" runs one of the aggregators: the same as "popri client" and "popri aggregate", in pure Go. A sentence
encoder's vectors differ from libtorch's in the last digits.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	c.AddCommand(federated.Client("answer", nil), federated.Aggregate())
	c.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		err := cmd.ValidateRequiredFlags()
		*began = err == nil
		return err
	}
	return c
}
