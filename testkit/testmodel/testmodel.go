// Package testmodel loads models and tokenizers for tests. What cannot be loaded ends the test.
package testmodel

import (
	"testing"

	"popri/model/lm"
	"popri/model/tokenizer"
)

// Load is [lm.Load].
func Load(t testing.TB, dir string, o lm.Options) *lm.Model {
	t.Helper()
	m, err := lm.Load(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Tokenizer is [tokenizer.Load].
func Tokenizer(t testing.TB, path string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
