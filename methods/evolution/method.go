package evolution

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"popri/datasets"
	"popri/fedsim/release"
	"popri/internal/fault"
	"popri/internal/modelcache"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/model/embedding"
	"popri/scoring"
)

// Files of a round, besides the population that was voted on ([rundir.Samples], a [Row] each).
const (
	SelectionFile  = rundir.Selection     // the population with its released votes and what they selected
	variationsFile = "variations.parquet" // what the model wrote for the population
	lookAheadFile  = "look_ahead.parquet" // what it wrote for the samples' embeddings
)

// longText is the length in words that public texts of PrE-Text's first population exceed.
const longText = 20

// Method runs Private Evolution. The last round's population with its selection is its whole state.
type Method struct {
	method.Env
	masked *masked // nil where the generator fills blanks
	last   *Round  // nil before the first round
}

// newMethod makes the method.
func newMethod(e method.Env) (rounds.Method, error) {
	m := &Method{Env: e}
	s := settings.Of(e.Config)
	if !s.fillsMasks() {
		return m, nil
	}
	dir, err := modelcache.Dir(s.MaskedModel, "")
	if err == nil {
		m.masked, err = openMasked(dir, e.Model.Compute)
	}
	if err != nil {
		return nil, fault.Userf("private_evolution.masked_model: %w", err)
	}
	return m, nil
}

// Restore implements rounds.Method.
func (m *Method) Restore(round int) error {
	m.last = nil
	if round == 0 {
		return nil
	}
	last, err := m.read(round)
	m.last = &last
	return err
}

// Close implements rounds.Method.
func (m *Method) Close() { m.masked.close() }

// read reads a complete round.
func (m *Method) read(round int) (Round, error) {
	stored, err := rows.Read[Row](filepath.Join(rundir.Round(m.Dir, round), SelectionFile))
	return fromRows(round, stored), err
}

// evolution prepares the algorithm with a model that writes to file.
func (m *Method) evolution(file, label string, s rounds.Stage) *Evolution {
	return newEvolution(m.Config, model{m.Env, m.masked, file, label, s.Progress})
}

// Round implements rounds.Method.
func (m *Method) Round(ctx context.Context, r *rounds.Round) error {
	p, err := m.generate(ctx, r)
	if err != nil {
		return err
	}
	vectors, err := m.embed(ctx, r, p)
	if err != nil {
		return err
	}
	answer, err := m.ask(r, vectors)
	if err != nil {
		return err
	}
	return r.Stage("select", func(s rounds.Stage) error { return m.choose(r, s, p, answer) })
}

// generate makes the round's population and stores it.
func (m *Method) generate(ctx context.Context, r *rounds.Round) (p Population, err error) {
	err = r.Stage("generate", func(s rounds.Stage) error {
		e := m.evolution(filepath.Join(r.Dir, variationsFile), fmt.Sprintf("variations, round %d", r.Number), s)
		if m.last == nil {
			p, err = e.Start(ctx, m.public())
		} else {
			p, err = e.Next(ctx, m.last.Population, m.last.Selection)
		}
		if err != nil {
			return err
		}
		return rows.Write(filepath.Join(r.Dir, rundir.Samples), rowsOf(Round{Population: p}))
	})
	for _, sample := range p.Samples {
		r.Figures.Add(keyTokens, float64(len(m.Tokenizer.Encode(sample.Text)))/float64(len(p.Samples)))
	}
	r.Figures.Set(keySamples, float64(len(p.Samples)))
	return p, err
}

// public are the texts of the first population: for PrE-Text the long ones, if there are as many as the population
// needs.
func (m *Method) public() []datasets.Text {
	var texts, long []datasets.Text
	labels := m.Prompter.Labels()
	for i, text := range m.Prompter.Texts() {
		t := datasets.Text{Text: text}
		if labels != nil {
			t.Label = labels[i]
		}
		words := len(strings.Fields(text))
		if words > 0 {
			texts = append(texts, t)
		}
		if words > longText {
			long = append(long, t)
		}
	}
	if e := settings.Of(m.Config); e.Variant == PreText && len(long) >= e.Population {
		return long
	}
	return texts
}

// embed returns the vectors that clients vote on, a row for each sample.
func (m *Method) embed(ctx context.Context, r *rounds.Round, p Population) (vectors embedding.Matrix, err error) {
	err = r.Stage("embed", func(s rounds.Stage) error {
		e := m.evolution(filepath.Join(r.Dir, lookAheadFile), fmt.Sprintf("look-ahead, round %d", r.Number), s)
		if vectors, err = e.Embeddings(ctx, p, m.Encoder, s.Progress); err != nil {
			return err
		}
		own := vectors
		if rulesOf(settings.Of(m.Config)).lookAhead > 0 && m.Reference != nil {
			if own, err = embedding.InParts(ctx, m.Encoder, p.Texts(), s.Progress); err != nil {
				return err
			}
		}
		return m.NoteDistance(r, keyDistance, own)
	})
	return vectors, err
}

// ask collects the clients' noised votes.
func (m *Method) ask(r *rounds.Round, vectors embedding.Matrix) (*release.Release, error) {
	key, err := m.Key(filepath.Join(r.Dir, rundir.Samples))
	if err != nil {
		return nil, err
	}
	asked, err := scoring.NewVotes(vectors, votes(m.Config), key)
	if err != nil {
		return nil, err
	}
	return r.Collect(scoring.WithChecks(asked, scoring.RoundChecks))
}

// choose selects by the released votes and stores the selection. All of it is post-processing.
func (m *Method) choose(r *rounds.Round, s rounds.Stage, p Population, answer *release.Release) error {
	counts := answer.Sum[:len(p.Samples)]
	m.last = &Round{p, m.evolution("", "", s).Select(p, counts)} // writes nothing
	stored := rowsOf(*m.last)
	for i, v := range counts {
		stored[i].Votes = v
	}
	m.note(r, *m.last, counts)
	return rows.Write(filepath.Join(r.Dir, SelectionFile), stored)
}

// note keeps the figures of a selection.
func (m *Method) note(r *rounds.Round, done Round, released []float64) {
	set, n := r.Figures.Set, float64(len(released))
	total, above, generation, kept := 0.0, 0.0, 0.0, 0.0
	for i, v := range released {
		total += v
		if v > settings.Of(m.Config).Threshold {
			above++
		}
		generation += float64(done.Selection.Copies[i] * done.Population.Samples[i].Generation)
	}
	if done.Selection.Kept {
		kept = 1
		r.Log("parents_kept", map[string]any{"why": "no count of votes exceeded private_evolution.threshold"})
	}
	set(keyTotal, total)
	set(keyAbove, above)
	set(keyParents, float64(done.Selection.Survivors())/n)
	set(keyGeneration, generation/float64(done.Selection.Len()))
	set(keyKept, kept)
}

// Product implements rounds.Method: texts by prompts that quote the selected samples, or the selected samples of the
// last round.
func (m *Method) Product(ctx context.Context, s rounds.Stage, file string) ([]sampling.Row, error) {
	if m.last != nil && rulesOf(settings.Of(m.Config)).ends {
		return m.selected(file)
	}
	var done []Round
	for round := 1; m.last != nil && round <= m.last.Population.Round; round++ {
		r, err := m.read(round)
		if err != nil {
			return nil, err
		}
		done = append(done, r)
	}
	e := m.evolution(file, fmt.Sprintf("after round %d", len(done)), s)
	if _, err := e.Expand(ctx, e.Survivors(done), m.Config.Synthetic.Texts, "all"); err != nil {
		return nil, err
	}
	return rows.Read[sampling.Row](file)
}

// selected writes the texts that the last round selected, each as often as it was.
func (m *Method) selected(file string) ([]sampling.Row, error) {
	var out []sampling.Row
	for _, i := range m.last.Selection.Indices() {
		s := m.last.Population.Samples[i]
		finish := "stop"
		if s.Generation == 0 { // a public text that was never varied
			finish = sampling.Public
		}
		out = append(out, sampling.Row{Prompt: int64(len(out)), Text: s.Text, Finish: finish, Label: s.Label,
			IDs: m.Prompter.Completion(s.Text), Model: fmt.Sprintf("selected in round %d", m.last.Population.Round)})
	}
	return out, rows.Write(file, out)
}
