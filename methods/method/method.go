// Package method is the common part of the methods: what a method works with, and how it describes itself. Each method
// is a folder in methods/; package methods lists them.
package method

import (
	"fmt"
	"math"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/ceiling"
	"popri/eval/metrics"
	"popri/internal/filehash"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/sampling/vllm"
	"popri/model/embedding"
	"popri/model/lm"
	"popri/model/tokenizer"
	"popri/show/series"
)

// Env is what a method works with. All of it is public, or covered by the guarantee as the clients' releases are, but
// for Ceiling and Reference.
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
	Encoder   embedding.Encoder // of sentences, and of their form where scoring.form is above 0
	Kinds     []string          // of text that the model can be asked for (generate.kinds); nil for none
	// MaskedDir is the folder of the model that fills masked tokens (private_evolution.masked_model); "" for none.
	MaskedDir string
	// Ceiling are the train clients' texts, for privacy.unsafe_ceiling alone; else nil.
	Ceiling *ceiling.Texts
	Clients int // the number of train clients
	// SmallDir is the folder of the small model (downstream.model), for methods that train it at the clients.
	SmallDir string
	// Validate measures such a model on the validation clients, who are not protected: nats a token, and the share of
	// tokens that are predicted exactly. nil where there are none.
	Validate func(*lm.Model) (loss, accuracy float64, err error)
	// Reference describes the embeddings of validation text, whose clients are not protected: what the samples' Fréchet
	// distance is measured to. nil leaves the measurement out.
	Reference *metrics.Gaussian
}

// Description is how a method describes itself.
type Description struct {
	// Name is the value of the key method, and the key of the product's row in evaluations.
	Name string
	// Title is the method's name for people.
	Title string
	// Section of the configuration is read by the methods that name it alone; "" for none.
	Section string
	// Query is the name of the clients' query under a configuration, and the norm bound of their vectors.
	Query func(configs.Config) (name string, bound float64)
	// Rounds is the number of rounds under a configuration; nil is trainer.rounds.
	Rounds func(configs.Config) int
	// Releases is how often clients are asked under a configuration; nil is once in each round.
	Releases func(configs.Config) int
	// NeedsTexts reports whether clients answer by each text's embedding instead of their mean under a configuration;
	// nil is no.
	NeedsTexts func(configs.Config) bool
	// NeedsLabels says that clients answer by their texts' labels, too.
	NeedsLabels bool
	// Selects says that the method follows dpo.best, by which the product may depend on validation clients.
	Selects bool
	// Mixes says that the product can have public and written texts, of which synthetic.mix chooses.
	Mixes bool
	// Check returns the user's mistake if the configuration needs data that are missing; nil checks nothing.
	Check func(c configs.Config, hasReference bool) error
	// New makes the method.
	New func(Env) (rounds.Method, error)
	// Series are the figures and pictures of its rounds.
	Series series.Set
	// Work describes a round under a configuration: "200 prompts × 10 samples".
	Work func(configs.Config) string
	// Denoise says how noise is removed from a release under a configuration; nil if it is not removed.
	Denoise func(configs.Config) string
	// Product says how the product's texts were made, Untuned how the texts of the untuned model differ from them.
	Product, Untuned string
	// Traffic is what a client sends and receives under a configuration.
	Traffic func(configs.Config) Traffic
	// Notes are sentences for the report about the reading of releases under a configuration; nil for none.
	Notes func(configs.Config) []string
}

// RoundsOf is the number of rounds of the method under a configuration.
func (d Description) RoundsOf(c configs.Config) int {
	if d.Rounds != nil {
		return d.Rounds(c)
	}
	return c.Trainer.Rounds
}

// ReleasesOf is the number of queries of the method under a configuration.
func (d Description) ReleasesOf(c configs.Config) int {
	if d.Releases != nil {
		return d.Releases(c)
	}
	return d.RoundsOf(c)
}

// ChoosesMix reports whether validation clients choose the product's mix under a configuration.
func (d Description) ChoosesMix(c configs.Config) bool {
	return d.Mixes && c.Synthetic.Mix == "validated" && c.Synthetic.PublicTexts > 0
}

// NeedsTextsOf reports whether clients answer by each text's embedding under a configuration.
func (d Description) NeedsTextsOf(c configs.Config) bool {
	return d.NeedsTexts != nil && d.NeedsTexts(c)
}

// Distance is the Fréchet distance of samples to the reference; nil without one.
func (e Env) Distance(vectors embedding.Matrix) (*float64, error) {
	return e.toReference(vectors, (*metrics.Gaussian).Distance)
}

// Apart is the distance of the mean of samples to that of the reference; nil without one.
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

// View is where samples lie in the plane of the reference's first two principal components, whose origin is the
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
	hash, err := filehash.SHA256(file)
	if err != nil {
		return "", fmt.Errorf("identify the samples: %w", err)
	}
	return hash + " " + embedding.Key(e.Encoder), nil
}
