package scoring

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"popri/internal/numeric"
	"popri/internal/parallel"
	"popri/model/embedding"
	"popri/scoring/query"
)

// Metric is how far apart two embeddings are.
type Metric string

const (
	CosineMetric Metric = "cosine" // minus the cosine of the angle, whatever the lengths
	L2           Metric = "l2"     // Euclidean distance
)

// VoteOptions say how texts vote.
type VoteOptions struct {
	Metric  Metric
	Choices int // a text gives 1, 1/2, 1/4, … to its nearest samples, in this order
	// Equal lets a text give 1 to each of them, as Aug-PE does.
	Equal bool
	// PerText divides a client's votes by the number of its texts: every client then has the same say.
	PerText bool
	Bound   float64 // the L2 norm that a client's votes are clipped to; above 0
}

func (o VoteOptions) validate() error {
	if o.Metric != CosineMetric && o.Metric != L2 {
		return fmt.Errorf("scoring: metric is %q, want %q or %q", o.Metric, CosineMetric, L2)
	}
	if o.Choices < 1 || o.Choices > 64 {
		return fmt.Errorf("scoring: a text votes for %d samples, want 1 to 64", o.Choices)
	}
	if o.Equal && o.PerText {
		return fmt.Errorf("scoring: equal votes, divided by the number of texts, are not a question that is asked")
	}
	if !(o.Bound > 0) || math.IsInf(o.Bound, 1) {
		return fmt.Errorf("scoring: votes have the norm bound %g, want a number above 0", o.Bound)
	}
	return nil
}

// Name is the name of the query with these options: "votes/l2/1/total".
func (o VoteOptions) Name() string {
	scale := "total"
	switch {
	case o.PerText:
		scale = "mean"
	case o.Equal && o.Choices > 1: // one choice is the same either way
		scale = "equal"
	}
	return fmt.Sprintf("votes/%s/%d/%s", o.Metric, o.Choices, scale)
}

// parseVotes is the inverse of [VoteOptions.Name].
func parseVotes(name string) (o VoteOptions, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 4 {
		return o, false
	}
	choices, err := strconv.Atoi(parts[2])
	o = VoteOptions{Metric: Metric(parts[1]), Choices: choices, PerText: parts[3] == "mean", Equal: parts[3] == "equal"}
	return o, err == nil && o.Name() == name
}

// NearestVotes asks for the histogram of the samples that are nearest to a client's texts, clipped (Private Evolution:
// Lin et al. 2024, algorithm 2; Xie et al. 2024; PrE-Text: Hou et al. 2024).
type NearestVotes struct {
	facts
	samples embedding.Matrix
	options VoteOptions
}

// NewVotes prepares the question about samples; key identifies them.
func NewVotes(samples embedding.Matrix, o VoteOptions, key string) (NearestVotes, error) {
	if err := o.validate(); err != nil {
		return NearestVotes{}, err
	}
	if err := checkSamples(samples); err != nil {
		return NearestVotes{}, err
	}
	if samples.Rows < o.Choices {
		return NearestVotes{}, fmt.Errorf("scoring: %d choices of %d samples", o.Choices, samples.Rows)
	}
	return NearestVotes{facts{o.Name(), key, o.Bound, true}, samples, o}, nil
}

// checkSamples refuses samples that are no finite vectors.
func checkSamples(samples embedding.Matrix) error {
	if err := samples.Check(); err != nil {
		return fmt.Errorf("scoring: samples: %w", err)
	}
	return checkFinite(samples, "sample %d")
}

// checkFinite refuses a row, which format names by its number, with a value that is not finite.
func checkFinite(m embedding.Matrix, format string) error {
	if i := numeric.NotFinite(m.Data); i >= 0 {
		return fmt.Errorf("scoring: "+format+" has value %g", i/m.Dim, m.Data[i])
	}
	return nil
}

// Len implements query.Query.
func (v NearestVotes) Len() int { return v.samples.Rows }

// Vector implements query.Query.
func (v NearestVotes) Vector(clients query.Clients, i int) ([]float64, error) {
	if err := checkTexts(clients); err != nil {
		return nil, err
	}
	nearest, err := Nearest(v.samples, clients.Of(i), v.options.Metric, v.options.Choices)
	if err != nil {
		return nil, err
	}
	return v.votes(nearest), nil
}

// Sum implements query.Query. The search for the nearest samples takes nearly all of the time, and runs over all texts
// at once.
func (v NearestVotes) Sum(clients query.Clients) ([]float64, error) {
	if err := checkTexts(clients); err != nil {
		return nil, err
	}
	nearest, err := Nearest(v.samples, clients.Texts, v.options.Metric, v.options.Choices)
	if err != nil {
		return nil, err
	}
	return textSum(v, clients, func(from, to int) []float64 { return v.votes(nearest[from:to]) })
}

// checkTexts refuses clients whose texts were not kept or are no finite vectors.
func checkTexts(clients query.Clients) error {
	if !clients.HasTexts() {
		return fmt.Errorf("scoring: votes need the clients' texts, and their means alone were kept")
	}
	return checkFinite(clients.Texts, "text %d of the clients")
}

// votes is a client's clipped vector, from its texts' choices.
func (v NearestVotes) votes(nearest [][]int) []float64 {
	votes := Votes(nearest, v.samples.Rows, v.options.Equal)
	if v.options.PerText && len(nearest) > 0 {
		for j := range votes {
			votes[j] /= float64(len(nearest))
		}
	}
	Clip(votes, v.options.Bound)
	return votes
}

// Nearest returns for each text the indices of its q nearest samples, nearest first, ties to the lower index.
func Nearest(samples, texts embedding.Matrix, metric Metric, q int) ([][]int, error) {
	if metric != CosineMetric && metric != L2 {
		return nil, fmt.Errorf("scoring: metric is %q, want %q or %q", metric, CosineMetric, L2)
	}
	if samples.Dim != texts.Dim {
		return nil, fmt.Errorf("scoring: samples of %d dimensions, texts of %d", samples.Dim, texts.Dim)
	}
	if q < 1 || q > samples.Rows {
		return nil, fmt.Errorf("scoring: %d nearest of %d samples", q, samples.Rows)
	}
	out := make([][]int, texts.Rows)
	parallel.Ranges(texts.Rows, 8, func(from, to int) {
		distances := make([]float64, samples.Rows)
		order := make([]int, samples.Rows)
		for t := from; t < to; t++ {
			best := 0
			for i := range distances {
				distances[i] = distance(samples.Row(i), texts.Row(t), metric)
				if distances[i] < distances[best] {
					best = i
				}
				order[i] = i
			}
			if q == 1 { // needs no sorting
				out[t] = []int{best}
				continue
			}
			slices.SortFunc(order, nearer(distances))
			out[t] = slices.Clone(order[:q])
		}
	})
	return out, nil
}

// nearer orders samples by their distances, ties to the lower index.
func nearer(distances []float64) func(a, b int) int {
	return func(a, b int) int { return cmp.Or(cmp.Compare(distances[a], distances[b]), a-b) }
}

func distance(a, b []float32, metric Metric) float64 {
	var sum float64
	if metric == L2 {
		for j, x := range a {
			d := float64(x) - float64(b[j])
			sum += d * d
		}
		return math.Sqrt(sum)
	}
	for j, x := range a {
		sum += float64(x) * float64(b[j])
	}
	return -sum * inverseLength(a) * inverseLength(b)
}

// Votes counts for each of n samples the votes of one client's texts, given their nearest samples: each text gives 1,
// 1/2, 1/4, … to its first, second, third, … choice, or 1 to each if equal is set.
func Votes(nearest [][]int, n int, equal bool) []float64 {
	votes := make([]float64, n)
	for _, choices := range nearest {
		weight := 1.0
		for _, i := range choices {
			if votes[i] += weight; !equal {
				weight /= 2
			}
		}
	}
	return votes
}
