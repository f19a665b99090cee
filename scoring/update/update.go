// Package update is the question for model updates: what a client's text changes in a model's weights, as one bounded
// vector (federated averaging; DP-FTRL sums up the same vectors).
//
//	w_i = SGD(w; client i's rows, Batch rows a step, Epochs passes, rate Rate)
//	v_i = (w_i − w) · min(1, Clip/‖w_i − w‖₂)          all weights are one vector
//
// The package holds no client's data. Package fedsim/local computes the updates, near the clients' texts.
package update

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/floats"

	"popri/internal/numeric"
)

// Training says how a client trains the model, and how far its update may reach.
type Training struct {
	Rate   float64 `json:"rate"`   // of plain stochastic gradient descent
	Epochs int     `json:"epochs"` // passes over the client's rows
	Batch  int     `json:"batch"`  // rows of a step
	Rows   int     `json:"texts"`  // of a pass at most; 0: all
	Clip   float64 `json:"-"`      // norm bound of the update, L2 over all weights
}

// Name identifies the training, without the weights and the bound: "update/sgd rate 0.03, 1 epoch, batch 2".
func (t Training) Name() string {
	name := fmt.Sprintf("update/sgd rate %g, epochs %d, batch %d", t.Rate, t.Epochs, t.Batch)
	if t.Rows > 0 {
		name += fmt.Sprintf(", of %d rows", t.Rows)
	}
	return name
}

// Model is what the clients train, and how their texts become its rows.
type Model struct {
	Folder  string `json:"folder"`       // hex SHA-256 of its architecture, tokenizer and weights
	Rank    int    `json:"rank"`         // of the adapter whose matrices B are the vector; 0: the vector is all weights
	Adapter uint64 `json:"adapter_seed"` // of that adapter's matrices A
	Rows    string `json:"rows"`         // form of a row, of package eval/downstream
	Length  int    `json:"length"`       // tokens of a row at most
}

// Named reports whether a question's name is the name of a [Training].
func Named(name string) bool { return strings.HasPrefix(name, "update/") }

// Question asks all clients of a round for their updates of the same weights. It implements query.Question.
type Question struct {
	Training
	Model   Model
	Weights []float32 // in the order of the parameters' sorted names, or of an adapter's modules
	Round   int
	Seed    uint64 // of the order in which a client goes through its rows
	// Earlier gives the question of an earlier round. Sums over several rounds (ledger.Tree) need it where a process
	// continues with what another one began; other sums never ask.
	Earlier func(round int) (Question, error)
}

// Name implements query.Question.
func (q Question) Name() string { return q.Training.Name() }

// Key implements query.Question: a hash of everything else that decides the updates.
func (q Question) Key() string {
	h := sha256.New()
	fmt.Fprintf(h, "%v\n%d %d\n", q.Model, q.Round, q.Seed)
	var b [4096]byte
	for from := 0; from < len(q.Weights); from += len(b) / 4 {
		some := q.Weights[from:min(from+len(b)/4, len(q.Weights))]
		for i, w := range some {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(w))
		}
		h.Write(b[:4*len(some)])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Len implements query.Question: the number of weights.
func (q Question) Len() int { return len(q.Weights) }

// Bound implements query.Question.
func (q Question) Bound() float64 { return q.Clip }

// Clip scales a vector down to the norm bound, in float64, and returns its norm before that. A vector that is not
// finite becomes zero: the client's training diverged, and its answer is that it has none.
func Clip(v []float64, bound float64) (norm float64) {
	norm = Norm(v)
	switch {
	case !numeric.Finite(norm):
		clear(v)
	case norm > bound:
		const less = 1 - 0x1p-40 // rounding may leave a norm above the bound
		floats.Scale(bound/norm*less, v)
		for Norm(v) > bound {
			floats.Scale(less, v)
		}
	}
	return norm
}

// Norm is the L2 norm.
func Norm(v []float64) float64 { return math.Sqrt(floats.Dot(v, v)) }
