package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"popri/eval/benchmark"
	"popri/internal/fault"
	"popri/model/tensor"
	"popri/run/assembly"
)

func (a *app) bench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Time sampling, preference training, fine-tuning, evaluation, embedding and scoring",
		Long: `Times one kind of work and prints its rate. scripts/peers.py gives the same work, from the same files, to other libraries.
Loading is not timed. All but score do a first part of the work, which also fetches memory, before they time it.
--profile also says where the time went: the lines add up to the wall clock times the threads.

  python3 scripts/peers.py work --arch gpt2 --out work
  python3 scripts/peers.py generate --model work --dtype float32
  popri bench generate --model work --dtype float32`,
		Example: "  popri bench generate --model work --dtype bfloat16\n  popri bench dpo --model work --json\n" +
			"  popri bench score --clients 133000",
	}
	cmd.AddCommand(a.benchGenerate(), a.benchDPO(), a.benchFineTune(), a.benchEvaluate(), a.benchEmbed(), a.benchScore())
	return cmd
}

func (a *app) emitBench(r *benchmark.Result, err error) error {
	if fault.IsUser(err) {
		return fmt.Errorf("bench: %w", err)
	}
	if err != nil {
		return err
	}
	return a.emit(r, func(w io.Writer) {
		fmt.Fprintf(w, "%s\t%.4g %s/s\n", r.Stage, r.Rate, r.Unit)
		fmt.Fprintf(w, "work\t%d %s in %.2f s, %s, %s, %d threads\n", r.Items, r.Unit, r.Seconds, r.DType,
			r.Device, r.Threads)
		if r.Flops > 0 {
			fmt.Fprintf(w, "products\t%.0f GFLOP/s\n", r.Flops/r.Seconds/1e9)
		}
		fmt.Fprintf(w, "memory\t%.2f GiB at most\n", float64(r.Peak)/(1<<30))
		if p := r.Profile; p != nil {
			fmt.Fprintf(w, "threads\t%.2f s, %.2f s of a processor\n", p.Whole, p.CPU)
			for _, l := range p.Lines {
				fmt.Fprintf(w, "%s\t%.2f s, %.1f %%\n", l.Class, l.Seconds, 100*l.Share)
			}
		}
	})
}

// dtypes are the values of --dtype.
var dtypes = []string{"auto", "float32", "bfloat16"}

// benchType reads --dtype.
func benchType(name string) (tensor.DType, error) {
	if !slices.Contains(dtypes, name) {
		return 0, usage(fmt.Errorf("bench: --dtype is %q, want %s", name, strings.Join(dtypes, ", ")))
	}
	return assembly.ComputeType(name), nil
}

// timed makes a verb that times one kind of work; dtype gets the type of --dtype.
func (a *app) timed(use, short, example string, dtype *tensor.DType,
	work func(context.Context) (*benchmark.Result, error)) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: example,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if *dtype, err = benchType(name); err != nil {
				return err
			}
			return a.emitBench(work(cmd.Context()))
		},
	}
	cmd.Flags().StringVar(&name, "dtype", "auto", "auto, float32 or bfloat16")
	return cmd
}

// profileFlag adds --profile.
func profileFlag(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "profile", false, "say where the threads' time goes; --json also lists the operations")
}

func (a *app) benchGenerate() *cobra.Command {
	var o benchmark.GenerateOptions
	cmd := a.timed("generate --model DIR", "Draw J samples for each of K prompts",
		"  popri bench generate --model work --k 40 --j 10 --new 64 --dtype float32 --threads 2 --json",
		&o.DType, func(ctx context.Context) (*benchmark.Result, error) { return benchmark.Generate(ctx, o) })
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "work", "folder with the model and prompts.json")
	f.IntVar(&o.K, "k", 40, "prompts")
	f.IntVar(&o.J, "j", 10, "samples of each")
	f.IntVar(&o.New, "new", 64, "tokens of each sample")
	f.Float64Var(&o.TopP, "top-p", 1, "keep the likeliest tokens that hold this share of the probability")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the samples")
	f.BoolVar(&o.Bytes, "int8", false,
		"round weights and inputs of projections to bytes")
	profileFlag(cmd, &o.Profile)
	return cmd
}

func (a *app) benchDPO() *cobra.Command {
	var o benchmark.DPOOptions
	cmd := a.timed("dpo --model DIR", "One epoch of preference training with LoRA on all projections",
		"  popri bench dpo --model work --k 40 --dtype float32 --threads 2 --json",
		&o.DType, func(ctx context.Context) (*benchmark.Result, error) { return benchmark.DPO(ctx, o) })
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "work", "folder with the model and pairs.json")
	f.IntVar(&o.K, "k", 40, "pairs")
	f.BoolVar(&o.Recompute, "gradient-checkpointing", false, "keep only the blocks' inputs")
	f.IntVar(&o.Batch, "batch", 24, "pairs of an update")
	f.IntVar(&o.Micro, "micro", 0, "pairs of one forward pass (0: the default)")
	profileFlag(cmd, &o.Profile)
	return cmd
}

func (a *app) benchFineTune() *cobra.Command {
	var o benchmark.FineTuneOptions
	cmd := a.timed("finetune --model DIR", "Updates of all weights of a small model, as an evaluation does them",
		"  popri bench finetune --model work --steps 3 --batch 160 --dtype float32 --threads 2 --json",
		&o.DType, func(ctx context.Context) (*benchmark.Result, error) { return benchmark.FineTune(ctx, o) })
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "work", "folder with the model and rows.json")
	f.IntVar(&o.Steps, "steps", 3, "updates")
	f.IntVar(&o.Batch, "batch", 160, "rows of an update")
	f.IntVar(&o.Micro, "micro", 16, "rows of one forward pass (0: all)")
	f.BoolVar(&o.Recompute, "gradient-checkpointing", false, "keep only the blocks' inputs")
	profileFlag(cmd, &o.Profile)
	return cmd
}

func (a *app) benchEvaluate() *cobra.Command {
	var o benchmark.EvaluateOptions
	cmd := a.timed("evaluate --model DIR", "Next-token loss and accuracy of rows, as an evaluation measures them",
		"  popri bench evaluate --model work --n 500 --dtype float32 --threads 2 --json",
		&o.DType, func(context.Context) (*benchmark.Result, error) { return benchmark.Evaluate(o) })
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "work", "folder with the model and eval.json")
	f.IntVar(&o.N, "n", 500, "rows")
	profileFlag(cmd, &o.Profile)
	return cmd
}

func (a *app) benchEmbed() *cobra.Command {
	var o benchmark.EmbedOptions
	cmd := a.timed("embed --model DIR --texts FILE.jsonl", "Embed texts with an encoder of sentence-transformers",
		"  popri bench embed --model all-MiniLM-L6-v2 --texts texts.jsonl --n 2000 --dtype float32 "+
			"--threads 2 --json",
		&o.DType, func(context.Context) (_ *benchmark.Result, err error) {
			if o.Model, err = assembly.EncoderDir(o.Model); err != nil {
				return nil, err
			}
			return benchmark.Embed(o)
		})
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "", "encoder: folder or name")
	f.StringVar(&o.Texts, "texts", "", `JSON lines, {"text": "…"}`)
	f.IntVar(&o.N, "n", 2000, "texts")
	profileFlag(cmd, &o.Profile)
	return cmd
}

func (a *app) benchScore() *cobra.Command {
	var (
		samples, population int
		query               string
	)
	cmd := &cobra.Command{
		Use:   "score",
		Short: "Score samples by many clients and sum the scores",
		Long: `Times how clients with 1 to 11 texts each, 384 numbers a text, score samples: from the embeddings of their texts, of which each
client keeps the mean, to the sum. --query says what is asked: cosine/standardize (a score for each sample, as in the paper),
compact/standardize (the same in 384 numbers), or mean/full (scoring.release=once: the mean embedding, from which the scores of
any samples follow).`,
		Example: "  popri bench score --samples 18000 --clients 133000 --threads 2 --json\n" +
			"  popri bench score --query mean/full --clients 133000",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.emitBench(benchmark.Score(query, samples, population))
		},
	}
	cmd.Flags().StringVar(&query, "query", "cosine/standardize",
		"what clients are asked: cosine/…, compact/… or mean/full")
	cmd.Flags().IntVar(&samples, "samples", 18000, "samples")
	cmd.Flags().IntVar(&population, "clients", 1000, "clients")
	return cmd
}
