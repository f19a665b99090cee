package downstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"

	"popri/datasets/clients"
	"popri/eval/keyboard"
	"popri/internal/atomicfile"
	"popri/internal/rng"
	"popri/lora"
	"popri/model/lm"
	"popri/model/mixture"
	"popri/model/safetensors"
	"popri/model/tensor"
	"popri/model/tokenizer"
)

// counter counts the work on all models.
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
		c.tell(c.done, max(c.done, c.planned)) // the plan counts the mean row
	}
}

// Suite evaluates sources against each other.
type Suite struct {
	ModelDir   string // the small model's starting point
	Population *clients.Population
	Options    Options
	Draws      int // of the bootstrap; 0 leaves intervals out
	// Labels are a classification's labels, including all of validation texts; nil trains on next tokens. A test text with
	// another label is one that no model has right.
	Labels []string
	// Zero is the public text of a classification's ε = 0 point; nil leaves the point out. The ε = 0 point of next
	// tokens is the small model before its training.
	Zero *Source
	// Start names the model that each training begins with; "" is a public checkpoint, ε = 0.
	Start string
	// Main is the key of the source that the others are compared with; "" compares none.
	Main string
	// ReferencePrivate trains a model on the train clients' own texts too: the ε = ∞ point. Its figures, and every
	// fraction of the gap, are exact functions of text that the guarantee is there for, and are outside of ε.
	ReferencePrivate bool
	// Small is the folder that the model trained on the source of the key Kept is written to; "" keeps none. It has that
	// name when all of it is there.
	Small, Kept string
	Replacing   func() error // is called before that; may be nil
	// Typed are beginnings of public or synthetic texts after which words are suggested.
	Typed    []string
	Cache    string // folder in which fine-tunings that suites have in common are kept; "" does each again
	CacheKey []byte // secret key of the names in Cache, which depend on private text; needed where Cache is set
	// End and Progress, where not nil, report from several goroutines: models are trained side by side. Progress
	// reports the work of all models that is done, in forward passes of a token, and the work in all. It is less than
	// planned at first if trainings end early or are in the cache.
	Progress func(done, planned int)
	End      func(Result)

	apart bool // test clients share no batch
}

// Run fine-tunes on every source and, with ReferencePrivate, on the private training text. It returns the results in
// the order ε = 0, the sources, ε = ∞.
func (u Suite) Run(ctx context.Context, sources []Source) ([]Result, error) {
	results, err := u.measure(ctx, sources)
	if err != nil {
		return nil, err
	}
	return results, u.compare(results)
}

// Accuracies are the fractions of each test client's tokens, or of its texts, that the model of each of Run's results
// has right; 0 for a client without any. They are private data: [client][result].
func (u Suite) Accuracies(ctx context.Context, sources []Source) (of [][]float64, results []string, err error) {
	u.Options.Tested, u.apart = 0, true // each client answers for all of its texts
	measured, err := u.measure(ctx, sources)
	if err != nil {
		return nil, nil, err
	}
	of = make([][]float64, len(u.Population.Split(clients.Test)))
	for _, r := range measured {
		results = append(results, r.Name)
		for i, s := range folded(r.scores, len(of)) {
			of[i] = append(of[i], float64(s.Correct)/float64(max(1, s.Tokens)))
		}
	}
	return of, results, nil
}

// measure trains a model on each source and tests it.
func (u Suite) measure(ctx context.Context, sources []Source) ([]Result, error) {
	e, validation, err := u.validation()
	if err != nil {
		return nil, err
	}
	test, err := u.test(e)
	if err != nil {
		return nil, err
	}
	if validation.n == 0 || test.n == 0 {
		return nil, fmt.Errorf("downstream: the population has %d validation and %d test clients, both are "+
			"needed", validation.n, test.n)
	}
	all, skipped, err := u.all(sources)
	if err != nil {
		return nil, err
	}
	common, err := u.commonKey()
	if err != nil {
		return nil, err
	}
	c := counter{tell: u.Progress}
	rows, planned := make([][]lm.Row, len(all)), make([]int, len(all))
	measured, tested := lm.Tokens(u.Options.measured(validation.Rows)), lm.Tokens(test.Rows)
	for i, src := range all {
		if planned[i] = tested; src.trained() {
			rows[i] = u.rows(e, src)
			planned[i] = u.trainings(src) * (tested + u.Options.work(rows[i], measured))
		}
		c.planned += planned[i]
	}
	results := make([]Result, len(all))
	err = u.each(len(all), func(i int, s *tensor.Scope) error {
		src, worked := all[i], 0
		o := u.Options
		o.Worked = func(work int) {
			worked += work
			c.add(work, 0)
		}
		r, err := u.cached(common, src, func(state string) (Result, error) {
			return u.one(ctx, s, src, e, rows[i], validation, test, o, state)
		})
		more := u
		more.Small = "" // the first training's model is the one that is kept
		for t := 1; t < u.trainings(src) && err == nil; t++ {
			var next Result
			number := strconv.Itoa(t)
			o.Seed = rng.Seed(u.Options.Seed, "downstream", "training", number)
			next, err = more.cached(common+" "+number, src, func(state string) (Result, error) {
				return more.one(ctx, s, src, e, rows[i], validation, test, o, state)
			})
			r.scores = append(r.scores, next.scores...)
		}
		if err == nil {
			r.Suggested, err = u.suggest(src)
		}
		if err != nil {
			return fmt.Errorf("downstream: %s: %w", src.Name, err)
		}
		r.Skipped = skipped[i]
		results[i] = r
		c.add(0, worked-planned[i])
		if u.End != nil {
			u.End(r)
		}
		return nil
	})
	return results, err
}

// all are the sources, ε = 0 and ε = ∞ included, and how many texts of each have a label that no test text has.
func (u Suite) all(sources []Source) (all []Source, skipped []int, err error) {
	zero := []Source{{Key: Public, Name: cmp.Or(u.Start, "public checkpoint (ε = 0)")}}
	if u.classifies() {
		if zero = nil; u.Zero != nil {
			zero = []Source{*u.Zero}
		}
	}
	all = append(zero, sources...)
	if u.ReferencePrivate {
		train := u.Population.Split(clients.Train)
		src := Source{Key: Private, Name: "private training text (ε = ∞)", Texts: clients.Texts(train)}
		if u.classifies() {
			src.Labels = clients.Labels(train)
		}
		all = append(all, src)
	}
	skipped = make([]int, len(all))
	for i, src := range all {
		if all[i], err = u.known(src); err != nil {
			return nil, nil, err
		}
		skipped[i] = len(src.Texts) - len(all[i].Texts)
	}
	return all, skipped, nil
}

// trained reports whether a model is trained on the source: the ε = 0 point of next tokens is the untrained one, a
// source may be a model itself, and what learns from no text at all, which a method may end with, is the start.
func (s Source) trained() bool { return s.Model == "" && len(s.Texts) > 0 }

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

// encoder is [OpenEncoder] of the small model.
func (u Suite) encoder() (Encoder, error) {
	return OpenEncoder(u.ModelDir, u.Options.Rows, u.Options.Length)
}

// validation is the set of texts by which steps are chosen, and the encoder of all texts.
func (u Suite) validation() (e Encoder, set Set, err error) {
	if e, err = u.encoder(); err == nil {
		set, err = u.set(e, clients.Validation)
	}
	return e, set, err
}

// test is the set of texts that judge the models.
func (u Suite) test(e Encoder) (Set, error) {
	set, err := u.set(e, clients.Test)
	set.apart = u.apart
	return set.draw(u.Options.Tested, u.Options.Seed), err
}

// model loads the small model, of a classification with a head for the labels. Every training of a suite begins with the
// same one.
func (u Suite) model(tok *tokenizer.Tokenizer) (*lm.Model, error) {
	o := lm.Options{Weights: tensor.Float32, Compute: u.Options.Compute}
	load := func() (*lm.Model, error) { return lm.LoadBase(u.ModelDir, o) }
	if u.classifies() {
		head := rng.New(u.Options.Seed, "downstream", "head").NormFloat64
		load = func() (*lm.Model, error) { return lm.LoadClassifier(u.ModelDir, u.Labels, o, head) }
	}
	m, err := load()
	if err != nil {
		return nil, err
	}
	if err := m.CheckVocabulary(tok.VocabSize()); err != nil {
		m.Free()
		return nil, fmt.Errorf("downstream: %s: %w", u.ModelDir, err)
	}
	return m, nil
}

// one trains a model on a source and tests it. The training's state is kept under the path that state begins.
func (u Suite) one(ctx context.Context, s *tensor.Scope, src Source, e Encoder, rows []lm.Row, validation, test Set,
	o Options, state string) (r Result, err error) {
	r = Result{Key: src.Key, Name: src.Name, Texts: len(src.Texts)}
	var m *lm.Model
	var t tuned
	if !src.trained() {
		if src.Model != "" { // with its own tokenizer
			u.ModelDir = src.Model
			if e, err = u.encoder(); err == nil {
				test, err = u.test(e)
			}
			if err != nil {
				return r, err
			}
		}
		m, err = u.model(e.Tokenizer)
	} else {
		m, t, err = u.train(ctx, s, e, rows, validation.Rows, o, state)
		r.BestStep, r.Curve, r.LearningRate = t.best.Step, t.curve, t.rate
	}
	if err != nil {
		return r, err
	}
	defer m.Free()
	defer t.free()
	tested := Tested{Model: m}
	if !src.trained() && !u.classifies() {
		if tested.table, err = mixture.Read(u.ModelDir, m.Config.Vocab); err != nil {
			return r, err
		}
	}
	if r.scores, err = evaluate(s, tested, test, o.during(ctx)); err != nil {
		return r, err
	}
	if !u.classifies() {
		typeOn(s, tested, keyboard.New(e.Tokenizer), test, u.Options.Seed, r.scores)
	}
	if u.keeps(src) {
		err = u.keep(m, t.adapter)
	}
	return r, err
}

// trainings is the number of trainings on a source.
func (u Suite) trainings(src Source) int {
	if src.trained() {
		return max(1, u.Options.Trainings)
	}
	return 1
}

// keeps reports whether the model that is trained on a source is written.
func (u Suite) keeps(src Source) bool { return u.Small != "" && src.Key == u.Kept && src.trained() }

// suggest returns the words that the model of a source suggests after what is typed: of the start, and of the model that
// was kept. They are not in the cache, where results are that several runs share.
func (u Suite) suggest(src Source) ([][]string, error) {
	dir := u.ModelDir
	switch {
	case len(u.Typed) == 0 || u.classifies():
		return nil, nil
	case u.keeps(src):
		dir = u.Small
	case src.Key != Public:
		return nil, nil
	}
	k, err := OpenKeyboard(dir, u.Options.Rows, u.Options.Length, u.Options.Compute)
	if err != nil {
		return nil, err
	}
	defer k.Free()
	of := make([][]string, len(u.Typed))
	for i, text := range u.Typed {
		if of[i], err = k.Suggest(text); err != nil {
			return nil, err
		}
	}
	return of, nil
}

// keep writes the model to the suite's folder, in place of an earlier one, and the adapter that made it, if any, to the
// folder adapter in that.
func (u Suite) keep(m *lm.Model, adapter *lora.Adapter) error {
	if u.Replacing != nil {
		if err := u.Replacing(); err != nil {
			return err
		}
	}
	return atomicfile.Folder(u.Small, func(dir string) error {
		if err := m.SaveLike(u.ModelDir, dir, safetensors.F32); err != nil || adapter == nil {
			return err
		}
		return adapter.Save(filepath.Join(dir, "adapter"))
	})
}

// tuned is the training with the best measurement on the validation clients.
type tuned struct {
	best  Point
	curve []Point
	rate  float64
	// adapter was trained and merged; nil if all weights were trained.
	adapter *lora.Adapter
}

func (t tuned) free() {
	if t.adapter != nil {
		t.adapter.Free()
	}
}

// train fine-tunes a model with each learning rate and returns the best one, which the caller frees.
func (u Suite) train(ctx context.Context, s *tensor.Scope, e Encoder, rows, validation []lm.Row, o Options,
	state string) (best *lm.Model, t tuned, err error) {
	if err := mixture.Refuse(u.ModelDir); err != nil {
		return nil, t, err
	}
	defer func() {
		if err != nil && best != nil {
			best.Free()
			t.free()
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
		one := tuned{rate: rate}
		if o.LoRA != nil {
			if one.adapter, err = lora.New(m, *o.LoRA, rng.New(o.Seed, "downstream", "lora")); err != nil {
				m.Free()
				return best, t, err
			}
		}
		if one.best, one.curve, err = FineTune(ctx, s, m, one.adapter, rows, validation, rate, o, path); err != nil {
			m.Free()
			one.free()
			return best, t, err
		}
		worse, other := m, one
		if best == nil || o.better(one.best, t.best) {
			worse, other, best, t = best, t, m, one
		}
		if worse != nil {
			worse.Free()
			other.free()
		}
	}
	if best == nil {
		return nil, t, errors.New("downstream: no learning rate is given")
	}
	return best, t, nil
}

// TestClients is the number of clients that the results are measured on.
func (u Suite) TestClients() int { return len(u.Population.Split(clients.Test)) }
