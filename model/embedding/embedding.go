package embedding

import (
	"fmt"
	"strings"
)

// Matrix holds one vector a row, in row-major order.
type Matrix struct {
	Rows, Dim int
	Data      []float32 // Rows·Dim values
}

// NewMatrix returns a matrix of zeros.
func NewMatrix(rows, dim int) Matrix { return Matrix{rows, dim, make([]float32, rows*dim)} }

// Row returns row i; it shares m's memory.
func (m Matrix) Row(i int) []float32 { return m.Data[i*m.Dim : (i+1)*m.Dim : (i+1)*m.Dim] }

// Slice returns rows from (included) to to (excluded); it shares m's memory.
func (m Matrix) Slice(from, to int) Matrix {
	return Matrix{to - from, m.Dim, m.Data[from*m.Dim : to*m.Dim : to*m.Dim]}
}

// Pick returns a copy of the rows with these indices, in their order.
func (m Matrix) Pick(indices []int) Matrix {
	out := NewMatrix(len(indices), m.Dim)
	for i, at := range indices {
		copy(out.Row(i), m.Row(at))
	}
	return out
}

// Check returns an error if the sizes do not fit together.
func (m Matrix) Check() error {
	if m.Rows < 0 || m.Dim < 1 || len(m.Data) != m.Rows*m.Dim {
		return fmt.Errorf("embedding: matrix of %d×%d with %d values", m.Rows, m.Dim, len(m.Data))
	}
	return nil
}

// Encoder turns texts into vectors. Implementations are safe for concurrent use.
type Encoder interface {
	// Name says which encoder this is, for people: "hashing-256".
	Name() string
	// Dim is the length of the vectors.
	Dim() int
	// Encode returns one row for each text. The row has unit length, or is all zeros if the encoder finds nothing in
	// the text (as Hashing in a blank one); its cosine with everything is then 0. A row depends on its text alone, not
	// on the rest of the batch.
	Encode(texts []string) (Matrix, error)
}

// Sentence is the encoder of sentences within e: e itself, unless e puts further values next to an embedding.
func Sentence(e Encoder) Encoder {
	if joined, ok := e.(interface{ Sentence() Encoder }); ok {
		return joined.Sentence()
	}
	return e
}

// Meaning returns the part of vectors of e that [Sentence] made.
func Meaning(e Encoder, vectors Matrix) Matrix {
	dim := Sentence(e).Dim()
	if dim == vectors.Dim {
		return vectors
	}
	out := NewMatrix(vectors.Rows, dim)
	for i := range vectors.Rows {
		copy(out.Row(i), vectors.Row(i))
	}
	return out
}

// Key identifies an encoder with its weights and settings, for cache keys: its Hash if it has one.
func Key(e Encoder) string {
	if h, ok := e.(interface{ Hash() string }); ok {
		return e.Name() + "-" + h.Hash()
	}
	return fmt.Sprintf("%s-%d", e.Name(), e.Dim())
}

// arithmetics end the keys of sentence encoders: how the vectors are computed.
var arithmetics = []string{"-spago", "-float32", "-bfloat16", "-float32-cuda", "-bfloat16-cuda"}

// SameWeights reports whether two keys are of one sentence encoder, perhaps computed in different ways.
func SameWeights(a, b string) bool {
	weights := func(key string) string {
		for _, end := range arithmetics {
			if rest, ok := strings.CutSuffix(key, end); ok {
				return rest
			}
		}
		return key
	}
	return weights(a) == weights(b)
}
