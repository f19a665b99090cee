package scoring

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"popri/internal/parallel"
	"popri/model/embedding"
	"popri/scoring/query"
)

// Contrast asks for the samples that are nearest to a client's texts and those that are furthest from them, within each
// text's label (WASP, Zou et al. 2025, algorithm 2). A text gives 1, 1/2, 1/4, … to its q nearest samples of its label,
// and the same to the q furthest ones. A client's vector has the votes for near samples of all samples, then those for
// far ones, and is clipped as a whole.
//
//	‖one text's vector‖ = √(2·Σ_{k<q} 4^-k) < √(8/3)       [ContrastNorm]
type Contrast struct {
	facts
	samples embedding.Matrix
	of      [][]int // the samples of each label
	choices int
}

// ContrastNorm is the norm of the vector of one text with q choices, if its label has as many samples: the sensitivity
// to a text.
func ContrastNorm(q int) float64 {
	sum, weight := 0.0, 1.0
	for range q {
		sum += 2 * weight * weight
		weight /= 2
	}
	return math.Sqrt(sum)
}

// ContrastName is the name of the question with q choices: "contrast/l2/8".
func ContrastName(q int) string { return "contrast/l2/" + strconv.Itoa(q) }

func parseContrast(name string) (q int, ok bool) {
	number, ok := strings.CutPrefix(name, "contrast/l2/")
	q, err := strconv.Atoi(number)
	return q, ok && err == nil && ContrastName(q) == name
}

// NewContrast prepares the question about samples with the numbers of their labels; nil gives all of them one label,
// and asks clients for none. key identifies the samples and labels. A text votes for q samples, or for all of its label
// where these are fewer; bound is the norm that a client's vector is clipped to.
func NewContrast(samples embedding.Matrix, labels []int32, q int, bound float64, key string) (Contrast, error) {
	o := VoteOptions{Metric: L2, Choices: q, Bound: bound}
	if err := o.validate(); err != nil {
		return Contrast{}, err
	}
	if err := checkSamples(samples); err != nil {
		return Contrast{}, err
	}
	c := Contrast{facts{ContrastName(q), key, bound, true}, samples, make([][]int, 1), q}
	if labels != nil && len(labels) != samples.Rows {
		return Contrast{}, fmt.Errorf("scoring: %d labels of %d samples", len(labels), samples.Rows)
	}
	if labels != nil {
		c.of = make([][]int, slices.Max(labels)+1)
	}
	for i := range samples.Rows {
		label := int32(0)
		if labels != nil {
			label = labels[i]
		}
		if label < 0 {
			return Contrast{}, fmt.Errorf("scoring: sample %d has the label number %d", i, label)
		}
		c.of[label] = append(c.of[label], i)
	}
	return c, nil
}

// Len implements query.Query.
func (c Contrast) Len() int { return 2 * c.samples.Rows }

// Vector implements query.Query.
func (c Contrast) Vector(clients query.Clients, i int) ([]float64, error) {
	if err := c.check(clients); err != nil {
		return nil, err
	}
	votes, err := c.votes(clients.Of(i), clients.LabelsOf(i))
	if err != nil {
		return nil, err
	}
	return c.add(votes), nil
}

// Sum implements query.Query. The search for the nearest samples runs over all texts at once.
func (c Contrast) Sum(clients query.Clients) ([]float64, error) {
	if err := c.check(clients); err != nil {
		return nil, err
	}
	votes, err := c.votes(clients.Texts, clients.Labels)
	if err != nil {
		return nil, err
	}
	return textSum(c, clients, func(from, to int) []float64 { return c.add(votes[from:to]) })
}

func (c Contrast) check(clients query.Clients) error {
	if len(c.of) > 1 && len(clients.Labels) != clients.Texts.Rows {
		return fmt.Errorf("scoring: votes within a label need the labels of the clients' texts: %d of %d are there",
			len(clients.Labels), clients.Texts.Rows)
	}
	return checkTexts(clients)
}

// ranked are the samples that a text votes for.
type ranked struct{ near, far []int }

// votes are the choices of texts. labels may be nil where all samples have one label.
func (c Contrast) votes(texts embedding.Matrix, labels []int32) ([]ranked, error) {
	if texts.Dim != c.samples.Dim {
		return nil, fmt.Errorf("scoring: samples of %d dimensions, texts of %d", c.samples.Dim, texts.Dim)
	}
	out := make([]ranked, texts.Rows)
	parallel.Ranges(texts.Rows, 8, func(from, to int) {
		distances := make([]float64, c.samples.Rows)
		for t := from; t < to; t++ {
			label := int32(0)
			if len(c.of) > 1 {
				label = labels[t]
			}
			if label < 0 || int(label) >= len(c.of) {
				continue
			}
			order := slices.Clone(c.of[label])
			for _, i := range order {
				distances[i] = distance(c.samples.Row(i), texts.Row(t), L2)
			}
			n := min(c.choices, len(order))
			slices.SortFunc(order, nearer(distances))
			out[t].near = slices.Clone(order[:n])
			for _, i := range order {
				distances[i] = -distances[i]
			}
			slices.SortFunc(order, nearer(distances))
			out[t].far = order[:n]
		}
	})
	return out, nil
}

// add is a client's clipped vector, from its texts' choices.
func (c Contrast) add(votes []ranked) []float64 {
	out := make([]float64, c.Len())
	for _, v := range votes {
		weight := 1.0
		for k := range v.near {
			out[v.near[k]] += weight
			out[c.samples.Rows+v.far[k]] += weight
			weight /= 2
		}
	}
	Clip(out, c.bound)
	return out
}
