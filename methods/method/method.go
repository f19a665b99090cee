// Package method is the common part of the methods: how a method describes itself ([Description]), and what it works
// with ([Env]). Each method is a folder in methods/; package methods lists them.
package method

import (
	"context"
	"fmt"
	"math"

	"popri/configs"
	"popri/datasets"
	"popri/eval/metrics"
	"popri/internal/atomicfile"
	"popri/lora"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/sampling/vllm"
	"popri/model/embedding"
	"popri/model/lm"
	"popri/model/tokenizer"
	"popri/scoring"
	"popri/scoring/update"
)

// Env is what every method works with. All of it is public, or covered by the guarantee as the clients' releases are,
// but for Reference.
type Env struct {
	Dir       string // the run's folder
	Config    configs.Config
	Model     *lm.Model // the generator: float32 weights; its Compute decides the arithmetic
	ModelDir  string    // its folder
	Tokenizer *tokenizer.Tokenizer
	Public    datasets.Public
	Prompter  *sampling.Prompter // makes prompts of the public texts
	Writer    sampling.Writer
	Engine    *vllm.Server      // draws the samples of the model and its adapters; nil is this program
	Encoder   embedding.Encoder // of sentences, with form and words where scoring.form and scoring.words are above 0
	Clients   int               // the number of train clients
	// Reference describes the embeddings of validation text, whose clients are not protected: what the samples' Fréchet
	// distance is measured to. nil leaves the measurement out.
	Reference *metrics.Gaussian
	// Likelihoods are the mean log-likelihoods, in nats a token, of texts under the small model in dir.
	Likelihoods func(ctx context.Context, dir string, texts []string, tell func(done, total int)) ([]float64, error)
	Given       Given
}

// Prune implements rounds.Method: a round keeps all its files, unless the method has its own Prune.
func (Env) Prune(int) error { return nil }

// Close implements rounds.Method for a method that holds no memory of its own.
func (Env) Close() {}

// Given is what a method asks for by its [Needs]; the rest is nil.
type Given struct {
	Small  *Small
	Topics *scoring.Topics // of the public texts
	Kinds  []string        // of text that the model can be asked for (generate.kinds); nil for none
}

// Small is the small model (downstream.model) of methods that train it at the clients.
type Small struct {
	Dir   string // its folder
	Model update.Model
	// Open opens what the clients train of it.
	Open func() (*lora.Part, error)
	// Validate measures it on the validation clients, who are not protected: nats a token, and the fraction of tokens that
	// are predicted exactly. nil where there are none.
	Validate func(*lora.Part) (loss, accuracy float64, err error)
	// Encode gives texts as rows, cut as clients' texts and evaluations' are.
	Encode func(texts []string) []lm.Row
	// After gives texts as rows behind a line each, whose tokens do not count in the loss.
	After     func(lines, texts []string) []lm.Row
	Tokenizer *tokenizer.Tokenizer // its own
	// Predict calls use for each token of the validation clients with the model's logits before it, which use may
	// overwrite, and the token before it. nil where there are none.
	Predict func(p *lora.Part, use func(before, next int32, logits []float32)) error
}

// Distance is the Fréchet distance of samples to the reference; nil without one.
func (e Env) Distance(vectors embedding.Matrix) (*float64, error) {
	return e.toReference(vectors, (*metrics.Gaussian).Distance)
}

// NoteDistance notes [Env.Distance] as a round's figure of that key; nothing without a reference.
func (e Env) NoteDistance(r *rounds.Round, key string, vectors embedding.Matrix) error {
	distance, err := e.Distance(vectors)
	if err == nil {
		r.Figures.SetIf(key, distance)
	}
	return err
}

// Apart is the distance of the mean of samples to the reference's; nil without one.
func (e Env) Apart(vectors embedding.Matrix) (*float64, error) {
	return e.toReference(vectors, (*metrics.Gaussian).Apart)
}

// Transport is the Wasserstein distance of samples from the reference; nil without one.
func (e Env) Transport(vectors embedding.Matrix) (*float64, error) {
	return e.toReference(vectors, (*metrics.Gaussian).Wasserstein)
}

// toReference is a distance of samples, as a Gaussian, to the reference; nil without one.
func (e Env) toReference(vectors embedding.Matrix, distance func(g, to *metrics.Gaussian) (float64, error)) (*float64,
	error) {
	if e.Reference == nil {
		return nil, nil
	}
	vectors = embedding.Meaning(e.Encoder, vectors)
	g, err := metrics.NewGaussian(vectors.Data, vectors.Dim)
	if err != nil {
		return nil, err
	}
	d, err := distance(g, e.Reference)
	return &d, err
}

// View is where samples are in the plane of the reference's first two principal components, whose origin is the
// reference's mean (POPri, Figures 2 and 4).
type View struct {
	Points [][2]float64 `json:"points"`
	// Reference is the standard deviation of the reference along each axis.
	Reference [2]float64 `json:"reference_sd"`
	// Medoid is the median distance of all samples to their medoid, which falls where the samples become alike.
	Medoid float64 `json:"-"`
}

// viewed is the number of points of a [View].
const viewed = 200

// View looks at samples, of which it shows some at even distances; nil without a reference.
func (e Env) View(vectors embedding.Matrix) (*View, error) {
	if e.Reference == nil {
		return nil, nil
	}
	plane, err := e.Reference.Plane()
	if err != nil {
		return nil, err
	}
	points, err := plane.Project(embedding.Meaning(e.Encoder, vectors).Data)
	if err != nil {
		return nil, err
	}
	v := &View{Reference: plane.SD}
	if v.Medoid, err = metrics.MedoidSpread(points); err != nil {
		return nil, err
	}
	for i := range min(viewed, len(points)) {
		p := points[i*len(points)/min(viewed, len(points))]
		v.Points = append(v.Points, [2]float64{math.Round(p[0]*1e4) / 1e4, math.Round(p[1]*1e4) / 1e4})
	}
	return v, nil
}

// Key identifies the samples in a file and the run's encoder, for a query.
func (e Env) Key(file string) (string, error) {
	hash, err := atomicfile.SHA256(file)
	if err != nil {
		return "", fmt.Errorf("identify the samples: %w", err)
	}
	return hash + " " + embedding.Key(e.Encoder), nil
}
