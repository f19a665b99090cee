package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"popri/eval/benchmark"
)

func (a *app) benchShards() *cobra.Command {
	var o benchmark.ShardsOptions
	cmd := &cobra.Command{
		Use:   "shards",
		Short: "Score made-up clients in shards, and merge the shards",
		Long: `Adds up the vectors of made-up clients in shards, writes and merges the encrypted partial sums, and compares with the sum
in one part. Clients exist in batches alone, so the memory does not grow with their number.`,
		Example: "  popri bench shards --clients 10000000 --shards 8 --dim 64 --json\n" +
			"  popri bench shards --query mean/full --clients 1000000",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			r, err := benchmark.Shards(o)
			if err != nil {
				return fmt.Errorf("bench: %w", err)
			}
			return a.emit(r, func(w io.Writer) {
				fmt.Fprintf(w, "query\t%s, %d samples of %d dimensions\nclients\t%d in %d shards\n", r.Query, r.Samples,
					r.Dim, r.Clients, r.Shards)
				fmt.Fprintf(w,
					"scoring\t%.1f s, %.2f s for a million clients, %.2f hours for 10⁹\nmerging\t%.3f s, parts of %d "+
						"bytes\n",
					r.Score, r.PerMillion, r.HoursBillion, r.Merge, r.PartBytes)
				fmt.Fprintf(w, "one part\t%.1f s, the same to the last bit: %v\nmemory\t%d MiB at most\n", r.Whole,
					r.BitForBit, r.Peak>>20)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Clients, "clients", 1_000_000, "clients")
	f.IntVar(&o.Shards, "shards", 8, "shards")
	f.IntVar(&o.Dim, "dim", 64, "dimensions of the embeddings")
	f.IntVar(&o.Samples, "samples", 2000, "samples")
	f.StringVar(&o.Query, "query", "cosine/standardize", "what clients are asked: cosine/…, compact/… or mean/full")
	return cmd
}
