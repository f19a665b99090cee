package judge

import (
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"popri/eval/metrics"
	"popri/model/embedding"
)

// Likeness says how like some texts are to those of half of the controls. All sets have as many texts, cut to as many words.
type Likeness struct {
	Name      string  `json:"name"`  // the product; public text; the other half of the controls
	Texts     int     `json:"texts"` // compared
	Words     int     `json:"words"` // to which texts were cut
	Mauve     float64 `json:"mauve"` // mean over [seeds] draws of texts and clusters
	MauveStd  float64 `json:"mauve_std"`
	Precision float64 `json:"precision"` // share of the texts that lie among the clients' (Kynkäänniemi et al. 2019)
	Recall    float64 `json:"recall"`    // share of the clients' texts that lie among them
	Frechet   float64 `json:"frechet"`   // distance of both as Gaussians, in the embedding space
}

// neighbours is k of precision and recall, and seeds the number of draws behind MAUVE.
const neighbours, seeds = 3, 3

// mostTexts bounds a set of texts, so that the comparisons take minutes.
const mostTexts = 2000

// The names of sets of texts.
const (
	theProduct  = "product"
	publicText  = "public text"
	realClients = "other clients"
)

// set is texts that are compared with the first half of the controls.
type set struct {
	name   string
	texts  []string
	labels []string
}

// sets are the texts that are compared, the clients' first.
func (in Input) sets(first, second []int) []set {
	controls := func(name string, places []int) set {
		s := set{name: name}
		for _, i := range places {
			s.texts, s.labels = append(s.texts, in.Controls[i].Texts...), append(s.labels, in.Controls[i].Labels...)
		}
		return s
	}
	all := []set{controls("clients", first), {theProduct, in.Product, in.Labels}}
	if len(in.Public) > 2*neighbours {
		all = append(all, set{name: publicText, texts: in.Public})
	}
	return append(all, controls(realClients, second))
}

func (in Input) likeness(_ embedded, first, second []int) ([]Likeness, []Topic, error) {
	sets := in.sets(first, second)
	n, cut := mostTexts, 1<<30
	for _, s := range sets {
		n = min(n, len(s.texts))
		if s.name != publicText {
			cut = min(cut, median(s.texts))
		}
	}
	out := make([]Likeness, len(sets))
	scores := make([][]float64, len(sets))
	var topics []Topic
	for seed := range seeds {
		vectors := make([]embedding.Matrix, len(sets))
		var drawn [][]string
		for i, s := range sets {
			texts := some(s.texts, n, in.random("likeness "+strconv.Itoa(seed)+s.name))
			short := make([]string, len(texts))
			for j, text := range texts {
				short[j] = firstWords(text, cut)
			}
			var err error
			what := "compare with the clients, draw " + strconv.Itoa(seed+1) + " of " + strconv.Itoa(seeds) + ": " + s.name
			if vectors[i], err = embedding.InParts(in.Encoder, short, func(done, total int) { in.Tell(what, done, total) }); err != nil {
				return nil, nil, err
			}
			drawn = append(drawn, short)
		}
		for i := 1; i < len(sets); i++ {
			score, err := mauve(vectors[i], vectors[0], in.random("clusters "+strconv.Itoa(seed)+sets[i].name))
			if err != nil {
				return nil, nil, err
			}
			scores[i] = append(scores[i], score)
			if seed > 0 {
				continue
			}
			if out[i], err = distances(vectors[i], vectors[0]); err != nil {
				return nil, nil, err
			}
			out[i].Name, out[i].Texts, out[i].Words = sets[i].name, n, cut
			if sets[i].name == theProduct {
				if topics, err = in.topics(vectors[i], vectors[0], drawn[i], drawn[0]); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	for i := 1; i < len(out); i++ {
		out[i].Mauve, out[i].MauveStd = stat.MeanStdDev(scores[i], nil)
	}
	return out[1:], topics, nil
}

func distances(texts, clients embedding.Matrix) (l Likeness, err error) {
	if l.Precision, l.Recall, err = metrics.PrecisionRecall(clients.Data, texts.Data, texts.Dim, neighbours); err != nil {
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

// median is the median number of words of texts.
func median(texts []string) int {
	lengths := make([]int, len(texts))
	for i, text := range texts {
		lengths[i] = len(words(text))
	}
	slices.Sort(lengths)
	if len(lengths) == 0 {
		return 0
	}
	return lengths[len(lengths)/2]
}

// medianWords is the median number of words of clients.
func medianWords(clients []Client) int {
	lengths := make([]int, len(clients))
	for i, c := range clients {
		for _, text := range c.Texts {
			lengths[i] += len(words(text))
		}
	}
	slices.Sort(lengths)
	return lengths[len(lengths)/2]
}
