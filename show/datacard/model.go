package datacard

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"popri/accountant/guarantee"
	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/model/safetensors"
)

// modelData is the front matter of a model card.
type modelData struct {
	Name     string `yaml:"model_name"`
	Library  string `yaml:"library_name"`
	Pipeline string `yaml:"pipeline_tag"`
	Base     string `yaml:"base_model,omitempty"`
	common   `yaml:",inline"`
}

// Small is what a card says of a run's small model besides what stands in the run's folder.
type Small struct {
	Base     string // name on the hub of the model that training began with; "" if it has none
	License  string // of that model, an identifier of the hub; "" if it is not known
	Pipeline string // the hub's name of its task
	About    []string
	Results  []SmallResult
}

// SmallResult is a row of the table of results, in which other rows show what the model is compared with.
type SmallResult struct{ Name, Accuracy, Perplexity, Bits string }

// WriteModelCard writes the card of the small model into its folder in the run.
func WriteModelCard(run string, small Small, program string) error {
	facts, err := guarantee.ReadChosen(run)
	if err != nil {
		return err
	}
	o := Options{Name: filepath.Base(filepath.Clean(run)), Program: program, Small: small}
	return writeModelCard(run, filepath.Join(run, rundir.Small), facts, Result{Guarantee: facts.Headline()}, o)
}

func writeModelCard(run, out string, facts guarantee.Facts, r Result, o Options) error {
	o.License = cmp.Or(o.License, o.Small.License)
	front, err := yaml.Marshal(modelData{Name: o.Name, Library: "transformers", Base: o.Small.Base,
		Pipeline: cmp.Or(o.Small.Pipeline, "text-generation"), common: o.common(facts, "federated-learning")})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "---\n%s---\n# %s\nA small language model, made by popri %s.\n", front, o.Name, o.Program)
	for _, s := range o.Small.About {
		fmt.Fprintf(&b, "\n%s\n", s)
	}
	class := "AutoModelForCausalLM"
	if o.Small.Pipeline == "text-classification" {
		class = "AutoModelForSequenceClassification"
	}
	fmt.Fprintf(&b, "\n```python\ntransformers.%s.from_pretrained(\"path/of/this/folder\")\n```\n", class)
	if len(o.Small.Results) > 0 {
		fmt.Fprint(&b, "\n## Results\nOn private test clients; intervals are 95 % bootstrap intervals over these clients.\n\n"+
			"| trained on | accuracy % | perplexity | bits a character |\n|---|---|---|---|\n")
		for _, x := range o.Small.Results {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", x.Name, x.Accuracy, x.Perplexity, x.Bits)
		}
	}
	return finish(&b, run, out, facts, r, []string{filepath.Join(rundir.Small, safetensors.ModelFile), rundir.Synthetic,
		rundir.Config, rundir.Ledger, rundir.Inputs})
}

// writeModel copies a run's small model into the folder out, and writes its card.
func writeModel(run, out string, facts guarantee.Facts, r Result, o Options) (Result, error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return r, err
	}
	folder := filepath.Join(run, rundir.Small)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return r, err
	}
	for _, e := range entries {
		if e.IsDir() { // the adapter alone, for devices that have the model
			continue
		}
		if err := atomicfile.Copy(filepath.Join(out, e.Name()), filepath.Join(folder, e.Name())); err != nil {
			return r, err
		}
	}
	if r.SHA256, err = atomicfile.SHA256(filepath.Join(out, safetensors.ModelFile)); err != nil {
		return r, err
	}
	return r, writeModelCard(run, out, facts, r, o)
}

// finish adds the sections of a card about the guarantee, the run's files and its settings, and writes it.
func finish(b *bytes.Buffer, run, out string, facts guarantee.Facts, r Result, files []string, rows ...string) error {
	fmt.Fprintf(b, "\n## Privacy\n**%s.**\n\n", strings.TrimSuffix(r.Guarantee, "."))
	for _, s := range facts.Statement() {
		fmt.Fprintf(b, "- %s\n", s)
	}
	if warnings := facts.Warnings(); len(warnings) > 0 {
		fmt.Fprint(b, "\nOutside of the guarantee:\n\n")
		for _, s := range warnings {
			fmt.Fprintf(b, "- %s\n", s)
		}
	}
	fmt.Fprint(b, "\n## Files\n| file | SHA-256 |\n|---|---|\n")
	for _, row := range rows {
		fmt.Fprint(b, row)
	}
	for _, name := range files {
		if !rundir.Has(run, name) {
			continue
		}
		hash, err := atomicfile.SHA256(filepath.Join(run, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "| the run's `%s` | `%s` |\n", filepath.ToSlash(name), hash)
	}
	settings, err := os.ReadFile(filepath.Join(run, rundir.Config))
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## Settings\n```yaml\n%s\n```\n", bytes.TrimSpace(settings))
	return atomicfile.WriteBytes(filepath.Join(out, Card), b.Bytes())
}
