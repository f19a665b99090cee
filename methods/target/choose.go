package target

import (
	"path"
	"path/filepath"
	"sort"

	"popri/configs"
	"popri/datasets"
	"popri/internal/rows"
	"popri/rundir"
	"popri/sampling"
	"popri/scoring"
)

// File has the public texts that a run selected, in the folder of round 1.
const File = "selection.parquet"

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
	Score     float64 `parquet:"score"`     // of the text alone
	Relevance float64 `parquet:"relevance"` // with its document and folder
	Copies    int64   `parquet:"copies"`    // how often it is in the product, 1 or more
	Index     int64   `parquet:"index"`     // among the public texts
}

// Choose selects public texts by their relevance as the configuration says, the most relevant first.
func (t *Target) Choose(c configs.PublicSelection) ([]Chosen, error) {
	scores := t.Scores(t.Vectors)
	var levels []scoring.Level
	if c.Documents {
		levels = Levels(t.Texts)
	}
	relevance, err := scoring.Relevance(scores, levels...)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(t.Texts))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return relevance[order[a]] > relevance[order[b]] })
	order = order[:min(c.Texts, len(order))]
	chosen := make([]Chosen, len(order))
	for n, i := range order {
		chosen[n] = Chosen{Text: t.Texts[i].Text, Source: t.Texts[i].Source, Score: scores[i], Relevance: relevance[i],
			Copies: 1, Index: int64(i)}
		if n < c.Repeated {
			chosen[n].Copies = 2
		}
	}
	return chosen, nil
}

// Write stores the selection of a run in the folder of round 1.
func Write(dir string, chosen []Chosen) error {
	return rows.Write(filepath.Join(rundir.Round(dir, 1), File), chosen)
}

// Read returns the selection of a run.
func Read(dir string) ([]Chosen, error) {
	return rows.Read[Chosen](filepath.Join(rundir.Round(dir, 1), File))
}

// Texts are the texts of a selection, each as often as it has copies.
func Texts(chosen []Chosen) []string {
	var out []string
	for _, c := range chosen {
		for range c.Copies {
			out = append(out, c.Text)
		}
	}
	return out
}

// Rows are the texts of a selection as rows of a synthetic set, each as often as it has copies.
func Rows(chosen []Chosen) []sampling.Row {
	var out []sampling.Row
	for i, text := range Texts(chosen) {
		out = append(out, sampling.Row{Prompt: int64(i), Text: text, Finish: sampling.Public, Model: "selected public text"})
	}
	return out
}

// Levels are the two groupings of public texts: by document (their source) and by the document's folder.
func Levels(texts []datasets.Text) []scoring.Level {
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
