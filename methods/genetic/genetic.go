// Package genetic evolves a population of embeddings by the clients' votes ("Generate Synthetic Text Approximating the
// Private Distribution with Differential Privacy", algorithms 1 to 3). No model is trained, and none is prompted in the
// loop.
//
//	population ─► votes of the clients for the nearest ─► LimitedDomain: the best, by noise (fedsim) ─► decoder ─► texts
//	    ▲                                                                                                 │
//	    └── draws from a normal distribution that the parents describe (EDA) ◄── individuals with a text ─┘
//
// The first population is of public texts. The paper's decoder is an inverter of the encoder; a lookup among texts, and
// the generator prompted with the nearest texts, stand in for it. Everything after a selection follows from it and from
// public text. A round that selects nothing, or keeps nothing, ends the run; it is charged as any other.
package genetic

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/model/embedding"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/scoring"
	"popri/scoring/ensemble"
)

// writtenFile has the texts that the generator wrote before round 1.
const writtenFile = rundir.Written

// Row is a selected individual as stored, in the order of the selection.
type Row struct {
	Place      int64     `parquet:"place_index"` // in the population
	Text       string    `parquet:"text,zstd"`
	Public     bool      `parquet:"public"`     // the text is a public one, word for word
	Perplexity float64   `parquet:"perplexity"` // of the text, for the generator
	Kept       bool      `parquet:"kept"`       // as a parent
	Embedding  []float32 `parquet:"embedding"`  // the individual's, not the text's
}

// Method runs the evolution. The last round's selection is its whole state.
type Method struct {
	method.Env
	round    int
	selected []Row // of the last round
	pool     *pool // nil before it is needed
}

// pool are the texts that a decoder chooses from.
type pool struct {
	texts   []string
	public  int // the first ones are public texts
	vectors embedding.Matrix
}

// newMethod makes the method.
func newMethod(e method.Env) (rounds.Method, error) {
	if n := len(e.Prompter.Texts()); n < settings.Of(e.Config).Population {
		return nil, fault.Userf("genetic_eda.population is %d, must be at most the %d texts of data.public that are "+
			"no longer than data.max_tokens", settings.Of(e.Config).Population, n)
	}
	return &Method{Env: e}, nil
}

// Restore implements rounds.Method.
func (m *Method) Restore(round int) (err error) {
	m.round, m.selected = round, nil
	if round > 0 {
		m.selected, err = m.read(round)
	}
	return err
}

func (m *Method) read(round int) ([]Row, error) {
	return rows.Read[Row](filepath.Join(rundir.Round(m.Dir, round), rundir.Selection))
}

// Ended implements rounds.Ender.
func (m *Method) Ended() string {
	switch {
	case m.round == 0 || slices.ContainsFunc(m.selected, func(r Row) bool { return r.Kept }):
		return ""
	case len(m.selected) == 0:
		return "no count of the clients' votes was above the noisy threshold"
	}
	return "no selected individual has a text"
}

// Round implements rounds.Method.
func (m *Method) Round(ctx context.Context, r *rounds.Round) error {
	if err := m.open(ctx, r); err != nil {
		return err
	}
	population, err := m.population(r.Number)
	if err != nil {
		return err
	}
	r.Figures.Set(keyPopulation, float64(population.Rows))
	for key, measure := range map[string]func(embedding.Matrix) (*float64, error){keyDistance: m.Distance,
		keyApart: m.Apart, keyTransport: m.Transport} {
		distance, err := measure(population)
		if err != nil {
			return err
		}
		r.Figures.SetIf(key, distance)
	}
	indices, err := m.ask(r, population)
	if err != nil {
		return err
	}
	return r.Stage("decode", func(s rounds.Stage) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		texts, public, err := m.decode(ctx, r, s, population, indices)
		if err != nil {
			return err
		}
		perplexities, err := m.perplexities(texts)
		if err != nil {
			return err
		}
		selected := make([]Row, len(indices))
		for i, at := range indices {
			row := Row{Place: int64(at), Text: texts[i], Public: public[i], Perplexity: perplexities[i],
				Embedding: population.Row(at)}
			row.Kept = strings.TrimSpace(row.Text) != "" // the paper wants a perplexity below 50, too, which is GPT-2's
			selected[i] = row
		}
		m.round, m.selected = r.Number, selected
		m.note(r)
		return rows.Write(filepath.Join(r.Dir, rundir.Selection), selected)
	})
}

// open makes the pool of texts, once in a process: the generator's texts are written in round 1 and read later.
func (m *Method) open(ctx context.Context, r *rounds.Round) error {
	if m.pool != nil {
		return nil
	}
	p := &pool{texts: slices.Clone(m.Prompter.Texts())}
	p.public = len(p.texts)
	if n := settings.Of(m.Config).written(); n > 0 {
		err := r.Stage("generate", func(s rounds.Stage) error {
			random := rng.New(m.Config.Seed, "genetic", "prompts")
			prompts, err := m.Prompter.Draw(random, n)
			if err != nil {
				return err
			}
			written, err := m.write(ctx, prompts, rng.Seed(m.Config.Seed, "genetic", "written"),
				filepath.Join(rundir.Round(m.Dir, 1), writtenFile), s)
			if err != nil {
				return err
			}
			for _, row := range written {
				if strings.TrimSpace(row.Text) != "" {
					p.texts = append(p.texts, row.Text)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return r.Stage("embed", func(s rounds.Stage) (err error) {
		p.vectors, err = embedding.InParts(ctx, m.Encoder, p.texts, s.Progress)
		m.pool = p
		return err
	})
}

// write has the generator write a text for each prompt, in parts that survive a kill.
func (m *Method) write(ctx context.Context, prompts []sampling.Prompt, seed uint64, file string,
	s rounds.Stage) (out []sampling.Row, err error) {
	batch := m.Writer.Batch(m.Prompter, prompts, 1, seed, "untuned")
	err = m.WithSampler(nil, func(generator sampling.Sampler) (err error) {
		out, err = m.Writer.Sample(ctx, generator, batch, file, s.Progress)
		return err
	})
	return out, err
}

// population is a round's: public texts' embeddings, and later draws from what the last round's parents describe.
func (m *Method) population(round int) (embedding.Matrix, error) {
	random := rng.New(m.Config.Seed, "genetic", "population", strconv.Itoa(round))
	if round == 1 {
		return m.pool.vectors.Pick(random.Perm(m.pool.public)[:settings.Of(m.Config).Population]), nil
	}
	out := embedding.Matrix{Dim: m.pool.vectors.Dim}
	for _, row := range m.selected {
		if row.Kept {
			out.Data = append(out.Data, row.Embedding...)
			out.Rows++
		}
	}
	return next(out, settings.Of(m.Config).children(), random)
}

// ask returns the indices of the individuals that the clients' votes select, the best first.
func (m *Method) ask(r *rounds.Round, population embedding.Matrix) ([]int, error) {
	g, key := settings.Of(m.Config), m.key(population)
	if selects(m.Config) {
		asked, err := scoring.NewBallot(population, r.Number, g.domain(), g.Parents, key)
		if err != nil {
			return nil, err
		}
		answer, err := r.Collect(asked)
		if err != nil {
			return nil, err
		}
		var indices []int
		for _, x := range answer.Sum {
			if x < 0 || int(x) >= population.Rows {
				return nil, fmt.Errorf("genetic: round %d: individual %g of %d is selected", r.Number, x, population.Rows)
			}
			indices = append(indices, int(x))
		}
		return indices, nil
	}
	asked, err := scoring.NewVotes(population, votes(), key)
	if err != nil {
		return nil, err
	}
	answer, err := r.Collect(scoring.WithChecks(asked, scoring.RoundChecks))
	if err != nil {
		return nil, err
	}
	return best(answer.Sum[:population.Rows], ensemble.Margin(answer.NoiseStd(), population.Rows), g.Parents), nil
}

// best are the indices of the highest counts above a threshold, up to most.
func best(counts []float64, threshold float64, most int) []int {
	indices := numeric.Where(len(counts), func(i int) bool { return counts[i] > threshold })
	slices.SortStableFunc(indices, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	return indices[:min(most, len(indices))]
}

// key identifies a population and the encoder.
func (m *Method) key(population embedding.Matrix) string {
	h := sha256.New()
	var b [4]byte
	for _, x := range population.Data {
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(x))
		h.Write(b[:])
	}
	return hex.EncodeToString(h.Sum(nil)) + " " + embedding.Key(m.Encoder)
}

// decode turns individuals into texts, and says which of these are public.
func (m *Method) decode(ctx context.Context, r *rounds.Round, s rounds.Stage, population embedding.Matrix,
	indices []int) (texts []string, public []bool, err error) {
	if len(indices) == 0 {
		return nil, nil, nil
	}
	wanted := population.Pick(indices)
	prompted := settings.Of(m.Config).Decoder == "prompt"
	shown := 1
	if prompted {
		shown = min(m.Config.Generate.Examples, len(m.pool.texts))
	}
	nearest, err := scoring.Nearest(m.pool.vectors, wanted, scoring.CosineMetric, shown)
	if err != nil {
		return nil, nil, err
	}
	if !prompted {
		for _, choice := range nearest {
			texts, public = append(texts, m.pool.texts[choice[0]]), append(public, choice[0] < m.pool.public)
		}
		return texts, public, nil
	}
	var prompts []sampling.Prompt
	for _, choice := range nearest {
		var quoted []string
		for _, i := range slices.Backward(choice) { // the nearest stands last
			quoted = append(quoted, m.pool.texts[i])
		}
		prompt, err := m.Prompter.Quoting("", quoted, "")
		if err != nil {
			return nil, nil, err
		}
		prompts = append(prompts, prompt)
	}
	written, err := m.write(ctx, prompts, rng.Seed(m.Config.Seed, "genetic", "decode", strconv.Itoa(r.Number)),
		filepath.Join(r.Dir, rundir.Samples), s)
	for _, row := range written {
		texts, public = append(texts, row.Text), append(public, false)
	}
	return texts, public, err
}

// perplexities are of texts for the generator; infinite of empty ones.
func (m *Method) perplexities(texts []string) ([]float64, error) {
	out := make([]float64, len(texts))
	var scored []lm.Row
	var which []int
	begin, _ := m.Tokenizer.EOS()
	for i, text := range texts {
		out[i] = math.Inf(1)
		if ids := m.Tokenizer.Encode(text); len(ids) > 0 {
			ids = append([]int32{begin}, ids...)
			scored, which = append(scored, lm.Row{Tokens: ids[:min(len(ids), m.Model.Config.Context)]}), append(which, i)
		}
	}
	if len(scored) == 0 {
		return out, nil
	}
	return out, tensor.Run(func(s *tensor.Scope) error {
		found, err := m.Model.EvaluateRows(s, scored, nil, 2048, nil)
		for i, x := range found {
			out[which[i]] = math.Exp(x.Loss / float64(max(1, x.Tokens)))
		}
		return err
	})
}

// note keeps the figures of a selection.
func (m *Method) note(r *rounds.Round) {
	kept, public, logs, n, different := 0.0, 0.0, 0.0, 0.0, map[string]bool{}
	for _, row := range m.selected {
		if row.Kept {
			kept++
			different[row.Text] = true
			if row.Public {
				public++
			}
		}
		if !math.IsInf(row.Perplexity, 1) {
			logs, n = logs+math.Log(row.Perplexity), n+1
		}
	}
	r.Figures.Set(keyParents, float64(len(m.selected)))
	r.Figures.Set(keyKept, kept)
	r.Figures.Set(keyTexts, float64(len(different)))
	if kept > 0 {
		r.Figures.Set(keyPublic, public/kept)
	}
	if n > 0 {
		r.Figures.Set(keyPerplexity, math.Exp(logs/n))
	}
}

// Product implements rounds.TextMethod: the parents' texts of all rounds, which cost no more than the last round's, each
// text once.
func (m *Method) Product(_ context.Context, _ rounds.Stage, file string) ([]sampling.Row, error) {
	var out []sampling.Row
	seen := map[string]bool{}
	for round := m.round; round > 0; round-- {
		selected, err := m.read(round)
		if err != nil {
			return nil, err
		}
		for _, row := range selected {
			if !row.Kept || seen[row.Text] {
				continue
			}
			seen[row.Text] = true
			finish := "stop"
			if row.Public {
				finish = sampling.Public
			}
			out = append(out, sampling.Row{Prompt: int64(len(out)), Text: row.Text, Finish: finish,
				Model: "round " + strconv.Itoa(round), IDs: m.Tokenizer.Encode(row.Text)})
		}
	}
	return out, rows.Write(file, out)
}
