package run

import (
	"cmp"
	"context"

	"popri/configs"
	"popri/datasets/clients"
	"popri/eval/downstream"
	"popri/fedsim"
	"popri/fedsim/local"
	"popri/fedsim/teachers"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/methods"
	"popri/methods/method"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tensor"
	"popri/run/assembly"
	"popri/run/federated"
)

// population are the train clients, and what they hold in memory.
type population struct {
	fedsim.Clients
	release func() // nil for nothing
}

// Close releases what the clients hold.
func (p population) Close() {
	if p.release != nil {
		p.release()
	}
}

// population makes the train clients: those behind two aggregators, or the simulation of those that the method asks.
func (s *Session) population(ctx context.Context, o Options, tell func(done, total int)) (population, error) {
	c := s.Config
	if c.Fed.Elsewhere() != (o.Aggregators != nil) {
		return population{}, fault.Userf("two aggregators are given: %v; fed.clients is %d, which needs them: %v",
			o.Aggregators != nil, c.Fed.Clients, c.Fed.Elsewhere())
	}
	switch {
	case c.Fed.Elsewhere():
		return population{Clients: fedsim.Remote{Enrolled: s.budget.Clients, Ask: federated.Gather(ctx, s.Dir, c, s.Sigma,
			s.budget.Clients, s.encoder, o.Aggregators, o.Announced)}}, nil
	case c.Learns():
		return s.learners(ctx)
	case c.Votes():
		return s.voters(ctx)
	}
	d := methods.Of(c)
	var classes []string
	if d.NeedsLabels {
		classes = append([]string{}, s.Data.Public.Classes()...)
	}
	all, err := o.Common.Embedded(ctx, s.Data.Private.Split(clients.Train), s.encoder, d.NeedsTextsOf(c), classes, tell)
	embedded := fedsim.Embedded{Clients: all}
	switch {
	case c.Selects():
		return population{Clients: fedsim.Ballots{Embedded: embedded}}, err
	case c.Aggregate.Least > 0:
		return population{Clients: assembly.Reporting(c, embedded)}, err
	}
	return population{Clients: embedded}, err
}

// rowsOf encodes texts as the evaluation of the small model does: downstream.recipe and length decide.
func rowsOf(c configs.Config) (dir string, e downstream.Encoder, err error) {
	if dir, err = assembly.ModelDir(c.Downstream.Model, shipped.Device); err != nil {
		return dir, e, err
	}
	e, err = downstream.OpenEncoder(dir, c.Downstream.Training().Rows, c.Downstream.Length)
	return dir, e, err
}

// learning adds to a method's environment what methods need that train the small model at the clients.
func (s *Session) learning(e *method.Env) error {
	dir, rows, err := rowsOf(e.Config)
	if err != nil {
		return err
	}
	e.SmallDir = dir
	validation := rows.Encode(clients.Texts(s.Data.Private.Split(clients.Validation)))
	if len(validation) > 0 {
		e.Validate = func(m *lm.Model) (loss, accuracy float64, err error) { return downstream.Measure(m, validation) }
	}
	return nil
}

// learners opens the small model once for each thread, beside the train clients' texts as rows of tokens, and returns
// them.
func (s *Session) learners(ctx context.Context) (population, error) {
	dir, rows, err := rowsOf(s.Config)
	if err != nil {
		return population{}, err
	}
	learner, err := local.New(ctx, s.Data.Private.Split(clients.Train), rows.Encode, func() (*lm.Model, error) {
		return lm.Load(dir, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
	})
	return population{fedsim.Learning{Learner: learner}, learner.Close}, err
}

// voters makes the train clients teachers, whose prompts quote their texts as those of the method quote public ones,
// and returns them.
func (s *Session) voters(ctx context.Context) (population, error) {
	train := s.Data.Private.Split(clients.Train)
	n := cmp.Or(s.Config.HotPATE.Teachers, len(train))
	if n > len(train) {
		return population{}, fault.Userf("hot_pate.teachers is %d, must be at most the %d train clients", n, len(train))
	}
	// How long prompts can be is public: the words around so many texts, the texts with some slack, as far as the model
	// has room.
	h, g := s.Config.HotPATE, s.Config.Generate
	around, err := s.prompter.Quoting("", make([]string, h.Examples), "")
	if err != nil {
		return population{}, err
	}
	width := min(len(around.IDs)+h.Examples*(s.Config.Data.MaxTokens+2),
		s.generator.Model.Config.Context-g.MaxNewTokens)
	prompt := func(texts []string) ([]int32, error) {
		for i, text := range texts {
			texts[i] = s.prompter.Cut(text)
		}
		for ; len(texts) > 0; texts = texts[1:] {
			if p, err := s.prompter.Quoting("", texts, ""); err != nil || len(p.IDs) <= width {
				return p.IDs, err
			}
		}
		return nil, nil
	}
	voting, err := teachers.New(ctx, train, s.generator.Model, teachers.Options{Teachers: n, Examples: h.Examples,
		Seed: rng.Seed(s.Config.Seed, "hot_pate"), Room: g.MaxNewTokens, Width: width, Prompt: prompt,
		CacheBytes: int64(h.CacheGiB) << 30})
	return population{fedsim.Teachers{Ensemble: voting}, voting.Close}, err
}
