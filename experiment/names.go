package experiment

import (
	"fmt"
	"path/filepath"
	"strings"

	"popri/assembly"
	"popri/configs"
	"popri/internal/cachedir"
	"popri/lm"
	"popri/models"
	"popri/pretrain"
)

// shownValue is the value of a setting for people: a model that was trained on the public text lies in the user's cache
// folder under a name without meaning, and is called by what it is.
func shownValue(key string, value any) string {
	text := fmt.Sprint(value)
	if key == "model.path" || key == "downstream.model" {
		if name := trainedName(text); name != "" {
			return name
		}
	}
	return text
}

// trainedName describes a model of the cache folder, "" for any other.
func trainedName(dir string) string {
	root, err := cachedir.Dir()
	if err != nil || filepath.Dir(filepath.Clean(dir)) != filepath.Join(root, trainedFolder) {
		return ""
	}
	p, ok := pretrain.ReadProvenance(dir)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s (%.1f M parameters, on %s, SHA-256 %.12s)", configs.Trained, float64(p.Parameters)/1e6, baseNames(p.Corpus), p.CorpusHash)
}

// baseNames are the names of files between commas, without their folders.
func baseNames(list string) string {
	var names []string
	for _, name := range strings.Split(list, ", ") {
		names = append(names, filepath.Base(name))
	}
	return strings.Join(names, ", ")
}

// smallModel says in a sentence which small model a run's table is about, "" if its folder does not tell.
func smallModel(c configs.Config) string {
	dir, err := assembly.ModelDir(c.Downstream.Model, models.Device)
	if err != nil {
		return ""
	}
	shape, err := lm.Inspect(dir)
	if err != nil {
		return ""
	}
	about := c.Downstream.Model
	switch name := trainedName(c.Downstream.Model); {
	case name != "":
		about = "trained on the public text alone"
		if p, ok := pretrain.ReadProvenance(dir); ok {
			about += ", " + baseNames(p.Corpus)
		}
	case about == "embedded":
		about = "which comes with the program"
	default:
		about = "of the folder " + filepath.Base(about)
	}
	return fmt.Sprintf("The small model has %.1f M parameters and is the one %s.", float64(shape.Parameters)/1e6, about)
}
