// Package target is what one release tells of the clients: their mean embedding, and the frequencies of words in their
// texts if scoring.words asks for them. The scores of any text, and the relevance and the weight of every public
// text, follow from it at any time and cost no privacy.
//
//	clients   v_i = C · (m_i − μ)/‖m_i − μ‖      m_i mean embedding of client i, μ mean of all public texts
//	release   y = Σ v_i + N(0, σ²C²)             once in a run
//	mean      m̂ − μ = y / (C·n·g)                g the mean of 1/‖m − μ‖ over groups of public texts
//	score     ⟨x − μ, y⟩                         of a text x, up to a factor
//
// The scaling to the bound C gives every client the same weight and hides the length of its vector. Groups of public
// texts, as many as a client is assumed to have, show how long such vectors are.
//
// With the weighted frequencies w_i of words in client i's texts (scoring.words), and their share s of the squared bound:
//
//	clients   v_i = C · [ √(1−s)·(m_i − μ)/‖m_i − μ‖,  √s·w_i/‖w_i‖ ]
//	mean      m̂ − μ = y₁ / (√(1−s)·C·n·g)         of the first part y₁ of the release
//	words     y₂ / (√s·C·n)                        proportional to the weighted frequencies
package target

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"popri/configs"
	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// Query is what clients are asked.
func Query(c configs.Config) (name string, bound float64) {
	if HasWords(c) {
		return scoring.JointName(jointOptions(c)), c.Scoring.ClipNorm
	}
	return scoring.MeanNameOf(options(c)), c.Scoring.ClipNorm
}

// HasWords reports whether clients are asked for frequencies of words beside their mean embedding.
func HasWords(c configs.Config) bool { return c.Scoring.Words > 0 }

// Checks is the number of values of a release that hold noise alone. With 1024 of them, an audit finds noise of 0.85 of
// the charged one with a chance of 99 %.
const Checks = 1024

func options(c configs.Config) scoring.MeanOptions {
	return scoring.MeanOptions{Full: true, Bound: c.Scoring.ClipNorm, Checks: Checks}
}

func jointOptions(c configs.Config) scoring.JointOptions {
	return scoring.JointOptions{Words: c.Scoring.Words, Share: configs.WordsShare, Bound: c.Scoring.ClipNorm, Checks: Checks}
}

// Asked says in words what clients are asked for.
func Asked(c configs.Config) string {
	if HasWords(c) {
		return fmt.Sprintf("their mean embedding and the frequencies of %d tokens, which have %g of the squared norm bound",
			c.Scoring.Words, configs.WordsShare)
	}
	return "their mean embedding"
}

// Note says how the release is read, for the report.
func Note(c configs.Config) string {
	return "The clients were asked once, for " + Asked(c) + ". Every score of a sample and of a public text follows from that " +
		"release and costs no privacy."
}

// Traffic is what a client sends and receives, once: its answer for the public texts' mean embedding and the words' tokens and
// weights.
func Traffic(c configs.Config) method.Traffic {
	t := method.Traffic{Sent: c.Scoring.Dim + Checks, Received: c.Scoring.Dim}
	if HasWords(c) {
		t.Sent += c.Scoring.Words
		t.Received += 2 * c.Scoring.Words
	}
	return t
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
func Ask(e method.Env, r *rounds.Round, p *Pool) (*Target, error) {
	asked, err := p.Query(e)
	if err != nil {
		return nil, err
	}
	answer, err := r.CollectOnce(asked)
	if err != nil {
		return nil, err
	}
	return p.Read(answer), nil
}

// Again reads the release that an earlier call of [Ask] left in the run's folder.
func Again(e method.Env, p *Pool) (*Target, error) {
	answer, err := read(e.Dir, p.Vectors.Dim+p.words+Checks)
	if err != nil {
		return nil, err
	}
	return p.Read(answer), nil
}

// read reads the release of a run, which has the given number of values.
func read(dir string, values int) (*release.Release, error) {
	file := filepath.Join(rundir.Round(dir, 1), release.File)
	answer, err := release.Read(file)
	if err == nil && len(answer.Sum) != values {
		err = fmt.Errorf("target: %s has %d values, the clients' mean, words and checks have %d", file, len(answer.Sum), values)
	}
	return answer, err
}

// Query is the question to the clients, whose texts the environment's encoder embeds.
func (p *Pool) Query(e method.Env) (query.Query, error) {
	if e.Words != nil {
		o := jointOptions(e.Config)
		o.Centre, o.Words = p.Centre, p.words
		return scoring.NewJoint(p.Vectors.Dim, o, hash(p.Centre)+" "+embedding.Key(e.Words))
	}
	o := options(e.Config)
	o.Centre = p.Centre
	return scoring.NewMean(p.Vectors.Dim, o, hash(p.Centre)+" "+embedding.Key(e.Encoder))
}

// Read turns a release into an estimate of the clients' mean.
func (p *Pool) Read(answer *release.Release) *Target {
	each, share := answer.Bound*float64(answer.Clients), 0.0
	if p.words > 0 {
		share = configs.WordsShare
	}
	unit := math.Sqrt(1-share) * each * p.gain
	return &Target{Pool: p, Mean: scaled(answer.Sum[:p.Vectors.Dim], unit), Noise: answer.NoiseStd() / unit}
}

// Words returns what the release in the run's folder tells of the clients' weighted frequencies of words, as the mean of their unit
// vectors, which is proportional to them, and the standard deviation of the noise in each value.
func Words(e method.Env) (frequencies []float64, noise float64, err error) {
	from, count := e.Encoder.Dim(), len(e.Words.Tokens)
	answer, err := read(e.Dir, from+count+Checks)
	if err != nil {
		return nil, 0, err
	}
	unit := math.Sqrt(configs.WordsShare) * answer.Bound * float64(answer.Clients)
	return scaled(answer.Sum[from:from+count], unit), max(answer.NoiseStd()/unit, leastNoise), nil
}

// scaled returns v divided by unit.
func scaled(v []float64, unit float64) []float64 {
	out := make([]float64, len(v))
	floats.ScaleTo(out, 1/unit, v)
	return out
}

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
// maximum mean discrepancy between the clients' texts and those of the vectors (see scoring.Samples.Witness).
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

// Distance returns ‖m̂ − mean of the rows‖, the maximum mean discrepancy with the cosine as kernel. The noise adds about Noise·√dim to it.
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
