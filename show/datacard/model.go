package datacard

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"popri/accountant/guarantee"
	"popri/internal/atomicfile"
	"popri/internal/rundir"
)

// modelData is the front matter of a model card.
type modelData struct {
	Name     string `yaml:"model_name"`
	Library  string `yaml:"library_name"`
	Pipeline string `yaml:"pipeline_tag"`
	common   `yaml:",inline"`
}

// writeModel copies the model that is a run's product into the folder out, and writes its card.
func writeModel(run, out string, facts guarantee.Facts, r Result, o Options) (Result, error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return r, err
	}
	folder := filepath.Join(run, rundir.Model)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return r, err
	}
	var files []string
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return r, err
		}
		if err := atomicfile.WriteBytes(filepath.Join(out, e.Name()), content); err != nil {
			return r, err
		}
		files = append(files, filepath.Join(rundir.Model, e.Name()))
	}
	if r.SHA256, err = atomicfile.SHA256(filepath.Join(out, "model.safetensors")); err != nil {
		return r, err
	}
	front, err := yaml.Marshal(modelData{Name: o.Name, Library: "transformers", Pipeline: "text-generation",
		common: o.common(facts, "federated-learning")})
	if err != nil {
		return r, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "---\n%s---\n# %s\nA language model, made by popri %s: the clients trained it themselves on their "+
		"own texts, and the server added up the changes of its weights with noise.\n\n", front, o.Name, o.Program)
	fmt.Fprint(&b, "```python\ntransformers.AutoModelForCausalLM.from_pretrained(\"path/of/this/folder\")\n```\n")
	if err := proof(&b, run, facts, r, append(files, rundir.Config, rundir.Ledger, rundir.Inputs)); err != nil {
		return r, err
	}
	return r, atomicfile.WriteBytes(filepath.Join(out, Card), b.Bytes())
}

// proof writes the sections of a card about the guarantee, the run's files and its settings.
func proof(b *bytes.Buffer, run string, facts guarantee.Facts, r Result, files []string, rows ...string) error {
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
	return nil
}
