package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"popri/dpo"
	"popri/experiment"
)

func (a *app) dpo() *cobra.Command {
	var flags configFlags
	var pairs, model, out string
	cmd := &cobra.Command{
		Use:   "dpo --pairs FILE --model DIR --out DIR",
		Short: "Train an adapter on preference pairs",
		Long: `Trains a LoRA adapter on preference pairs against the model without it, and writes it in PEFT's format. Pairs are JSON
lines of TRL's form, {"prompt": "…", "chosen": "…", "rejected": "…"}, or a run's pairs.parquet. The keys dpo.*, lora.* and
seed of the configuration apply. The metrics of each step, under TRL's names, go to steps.jsonl beside the adapter.

No privacy is involved: who owns the pairs must not mind what the adapter tells of them.`,
		Example: "  popri dpo --pairs pairs.jsonl --model gpt2 --out adapters/mine --set dpo.epochs=3\n  popri dpo --pairs runs/eps1/rounds/0001/pairs.parquet --out adapters/again --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if pairs == "" || out == "" {
				return usage(errors.New("dpo: --pairs and --out must name a file and a folder"))
			}
			if model != "" {
				flags.set = append(flags.set, "model.path="+model)
			}
			c, err := flags.load()
			if err != nil {
				return err
			}
			if a.threads > 0 {
				c.Model.Threads = a.threads
			}
			p := a.progress()
			r, err := experiment.Prefer(cmd.Context(), experiment.PreferOptions{Config: c, Pairs: pairs, Out: out,
				Prepared: func(n, steps int) {
					a.say("%d pairs, %d steps", n, steps)
					p.begin("dpo")
				},
				Step: func(m dpo.Metrics, total int) { p.update(m.Step, total) }})
			if err != nil {
				return err
			}
			p.end()
			return a.emit(r, func(w io.Writer) {
				for _, x := range []struct {
					name  string
					value float64
				}{{"loss", r.Last.Loss}, {"rewards/chosen", r.Last.RewardsChosen}, {"rewards/rejected", r.Last.RewardsRejected}, {"rewards/margins", r.Last.RewardsMargins},
					{"rewards/accuracies", r.Last.Accuracy}, {"logps/chosen", r.Last.LogpsChosen}, {"logps/rejected", r.Last.LogpsRejected}, {"grad_norm", r.Last.GradNorm}} {
					fmt.Fprintf(w, "%s\t%.5g\n", x.name, x.value)
				}
				fmt.Fprintf(w, "train_loss\t%.5g\n\nthe last of %d steps on %d pairs, and the mean loss of all; %s\nadapter: %s, metrics: %s\n", r.Loss, r.Steps, r.Pairs,
					time.Duration(r.Seconds*float64(time.Second)).Round(10*time.Millisecond), r.Out, filepath.Join(r.Out, experiment.StepsFile))
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&pairs, "pairs", "", "file of preference pairs, .jsonl or .parquet")
	cmd.Flags().StringVar(&model, "model", "", "Hugging Face folder, or embedded (default: the configuration's model.path)")
	cmd.Flags().StringVar(&out, "out", "", "folder of the adapter")
	return cmd
}
