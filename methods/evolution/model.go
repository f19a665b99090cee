package evolution

import (
	"context"
	"fmt"

	"popri/methods/method"
	"popri/methods/sampling"
)

// model writes texts with the run's generator, which is not tuned, or fills blanks with a masked model. Its texts are
// stored in a file; a second call reads them.
type model struct {
	env      method.Env
	masked   *masked // nil: the generator fills blanks
	file     string  // the file of the texts, in parts at first, which survive a kill
	label    string  // in the stored rows
	progress func(done, total int)
}

// Write implements [Writer]. All requests are of one kind.
func (m model) Write(ctx context.Context, requests []Request, seed uint64) ([]string, error) {
	kind := requests[0].Kind
	writer, batch := m.writer(kind), m.batch(kind, seed)
	for _, r := range requests {
		prompt, err := m.prompt(batch.Prompter, r)
		if err != nil {
			return nil, err
		}
		batch.Prompts = append(batch.Prompts, prompt)
	}
	var rows []sampling.Row
	draw := func(generator sampling.Sampler) (err error) {
		rows, err = writer.Sample(ctx, generator, batch, m.file, m.progress)
		return err
	}
	var err error
	if r := requests[0]; m.fills(kind) {
		err = draw(filling{m.masked, m.env.Tokenizer, r.MaskShare, r.Passes})
	} else {
		err = m.env.WithSampler(nil, draw)
	}
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

// fills reports whether the masked model writes texts of a kind.
func (m model) fills(kind Kind) bool { return kind == Fill && m.masked != nil }

// prompt is what a model reads to answer a request.
func (m model) prompt(p *sampling.Prompter, r Request) (sampling.Prompt, error) {
	switch {
	case r.Kind == Rephrase:
		return p.Instruct(r.Label, fmt.Sprintf("Rephrase this text %s: %s", r.Style, sampling.Marked(r.Parent)))
	case r.Kind == Blank:
		return p.Instruct(r.Label, fmt.Sprintf("Fill in each blank (%s) of this text %s, and give the whole text: %s",
			blank, r.Style, sampling.Marked(r.Blanked)))
	case m.fills(r.Kind):
		return p.Repeating(r.Label, r.Parent), nil
	}
	return p.Quoting(r.Label, r.Quotes, r.Beginning)
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
	b := m.env.Writer.Batch(m.env.Prompter, nil, 1, seed, m.label)
	switch kind {
	case Expand:
		b.Temperature, b.TopP = m.env.Config.Synthetic.Temperature, 1
	case Rephrase, Blank:
		b.Prompter = b.Prompter.Answering()
	}
	return b
}
