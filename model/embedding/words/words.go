// Package words puts the frequencies of common tokens and pairs of tokens beside a sentence embedding. The mean of such vectors
// over texts tells which words the texts use and how the words follow each other, which a sentence embedding hardly sees and
// which is most of what a small language model learns from text.
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

// Gram is a token, or a pair of neighbouring tokens.
type Gram struct {
	Before int32 // the token before; None for a token alone
	Token  int32
}

// None is the token before a [Gram] that is a token alone.
const None = -1

// Encoder embeds a text as [e(x), a·f(x)]: the embedding e of another encoder, and the frequencies f of the grams among the
// text's tokens, scaled to unit length. a is √(Share/(1−Share)), so that all vectors have the length 1/√(1−Share) (1 for a text
// without a gram). It is for questions that scale a client's vector to the norm bound.
type Encoder struct {
	embedding.Encoder // of sentences
	Grams             []Gram

	tok   *tokenizer.Tokenizer
	place map[Gram]int
	scale float32
	hash  string
}

// Share is the share of the grams in a vector's squared length. It was not searched for.
const Share = 0.5

// New chooses the count grams that are most frequent in public texts.
func New(e embedding.Encoder, tok *tokenizer.Tokenizer, public []string, count int) (*Encoder, error) {
	seen := map[Gram]int{}
	for _, text := range public {
		visit(tok.Encode(text), func(g Gram) { seen[g]++ })
	}
	if len(seen) == 0 {
		return nil, errors.New("words: the public texts have no tokens to count")
	}
	grams := make([]Gram, 0, len(seen))
	for g := range seen {
		grams = append(grams, g)
	}
	slices.SortFunc(grams, func(a, b Gram) int {
		return cmp.Or(cmp.Compare(seen[b], seen[a]), cmp.Compare(a.Before, b.Before), cmp.Compare(a.Token, b.Token))
	})
	w := &Encoder{Encoder: e, Grams: grams[:min(count, len(grams))], tok: tok, place: map[Gram]int{},
		scale: float32(math.Sqrt(Share / (1 - Share)))}
	for i, g := range w.Grams {
		w.place[g] = i
	}
	h := sha256.New()
	fmt.Fprintln(h, embedding.Key(e), w.scale, w.Grams)
	w.hash = hex.EncodeToString(h.Sum(nil)[:16])
	return w, nil
}

// visit calls f with each token and each pair of neighbours.
func visit(ids []int32, f func(Gram)) {
	for i, id := range ids {
		f(Gram{None, id})
		if i > 0 {
			f(Gram{ids[i-1], id})
		}
	}
}

// Sentence is the encoder of sentences.
func (w *Encoder) Sentence() embedding.Encoder { return w.Encoder }

// Name implements embedding.Encoder.
func (w *Encoder) Name() string { return fmt.Sprintf("%s+words-%d", w.Encoder.Name(), len(w.Grams)) }

// Dim implements embedding.Encoder.
func (w *Encoder) Dim() int { return w.Encoder.Dim() + len(w.Grams) }

// Hash identifies the weights of the encoder of sentences and the grams.
func (w *Encoder) Hash() string { return w.hash }

// Encode implements embedding.Encoder.
func (w *Encoder) Encode(texts []string) (embedding.Matrix, error) {
	sentences, err := w.Encoder.Encode(texts)
	if err != nil {
		return sentences, err
	}
	return w.Beside(sentences, texts), nil
}

// Beside puts the frequencies of grams beside embeddings of the texts, one a row.
func (w *Encoder) Beside(sentences embedding.Matrix, texts []string) embedding.Matrix {
	out := embedding.NewMatrix(len(texts), w.Dim())
	for i, text := range texts {
		row := out.Row(i)
		copy(row, sentences.Row(i))
		counts := row[sentences.Dim:]
		square := float32(0)
		visit(w.tok.Encode(text), func(g Gram) {
			if at, ok := w.place[g]; ok {
				square += 2*counts[at] + 1
				counts[at]++
			}
		})
		if square > 0 {
			scale := w.scale / float32(math.Sqrt(float64(square)))
			for j := range counts {
				counts[j] *= scale
			}
		}
	}
	return out
}
