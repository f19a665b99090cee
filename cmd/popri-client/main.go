// Command popri-client answers a run's question near the clients' data: what "popri score --shard", "popri client" and
// "popri aggregate" do, in pure Go, for machines without libtorch. It builds for every platform with CGO_ENABLED=0.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"popri/accountant/ledger"
	"popri/cmd/internal/federated"
	"popri/datasets/clients"
	"popri/fedsim/client"
	"popri/fedsim/shard"
	"popri/internal/fault"
)

// Exit codes, as those of popri.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), fault.Endings()...)
	defer stop()
	began := false
	err := command(&began).ExecuteContext(ctx)
	switch {
	case err == nil:
		return
	case errors.Is(err, context.Canceled):
		os.Exit(exitInterrupted)
	case errors.Is(err, ledger.ErrBudget):
		fmt.Fprintln(os.Stderr, "popri-client:", err)
		os.Exit(exitRefused)
	}
	fmt.Fprintln(os.Stderr, "popri-client:", err)
	if fault.IsUser(err) || !began {
		os.Exit(exitUsage)
	}
	os.Exit(exitFailed)
}

// command is the whole command line. began is set when it is valid.
func command(began *bool) *cobra.Command {
	var o client.Options
	var private, place string
	var wholeFile bool
	c := &cobra.Command{
		Use:   "popri-client --question FILE --encoder PATH --shard i/N --private FILE --to KEY.pub --out FILE",
		Short: "Add up the vectors of a shard's clients, encrypted to the merger",
		Long: `A run whose clients are elsewhere writes question.safetensors and, for a fitted encoder, encoder.safetensors. This program
adds up the vectors of shard i's train clients in a file and writes the sum, encrypted to the merger's public key. "popri score
--merge" adds the sums of all shards up. --encoder is the run's encoder file or the folder of its sentence encoder, which is
computed in pure Go here: its vectors differ from libtorch's in the last digits.

"popri-client answer" answers for one client of a federation with two aggregators, and "popri-client aggregate" runs one of
these: the same as "popri client" and "popri aggregate".`,
		Example: "  popri-client --question question.safetensors --encoder encoder.safetensors --shard 2/3 \\\n" +
			"      --private clients.parquet --to merger.key.pub --out 2.part",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Place, err = shard.ParsePlace(place, wholeFile); err != nil {
				return fault.Userf("--shard: %w", err)
			}
			o.Open, o.OtherArithmetic = federated.Open, true
			o.Clients = func(since string, use func([]clients.Client) error) error {
				if _, err := os.Stat(private); err != nil {
					return fault.User(err)
				}
				return clients.Stream(private, since, use)
			}
			done, err := client.Answer(cmd.Context(), o)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(done)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Question, "question", "", "file of the question")
	f.StringVar(&o.Path, "encoder", "", "file of the run's encoder, or folder of its sentence encoder")
	f.StringVar(&private, "private", "", "Parquet file of clients")
	f.StringVar(&place, "shard", "", "shard i/N: add up the clients of the i-th of N shards")
	f.BoolVar(&wholeFile, "whole-file", false, "the shard is all train clients of the file, whatever their IDs")
	f.StringVar(&o.To, "to", "", "file of the merger's public key")
	f.StringVar(&o.Out, "out", "", "file of the partial sum")
	for _, name := range []string{"question", "encoder", "private", "shard", "to", "out"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	c.AddCommand(federated.Client("answer"), federated.Aggregate())
	c.PersistentPreRun = func(*cobra.Command, []string) { *began = true }
	return c
}
