package wasp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"popri/datasets"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// Method runs WASP. The texts of the last round with their votes are its whole state.
type Method struct {
	method.Env
	classes    []string // the labels of the public texts
	generators []generator
	done       int   // complete rounds
	texts      []row // D after the last of them, with its votes
}

// row is a text as stored, with its votes.
type row struct {
	Sample    int64  `parquet:"sample_index"`
	Round     int64  `parquet:"round"`
	Generator int64  `parquet:"generator_index"`
	Name      string `parquet:"generator,dict"`
	Label     string `parquet:"label,dict"`
	Text      string `parquet:"text,zstd"`
	Finish    string `parquet:"finish,dict"`
	// Votes is the released count of votes for near texts, Far that for far ones, noise included; 0 for all before the
	// release.
	Votes float64 `parquet:"votes"`
	Far   float64 `parquet:"far_votes"`
	// Copies is 1 for a text that prompts show as good, Bad is true for one that they show as bad.
	Copies int64 `parquet:"copies"`
	Bad    bool  `parquet:"bad"`
}

// newMethod makes the method.
func newMethod(e method.Env) (rounds.Method, error) {
	m := &Method{Env: e, classes: e.Public.Classes()}
	if len(m.classes) == 0 {
		return nil, errors.New("wasp: the public texts have no labels")
	}
	var err error
	m.generators, err = generators(e)
	return m, err
}

// Restore implements rounds.Method.
func (m *Method) Restore(round int) (err error) {
	m.done, m.texts = round, nil
	if round == 0 {
		return nil
	}
	m.texts, err = rows.Read[row](filepath.Join(rundir.Round(m.Dir, round), rundir.Selection))
	return err
}

// Round implements rounds.Method.
func (m *Method) Round(ctx context.Context, r *rounds.Round) error {
	texts := slices.Clone(m.texts)
	for i := range texts {
		texts[i].Votes, texts[i].Far, texts[i].Copies, texts[i].Bad = 0, 0, 0, false
	}
	err := r.Stage("generate", func(s rounds.Stage) error {
		n := part(m.Config.Synthetic.Texts, m.Config.Trainer.Rounds, r.Number)
		written, err := m.write(ctx, s, r.Number, n, r.Dir)
		if err != nil {
			return err
		}
		r.Figures.Set(keyWritten, float64(len(written)))
		r.Figures.Set(keyBlank, float64(n-len(written)))
		texts = m.join(texts, written)
		if len(texts) == 0 {
			return errors.New("wasp: the generators wrote no text")
		}
		for _, t := range texts {
			r.Figures.Add(keyTokens, float64(len(m.Tokenizer.Encode(t.Text)))/float64(len(texts)))
		}
		r.Figures.Set(keySamples, float64(len(texts)))
		return rows.Write(filepath.Join(r.Dir, rundir.Samples), texts)
	})
	if err != nil {
		return err
	}
	counts, err := m.ask(ctx, r, texts)
	if err != nil {
		return err
	}
	return r.Stage("select", func(rounds.Stage) error { return m.choose(r, texts, counts) })
}

// join puts written texts behind others.
func (m *Method) join(texts, written []row) []row {
	for _, t := range written {
		t.Sample = int64(len(texts))
		texts = append(texts, t)
	}
	return texts
}

// write has the generators write n texts of a part, each to a file in dir. Texts without a word are left out.
func (m *Method) write(ctx context.Context, s rounds.Stage, number, n int, dir string) ([]row, error) {
	stream := []string{"wasp", "part", strconv.Itoa(number)}
	share := shares(n, m.weights())
	pools := m.pools()
	var out []row
	before := 0
	for k, g := range m.generators {
		if share[k] == 0 {
			continue
		}
		own := append(slices.Clone(stream), strconv.Itoa(k))
		random := rng.New(m.Config.Seed, own...)
		asks := make([]ask, share[k])
		labels := labelled(share[k], len(m.classes), random)
		for i, label := range labels {
			asks[i].label = label
			if list := settings.Of(m.Config).Attributes; len(list) > 0 {
				asks[i].attribute = list[random.IntN(len(list))]
			}
			asks[i].good, asks[i].bad = pools[label].shown(settings.Of(m.Config), random)
		}
		file := filepath.Join(dir, fmt.Sprintf("generator_%02d.parquet", k))
		written, err := g.write(ctx, m.Env, m.classes, asks, rng.Seed(m.Config.Seed, append(own, "write")...), file,
			func(done, _ int) { s.Progress(before+done, n) })
		if err != nil {
			return nil, err
		}
		if len(written) != len(asks) {
			return nil, fmt.Errorf("%s holds %d texts, %d are asked for", file, len(written), len(asks))
		}
		before += len(asks)
		for i, w := range written {
			if w.Text != "" {
				out = append(out, row{Round: int64(number), Generator: int64(k), Name: g.name,
					Label: m.classes[labels[i]], Text: w.Text, Finish: w.Finish})
			}
		}
	}
	return out, nil
}

// weights are the generators' weights after the last round; equal before the first one and without wasp.weights.
func (m *Method) weights() []float64 {
	k := len(m.generators)
	if len(m.texts) == 0 || !settings.Of(m.Config).Weights {
		return slices.Repeat([]float64{1}, k)
	}
	near := numeric.Map(m.texts, func(t row) float64 { return t.Votes })
	return weights(near, numeric.Map(m.texts, func(t row) int { return int(t.Generator) }), k)
}

// pools are the good and the bad texts of each label after the last round; none before the first one.
func (m *Method) pools() []pool {
	out := make([]pool, len(m.classes))
	for _, t := range m.texts {
		p := &out[slices.Index(m.classes, t.Label)]
		if t.Copies > 0 {
			p.good = append(p.good, t.Text)
		}
		if t.Bad {
			p.bad = append(p.bad, t.Text)
		}
	}
	return out
}

// ask returns the near votes of the texts, and then the far ones: the clients', noised, or the votes of public or
// written texts.
func (m *Method) ask(ctx context.Context, r *rounds.Round, texts []row) ([]float64, error) {
	var asked scoring.Contrast
	var voters query.Clients
	err := r.Stage("embed", func(s rounds.Stage) error {
		labels := numeric.Map(texts, func(t row) int32 { return int32(slices.Index(m.classes, t.Label)) })
		vectors, err := embedding.InParts(ctx, m.Encoder, numeric.Map(texts, func(t row) string { return t.Text }), s.Progress)
		if err != nil {
			return err
		}
		if err := m.NoteDistance(r, keyDistance, vectors); err != nil {
			return err
		}
		key, err := m.Key(filepath.Join(r.Dir, rundir.Samples))
		if err != nil {
			return err
		}
		if asked, err = scoring.NewContrast(vectors, labels, settings.Of(m.Config).Votes, bound(m.Config), key); err != nil {
			return err
		}
		switch settings.Of(m.Config).VotesFrom {
		case "written":
			voters, err = m.voters(vectors, labels)
		case "public":
			voters, err = m.public(ctx, s)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if !private(m.Config) {
		return asked.Sum(voters)
	}
	answer, err := r.Collect(scoring.WithChecks(asked, scoring.RoundChecks))
	if err != nil {
		return nil, err
	}
	return answer.Sum[:asked.Len()], nil
}

// public are the labelled public texts as voters.
func (m *Method) public(ctx context.Context, s rounds.Stage) (query.Clients, error) {
	labels := numeric.Map(datasets.Labels(m.Public.Prompts),
		func(label string) int32 { return int32(slices.Index(m.classes, label)) })
	vectors, err := embedding.InParts(ctx, m.Encoder, datasets.Strings(m.Public.Prompts), s.Progress)
	if err != nil {
		return query.Clients{}, err
	}
	return m.voters(vectors, labels)
}

// voters are texts that vote each for itself.
func (m *Method) voters(texts embedding.Matrix, labels []int32) (query.Clients, error) {
	offsets := numeric.Indices(texts.Rows + 1)
	means, err := query.MeanEmbeddings(texts, offsets)
	return query.Clients{Means: means, Texts: texts, Offsets: offsets, Labels: labels}, err
}

// choose notes the votes, chooses what prompts show, and stores both. All of it is post-processing.
func (m *Method) choose(r *rounds.Round, texts []row, counts []float64) error {
	n := len(texts)
	near, far := counts[:n], counts[n:]
	r.Figures.Set(keyNegative, 0)
	for i := range texts {
		texts[i].Votes, texts[i].Far = near[i], far[i]
		r.Figures.Add(keyNear, near[i])
		if near[i] < 0 {
			r.Figures.Add(keyNegative, 1/float64(n))
		}
	}
	for _, label := range m.classes {
		for _, i := range highest(texts, label, near, most) {
			texts[i].Copies = 1
		}
		for _, i := range highest(texts, label, far, most) {
			texts[i].Bad = true
		}
	}
	m.done, m.texts = r.Number, texts
	w := m.weights()
	named := map[string]float64{}
	for k, g := range m.generators {
		named[g.name] = w[k]
	}
	r.Log("weights", named)
	r.Figures.Set(keyMost, slices.Max(w))
	r.Figures.Set(keyLeast, slices.Min(w))
	return rows.Write(filepath.Join(r.Dir, rundir.Selection), texts)
}

// highest are the texts of a label with the n highest counts, ties to the lower index.
func highest(texts []row, label string, counts []float64, n int) []int {
	own := numeric.Where(len(texts), func(i int) bool { return texts[i].Label == label })
	order := numeric.SortedIndices(len(own), func(a, b int) int { return cmp.Compare(counts[own[b]], counts[own[a]]) })
	return numeric.Pick(own, order[:min(n, len(order))])
}

// productRow is a text of the synthetic set.
type productRow struct {
	Prompt    int64   `parquet:"prompt_index"`
	Sample    int64   `parquet:"sample_index"`
	Text      string  `parquet:"text,zstd"`
	Finish    string  `parquet:"finish,dict"`
	IDs       []int32 `parquet:"ids,zstd"`
	Model     string  `parquet:"model,dict"`
	Label     string  `parquet:"label,dict"`
	Generator string  `parquet:"generator,dict"`
}

// Product implements rounds.Method: all texts that were voted on, and the last part, which the generators write now.
func (m *Method) Product(ctx context.Context, s rounds.Stage, file string) ([]sampling.Row, error) {
	parts := sampling.PartsOf(file)
	if err := os.MkdirAll(parts, 0o755); err != nil {
		return nil, err
	}
	c := m.Config
	n := c.Synthetic.Texts - c.Synthetic.Texts*m.done/c.Trainer.Rounds
	written, err := m.write(ctx, s, m.done+1, n, parts)
	if err != nil {
		return nil, err
	}
	var out []productRow
	for i, t := range m.join(slices.Clone(m.texts), written) {
		out = append(out, productRow{Prompt: int64(i), Text: t.Text, Finish: t.Finish, IDs: m.Prompter.Completion(t.Text),
			Model: fmt.Sprintf("part %d", t.Round), Label: t.Label, Generator: t.Name})
	}
	if err := rows.Write(file, out); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(parts); err != nil {
		return nil, err
	}
	return rows.Read[sampling.Row](file)
}
