package judging

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"popri/configs"
	"popri/eval/judge"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/internal/rundir"
	"popri/lora"
	"popri/methods/policy"
	"popri/methods/rounds"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/run/assembly"
)

// The attack on the tuned model takes some clients and some texts of each, so that it takes minutes.
const (
	attacked    = 200 // clients of each group
	attackedFor = 3   // texts of a client
)

// TunedModel is the name of the attack by the tuned model's likelihood.
const TunedModel = "texts that training made likelier"

// tuned scores clients by what training changed in the log-probability of a token of their texts: that of the model
// with the newest round's adapters, less that of the model without. nil for a run without adapters.
//
// Source: the likelihood ratio of Carlini et al., "Membership Inference Attacks From First Principles" (arXiv
// 2112.03570), with the model before training in place of models without the client.
func tuned(ctx context.Context, c configs.Config, dir string, in judge.Input) (*judge.Guess, error) {
	newest, err := rounds.Latest(dir)
	if err != nil || newest == 0 {
		return nil, err
	}
	folder := filepath.Join(rundir.Round(dir, newest), policy.AdapterDir)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err := assembly.SetDevice(c); err != nil {
		return nil, err
	}
	g, err := assembly.LoadGenerator(c)
	if err != nil {
		return nil, err
	}
	defer g.Model.Free()
	adapter, err := lora.Load(folder, g.Model)
	if err != nil {
		return nil, fault.User(err)
	}
	defer adapter.Free()
	prefix, _ := g.Tokenizer.Template()
	if end, ok := g.Tokenizer.EOS(); ok && len(prefix) == 0 { // a model needs a token to begin with
		prefix = []int32{end}
	}
	most := min(c.Data.MaxTokens, g.Model.Config.Context) - len(prefix)
	score := func(name string, list []judge.Client) (out []float64, err error) {
		order := rng.New(c.Seed, "judge", "tuned", name).Perm(len(list))
		order = order[:min(attacked, len(order))]
		for n, i := range order {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			var rows []lm.Row
			for _, text := range list[i].Texts[:min(attackedFor, len(list[i].Texts))] {
				if ids := g.Tokenizer.Encode(text); len(ids) > 0 {
					rows = append(rows, lm.NewRow(prefix, ids[:min(len(ids), most)]))
				}
			}
			if len(rows) == 0 {
				continue
			}
			gain, err := gained(g.Model, adapter, rows)
			if err != nil {
				return nil, err
			}
			out = append(out, gain)
			if in.Tell != nil {
				in.Tell("likelihood by the tuned model: "+name, n+1, len(order))
			}
		}
		return out, nil
	}
	guess := &judge.Guess{Name: TunedModel}
	if guess.Members, err = score("members", in.Members); err != nil {
		return nil, err
	}
	guess.Controls, err = score("controls", in.Controls)
	return guess, err
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
