// Package target is what one release tells of the clients: their mean embedding, and the means of further features of
// their texts if scoring.features asks for them. The scores of any text, and the relevance and the weight of every public
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
// With features, whose mean over all public texts is φ and over client i's texts f_i, and their share s of the squared
// bound, everything is the same in the joint space of points z(x):
//
//	clients   v_i = C · [ √(1−s)·(m_i − μ)/‖m_i − μ‖,  √s·(f_i − φ)/‖f_i − φ‖ ]
//	point     z(x) = [ x, a·f(x) ]               a = √(s/(1−s)) · g_f/g, g_f the mean of 1/‖f − φ‖ over the same groups
//	mean      ẑ − z̄ = y / (√(1−s)·C·n·g)         z̄ = [ μ, a·φ ]
//	score     ⟨z(x) − z̄, ẑ − z̄⟩
//
// The release has the same noise in all values, and a scales the features so that the estimate ẑ has, too: up to a common
// factor, each block is divided by its noise. Groups of public texts then have the share s of their squared distance from
// z̄ in the features, as clients have in their vectors.
package target

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"

	"gonum.org/v1/gonum/stat"

	"popri/configs"
	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/model/embedding"
	"popri/model/embedding/words"
	"popri/scoring"
	"popri/scoring/query"
)

// Query is what clients are asked.
func Query(c configs.Config) (name string, bound float64) {
	if HasFeatures(c) {
		return scoring.JointName(jointOptions(c)), c.Scoring.ClipNorm
	}
	return scoring.MeanNameOf(options(c)), c.Scoring.ClipNorm
}

// HasFeatures reports whether clients are asked for features beside their mean embedding. Their vector then depends on each
// text's embedding.
func HasFeatures(c configs.Config) bool {
	return c.Scoring.Features != "mean" && c.Scoring.Features != configs.Words
}

// Checks is the number of values of a release that hold noise alone. With 1024 of them, an audit finds noise of 0.85 of
// the charged one with a chance of 99 %.
const Checks = 1024

func options(c configs.Config) scoring.MeanOptions {
	return scoring.MeanOptions{Full: true, Bound: c.Scoring.ClipNorm, Checks: Checks}
}

func features(c configs.Config) scoring.FeatureOptions {
	return scoring.FeatureOptions{Kind: c.Scoring.Features, Count: c.Scoring.FeatureCount, Share: configs.FeatureShare}
}

func jointOptions(c configs.Config) scoring.JointOptions {
	return scoring.JointOptions{Features: features(c), Bound: c.Scoring.ClipNorm, Checks: Checks}
}

// Asked says in words what clients are asked for.
func Asked(c configs.Config) string {
	if c.Scoring.Features == configs.Words {
		return fmt.Sprintf("their mean embedding and the frequencies of %d tokens and pairs of tokens, which have %g of each text's "+
			"squared vector", c.Scoring.FeatureCount, words.Share)
	}
	if !HasFeatures(c) {
		return "their mean embedding"
	}
	o := features(c)
	what := map[string]string{scoring.FourierFeatures: "random Fourier features of their texts",
		scoring.HistogramFeatures: "shares of their texts in clusters of the public texts",
		scoring.MomentFeatures:    "second moments of their texts along the public texts' principal directions"}[o.Kind]
	return fmt.Sprintf("their mean embedding and %d %s, which have %g of the squared norm bound", o.Len(), what, o.Share)
}

// Note says how the release is read, for the report.
func Note(c configs.Config) string {
	return "The clients were asked once, for " + Asked(c) + ". Every score of a sample and of a public text follows from that " +
		"release and costs no privacy."
}

// Traffic is what a client sends and receives, once: its answer for the public texts' mean embedding, features and what
// defines them.
func Traffic(c configs.Config) method.Traffic {
	dim := c.Scoring.Dim
	if c.Scoring.Features == configs.Words {
		dim += c.Scoring.FeatureCount
	}
	t := method.Traffic{Sent: dim + Checks, Received: dim}
	if HasFeatures(c) {
		o := features(c)
		vectors := o.Count
		if o.Kind == scoring.MomentFeatures {
			vectors = o.Directions()
		}
		t.Sent += o.Len()
		t.Received += o.Len() + vectors*dim
	}
	return t
}

// Target is the release with its reading.
type Target struct {
	*Pool
	// Mean is the estimate of ẑ − z̄; without features, of m̂ − μ.
	Mean []float64
	// Noise is the standard deviation of the noise in each value of Mean.
	Noise float64
}

// Ask asks the clients, in round 1; in a later round it reads the release of round 1.
func Ask(e method.Env, r *rounds.Round, p *Pool) (*Target, error) {
	asked, err := p.Query(e.Config, e.Encoder)
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
	file := filepath.Join(rundir.Round(e.Dir, 1), release.File)
	answer, err := release.Read(file)
	if err != nil {
		return nil, err
	}
	if want := p.Points.Dim + Checks; len(answer.Sum) != want {
		return nil, fmt.Errorf("target: %s has %d values, the clients' mean and its checks have %d", file, len(answer.Sum), want)
	}
	return p.Read(answer), nil
}

// Query is the question to the clients, whose texts the encoder embeds.
func (p *Pool) Query(c configs.Config, e embedding.Encoder) (query.Query, error) {
	encoder := embedding.Key(e)
	mean := p.Centre[:p.Vectors.Dim]
	if p.features == nil {
		o := options(c)
		o.Centre = mean
		return scoring.NewMean(p.Vectors.Dim, o, hash(mean)+" "+encoder)
	}
	key := hash(mean) + " " + p.features.Key() + " " + encoder
	return scoring.NewJoint(p.features, mean, p.featureCentre, jointOptions(c), key)
}

// Read turns a release into an estimate of the clients' mean.
func (p *Pool) Read(answer *release.Release) *Target {
	unit := math.Sqrt(1-p.share) * answer.Bound * float64(answer.Clients) * p.gain
	t := &Target{Pool: p, Mean: make([]float64, p.Points.Dim), Noise: answer.NoiseStd() / unit}
	for j, v := range answer.Sum[:p.Points.Dim] {
		t.Mean[j] = v / unit
	}
	return t
}

// Words returns what the release tells of the frequencies of words (scoring.features=words), those of points, and the
// standard deviation of the release's noise, all in the unit of a point's values.
func (t *Target) Words(points embedding.Matrix) (wanted, have []float64, noise float64) {
	from := points.Dim - t.words
	return t.wanted()[from:], mean(points)[from:], max(t.Noise, leastNoise)
}

// Scores returns ⟨z − z̄, ẑ − z̄⟩ for each row z of points, which are from [Pool.PointsOf].
func (t *Target) Scores(points embedding.Matrix) []float64 {
	out := make([]float64, points.Rows)
	for i := range out {
		for j, x := range points.Row(i) {
			out[i] += (float64(x) - t.Centre[j]) * t.Mean[j]
		}
	}
	return out
}

// Witness returns ⟨z, ẑ⟩ − ⟨z, mean of all rows⟩ for each row z of points, up to a constant: the witness function of the
// maximum mean discrepancy between the clients' texts and those of the points (see scoring.Samples.Witness).
func (t *Target) Witness(points embedding.Matrix) []float64 {
	own := mean(points)
	out := make([]float64, points.Rows)
	for i := range out {
		for j, x := range points.Row(i) {
			out[i] += float64(x) * (t.Centre[j] + t.Mean[j] - own[j])
		}
	}
	return out
}

// Distance returns ‖ẑ − mean of the points‖, the maximum mean discrepancy with ⟨z, z'⟩ as kernel, which is the cosine
// without features. The noise adds about Noise·√dim to it.
func (t *Target) Distance(points embedding.Matrix) float64 {
	square := 0.0
	for j, v := range mean(points) {
		square += (t.Centre[j] + t.Mean[j] - v) * (t.Centre[j] + t.Mean[j] - v)
	}
	return math.Sqrt(square)
}

// Chance is the standard error of [Target.Distance] from the draw of the samples, of which each prompt has perPrompt in
// succession: the noise of the release is the same for all samples.
//
//	d‖ẑ − x̄‖ = ⟨x̄ − ẑ, dx̄⟩ / ‖ẑ − x̄‖
func (t *Target) Chance(points embedding.Matrix, perPrompt int) float64 {
	distance := t.Distance(points)
	prompts := make([]float64, points.Rows/perPrompt)
	if distance == 0 || len(prompts) < 2 {
		return 0
	}
	for i, w := range t.Witness(points) {
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
