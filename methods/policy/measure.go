package policy

import (
	"context"
	"path/filepath"

	"popri/methods/rounds"
	"popri/model/embedding"
	"popri/trainer"
)

// afterFile has samples of the last round's adapters, which measure them where trainer.select is not "last".
const afterFile = "after.parquet"

// End ends a round: it saves the adapters and the moments of their optimizer, nil for none. Where trainer.select chooses
// among the rounds, it measures the adapters of the last one: on the samples that one more round would begin with, as many
// as in every other round, so that all distances have the same bias.
func (p *Policy) End(ctx context.Context, r *rounds.Round, optimizer *trainer.Optimizer) error {
	if err := p.save(r, optimizer); err != nil {
		return err
	}
	if p.Config.Trainer.Select == "last" || r.Number != p.Config.Trainer.Rounds {
		return nil
	}
	return r.Stage("measure", func(s rounds.Stage) error {
		prompts, err := p.prompts(r.Number + 1)
		if err != nil {
			return err
		}
		drawn, err := p.sample(ctx, s, p.Adapter, r.Number+1, prompts, filepath.Join(r.Dir, afterFile))
		if err != nil {
			return err
		}
		if p.Config.Trainer.Select == rounds.FID {
			vectors, err := embedding.InParts(ctx, p.Encoder, Candidates{Rows: drawn}.Texts(), s.Progress)
			if err != nil {
				return err
			}
			return p.NoteDistance(r, rounds.FID+rounds.After, vectors)
		}
		single, err := p.single()
		if err != nil {
			return err
		}
		distance, chance, err := single.distance(ctx, s, Candidates{Rows: drawn})
		if err != nil {
			return err
		}
		r.Figures.Set(rounds.Distance+rounds.After, distance)
		r.Figures.Set(rounds.Distance+rounds.After+rounds.Chance, chance)
		return nil
	})
}
