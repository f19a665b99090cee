package policy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"popri/internal/rows"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/model/embedding"
)

// Untrained writes the model's part of the synthetic set as it would be if no training had changed the model: the same
// draws of prompts, seeds and weights on texts. What the synthetic set is worth beyond it is what the training gained.
func (p *Policy) Untrained(ctx context.Context, s rounds.Stage, file string) (written []sampling.Row, err error) {
	form, err := p.form()
	if err != nil {
		return nil, err
	}
	parts := sampling.PartsOf(file) // anyone who finds the file removes what a kill left there
	prompter, err := p.untrainedPrompts(ctx, s, parts)
	if err != nil {
		return nil, err
	}
	err = p.WithSampler(nil, func(model sampling.Sampler) error {
		written, err = p.Writer.Set(ctx, model, prompter, p.Config.Synthetic, p.Config.Seed, "untrained",
			filepath.Join(parts, "all.parquet"), s.Progress)
		return err
	})
	if err != nil {
		return nil, err
	}
	if written, err = p.weighted(ctx, s, form.Style.Rows(written)); err != nil {
		return nil, err
	}
	if err := rows.Write(file, written); err != nil {
		return nil, err
	}
	return written, os.RemoveAll(parts)
}

// untrainedPrompts makes the prompts of [Policy.Untrained]. Where prompts quote scored samples, the untrained model
// writes its own, in as many rounds as the run has, and the run's one release scores them, which costs no privacy:
// samples of the trained model would pass on what training gained. Round 1's are the run's own, because no DPO step
// came before them. Where clients score each round's samples, nothing scores others, and the run's are quoted.
func (p *Policy) untrainedPrompts(ctx context.Context, s rounds.Stage, parts string) (*sampling.Prompter, error) {
	single, once := p.Feedback.(*Single)
	done, err := rounds.Latest(p.Dir)
	if err != nil {
		return nil, err
	}
	if !once || p.Config.Generate.Quote != "scored" || done < 2 {
		return p.finalPrompts()
	}
	t, err := single.again(ctx, s)
	if err != nil {
		return nil, err
	}
	texts, err := p.bestOf(1)
	if err != nil {
		return nil, err
	}
	for round := 2; round <= done; round++ {
		prompter, err := p.quotingSamples(texts)
		if err != nil {
			return nil, err
		}
		prompts, err := p.drawFor(prompter, round)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(parts, fmt.Sprintf("round-%03d.parquet", round))
		samples, err := p.sample(ctx, s, nil, round, prompts, file)
		if err != nil {
			return nil, err
		}
		vectors, err := embedding.InParts(ctx, p.Encoder, Candidates{Rows: samples}.Texts(), s.Progress)
		if err != nil {
			return nil, err
		}
		_, scores := single.score(t, vectors)
		if scores, _, err = p.corrected(samples, scores); err != nil {
			return nil, err
		}
		best, err := p.best(samples, func(i int) float64 { return scores[i] })
		if err != nil {
			return nil, err
		}
		texts = append(texts, best...)
	}
	return p.quotingSamples(texts)
}
