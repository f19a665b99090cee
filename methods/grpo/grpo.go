package grpo

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"

	"popri/configs"
	"popri/dpo/preference"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/policy"
	"popri/methods/rounds"
	"popri/show/series"
	"popri/trainer"
)

// Description describes the method.
var Description = policy.Describe(method.Description{
	Method: configs.Method{Name: "grpo"},
	Words: method.Words{Title: "GRPO", About: "trains the generator on all samples of a prompt by a group-relative " +
		"policy gradient"},
	Mixes:  true,
	New:    newMethod,
	Series: figures,
	Cost: func(c configs.Config) method.Cost {
		cost := policy.Cost(c)
		cost.Trained = cost.Samples * c.Optimizer.Epochs * (method.PromptTokens(c) + c.Generate.MaxNewTokens)
		return cost
	},
})

// spreadKey is the figure of the rewards' mean standard deviation within a prompt.
const spreadKey = "reward_std"

var figures = series.Set{
	Columns: slices.Concat([]series.Series{
		{Key: "reward", Name: "Reward", Format: series.Number, Decimals: 4},
		{Key: spreadKey, Name: "Reward deviation", Format: series.Number, Decimals: 4},
		{Key: "clip_ratio/region_mean", Name: "Clipped", Format: series.Percent, Decimals: 2},
		{Key: "entropy", Name: "Entropy", Format: series.Number, Decimals: 3},
	}, policy.Measured, []series.Series{
		{Key: "trained_on", Name: "Trained on", Format: series.Count},
	}),
	Plots: []series.Plot{
		{Title: "Distance of the means",
			Note:  "released distance of the samples from the clients' mean embedding; lower is nearer",
			Lines: []series.Line{{Key: rounds.Distance, Name: "distance"}}},
		policy.FrechetPlot,
		policy.MedoidPlot,
		{Title: "Entropy", Note: "of the next token, in nats; a fall means less varied text",
			Lines: []series.Line{{Key: "entropy", Name: "entropy"}}},
	},
}

// defaultMicro is the number of samples of a forward pass where the configuration states none.
const defaultMicro = 20

// Method runs the method.
type Method struct {
	*policy.Policy
	objective *objective
	schedule  trainer.Schedule
}

// newMethod makes the method.
func newMethod(e method.Env) (rounds.Method, error) {
	p, err := policy.New(e)
	return &Method{Policy: p}, err
}

// Close implements rounds.Method.
func (m *Method) Close() {
	m.free()
	m.Policy.Close()
}

func (m *Method) free() {
	if m.objective != nil {
		m.objective.optimizer.Free()
	}
}

// updates is the number of updates of a round.
func (m *Method) updates() int {
	o := m.Config.Optimizer
	return o.Epochs * ((m.Config.Generate.Prompts + o.Batch - 1) / o.Batch)
}

// Restore implements rounds.Method.
func (m *Method) Restore(round int) error {
	if err := m.Policy.Restore(round); err != nil {
		return err
	}
	params, err := m.Adapter.Trainable()
	if err != nil {
		return err
	}
	m.schedule = preference.Schedule(m.Config.Optimizer, m.updates()*m.Config.Trainer.Rounds)
	if err := m.schedule.Check(); err != nil {
		return err
	}
	m.Model.Recompute = m.Config.Optimizer.GradientCheckpointing
	m.free()
	m.objective = &objective{model: m.Model, adapter: m.Adapter,
		optimizer: trainer.NewOptimizer(params, preference.Optimizer(m.Config.Optimizer)),
		micro:     cmp.Or(2*m.Config.DPO.MicroPairs, defaultMicro)}
	if round == 0 {
		return nil
	}
	return m.objective.optimizer.Load(filepath.Join(rundir.Round(m.Dir, round), policy.OptimizerFile))
}

// Round implements rounds.Method.
func (m *Method) Round(ctx context.Context, r *rounds.Round) error {
	var list []group
	err := m.Begin(ctx, r, "advantages", func(c policy.Candidates, scores []float64) error {
		list = groups(c, scores, m.Config.Generate.Samples)
		return m.check(r, list)
	})
	if err != nil {
		return err
	}
	if err := r.Stage("grpo", func(s rounds.Stage) error { return m.tune(ctx, r, s, list) }); err != nil {
		return err
	}
	return m.End(ctx, r, m.objective.optimizer)
}

// check refuses samples that the model cannot take, and keeps the figures of the groups.
func (m *Method) check(r *rounds.Round, list []group) error {
	n, trained := float64(len(list)), 0
	for _, g := range list {
		r.Figures.Add("reward", g.reward/n)
		r.Figures.Add(spreadKey, g.deviation/n)
		trained += len(g.samples)
		for _, x := range g.samples {
			if err := m.Model.CheckTokens(append(g.prompt[:len(g.prompt):len(g.prompt)], x.tokens...)); err != nil {
				return err
			}
		}
	}
	r.Figures.Set("trained_on", float64(trained))
	return nil
}

// tune does the round's updates.
func (m *Method) tune(ctx context.Context, r *rounds.Round, stage rounds.Stage, list []group) (err error) {
	c, stream := m.Config, []string{"round", strconv.Itoa(r.Number), "grpo"}
	o := m.objective
	defer m.Model.Unpack() // what the training laid out
	if !c.CarriesMoments() {
		o.optimizer.Reset()
	}
	o.groups, o.record = list, record{Progress: trainer.Begun()}
	o.tokens = numeric.Sum(o.samples(), func(x *sample) int { return len(x.tokens) })
	if o.tokens == 0 {
		return errors.New("all samples are empty: there is none to train on")
	}
	epochs := &trainer.Epochs{Examples: len(list), Size: c.Optimizer.Batch, Order: func(iteration int) []int {
		return rng.New(c.Seed, append(stream[:3:3], strconv.Itoa(iteration))...).Perm(len(list))
	}}
	o.updates = c.Optimizer.Epochs * epochs.Updates()
	if m.schedule.Peak, err = m.Rate(r, func(r series.Round) float64 { return *r.Get(spreadKey) }); err != nil {
		return err
	}
	loop := trainer.Loop{Optimizer: o.optimizer, Objective: o, Batches: epochs, Schedule: m.schedule,
		Updates: o.updates, Checkpoint: trainer.Checkpoint{Path: filepath.Join(r.Dir, policy.TrainingFile)},
		Record: &o.record,
		OnUpdate: func(done int) error {
			r.Log("grpo_step", o.Steps[len(o.Steps)-1])
			stage.Progress(done, o.updates)
			return nil
		}}
	if err := loop.Run(ctx); err != nil {
		return err
	}
	steps := o.Steps
	r.Figures.Set("steps", float64(len(steps)))
	for _, s := range steps {
		n := float64(len(steps))
		for key, v := range map[string]float64{"loss": s.Loss, "entropy": s.Entropy, "grad_norm": s.GradNorm,
			"clip_ratio/region_mean": s.Clip} {
			r.Figures.Add(key, v/n)
		}
	}
	return rows.WriteLines(filepath.Join(r.Dir, preference.StepsFile), steps)
}
