// Package words puts the frequencies of common tokens beside a sentence embedding. A mean embedding hardly sees which words texts
// use, and the words are most of what a small language model learns from text.
package words

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"popri/model/embedding"
	"popri/model/tokenizer"
)

// Encoder embeds a text as [e(x), w(x)]: the embedding e of another encoder, and w, the weighted frequencies of the tokens in
// [Encoder.Tokens]:
//
//	w(x)[i] = Weights[i] · (how often token i is in x) / (number of tokens of x)
//
// It is for questions that scale the two parts of a client's mean by themselves (scoring.Joint).
type Encoder struct {
	embedding.Encoder // of sentences
	Tokens            []int32
	// Weights are Prior^(−whitening): a client's vector is scaled to a norm bound, of which common words would take nearly all.
	Weights []float32
	// Prior is about how frequent each token is in any text.
	Prior []float64

	tok   *tokenizer.Tokenizer
	place map[int32]int
	hash  string
}

// whitening was chosen on validation clients, with the noise of ε = 1 (docs/experiments.md).
const whitening = 0.35

// zipfOffset keeps the first tokens of a vocabulary, many of which are bytes and markers, from taking most of its prior.
const zipfOffset = 200

// New chooses count tokens that are likely to be frequent in any text. Their prior is the mean of two: the frequencies in public
// texts, and the law of Zipf for the order of a vocabulary, in which training puts more frequent tokens first.
func New(e embedding.Encoder, tok *tokenizer.Tokenizer, public []string, count int) (*Encoder, error) {
	prior, total := make([]float64, tok.VocabSize()), 0.0
	for _, text := range public {
		for _, id := range tok.Encode(text) {
			prior[id]++
			total++
		}
	}
	if total == 0 {
		return nil, errors.New("words: the public texts have no tokens to count")
	}
	zipf := 0.0
	for id := range prior {
		zipf += 1 / float64(id+zipfOffset)
	}
	var order []int32
	for id := range prior {
		if !tok.IsSpecial(int32(id)) {
			order = append(order, int32(id))
		}
		prior[id] = 0.5*prior[id]/total + 0.5/float64(id+zipfOffset)/zipf
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(prior[b], prior[a]), cmp.Compare(a, b)) })
	w := &Encoder{Encoder: e, Tokens: order[:min(count, len(order))], tok: tok, place: map[int32]int{}}
	for i, id := range w.Tokens {
		w.place[id] = i
		w.Prior = append(w.Prior, prior[id])
		w.Weights = append(w.Weights, float32(math.Pow(prior[id], -whitening)))
	}
	h := sha256.New()
	fmt.Fprintln(h, embedding.Key(e), w.Tokens, w.Weights)
	w.hash = hex.EncodeToString(h.Sum(nil)[:16])
	return w, nil
}

// Sentence is the encoder of sentences.
func (w *Encoder) Sentence() embedding.Encoder { return w.Encoder }

// Name implements embedding.Encoder.
func (w *Encoder) Name() string { return fmt.Sprintf("%s+words-%d", w.Encoder.Name(), len(w.Tokens)) }

// Dim implements embedding.Encoder.
func (w *Encoder) Dim() int { return w.Encoder.Dim() + len(w.Tokens) }

// Hash identifies the weights of the encoder of sentences, the tokens and their weights.
func (w *Encoder) Hash() string { return w.hash }

// Encode implements embedding.Encoder.
func (w *Encoder) Encode(texts []string) (embedding.Matrix, error) {
	sentences, err := w.Encoder.Encode(texts)
	if err != nil {
		return sentences, err
	}
	out := embedding.NewMatrix(len(texts), w.Dim())
	for i, text := range texts {
		row := out.Row(i)
		copy(row, sentences.Row(i))
		ids := w.tok.Encode(text)
		for _, id := range ids {
			if at, ok := w.place[id]; ok {
				row[sentences.Dim+at] += w.Weights[at] / float32(len(ids))
			}
		}
	}
	return out, nil
}

// Count returns how often each token of the encoder is among the ids, and how many there are in all.
func (w *Encoder) Count(texts []string) (counts []float64, total float64) {
	counts = make([]float64, len(w.Tokens))
	for _, text := range texts {
		for _, id := range w.tok.Encode(text) {
			if at, ok := w.place[id]; ok {
				counts[at]++
			}
			total++
		}
	}
	return counts, total
}
