package incontext

import (
	"context"
	"fmt"
	"sync"

	"popri/internal/numeric"
	"popri/model/lm"
	"popri/model/tensor"
)

// noContent is the text without content whose answers calibrate the answers for texts.
const noContent = "N/A"

// batchTokens are the tokens of a forward pass without the demonstrations; one text may have more.
const batchTokens = 1024

// Answers are what a model says of texts that it is asked about with the same demonstrations.
type Answers struct {
	LogProbs [][]float64 // [text][label], nats, summed over the label's tokens
	Prior    []float64   // [label], of the text without content
}

// Label is the likeliest label of the text at an index, or, calibrated, the one that gains the most by the text.
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

// Ask asks m for the label of each text. The demonstrations are computed once, and texts of similar length go together.
// told, if not nil, is called with the number of texts done. Demonstrations that leave no room for a text in the
// model's context are an error.
func (f Format) Ask(ctx context.Context, m *lm.Model, demonstrations []Example, texts, labels []string,
	told func(done int)) (*Answers, error) {
	begin, answers := f.beginning(demonstrations), make([][]int32, len(labels))
	longest, words := 0, 0
	for i, l := range labels {
		answers[i] = f.answer(l)
		longest, words = max(longest, len(answers[i])), words+len(answers[i])
	}
	last := max(0, len(begin)-1) // stands in each row, because a row's first token is not predicted
	questions := make([][]int32, len(texts)+1)
	for i, t := range append(texts[:len(texts):len(texts)], noContent) {
		questions[i] = append(begin[last:len(begin):len(begin)], f.question(t)...)
		if n := last + len(questions[i]) + longest; n > m.Config.Context {
			return nil, fmt.Errorf("%d demonstrations and a text have %d tokens, and the model's context has %d: show "+
				"fewer (--shots), or shorter ones (downstream.length)", len(demonstrations), n, m.Config.Context)
		}
	}
	shared, err := m.Begin(begin[:last])
	if err != nil {
		return nil, err
	}
	defer shared.Free()
	batches := numeric.ByLength(len(questions), func(i int) int { return len(questions[i]) },
		func(count, longest, _ int) bool { return count*(longest+words) <= batchTokens })
	all, done, lock := make([][]float64, len(questions)), 0, sync.Mutex{}
	err = tensor.Parallel(len(batches), func(i int, s *tensor.Scope) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows := make([]lm.Row, len(batches[i]))
		for k, at := range batches[i] {
			rows[k] = lm.NewRow(questions[at], answers...)
			all[at] = make([]float64, len(answers))
		}
		scored := shared.Score(s, rows)
		for k, p := range scored.LogProbs {
			all[batches[i][scored.Row[k]/len(answers)]][scored.Row[k]%len(answers)] += float64(p)
		}
		for _, at := range batches[i] {
			if l := numeric.NotFinite(all[at]); l >= 0 {
				return fmt.Errorf("the model gives the label %q of text %d the log-probability %g", labels[l], at,
					all[at][l])
			}
		}
		lock.Lock()
		defer lock.Unlock()
		if done += len(rows); told != nil {
			told(min(done, len(texts)))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Answers{LogProbs: all[:len(texts)], Prior: all[len(texts)]}, nil
}
