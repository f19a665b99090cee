package sampling

import "popri/internal/numeric"

// PromptRow is a prompt as stored.
type PromptRow struct {
	Index int64   `parquet:"prompt_index"`
	Text  string  `parquet:"prompt,zstd"`
	IDs   []int32 `parquet:"ids,zstd"`
	Label string  `parquet:"label,optional,dict"` // null without generate.by_label
	Kind  string  `parquet:"kind,optional,dict"`  // of text that the prompt asks for; null without generate.kinds
}

// Public is the Finish of a row that is a public text instead of a sample.
const Public = "public"

// Row is one sample as stored.
type Row struct {
	Prompt int64   `parquet:"prompt_index"`
	Sample int64   `parquet:"sample_index"`
	Text   string  `parquet:"text,zstd"`
	Finish string  `parquet:"finish,dict"`
	IDs    []int32 `parquet:"ids,zstd"` // the completion, with its end token where it has one
	Model  string  `parquet:"model,dict"`
	Label  string  `parquet:"label,optional,dict"` // null without generate.by_label
	Kind   string  `parquet:"kind,optional,dict"`  // of text that the prompt asked for; null without generate.kinds
}

// PromptRows are the prompts as they are stored.
func PromptRows(prompts []Prompt) []PromptRow {
	return numeric.Tabulate(len(prompts), func(i int) PromptRow {
		p := prompts[i]
		return PromptRow{int64(i), p.Text, p.IDs, p.Label, p.Kind}
	})
}

// Texts returns the samples' texts that are not empty.
func Texts(rows []Row) []string {
	texts, _ := Labelled(rows)
	return texts
}

// Labelled returns the texts that are not empty, as [Texts], and the label of each.
func Labelled(rows []Row) (texts, labels []string) {
	for _, r := range rows {
		if r.Text != "" {
			texts, labels = append(texts, r.Text), append(labels, r.Label)
		}
	}
	return texts, labels
}
