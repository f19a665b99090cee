package pretrain

import (
	"popri/datasets"
	"popri/internal/fault"
	"popri/model/tokenizer"
)

// Tokenizer loads the tokenizer in dir or, where dir is "", trains a byte-level BPE of vocab tokens on texts.
func Tokenizer(texts []datasets.Text, dir string, vocab int) (*tokenizer.Tokenizer, error) {
	if dir != "" {
		tok, err := tokenizer.Load(dir)
		return tok, fault.User(err)
	}
	return tokenizer.TrainBPE(func(yield func(string) bool) {
		for _, t := range texts {
			if !yield(t.Text + newline) {
				return
			}
		}
	}, tokenizer.TrainOptions{VocabSize: vocab, SpecialTokens: []string{endOfText}})
}
