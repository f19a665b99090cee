// Package query says what clients are asked: a vector of bounded norm from each, of which only the noised sum is seen.
//
//	q.Vector(clients, i)   what client i answers: ‖·‖₂ ≤ q.Bound()
//	q.Sum(clients)         the sum over all clients, computed at once: Σ_i q.Vector(clients, i)
//
// Package fedsim asks any query, charges the ledger for its bound and publishes the noised sum under its name and key.
// The queries themselves are in package scoring, whose test conforms every query must pass.
package query

import (
	"fmt"

	"popri/internal/parallel"
	"popri/model/embedding"
)

// Question is what every question to the clients says of itself: those about embeddings, which are [Query], those about
// weights, of package update, about counts, of package counts, and those for the tokens of teachers, of package ensemble.
type Question interface {
	// Name identifies the question and everything that decides the vector except the samples: "cosine/standardize".
	Name() string
	// Key identifies the samples, features or weights, so that no release is mistaken for one about others.
	Key() string
	// Len is the number of values of a vector.
	Len() int
	// Bound is the L2 norm that no client's vector exceeds: the sensitivity if one client's texts are taken away.
	Bound() float64
}

// Choosing is a question whose noised sum nobody sees: what is released is a choice that is made by it.
type Choosing interface {
	Question
	// Choose returns the values of the release. They follow from the noised sum, the standard deviation of its noise,
	// and u, a secret uniform number in [0, 1).
	Choose(noised []float64, std, u float64) []float64
	// Chosen is the number of these values.
	Chosen() int
}

// Ranking is a question of which no sum is released, but which of the samples have the most votes. Each client has one
// vote.
type Ranking interface {
	Question
	// NeedsTexts reports whether a vote depends on each text's embedding.
	NeedsTexts() bool
	// Counts is the exact number of votes for each sample. It is private data.
	Counts(c Clients) ([]int64, error)
	// Limits are how many of the largest counts can be released, and how many are at most.
	Limits() (domain, picks int)
}

// Query is one question to all clients about their texts' embeddings. Implementations are safe for concurrent use.
type Query interface {
	Question
	// NeedsTexts reports whether a vector depends on each text's embedding instead of their mean alone.
	NeedsTexts() bool
	// Vector is the answer of client i. A client without texts answers zeros.
	Vector(c Clients, i int) ([]float64, error)
	// Sum is the sum of all clients' vectors. It is private data until noise is added.
	Sum(c Clients) ([]float64, error)
}

// Means holds the mean text embedding of each client, one a row. It is private data.
type Means struct {
	Clients, Dim int
	Data         []float64 // Clients·Dim values, row-major
}

// Row returns client i's mean; it shares m's memory.
func (m Means) Row(i int) []float64 { return m.Data[i*m.Dim : (i+1)*m.Dim] }

// Clients has the clients' texts as vectors. It is private data.
type Clients struct {
	Means
	// Texts has the embedding of each text, one a row, and client i owns rows Offsets[i] to Offsets[i+1]. Both are
	// empty if only the means were kept.
	Texts   embedding.Matrix
	Offsets []int
	// Labels has the number of each text's label in a public list, -1 for a label that is not in it. nil where no
	// question needs labels.
	Labels []int32
}

// HasTexts reports whether the texts' embeddings were kept.
func (c Clients) HasTexts() bool { return len(c.Offsets) == c.Clients+1 }

// Of returns the embeddings of client i's texts.
func (c Clients) Of(i int) embedding.Matrix { return c.Texts.Slice(c.Offsets[i], c.Offsets[i+1]) }

// LabelsOf returns the labels of client i's texts; nil where no labels were kept.
func (c Clients) LabelsOf(i int) []int32 {
	if c.Labels == nil {
		return nil
	}
	return c.Labels[c.Offsets[i]:c.Offsets[i+1]]
}

// Select picks clients; it does not copy if it picks all of them.
func (c Clients) Select(which []int) Clients {
	if len(which) == c.Clients {
		return c
	}
	out := Clients{Means: Means{Clients: len(which), Dim: c.Dim, Data: make([]float64, 0, len(which)*c.Dim)}}
	for _, i := range which {
		out.Data = append(out.Data, c.Row(i)...)
	}
	if !c.HasTexts() {
		return out
	}
	out.Texts.Dim, out.Offsets = c.Dim, []int{0}
	for _, i := range which {
		m := c.Of(i)
		out.Texts.Data = append(out.Texts.Data, m.Data...)
		out.Texts.Rows += m.Rows
		out.Offsets = append(out.Offsets, out.Texts.Rows)
		out.Labels = append(out.Labels, c.LabelsOf(i)...)
	}
	return out
}

// MeanEmbeddings averages each client's rows: client i owns rows offsets[i] to offsets[i+1]. Texts must be unit
// vectors.
func MeanEmbeddings(texts embedding.Matrix, offsets []int) (Means, error) {
	if err := texts.Check(); err != nil {
		return Means{}, fmt.Errorf("query: texts: %w", err)
	}
	if len(offsets) < 1 || offsets[0] != 0 || offsets[len(offsets)-1] != texts.Rows {
		return Means{}, fmt.Errorf("query: the clients' offsets must run from 0 to %d texts", texts.Rows)
	}
	m := Means{Clients: len(offsets) - 1, Dim: texts.Dim, Data: make([]float64, (len(offsets)-1)*texts.Dim)}
	for i := range m.Clients {
		if offsets[i+1] < offsets[i] {
			return Means{}, fmt.Errorf("query: client %d has offsets %d to %d", i, offsets[i], offsets[i+1])
		}
	}
	parallel.Ranges(m.Clients, 64, func(from, to int) {
		for i := from; i < to; i++ {
			MeanRow(m.Row(i), texts.Slice(offsets[i], offsets[i+1]))
		}
	})
	return m, nil
}

// MeanRow writes the mean of the rows of texts into mean; zeros where there are none.
func MeanRow(mean []float64, texts embedding.Matrix) {
	clear(mean)
	if texts.Rows == 0 {
		return
	}
	i := 0
	for ; i+4 <= texts.Rows; i += 4 { // four rows for each time that a sum is read and written
		a, b, c, d := texts.Row(i), texts.Row(i+1), texts.Row(i+2), texts.Row(i+3)
		b, c, d, sums := b[:len(a)], c[:len(a)], d[:len(a)], mean[:len(a)]
		for j, v := range a {
			sums[j] = sums[j] + float64(v) + float64(b[j]) + float64(c[j]) + float64(d[j])
		}
	}
	for ; i < texts.Rows; i++ {
		for j, v := range texts.Row(i) {
			mean[j] += float64(v)
		}
	}
	for j := range mean {
		mean[j] /= float64(texts.Rows)
	}
}
