package policy

import (
	"context"
	"fmt"
	"path/filepath"

	"popri/internal/rows"
	"popri/methods/target"
	"popri/rundir"
	"popri/sampling"
	"popri/trainer"
)

// ownTexts has the texts that the model wrote of a product that holds public texts too.
const ownTexts = "written.parquet"

// Product writes the synthetic set with the restored adapters: the texts that the model writes and, if
// synthetic.public_texts is set, the public texts that are most relevant to the clients.
func (p *Policy) Product(ctx context.Context, s trainer.Stage, file string) ([]sampling.Row, error) {
	if p.Config.Synthetic.PublicTexts == 0 {
		return p.write(ctx, s, file)
	}
	// Round 1 stands for the beginning, which has no folder.
	written, err := p.write(ctx, s, filepath.Join(rundir.Round(p.Dir, max(1, p.round)), ownTexts))
	if err != nil {
		return nil, err
	}
	chosen, err := p.relevant()
	if err != nil {
		return nil, err
	}
	all := append(target.Rows(chosen, p.Config.Synthetic.PublicTexts, p.Config.Seed), written...)
	return all, rows.Write(file, all)
}

// write writes the model's part of the synthetic set to file.
func (p *Policy) write(ctx context.Context, s trainer.Stage, file string) ([]sampling.Row, error) {
	prompter, err := p.quoting(p.Config.Synthetic.Examples)
	if err != nil {
		return nil, err
	}
	if p.round == 0 && p.Config.Warmup.Steps > 0 { // the adapters with which round 1 began to write
		if err := p.load(filepath.Join(rundir.Round(p.Dir, 1), warmupDir)); err != nil {
			return nil, err
		}
	}
	model, err := p.Merged()
	if err != nil {
		return nil, err
	}
	defer model.Free()
	return p.Writer.Set(ctx, model, prompter, p.Config.Synthetic, p.Config.Seed, fmt.Sprintf("after round %d", p.round),
		file, s.Progress)
}
