package evaluator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/eval/downstream"
	"popri/eval/incontext"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/internal/rundir"
	"popri/run/assembly"
)

// InContext is the value of the task in which a language model is shown texts with labels and is not trained.
const InContext = "in-context"

// InContextOptions say how demonstrations are tested.
type InContextOptions struct {
	Shots  []int  // numbers of demonstrations, above 0; the row without any is always there
	Draws  int    // sets of demonstrations for each number
	Texts  int    // test texts, drawn by the seed; 0 for all
	Header string // stands before the demonstrations
	Item   string // see [incontext.Format]
	Names  map[string]string
	Out    string                           // folder of the figures, "" for none
	Told   func(stage string, done, of int) // of answers; may be nil
}

func (o InContextOptions) check() error {
	switch {
	case len(o.Shots) == 0 || slices.Min(o.Shots) < 1 || slices.Max(o.Shots) > 1000:
		return fault.Userf("shots are %v: name numbers from 1 to 1000", o.Shots)
	case o.Draws < 1 || o.Draws > 1000:
		return fault.Userf("draws are %d: from 1 to 1000 sets of demonstrations can be drawn", o.Draws)
	case o.Texts < 0:
		return fault.Userf("test texts are %d: name a number above 0, or 0 for all", o.Texts)
	}
	return nil
}

// Evaluate asks the configuration's language model (model.path) for the labels of test clients' texts, and shows it
// demonstrations of a file of labelled texts: none, labelled public text, if data.public names files, and the train
// clients' own, if eval.reference_private allows it. Test texts are read without noise, as in every evaluation.
func (o InContextOptions) Evaluate(ctx context.Context, c configs.Config, file string) (*incontext.Outcome, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	c.Downstream.Task = configs.Classification // all texts need labels
	product, population, err := opened(c, file)
	if err != nil {
		return nil, err
	}
	product.Name = "the texts of " + filepath.Base(file)
	if err := assembly.ExactFigures(population, o.Out); err != nil {
		return nil, err
	}
	sources := []downstream.Source{product}
	if assembly.PublicIsFile(c) {
		public, err := assembly.LoadPublic(c)
		if err != nil {
			return nil, err
		}
		sources = append(sources, downstream.Source{Key: downstream.Public, Name: "public text",
			Texts: datasets.Strings(public.Generator), Labels: datasets.Labels(public.Generator)})
	}
	test := population.Split(clients.Test)
	truth := clients.Labels(test)
	labels := slices.Concat(truth, clients.Labels(population.Split(clients.Validation)))
	for _, src := range sources {
		labels = append(labels, src.Labels...)
	}
	if labels = datasets.Classes(labels...); len(labels) < 2 {
		return nil, fault.Userf("all texts have one label: two are needed")
	}
	if c.Eval.ReferencePrivate {
		train := population.Split(clients.Train)
		sources = append(sources, downstream.Source{Key: downstream.Private, Name: "the train clients' text (ε = ∞)",
			Texts: clients.Texts(train), Labels: clients.Labels(train)})
	}
	asked := examples(clients.Texts(test), truth, labels)
	random := rng.New(c.Seed, "in-context", "texts")
	random.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	if o.Texts > 0 {
		asked = asked[:min(o.Texts, len(asked))]
	}
	return o.evaluate(ctx, c, labels, asked, sources)
}

// examples pairs texts with labels; those with a label that is not asked for, which train clients alone have, are left
// out.
func examples(texts, labels, known []string) (list []incontext.Example) {
	for i, t := range texts {
		if slices.Contains(known, labels[i]) {
			list = append(list, incontext.Example{Text: t, Label: labels[i]})
		}
	}
	return list
}

func (o InContextOptions) evaluate(ctx context.Context, c configs.Config, labels []string, asked []incontext.Example,
	sources []downstream.Source) (*incontext.Outcome, error) {
	generator, err := assembly.LoadGenerator(c)
	if err != nil {
		return nil, err
	}
	defer generator.Model.Free()
	if err := generator.Model.Pack(); err != nil {
		return nil, err
	}
	f := incontext.Format{Header: o.Header, Item: o.Item, Names: o.Names, Length: c.Downstream.Length,
		Tokenizer: generator.Tokenizer}
	if err := f.Check(labels); err != nil {
		return nil, fault.User(err)
	}
	e := &incontext.Outcome{Model: filepath.Base(generator.Dir), Labels: labels, Texts: len(asked), Seed: c.Seed,
		Header: o.Header, Item: o.Item}
	rows := []incontext.Result{{Key: "none", Name: "no demonstrations"}}
	of := [][]incontext.Example{nil}
	for _, shots := range o.Shots {
		for _, src := range sources {
			shown := examples(src.Texts, src.Labels, labels)
			rows = append(rows, incontext.Result{Key: src.Key, Name: src.Name, Shots: min(shots, len(shown)), Texts: len(src.Texts)})
			of = append(of, shown)
		}
	}
	for i, r := range rows {
		draws := o.Draws
		if r.Shots == 0 {
			draws = 1
		}
		for d := range draws {
			shown := incontext.Draw(of[i], r.Shots,
				rng.New(c.Seed, "in-context", r.Key, fmt.Sprint(r.Shots), fmt.Sprint(d)))
			told := func(done int) {
				if o.Told != nil {
					o.Told(fmt.Sprintf("%s, %d shown", r.Name, r.Shots), d*len(asked)+done, draws*len(asked))
				}
			}
			one, err := f.Test(ctx, generator.Model, shown, asked, labels, told)
			if err != nil {
				return nil, fault.User(err)
			}
			r.Draws = append(r.Draws, *one)
		}
		e.Results = append(e.Results, r.Summed())
	}
	if o.Out != "" {
		if err := os.MkdirAll(o.Out, 0o755); err != nil {
			return nil, fault.Userf("the folder for the figures cannot be made: %w", err)
		}
		return e, atomicfile.WriteJSON(filepath.Join(o.Out, rundir.InContext), e)
	}
	return e, nil
}
