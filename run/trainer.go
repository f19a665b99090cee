package run

import (
	"errors"

	"popri/assembly"
	"popri/datasets/clients"
	"popri/internal/fault"
	"popri/method"
	"popri/methods"
	"popri/sampling"
	"popri/sampling/vllm"
	"popri/trainer"
)

// newTrainer makes the method and its trainer, without clients yet.
func (s *Session) newTrainer() (*trainer.Trainer, error) {
	reference, err := assembly.ValidationReference(s.Data.Private, s.encoder)
	if err != nil {
		return nil, err
	}
	c, d := s.Config, methods.Of(s.Config)
	if d.Check != nil {
		if err := d.Check(c, reference != nil); err != nil {
			return nil, fault.Userf("%w", err)
		}
	}
	s.prompter, err = sampling.NewPrompter(s.generator.Tokenizer, c.Generate, c.Data, s.Data.Public.Prompts,
		s.generator.Model.Config.Context,
		max(c.Generate.MaxNewTokens, c.Synthetic.MaxNewTokens))
	if errors.Is(err, sampling.ErrTooFewPrompts) {
		return nil, fault.Userf("data.public: %s: %w", s.Data.Public.Name, err)
	}
	if err != nil {
		return nil, err
	}
	var ceiling []string
	if c.Privacy.UnsafeCeiling {
		ceiling = clients.Texts(s.Data.Private.Split(clients.Train))
	}
	s.engine = s.server()
	m, err := d.New(method.Env{Ceiling: ceiling, Engine: s.engine, Dir: s.Dir, Config: c,
		Model: s.generator.Model, ModelDir: s.generator.Dir, Tokenizer: s.generator.Tokenizer,
		Public: s.Data.Public, Prompter: s.prompter, Writer: sampling.Writer{Config: c.Generate}, Encoder: s.encoder,
		Reference: reference})
	if err != nil {
		return nil, err
	}
	o := trainer.Options{Dir: s.Dir, Rounds: d.RoundsOf(c), Nearest: c.Trainer.Select == "distance", Method: m}
	if d.ChoosesMix(c) {
		if reference == nil {
			return nil, fault.Userf("synthetic.mix is \"validated\", and %s has no validation clients to choose by", s.Data.Private.Name)
		}
		o.Choose = s.chooseMix
	}
	return trainer.New(o), nil
}

// server describes the server that draws samples; nil where this program does.
func (s *Session) server() *vllm.Server {
	url := s.Config.Generate.Server()
	if url == "" {
		return nil
	}
	server := vllm.New(url)
	server.Stops = s.prompter.Stops()
	server.Loaded = func(p vllm.Proof) {
		if log := s.trainer.Events.Log; log != nil {
			log("engine", 0, p)
		}
	}
	return server
}
