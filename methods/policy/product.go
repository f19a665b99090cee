package policy

import (
	"context"
	"fmt"
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/target"
)

// writtenFile has all texts that the model wrote, where the synthetic set is not just these.
const writtenFile = rundir.Written

// Product writes the synthetic set with the restored adapters: the texts that the model writes, weighted if
// synthetic.kept says so, and, if synthetic.public_texts is set, the public texts that are most relevant to the
// clients.
func (p *Policy) Product(ctx context.Context, s rounds.Stage, file string) ([]sampling.Row, error) {
	if err := atomicfile.Folder(filepath.Join(filepath.Dir(file), rundir.Adapter), p.Adapter.Save); err != nil {
		return nil, err
	}
	c := p.Config.Synthetic
	form, err := p.form()
	if err != nil {
		return nil, err
	}
	if c.PublicTexts == 0 && c.Kept == 1 && form.Style == "" {
		return p.write(ctx, s, file)
	}
	// Round 1 stands for the beginning, which has no folder.
	written, err := p.write(ctx, s, filepath.Join(rundir.Round(p.Dir, max(1, p.round)), writtenFile))
	if err != nil {
		return nil, err
	}
	if written, err = p.weighted(ctx, s, form.Style.Rows(written)); err != nil {
		return nil, err
	}
	if c.PublicTexts == 0 {
		return written, rows.Write(file, written)
	}
	chosen, err := p.relevant()
	if err != nil {
		return nil, err
	}
	all := append(target.Rows(chosen, c.PublicTexts, p.Config.Seed), written...)
	return all, rows.Write(file, all)
}

// weighted draws as many rows as the synthetic set has from what was written, by weight if synthetic.kept says so.
func (p *Policy) weighted(ctx context.Context, s rounds.Stage, written []sampling.Row) ([]sampling.Row, error) {
	if p.Config.Synthetic.Kept == 1 {
		return written, nil
	}
	single, err := p.single()
	if err != nil {
		return nil, err
	}
	return single.keep(ctx, s, written)
}

// finalPrompts makes the prompts of the synthetic set: the rounds that are done give their quotes, the adapters may be
// of an earlier one.
func (p *Policy) finalPrompts() (*sampling.Prompter, error) {
	done, err := rounds.Latest(p.Dir)
	if err != nil {
		return nil, err
	}
	return p.quoting(p.Config.Generate.Quote, done)
}

// write writes the model's part of the synthetic set to file.
func (p *Policy) write(ctx context.Context, s rounds.Stage, file string) (written []sampling.Row, err error) {
	prompter, err := p.finalPrompts()
	if err != nil {
		return nil, err
	}
	err = p.WithSampler(p.Adapter, func(model sampling.Sampler) (err error) {
		written, err = p.Writer.Set(ctx, model, prompter, p.Config.Synthetic, p.Config.Seed,
			fmt.Sprintf("after round %d", p.round), file, s.Progress)
		return err
	})
	return written, err
}
