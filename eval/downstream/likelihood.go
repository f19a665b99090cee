package downstream

import (
	"context"

	"popri/model/lm"
	"popri/model/tensor"
)

// likelihoodTexts is the number of texts after which a measurement of likelihoods can end or report progress.
const likelihoodTexts = 256

// Likelihoods are the mean log-likelihoods of each text's tokens under a model, in nats, of rows as in a training; 0 for a
// text without tokens. What ends a row does not count: the recipes end rows with different tokens, so that a model of one
// recipe would favour long texts over a model of another one, or short texts. tell is told how many texts are done.
func Likelihoods(ctx context.Context, m *lm.Model, e Encoder, texts []string, tell func(done, total int)) ([]float64,
	error) {
	out := make([]float64, 0, len(texts))
	for len(out) < len(texts) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var rows []lm.Row
		for _, text := range texts[len(out):min(len(out)+likelihoodTexts, len(texts))] {
			tokens, _ := e.unended(text)
			rows = append(rows, lm.Row{Tokens: tokens})
		}
		err := tensor.Run(func(s *tensor.Scope) error {
			scores, err := m.EvaluateRows(s, rows, nil, evalTokens, nil)
			for _, r := range scores {
				out = append(out, -r.Loss/float64(max(1, r.Tokens)))
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		tell(len(out), len(texts))
	}
	return out, nil
}
