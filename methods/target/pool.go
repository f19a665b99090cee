package target

import (
	"math"
	"path/filepath"
	"slices"

	"popri/configs"
	"popri/datasets"
	"popri/internal/cachedir"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/methods/method"
	"popri/model/embedding"
	"popri/model/embedding/words"
	"popri/scoring"
	"popri/scoring/query"
)

// Pool is the public texts of a run with their vectors.
type Pool struct {
	Texts   []datasets.Text
	Vectors embedding.Matrix // the texts' embeddings
	Points  embedding.Matrix // z of each text; Vectors themselves without features
	Centre  []float64        // z̄, which begins with μ

	gain          float64          // g
	words         int              // frequencies of words at the end of a point
	features      scoring.Features // nil for none
	featureCentre []float64        // φ
	share, scale  float64          // s and a; 0 without features
}

// Embed embeds the run's public texts: those that the generator was trained on. Vectors of an encoder with weights of its
// own, which takes minutes for a large pool, stay in the user's cache folder. tell, if not nil, is told how many texts are done.
func Embed(e method.Env, tell func(done, total int)) (*Pool, error) {
	encode := func(texts []string) (embedding.Matrix, error) { return embedding.InParts(e.Encoder, texts, tell) }
	if !slices.Contains(configs.Encoders, e.Config.Scoring.Encoder) {
		cache, err := cachedir.Dir()
		if err != nil {
			return nil, err
		}
		encode = func(texts []string) (embedding.Matrix, error) {
			m, err := embedding.Stored(embedding.Sentence(e.Encoder), filepath.Join(cache, "vectors"), texts, tell)
			if w, ok := e.Encoder.(*words.Encoder); ok && err == nil {
				m = w.Beside(m, texts)
			}
			return m, err
		}
	}
	vectors, err := encode(datasets.Strings(e.Public.Generator))
	if err != nil {
		return nil, err
	}
	p, err := NewPool(e.Public.Generator, vectors, e.Config)
	if w, ok := e.Encoder.(*words.Encoder); ok && err == nil {
		p.words = len(w.Grams)
	}
	return p, err
}

// NewPool makes the pool of public texts with these embeddings, and chooses the features that the configuration asks for.
func NewPool(texts []datasets.Text, vectors embedding.Matrix, c configs.Config) (*Pool, error) {
	p := &Pool{Texts: texts, Vectors: vectors, Points: vectors, Centre: mean(vectors)}
	var err error
	if p.gain, err = gain(vectors, p.Centre, scoring.ClientTexts); err != nil {
		return nil, err
	}
	if !HasFeatures(c) {
		return p, nil
	}
	o := features(c)
	if err := enough(o, vectors); err != nil {
		return nil, err
	}
	if p.features, err = o.Fit(vectors, rng.Seed(c.Seed, "scoring", "features")); err != nil {
		return nil, err
	}
	values := scoring.FeaturesOf(p.features, vectors)
	p.featureCentre = mean(values)
	featureGain, err := gain(values, p.featureCentre, scoring.ClientTexts)
	if err != nil {
		return nil, err
	}
	p.share, p.scale = o.Share, math.Sqrt(o.Share/(1-o.Share))*featureGain/p.gain
	p.Points = p.join(vectors, values)
	p.Centre = mean(p.Points)
	return p, nil
}

// enough returns the user's mistake if public texts are too few for the features.
func enough(o scoring.FeatureOptions, vectors embedding.Matrix) error {
	const short = "scoring.feature_count is %d, must be at most %d where scoring.features is %q: there are only %d %s"
	if o.Kind == scoring.HistogramFeatures && o.Count > vectors.Rows {
		return fault.Userf(short, o.Count, vectors.Rows, o.Kind, vectors.Rows, "public texts to make clusters of")
	}
	if d := vectors.Dim; o.Kind == scoring.MomentFeatures && o.Directions() > d {
		return fault.Userf(short, o.Count, d*(d+1)/2, o.Kind, d, "dimensions of an embedding")
	}
	return nil
}

// PointsOf returns z of each embedding.
func (p *Pool) PointsOf(vectors embedding.Matrix) embedding.Matrix {
	if p.features == nil {
		return vectors
	}
	return p.join(vectors, scoring.FeaturesOf(p.features, vectors))
}

// join puts embeddings and scaled features side by side.
func (p *Pool) join(vectors, values embedding.Matrix) embedding.Matrix {
	out := embedding.NewMatrix(vectors.Rows, vectors.Dim+values.Dim)
	for i := range out.Rows {
		row := out.Row(i)
		copy(row, vectors.Row(i))
		for j, v := range values.Row(i) {
			row[vectors.Dim+j] = float32(p.scale * float64(v))
		}
	}
	return out
}

// gainGroups is the largest number of groups of public texts that stand for clients.
const gainGroups = 2048

// gain returns the mean of 1/‖m − centre‖ over the means m of groups of each successive rows.
func gain(rows embedding.Matrix, centre []float64, each int) (float64, error) {
	starts, size := scoring.Groups(rows.Rows, each, gainGroups)
	sum, counted := 0.0, 0
	m := make([]float64, rows.Dim)
	for _, at := range starts {
		query.MeanRow(m, rows.Slice(at, at+size))
		square := 0.0
		for j, v := range m {
			square += (v - centre[j]) * (v - centre[j])
		}
		if square > 0 {
			sum += 1 / math.Sqrt(square)
			counted++
		}
	}
	if counted == 0 {
		return 0, fault.Userf("data.public: the %d public texts are all alike to scoring.encoder", rows.Rows)
	}
	return sum / float64(counted), nil
}
