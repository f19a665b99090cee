// Package ctcl is CTCL (Tan et al., ICML 2025, arXiv 2503.12347) in a federated form: the small model learns at the clients
// to write behind keywords of topics, and writes as much of each topic as the clients have.
//
//	public     centroids and keywords of topics, clusters of public texts       scoring.Topics
//	           the small model learns public texts behind their keywords
//	round 1    client i: h_i = its texts over the topics, as fractions           scoring.NearestVotes, ‖h_i‖₂ ≤ 1
//	           count(t) = max(0, Σ_i h_i(t) + N(0, σ²))
//	round 2…   clients train on "Keywords: a, b, c\n" and a text; the first line
//	           is no part of the loss                                            package fedavg
//	set        n · count(t)/Σ count texts behind the keywords of each topic t
//
// The paper has a server with all texts, protects single texts, and trains a model of 140 million parameters that 430
// million pairs of a description and a text prepared. Here, the public texts of the run prepare the small model, in
// downstream.steps updates.
package ctcl

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/gonum/floats"

	"popri/datasets"
	"popri/fedsim/release"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rundir"
	"popri/methods/fedavg"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/target"
	"popri/model/embedding"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/scoring"
	"popri/trainer"
)

// Method is the training at the clients, behind a round that counts topics.
type Method struct {
	method.Env
	learner *fedavg.Method
	topics  scoring.Topics
	counts  []float64 // released, of each topic; nil before round 1
}

// newMethod opens the small model.
func newMethod(e method.Env) (rounds.Method, error) {
	m := &Method{Env: e, topics: *e.Given.Topics}
	shape, err := lm.Inspect(e.Given.Small.Dir)
	if err != nil {
		return nil, err
	}
	prompts := m.prompts(slices.Repeat([]int{1}, len(m.topics.Keywords)))
	longest := numeric.Greatest(prompts, func(p sampling.Prompt) int { return len(p.IDs) })
	if room := shape.Config.Context - longest; e.Config.Downstream.Length > room {
		return nil, fault.Userf("downstream.length is %d, must be %d at most where method is \"ctcl\": a row has up to %d tokens "+
			"before a text, and %s takes %d", e.Config.Downstream.Length, room, longest, e.Given.Small.Dir, shape.Config.Context)
	}
	m.learner, err = fedavg.New(e, 1)
	return m, err
}

// Close implements rounds.Method.
func (m *Method) Close() { m.learner.Close() }

// beginning has the weights after the training on public texts, in the folder of round 1.
const beginning = "public.safetensors"

// Restore implements rounds.Method.
func (m *Method) Restore(round int) error {
	if m.counts = nil; round == 0 {
		return m.learner.Restore(0)
	}
	dir := rundir.Round(m.Dir, 1)
	weights, err := read(filepath.Join(dir, beginning))
	if err != nil {
		return err
	}
	answer, err := release.Read(filepath.Join(dir, release.File))
	if err != nil {
		return err
	}
	m.counts = answer.Sum[:len(m.topics.Keywords)]
	m.learner.Begin(weights)
	return m.learner.Restore(round)
}

// Round implements rounds.Method.
func (m *Method) Round(ctx context.Context, r *rounds.Round) error {
	if r.Number > 1 {
		return m.learner.Round(ctx, r)
	}
	file := filepath.Join(r.Dir, beginning)
	if err := r.Stage("learn public topics", func(s rounds.Stage) error { return m.prepare(ctx, s, file) }); err != nil {
		return err
	}
	q, err := m.topics.Question()
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	_, err = r.Collect(q)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	if err := m.Restore(1); err != nil {
		return err
	}
	shares := shares(m.counts)
	r.Figures.Set(keyTopics, float64(len(shares)))
	r.Figures.Set(keyLargest, slices.Max(shares))
	return m.learner.Measure(r, rounds.After)
}

// passes is the number of passes of an update on public texts, which threads share.
const passes = 8

// prepare trains the small model, or its adapter, on public texts behind their topics' keywords, as an evaluation trains it,
// and writes the weights to a file, unless that is there.
func (m *Method) prepare(ctx context.Context, s rounds.Stage, file string) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d, seed := m.Config.Downstream, m.Config.Seed
	texts := datasets.Strings(m.Public.Prompts)
	order := rng.New(seed, "ctcl", "public").Perm(len(texts))
	some := numeric.Pick(texts, order[:min(len(order), d.Steps*d.Batch)])
	vectors, err := embedding.InParts(ctx, m.Encoder, some, s.Progress)
	if err != nil {
		return err
	}
	lines, err := m.topics.Lines(vectors)
	if err != nil {
		return err
	}
	part, err := m.Given.Small.Open()
	if err != nil {
		return err
	}
	defer part.Free()
	params, err := part.Trainable()
	if err != nil {
		return err
	}
	examples, t := m.Given.Small.After(lines, some), d.Training()
	optimizer := trainer.NewOptimizer(params, trainer.UsualAdamW(t.WeightDecay, t.MaxGradNorm))
	defer optimizer.Free()
	loss := &trainer.NextToken{Model: part.Model, Adapter: part.Passes(), Optimizer: optimizer,
		Rows: trainer.InMemory(examples), Parts: trainer.InParts(passes)}
	loop := trainer.Loop{Optimizer: optimizer, Objective: loss, Updates: d.Steps,
		Batches: &trainer.Epochs{Examples: len(examples), Size: min(d.Batch, len(examples)),
			Order: func(epoch int) []int { return rng.New(seed, "ctcl", "epoch", strconv.Itoa(epoch)).Perm(len(examples)) }},
		Schedule: trainer.Schedule{Kind: t.Schedule, Peak: d.LearningRates[0], Warmup: int(t.Warmup * float64(d.Steps)),
			Total: d.Steps},
		Checkpoint: trainer.Checkpoint{Path: filepath.Join(filepath.Dir(file), "training.safetensors"), Every: time.Minute},
		OnUpdate:   func(done int) error { s.Progress(done, d.Steps); return nil }}
	if err := loop.Run(ctx); err != nil {
		return err
	}
	flat := part.Flat()
	weights := safetensors.FromFloat32("weights", []int64{int64(len(flat))}, flat)
	return cmp.Or(safetensors.Write(file, []safetensors.Tensor{weights}, nil), loop.Checkpoint.Remove())
}

// read reads the weights that prepare stored.
func read(file string) ([]float32, error) {
	f, err := safetensors.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, ok := f.Tensor("weights")
	if !ok {
		return nil, fault.Userf("%s holds no weights: restore it from a copy", file)
	}
	return t.Float32s()
}

// shares are the fractions of the synthetic set: counts below 0 are 0, and if all are, each topic has as much.
func shares(counts []float64) []float64 {
	out, sum := make([]float64, len(counts)), 0.0
	for i, c := range counts {
		out[i] = max(0, c)
		sum += out[i]
	}
	if sum == 0 {
		return shares(slices.Repeat([]float64{1}, len(counts)))
	}
	floats.Scale(1/sum, out)
	return out
}

// prompts are the beginnings of rows, behind which the model writes, each topic's as often as it has copies.
func (m *Method) prompts(copies []int) (out []sampling.Prompt) {
	for topic, n := range copies {
		line := m.topics.Line(topic)
		row := m.Given.Small.After([]string{line}, []string{""})[0]
		p := sampling.Prompt{Text: line, IDs: row.Tokens[:row.Shared], Kind: m.topics.Keywords[topic]}
		out = append(out, slices.Repeat([]sampling.Prompt{p}, n)...)
	}
	return out
}

// Product implements rounds.TextMethod.
func (m *Method) Product(ctx context.Context, s rounds.Stage, file string) (written []sampling.Row, err error) {
	c := m.Config
	longest := c.Downstream.Length - 1
	prompter, err := sampling.NewContinuing(m.Given.Small.Tokenizer, c.Generate, c.Data, longest, longest)
	if err != nil {
		return nil, err
	}
	prompts := m.prompts(target.Copies(shares(m.counts), c.Synthetic.Texts, 0.5))
	batch := sampling.Batch{Prompter: prompter, Prompts: prompts, Samples: 1, Temperature: c.Synthetic.Temperature,
		TopP: 1, MaxNew: longest, Seed: rng.Seed(c.Seed, "synthetic", "generate"), Label: "trained at the clients"}
	err = m.learner.Trained(func(small *lm.Model) error {
		written, err = m.Writer.Sample(ctx, small, batch, file, s.Progress)
		return err
	})
	return written, err
}
