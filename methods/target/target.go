// Package target is what one release says of the clients: their mean embedding, which includes form and words of their
// texts where scoring.form and scoring.words are above 0. The scores of any text, and the relevance and the weight of
// every public text, follow from it at any time and cost no privacy.
//
//	clients   v_i = C · (m_i − μ)/‖m_i − μ‖      m_i mean embedding of client i, μ mean of all public texts
//	release   y = Σ v_i + N(0, σ²C²)             once in a run
//	mean      m̂ − μ = y / (C·n·g·√(1 − ρ²))      g the mean of 1/‖m − μ‖ over groups of public texts, ρ = ‖y‖/(C·n)
//	score     ⟨x − μ, y⟩                         of a text x, up to a factor
//
// The scaling to the bound C gives every client the same weight and hides the length of its vector. Groups of public
// texts, as many as a client is assumed to have, show how long such vectors are, but for what all clients have in
// common: with m_i − μ = δ + ε_i, where ε_i is as long as the vector of a group, 1/g, the mean of the unit vectors is
// about δ/√(‖δ‖² + 1/g²), of length ρ. Hence ‖δ‖ = ρ/(g·√(1 − ρ²)). ρ² is taken without what the noise adds to it.
// Where the mean includes the form of texts, it is made shorter until no measure of form is impossible, such as a share
// of texts above 1.
package target

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// Target is the release with its reading.
type Target struct {
	*Pool
	// Mean is the estimate of m̂ − μ.
	Mean []float64
	// Noise is the standard deviation of the noise in each value of Mean.
	Noise float64
	// Form is what the release says of the form of the clients' texts; nothing without scoring.form.
	Form Form
}

// Ask asks the clients, in round 1; in a later round it reads the release of round 1.
func Ask(e method.Env, r *rounds.Round, p *Pool) (*Target, error) {
	asked, err := p.Query(e)
	if err != nil {
		return nil, err
	}
	answer, err := r.CollectOnce(asked)
	if err != nil {
		return nil, err
	}
	return p.Read(answer).styled(e), nil
}

// Again reads the release that an earlier call of [Ask] left in the run's folder.
func Again(e method.Env, p *Pool) (*Target, error) {
	file := filepath.Join(rundir.Round(e.Dir, 1), release.File)
	answer, err := release.Read(file)
	if err != nil {
		return nil, err
	}
	if want := p.Vectors.Dim + Checks; len(answer.Sum) != want {
		return nil, fmt.Errorf("target: %s has %d values, the clients' mean and checks have %d", file, len(answer.Sum), want)
	}
	return p.Read(answer).styled(e), nil
}

// Query is the question to the clients, whose texts the environment's encoder embeds.
func (p *Pool) Query(e method.Env) (query.Query, error) {
	o := options(e.Config)
	o.Centre = p.Centre
	return scoring.NewMean(p.Vectors.Dim, o, hash(p.Centre)+" "+embedding.Key(e.Encoder))
}

// Read turns a release into an estimate of the clients' mean.
func (p *Pool) Read(answer *release.Release) *Target {
	each, sum := answer.Bound*float64(answer.Clients), answer.Sum[:p.Vectors.Dim]
	noise := answer.NoiseStd() / each
	square := floats.Dot(sum, sum)/(each*each) - float64(len(sum))*noise*noise
	unit := p.gain * math.Sqrt(1-min(max(square, 0), mostShared)) // of what each client's unit vector adds to the mean
	t := &Target{Pool: p, Mean: make([]float64, len(sum)), Noise: noise / unit}
	floats.ScaleTo(t.Mean, 1/(unit*each), sum)
	return t
}

// mostShared bounds ρ². Where clients are all alike, their number and the noise leave no more to tell.
const mostShared = 0.95

// Scores returns ⟨x − μ, m̂ − μ⟩ for each row x, the embedding of a text.
func (t *Target) Scores(vectors embedding.Matrix) []float64 {
	out := make([]float64, vectors.Rows)
	for i := range out {
		for j, x := range vectors.Row(i) {
			out[i] += (float64(x) - t.Centre[j]) * t.Mean[j]
		}
	}
	return out
}

// Witness returns ⟨x, m̂⟩ − ⟨x, mean of all rows⟩ for each row x, up to a constant: the witness function of the
// maximum mean discrepancy between the clients' texts and the vectors' texts (see scoring.Samples.Witness).
func (t *Target) Witness(vectors embedding.Matrix) []float64 {
	own := mean(vectors)
	out := make([]float64, vectors.Rows)
	for i := range out {
		for j, x := range vectors.Row(i) {
			out[i] += float64(x) * (t.Centre[j] + t.Mean[j] - own[j])
		}
	}
	return out
}

// Distance returns ‖m̂ − mean of the rows‖, the maximum mean discrepancy with the cosine as kernel. The noise adds
// about Noise·√dim to it.
func (t *Target) Distance(vectors embedding.Matrix) float64 {
	square := 0.0
	for j, v := range mean(vectors) {
		square += (t.Centre[j] + t.Mean[j] - v) * (t.Centre[j] + t.Mean[j] - v)
	}
	return math.Sqrt(square)
}

// Chance is the standard error of [Target.Distance] from the draw of the samples, of which each prompt has perPrompt in
// succession: the noise of the release is the same for all samples.
//
//	d‖m̂ − x̄‖ = ⟨x̄ − m̂, dx̄⟩ / ‖m̂ − x̄‖
func (t *Target) Chance(vectors embedding.Matrix, perPrompt int) float64 {
	distance := t.Distance(vectors)
	prompts := make([]float64, vectors.Rows/perPrompt)
	if distance == 0 || len(prompts) < 2 {
		return 0
	}
	for i, w := range t.Witness(vectors) {
		prompts[i/perPrompt] += w / distance / float64(perPrompt)
	}
	return stat.StdDev(prompts, nil) / math.Sqrt(float64(len(prompts)))
}

func mean(m embedding.Matrix) []float64 {
	out := make([]float64, m.Dim)
	query.MeanRow(out, m)
	return out
}

// hash identifies the centre, so that a release is not mistaken for one with another centre.
func hash(centre []float64) string {
	h := sha256.New()
	for _, v := range centre {
		fmt.Fprintf(h, "%016x", math.Float64bits(v))
	}
	return hex.EncodeToString(h.Sum(nil))
}
