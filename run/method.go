package run

import (
	"context"
	"errors"
	"fmt"

	"popri/configs"
	"popri/datasets"
	"popri/eval/downstream"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/methods"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/sampling/vllm"
	"popri/model/embedding"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/run/assembly"
	"popri/scoring"
)

// newMethod makes the method that the configuration names.
func (s *Session) newMethod(ctx context.Context, common *assembly.Common, tell func(done, total int)) (rounds.Method, error) {
	reference, err := common.Reference(ctx, s.Data.Private, embedding.Sentence(s.encoder), tell)
	if err != nil {
		return nil, err
	}
	c, d := s.Config, methods.Of(s.Config)
	prompts := c.Generate
	if prompts.Chat {
		if prompts, err = sampling.Chat(prompts, s.generator.Dir, s.generator.Tokenizer); err != nil {
			return nil, err
		}
	}
	s.prompter, err = sampling.NewPrompter(s.generator.Tokenizer, prompts, c.Data, s.Data.Public.Prompts,
		s.generator.Context, c.Generate.MaxNewTokens)
	if err == nil && c.Generate.Chat {
		s.prompter.Turns, err = sampling.Turns(s.generator.Dir, s.generator.Tokenizer)
	}
	if errors.Is(err, sampling.ErrTooFewPrompts) {
		return nil, fault.Userf("data.public: %s: %w", s.Data.Public.Name, err)
	}
	if err != nil {
		return nil, err
	}
	if by := c.SelectsBy(); reference == nil && (by == rounds.FID || by == configs.ValidationLoss) {
		return nil, fault.Userf("trainer.select is %q, and %s has no validation clients to choose by", c.Trainer.Select,
			s.Data.Private.Name)
	}
	if d.ChoosesMix(c) && reference == nil {
		return nil, fault.Userf("synthetic.mix is \"validated\", and %s has no validation clients to choose by",
			s.Data.Private.Name)
	}
	s.engine = s.server()
	given, err := s.given(ctx, d.Needs(c))
	if err != nil {
		return nil, err
	}
	return d.New(method.Env{Dir: s.Dir, Config: c, Model: s.generator.Model, ModelDir: s.generator.Dir,
		Tokenizer: s.generator.Tokenizer, Public: s.Data.Public, Prompter: s.prompter,
		Writer: sampling.Writer{Config: c.Generate}, Engine: s.engine, Encoder: s.encoder, Clients: s.budget.Clients,
		Reference: reference, Likelihoods: s.likelihoods, Given: given})
}

// likelihoods are the mean log-likelihoods of texts under the small model in dir, in rows as the configuration's small
// model is trained on.
func (s *Session) likelihoods(ctx context.Context, dir string, texts []string, tell func(done, total int)) ([]float64,
	error) {
	c := s.Config
	c.Downstream.Model = dir
	dir, rows, err := rowsOf(c)
	if err != nil {
		return nil, err
	}
	m, err := lm.Load(dir, lm.Options{Weights: tensor.Float32, Compute: assembly.ComputeType(c.Model.DType)})
	if err != nil {
		return nil, err
	}
	defer m.Free()
	return downstream.Likelihoods(ctx, m, rows, texts, tell)
}

// given is what a method needs besides what all methods have.
func (s *Session) given(ctx context.Context, needs method.Needs) (g method.Given, err error) {
	if needs.Kinds && s.Config.Generate.Kinds != "" {
		if g.Kinds, err = datasets.ReadKinds(s.Config.Generate.Kinds); err != nil {
			return g, err
		}
	}
	if needs.Topics {
		if s.topics, err = s.newTopics(ctx); err != nil {
			return g, err
		}
	}
	g.Topics = s.topics
	if needs.Small {
		g.Small, err = s.small(ctx)
	}
	return g, err
}

// newTopics divides public texts, drawn by the seed, into topics.
func (s *Session) newTopics(ctx context.Context) (*scoring.Topics, error) {
	public, random, n := s.Data.Public, rng.New(s.Config.Seed, "topics"), s.budget.Clients
	drawn := random.Perm(len(public.Prompts))[:min(len(public.Prompts), scoring.TopicTexts(n))]
	texts := datasets.Strings(numeric.Pick(public.Prompts, drawn))
	vectors, err := embedding.InParts(ctx, s.encoder, texts, nil)
	if err != nil {
		return nil, err
	}
	t, err := scoring.NewTopics(texts, vectors, n,
		fmt.Sprintf("topics %d %d %s %s", s.Config.Seed, n, public.Hash(), embedding.Key(s.encoder)), random)
	return &t, err
}

// server describes the server that draws samples; nil where this program does.
func (s *Session) server() *vllm.Server {
	url := s.Config.Generate.Server()
	if url == "" {
		return nil
	}
	server := vllm.New(url)
	server.Stops = s.prompter.Stops()
	server.Loaded = func(p vllm.Proof) { s.runner.Events.Log("engine", 0, p) }
	return server
}
