package target

import (
	"cmp"
	"math"
	"path"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/floats"

	"popri/configs"
	"popri/datasets"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/sampling"
	"popri/scoring"
)

// selectionFile has the public texts that a run selected, in the folder of round 1.
const selectionFile = rundir.Selection

// Weights of a text's document and of its folder relative to the text itself, and the number of texts of score zero
// that their means are shrunk by.
const (
	documentWeight, documentPrior = 2, 2
	folderWeight, folderPrior     = 4, 5
)

// Chosen is a selected public text.
type Chosen struct {
	Text      string  `parquet:"text,zstd"`
	Source    string  `parquet:"source,dict"`
	Score     float64 `parquet:"score"`               // of the text alone
	Relevance float64 `parquet:"relevance"`           // with its document and folder
	Weight    float64 `parquet:"weight"`              // among all candidates; they add up to 1
	Copies    int64   `parquet:"copies"`              // how often it is drawn, 1 or more
	Index     int64   `parquet:"index"`               // among the public texts
	Label     string  `parquet:"label,optional,dict"` // its public label; null without generate.by_label
}

// Selection is the public texts that are most relevant to the clients.
type Selection struct {
	Chosen []Chosen // the most relevant first
	// Effective is the effective number of texts, 1/Σ weight².
	Effective float64
	// Distance is the distance of the texts' weighted mean embedding from the clients'.
	Distance float64
}

// Choose selects and weights public texts as the configuration says, and draws rows by weight.
func (t *Target) Choose(c configs.Config) (Selection, error) { return t.choose(settings.Of(c), c.Seed) }

func (t *Target) choose(c Settings, seed uint64) (Selection, error) {
	scores := t.Scores(t.Vectors)
	relevance, err := scoring.Relevance(scores, levels(t.Texts)...)
	if err != nil {
		return Selection{}, err
	}
	order := numeric.SortedIndices(len(t.Texts), func(a, b int) int { return cmp.Compare(relevance[b], relevance[a]) })
	order = order[:min(c.Texts, len(order))]
	w, err := t.weigh(order, c)
	if err != nil {
		return Selection{}, err
	}
	s := Selection{Effective: w.Effective, Distance: w.Distance}
	for n, copies := range Copies(w.Weights, AllRows, rng.New(seed, "public_selection").Float64()) {
		if i := order[n]; copies > 0 {
			s.Chosen = append(s.Chosen, Chosen{Text: t.Texts[i].Text, Source: t.Texts[i].Source, Score: scores[i],
				Relevance: relevance[i], Weight: w.Weights[n], Copies: int64(copies), Index: int64(i), Label: t.Texts[i].Label})
		}
	}
	return s, nil
}

// headWeight is the weight of the most relevant candidates before weights are matched, 3500 of the default's 9000.
// Weight and number were chosen by prototypes on the embedded default's test clients (docs/lab).
const headWeight = 3

// weigh weights candidates, of which the most relevant are first.
func (t *Target) weigh(candidates []int, c Settings) (scoring.Weighting, error) {
	points, wanted := t.Vectors.Pick(candidates), t.wanted()
	prior := slices.Repeat([]float64{1}, len(candidates))
	for n := range head(len(candidates)) {
		prior[n] = headWeight
	}
	unmatched, err := scoring.Weigh(points, prior, wanted)
	if err != nil || c.Weights == "prior" {
		return unmatched, err
	}
	radius := t.radius()
	w, err := scoring.Match(points, prior, wanted, radius, float64(effective(len(candidates))))
	if err == nil && unmatched.Distance > tooFar*radius && w.Distance > (1-leastGain)*unmatched.Distance {
		return w, fault.Userf("public_selection: no weights on the %d most relevant public texts move their mean "+
			"embedding nearer to the clients' than %.3g; without weights it is at %.3g, and the noise allows %.3g. "+
			"Public text lacks what the clients write: use other public text, or set public_selection.weights=prior",
			len(candidates), w.Distance, unmatched.Distance, radius)
	}
	return w, err
}

// wanted is the estimate of the clients' mean.
func (t *Target) wanted() []float64 {
	out := make([]float64, t.Vectors.Dim)
	floats.AddTo(out, t.Centre, t.Mean)
	return out
}

// radius is the length of the noise in the mean.
func (t *Target) radius() float64 {
	return max(t.Noise, leastNoise) * math.Sqrt(float64(t.Vectors.Dim))
}

// Matching is refused where the unmatched mean is more than tooFar times the noise away and matching takes less than
// leastGain of the distance off.
const tooFar, leastGain = 2, 0.05

// leastNoise keeps the radius of a release without noise above 0.
const leastNoise = 1e-6

// Copies returns how often each weight is drawn in n rows by systematic sampling: its expected number, rounded up or
// down. start is uniform in [0, 1).
func Copies(weights []float64, n int, start float64) []int {
	copies := make([]int, len(weights))
	sum, drawn := 0.0, 0
	for i, w := range weights {
		sum += w * float64(n)
		upTo := min(n, int(math.Floor(sum+start)))
		copies[i], drawn = upTo-drawn, upTo
	}
	return copies
}

// Write stores the selection of a run in the folder of round 1.
func Write(dir string, chosen []Chosen) error {
	return rows.Write(filepath.Join(rundir.Round(dir, 1), selectionFile), chosen)
}

// Read returns the selection of a run.
func Read(dir string) ([]Chosen, error) {
	return rows.Read[Chosen](filepath.Join(rundir.Round(dir, 1), selectionFile))
}

// Texts are the texts of a selection, each as often as it has copies.
func Texts(chosen []Chosen) []datasets.Text {
	var out []datasets.Text
	for _, c := range chosen {
		for range c.Copies {
			out = append(out, datasets.Text{Text: c.Text, Source: c.Source, Label: c.Label})
		}
	}
	return out
}

// Rows are n rows of a synthetic set, drawn from a selection by weight.
func Rows(chosen []Chosen, n int, seed uint64) []sampling.Row {
	weights := numeric.Map(chosen, func(c Chosen) float64 { return c.Weight })
	floats.Scale(1/floats.Sum(weights), weights)
	var out []sampling.Row
	for i, copies := range Copies(weights, n, rng.New(seed, "synthetic", "public").Float64()) {
		for range copies {
			out = append(out, sampling.Row{Prompt: int64(len(out)), Text: chosen[i].Text, Finish: sampling.Public,
				Model: "selected public text", Label: chosen[i].Label})
		}
	}
	return out
}

// levels are the two groupings of public texts: by document (their source) and by the document's folder.
func levels(texts []datasets.Text) []scoring.Level {
	documents, folders := make([]string, len(texts)), make([]string, len(texts))
	for i, t := range texts {
		documents[i] = t.Source
		if folder := path.Dir(t.Source); folder != "." && folder != "/" {
			folders[i] = folder
		}
	}
	return []scoring.Level{{Groups: documents, Weight: documentWeight, Prior: documentPrior},
		{Groups: folders, Weight: folderWeight, Prior: folderPrior}}
}
