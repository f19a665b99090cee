package incontext

import (
	"context"
	"fmt"
	"math"
	"slices"

	"popri/model/lm"
	"popri/model/tensor"
)

// noContent is the text without content whose answers calibrate those of texts.
const noContent = "N/A"

// Tokens of a forward pass, and of a row behind its demonstrations: both may be exceeded by one text. The work of attention in
// a row grows with the square of its length.
const (
	batchTokens = 4096
	rowTokens   = 512
)

// Answers are what a model says of texts that it is asked about with the same demonstrations.
type Answers struct {
	LogProbs [][]float64 // [text][label], nats, summed over the label's tokens
	Prior    []float64   // [label], of the text without content
}

// Label is the likeliest label of the text at a place, or, calibrated, the one that gains the most by the text.
func (a Answers) Label(at int, calibrated bool) int {
	best := 0
	score := func(label int) float64 {
		if calibrated {
			return a.LogProbs[at][label] - a.Prior[label]
		}
		return a.LogProbs[at][label]
	}
	for l := range a.Prior {
		if score(l) > score(best) {
			best = l
		}
	}
	return best
}

// Ask asks m for the label of each text. The demonstrations are computed once for many texts where that is less work. told,
// if not nil, is called with the number of texts done. Demonstrations that leave no room for a text in the model's context
// are an error.
func (f Format) Ask(ctx context.Context, m *lm.Model, demonstrations []Example, texts, labels []string,
	told func(done int)) (*Answers, error) {
	begin, answers := f.beginning(demonstrations), make([][]int32, len(labels))
	longest, words := 0, 0
	for i, l := range labels {
		answers[i] = f.answer(l)
		longest, words = max(longest, len(answers[i])), words+len(answers[i])
	}
	var all [][]float64
	var rows []lm.Row
	var waiting [][]int32 // questions of the row that is being made
	tokens, held := 0, 0  // of rows, and of the row that is being made without its beginning
	closeRow := func() {
		if len(waiting) > 0 {
			rows, tokens = append(rows, row(begin, waiting, answers)), tokens+len(begin)+held
			waiting, held = nil, 0
		}
	}
	flush := func() error {
		closeRow()
		if err := ctx.Err(); err != nil {
			return err
		}
		scores, err := sequences(m, rows)
		if err != nil {
			return err
		}
		all, rows, tokens = append(all, slices.Collect(slices.Chunk(scores, len(labels)))...), nil, 0
		if told != nil {
			told(min(len(all), len(texts)))
		}
		return nil
	}
	for i := range len(texts) + 1 {
		text := noContent
		if i < len(texts) {
			text = texts[i]
		}
		question := f.question(text)
		if n := len(begin) + len(question) + longest; n > m.Config.Context {
			return nil, fmt.Errorf("%d demonstrations and a text have %d tokens, and the model's context has %d: show fewer "+
				"(--shots), or shorter ones (downstream.length)", len(demonstrations), n, m.Config.Context)
		}
		// Either the question stands once for each label behind demonstrations that many questions share, or once for all labels.
		repeated, alone := len(labels)*len(question)+words, len(begin)+len(question)+words
		if repeated < alone {
			waiting, held = append(waiting, question), held+repeated
			if held > rowTokens {
				closeRow()
			}
		} else {
			closeRow()
			rows, tokens = append(rows, row(slices.Concat(begin, question), [][]int32{nil}, answers)), tokens+alone
		}
		if tokens+held > batchTokens {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return &Answers{LogProbs: all[:len(texts)], Prior: all[len(texts)]}, nil
}

// row holds each question with each answer behind a common beginning; only answers count.
func row(begin []int32, questions, answers [][]int32) lm.Row {
	var completions [][]int32
	for _, q := range questions {
		for _, a := range answers {
			completions = append(completions, slices.Concat(q, a))
		}
	}
	r := lm.NewRow(begin, completions...)
	at := len(begin)
	for _, q := range questions {
		for _, a := range answers {
			for range q {
				r.Labels[at] = lm.Ignore
				at++
			}
			at += len(a)
		}
	}
	return r
}

// sequences returns the summed log-probability of the counted tokens of each sequence of rows, nats.
func sequences(m *lm.Model, rows []lm.Row) (sums []float64, err error) {
	for _, r := range rows {
		sums = append(sums, make([]float64, 1+len(r.Branches))...)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	err = tensor.Run(func(s *tensor.Scope) error {
		s.NoGrad(func() {
			scored := m.Score(s, rows, nil, false)
			for i, p := range scored.LogProbs {
				sums[scored.Row[i]] += float64(p)
			}
		})
		return nil
	})
	for i, v := range sums {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("the model gives sequence %d the log-probability %g", i, v)
		}
	}
	return sums, err
}
