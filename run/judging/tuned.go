package judging

import (
	"context"
	"path/filepath"

	"popri/configs"
	"popri/eval/downstream"
	"popri/eval/judge"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/internal/rundir"
	"popri/lora"
	"popri/methods/rounds"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tensor"
	"popri/run/assembly"
)

// An attack on a trained model takes some clients and some texts of each, so that it takes minutes.
const (
	attacked    = 200 // clients of each group
	attackedFor = 3   // texts of a client
)

// The attacks by what training changed in the log-probability of a token of a client's texts.
//
// Source: the likelihood ratio of Carlini et al., "Membership Inference Attacks From First Principles" (arXiv
// 2112.03570), with the model before training in place of models without the client.
const (
	TunedModel = "texts that training made likelier"
	SmallModel = "texts that are likelier by the small model"
)

// trained is a model before and after training.
type trained struct {
	name string // of the attack
	rows func(texts []string) []lm.Row
	// gained is the mean gain of a token's log-probability by training, nats.
	gained func(rows []lm.Row) (float64, error)
	free   func()
}

// guesses attack the models that a run has: the generator with the adapters that wrote the set, and the small model.
func guesses(ctx context.Context, c configs.Config, run string, in judge.Input) (list []judge.Guess, err error) {
	for _, open := range []func(c configs.Config, run string) (*trained, error){generator, small} {
		t, err := open(c, run)
		if err != nil {
			return nil, err
		}
		if t == nil {
			continue
		}
		guess, err := t.guess(ctx, c.Seed, in)
		t.free()
		if err != nil {
			return nil, err
		}
		list = append(list, guess)
	}
	return list, nil
}

func (t *trained) guess(ctx context.Context, seed uint64, in judge.Input) (g judge.Guess, err error) {
	g.Name = t.name
	if g.Members, err = t.score(ctx, seed, "members", in.Members, in.Tell); err == nil {
		g.Controls, err = t.score(ctx, seed, "controls", in.Controls, in.Tell)
	}
	return g, err
}

// score returns the gain of each client that is drawn and has a text.
func (t *trained) score(ctx context.Context, seed uint64, group string, list []judge.Client,
	tell func(stage string, done, total int)) (out []float64, err error) {
	order := rng.New(seed, "judge", "tuned", group).Perm(len(list))
	order = order[:min(attacked, len(order))]
	for n, i := range order {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		texts := list[i].Texts
		rows := t.rows(texts[:min(attackedFor, len(texts))])
		if len(rows) == 0 {
			continue
		}
		gain, err := t.gained(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, gain)
		if tell != nil {
			tell(t.name+": "+group, n+1, len(order))
		}
	}
	return out, nil
}

// generator is the run's generator without and with the adapters that wrote the set; nil for a run without adapters.
func generator(c configs.Config, run string) (*trained, error) {
	dir, err := rounds.Adapter(run)
	if err != nil || dir == "" {
		return nil, err
	}
	g, err := assembly.LoadGenerator(c)
	if err != nil {
		return nil, err
	}
	adapter, err := lora.Load(dir, g.Model)
	if err != nil {
		g.Model.Free()
		return nil, fault.User(err)
	}
	prefix, _ := g.Tokenizer.Template()
	if end, ok := g.Tokenizer.EOS(); ok && len(prefix) == 0 { // a model needs a token to begin with
		prefix = []int32{end}
	}
	most := min(c.Data.MaxTokens, g.Model.Config.Context) - len(prefix)
	t := &trained{name: TunedModel, free: func() { adapter.Free(); g.Model.Free() }}
	t.rows = func(texts []string) (rows []lm.Row) {
		for _, text := range texts {
			if ids := g.Tokenizer.Encode(text); len(ids) > 0 {
				rows = append(rows, lm.NewRow(prefix, ids[:min(len(ids), most)]))
			}
		}
		return rows
	}
	t.gained = func(rows []lm.Row) (float64, error) { return gained(g.Model, adapter, rows) }
	return t, nil
}

// gained is the mean gain of a token's log-probability by the adapter, nats.
func gained(m *lm.Model, adapter lm.Adapter, rows []lm.Row) (gain float64, err error) {
	err = tensor.Run(func(s *tensor.Scope) error {
		with, without := m.Score(s, rows, adapter, false).LogProbs, m.Score(s, rows, nil, false).LogProbs
		for i := range with {
			gain += float64(with[i]-without[i]) / float64(len(with))
		}
		return nil
	})
	return gain, err
}

// small is the small model before its training and the kept one; nil where none is kept, and for one that gives labels.
func small(c configs.Config, run string) (*trained, error) {
	if !rundir.Has(run, rundir.Small) || c.Downstream.Task == configs.Classification {
		return nil, nil
	}
	start, err := assembly.ModelDir(c.Downstream.Model, shipped.Device)
	if err != nil {
		return nil, err
	}
	encoder, err := downstream.OpenEncoder(start, c.Downstream.Training().Rows, c.Downstream.Length)
	if err != nil {
		return nil, fault.User(err)
	}
	o := lm.Options{Weights: tensor.Float32, Compute: assembly.ComputeType(c.Model.DType)}
	before, err := lm.Load(start, o)
	if err != nil {
		return nil, fault.User(err)
	}
	after, err := downstream.OpenTested(filepath.Join(run, rundir.Small), o)
	if err != nil {
		before.Free()
		return nil, fault.User(err)
	}
	t := &trained{name: SmallModel, rows: encoder.Encode, free: func() { before.Free(); after.Free() }}
	t.gained = func(rows []lm.Row) (float64, error) {
		was, _, err := downstream.Measure(before, nil, rows)
		if err != nil {
			return 0, err
		}
		is, _, err := after.Measure(rows)
		return was - is, err
	}
	return t, nil
}
