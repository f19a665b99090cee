package run

import (
	"cmp"
	"context"

	"popri/datasets/clients"
	"popri/fedsim"
	"popri/fedsim/teachers"
	"popri/internal/fault"
	"popri/internal/rng"
)

// voters makes the train clients teachers, whose prompts quote their texts as those of the method quote public ones,
// and returns what makes them a federation.
func (s *Session) voters(ctx context.Context) (func(fedsim.Config) (*fedsim.Federation, error), error) {
	train := s.Data.Private.Split(clients.Train)
	n := cmp.Or(s.Config.HotPATE.Teachers, len(train))
	if n > len(train) {
		return nil, fault.Userf("hot_pate.teachers is %d, must be at most the %d train clients", n, len(train))
	}
	// How long prompts can be is public: the words around so many texts, the texts with some slack, as far as the model
	// has room.
	h, g := s.Config.HotPATE, s.Config.Generate
	around, err := s.prompter.Quoting("", make([]string, h.Examples), "")
	if err != nil {
		return nil, err
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
	s.teachers, err = teachers.New(ctx, train, s.generator.Model, teachers.Options{Teachers: n, Examples: h.Examples,
		Seed: rng.Seed(s.Config.Seed, "hot_pate"), Room: g.MaxNewTokens, Width: width, Prompt: prompt,
		CacheBytes: int64(h.CacheGiB) << 30})
	return func(f fedsim.Config) (*fedsim.Federation, error) { return fedsim.NewEnsemble(s.teachers, f) }, err
}
