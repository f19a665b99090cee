package target

import (
	"errors"
	"slices"

	"gonum.org/v1/gonum/floats"

	"popri/embedding"
	"popri/internal/rng"
	"popri/sampling"
	"popri/scoring"
)

// Kept says what weights on texts that a model wrote did, in the event "kept".
type Kept struct {
	Texts     int     `json:"texts"`     // written, without empty ones
	Effective float64 `json:"effective"` // number of texts of equal weight that carry as much information
	Distance  float64 `json:"distance"`  // released distance of the texts from the clients
	Weighted  float64 `json:"weighted"`  // the same with the weights
}

// Keep draws n rows from texts that a model wrote, by the weights nearest to equal ones with which their mean embedding
// comes as near to the clients' as the noise allows. The weights leave at least the given share of the texts as effective
// number ([scoring.Weighting]). Empty texts are left out.
func (t *Target) Keep(e embedding.Encoder, written []sampling.Row, n int, share float64, seed uint64) ([]sampling.Row, Kept,
	error) {
	written = slices.DeleteFunc(slices.Clone(written), func(r sampling.Row) bool { return r.Text == "" })
	if len(written) == 0 {
		return nil, Kept{}, errors.New("the model wrote empty texts only: there is none to keep")
	}
	vectors, err := e.Encode(sampling.Texts(written))
	if err != nil {
		return nil, Kept{}, err
	}
	points := t.PointsOf(vectors)
	copies, w, err := t.copies(points, n, share*float64(len(written)), seed)
	if err != nil {
		return nil, Kept{}, err
	}
	var out []sampling.Row
	for i, c := range copies {
		out = append(out, slices.Repeat(written[i:i+1], c)...)
	}
	return out, Kept{len(written), w.Effective, t.Distance(points), w.Distance}, nil
}

// Mixed says what weights on written and public texts together did, in the event "mixed".
type Mixed struct {
	Written   float64 `json:"written"`   // share of the weight on written texts
	Effective float64 `json:"effective"` // number of texts of equal weight that carry as much information
	Distance  float64 `json:"distance"`  // released distance of the fixed shares from the clients
	Weighted  float64 `json:"weighted"`  // the same with the weights
}

// Mix draws n rows from selected public texts and from texts that a model wrote. The weights are the nearest to the
// selection's and equal ones, of which the written texts have the given share, with which the mean embedding of both comes
// as near to the clients' as the noise allows. They leave at least the share kept of the effective number of texts. Empty
// texts are left out; public rows come first.
func (t *Target) Mix(e embedding.Encoder, chosen []Chosen, written []sampling.Row, share, kept float64, n int, seed uint64) (
	[]sampling.Row, Mixed, error) {
	written = slices.DeleteFunc(slices.Clone(written), func(r sampling.Row) bool { return r.Text == "" })
	if len(written) == 0 {
		return nil, Mixed{}, errors.New("the model wrote empty texts only: there is none to mix")
	}
	vectors, err := e.Encode(sampling.Texts(written))
	if err != nil {
		return nil, Mixed{}, err
	}
	points := embedding.NewMatrix(len(chosen)+len(written), t.Points.Dim)
	texts, prior := make([]sampling.Row, 0, points.Rows), make([]float64, points.Rows)
	total := 0.0
	for _, c := range chosen {
		total += c.Weight
	}
	for i, c := range chosen {
		copy(points.Row(i), t.Points.Row(int(c.Index)))
		prior[i] = (1 - share) * c.Weight / total
		texts = append(texts, sampling.Row{Text: c.Text, Finish: sampling.Public, Model: "selected public text"})
	}
	own := t.PointsOf(vectors)
	for i := range written {
		copy(points.Row(len(chosen)+i), own.Row(i))
		prior[len(chosen)+i] = share / float64(len(written))
	}
	fixed, err := scoring.Weigh(points, prior, t.wanted())
	if err != nil {
		return nil, Mixed{}, err
	}
	w, err := scoring.Match(points, prior, t.wanted(), t.radius(), kept*fixed.Effective)
	if err != nil {
		return nil, Mixed{}, err
	}
	texts = append(texts, written...)
	var out []sampling.Row
	for i, copies := range draw(w.Weights, n, rng.New(seed, "synthetic", "mix").Float64()) {
		for range copies {
			row := texts[i]
			if i < len(chosen) {
				row.Prompt = int64(len(out))
			}
			out = append(out, row)
		}
	}
	return out, Mixed{floats.Sum(w.Weights[len(chosen):]), w.Effective, fixed.Distance, w.Distance}, nil
}

// copies says how often each of the texts with these points is among n rows.
func (t *Target) copies(points embedding.Matrix, n int, effective float64, seed uint64) ([]int, scoring.Weighting, error) {
	w, err := scoring.Match(points, nil, t.wanted(), t.radius(), effective)
	if err != nil {
		return nil, w, err
	}
	return draw(w.Weights, n, rng.New(seed, "synthetic", "kept").Float64()), w, nil
}
