package lanfl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/eval/incontext"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/run/assembly"
)

// The files of the folder that [Federate] writes.
const (
	sharedFile  = "shared.parquet" // the samples that participants share, with columns text, label, reason and participant
	figuresFile = "lanfl.json"
)

// Options say how participants exchange samples.
type Options struct {
	Participants int     // train clients are pooled into as many, at random
	Records      int     // k, the texts behind a sample
	Samples      int     // s, of each participant, before the filter
	BLEU         float64 // above which a sample is too like a text of its participant
	Shots        []int   // numbers of own examples that are tried
	Repeats      int     // draws of examples behind each cost
	Tests        int     // texts of a participant by which it chooses, at most
	Reasoning    bool    // the model says why a text has its label, wherever the text is shown
	Names        map[string]string
	Out          string
	Told         func(stage string, done, total int)
}

func (o Options) check() error {
	switch {
	case o.Participants < 2:
		return fault.Userf("there are %d participants: two or more exchange samples", o.Participants)
	case o.Records < 1 || o.Samples < 1 || o.Repeats < 1 || o.Tests < 1:
		return fault.Userf("records (%d), samples (%d), repeats (%d) and test texts (%d) must be above 0", o.Records,
			o.Samples, o.Repeats, o.Tests)
	case !(o.BLEU > 0 && o.BLEU <= 1):
		return fault.Userf("the BLEU bound is %g, must be above 0 and at most 1", o.BLEU)
	case len(o.Shots) == 0 || slices.Min(o.Shots) < 0:
		return fault.Userf("shots are %v: name numbers from 0", o.Shots)
	}
	return nil
}

// Outcome is the result of the exchange.
type Outcome struct {
	Claim        Claim         `json:"claim"`
	Private      string        `json:"private"` // what the claim is worth
	Model        string        `json:"model"`
	Labels       []string      `json:"labels"`
	Participants []Participant `json:"participants"`
	// Means over the participants: the fractions of wrong answers without examples, with own ones, and with others'.
	ZeroShot float64 `json:"cost_zero_shot"`
	Local    float64 `json:"cost_local"`
	Best     float64 `json:"cost"`
	Helped   int     `json:"helped"` // participants
}

// Participant is one of those who exchange.
type Participant struct {
	Texts     int     `json:"texts"`     // that samples and examples are drawn from
	Tests     int     `json:"tests"`     // that decide
	Malformed int     `json:"malformed"` // samples that are no text with a known label
	TooLike   int     `json:"too_like"`  // samples that the filter dropped
	Shared    int     `json:"shared"`
	ZeroShot  float64 `json:"cost_zero_shot"`
	Choice
}

// sharedRow is a row of sharedFile.
type sharedRow struct {
	Text        string `parquet:"text"`
	Label       string `parquet:"label"`
	Reason      string `parquet:"reason,optional"` // that the model wrote with it
	Participant int64  `parquet:"participant"`
}

// holdings are a participant's texts: those that are shown, and those that decide.
type holdings struct{ own, tests []incontext.Example }

// Federate pools the train clients of a configuration into participants, lets them write and exchange samples, and lets
// each choose its prompt. It reads train clients' texts without noise: only a user who says so may call it.
func Federate(ctx context.Context, c configs.Config, o Options) (*Outcome, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	c.Downstream.Task = configs.Classification // all texts need labels
	if err := assembly.Ready(c); err != nil {
		return nil, err
	}
	population, err := assembly.LoadPrivate(c)
	if err != nil {
		return nil, err
	}
	if err := assembly.CheckLabels(c, population); err != nil {
		return nil, err
	}
	train := population.Split(clients.Train)
	held, err := o.pool(train, c.Seed)
	if err != nil {
		return nil, err
	}
	generator, err := assembly.LoadGenerator(c)
	if err != nil {
		return nil, err
	}
	defer generator.Model.Free()
	labels := datasets.Classes(clients.Labels(train)...)
	f := incontext.Format{Item: incontext.DefaultItem, Names: o.Names, Length: c.Downstream.Length,
		Tokenizer: generator.Tokenizer}
	if err := f.Check(labels); err != nil {
		return nil, fault.User(err)
	}
	least := len(held[0].own)
	for _, h := range held {
		least = min(least, len(h.own))
	}
	e := &Outcome{Claim: newClaim(o.Records, least, o.Samples), Model: filepath.Base(generator.Dir), Labels: labels,
		Participants: make([]Participant, len(held))}
	e.Private = e.Claim.String()
	if err := os.MkdirAll(o.Out, 0o700); err != nil {
		return nil, fault.Userf("the folder for the samples cannot be made: %w", err)
	}
	w := writer{model: generator.Model, tokenizer: generator.Tokenizer, format: f, tokens: 2 * c.Downstream.Length}
	if o.Reasoning {
		w.reasons, w.tokens = map[incontext.Example]string{}, w.tokens+2*reasonTokens
	}
	shared, err := o.exchange(ctx, w, held, labels, c.Seed, e)
	if err != nil {
		return nil, err
	}
	if err := generator.Model.Pack(); err != nil {
		return nil, err
	}
	for i := range held {
		if err := o.compose(ctx, w, i, held[i], shared, labels, c.Seed, e); err != nil {
			return nil, err
		}
	}
	for _, p := range e.Participants {
		n := float64(len(e.Participants))
		e.ZeroShot, e.Local, e.Best = e.ZeroShot+p.ZeroShot/n, e.Local+p.Local/n, e.Best+p.Best/n
		if p.Helped() {
			e.Helped++
		}
	}
	return e, atomicfile.WriteJSON(filepath.Join(o.Out, figuresFile), e)
}

// pool deals clients to participants. A participant holds back some of its texts, half at most, and decides by them.
func (o Options) pool(train []clients.Client, seed uint64) ([]holdings, error) {
	texts := make([][]incontext.Example, o.Participants)
	random := rng.New(seed, "lanfl", "participants")
	for at, i := range random.Perm(len(train)) {
		one := train[i : i+1]
		labels := clients.Labels(one)
		for j, t := range clients.Texts(one) {
			texts[at%o.Participants] = append(texts[at%o.Participants], incontext.Example{Text: t, Label: labels[j]})
		}
	}
	held := make([]holdings, o.Participants)
	for i, list := range texts {
		random.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
		n := min(o.Tests, len(list)/2)
		own, tests := list[n:], list[:n]
		if len(own) <= o.Records || len(tests) == 0 {
			return nil, fault.Userf("participant %d of %d has %d texts to draw from, and %d are behind each sample: pool "+
				"the clients into fewer participants", i+1, o.Participants, len(own), o.Records)
		}
		held[i] = holdings{own, tests}
	}
	return held, nil
}

// exchange lets each participant write, filters what it wrote, and writes what is shared.
func (o Options) exchange(ctx context.Context, w writer, held []holdings, labels []string, seed uint64,
	e *Outcome) ([][]incontext.Example, error) {
	shared := make([][]incontext.Example, len(held))
	var out []sharedRow
	for i, h := range held {
		random := rng.New(seed, "lanfl", "records", fmt.Sprint(i))
		lists := make([][]incontext.Example, o.Samples)
		for s := range lists {
			lists[s] = numeric.Pick(h.own, drawnOf(len(h.own), o.Records, random))
		}
		told := func(done, total int) {
			if o.Told != nil {
				o.Told("write", i*o.Samples+done, len(held)*o.Samples)
			}
		}
		written, err := w.write(ctx, lists, labels, told)
		if err != nil {
			return nil, fault.User(err)
		}
		p := &e.Participants[i]
		p.Texts, p.Tests = len(h.own), len(h.tests)
		for _, x := range written {
			switch {
			case x.Text == "":
				p.Malformed++
			case tooLike(x.Text, h.own, o.BLEU):
				p.TooLike++
			default:
				shared[i] = append(shared[i], x)
				out = append(out, sharedRow{x.Text, x.Label, x.Reason, int64(i)})
			}
		}
		p.Shared = len(shared[i])
	}
	return shared, rows.Write(filepath.Join(o.Out, sharedFile), out)
}

// compose lets a participant choose its prompt by the fraction of wrong answers on its test texts.
func (o Options) compose(ctx context.Context, w writer, i int, h holdings, shared [][]incontext.Example,
	labels []string, seed uint64, e *Outcome) error {
	var others []incontext.Example
	for k, list := range shared {
		if k != i {
			others = append(others, list...)
		}
	}
	cost := func(own, synthetic int) (float64, error) {
		repeats, wrong := o.Repeats, 0.0
		if own+synthetic == 0 {
			repeats = 1
		}
		for r := range repeats {
			random := rng.New(seed, "lanfl", "examples", fmt.Sprint(i), fmt.Sprint(r))
			shown := incontext.Draw(h.own, own, random)
			shown = append(shown, incontext.Draw(others, synthetic, random)...)
			random.Shuffle(len(shown), func(a, b int) { shown[a], shown[b] = shown[b], shown[a] })
			shown, err := w.explained(ctx, shown)
			if err != nil {
				return 0, fault.User(err)
			}
			s, err := w.format.Test(ctx, w.model, shown, h.tests, labels, nil)
			if err != nil {
				return 0, fault.User(err)
			}
			wrong += 1 - s.Accuracy
		}
		return wrong / float64(repeats), nil
	}
	p := &e.Participants[i]
	var err error
	if p.ZeroShot, err = cost(0, 0); err != nil {
		return err
	}
	if p.Choice, err = choose(o.Shots, len(others), cost); err != nil {
		return err
	}
	if o.Told != nil {
		o.Told("choose prompts", i+1, len(e.Participants))
	}
	return nil
}
