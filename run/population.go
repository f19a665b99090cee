package run

import (
	"cmp"
	"context"

	"popri/configs"
	"popri/datasets/clients"
	"popri/eval/downstream"
	"popri/fedsim"
	"popri/fedsim/local"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/lora"
	"popri/methods"
	"popri/methods/method"
	"popri/model/embedding"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tensor"
	"popri/run/assembly"
	"popri/run/federated"
	"popri/scoring/query"
	"popri/scoring/update"
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
	d := methods.Of(c)
	needs := d.Needs(c)
	if evaluates := o.Resume && o.Evaluates; !evaluates && c.Fed.Elsewhere() != (o.Aggregators != nil) {
		return population{}, fault.Userf("two aggregators are given: %v; fed.clients is %d, which needs them: %v",
			o.Aggregators != nil, c.Fed.Clients, c.Fed.Elsewhere())
	}
	switch {
	case d.Releases(c) == 0: // nobody is asked, so no text is read
		return population{Clients: fedsim.Embedded{Clients: query.Clients{
			Means: query.Means{Clients: s.budget.Clients}}}}, nil
	case c.Fed.Elsewhere():
		return population{Clients: fedsim.Remote{Enrolled: s.budget.Clients, Ask: federated.Gather(ctx, s.Dir, c, s.Sigma,
			s.budget.Clients, s.encoder, o.Aggregators, o.Announced)}}, nil
	case needs.Counts:
		_, rows, err := rowsOf(c)
		return population{Clients: fedsim.Counting{Counter: local.NewCounter(s.Data.Private.Split(clients.Train),
			rows.Encode)}}, err
	case needs.Small:
		return s.learners(ctx, o.Common, tell)
	case needs.Teachers != nil:
		return s.voters(ctx, *needs.Teachers)
	}
	var classes []string
	if needs.Labels {
		classes = append([]string{}, s.Data.Public.Classes()...)
	}
	all, err := o.Common.Embedded(ctx, s.Data.Private.Split(clients.Train), s.encoder, needs.Texts, classes, tell)
	embedded := fedsim.Embedded{Clients: all}
	switch {
	case d.Selection(c) != nil:
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

// small is the small model of a method that trains it at the clients.
func (s *Session) small(ctx context.Context) (*method.Small, error) {
	dir, rows, err := rowsOf(s.Config)
	if err != nil {
		return nil, err
	}
	model := s.trained()
	if model.Folder, err = lm.Identity(dir); err != nil {
		return nil, err
	}
	m := &method.Small{Dir: dir, Model: model, Open: parts(dir, model, s.Config.Model.DType), Encode: rows.Encode,
		After: rows.After, Tokenizer: rows.Tokenizer}
	texts, vectors := clients.Texts(s.Data.Private.Split(clients.Validation)), embedding.Matrix{}
	if s.topics != nil {
		if vectors, err = embedding.InParts(ctx, s.encoder, texts, nil); err != nil {
			return nil, err
		}
	}
	validation, err := s.encoded(rows, texts, vectors)
	if err != nil {
		return nil, err
	}
	if len(validation) > 0 {
		m.Validate = func(p *lora.Part) (loss, accuracy float64, err error) {
			return downstream.Measure(p.Model, p.Passes(), validation)
		}
		m.Predict = func(p *lora.Part, use func(before, next int32, logits []float32)) error {
			o := downstream.Options{Measured: s.Config.Downstream.Training().Measured, Seed: s.Config.Seed}
			return downstream.Predict(p.Model, validation, o, use)
		}
	}
	return m, nil
}

// learners opens the small model once for each thread, with the train clients' texts as rows of tokens, and returns
// them. With topics, a text's row has its topic's keywords, and the clients can answer for their embeddings, too.
func (s *Session) learners(ctx context.Context, common *assembly.Common, tell func(done, total int)) (population, error) {
	dir, rows, err := rowsOf(s.Config)
	if err != nil {
		return population{}, err
	}
	train := clients.Sorted(s.Data.Private.Split(clients.Train)) // as [fedsim.Tree] wants them, whatever the file's order
	var embedded query.Clients
	if s.topics != nil {
		if embedded, err = common.Embedded(ctx, train, s.encoder, true, nil, tell); err != nil {
			return population{}, err
		}
	}
	left, err := s.encoded(rows, clients.Texts(train), embedded.Texts)
	if err != nil {
		return population{}, err
	}
	all := make([][]lm.Row, len(train))
	for i, client := range train {
		n := len(client.Texts)
		all[i], left = left[:n], left[n:]
	}
	learner, err := local.NewLearners(ctx, all, parts(dir, s.trained(), s.Config.Model.DType))
	if err != nil {
		return population{}, err
	}
	learning := fedsim.Learning{Learner: learner}
	p := population{learning, learner.Close}
	if s.Config.Aggregate.Least > 0 {
		p.Clients = assembly.Reporting(s.Config, learning)
	}
	if s.topics != nil {
		p.Clients = fedsim.Several{fedsim.Embedded{Clients: embedded}, p.Clients}
	}
	return p, nil
}

// encoded gives texts with these vectors as rows: with topics, behind their topics' keywords.
func (s *Session) encoded(e downstream.Encoder, texts []string, vectors embedding.Matrix) ([]lm.Row, error) {
	if s.topics == nil || len(texts) == 0 {
		return e.Encode(texts), nil
	}
	lines, err := s.topics.Lines(vectors)
	if err != nil {
		return nil, err
	}
	return e.After(lines, texts), nil
}

// trained is what clients train of the small model, in whatever folder that is.
func (s *Session) trained() update.Model {
	c := s.Config
	return update.Model{Rank: methods.Of(c).Needs(c).Rank, Adapter: rng.Seed(c.Seed, "clients", "adapter"),
		Rows: c.Downstream.Training().Rows, Length: c.Downstream.Length}
}

// parts opens what clients train of the small model in dir: all weights, in float32, or an adapter, with passes of the
// type that dtype names. Adapters that are opened after the first share its model.
func parts(dir string, model update.Model, dtype string) func() (*lora.Part, error) {
	var first *lora.Part
	return func() (*lora.Part, error) {
		if first != nil && model.Rank > 0 {
			return first.Another()
		}
		o := lm.Options{Weights: tensor.Float32, Compute: tensor.Float32}
		if model.Rank > 0 {
			o.Compute = assembly.ComputeType(dtype)
		}
		m, err := lm.Load(dir, o)
		if err != nil {
			return nil, err
		}
		if model.Rank == 0 {
			first, err = lora.Whole(m)
		} else if err = m.Freeze(); err == nil {
			first, err = lora.Ups(m, model.Rank, model.Adapter)
		}
		if err != nil {
			m.Free()
		}
		return first, err
	}
}

// voters makes the train clients teachers, whose prompts quote their texts as the method's prompts quote public ones,
// and returns them.
func (s *Session) voters(ctx context.Context, of method.Teachers) (population, error) {
	train := s.Data.Private.Split(clients.Train)
	n := cmp.Or(of.Number, len(train))
	if n > len(train) {
		return population{}, fault.Userf("%s is %d, must be at most the %d train clients", of.Key, n, len(train))
	}
	// How long prompts can be is public: the words around the examples, the examples with some slack, as far as the
	// model has room.
	g := s.Config.Generate
	around, err := s.prompter.Quoting("", make([]string, of.Examples), "")
	if err != nil {
		return population{}, err
	}
	width := min(len(around.IDs)+of.Examples*(s.Config.Data.MaxTokens+2), s.generator.Context-g.MaxNewTokens)
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
	voting, err := local.NewTeachers(ctx, train, s.generator.Model, local.TeacherOptions{Teachers: n, Examples: of.Examples,
		Seed: rng.Seed(s.Config.Seed, s.Config.Method), Room: g.MaxNewTokens, Width: width, Prompt: prompt,
		CacheBytes: of.CacheBytes})
	return population{fedsim.Teachers{Ensemble: voting}, voting.Close}, err
}
