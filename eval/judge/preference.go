package judge

import (
	"context"
	"fmt"
	"math"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Asker answers a question in a few tokens: a language model.
type Asker func(ctx context.Context, question string) (answer string, err error)

// Preference says how often a language model takes a text of the product for a real one, of pairs of the product and
// held-out clients, each asked in both orders.
type Preference struct {
	Model string `json:"model"`
	Pairs int    `json:"pairs"`
	// Product is the share of pairs in which the model takes the product's text for the real one; a pair whose answers
	// contradict each other counts one half. 0.5 is a product that is not told apart. Its 95 % interval is Wilson's.
	Product    float64    `json:"product"`
	ProductCI  [2]float64 `json:"product_ci"`
	Undecided  int        `json:"undecided"`  // pairs whose answers contradict each other
	Unreadable int        `json:"unreadable"` // pairs left out, because an answer was neither A nor B
	Question   string     `json:"question"`   // with the places of the texts
}

// question is what the model is asked. Examples are of clients held out who are in no pair.
const question = `Below are three texts by people of one group, then two more texts, A and B. One of the two is by another person of the
group, the other was made up by a program. Which one is by a person?

Text 1: %s

Text 2: %s

Text 3: %s

Text A: %s

Text B: %s

Answer with one letter, A or B.`

// asked is the number of requests that wait at once.
const asked = 4

// Prefer asks a model about n pairs. The texts of held-out clients are shown to it.
func Prefer(ctx context.Context, in Input, model string, ask Asker, n int) (*Preference, error) {
	random := in.random("preference")
	var real []string
	for _, c := range in.Controls {
		real = append(real, c.Texts...)
	}
	random.Shuffle(len(real), func(i, j int) { real[i], real[j] = real[j], real[i] })
	product := some(in.Product, n, random)
	if n = min(n, len(product), len(real)/4); n < 1 {
		return nil,
			fmt.Errorf("judge: %d texts of the product and %d of clients held out make no pair with its examples",
				len(in.Product), len(real))
	}
	answers := make([][2]string, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(asked)
	for i := range n {
		cut := min(len(words(product[i])), len(words(real[i])))
		a, b := firstWords(product[i], max(1, cut)), firstWords(real[i], max(1, cut))
		examples := real[n+3*i : n+3*i+3]
		for order, pair := range [2][2]string{{a, b}, {b, a}} {
			group.Go(func() (err error) {
				q := fmt.Sprintf(question, examples[0], examples[1], examples[2], pair[0], pair[1])
				answers[i][order], err = ask(ctx, q)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	p := &Preference{Model: model, Question: strings.NewReplacer("%s", "…").Replace(question)}
	won := 0.0
	for _, answer := range answers {
		first, second := letter(answer[0]), letter(answer[1])
		switch {
		case first == 0 || second == 0:
			p.Unreadable++
			continue
		case first == second: // the same place in both orders
			p.Undecided++
			won += 0.5
		case first == 'A':
			won++
		}
		p.Pairs++
	}
	if p.Pairs == 0 {
		return nil, fmt.Errorf("judge: the model %s answers neither A nor B, such as %q", model, answers[0][0])
	}
	p.Product, p.ProductCI = won/float64(p.Pairs), wilson(won/float64(p.Pairs), p.Pairs)
	return p, nil
}

// letter is the answer A or B, 0 for neither: the first letter that stands alone.
func letter(answer string) byte {
	for _, w := range strings.FieldsFunc(answer,
		func(r rune) bool { return strings.ContainsRune(" \t\n\r.,:;!?()[]*\"'`", r) }) {
		if w == "A" || w == "B" {
			return w[0]
		}
	}
	return 0
}

// wilson is the 95 % interval of a share of n (Wilson 1927).
func wilson(share float64, n int) [2]float64 {
	const z = 1.959963984540054
	m := float64(n)
	middle := (share + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(share*(1-share)/m+z*z/(4*m*m))
	return [2]float64{max(0, middle-half), min(1, middle+half)}
}
