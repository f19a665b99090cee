package aggregate

import (
	"fmt"

	"popri/model/embedding"
	"popri/model/safetensors"
	"popri/scoring"
	"popri/scoring/query"
)

// Embeddings are what a question about texts' embeddings is about.
type Embeddings struct {
	scoring.Question
	Encoder string // the key of the encoder of meanings
	// Form and Words are the weights of what is next to its embeddings ([embedding.Joined]).
	Form, Words float64
}

// embedded is the metadata of the file.
type embedded struct {
	head
	Encoder string  `json:"encoder"`
	Form    float64 `json:"form,omitempty"`
	Words   float64 `json:"words,omitempty"`
}

const (
	embeddingsFormat = "popri question 1"

	samplesTensor = "samples" // n×d float32
	centreTensor  = "centre"  // d float64
)

// With is the encoder that answers the question, made of the encoder of meanings.
func (q Embeddings) With(e embedding.Encoder) embedding.Encoder {
	return embedding.Join(e, q.Form, q.Words)
}

// maxWeight bounds the weights of form and words, as scoring.form and scoring.words are bounded.
const maxWeight = 10

// Asked implements About.
func (q Embeddings) Asked() (query.Question, error) { return q.Query() }

// file implements About.
func (q Embeddings) file(h head) (any, []safetensors.Tensor) {
	h.Format, h.Query, h.Key, h.Bound = embeddingsFormat, q.Name, q.Key, q.Bound
	var tensors []safetensors.Tensor
	if q.Samples.Rows > 0 {
		shape := []int64{int64(q.Samples.Rows), int64(q.Samples.Dim)}
		tensors = append(tensors, safetensors.FromFloat32(samplesTensor, shape, q.Samples.Data))
	}
	if n := len(q.Centre); n > 0 {
		tensors = append(tensors, safetensors.FromFloat64(centreTensor, []int64{int64(n)}, q.Centre))
	}
	return embedded{h, q.Encoder, q.Form, q.Words}, tensors
}

// read implements described.
func (e *embedded) read(f *safetensors.File) (About, error) {
	if err := (limits{
		{"encoder", e.Encoder, e.Encoder != "", "an encoder's key"},
		{"form", e.Form, e.Form >= 0 && e.Form <= maxWeight, fmt.Sprintf("a weight of 0 to %d", maxWeight)},
		{"words", e.Words, e.Words >= 0 && e.Words <= maxWeight, fmt.Sprintf("a weight of 0 to %d", maxWeight)},
	}).check(); err != nil {
		return nil, err
	}
	q := Embeddings{Question: scoring.Question{Name: e.Query, Key: e.Key, Bound: e.Bound}, Encoder: e.Encoder, Form: e.Form,
		Words: e.Words}
	if t, ok := f.Tensor(samplesTensor); ok {
		data, err := t.Float32s()
		if err != nil || len(t.Shape) != 2 || t.Shape[1] < 1 {
			return nil, fmt.Errorf("the samples have the shape %v, want rows of numbers", t.Shape)
		}
		q.Samples = embedding.Matrix{Rows: int(t.Shape[0]), Dim: int(t.Shape[1]), Data: data}
	}
	if t, ok := f.Tensor(centreTensor); ok {
		err := t.CheckFinite()
		if err == nil {
			q.Centre, err = t.Float64s()
		}
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", centreTensor, err)
		}
	}
	return q, nil
}
