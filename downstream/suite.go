package downstream

import (
	"context"
	"fmt"
	"math"

	"popri/datasets/clients"
	"popri/lm"
	"popri/tensor"
	"popri/tokenizer"
)

// Keys of the reference points that every comparison has.
const (
	Public  = "public"  // ε = 0: the starting point
	Private = "private" // ε = ∞: the private training text itself
)

// Source is text to fine-tune on.
type Source struct {
	Key   string // popri, untuned, public_all, …
	Name  string // for people
	Texts []string
}

// Result is the result of fine-tuning on a source, measured on the test clients.
type Result struct {
	Key          string    `json:"key"`
	Name         string    `json:"name"`
	Texts        int       `json:"texts"`
	BestStep     int       `json:"best_step"`
	Curve        []Point   `json:"curve,omitempty"`
	Accuracy     float64   `json:"accuracy"`
	AccuracyCI   *Interval `json:"accuracy_ci,omitempty"` // intervals are nil where the bootstrap is left out
	Perplexity   float64   `json:"perplexity"`
	PerplexityCI *Interval `json:"perplexity_ci,omitempty"`
	// GapClosed is nil without the ε = ∞ point, and if ε = 0 and ε = ∞ are equally good.
	GapClosed   *float64  `json:"gap_closed,omitempty"`
	GapClosedCI *Interval `json:"gap_closed_ci,omitempty"`
	// Behind is how much less accurate than [Suite.Main] the result is, and BehindCI its interval, in which both are
	// compared on the same drawn clients; nil for the main result and without one.
	Behind   *float64  `json:"behind,omitempty"`
	BehindCI *Interval `json:"behind_ci,omitempty"`
	scores   []Score
}

// Suite evaluates sources against each other.
type Suite struct {
	ModelDir   string // the small model's starting point
	Population *clients.Population
	Options    Options
	Draws      int // of the bootstrap; 0 leaves intervals out
	// Main is the key of the source that the others are compared with; "" compares none.
	Main string
	// ReferencePrivate trains a model on the train clients' own texts too: the ε = ∞ point. Its figures, and every share
	// of the gap, are exact functions of text that the guarantee is there for, and are outside of ε.
	ReferencePrivate bool
	Cache            string // folder in which fine-tunings that suites have in common are kept; "" does each anew
	CacheKey         []byte // secret key of the names in Cache, which depend on private text; needed where Cache is set
	// Begin, Measured and End, where not nil, report progress, from several goroutines: models are trained side by side.
	Begin    func(key, name string, texts int)
	Measured func(key string, p Point)
	End      func(Result)
}

// Run fine-tunes on every source and, with ReferencePrivate, on the private training text. It returns the results in
// the order ε = 0, the sources, ε = ∞.
func (u Suite) Run(ctx context.Context, sources []Source) ([]Result, error) {
	tok, separator, err := u.tokenizer()
	if err != nil {
		return nil, err
	}
	validation := NewSet(tok, separator, u.Population.Split(clients.Validation), u.Options.Length)
	test := NewSet(tok, separator, u.Population.Split(clients.Test), u.Options.Length)
	if validation.n == 0 || test.n == 0 {
		return nil, fmt.Errorf("downstream: the population has %d validation and %d test clients, both are "+
			"needed", validation.n, test.n)
	}
	all := append([]Source{{Public, "public checkpoint (ε = 0)", nil}}, sources...)
	if u.ReferencePrivate {
		train := clients.Texts(u.Population.Split(clients.Train))
		all = append(all, Source{Private, "private training text (ε = ∞)", train})
	}
	results := make([]Result, len(all))
	err = tensor.Parallel(len(all), func(i int, s *tensor.Scope) error {
		src := all[i]
		if u.Begin != nil {
			u.Begin(src.Key, src.Name, len(src.Texts))
		}
		r, err := u.cached(src, func() (Result, error) { return u.one(ctx, s, src, tok, separator, validation, test) })
		if err != nil {
			return fmt.Errorf("downstream: %s: %w", src.Name, err)
		}
		results[i] = r
		if u.End != nil {
			u.End(r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, u.compare(results)
}

// Validate fine-tunes on every source and returns the best measurement of each on the validation clients. Test clients and
// the train clients' texts are not read.
func (u Suite) Validate(ctx context.Context, sources []Source) ([]Point, error) {
	tok, separator, err := u.tokenizer()
	if err != nil {
		return nil, err
	}
	validation := NewSet(tok, separator, u.Population.Split(clients.Validation), u.Options.Length)
	best := make([]Point, len(sources))
	err = tensor.Parallel(len(sources), func(i int, s *tensor.Scope) error {
		m, err := u.model(tok)
		if err != nil {
			return err
		}
		defer m.Free()
		best[i], _, err = FineTune(ctx, s, m, Encode(tok, separator, sources[i].Texts, u.Options.Length), validation.Rows,
			u.Options)
		if err != nil {
			return fmt.Errorf("downstream: %s: %w", sources[i].Name, err)
		}
		return nil
	})
	return best, err
}

// tokenizer loads the small model's tokenizer, with the token that separates texts.
func (u Suite) tokenizer() (*tokenizer.Tokenizer, int32, error) {
	tok, err := tokenizer.Load(u.ModelDir)
	if err != nil {
		return nil, 0, fmt.Errorf("downstream: %w", err)
	}
	separator, ok := tok.EOS()
	if !ok {
		return nil, 0, fmt.Errorf("downstream: the tokenizer of %s has no end-of-text token", u.ModelDir)
	}
	return tok, separator, nil
}

// model loads the small model.
func (u Suite) model(tok *tokenizer.Tokenizer) (*lm.Model, error) {
	m, err := lm.Load(u.ModelDir, lm.Options{Weights: tensor.Float32, Compute: u.Options.Compute})
	if err != nil {
		return nil, err
	}
	if err := m.CheckVocabulary(tok.VocabSize()); err != nil {
		m.Free()
		return nil, fmt.Errorf("downstream: %s: %w", u.ModelDir, err)
	}
	return m, nil
}

func (u Suite) one(ctx context.Context, s *tensor.Scope, src Source, tok *tokenizer.Tokenizer, separator int32,
	validation, test Set) (Result, error) {
	r := Result{Key: src.Key, Name: src.Name, Texts: len(src.Texts)}
	m, err := u.model(tok)
	if err != nil {
		return r, err
	}
	defer m.Free()
	if src.Key != Public {
		o := u.Options
		if u.Measured != nil {
			o.Progress = func(p Point) { u.Measured(src.Key, p) }
		}
		best, curve, err := FineTune(ctx, s, m, Encode(tok, separator, src.Texts, o.Length), validation.Rows, o)
		if err != nil {
			return r, err
		}
		r.BestStep, r.Curve = best.Step, curve
	}
	if r.scores, err = Evaluate(s, m, test); err != nil {
		return r, err
	}
	return r, nil
}

// compare computes the figures and their intervals.
func (u Suite) compare(results []Result) error {
	var infinite []Score // nil without the ε = ∞ point
	zero := results[0].scores
	if last := results[len(results)-1]; last.Key == Private {
		infinite = last.scores
	}
	var main []Score
	for _, r := range results {
		if r.Key == u.Main {
			main = r.scores
		}
	}
	one := func(f func([]Score) float64) func(...[]Score) float64 {
		return func(l ...[]Score) float64 { return f(l[0]) }
	}
	for i := range results {
		r := &results[i]
		r.Accuracy, r.Perplexity = Accuracy(r.scores), Perplexity(r.scores)
		var err error
		if r.AccuracyCI, err = u.interval(one(Accuracy), r.scores); err != nil {
			return err
		}
		if r.PerplexityCI, err = u.interval(one(Perplexity), r.scores); err != nil {
			return err
		}
		if main != nil && r.Key != u.Main {
			behind := func(l ...[]Score) float64 { return Accuracy(l[0]) - Accuracy(l[1]) }
			r.Behind = new(behind(main, r.scores))
			if r.BehindCI, err = u.interval(behind, main, r.scores); err != nil {
				return err
			}
		}
		if infinite == nil {
			continue
		}
		gap := GapClosed(r.scores, zero, infinite)
		if r.Key == Public || r.Key == Private || math.IsNaN(gap) || math.IsInf(gap, 0) {
			continue
		}
		r.GapClosed = &gap
		r.GapClosedCI, err = u.interval(func(l ...[]Score) float64 { return GapClosed(l[0], l[1], l[2]) },
			r.scores, zero, infinite)
		if err != nil {
			return err
		}
	}
	return nil
}

// interval returns nil if there is no interval: without draws, or if the statistic is not finite in any draw.
func (u Suite) interval(statistic func(...[]Score) float64, lists ...[]Score) (*Interval, error) {
	if u.Draws == 0 {
		return nil, nil
	}
	i, err := Bootstrap(u.Draws, u.Options.Seed, statistic, lists...)
	if err != nil || math.IsNaN(i[0]) || math.IsNaN(i[1]) {
		return nil, err
	}
	return &i, nil
}

// TestClients is the number of clients that the results are measured on.
func (u Suite) TestClients() int { return len(u.Population.Split(clients.Test)) }
