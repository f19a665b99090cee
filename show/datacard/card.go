package datacard

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"gopkg.in/yaml.v3"

	"popri/accountant/guarantee"
	"popri/internal/quote"
	"popri/internal/rundir"
)

// metadata is the front matter of a dataset card.
type metadata struct {
	Name    string   `yaml:"pretty_name"`
	Tasks   []string `yaml:"task_categories"`
	common  `yaml:",inline"`
	Size    []string `yaml:"size_categories"`
	Configs []config `yaml:"configs"`
	Info    []info   `yaml:"dataset_info"`
}

// common is what the front matter of data sets and models has.
type common struct {
	Tags     []string `yaml:"tags"`
	License  string   `yaml:"license,omitempty"`
	Language []string `yaml:"language,omitempty"`
}

func (o Options) common(facts guarantee.Facts, tags ...string) common {
	c := common{Tags: tags, License: o.License}
	if o.Language != "" {
		c.Language = []string{o.Language}
	}
	if facts.Protects() {
		c.Tags = append(c.Tags, "differential-privacy")
	}
	return c
}

type info struct {
	Config   string    `yaml:"config_name"`
	Features []feature `yaml:"features"`
	Splits   []split   `yaml:"splits"`
	Download int64     `yaml:"download_size"`
	Size     int64     `yaml:"dataset_size"`
}

type config struct {
	Name    string     `yaml:"config_name"`
	Default bool       `yaml:"default,omitempty"`
	Files   []dataFile `yaml:"data_files"`
}

type dataFile struct {
	Split string `yaml:"split"`
	Path  string `yaml:"path"`
}

type feature struct {
	Name string `yaml:"name"`
	Type string `yaml:"dtype"`
}

type split struct {
	Name  string `yaml:"name"`
	Bytes int64  `yaml:"num_bytes"`
	Texts int    `yaml:"num_examples"`
}

// sizeOf is the hub's name of a range of sizes.
func sizeOf(n int) string {
	below, name := 1000, "n<1K"
	for _, next := range []string{"1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M"} {
		if n >= below {
			name = next
		}
		below *= 10
	}
	return name
}

// frontMatter describes the data set to the hub.
func frontMatter(facts guarantee.Facts, r Result, t table, o Options) metadata {
	m := metadata{Name: o.Name, Tasks: []string{"text-generation"},
		common: o.common(facts, "synthetic", "federated-learning"), Size: []string{sizeOf(r.Texts)}}
	if r.Labels > 0 {
		m.Tasks = append(m.Tasks, "text-classification")
	}
	m.Configs = []config{{"default", true, []dataFile{{"train", path.Dir(Data) + "/train-*"}}}}
	m.Info = []info{{"default", t.features, []split{{"train", t.bytes, r.Texts}}, t.size, t.bytes}}
	return m
}

// writeCard writes the card into the folder out.
func writeCard(run, out string, facts guarantee.Facts, r Result, t table, o Options) error {
	front, err := yaml.Marshal(frontMatter(facts, r, t, o))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "---\n%s---\n# %s\n", front, o.Name)
	fmt.Fprintf(&b,
		"%d rows, made by popri %s: %s. %d of the texts are different, and the most frequent one has %s.\n\n",
		r.Texts, o.Program, r.origins(), r.Distinct, quote.Count(r.Repeated, "row", "rows"))
	fmt.Fprint(&b, "```python\ndatasets.load_dataset(\"path/of/this/folder\", split=\"train\")\n```\n")
	if r.Public > 0 {
		fmt.Fprint(&b, "\nThe public texts keep their own licence.\n")
	}
	fmt.Fprint(&b, "\n| column | |\n|---|---|\n| `text` | a text, never empty |\n"+
		"| `finish` | how it ended: `stop` at its end token, `length` at the limit; `public` for a public text that "+
		"was chosen |\n")
	if r.Labels > 0 {
		fmt.Fprintf(&b,
			"| `label` | one of %d: a public text's own, or the label of the public texts which the model was shown; "+
				"nothing checks that what it wrote fits |\n", r.Labels)
	}
	return finish(&b, run, out, facts, r, []string{rundir.Synthetic, rundir.Config, rundir.Ledger, rundir.Inputs},
		fmt.Sprintf("| `%s` | `%s` |\n", Data, r.SHA256))
}

// origins says where the rows come from.
func (r Result) origins() string {
	var parts []string
	if r.Written > 0 {
		parts = append(parts, fmt.Sprintf("%s that a language model wrote", quote.Count(r.Written, "text", "texts")))
	}
	if r.Public > 0 {
		parts = append(parts, fmt.Sprintf("%s of public texts, word for word, capitals aside, which the clients' "+
			"noised answers chose", quote.Count(r.Public, "copy", "copies")))
	}
	return strings.Join(parts, " and ")
}
