// Package datacard makes a folder of a run's product that datasets.load_dataset of Hugging Face opens: the texts as
// Parquet, and a README.md with the dataset card. The card states the guarantee, the settings and the hashes of the files
// that prove them.
package datacard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"popri/accountant/guarantee"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/filehash"
	"popri/internal/parquetio"
	"popri/internal/rundir"
)

// The files of the folder.
const (
	Data = "data/train-00000-of-00001.parquet"
	Card = "README.md"
)

// Options say how the folder is made.
type Options struct {
	Name        string // of the data set
	Program     string // the program's version
	License     string // an identifier of the hub, such as cc-by-4.0; "" leaves it to the publisher
	Language    string // such as en; "" leaves it out
	Unprotected bool   // allows a product of a run that protects nobody
	Force       bool   // replaces the folder of another run
}

// Result says what was written.
type Result struct {
	Folder    string `json:"folder"`
	Texts     int    `json:"texts"`
	Written   int    `json:"written"`  // rows that a language model wrote
	Public    int    `json:"public"`   // rows that are copies of public texts
	Distinct  int    `json:"distinct"` // different texts
	Repeated  int    `json:"repeated"` // rows of the most frequent text
	LeftOut   int    `json:"left_out"` // empty texts
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`           // of the Parquet file
	Labels    int    `json:"labels,omitempty"` // different ones
	decoded   int64  // bytes of all cells
	Guarantee string `json:"guarantee"`
}

// public is the finish of a row that is a public text, as package sampling writes it, which needs libtorch.
const public = "public"

// row is a text of the product, and labelled one with a label.
type (
	row struct {
		Text   string `parquet:"text"`
		Finish string `parquet:"finish,dict"`
	}
	labelled struct {
		Text   string `parquet:"text"`
		Finish string `parquet:"finish,dict"`
		Label  string `parquet:"label,dict"`
	}
)

// write writes the rows, without the column label where no row has one.
func write(w io.Writer, rows []labelled, labels bool) error {
	if labels {
		return parquetio.Write(w, rows, nil)
	}
	plain := make([]row, len(rows))
	for i, r := range rows {
		plain[i] = row{r.Text, r.Finish}
	}
	return parquetio.Write(w, plain, nil)
}

// Write writes the product of a finished run to a folder. Each file is replaced as a whole; the card comes last.
func Write(run, out string, o Options) (Result, error) {
	r := Result{Folder: out}
	fail := func(err error) (Result, error) { return r, fmt.Errorf("datacard: %w", err) }
	if err := atomicfile.CheckFolder(out); err != nil {
		return fail(fault.User(err))
	}
	if !rundir.Exists(run) {
		return fail(fault.Userf("%s is no run: it has no %s", run, rundir.Config))
	}
	facts, err := guarantee.Read(run)
	if err != nil {
		return fail(err)
	}
	if r.Guarantee = facts.Headline(); !facts.Protects() && !o.Unprotected {
		return fail(fault.Userf("%s: %s", run, r.Guarantee))
	}
	rows, err := product(filepath.Join(run, rundir.Synthetic), &r)
	if err != nil {
		return fail(err)
	}
	if err := o.replaces(run, out); err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(filepath.Join(out, filepath.Dir(Data)), 0o755); err != nil {
		return fail(err)
	}
	file := filepath.Join(out, Data)
	if err := atomicfile.Write(file, func(w io.Writer) error { return write(w, rows, r.Labels > 0) }); err != nil {
		return fail(err)
	}
	if r.SHA256, err = filehash.SHA256(file); err != nil {
		return fail(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return fail(err)
	}
	r.Bytes = info.Size()
	card, err := compose(run, facts, r, o)
	if err != nil {
		return fail(err)
	}
	if err := atomicfile.WriteBytes(filepath.Join(out, Card), card); err != nil {
		return fail(err)
	}
	return r, nil
}

// replaces refuses a folder whose card is not of this run.
func (o Options) replaces(run, out string) error {
	card, err := os.ReadFile(filepath.Join(out, Card))
	if errors.Is(err, fs.ErrNotExist) || o.Force {
		return nil
	}
	if err != nil {
		return err
	}
	hash, err := filehash.SHA256(filepath.Join(run, rundir.Config))
	if err == nil && !bytes.Contains(card, []byte(hash)) {
		err = fault.Userf("%s is not of the run %s: name another folder, or replace it by --force", filepath.Join(out, Card), run)
	}
	return err
}

// product reads the texts of a run's product that are not empty.
func product(path string, r *Result) (rows []labelled, err error) {
	f, err := parquetio.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Userf("%s is not there: the run has no product yet; popri run --resume finishes it", path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	columns := []parquetio.Column{{Name: "text"}, {Name: "finish"}}
	if f.Has("label") { // products of earlier versions have none
		columns = append(columns, parquetio.Column{Name: "label"})
	}
	labels, copies := map[string]bool{}, map[string]int{}
	err = f.Scan(columns, func(_ int64, cells [][]parquetio.Cell) error {
		if text := cells[0][0].Value; text != "" {
			x := labelled{Text: text, Finish: cells[1][0].Value}
			if len(columns) > 2 && cells[2][0].Value != "" {
				x.Label = cells[2][0].Value
				labels[x.Label] = true
			}
			rows = append(rows, x)
			if x.Finish == public {
				r.Public++
			} else {
				r.Written++
			}
			copies[text]++
			r.Repeated = max(r.Repeated, copies[text])
			r.decoded += int64(len(text) + len(x.Finish) + len(x.Label))
		} else {
			r.LeftOut++
		}
		return nil
	})
	r.Labels, r.Distinct = len(labels), len(copies)
	if r.Texts = len(rows); err == nil && len(rows) == 0 {
		err = fault.Userf("%s has no texts", path)
	}
	return rows, err
}

// metadata is the front matter of a dataset card.
type metadata struct {
	Name     string   `yaml:"pretty_name"`
	Tasks    []string `yaml:"task_categories"`
	Tags     []string `yaml:"tags"`
	License  string   `yaml:"license,omitempty"`
	Language []string `yaml:"language,omitempty"`
	Size     []string `yaml:"size_categories"`
	Configs  []config `yaml:"configs"`
	Info     struct {
		Features []feature `yaml:"features"`
		Splits   []split   `yaml:"splits"`
		Download int64     `yaml:"download_size"`
		Size     int64     `yaml:"dataset_size"`
	} `yaml:"dataset_info"`
}

type config struct {
	Name  string     `yaml:"config_name"`
	Files []dataFile `yaml:"data_files"`
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

func compose(run string, facts guarantee.Facts, r Result, o Options) ([]byte, error) {
	m := metadata{Name: o.Name, Tasks: []string{"text-generation"}, Tags: []string{"synthetic", "federated-learning"},
		Size: []string{sizeOf(r.Texts)}, Configs: []config{{"default", []dataFile{{"train", "data/train-*"}}}}}
	if m.Name == "" {
		m.Name = filepath.Base(filepath.Clean(run))
	}
	if m.License = o.License; o.Language != "" {
		m.Language = []string{o.Language}
	}
	if facts.Protects() {
		m.Tags = append(m.Tags, "differential-privacy")
	}
	m.Info.Features = []feature{{"text", "string"}, {"finish", "string"}}
	if r.Labels > 0 {
		m.Tasks = append(m.Tasks, "text-classification")
		m.Info.Features = append(m.Info.Features, feature{"label", "string"})
	}
	m.Info.Splits = []split{{"train", r.decoded, r.Texts}}
	m.Info.Download, m.Info.Size = r.Bytes, r.decoded
	front, err := yaml.Marshal(m)
	if err != nil {
		return nil, err
	}
	settings, err := os.ReadFile(filepath.Join(run, rundir.Config))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "---\n%s---\n# %s\n", front, m.Name)
	fmt.Fprintf(&b, "%d rows, made by popri %s: %s. %d of the texts are different, and the most frequent one has %s.\n\n```python\ndatasets.load_dataset(\"path/of/this/folder\", split=\"train\")\n```\n",
		r.Texts, o.Program, r.origins(), r.Distinct, counted(r.Repeated, "row", "rows"))
	if r.Public > 0 {
		fmt.Fprint(&b, "\nThe public texts keep their own licence.\n")
	}
	fmt.Fprint(&b, "\n| column | |\n|---|---|\n| `text` | a text, never empty |\n"+
		"| `finish` | how it ended: `stop` at its end token, `length` at the limit; `public` for a public text that was chosen |\n")
	if r.Labels > 0 {
		fmt.Fprintf(&b, "| `label` | one of %d: a public text's own, or that of the public texts which the model was shown; nothing checks that "+
			"what it wrote fits |\n", r.Labels)
	}
	fmt.Fprintf(&b, "\n## Privacy\n**%s.**\n\n", strings.TrimSuffix(r.Guarantee, "."))
	for _, s := range facts.Statement() {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	if warnings := facts.Warnings(); len(warnings) > 0 {
		fmt.Fprint(&b, "\nOutside of the guarantee:\n\n")
		for _, s := range warnings {
			fmt.Fprintf(&b, "- %s\n", s)
		}
	}
	fmt.Fprint(&b, "\n## Files\n| file | SHA-256 |\n|---|---|\n")
	fmt.Fprintf(&b, "| `%s` | `%s` |\n", Data, r.SHA256)
	for _, name := range []string{rundir.Synthetic, rundir.Config, rundir.Ledger, rundir.Inputs} {
		if !rundir.Has(run, name) {
			continue
		}
		hash, err := filehash.SHA256(filepath.Join(run, name))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "| the run's `%s` | `%s` |\n", name, hash)
	}
	fmt.Fprintf(&b, "\n## Settings\n```yaml\n%s\n```\n", bytes.TrimSpace(settings))
	return b.Bytes(), nil
}

// origins says where the rows come from.
func (r Result) origins() string {
	var parts []string
	if r.Written > 0 {
		parts = append(parts, fmt.Sprintf("%s that a language model wrote", counted(r.Written, "text", "texts")))
	}
	if r.Public > 0 {
		parts = append(parts, fmt.Sprintf("%s of public texts, word for word, which the clients' noised answers chose",
			counted(r.Public, "copy", "copies")))
	}
	return strings.Join(parts, " and ")
}

// counted is a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
