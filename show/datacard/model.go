package datacard

import (
	"cmp"
	"os"
	"path/filepath"

	"popri/accountant/guarantee"
	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/model/safetensors"
)

// Small is what a card says of a run's small model besides what stands in the run's folder.
type Small struct {
	Base     string // name on the hub of the model that training began with; "" if it has none
	License  string // of that model, an identifier of the hub; "" if it is not known
	Pipeline string // the hub's name of its task; "" for text-generation
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
	c := card{Options: Options{Name: filepath.Base(filepath.Clean(run)), Program: program, Small: small},
		Result: Result{Guarantee: facts.Headline()}, Facts: facts}
	return c.writeModel(run, filepath.Join(run, rundir.Small))
}

func (c card) writeModel(run, out string) error {
	c.License = cmp.Or(c.License, c.Small.License)
	return c.write("model", run, out, filepath.Join(rundir.Small, safetensors.ModelFile))
}

// copyModel copies a run's small model into the folder out, and returns the hash of its weights.
func copyModel(run, out string) (hash string, err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	folder := filepath.Join(run, rundir.Small)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.IsDir() { // the adapter alone, for devices that have the model
			continue
		}
		if err := atomicfile.Copy(filepath.Join(out, e.Name()), filepath.Join(folder, e.Name())); err != nil {
			return "", err
		}
	}
	return atomicfile.SHA256(filepath.Join(out, safetensors.ModelFile))
}
