package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"popri/fedsim/client"
	"popri/fedsim/sealing"
	"popri/fedsim/shard"
	"popri/internal/rundir"
	"popri/run/sharding"
)

// scoreFlags are the flags of the verb score.
type scoreFlags struct {
	run, question, encoder, dtype, shard, private, to, out, key, keygen string
	round                                                               int
	merge, wholeFile                                                    bool
}

func (a *app) score() *cobra.Command {
	var flags scoreFlags
	cmd := &cobra.Command{
		Use:   "score --shard i/N --private FILE --to KEY.pub | --merge --key KEY PART… | --keygen KEY",
		Short: "Answer a run's question near the clients' data, in shards, and merge the answers",
		Long: `A run with fed.clients above 0 reads no train client: it writes the question of a round and ends. This verb does the rest.

--keygen makes the merger's key pair: KEY, which stays with the merger, and KEY.pub, which the shards need.

--shard i/N adds up the vectors of shard i's train clients in a file and writes the sum, encrypted to the merger's key: a sum
without noise is secret. It needs the question and the encoder, from the run's folder (--run) or as files (--question and
--encoder), and reads the clients in batches. The hash of a client's ID decides its shard, so the same file, or files
of which a client may be in several, serve all shards. --whole-file takes all clients of the file: each client must then be in
the file of one shard alone, which nobody can check.

--merge takes the partial sums of all N shards, adds noise once, charges the run's ledger once and writes the round's
release, to the last bit as if one process had read all clients. "popri run --resume" goes on from there. A merge that was
killed can be repeated.`,
		Example: "  popri score --keygen merger.key\n" +
			"  popri score --run runs/far --round 1 --shard 2/3 --private clients.parquet --to merger.key.pub --out " +
			"2.part\n  popri score --merge --run runs/far --round 1 --key merger.key 1.part 2.part 3.part",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			fail := func(err error) error {
				if err != nil {
					err = fmt.Errorf("score: %w", err)
				}
				return err
			}
			if err := flags.check(args); err != nil {
				return fail(usage(err))
			}
			switch {
			case flags.keygen != "":
				return fail(a.keygen(flags.keygen))
			case flags.merge:
				return fail(a.mergeShards(flags, args))
			}
			return fail(a.scoreShard(cmd, flags))
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.run, "run", "", "folder of the run")
	f.IntVar(&flags.round, "round", 0, "round of the question (default: the one that --run is waiting in)")
	f.StringVar(&flags.shard, "shard", "", "shard i/N: add up the clients of the i-th of N shards")
	f.StringVar(&flags.private, "private", "", "Parquet file of clients, or godoc")
	f.StringVar(&flags.question, "question", "", "file of the question (default: that of --run and --round)")
	f.StringVar(&flags.encoder, "encoder", "", "file or folder of the encoder, or minilm (default: "+rundir.Encoder+
		" of --run)")
	f.StringVar(&flags.dtype, "dtype", "auto", "in which an encoder with a folder computes: auto, float32 or bfloat16")
	f.BoolVar(&flags.wholeFile, "whole-file", false, "the shard is all train clients of the file, whatever their IDs")
	f.StringVar(&flags.to, "to", "", "file of the merger's public key")
	f.StringVar(&flags.out, "out", "", "file of the partial sum (default: shard-i-of-N.part)")
	f.BoolVar(&flags.merge, "merge", false, "merge the partial sums of all shards into the round's release")
	f.StringVar(&flags.key, "key", "", "with --merge: file of the merger's private key")
	f.StringVar(&flags.keygen, "keygen", "", "make the merger's key pair: this file, and its public key beside it")
	return cmd
}

// check returns an error if the flags name no work, or several.
func (s *scoreFlags) check(args []string) error {
	works := 0
	for _, set := range []bool{s.keygen != "", s.merge, s.shard != ""} {
		if set {
			works++
		}
	}
	if works != 1 {
		return errors.New("give one of --shard, --merge and --keygen")
	}
	if !s.merge && len(args) > 0 {
		return fmt.Errorf("%q is no flag; partial sums are named with --merge alone", args[0])
	}
	missing := func(flags ...[2]string) error {
		for _, f := range flags {
			if f[1] == "" {
				return fmt.Errorf("--%s is not given", f[0])
			}
		}
		return nil
	}
	switch {
	case s.keygen != "":
		return nil
	case s.merge:
		return missing([2]string{"run", s.run}, [2]string{"key", s.key})
	}
	if err := missing([2]string{"private", s.private}, [2]string{"to", s.to}); err != nil {
		return err
	}
	if _, err := benchType(s.dtype); err != nil {
		return fmt.Errorf("--dtype is %q, want %s", s.dtype, strings.Join(dtypes, ", "))
	}
	if s.run == "" {
		return missing([2]string{"run or --question", s.question}, [2]string{"encoder", s.encoder})
	}
	return nil
}

// waitingRound settles the round of the run.
func (s *scoreFlags) waitingRound() error {
	if !rundir.Exists(s.run) {
		return usage(fmt.Errorf("%s holds no run", s.run))
	}
	if s.round == 0 {
		s.round = sharding.WaitingRound(s.run)
	}
	if s.round < 1 {
		return usage(fmt.Errorf("%s is not waiting for shards in any round; give --round", s.run))
	}
	return nil
}

func (a *app) keygen(path string) error {
	if err := sealing.GenerateKey(path); err != nil {
		return err
	}
	made := map[string]string{"private_key": path, "public_key": path + sealing.PublicSuffix}
	return a.emit(made, func(w io.Writer) {
		fmt.Fprintf(w, "private key\t%s\npublic key\t%s\n", path, path+sealing.PublicSuffix)
	})
}

func (a *app) scoreShard(cmd *cobra.Command, flags scoreFlags) error {
	place, err := shard.ParsePlace(flags.shard, flags.wholeFile)
	if err != nil {
		return fmt.Errorf("--shard: %w", err)
	}
	if flags.run != "" && flags.question == "" {
		if err := flags.waitingRound(); err != nil {
			return err
		}
		flags.question = filepath.Join(rundir.Round(flags.run, flags.round), rundir.Question)
	}
	if flags.encoder == "" {
		flags.encoder = filepath.Join(flags.run, rundir.Encoder)
	}
	if flags.out == "" {
		flags.out = fmt.Sprintf("shard-%d-of-%d.part", place.Shard, place.Of)
	}
	done, err := sharding.Score(cmd.Context(), sharding.ScoreOptions{DType: flags.dtype, Private: flags.private,
		Options: client.Options{Question: flags.question, Path: flags.encoder, Place: place, To: flags.to,
			Out: flags.out}})
	if err != nil {
		return err
	}
	return a.emit(done, func(w io.Writer) {
		fmt.Fprintf(w, "round\t%d\nshard\t%s\nclients\t%d\nquery\t%s\npartial sum\t%s\n", done.Round, done.Shard,
			done.Clients, done.Query, done.Out)
	})
}

// merged is the output of score --merge.
type merged struct {
	Round   int    `json:"round"`
	Clients int    `json:"clients"`
	Query   string `json:"query"`
	Sigma   figure `json:"noise_multiplier"`
	Hash    string `json:"release_sha256"`
	Resumed bool   `json:"resumed"` // the release was there already
}

func (a *app) mergeShards(flags scoreFlags, parts []string) error {
	if err := flags.waitingRound(); err != nil {
		return err
	}
	r, err := sharding.Merge(sharding.MergeOptions{Dir: flags.run, Round: flags.round, Key: flags.key, Parts: parts})
	if err != nil {
		return err
	}
	return a.emit(merged{r.Round, r.Clients, r.Query, figure(r.Sigma), r.Hash, r.Resumed}, func(w io.Writer) {
		if r.Resumed {
			fmt.Fprintf(w, "The round has its release already; nothing was drawn or charged.\n")
		}
		fmt.Fprintf(w,
			"round\t%d\nclients\t%d\nquery\t%s\nnoise multiplier\t%g\ngo on with\tpopri run --resume --out %s\n",
			r.Round,
			r.Clients, r.Query, r.Sigma, flags.run)
	})
}

// waiting is the error of a run that waits for shards, or nil.
func waiting(err error) *sharding.WaitingError {
	var w *sharding.WaitingError
	if errors.As(err, &w) {
		return w
	}
	return nil
}
