package aggregate

import (
	"encoding/hex"
	"fmt"
	"math"

	"popri/model/safetensors"
	"popri/scoring/query"
	"popri/scoring/update"
)

// Updates are what a question is about that has clients train an adapter of the small model on their texts: the
// adapter's vector and the training. The machine near the clients has the model itself.
type Updates struct{ update.Question }

// training is the metadata of the file.
type training struct {
	head
	update.Training
	Model update.Model `json:"model"`
	Seed  uint64       `json:"seed"`
}

const (
	updatesFormat = "popri update question 1"

	weightsTensor = "weights" // float32, one row

	// maxTokens bounds the tokens of a client's step, in memory at once: 16 texts of 1024.
	maxTokens = 1 << 14
)

// Asked implements About.
func (q Updates) Asked() (query.Question, error) { return q.Question, nil }

// file implements About.
func (q Updates) file(h head) (any, []safetensors.Tensor) {
	h.Format, h.Query, h.Key, h.Bound = updatesFormat, q.Name(), q.Key(), q.Bound()
	return training{h, q.Training, q.Model, q.Seed},
		[]safetensors.Tensor{safetensors.FromFloat32(weightsTensor, []int64{int64(q.Len())}, q.Weights)}
}

// read implements described.
func (m *training) read(f *safetensors.File) (About, error) {
	t, ok := f.Tensor(weightsTensor)
	if !ok || t.DType != safetensors.F32 || len(t.Shape) != 1 || t.Shape[0] < 1 || t.Shape[0] > maxValues {
		return nil, fmt.Errorf("tensor %q is %s of the shape %v, want 1 to %d float32", weightsTensor, t.DType, t.Shape, maxValues)
	}
	err := t.CheckFinite()
	q := Updates{update.Question{Training: m.Training, Model: m.Model, Round: m.Round, Seed: m.Seed}}
	if err == nil {
		q.Weights, err = t.Float32s()
	}
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", weightsTensor, err)
	}
	q.Clip = m.Bound
	folder, err := hex.DecodeString(m.Model.Folder)
	return q, limits{
		{"norm_bound", m.Bound, m.Bound > 0 && !math.IsInf(m.Bound, 1), "more than 0"},
		{"rate", m.Rate, m.Rate > 0 && m.Rate <= 1000, "more than 0, and 1000 at most"},
		between("epochs", m.Epochs, 1, 1000),
		between("batch", m.Batch, 1, 1<<10),
		between("texts", m.Training.Rows, 0, 1<<24),
		{"model.folder", m.Model.Folder, err == nil && len(folder) == 32, "a SHA-256"},
		between("model.rank", m.Model.Rank, 1, 256),
		between("model.length", m.Model.Length, 2, maxTokens/max(1, m.Batch)),
		{"query", m.Query, m.Query == q.Name(), q.Name()},
		{"key", m.Key, m.Key == q.Key(), q.Key()},
	}.check()
}
