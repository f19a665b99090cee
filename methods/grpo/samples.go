package grpo

import (
	"cmp"
	"math"
	"slices"

	"popri/internal/numeric"
	"popri/methods/policy"
	"popri/model/lm"
)

// sample is a completion to train on.
type sample struct {
	prompt    int // among the round's
	index     int // among the prompt's samples
	tokens    []int32
	advantage float64
	old       []float32 // log-probabilities of the tokens under the policy that drew them, nats; nil if not needed
}

// group is a prompt with the samples to train on.
type group struct {
	prompt    []int32
	samples   []*sample
	reward    float64 // mean score of all its samples
	deviation float64 // of their scores
}

// groups are the samples to train on, the best of each prompt first. Empty samples are left out, but count in the mean
// and the standard deviation.
func groups(c policy.Candidates, scores []float64, size int) []group {
	advantages, deviations := advantages(scores, size)
	out := make([]group, len(c.Prompts))
	for i := range out {
		g := group{prompt: c.Prompts[i].IDs, deviation: deviations[i]}
		var order []int
		for j := range size {
			g.reward += scores[i*size+j] / float64(size)
			if c.Rows[i*size+j].Text != "" {
				order = append(order, i*size+j)
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
		for _, at := range order {
			g.samples = append(g.samples, &sample{prompt: i, index: at - i*size, tokens: c.Rows[at].IDs, advantage: advantages[at]})
		}
		out[i] = g
	}
	return out
}

// pass is a forward pass over rows, each a prompt with some of its samples. samples are in the rows' order.
type pass struct {
	rows    []lm.Row
	samples []*sample
}

// passes divides the samples of groups into forward passes of at most the given number of samples. A row holds the
// prompt once and as many samples as pay: each saves the prompt's work and lengthens what all tokens of the row attend
// to.
func passes(groups []group, hidden, most int) (out []pass) {
	var now pass
	end := func() {
		if len(now.samples) > 0 {
			out = append(out, now)
		}
		now = pass{}
	}
	for _, g := range groups {
		room := rowTokens(len(g.prompt), hidden)
		for rest := g.samples; len(rest) > 0; {
			n, tokens := 0, 0
			for n < min(len(rest), most) && (n == 0 || tokens+len(rest[n].tokens) <= room) {
				tokens += len(rest[n].tokens)
				n++
			}
			if len(now.samples)+n > most {
				end()
			}
			completions := numeric.Map(rest[:n], func(s *sample) []int32 { return s.tokens })
			now.rows = append(now.rows, lm.NewRow(g.prompt, completions...))
			now.samples = append(now.samples, rest[:n]...)
			rest = rest[n:]
		}
	}
	end()
	return out
}

// rowTokens is how many tokens of samples should share a row with a prompt. A token's work is about 12·hidden in the
// products with the weights and 2·(the row's length) in attention, so that the work for a sample's token in a row of n
// of them, (prompt/n + 1)·(12·hidden + 2·(prompt + n)), is least at this n.
func rowTokens(prompt, hidden int) int {
	return int(math.Sqrt(float64(prompt) * float64(6*hidden+prompt)))
}
