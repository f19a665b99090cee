// Package hotpate writes texts by Hot PATE (Cohen et al. 2025, sections 3 and 4): teachers, each a prompt of other
// clients' texts to the run's generator, vote for every token with shared randomness, and a token that enough of them
// agree on is released.
//
//	text so far ─► votes of all teachers (fedsim/local) ─► histogram + N(0, σ²) ─► token or ⊥ (fedsim, scoring/ensemble)
//	     ▲                                                                                │
//	     └── the token; at ⊥ one of the model with public texts, another vote, or the end ─┘
//
// Nothing is trained. A round is some texts; each vote is a part of it, with a release and a charge of its own. The
// texts follow from the releases, so that a round that was interrupted continues behind the last one.
package hotpate

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/model/lm"
	"popri/scoring/ensemble"
)

// Method writes the texts. It keeps no state: the texts of a round are in its folder.
type Method struct {
	method.Env
	key   string  // identifies the model
	stops []int32 // tokens that end a text
	round int     // the last one that is complete
}

// newMethod makes the method.
func newMethod(e method.Env) (rounds.Method, error) {
	hash, err := lm.Identity(e.ModelDir)
	return &Method{Env: e, key: hash, stops: e.Prompter.StopTokens(e.Model.Config.EOS)}, err
}

// Restore implements rounds.Method.
func (m *Method) Restore(round int) error {
	m.round = round
	return nil
}

// Round implements rounds.Method.
func (m *Method) Round(ctx context.Context, r *rounds.Round) error {
	w := writer{Method: m, r: r, most: m.Config.Generate.MaxNewTokens, h: settings.Of(m.Config)}
	if err := r.Stage(rounds.StageCollect, func(s rounds.Stage) error { return w.all(ctx, s) }); err != nil {
		return err
	}
	if err := r.NoteSpent(); err != nil {
		return err
	}
	w.note()
	m.round = r.Number
	return rows.Write(filepath.Join(r.Dir, rundir.Samples), w.texts)
}

// writer writes the texts of a round.
type writer struct {
	*Method
	r    *rounds.Round
	h    Settings
	most int // votes of a text

	texts         []sampling.Row
	votes, voted  int
	support       float64 // sum of the noised fractions of the teachers behind released tokens
	tokens, clear int     // of all texts, and of these the tokens that the model chose by itself
	clients       int
	sigma         float64
}

func (w *writer) all(ctx context.Context, s rounds.Stage) error {
	for text := range w.h.Texts {
		row, err := w.write(ctx, text, func(votes int) { s.Progress(text*w.most+votes, w.h.Texts*w.most) })
		if err != nil {
			return err
		}
		w.texts = append(w.texts, row)
	}
	return nil
}

// write writes a text by votes.
func (w *writer) write(ctx context.Context, text int, progress func(votes int)) (sampling.Row, error) {
	row := sampling.Row{Prompt: int64(text), Finish: "length", Model: "round " + strconv.Itoa(w.r.Number)}
	var base *lm.Lockstep
	if w.h.OnFailure == "base" {
		prompts, err := w.Prompter.Draw(rng.New(w.Config.Seed, "hot_pate", "base", strconv.Itoa(w.r.Number),
			strconv.Itoa(text)), 1)
		if err != nil {
			return row, err
		}
		if base, err = w.Model.NewLockstep([][]int32{prompts[0].IDs}, lm.LockstepOptions{Room: w.most}); err != nil {
			return row, err
		}
		defer base.Free()
	}
	var ids []int32
	for vote := 0; vote < w.most && row.Finish == "length"; vote++ {
		if err := ctx.Err(); err != nil {
			return row, err
		}
		q := w.question(text, text*w.most+vote+1, ids)
		answer, err := w.r.CollectPart(q, q.Part)
		if err != nil {
			return row, err
		}
		token := int32(answer.Sum[0])
		w.votes, w.clients, w.sigma = w.votes+1, answer.Clients, answer.Sigma
		progress(vote + 1)
		if token == ensemble.None {
			if w.h.OnFailure == "stop" {
				row.Finish = "no agreement"
			}
			if base == nil {
				continue
			}
			if err := base.Step(ctx, ids, func(_ int, logits []float32) error {
				token = ensemble.Vote(logits, q.Temperature, q.Randomness())
				return nil
			}); err != nil {
				return row, err
			}
			w.clear++
		} else {
			w.voted++
			w.support += answer.Sum[1] / float64(q.Teachers)
		}
		if w.tokens++; slices.Contains(w.stops, token) {
			row.Finish = "stop"
		} else if ids = append(ids, token); w.Prompter.Ended(ids) {
			row.Finish = "stop"
		}
	}
	row.Text, row.IDs = w.Prompter.Read(ids, row.Finish == "stop")
	return row, nil
}

// question asks for the next token of a text.
func (w *writer) question(text, part int, prefix []int32) ensemble.Question {
	g := w.Config.Generate
	q := ensemble.Question{Teachers: cmp.Or(w.h.Teachers, w.Clients), Heterogeneous: w.h.Ensemble == "heterogeneous",
		Vocab: w.Model.Config.Vocab, Coordinated: w.h.Coordinated, Temperature: g.Temperature, Shared: shared(w.Config),
		Model: w.key, Seed: rng.Seed(w.Config.Seed,
			"hot_pate"), Round: w.r.Number, Text: text, Part: part, Prefix: slices.Clone(prefix)}
	if len(prefix) < g.MinNewTokens {
		q.Banned = slices.Concat(w.stops, w.Prompter.Held())
	}
	return q
}

// note keeps the figures of the round.
func (w *writer) note() {
	set := w.r.Figures.Set
	written := 0.0
	for _, row := range w.texts {
		if strings.TrimSpace(row.Text) != "" {
			written++
		}
	}
	set(keyTexts, written)
	set(keyReleases, float64(w.votes))
	set(keyVoted, float64(w.voted)/float64(max(1, w.votes)))
	if w.tokens > 0 {
		set(keyOwn, 1-float64(w.clear)/float64(w.tokens))
	}
	if w.voted > 0 {
		set(keySupport, w.support/float64(w.voted))
	}
	set("clients", float64(w.clients))
	set("noise_multiplier", w.sigma)
}

// Product implements rounds.TextMethod: the texts of all rounds that are not empty.
func (m *Method) Product(_ context.Context, _ rounds.Stage, file string) ([]sampling.Row, error) {
	var out []sampling.Row
	for round := 1; round <= m.round; round++ {
		texts, err := rows.Read[sampling.Row](filepath.Join(rundir.Round(m.Dir, round), rundir.Samples))
		if err != nil {
			return nil, err
		}
		for _, t := range texts {
			if strings.TrimSpace(t.Text) != "" {
				t.Prompt = int64(len(out))
				out = append(out, t)
			}
		}
	}
	return out, rows.Write(file, out)
}
