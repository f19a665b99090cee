package reporting

import (
	"fmt"
	"path/filepath"

	"popri/configs"
	"popri/internal/modelcache"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/run/assembly"
	"popri/trainer/pretrain"
)

// shownValue is the value of a setting for people: a model that was trained on the public text is in the user's cache
// folder under a name without meaning, and is called by what it is.
func shownValue(key string, value any) string {
	text := fmt.Sprint(value)
	if key == "model.path" || key == "downstream.model" {
		if name := assembly.PretrainedName(text); name != "" {
			return name
		}
	}
	return text
}

// smallModel says in a sentence which small model a run's table is about, "" if its folder does not tell.
func smallModel(c configs.Config) string {
	dir, err := assembly.ModelDir(c.Downstream.Model, shipped.Device)
	if err != nil {
		return ""
	}
	shape, err := lm.Inspect(dir)
	if err != nil {
		return ""
	}
	about := c.Downstream.Model
	source, _ := modelcache.Find(about)
	switch name := assembly.PretrainedName(c.Downstream.Model); {
	case name != "":
		about = "trained on the public text alone"
		if p, ok := pretrain.ReadProvenance(dir); ok {
			about += ", " + assembly.FileNames(p.Corpus)
		}
	case about == "embedded":
		about = "which comes with the program"
	case source.Title != "":
		about = "called " + source.Title
	default:
		about = "of the folder " + filepath.Base(about)
	}
	return fmt.Sprintf("The small model has %.1f M parameters and is the one %s.", float64(shape.Parameters)/1e6, about)
}
