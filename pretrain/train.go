package pretrain

import (
	"context"
	"fmt"
	"time"

	"popri/internal/fault"
	"popri/internal/rng"
	"popri/lm"
	"popri/optim"
	"popri/tensor"
	"popri/tokenizer"
)

// Options are the size of the model and of its training.
type Options struct {
	Layers, Width, Heads, Context int
	Batch                         int // rows of Context tokens in a step
	Steps                         int
	LearningRate, MinLearningRate float64
	Warmup                        int // steps
	WeightDecay                   float64
	Seed                          uint64
	Compute                       tensor.DType // type of activations; weights and optimizer are float32
	// Save, where not nil, is called with the model every SaveEvery steps.
	Save      func(*lm.Model, Stats) error
	SaveEvery int
}

// stepParts is the number of parts of a batch that are computed in parallel.
const stepParts = 2

// Stats describe a running or finished training.
type Stats struct {
	Step, Epoch    int
	Loss, HeldLoss float64 // nats a token; HeldLoss is the latest measured
	HeldAccuracy   float64 // share of held-out tokens predicted exactly
	TokensPerSec   float64
}

// Run trains a GPT-2 model on the corpus. It calls each, if not nil, every 50 steps and at the end.
func Run(ctx context.Context, c *Corpus, tok *tokenizer.Tokenizer, o Options,
	each func(Stats)) (*lm.Model, Stats, error) {
	if len(c.Train) == 0 || len(c.Held) == 0 {
		return nil, Stats{}, fault.Userf("the public text is too small: %d texts to train on and %d held out", len(c.Train),
			len(c.Held))
	}
	schedule := optim.Schedule{Kind: "cosine_with_min_lr", Peak: o.LearningRate, Min: o.MinLearningRate,
		Warmup: o.Warmup, Total: o.Steps}
	if err := schedule.Check(); err != nil {
		return nil, Stats{}, err
	}
	normal := rng.New(o.Seed, "pretrain", "init")
	m, err := lm.New(lm.Config{Type: "gpt2", Vocab: tok.VocabSize(), Context: o.Context, Hidden: o.Width,
		Layers: o.Layers, Heads: o.Heads,
		Inner: 4 * o.Width, NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, ScaleAttn: true, EOS: []int32{c.eot}},
		lm.Options{Weights: tensor.Float32, Compute: o.Compute}, normal.NormFloat64)
	if err != nil {
		return nil, Stats{}, err
	}
	params, err := m.Trainable()
	if err != nil {
		m.Free()
		return nil, Stats{}, err
	}
	t := lm.NewOptimizer(params, lm.OptimizerOptions{Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8,
		WeightDecay: o.WeightDecay, MaxNorm: 1})
	defer t.Free()
	held := c.heldRows(o.Context)
	var rows []lm.Row
	var st Stats
	begun, smooth := time.Now(), 0.0
	err = tensor.Run(func(s *tensor.Scope) error {
		for st.Step = 0; st.Step < o.Steps; st.Step++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			for len(rows) < o.Batch {
				more := c.epoch(rng.New(o.Seed, "pretrain", "epoch", fmt.Sprint(st.Epoch)), o.Context)
				if len(more) == 0 {
					return fault.Userf("the public text to train on has %d tokens, which fill no row of %d", c.Tokens(), o.Context)
				}
				rows = append(rows, more...)
				st.Epoch++
			}
			loss, _, err := t.StepParts(m, nil, rows[:o.Batch], stepParts, schedule.At(st.Step))
			if err != nil {
				return fmt.Errorf("pretrain: step %d: %w", st.Step, err)
			}
			rows = rows[o.Batch:]
			if smooth == 0 {
				smooth = loss
			}
			smooth = 0.98*smooth + 0.02*loss
			if (st.Step+1)%50 == 0 || st.Step+1 == o.Steps {
				st.Loss = smooth
				st.TokensPerSec = float64((st.Step+1)*o.Batch*o.Context) / time.Since(begun).Seconds()
				if (st.Step+1)%500 == 0 || st.Step+1 == o.Steps {
					if st.HeldLoss, st.HeldAccuracy, err = m.Evaluate(s, held, 8192); err != nil {
						return err
					}
				}
				if each != nil {
					now := st
					now.Step++
					each(now)
				}
			}
			if o.Save != nil && o.SaveEvery > 0 && (st.Step+1)%o.SaveEvery == 0 {
				if err := o.Save(m, st); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		m.Free()
		return nil, st, err
	}
	return m, st, nil
}
