package downstream

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"popri/datasets/clients"
	"popri/eval/keyboard"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/model/lm"
	"popri/model/tensor"
)

// Score is the evaluation of one client.
type Score struct {
	Tokens  int     `json:"tokens"`
	Correct int     `json:"correct"` // tokens that are the model's likeliest
	Top3    int     `json:"top3"`    // and that are among its three
	Top5    int     `json:"top5"`    // and five likeliest ones
	Loss    float64 `json:"loss"`    // summed, nats
	// Characters is the tokens' number of characters (Unicode code points); 0 of a classification.
	Characters int `json:"characters,omitempty"`
	// Typed are the characters of the texts that were typed on a keyboard with suggestions, and Saved the keystrokes that
	// these save.
	Typed int `json:"typed,omitempty"`
	Saved int `json:"saved,omitempty"`
	// Named has the labels of each text, of a classification, whose tokens are texts.
	Named []Named `json:"named,omitempty"`
}

// Set is clients' text prepared for evaluation.
type Set struct {
	Rows       []lm.Row
	client     []int   // of each row
	characters []int   // of each row; nil of a classification
	classes    []int32 // of each row of a classification, from the number of the model's labels on of others; nil of next tokens
	apart      bool    // no batch has rows of two clients, so that a client's score does not depend on others' texts
	n          int
}

// newSet prepares the clients' texts.
func newSet(e Encoder, list []clients.Client) Set {
	set := Set{n: len(list)}
	for i, c := range list {
		for _, text := range c.Texts {
			row, characters := e.row(text)
			set.add(i, []lm.Row{row})
			set.characters = append(set.characters, characters)
		}
	}
	return set
}

// add adds rows of a client.
func (set *Set) add(client int, rows []lm.Row) {
	set.Rows = append(set.Rows, rows...)
	for range rows {
		set.client = append(set.client, client)
	}
}

// draw returns the set with up to most of its rows, drawn by the seed; all where most is 0.
func (set Set) draw(most int, seed uint64) Set {
	out := Set{n: set.n, apart: set.apart}
	for _, i := range drawn(len(set.Rows), most, seed, "tested") {
		out.add(set.client[i], set.Rows[i:i+1])
		if set.characters != nil {
			out.characters = append(out.characters, set.characters[i])
		}
		if set.classes != nil {
			out.classes = append(out.classes, set.classes[i])
		}
	}
	return out
}

// Measure returns the mean loss of the model, with an adapter or nil, over all counted tokens of rows, in nats, and the
// fraction of them that it predicts exactly.
func Measure(m *lm.Model, a lm.Adapter, rows []lm.Row) (loss, accuracy float64, err error) {
	err = tensor.Run(func(s *tensor.Scope) error {
		loss, accuracy, err = m.Evaluate(s, rows, a, evalTokens, nil)
		return err
	})
	return loss, accuracy, err
}

// evaluate scores the model on each client of the set.
func evaluate(s *tensor.Scope, m Tested, set Set, done func(tokens int) error) ([]Score, error) {
	scores := make([]Score, set.n)
	rows, err := set.scored(s, m, done)
	if err != nil {
		return nil, err
	}
	for i, r := range rows {
		c := &scores[set.client[i]]
		c.Tokens += r.Tokens
		if set.classes != nil {
			c.Named = append(c.Named, Named{set.classes[i], r.Best})
			if set.classes[i] != set.Rows[i].Class {
				continue
			}
		}
		c.Correct += r.Correct
		c.Top3 += r.Top3
		c.Top5 += r.Top5
		c.Loss += r.Loss
		if set.characters != nil {
			c.Characters += set.characters[i]
		}
	}
	return scores, nil
}

// scored scores the model on each row.
func (set Set) scored(s *tensor.Scope, m Tested, done func(tokens int) error) (all []lm.RowScore, err error) {
	if !set.apart {
		return m.rows(s, set.Rows, done)
	}
	for from, to := 0, 0; from < len(set.Rows); from = to {
		for to < len(set.Rows) && set.client[to] == set.client[from] {
			to++
		}
		part, err := m.rows(s, set.Rows[from:to], done)
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	return all, nil
}

// typedTexts is the number of test texts, drawn by the seed, that are typed on the keyboard.
const typedTexts = 200

// typeOn types test texts on the model's keyboard, and adds what its suggestions save.
func typeOn(s *tensor.Scope, m Tested, k *keyboard.Keyboard, set Set, seed uint64, scores []Score) {
	order := drawn(len(set.Rows), typedTexts, seed, "typed")
	rows := make([]lm.Row, len(order))
	for i, at := range order {
		rows[i] = set.Rows[at]
		scores[set.client[at]].Typed += set.characters[at]
	}
	m.distributions(s, rows, func(row, token int, logits []float32) {
		if word := k.Begins(rows[row].Tokens, token); word != "" {
			scores[set.client[order[row]]].Saved += k.Saved(logits, word)
		}
	})
}

// Interval is a 95 % confidence interval.
type Interval [2]float64

// total adds up the scores of all clients; the labels of a classification are left out.
func total(scores []Score) (all Score) {
	for _, c := range scores {
		all.add(c)
	}
	return all
}

func (s *Score) add(c Score) {
	s.Tokens, s.Correct, s.Top3, s.Top5 = s.Tokens+c.Tokens, s.Correct+c.Correct, s.Top3+c.Top3, s.Top5+c.Top5
	s.Loss, s.Characters, s.Typed, s.Saved = s.Loss+c.Loss, s.Characters+c.Characters, s.Typed+c.Typed, s.Saved+c.Saved
}

// accuracyOf is the fraction of all tokens that are predicted exactly.
func accuracyOf(scores []Score) float64 {
	all := total(scores)
	return float64(all.Correct) / float64(all.Tokens)
}

// perplexityOf is exp of the mean loss over all tokens.
func perplexityOf(scores []Score) float64 {
	all := total(scores)
	return math.Exp(all.Loss / float64(all.Tokens))
}

// bitsOf is the mean information of a character, in bits. Unlike perplexity, it compares models of different
// vocabularies.
func bitsOf(scores []Score) float64 {
	all := total(scores)
	return all.Loss / math.Ln2 / float64(all.Characters)
}

// savedOf is the fraction of keystrokes that suggestions save.
func savedOf(scores []Score) float64 {
	all := total(scores)
	return float64(all.Saved) / float64(all.Typed)
}

// folded adds up the trainings' scores of each of n clients; the labels of a classification are left out.
func folded(scores []Score, n int) []Score {
	out := make([]Score, n)
	for i, s := range scores {
		out[i%n].add(s)
	}
	return out
}

// deciles are the perplexities of the tenths of the clients that have tokens, from those whose texts the model at ε = 0
// finds easiest to those that it finds hardest; nil of fewer than ten clients.
func deciles(scores, zero []Score) (of []float64) {
	order := numeric.Where(len(zero), func(i int) bool { return zero[i].Tokens > 0 })
	if len(order) < 10 {
		return nil
	}
	each := func(i int) float64 { return zero[i].Loss / float64(zero[i].Tokens) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(each(a), each(b)) })
	for d := range 10 {
		of = append(of, perplexityOf(numeric.Pick(scores, order[d*len(order)/10:(d+1)*len(order)/10])))
	}
	return of
}

// gapClosed is the fraction of the way from zero (ε = 0) to infinite (ε = ∞) that the scores' accuracy covers.
func gapClosed(scores, zero, infinite []Score) float64 {
	a, b, c := accuracyOf(zero), accuracyOf(scores), accuracyOf(infinite)
	return (b - a) / (c - a)
}

// bootstrap returns the 95 % percentile interval of a statistic over n clients drawn with replacement (Efron 1979). A
// list holds the clients' scores of one training after another. Every list gets the same draws of clients, so that
// differences are compared client by client, and draws of its own of trainings.
func bootstrap(n, draws int, seed uint64, statistic func(lists ...[]Score) float64, lists ...[]Score) (Interval, error) {
	if n == 0 || draws < 1 {
		return Interval{}, fmt.Errorf("downstream: %d bootstrap draws of %d clients", draws, n)
	}
	for _, l := range lists {
		if len(l) == 0 || len(l)%n != 0 {
			return Interval{}, fmt.Errorf("downstream: a list of %d scores of %d clients", len(l), n)
		}
	}
	random := rng.New(seed, "downstream", "bootstrap")
	values := make([]float64, 0, draws)
	drawn, trainings := make([][]Score, len(lists)), make([][]int, len(lists))
	for range draws {
		for k, l := range lists {
			drawn[k], trainings[k] = drawn[k][:0], make([]int, len(l)/n)
			for t := range trainings[k] {
				if len(trainings[k]) > 1 {
					trainings[k][t] = random.IntN(len(trainings[k]))
				}
			}
		}
		for range n {
			i := random.IntN(n)
			for k, l := range lists {
				for _, t := range trainings[k] {
					drawn[k] = append(drawn[k], l[t*n+i])
				}
			}
		}
		if v := statistic(drawn...); numeric.Finite(v) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return Interval{math.NaN(), math.NaN()}, nil
	}
	slices.Sort(values)
	at := func(p float64) float64 { return values[min(len(values)-1, int(p*float64(len(values))))] }
	return Interval{at(0.025), at(0.975)}, nil
}
