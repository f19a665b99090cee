package aggregate

import (
	"encoding/json"
	"fmt"
	"math"
	"os"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/model/embedding"
	"popri/model/safetensors"
	"popri/scoring"
	"popri/scoring/query"
)

// Question is what the clients of a run are asked in a round, with all that a machine near them needs besides the
// encoder. It is public.
type Question struct {
	scoring.Question
	Round   int    // from 1
	Clients int    // that are asked: the enrolled ones
	Encoder string // the key of the encoder of meanings
	// Form is the weight of the measures of form besides its embeddings ([embedding.Form]); 0: embeddings alone.
	Form float64
	// Since leaves out older texts, as data.since does; "" leaves out none.
	Since string
	// Nonce is drawn once for each round of a run, so that no two runs ask by the same file.
	Nonce string
	// ID is the hex SHA-256 of the question's file.
	ID string
}

// asked is the part of a question that is no tensor: the metadata of its file.
type asked struct {
	Format  string  `json:"format"`
	Round   int     `json:"round"`
	Query   string  `json:"query"`
	Key     string  `json:"key"`
	Bound   float64 `json:"norm_bound"`
	Clients int     `json:"clients"`
	Encoder string  `json:"encoder"`
	Since   string  `json:"since"`
	Nonce   string  `json:"nonce,omitempty"` // older questions have none
	Form    float64 `json:"form,omitempty"`
}

const (
	questionFormat = "popri question 1"
	questionKey    = "popri.question"

	samplesTensor = "samples" // n×d float32
	centreTensor  = "centre"  // d float64
	rootTensor    = "root"    // rank·d float64
)

// With is the encoder that answers the question, made of the encoder of meanings.
func (q Question) With(e embedding.Encoder) embedding.Encoder {
	if q.Form == 0 {
		return e
	}
	return &embedding.Form{Encoder: e, Weight: q.Form}
}

// maxForm bounds the weight of form, as scoring.form is bounded.
const maxForm = 10

// Write writes the question's file. The same question gives the same bytes.
func (q Question) Write(path string) error {
	head, err := json.Marshal(asked{questionFormat, q.Round, q.Name, q.Key, q.Bound, q.Clients, q.Encoder, q.Since,
		q.Nonce, q.Form})
	if err != nil {
		return fmt.Errorf("aggregate: the question of round %d: %w", q.Round, err)
	}
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
	return safetensors.Write(path, tensors, map[string]string{questionKey: string(head)})
}

// ReadQuestion reads a question's file and makes its query, which checks it.
func ReadQuestion(path string) (Question, query.Query, error) {
	q, err := readQuestion(path)
	if err != nil {
		if _, missing := os.Stat(path); missing != nil {
			err = missing
		}
		return q, nil, fault.Userf("the question cannot be read: %w", err)
	}
	m, err := q.Query()
	if err != nil {
		return q, nil, fault.Userf("the question %s: %w", path, err)
	}
	return q, m, nil
}

func readQuestion(path string) (Question, error) {
	var q Question
	id, err := atomicfile.SHA256(path)
	if err != nil {
		return q, err
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return q, err
	}
	defer f.Close()
	var head asked
	if err := json.Unmarshal([]byte(f.Metadata()[questionKey]), &head); err != nil || head.Format != questionFormat {
		return q, fmt.Errorf("%s does not have the metadata of %q", path, questionFormat)
	}
	q = Question{Question: scoring.Question{Name: head.Query, Key: head.Key, Bound: head.Bound}, Round: head.Round,
		Clients: head.Clients, Encoder: head.Encoder, Form: head.Form, Since: head.Since, Nonce: head.Nonce, ID: id}
	if q.Round < 1 || q.Clients < 1 || q.Clients > maxClients || q.Key == "" || q.Encoder == "" {
		return q, fmt.Errorf("%s: it asks %d clients in round %d about %q with encoder %q", path, q.Clients, q.Round,
			q.Key, q.Encoder)
	}
	if !(q.Form >= 0 && q.Form <= maxForm) {
		return q, fmt.Errorf("%s: the measures of form have the weight %g, want 0 to %d", path, q.Form, maxForm)
	}
	if t, ok := f.Tensor(samplesTensor); ok {
		data, err := t.Float32s()
		if err != nil || len(t.Shape) != 2 || t.Shape[1] < 1 {
			return q, fmt.Errorf("%s: the samples have the shape %v, want rows of numbers", path, t.Shape)
		}
		q.Samples = embedding.Matrix{Rows: int(t.Shape[0]), Dim: int(t.Shape[1]), Data: data}
	}
	for name, into := range map[string]*[]float64{centreTensor: &q.Centre, rootTensor: &q.Root} {
		t, ok := f.Tensor(name)
		if !ok {
			continue
		}
		data, err := t.Float64s()
		if err != nil {
			return q, fmt.Errorf("%s: tensor %q: %w", path, name, err)
		}
		for _, v := range data {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return q, fmt.Errorf("%s: tensor %q holds %g", path, name, v)
			}
		}
		*into = data
	}
	return q, nil
}
