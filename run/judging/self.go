package judging

import (
	"context"
	"slices"
	"sync"

	"popri/eval/judge"
	"popri/internal/fault"
	"popri/methods/sampling"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/run/assembly"
)

// self asks a generator without adapters, here: its answer is the likelier one of the letters A and B, behind the
// question as a user's turn by its chat template, or behind the question and "Answer:" where it has none.
func self(g assembly.Generator) (judge.Asker, error) {
	turn, err := sampling.Turns(g.Dir, g.Tokenizer)
	if err != nil {
		return nil, err
	}
	prefix, _ := g.Tokenizer.Template()
	var one sync.Mutex // at a time, on all threads
	return func(ctx context.Context, question string) (string, error) {
		text, space := question+"\n\nAnswer:", " "
		if turn != nil {
			if text, err = turn(question); err != nil {
				return "", err
			}
			space = ""
		}
		prompt := slices.Concat(prefix, g.Tokenizer.Encode(text))
		letters := []string{"A", "B"}
		row := lm.NewRow(prompt, g.Tokenizer.Encode(space+letters[0]), g.Tokenizer.Encode(space+letters[1]))
		if n := len(prompt) + 1; n > g.Model.Config.Context {
			return "", fault.Userf("a question has %d tokens, and the generator's context has %d", n,
				g.Model.Config.Context)
		}
		one.Lock()
		defer one.Unlock()
		sums := make([]float64, len(letters))
		err := tensor.Run(func(s *tensor.Scope) error {
			scored := g.Model.Score(s, []lm.Row{row}, nil, false)
			for i, p := range scored.LogProbs {
				sums[scored.Row[i]] += float64(p)
			}
			return ctx.Err()
		})
		if sums[1] > sums[0] {
			return letters[1], err
		}
		return letters[0], err
	}, nil
}
