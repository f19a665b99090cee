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
	// Form is the weight of the measures of form besides its embeddings ([embedding.Form]); 0: embeddings alone.
	Form float64
}

// embedded is the metadata of the file.
type embedded struct {
	head
	Encoder string  `json:"encoder"`
	Form    float64 `json:"form,omitempty"`
}

const (
	embeddingsFormat = "popri question 1"

	samplesTensor = "samples" // n×d float32
	centreTensor  = "centre"  // d float64
	rootTensor    = "root"    // rank·d float64
)

// With is the encoder that answers the question, made of the encoder of meanings.
func (q Embeddings) With(e embedding.Encoder) embedding.Encoder {
	if q.Form == 0 {
		return e
	}
	return &embedding.Form{Encoder: e, Weight: q.Form}
}

// maxForm bounds the weight of form, as scoring.form is bounded.
const maxForm = 10

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
	for name, data := range map[string][]float64{centreTensor: q.Centre, rootTensor: q.Root} {
		if len(data) > 0 {
			tensors = append(tensors, safetensors.FromFloat64(name, []int64{int64(len(data))}, data))
		}
	}
	return embedded{h, q.Encoder, q.Form}, tensors
}

// read implements described.
func (e *embedded) read(f *safetensors.File) (About, error) {
	if err := (limits{
		{"encoder", e.Encoder, e.Encoder != "", "an encoder's key"},
		{"form", e.Form, e.Form >= 0 && e.Form <= maxForm, fmt.Sprintf("a weight of 0 to %d", maxForm)},
	}).check(); err != nil {
		return nil, err
	}
	q := Embeddings{Question: scoring.Question{Name: e.Query, Key: e.Key, Bound: e.Bound}, Encoder: e.Encoder, Form: e.Form}
	if t, ok := f.Tensor(samplesTensor); ok {
		data, err := t.Float32s()
		if err != nil || len(t.Shape) != 2 || t.Shape[1] < 1 {
			return nil, fmt.Errorf("the samples have the shape %v, want rows of numbers", t.Shape)
		}
		q.Samples = embedding.Matrix{Rows: int(t.Shape[0]), Dim: int(t.Shape[1]), Data: data}
	}
	for name, into := range map[string]*[]float64{centreTensor: &q.Centre, rootTensor: &q.Root} {
		t, ok := f.Tensor(name)
		if !ok {
			continue
		}
		err := t.CheckFinite()
		if err == nil {
			*into, err = t.Float64s()
		}
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
	}
	return q, nil
}
