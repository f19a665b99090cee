package evolution

import (
	"context"
	"fmt"
	"slices"

	"popri/methods/method"
	"popri/methods/sampling"
)

// model writes texts with the run's generator, which is not tuned. Its texts are stored in a file; a second call reads
// them.
type model struct {
	env      method.Env
	file     string // the file of the texts, in parts at first, which survive a kill
	label    string // in the stored rows
	progress func(done, total int)
}

// Write implements [Writer]. All requests are of one kind.
func (m model) Write(ctx context.Context, requests []Request, seed uint64) ([]string, error) {
	kind := requests[0].Kind
	writer, batch := m.writer(kind), m.batch(kind, seed)
	for _, r := range requests {
		prompt, err := m.env.Prompter.Quoting(r.Label, r.quoted(), r.Beginning)
		if err != nil {
			return nil, err
		}
		batch.Prompts = append(batch.Prompts, prompt)
	}
	var rows []sampling.Row
	err := m.env.WithSampler(nil, func(generator sampling.Sampler) (err error) {
		rows, err = writer.Sample(ctx, generator, batch, sampling.PartsOf(m.file), m.file, m.progress)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(rows) != len(requests) {
		return nil, fmt.Errorf("%s holds %d texts, %d are asked for", m.file, len(rows), len(requests))
	}
	texts := make([]string, len(rows))
	for i, row := range rows {
		if texts[i] = row.Text; kind != Expand { // other quotations are repeated, and must fit
			texts[i] = m.env.Prompter.Cut(row.Text)
		}
	}
	return texts, nil
}

// writer samples as the section generate says. A filled-in part may be as short as a token.
func (m model) writer(kind Kind) sampling.Writer {
	w := m.env.Writer
	if kind == Fill {
		w.Config.MinNewTokens = min(1, w.Config.MinNewTokens)
	}
	return w
}

// batch has the settings of the section synthetic for the synthetic set, and of generate for the population.
func (m model) batch(kind Kind, seed uint64) sampling.Batch {
	g, s := m.env.Config.Generate, m.env.Config.Synthetic
	b := sampling.Batch{Prompter: m.env.Prompter, Samples: 1, Temperature: g.Temperature, TopP: g.TopP,
		MaxNew: g.MaxNewTokens, Seed: seed, Label: m.label}
	if kind == Expand {
		b.Temperature, b.TopP = s.Temperature, s.TopP
	}
	return b
}

// quoted are the texts in the prompt before the requested one. A text to rephrase is the last of them.
func (r Request) quoted() []string {
	if r.Kind == Rephrase {
		return append(slices.Clone(r.Quotes), r.Parent)
	}
	return r.Quotes
}
