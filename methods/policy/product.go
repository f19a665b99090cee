package policy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"popri/internal/rows"
	"popri/methods/target"
	"popri/rundir"
	"popri/sampling"
	"popri/trainer"
)

// writtenFile has all texts that the model wrote, where the product is not just these.
const writtenFile = "written.parquet"

// Product writes the synthetic set with the restored adapters: the texts that the model writes, weighted if synthetic.kept
// says so, and, if synthetic.public_texts is set, the public texts that are most relevant to the clients.
func (p *Policy) Product(ctx context.Context, s trainer.Stage, file string) ([]sampling.Row, error) {
	c := p.Config.Synthetic
	if c.PublicTexts == 0 && c.Kept == 1 {
		return p.write(ctx, s, file)
	}
	// Round 1 stands for the beginning, which has no folder.
	written, err := p.write(ctx, s, filepath.Join(rundir.Round(p.Dir, max(1, p.round)), writtenFile))
	if err != nil {
		return nil, err
	}
	if c.Kept < 1 {
		if written, err = p.keep(s, written); err != nil {
			return nil, err
		}
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

// Kept says what weighting the written texts did, in the event "kept".
type Kept struct {
	Texts     int     `json:"texts"`     // written, without empty ones
	Effective float64 `json:"effective"` // number of texts of equal weight that carry as much information
	Distance  float64 `json:"distance"`  // released distance of the texts from the clients
	Weighted  float64 `json:"weighted"`  // the same with the weights
}

// keep draws as many rows as there are from the written texts, by weights that bring their mean embedding near the
// clients'. Empty texts are left out.
func (p *Policy) keep(s trainer.Stage, written []sampling.Row) ([]sampling.Row, error) {
	written = slices.DeleteFunc(slices.Clone(written), func(r sampling.Row) bool { return r.Text == "" })
	if len(written) == 0 {
		return nil, errors.New("the model wrote empty texts only: there is none to keep")
	}
	if err := p.embedPublic(); err != nil {
		return nil, err
	}
	t, err := target.Again(p.Env, p.pool)
	if err != nil {
		return nil, err
	}
	vectors, err := p.Encoder.Encode(sampling.Texts(written))
	if err != nil {
		return nil, err
	}
	points := p.pool.PointsOf(vectors)
	copies, w, err := t.Keep(points, p.Config.Synthetic.Texts, p.Config.Synthetic.Kept*float64(len(written)), p.Config.Seed)
	if err != nil {
		return nil, err
	}
	s.Log("kept", Kept{len(written), w.Effective, t.Distance(points), w.Distance})
	var out []sampling.Row
	for i, c := range copies {
		out = append(out, slices.Repeat(written[i:i+1], c)...)
	}
	return out, nil
}

// write writes the model's part of the synthetic set to file.
func (p *Policy) write(ctx context.Context, s trainer.Stage, file string) ([]sampling.Row, error) {
	done, err := trainer.Latest(p.Dir) // the adapters may be of an earlier round
	if err != nil {
		return nil, err
	}
	prompter, err := p.quoting(p.Config.Synthetic.Examples, done)
	if err != nil {
		return nil, err
	}
	if p.round == 0 && p.Config.Warmup.Steps > 0 { // the adapters with which round 1 began to write
		if err := p.Adapter.Read(filepath.Join(rundir.Round(p.Dir, 1), warmupDir), p.Model); err != nil {
			return nil, err
		}
	}
	model, release, err := p.Sampler(p.Adapter)
	if err != nil {
		return nil, err
	}
	defer release()
	return p.Writer.Set(ctx, model, prompter, p.Config.Synthetic, p.Config.Seed, fmt.Sprintf("after round %d", p.round),
		file, s.Progress)
}
