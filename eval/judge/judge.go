// Package judge asks of any synthetic texts what their readers ask: are they like the clients' texts, do they repeat
// anybody's words, and can it be told from them who took part?
//
// The clients come in two groups. Members' texts are behind the synthetic set; controls were held out of everything. What the
// product has in common with controls is chance, so each figure of the members stands next to the controls'. This needs
// controls that were drawn as the members were; [Result].GroupsAUC says how far the groups differ.
//
// The results are computed from members' texts without noise. They are outside of ε and for the owner of the data
// alone.
package judge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"popri/eval/metrics"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/model/embedding"
)

// Client is a client's texts, with the label of each or none.
type Client struct {
	ID     string
	Texts  []string
	Labels []string
}

// Input is what is judged.
type Input struct {
	Product  []string
	Labels   []string // of the synthetic set's texts, or none
	Members  []Client // whose texts are behind the synthetic set
	Controls []Client // who were held out
	Public   []string // may be empty
	Canaries []string // texts that were planted among the members'
	Names    []string // names of people to look for
	Encoder  embedding.Encoder
	Epsilon  float64 // stated for the synthetic set; 0 if unknown
	Delta    float64
	Seed     uint64
	Guesses  []Guess                             // further scores of clients, by which members may be told
	Tell     func(stage string, done, total int) // may be nil
}

// Result is what [Judge] finds.
type Result struct {
	Product   int     `json:"product"` // texts
	Members   int     `json:"members"` // clients
	Controls  int     `json:"controls"`
	Encoder   string  `json:"encoder"`
	Epsilon   float64 `json:"epsilon,omitempty"`
	Delta     float64 `json:"delta,omitempty"`
	GroupsAUC float64 `json:"groups_auc"` // of a linear classifier of members' texts against controls'

	Likeness   []Likeness  `json:"likeness"`
	Attributes []Attribute `json:"attributes"`
	Topics     []Topic     `json:"topics"`
	Memory     Memory      `json:"memory"`
	Membership []Attack    `json:"membership"`
	Patterns   []Pattern   `json:"patterns"`
	Canaries   []Canary    `json:"canaries,omitempty"`
}

// Least numbers of clients that the comparisons need.
const leastControls = 10

// Judge compares the synthetic set with both groups of clients.
func Judge(ctx context.Context, in Input) (*Result, error) {
	if len(in.Members) == 0 || len(in.Controls) < leastControls {
		return nil, fmt.Errorf("judge: %d clients behind the synthetic set and %d held out, at least 1 and %d are needed",
			len(in.Members), len(in.Controls), leastControls)
	}
	rows := numeric.Where(len(in.Product), func(i int) bool { return len(words(in.Product[i])) > 0 })
	in.Product = numeric.Pick(in.Product, rows)
	if len(in.Labels) > 0 {
		in.Labels = numeric.Pick(in.Labels, rows)
	}
	if len(in.Product) < 2*neighbours {
		return nil, fmt.Errorf("judge: the synthetic set has %d texts with words, at least %d are needed", len(in.Product),
			2*neighbours)
	}
	if in.Tell == nil {
		in.Tell = func(string, int, int) {}
	}
	r := &Result{Product: len(in.Product), Members: len(in.Members), Controls: len(in.Controls),
		Encoder: in.Encoder.Name(), Epsilon: in.Epsilon, Delta: in.Delta}
	e, err := in.embed(ctx)
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	if r.GroupsAUC, err = e.groups(); err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	first, second := in.halves()
	if r.Likeness, r.Topics, err = in.likeness(ctx, first, second); err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	r.Attributes = in.attributes(first, second)
	in.Tell("words in common", 0, 0)
	runs := in.runs()
	r.Memory = in.memory(runs, e)
	r.Membership = in.attacks(runs, e)
	r.Patterns = in.patterns()
	r.Canaries = in.canaries()
	r.number(rows)
	return r, nil
}

// number names the synthetic set's texts by their rows among all.
func (r *Result) number(rows []int) {
	for i := range r.Memory.Found {
		r.Memory.Found[i].Product = rows[r.Memory.Found[i].Product]
	}
	for i := range r.Memory.Copies {
		r.Memory.Copies[i].Product = rows[r.Memory.Copies[i].Product]
	}
	for i, c := range r.Canaries {
		if c.Product >= 0 {
			r.Canaries[i].Product = rows[c.Product]
		}
	}
}

// embedded are the embeddings of all texts, clients' texts in order, each of length 1.
type embedded struct {
	product           embedding.Matrix
	productOf         []int // the synthetic set's text of each row
	members, controls embedding.Matrix
	memberOf          []int // the client of each row
	controlOf         []int
}

// mostEmbedded bounds the texts of product and groups that are embedded, so that large ones take minutes. Words are
// compared in all texts.
const mostEmbedded = 6000

func (in Input) embed(ctx context.Context) (e embedded, err error) {
	// Whole clients are drawn until they have the given number of texts.
	list := func(clients []Client, what string) (texts []string, of []int) {
		for _, i := range in.random("embedded " + what).Perm(len(clients)) {
			for _, text := range clients[i].Texts {
				texts, of = append(texts, text), append(of, i)
			}
			if len(texts) >= mostEmbedded {
				break
			}
		}
		return texts, of
	}
	members, memberOf := list(in.Members, "members")
	controls, controlOf := list(in.Controls, "controls")
	e.memberOf, e.controlOf = memberOf, controlOf
	e.productOf = in.random("embedded product").Perm(len(in.Product))[:min(len(in.Product), mostEmbedded)]
	product := numeric.Pick(in.Product, e.productOf)
	for _, x := range []struct {
		what  string
		texts []string
		to    *embedding.Matrix
	}{{"product", product, &e.product}, {"clients behind it", members, &e.members}, {"clients held out", controls,
		&e.controls}} {
		tell := func(done, total int) { in.Tell("embed the "+x.what, done, total) }
		if *x.to, err = embedding.InParts(ctx, in.Encoder, x.texts, tell); err != nil {
			return e, err
		}
		for i := range x.to.Rows {
			row := blas32.Vector{N: x.to.Dim, Inc: 1, Data: x.to.Row(i)}
			if norm := blas32.Nrm2(row); norm > 0 {
				blas32.Scal(1/norm, row)
			}
		}
	}
	return e, nil
}

func (in Input) random(what string) *rand.Rand { return rng.New(in.Seed, "judge", what) }

// some draws at most n of the values, in an order of their own.
func some[T any](list []T, n int, random *rand.Rand) []T {
	if len(list) <= n {
		return list
	}
	return numeric.Pick(list, random.Perm(len(list))[:n])
}

// groups separates members' and controls' texts by a linear classifier of embeddings; 0.5 where there are too few.
func (e embedded) groups() (float64, error) {
	halves := func(m embedding.Matrix, of []int) metrics.Halves {
		return metrics.Halves{Points: m.Data, Second: numeric.Map(of, func(client int) bool { return client%2 == 1 })}
	}
	auc, err := metrics.DomainAUC(halves(e.members, e.memberOf), halves(e.controls, e.controlOf), e.members.Dim)
	if errors.Is(err, metrics.ErrTooFew) {
		return 0.5, nil
	}
	return auc, err
}

// halves draws two halves of the controls: what the synthetic set is compared with, and other real clients to compare with.
func (in Input) halves() (first, second []int) {
	order := in.random("halves").Perm(len(in.Controls))
	return order[:len(order)/2], order[len(order)/2:]
}
