package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"popri/configs"
	"popri/eval/benchmark"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/run/assembly"
)

func (a *app) bench() *cobra.Command {
	cmd := group("bench", "Time sampling, preference training, fine-tuning, evaluation, embedding, scoring and a whole round",
		"  popri bench generate --model work --dtype bfloat16\n  popri bench dpo --model work --json\n"+
			"  popri bench score --clients 133000", a.benchGenerate(), a.benchDPO(), a.benchFineTune(), a.benchEvaluate(),
		a.benchEmbed(), a.benchScore(), a.benchRound())
	cmd.Long = `Times one kind of work and prints its rate. scripts/peers.py gives the same work, from the same files, to other libraries.
Loading is not timed. All but score and round do a first part of the work, which also fetches memory, before they time it.
--profile also says where the time went: the lines add up to the wall clock times the threads.

  python3 scripts/peers.py work --arch gpt2 --out work
  python3 scripts/peers.py generate --model work --dtype float32
  popri bench generate --model work --dtype float32`
	return cmd
}

func (a *app) emitBench(r *benchmark.Result, err error) error {
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
		printProfile(w, r.Profile)
	})
}

// printProfile prints where the time went, if it was recorded.
func printProfile(w io.Writer, p *benchmark.Profile) {
	if p == nil {
		return
	}
	fmt.Fprintf(w, "threads\t%.2f s, %.2f s of a processor\n", p.Whole, p.CPU)
	for _, l := range p.Lines {
		fmt.Fprintf(w, "%s\t%.2f s, %.1f %%\n", l.Class, l.Seconds, 100*l.Share)
	}
}

// dtypes are the values of --dtype.
var dtypes = []string{"auto", "float32", "bfloat16"}

// benchType reads --dtype.
func benchType(name string) (tensor.DType, error) {
	if !slices.Contains(dtypes, name) {
		return 0, usage(fmt.Errorf("--dtype is %q, want %s", name, strings.Join(dtypes, ", ")))
	}
	return assembly.ComputeType(name), nil
}

// timed makes a verb that times one kind of work; dtype gets the type of --dtype, profile whether --profile is given.
func (a *app) timed(use, short, example string, dtype *tensor.DType, profile *bool,
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
	profileFlag(cmd, profile)
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
		&o.DType, &o.Profile, func(ctx context.Context) (*benchmark.Result, error) { return benchmark.Generate(ctx, o) })
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "work", "folder with the model and prompts.json")
	f.IntVar(&o.K, "k", 40, "prompts")
	f.IntVar(&o.J, "j", 10, "samples of each")
	f.IntVar(&o.New, "new", 64, "tokens of each sample")
	f.Float64Var(&o.TopP, "top-p", 1, "keep the likeliest tokens that hold this share of the probability")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the samples")
	f.BoolVar(&o.Bytes, "int8", false, "round weights and inputs of projections to bytes")
	return cmd
}

func (a *app) benchDPO() *cobra.Command {
	var o benchmark.DPOOptions
	cmd := a.timed("dpo --model DIR", "One epoch of preference training with LoRA on all projections",
		"  popri bench dpo --model work --k 40 --dtype float32 --threads 2 --json",
		&o.DType, &o.Profile, func(ctx context.Context) (*benchmark.Result, error) { return benchmark.DPO(ctx, o) })
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "work", "folder with the model and pairs.json")
	f.IntVar(&o.K, "k", 40, "pairs")
	f.BoolVar(&o.Recompute, "gradient-checkpointing", false, "keep only the blocks' inputs")
	f.IntVar(&o.Batch, "batch", 24, "pairs of an update")
	f.IntVar(&o.Micro, "micro", 0, "pairs of one forward pass (0: the default)")
	return cmd
}

func (a *app) benchFineTune() *cobra.Command {
	var o benchmark.FineTuneOptions
	cmd := a.timed("finetune --model DIR", "Updates of all weights of a small model, as an evaluation does them",
		"  popri bench finetune --model work --steps 3 --batch 160 --dtype float32 --threads 2 --json",
		&o.DType, &o.Profile, func(ctx context.Context) (*benchmark.Result, error) { return benchmark.FineTune(ctx, o) })
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "work", "folder with the model and rows.json")
	f.IntVar(&o.Steps, "steps", 3, "updates")
	f.IntVar(&o.Batch, "batch", 160, "rows of an update")
	f.IntVar(&o.Micro, "micro", 16, "rows of one forward pass (0: all)")
	f.BoolVar(&o.Recompute, "gradient-checkpointing", false, "keep only the blocks' inputs")
	return cmd
}

func (a *app) benchEvaluate() *cobra.Command {
	var o benchmark.EvaluateOptions
	cmd := a.timed("evaluate --model DIR", "Next-token loss and accuracy of rows, as an evaluation measures them",
		"  popri bench evaluate --model work --n 500 --dtype float32 --threads 2 --json",
		&o.DType, &o.Profile, func(context.Context) (*benchmark.Result, error) { return benchmark.Evaluate(o) })
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "work", "folder with the model and eval.json")
	f.IntVar(&o.N, "n", 500, "rows")
	return cmd
}

func (a *app) benchEmbed() *cobra.Command {
	var o benchmark.EmbedOptions
	cmd := a.timed("embed --model DIR --texts FILE.jsonl", "Embed texts with an encoder of sentence-transformers",
		"  popri bench embed --model all-MiniLM-L6-v2 --texts texts.jsonl --n 2000 --dtype float32 "+
			"--threads 2 --json",
		&o.DType, &o.Profile, func(context.Context) (_ *benchmark.Result, err error) {
			if o.Model, err = assembly.EncoderDir(o.Model); err != nil {
				return nil, err
			}
			return benchmark.Embed(o)
		})
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "", "encoder: folder or name")
	f.StringVar(&o.Texts, "texts", "", `JSON lines, {"text": "…"}`)
	f.IntVar(&o.N, "n", 2000, "texts")
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
client keeps the mean, to the sum. --query says what is asked: cosine/standardize (a score for each sample, as in the paper)
or mean/full (scoring.release=once: the mean embedding, from which the scores of any samples follow).`,
		Example: "  popri bench score --samples 18000 --clients 133000 --threads 2 --json\n" +
			"  popri bench score --query mean/full --clients 133000",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.emitBench(benchmark.Score(query, samples, population))
		},
	}
	cmd.Flags().StringVar(&query, "query", "cosine/standardize", "what clients are asked: cosine/… or mean/full")
	cmd.Flags().IntVar(&samples, "samples", 18000, "samples")
	cmd.Flags().IntVar(&population, "clients", 1000, "clients")
	return cmd
}

func (a *app) benchRound() *cobra.Command {
	o := benchmark.PaperRound()
	var dtype string
	cmd := &cobra.Command{
		Use:   "round",
		Short: "A whole round with a model of random weights, stage by stage",
		Long: `Times a round from prompts to saved adapters by the code of a run. The model has the shape of a published one and random
weights, which are made where the model computes, so no weights are fetched. Prompts and clients are made up. The default is a round of
the paper. utilisation is the rate of the matrix products over the rate of large products alone on this machine.`,
		Example: "  popri bench round --json\n  popri bench round --shape llama-3.2-1b --k 256\n" +
			"  popri bench round --device cpu --shape smollm2-135m --layers 2 --k 8 --clients 1000",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.DType, err = benchType(dtype); err != nil {
				return err
			}
			if o.Encoder != "" {
				if o.Encoder, err = assembly.EncoderDir(o.Encoder); err != nil {
					return err
				}
			}
			o.Done = func(s benchmark.Stage) { fmt.Fprintf(cmd.ErrOrStderr(), "%s: %.2f s\n", s.Name, s.Seconds) }
			r, err := benchmark.MeasureRound(cmd.Context(), o)
			if err != nil {
				return err
			}
			r.PredictedPeak = roundMemory(o, r)
			return a.emit(r, func(w io.Writer) { printRound(w, r) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Shape, "shape", o.Shape, "folder with a config.json, or "+strings.Join(benchmark.Shapes(), ", "))
	f.IntVar(&o.Layers, "layers", 0, "blocks (0: all)")
	f.IntVar(&o.K, "k", o.K, "prompts")
	f.IntVar(&o.J, "j", o.J, "samples of each")
	f.IntVar(&o.Prompt, "prompt", o.Prompt, "tokens of a prompt")
	f.IntVar(&o.New, "new", o.New, "tokens of each sample")
	f.IntVar(&o.Clients, "clients", o.Clients, "clients")
	f.IntVar(&o.Rejected, "rejected-rank", o.Rejected, "rank of the rejected sample")
	f.IntVar(&o.Rank, "lora-rank", o.Rank, "rank of the adapters")
	f.IntVar(&o.Batch, "batch", o.Batch, "pairs of an update")
	f.IntVar(&o.Micro, "micro", 0, "pairs of one forward pass (0: the default)")
	f.BoolVar(&o.Recompute, "gradient-checkpointing", false, "keep only the blocks' inputs")
	f.StringVar(&o.Encoder, "encoder", "", "sentence encoder, folder or name (none: random vectors)")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of weights, prompts and clients")
	f.StringVar(&dtype, "dtype", "auto", "auto, float32 or bfloat16")
	profileFlag(cmd, &o.Profile)
	return cmd
}

// roundMemory is what a plan says of the memory of a round: of the weights, which have the type of the arithmetic, keys and
// values, and the pairs computed at once. Adapters are left out, which need a hundredth.
func roundMemory(o benchmark.RoundOptions, r *benchmark.Round) int64 {
	c := configs.Default()
	c.Model.DType, c.Model.Weights = r.DType, "compute"
	c.Generate.MaxNewTokens, c.Generate.Examples, c.Data.MaxTokens = o.New, 1, o.Prompt
	c.Optimizer.Batch, c.Optimizer.GradientCheckpointing, c.DPO.MicroPairs = o.Batch, o.Recompute, o.Micro
	_, most := assembly.Most(assembly.MemoryPlan(c, lm.Shape{Config: r.Config, Parameters: r.Parameters}))
	return most
}

func printRound(w io.Writer, r *benchmark.Round) {
	fmt.Fprintf(w, "%s, %d layers, %s parameters\t%s, %s, large products at %.3g TFLOP/s\n", r.Shape, r.Layers,
		humanize.Comma(r.Parameters), r.DType, r.Device, r.Rate/1e12)
	for _, s := range r.Stages {
		utilisation := ""
		if s.Flops > 0 {
			utilisation = fmt.Sprintf(", utilisation %.0f %%", 100*s.Utilisation)
		}
		fmt.Fprintf(w, "%s\t%.2f s, %s at most%s\n", s.Name, s.Seconds, humanize.IBytes(uint64(s.Peak)), utilisation)
		printProfile(w, s.Profile)
	}
	most := slices.MaxFunc(r.Stages, func(a, b benchmark.Stage) int { return cmp.Compare(a.Peak, b.Peak) }).Peak
	fmt.Fprintf(w, "round\t%.2f s (%.2f s predicted), %s at most (%s predicted of the model alone), %d pairs\n", r.Seconds,
		r.Predicted, humanize.IBytes(uint64(most)), humanize.IBytes(uint64(r.PredictedPeak)), r.Pairs)
}
