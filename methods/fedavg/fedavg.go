// Package fedavg is private federated averaging in its two forms: clients train the small model themselves, and the
// server adds up their clipped changes of the weights with noise. Neither writes text: the run publishes the model.
//
//	client i      v_i = clip(SGD(w; its rows) − w)           package scoring/update, computed by fedsim/local
//	DP-FedAvg     w ← w + rate/m · (Σ v_i + N(0, σ²C²))      all clients, or a cohort (McMahan et al. 2018)
//	DP-FTRL       w ← w₀ + rate/m · G(t)                     G(t): all updates of the pass so far, with the noise of a tree (Kairouz
//	                                                         et al. 2021), without completion; each pass is a tree of its own
//
// DP-FTRL takes the clients in a shuffled order, each once in a pass, and needs no sampling in secret. The release of
// its round t is the sum of the one node that leaf t completes. Sums of first leaves are made of these, so the method
// knows no more than what was released, and its whole state follows from the releases.
package fedavg

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"

	"popri/configs"
	"popri/fedsim/release"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rundir"
	"popri/lora"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/scoring/update"
)

// Method does the rounds of both forms.
type Method struct {
	method.Env
	part    *lora.Part // holds whichever weights are measured or written
	initial []float32
	server  *server
	skipped int     // rounds before the first one that trains, in which clients answer something else
	earlier *server // of the rounds before one that a tree's sum needs again
	at      int     // round of earlier
}

// New opens the small model. skipped is the number of rounds before the first one that trains.
func New(e method.Env, skipped int) (*Method, error) {
	part, err := e.Given.Small.Open()
	if err != nil {
		return nil, err
	}
	return &Method{Env: e, skipped: skipped, part: part, initial: part.Flat()}, nil
}

// Close implements rounds.Method.
func (m *Method) Close() {
	if m != nil { // where New failed
		m.part.Free()
	}
}

// Begin replaces the weights with which the first training begins.
func (m *Method) Begin(weights []float32) { m.initial = weights }

func (m *Method) begin() *server {
	f := settings.Of(m.Config)
	return newServer(m.initial, m.Config.Fed.Sampling == "tree", serverRate, f.Momentum)
}

// Restore implements rounds.Method.
func (m *Method) Restore(round int) (err error) {
	m.server = m.begin()
	return m.advance(m.server, 1+m.skipped, round)
}

// advance applies the releases of some rounds.
func (m *Method) advance(s *server, from, to int) error {
	for round := from; round <= to; round++ {
		r, err := release.Read(filepath.Join(rundir.Round(m.Dir, round), release.File))
		if err != nil {
			return err
		}
		s.apply(r)
	}
	return nil
}

// question asks for updates of weights in a round.
func (m *Method) question(weights []float32, round int) update.Question {
	return update.Question{Training: training(m.Config), Model: m.Given.Small.Model, Weights: weights, Round: round,
		Seed: rng.Seed(m.Config.Seed, "fedavg"), Earlier: m.before}
}

// before is the question of an earlier round. Calls for rounds in ascending order read each release once.
func (m *Method) before(round int) (update.Question, error) {
	if m.earlier == nil || m.at >= round {
		m.earlier, m.at = m.begin(), m.skipped
	}
	err := m.advance(m.earlier, m.at+1, round-1)
	m.at = round - 1
	return m.question(m.earlier.weights, round), err
}

// Round implements rounds.Method.
func (m *Method) Round(ctx context.Context, r *rounds.Round) error {
	if r.Number == 1 {
		if err := m.Measure(r, ""); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	answer, err := r.Collect(m.question(m.server.weights, r.Number))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	m.earlier = nil
	former := m.server.weights
	m.server.apply(answer)
	r.Figures.Set("moved", distance(m.server.weights, former))
	// A sum of a tree's first leaves has the noise of several nodes; here stands the noise of the release.
	r.Figures.Set("noise", noiseNorm(serverRate*answer.NoiseStd(), len(former), answer.Clients))
	r.Figures.Set("pass", float64(r.Number-m.skipped)*float64(answer.Clients)/float64(m.Clients))
	return m.Measure(r, rounds.After)
}

// noiseNorm is about the L2 norm of the noise in the mean of the clients' updates, whose sum has noise of the standard
// deviation std in each weight: std·√weights/clients.
func noiseNorm(std float64, weights, clients int) float64 {
	return std * math.Sqrt(float64(weights)) / float64(clients)
}

// Measure notes how well the weights do on the validation clients.
func (m *Method) Measure(r *rounds.Round, when string) error {
	if m.Given.Small.Validate == nil {
		return nil
	}
	return r.Stage("measure", func(rounds.Stage) error {
		if err := m.part.Set(m.server.weights); err != nil {
			return err
		}
		loss, accuracy, err := m.Given.Small.Validate(m.part)
		if err != nil {
			return err
		}
		if !numeric.Finite(loss) { // too much noise, or too high a rate: no figure can hold it, and nothing chooses it
			return nil
		}
		r.Figures.Set(configs.ValidationLoss+when, loss)
		r.Figures.Set("validation_accuracy"+when, accuracy)
		return nil
	})
}

func distance(a, b []float32) float64 {
	squares := 0.0
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		squares += d * d
	}
	return math.Sqrt(squares)
}

// Model implements rounds.ModelMethod: the weights in float32, with the tokenizer of the model that training began
// with. An adapter is merged into them, and is in the folder adapter, too.
func (m *Method) Model(_ rounds.Stage, dir string) error {
	err := m.Trained(func(small *lm.Model) error { return small.SaveLike(m.Given.Small.Dir, dir, safetensors.F32) })
	if err != nil || m.part.Adapter == nil {
		return err
	}
	return m.part.Adapter.Save(filepath.Join(dir, "adapter"))
}

// Trained calls use with the trained small model, into which an adapter is merged.
func (m *Method) Trained(use func(*lm.Model) error) error {
	if err := m.part.Set(m.server.weights); err != nil {
		return err
	}
	if m.part.Adapter == nil {
		return use(m.part.Model)
	}
	undo, err := m.part.Adapter.MergeInPlace(m.part.Model)
	if err != nil {
		return err
	}
	return errors.Join(use(m.part.Model), undo())
}

func training(c configs.Config) update.Training {
	f := settings.Of(c)
	t := update.Training{Rate: f.LearningRate, Epochs: f.LocalEpochs, Batch: batch, Rows: f.ClientTexts, Clip: f.ClipNorm}
	if f.LoRARank > 0 {
		t.Batch = adapterBatch
	}
	return t
}

// Query is the name and the norm bound of the clients' question.
func Query(c configs.Config) (string, float64) { return training(c).Name(), settings.Of(c).ClipNorm }

func work(c configs.Config) string {
	return fmt.Sprintf("training at the clients, %s of SGD at %g", epochs(settings.Of(c).LocalEpochs), settings.Of(c).LearningRate)
}

func epochs(n int) string {
	if n == 1 {
		return "1 epoch"
	}
	return strconv.Itoa(n) + " epochs"
}
