package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"popri/dpo"
	"popri/dpo/preference"
	"popri/internal/quote"
	"popri/run/standalone"
)

// dpoOptions are the flags of the verb dpo.
type dpoOptions struct {
	flags                                   configFlags
	track                                   trackFlag
	pairs, evalPairs, reference, model, out string
	resume                                  bool
}

func (a *app) dpo() *cobra.Command {
	var o dpoOptions
	cmd := &cobra.Command{
		Use:   "dpo --pairs FILE --model DIR --out DIR",
		Short: "Train an adapter on preference pairs",
		Long: `Trains a LoRA adapter on preference pairs, with the model without the adapter as the reference, and writes it in PEFT's
format. Pairs are JSON lines or Parquet in TRL's forms (prompt, chosen and rejected, as texts or as lists of messages, with the
prompt apart from the completions or at their beginning), or a run's pairs.parquet. Longer pairs than dpo.max_length are cut and
counted. The keys dpo.*, optimizer.*, lora.* and seed of the configuration apply. steps.jsonl next to the adapter gets the metrics of each step under
TRL's names; evals.jsonl gets the metrics of held-out pairs (--eval-pairs, or dpo.eval_share of the pairs).

--resume continues a training that was interrupted or killed; it ends with the same bytes as an uninterrupted one. Of a
training that is done it shows the result again. The reference log-probabilities are written to reference.safetensors, or to the file that --reference names; other trainings
on the same pairs and model can reuse them.

This training is not differentially private: the adapter can reveal the pairs to anybody who has it.

` + trackHelp,
		Example: "  popri dpo --pairs pairs.jsonl --model gpt2 --out adapters/mine --set optimizer.epochs=3 --set " +
			"dpo.eval_share=0.1 --set dpo.best=pairs\n  popri dpo --resume --out adapters/mine\n" +
			"  popri dpo --pairs runs/eps1/rounds/0001/pairs.parquet --out adapters/again --json\n" +
			"  popri dpo --pairs pairs.jsonl --out adapters/shown --report-to tensorboard",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runDPO(cmd, o) },
	}
	o.flags.add(cmd)
	cmd.Flags().StringVar(&o.pairs, "pairs", "", "file of preference pairs, .jsonl or .parquet")
	cmd.Flags().StringVar(&o.evalPairs, "eval-pairs", "", "file of held-out pairs, which are measured and not trained on")
	cmd.Flags().StringVar(&o.reference, "reference", "",
		"file for the reference log-probabilities (default reference.safetensors in --out)")
	cmd.Flags().BoolVar(&o.resume, "resume", false, "continue the training in --out")
	cmd.Flags().StringVar(&o.model, "model", "",
		"Hugging Face folder, or embedded (default: the configuration's model.path)")
	cmd.Flags().StringVar(&o.out, "out", "", "folder of the adapter")
	o.track.add(cmd)
	return cmd
}

// training are the settings of the training that the flags describe.
func (a *app) training(o dpoOptions) (standalone.Options, error) {
	t := standalone.Options{Pairs: o.pairs, EvalPairs: o.evalPairs, Reference: o.reference, Out: o.out,
		Resume: o.resume, Device: a.device, Trackers: o.track.names, Warn: a.warn}
	switch {
	case o.resume && o.out == "":
		return t, usage(errors.New("--out names no folder"))
	case o.resume && (o.pairs != "" || o.evalPairs != "" || o.reference != "" || o.model != "" || o.flags.file != "" ||
		o.flags.preset != "" || len(o.flags.set) > 0):
		return t, usage(errors.New("--resume uses the training's own settings and files; give only --out with it"))
	case !o.resume && (o.pairs == "" || o.out == ""):
		return t, usage(errors.New("--pairs and --out must name a file and a folder"))
	}
	var err error
	if !o.resume {
		o.flags.name(map[string]string{"model.path": o.model})
		t.Config, err = o.flags.load()
	}
	t.Config.Model.Threads = cmp.Or(a.threads, t.Config.Model.Threads)
	return t, err
}

// runDPO trains an adapter on preference pairs.
func (a *app) runDPO(cmd *cobra.Command, o dpoOptions) error {
	t, err := a.training(o)
	if err != nil {
		return err
	}
	p := a.progress()
	t.Prepared = func(r standalone.Prepared) {
		p.endIfLong()
		begun := ""
		if r.Resumed {
			begun = ", some of them done"
		}
		a.say("%d pairs, %d held out, %d steps%s", r.Pairs, r.Held, r.Steps, begun)
		if r.Cut != (dpo.Cut{}) {
			a.say("longer than dpo.max_length: %d pairs were cut, %d of which nothing is left to learn were left out",
				r.Cut.Truncated, r.Cut.Dropped)
		}
		p.begin("dpo")
	}
	t.Step = func(_ dpo.Metrics, done, total int) { p.update(done, total) }
	t.Eval = func(e dpo.Evaluation) {
		best := ""
		if e.Best {
			best = ", the best so far"
		}
		a.say("step %d: held-out loss %.4f, accuracy %.3f, margin %.3f%s", e.Step, e.Loss, e.Accuracy,
			e.RewardsMargins, best)
	}
	p.begin("read model and pairs")
	r, err := standalone.Train(cmd.Context(), t)
	if err != nil {
		if _, none := os.Stat(o.out); none == nil && errors.Is(err, context.Canceled) {
			a.say("interrupted; go on with: popri dpo --resume --out %s", quote.Shell(o.out))
		}
		return err
	}
	if r.Done {
		p.stop()
		a.say("the training in %s is done; nothing was computed", o.out)
	} else {
		p.end()
	}
	if r.Stale != "" {
		a.say("reference log-probabilities were computed again: %s", r.Stale)
	}
	return a.emit(r, func(w io.Writer) { trainingTable(w, r) })
}

// trainingTable prints the metrics of the last step, under TRL's names.
func trainingTable(w io.Writer, r *standalone.Result) {
	for _, x := range []struct {
		name  string
		value float64
	}{{"loss", r.Last.Loss}, {"rewards/chosen", r.Last.RewardsChosen}, {"rewards/rejected", r.Last.RewardsRejected},
		{"rewards/margins", r.Last.RewardsMargins}, {"rewards/accuracies", r.Last.Accuracy},
		{"logps/chosen", r.Last.LogpsChosen}, {"logps/rejected", r.Last.LogpsRejected},
		{"grad_norm", r.Last.GradNorm}} {
		fmt.Fprintf(w, "%s\t%.5g\n", x.name, x.value)
	}
	if e := r.Eval; e != nil {
		fmt.Fprintf(w, "eval_loss\t%.5g\neval_rewards/margins\t%.5g\neval_rewards/accuracies\t%.5g\n", e.Loss,
			e.RewardsMargins, e.Accuracy)
	}
	of := ""
	if r.Eval != nil && r.Eval.Step != r.Steps {
		of = fmt.Sprintf("; eval_… and the adapter are of step %d, the best on held-out pairs", r.Eval.Step)
	}
	fmt.Fprintf(w, "train_loss\t%.5g\n\nthe last of %d steps on %d pairs, and the mean loss of all%s\n", r.Loss, r.Steps, r.Pairs, of)
	if !r.Done {
		fmt.Fprintf(w, "time:    %s\n", time.Duration(r.Seconds*float64(time.Second)).Round(10*time.Millisecond))
	}
	fmt.Fprintf(w, "adapter: %s\nmetrics: %s\n", r.Out, filepath.Join(r.Out, preference.StepsFile))
}
