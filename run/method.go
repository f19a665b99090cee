package run

import (
	"errors"

	"popri/configs"
	"popri/datasets/ceiling"
	"popri/datasets/clients"
	"popri/datasets/kinds"
	"popri/internal/fault"
	"popri/methods"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/sampling/vllm"
	"popri/model/embedding"
	"popri/run/assembly"
)

// newMethod makes the method that the configuration names.
func (s *Session) newMethod(common *assembly.Common, tell func(done, total int)) (rounds.Method, error) {
	reference, err := common.Reference(s.Data.Private, embedding.Sentence(s.encoder), tell)
	if err != nil {
		return nil, err
	}
	c, d := s.Config, methods.Of(s.Config)
	if d.Check != nil {
		if err := d.Check(c, reference != nil); err != nil {
			return nil, fault.Userf("%w", err)
		}
	}
	prompts := c.Generate
	if prompts.Chat {
		if prompts, err = sampling.Chat(prompts, s.generator.Dir, s.generator.Tokenizer); err != nil {
			return nil, err
		}
	}
	s.prompter, err = sampling.NewPrompter(s.generator.Tokenizer, prompts, c.Data, s.Data.Public.Prompts,
		s.generator.Model.Config.Context, c.Generate.MaxNewTokens)
	if err == nil && c.Generate.Chat {
		s.prompter.Turns, err = sampling.Turns(s.generator.Dir, s.generator.Tokenizer)
	}
	if errors.Is(err, sampling.ErrTooFewPrompts) {
		return nil, fault.Userf("data.public: %s: %w", s.Data.Public.Name, err)
	}
	if err != nil {
		return nil, err
	}
	if c.SelectsBy() == rounds.FID && reference == nil {
		return nil, fault.Userf("trainer.select is \"fid\", and %s has no validation clients to choose by",
			s.Data.Private.Name)
	}
	if c.SelectsBy() == configs.ValidationLoss && reference == nil {
		return nil, fault.Userf("trainer.select is %q, and %s has no validation clients to choose by", c.Trainer.Select,
			s.Data.Private.Name)
	}
	if d.ChoosesMix(c) && reference == nil {
		return nil, fault.Userf("synthetic.mix is \"validated\", and %s has no validation clients to choose by",
			s.Data.Private.Name)
	}
	var unprotected *ceiling.Texts
	if c.Privacy.UnsafeCeiling {
		unprotected = ceiling.Of(clients.Texts(s.Data.Private.Split(clients.Train)))
	}
	var asking []string
	if c.Generate.Kinds != "" {
		if asking, err = kinds.Read(c.Generate.Kinds); err != nil {
			return nil, err
		}
	}
	s.engine = s.server()
	e := method.Env{Ceiling: unprotected, Engine: s.engine, Dir: s.Dir, Config: c,
		Model: s.generator.Model, ModelDir: s.generator.Dir, Tokenizer: s.generator.Tokenizer,
		Public: s.Data.Public, Prompter: s.prompter, Writer: sampling.Writer{Config: c.Generate}, Encoder: s.encoder,
		Kinds:     asking,
		Reference: reference}
	if c.FillsMasks() {
		if e.MaskedDir, err = assembly.ModelDir(c.PrivateEvolution.MaskedModel, ""); err != nil {
			return nil, fault.Userf("private_evolution.masked_model: %w", err)
		}
	}
	if c.Learns() {
		if err := s.learning(&e); err != nil {
			return nil, err
		}
	}
	e.Clients = s.budget.Clients
	return d.New(e)
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
