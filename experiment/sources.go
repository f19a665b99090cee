package experiment

import (
	"context"
	"fmt"

	"popri/datasets"
	"popri/downstream"
	"popri/method"
	"popri/methods"
	"popri/methods/target"
	"popri/run/evaluation"
	"popri/run/evaluator"
	"popri/sampling"
)

// keys are those of the table's rows between ε = 0 and ε = ∞. mixes has the public and written texts that the product was
// chosen from.
func (s *Session) keys(mixes []sampling.Row) []string {
	d := methods.Of(s.Config)
	keys := []string{evaluation.KeyUntuned}
	asked, _ := d.Query(s.Config)
	if mean, _ := target.Query(s.Config); asked == mean {
		keys = append(keys, evaluation.KeyUntunedWeighted)
	}
	keys = append(keys, d.Name)
	if public, written := parts(mixes); len(public) > 0 && len(written) > 0 {
		keys = append(keys, evaluation.KeyWritten, evaluation.KeySelected)
	}
	if evaluator.Classifies(s.Config) {
		return keys // ε = 0 learns from all public text
	}
	keys = append(keys, evaluation.KeyPublicAll)
	if len(s.Public.InDomain) > 0 {
		keys = append(keys, evaluation.KeyInDomain)
	}
	return keys
}

// source is a row's training text.
func (s *Session) source(ctx context.Context, key string, product, mixes []sampling.Row) (downstream.Source, error) {
	d := methods.Of(s.Config)
	public, written := parts(mixes)
	src := downstream.Source{Key: key}
	switch key {
	case evaluation.KeyUntuned, evaluation.KeyUntunedWeighted:
		untuned, err := s.untuned(ctx)
		if err != nil {
			return src, err
		}
		src.Name = "untuned model's text"
		if key == evaluation.KeyUntunedWeighted {
			src.Name += ", weighted"
			if untuned, err = s.weighted(untuned); err != nil {
				return src, fmt.Errorf("weights on the untuned model's text: %w", err)
			}
		}
		src = evaluator.Source(s.Config, key, src.Name, untuned)
	case d.Name:
		src.Name = fmt.Sprintf("%s's text (ε = %g)", d.Title, s.Config.Privacy.Epsilon)
		src = evaluator.Source(s.Config, key, src.Name, product)
	case evaluation.KeyWritten:
		src.Name = "what the tuned model wrote"
		src = evaluator.Source(s.Config, key, src.Name, written)
	case evaluation.KeySelected:
		src.Name = "its weighted public text"
		src = evaluator.Source(s.Config, key, src.Name, public)
	case evaluation.KeyPublicAll:
		name, err := s.allPublic()
		if err != nil {
			return src, err
		}
		src.Name, src.Texts = name, datasets.Strings(s.Public.Generator)
	case evaluation.KeyInDomain:
		src.Name, src.Texts = "real public text of the clients' domain", datasets.Strings(s.Public.InDomain)
	}
	return src, nil
}

// usualShare is the effective share of the untuned texts that weights leave where synthetic.kept names none.
const usualShare = 0.5

// weighted draws as many rows as there are from texts, by weights that bring their mean to the released one.
func (s *Session) weighted(texts []sampling.Row) ([]sampling.Row, error) {
	e := method.Env{Dir: s.Dir, Config: s.Config, Public: s.Public, Encoder: s.encoder}
	pool, err := target.Embed(e)
	if err != nil {
		return nil, err
	}
	t, err := target.Again(e, pool)
	if err != nil {
		return nil, err
	}
	share := s.Config.Synthetic.Kept
	if share == 1 {
		share = usualShare
	}
	out, _, err := t.Keep(s.encoder, texts, len(texts), share, s.Config.Seed)
	return out, err
}

// parts returns the public texts of a product and those that a model wrote.
func parts(product []sampling.Row) (public, written []sampling.Row) {
	for _, row := range product {
		if row.Finish == sampling.Public {
			public = append(public, row)
		} else {
			written = append(written, row)
		}
	}
	return public, written
}
