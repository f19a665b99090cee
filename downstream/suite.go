package downstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

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
	LearningRate float64   `json:"learning_rate,omitempty"` // the chosen peak
	Curve        []Point   `json:"curve,omitempty"`
	Accuracy     float64   `json:"accuracy"`
	AccuracyCI   *Interval `json:"accuracy_ci,omitempty"` // intervals are nil where the bootstrap is left out
	Top3         float64   `json:"top3_accuracy"`
	Top5         float64   `json:"top5_accuracy"`
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

// counter counts the updates of all models.
type counter struct {
	sync.Mutex
	done, planned int
	tell          func(done, planned int) // or nil
}

func (c *counter) add(done, planned int) {
	c.Lock()
	defer c.Unlock()
	c.done, c.planned = c.done+done, c.planned+planned
	if c.tell != nil {
		c.tell(c.done, c.planned)
	}
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
	// Begin and End, where not nil, report progress, from several goroutines: models are trained side by side. Progress
	// tells how many updates of all models are done, and how many there will be in all: fewer than planned at first, if
	// trainings end early or are in the cache.
	Begin    func(key, name string, texts int)
	Progress func(done, planned int)
	End      func(Result)
}

// Run fine-tunes on every source and, with ReferencePrivate, on the private training text. It returns the results in
// the order ε = 0, the sources, ε = ∞.
func (u Suite) Run(ctx context.Context, sources []Source) ([]Result, error) {
	e, err := u.encoder()
	if err != nil {
		return nil, err
	}
	validation := NewSet(e, u.Population.Split(clients.Validation))
	test := NewSet(e, u.Population.Split(clients.Test))
	if validation.n == 0 || test.n == 0 {
		return nil, fmt.Errorf("downstream: the population has %d validation and %d test clients, both are "+
			"needed", validation.n, test.n)
	}
	all := append([]Source{{Public, "public checkpoint (ε = 0)", nil}}, sources...)
	if u.ReferencePrivate {
		train := clients.Texts(u.Population.Split(clients.Train))
		all = append(all, Source{Private, "private training text (ε = ∞)", train})
	}
	common, err := u.commonKey()
	if err != nil {
		return nil, err
	}
	c := counter{tell: u.Progress}
	for _, src := range all[1:] {
		c.planned += u.Options.updates(len(src.Texts))
	}
	results := make([]Result, len(all))
	err = u.each(len(all), func(i int, s *tensor.Scope) error {
		src := all[i]
		if u.Begin != nil {
			u.Begin(src.Key, src.Name, len(src.Texts))
		}
		o, updates := u.Options, 0
		o.Stepped = func() {
			updates++
			c.add(1, 0)
		}
		r, err := u.cached(common, src, func(state string) (Result, error) {
			return u.one(ctx, s, src, e, validation, test, o, state)
		})
		if err != nil {
			return fmt.Errorf("downstream: %s: %w", src.Name, err)
		}
		results[i] = r
		if planned := o.updates(len(src.Texts)); src.Key != Public && updates < planned {
			c.add(0, updates-planned)
		}
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
	e, err := u.encoder()
	if err != nil {
		return nil, err
	}
	validation := NewSet(e, u.Population.Split(clients.Validation))
	best := make([]Point, len(sources))
	err = u.each(len(sources), func(i int, s *tensor.Scope) error {
		m, t, err := u.train(ctx, s, e, e.Encode(sources[i].Texts), validation.Rows, u.Options, "")
		if err != nil {
			return fmt.Errorf("downstream: %s: %w", sources[i].Name, err)
		}
		m.Free()
		best[i] = t.best
		return nil
	})
	return best, err
}

// each does the tasks side by side, one a thread, or, where a training uses all threads, one after another.
func (u Suite) each(n int, task func(i int, s *tensor.Scope) error) error {
	if u.Options.Micro == 0 {
		return tensor.Parallel(n, task)
	}
	for i := range n {
		if err := tensor.Run(func(s *tensor.Scope) error { return task(i, s) }); err != nil {
			return err
		}
	}
	return nil
}

// encoder loads the small model's tokenizer.
func (u Suite) encoder() (Encoder, error) {
	tok, err := tokenizer.Load(u.ModelDir)
	if err != nil {
		return Encoder{}, fmt.Errorf("downstream: %w", err)
	}
	end, ok := tok.EOS()
	if !ok {
		return Encoder{}, fmt.Errorf("downstream: the tokenizer of %s has no end-of-text token", u.ModelDir)
	}
	begin, ok := tok.BOS()
	if !ok { // GPT-2's end of text begins texts, too
		begin = end
	}
	return Encoder{Tokenizer: tok, Rows: u.Options.Rows, Begin: begin, End: end, Length: u.Options.Length}, nil
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

// one trains a model on a source and tests it. The training's state is kept under the path that state begins; of the
// clients' own texts, none is.
func (u Suite) one(ctx context.Context, s *tensor.Scope, src Source, e Encoder, validation, test Set,
	o Options, state string) (r Result, err error) {
	r = Result{Key: src.Key, Name: src.Name, Texts: len(src.Texts)}
	var m *lm.Model
	if src.Key == Public {
		m, err = u.model(e.Tokenizer)
	} else {
		if src.Key == Private {
			state = ""
		}
		var t tuned
		m, t, err = u.train(ctx, s, e, e.Encode(src.Texts), validation.Rows, o, state)
		r.BestStep, r.Curve, r.LearningRate = t.best.Step, t.curve, t.rate
	}
	if err != nil {
		return r, err
	}
	defer m.Free()
	r.scores, err = Evaluate(s, m, test)
	return r, err
}

// tuned is the training with the best measurement on the validation clients.
type tuned struct {
	best  Point
	curve []Point
	rate  float64
}

// train fine-tunes a model with each learning rate and returns the best one, which the caller frees.
func (u Suite) train(ctx context.Context, s *tensor.Scope, e Encoder, rows, validation []lm.Row, o Options,
	state string) (best *lm.Model, t tuned, err error) {
	defer func() {
		if err != nil && best != nil {
			best.Free()
			best = nil
		}
	}()
	for i, rate := range o.LearningRates {
		m, err := u.model(e.Tokenizer)
		if err != nil {
			return best, t, err
		}
		path := state
		if path != "" {
			path = fmt.Sprintf("%s.%d.safetensors", state, i)
		}
		p, curve, err := FineTune(ctx, s, m, rows, validation, rate, o, path)
		if err != nil {
			m.Free()
			return best, t, err
		}
		worse := m
		if best == nil || o.better(p, t.best) {
			best, worse, t = m, best, tuned{p, curve, rate}
		}
		if worse != nil {
			worse.Free()
		}
	}
	if best == nil {
		return nil, t, errors.New("downstream: no learning rate is given")
	}
	return best, t, nil
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
		r.Top3, r.Top5 = Top3(r.scores), Top5(r.scores)
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
