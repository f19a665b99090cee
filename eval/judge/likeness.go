package judge

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"popri/datasets"
	"popri/eval/metrics"
	"popri/internal/numeric"
	"popri/model/embedding"
)

// Likeness says how like some texts are to the texts of half of the controls. All sets have as many texts, cut to as
// many words.
type Likeness struct {
	Name      string  `json:"name"`  // the synthetic set; public text; the other half of the controls
	Texts     int     `json:"texts"` // compared
	Words     int     `json:"words"` // to which texts were cut
	Mauve     float64 `json:"mauve"` // mean over [seeds] draws of texts and clusters
	MauveStd  float64 `json:"mauve_std"`
	Precision float64 `json:"precision"` // fraction of the texts that are among the clients' (Kynkäänniemi et al. 2019)
	Recall    float64 `json:"recall"`    // fraction of the clients' texts that are among them
	Frechet   float64 `json:"frechet"`   // distance of both as Gaussians, in the embedding space
}

// neighbours is k of precision and recall, and seeds the number of draws behind MAUVE.
const neighbours, seeds = 3, 3

// mostTexts bounds a set of texts, so that the comparisons take minutes.
const mostTexts = 2000

// The names of sets of texts.
const (
	TheProduct  = "product"
	PublicText  = "public text"
	RealClients = "other clients"
)

// set is texts that are compared with the first half of the controls.
type set struct {
	name   string
	texts  []string
	labels []string
}

// sets are the texts that are compared, the clients' first.
func (in Input) sets(first, second []int) []set {
	controls := func(name string, indices []int) set {
		s := set{name: name}
		for _, i := range indices {
			s.texts, s.labels = append(s.texts, in.Controls[i].Texts...), append(s.labels, in.Controls[i].Labels...)
		}
		return s
	}
	all := []set{controls("clients", first), {TheProduct, in.Product, in.Labels}}
	if len(in.Public) > 2*neighbours {
		all = append(all, set{name: PublicText, texts: in.Public})
	}
	return append(all, controls(RealClients, second))
}

func (in Input) likeness(ctx context.Context, first, second []int) ([]Likeness, []Topic, error) {
	sets := in.sets(first, second)
	cut := 1 << 30
	for _, s := range sets {
		if s.name != PublicText {
			cut = min(cut, median(s.texts, func(text string) int { return countWords(text) }))
		}
	}
	vectors, drawn, n := make([]embedding.Matrix, len(sets)), make([][]string, len(sets)), mostTexts
	for i, s := range sets {
		for _, text := range some(s.texts, mostTexts, in.random("likeness "+s.name)) {
			drawn[i] = append(drawn[i], datasets.First(text, datasets.CountWords, cut))
		}
		n = min(n, len(drawn[i]))
		var err error
		tell := func(done, total int) { in.Tell("embed to compare: "+s.name, done, total) }
		if vectors[i], err = embedding.InParts(ctx, in.Encoder, drawn[i], tell); err != nil {
			return nil, nil, err
		}
	}
	in.Tell("compare with the clients", 0, 0)
	var out []Likeness
	for i := 1; i < len(sets); i++ {
		random := in.random("distances " + sets[i].name) // texts of a set may be in an order
		l, err := distances(rows(vectors[i], n, random), rows(vectors[0], n, random))
		if err != nil {
			return nil, nil, err
		}
		l.Name, l.Texts, l.Words = sets[i].name, n, cut
		var scores []float64
		for seed := range seeds {
			random := in.random("clusters " + strconv.Itoa(seed) + sets[i].name)
			score, err := mauve(rows(vectors[i], n, random), rows(vectors[0], n, random), random)
			if err != nil {
				return nil, nil, err
			}
			scores = append(scores, score)
		}
		l.Mauve, l.MauveStd = stat.MeanStdDev(scores, nil)
		out = append(out, l)
	}
	topics, err := in.topics(vectors[1], vectors[0], drawn[1], drawn[0])
	return out, topics, err
}

// rows draws n rows.
func rows(m embedding.Matrix, n int, random *rand.Rand) embedding.Matrix {
	return m.Pick(random.Perm(m.Rows)[:n])
}

func distances(texts, clients embedding.Matrix) (l Likeness, err error) {
	if l.Precision, l.Recall, err = metrics.PrecisionRecall(clients.Data, texts.Data, texts.Dim,
		neighbours); err != nil {
		return l, err
	}
	a, err := metrics.NewGaussian(texts.Data, texts.Dim)
	if err != nil {
		return l, err
	}
	b, err := metrics.NewGaussian(clients.Data, texts.Dim)
	if err != nil {
		return l, err
	}
	l.Frechet, err = a.Distance(b)
	return l, err
}

// countWords is the number of words of texts together.
func countWords(texts ...string) int {
	return numeric.Sum(texts, func(text string) int { return len(words(text)) })
}

// median is the median of a count of each item of a list; 0 of none.
func median[T any](list []T, count func(T) int) int {
	counts := numeric.Map(list, count)
	if slices.Sort(counts); len(counts) == 0 {
		return 0
	}
	return counts[len(counts)/2]
}
