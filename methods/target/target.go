// Package target is what one release tells of the clients: their mean embedding. The scores of any text, and the
// relevance and the weight of every public text, follow from it at any time and cost no privacy.
//
//	clients   v_i = C · (m_i − μ)/‖m_i − μ‖      m_i mean embedding of client i, μ mean of all public texts
//	release   y = Σ v_i + N(0, σ²C²)             once in a run
//	mean      m̂ − μ = y / (C·n·g)                g the mean of 1/‖m − μ‖ over groups of public texts
//	score     ⟨x − μ, y⟩                         of a text x, up to a factor
//
// The scaling to the bound C gives every client the same weight and hides the length of its vector. Groups of public
// texts, as many as a client has (scoring.client_texts), show how long such vectors are.
package target

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"popri/configs"
	"popri/datasets"
	"popri/embedding"
	"popri/internal/cachedir"
	"popri/method"
	"popri/query"
	"popri/release"
	"popri/rundir"
	"popri/scoring"
	"popri/trainer"
)

// Query is what clients are asked.
func Query(c configs.Config) (name string, bound float64) {
	return scoring.MeanNameOf(options(c)), c.Scoring.ClipNorm
}

// Checks is the number of values of a release that hold noise alone. With 1024 of them, an audit finds noise of 0.85 of
// the charged one with a chance of 99 %.
const Checks = 1024

func options(c configs.Config) scoring.MeanOptions {
	return scoring.MeanOptions{Full: true, Bound: c.Scoring.ClipNorm, Checks: Checks}
}

// Pool is the public texts of a run with their vectors.
type Pool struct {
	Texts   []datasets.Text
	Vectors embedding.Matrix
	Centre  []float64 // μ

	key  string  // hash of the centre
	unit float64 // the mean of 1/‖m − μ‖; 0 until it is measured
}

// Embed embeds the run's public texts: those that the generator was trained on. Vectors of an encoder with weights of its
// own, which takes minutes for a large pool, stay in the user's cache folder.
func Embed(e method.Env) (_ *Pool, err error) {
	p := &Pool{Texts: e.Public.Generator}
	encode := e.Encoder.Encode
	if !slices.Contains(configs.Encoders, e.Config.Scoring.Encoder) {
		cache, err := cachedir.Dir()
		if err != nil {
			return nil, err
		}
		encode = func(texts []string) (embedding.Matrix, error) {
			return embedding.Stored(e.Encoder, filepath.Join(cache, "vectors"), texts)
		}
	}
	if p.Vectors, err = encode(datasets.Strings(p.Texts)); err != nil {
		return nil, err
	}
	p.Centre = mean(p.Vectors)
	p.key = hash(p.Centre)
	return p, nil
}

// Target is the release with its reading.
type Target struct {
	*Pool
	// Mean is the estimate of m̂ − μ.
	Mean []float64
	// Noise is the standard deviation of the noise in each value of Mean.
	Noise float64
}

// Ask asks the clients, in round 1; in a later round it reads the release of round 1.
func Ask(e method.Env, r *trainer.Round, p *Pool) (*Target, error) {
	o := options(e.Config)
	o.Centre = p.Centre
	asked, err := scoring.NewMean(p.Vectors.Dim, o, p.key+" "+embedding.Key(e.Encoder))
	if err != nil {
		return nil, err
	}
	answer, err := r.CollectOnce(asked)
	if err != nil {
		return nil, err
	}
	return p.read(answer, o.Bound, e.Config.Scoring.ClientTexts)
}

// Again reads the release that an earlier call of [Ask] left in the run's folder.
func Again(e method.Env, p *Pool) (*Target, error) {
	answer, err := release.Read(filepath.Join(rundir.Round(e.Dir, 1), release.File))
	if err != nil {
		return nil, err
	}
	if want := p.Vectors.Dim + Checks; len(answer.Sum) != want {
		return nil, fmt.Errorf("target: the release of round 1 has %d values, the encoder and the checks %d", len(answer.Sum),
			want)
	}
	return p.read(answer, e.Config.Scoring.ClipNorm, e.Config.Scoring.ClientTexts)
}

// read turns a release into an estimate of the clients' mean.
func (p *Pool) read(answer *release.Release, bound float64, clientTexts int) (*Target, error) {
	if p.unit == 0 { // once for all rounds
		var err error
		if p.unit, err = p.gain(clientTexts); err != nil {
			return nil, err
		}
	}
	unit := bound * float64(answer.Clients) * p.unit
	t := &Target{Pool: p, Mean: make([]float64, p.Vectors.Dim), Noise: answer.NoiseStd() / unit}
	for j, v := range answer.Sum[:p.Vectors.Dim] {
		t.Mean[j] = v / unit
	}
	return t, nil
}

// gainGroups is the number of groups of public texts that stand for clients.
const gainGroups = 2048

// gain returns the mean of 1/‖m − μ‖ over groups of each successive public texts.
func (p *Pool) gain(each int) (float64, error) {
	each = min(each, p.Vectors.Rows)
	groups := min(gainGroups, p.Vectors.Rows/max(1, each))
	sum, counted := 0.0, 0
	m := make([]float64, p.Vectors.Dim)
	for i := range groups {
		at := i * (p.Vectors.Rows - each + 1) / groups
		query.MeanRow(m, p.Vectors.Slice(at, at+each))
		square := 0.0
		for j, v := range m {
			square += (v - p.Centre[j]) * (v - p.Centre[j])
		}
		if square > 0 {
			sum += 1 / math.Sqrt(square)
			counted++
		}
	}
	if counted == 0 {
		return 0, fmt.Errorf("target: the %d public texts are all alike", p.Vectors.Rows)
	}
	return sum / float64(counted), nil
}

// Scores returns ⟨x − μ, m̂ − μ⟩ for each row x.
func (t *Target) Scores(vectors embedding.Matrix) []float64 {
	out := make([]float64, vectors.Rows)
	for i := range out {
		for j, x := range vectors.Row(i) {
			out[i] += (float64(x) - t.Centre[j]) * t.Mean[j]
		}
	}
	return out
}

// Witness returns ⟨x, m̂⟩ − ⟨x, mean of all rows⟩ for each row x, up to a constant: the witness function of the maximum
// mean discrepancy between the clients' texts and the rows (see scoring.Samples.Witness).
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

// Distance returns ‖m̂ − mean of the rows‖, the maximum mean discrepancy with the cosine as kernel. The noise adds about
// Noise·√dim to it.
func (t *Target) Distance(vectors embedding.Matrix) float64 {
	square := 0.0
	for j, v := range mean(vectors) {
		square += (t.Centre[j] + t.Mean[j] - v) * (t.Centre[j] + t.Mean[j] - v)
	}
	return math.Sqrt(square)
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
