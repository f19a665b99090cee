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
	"popri/model/lm"
	"popri/run/assembly"
	"popri/run/evaluation"
)

// InContext is the value of the task in which a language model is shown texts with labels and is not trained.
const InContext = "in-context"

// InContextOptions say how demonstrations are tested.
type InContextOptions struct {
	Shots []int // numbers of demonstrations, above 0; the row without any is always there
	Draws int   // sets of demonstrations for each number
	Texts int   // test texts, drawn by the seed; 0 for all
	// Membership is the number of trials of [incontext.Format.Membership] for demonstrations of each kind; 0 for none.
	// Members are train clients' texts, which eval.reference_private must allow.
	Membership int
	Header     string // stands before the demonstrations
	Item       string // see [incontext.Format]
	Names      map[string]string
	Out        string                           // folder of the figures, "" for none
	Told       func(stage string, done, of int) // of answers; may be nil
}

func (o InContextOptions) check(c configs.Config) error {
	if len(o.Shots) == 0 || slices.Min(o.Shots) < 1 || slices.Max(o.Shots) > 1000 {
		return fault.Userf("shots are %v: name numbers from 1 to 1000", o.Shots)
	}
	if o.Draws < 1 || o.Draws > 1000 {
		return fault.Userf("draws are %d: from 1 to 1000 sets of demonstrations can be drawn", o.Draws)
	}
	if o.Texts < 0 {
		return fault.Userf("test texts are %d: name a number above 0, or 0 for all", o.Texts)
	}
	if o.Membership < 0 || o.Membership > 100000 {
		return fault.Userf("membership is %d: from 0 to 100000 trials are possible", o.Membership)
	}
	if o.Membership > 0 && !c.Eval.ReferencePrivate {
		return fault.Userf("a test of membership asks about train clients' texts, which eval.reference_private must " +
			"allow")
	}
	return nil
}

// Evaluate asks the configuration's language model (model.path) for the labels of test clients' texts, and shows it
// demonstrations of a file of labelled texts: none, those of labelled public text, if data.public names files,
// and the train clients' own, if eval.reference_private allows it. Test texts are read without noise, as in every
// evaluation.
func (o InContextOptions) Evaluate(ctx context.Context, c configs.Config, file string) (*incontext.Outcome, error) {
	if err := o.check(c); err != nil {
		return nil, err
	}
	c.Downstream.Task = configs.Classification // all texts need labels
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := assembly.SetDevice(c); err != nil {
		return nil, err
	}
	product, err := readSource(c, file)
	if err != nil {
		return nil, fault.Userf("%w", err)
	}
	product.Key, product.Name = evaluation.KeyText, "the texts of "+filepath.Base(file)
	population, err := assembly.LoadPrivate(c)
	if err != nil {
		return nil, err
	}
	if err := assembly.CheckLabels(c, population); err != nil {
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
			rows = append(rows, incontext.Result{Key: src.Key, Name: src.Name, Shots: shots, Texts: len(src.Texts)})
			of = append(of, examples(src.Texts, src.Labels, labels))
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
	if o.Membership > 0 {
		if e.Membership, err = o.membership(ctx, c, f, generator.Model, labels, asked, sources); err != nil {
			return nil, fault.User(err)
		}
	}
	if o.Out != "" {
		if err := os.MkdirAll(o.Out, 0o755); err != nil {
			return nil, fault.Userf("the folder for the figures cannot be made: %w", err)
		}
		return e, atomicfile.WriteJSON(filepath.Join(o.Out, rundir.InContext), e)
	}
	return e, nil
}

// membership tests demonstrations of each source, and of the train clients' texts that are asked about. The texts of a
// trial are the same for all sources.
func (o InContextOptions) membership(ctx context.Context, c configs.Config, f incontext.Format, m *lm.Model,
	labels []string, asked []incontext.Example, sources []downstream.Source) (out []incontext.Membership, err error) {
	train := sources[len(sources)-1]
	members := examples(train.Texts, train.Labels, labels)
	for _, src := range sources {
		shown := examples(src.Texts, src.Labels, labels)
		if len(shown) == 0 || len(members) == 0 {
			return nil, fmt.Errorf("%s and %s: both need texts with a label that test or validation clients have",
				src.Name, train.Name)
		}
		trials := make([]incontext.Trial, o.Membership)
		for i := range trials {
			random := rng.New(c.Seed, "in-context", "membership", fmt.Sprint(i))
			t := incontext.Trial{Member: members[random.IntN(len(members))], Control: asked[random.IntN(len(asked))]}
			if t.Shown = t.Member; src.Key != downstream.Private {
				t.Shown = shown[random.IntN(len(shown))]
			}
			trials[i] = t
		}
		told := func(done int) {
			if o.Told != nil {
				o.Told("membership, "+src.Name, done, len(trials))
			}
		}
		one, err := f.Membership(ctx, m, trials, labels, told)
		if err != nil {
			return nil, err
		}
		one.Key, one.Name = src.Key, src.Name
		out = append(out, one)
	}
	return out, nil
}
