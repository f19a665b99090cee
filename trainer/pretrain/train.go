package pretrain

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"popri/internal/fault"
	"popri/internal/rng"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/model/tokenizer"
	"popri/trainer"
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

// config is the model's.
func (o Options) config(vocab int, eot int32) lm.Config {
	return lm.Config{Type: "gpt2", Vocab: vocab, Context: o.Context, Hidden: o.Width, Layers: o.Layers, Heads: o.Heads,
		Inner: 4 * o.Width, NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, ScaleAttn: true, EOS: []int32{eot}}
}

// stepParts is the number of parts of a batch that are computed in parallel.
const stepParts = 2

// Stats describe a running or finished training.
type Stats struct {
	Step, Epoch    int
	Loss, HeldLoss float64 // nats a token; HeldLoss is the latest measured
	HeldAccuracy   float64 // fraction of held-out tokens predicted exactly
	TokensPerSec   float64
}

// Updates between two reports, and between two measurements of the held-out text.
const statsEvery, heldEvery = 50, 500

// run trains a GPT-2 model on the corpus. It calls each, if not nil, every statsEvery steps and at the end.
func run(ctx context.Context, c *Corpus, tok *tokenizer.Tokenizer, o Options, each func(Stats)) (*lm.Model, Stats, error) {
	if len(c.Train) == 0 || len(c.Held) == 0 {
		return nil, Stats{}, fault.Userf("the public text is too small: %d texts to train on and %d held out",
			len(c.Train), len(c.Held))
	}
	schedule := trainer.Schedule{Kind: "cosine_with_min_lr", Peak: o.LearningRate, Min: o.MinLearningRate,
		Warmup: o.Warmup, Total: o.Steps}
	if err := schedule.Check(); err != nil {
		return nil, Stats{}, err
	}
	normal := rng.New(o.Seed, "pretrain", "init")
	m, err := lm.New(o.config(tok.VocabSize(), c.eot), lm.Options{Weights: tensor.Float32, Compute: o.Compute},
		normal.NormFloat64)
	if err != nil {
		return nil, Stats{}, err
	}
	params, err := m.Trainable()
	if err != nil {
		m.Free()
		return nil, Stats{}, err
	}
	optimizer := trainer.NewOptimizer(params, trainer.AdamW{Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8,
		WeightDecay: o.WeightDecay, MaxNorm: 1})
	defer optimizer.Free()
	var st Stats
	smooth := 0.0
	stream := &stream{corpus: c, options: o}
	loop := trainer.Loop{Optimizer: optimizer, Batches: stream, Schedule: schedule, Updates: o.Steps,
		Objective: &trainer.NextToken{Model: m, Optimizer: optimizer, Rows: stream.rows,
			Parts: trainer.InParts(stepParts),
			Done: func(_ trainer.Update, loss float64) {
				smooth = cmp.Or(smooth, loss)
				smooth = 0.98*smooth + 0.02*loss
			}}}
	begun, held := time.Now(), c.heldRows(o.Context)
	err = tensor.Run(func(s *tensor.Scope) (err error) {
		loop.MeasureEvery = statsEvery
		loop.Measure = func(_ context.Context, done int) (bool, error) {
			st.Step, st.Epoch, st.Loss = done, stream.epoch, smooth
			st.TokensPerSec = float64(done*o.Batch*o.Context) / time.Since(begun).Seconds()
			if done%heldEvery == 0 || done == o.Steps {
				if st.HeldLoss, st.HeldAccuracy, err = m.Evaluate(s, held, nil, 8192, nil); err != nil {
					return false, err
				}
			}
			if each != nil {
				each(st)
			}
			return false, nil
		}
		loop.OnUpdate = func(done int) error {
			st.Step, st.Epoch = done, stream.epoch
			if o.Save == nil || o.SaveEvery == 0 || done%o.SaveEvery != 0 {
				return nil
			}
			return o.Save(m, st)
		}
		if err := loop.Run(ctx); err != nil {
			return fmt.Errorf("pretrain: %w", err)
		}
		return nil
	})
	if err != nil {
		m.Free()
		return nil, st, err
	}
	return m, st, nil
}
