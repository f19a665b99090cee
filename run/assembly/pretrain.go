package assembly

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"popri/configs"
	"popri/internal/cachedir"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/version"
	"popri/trainer/pretrain"
)

// trainedFolder is the folder of pretrained models in the user's cache folder.
const trainedFolder = "trained"

// Pretraining is told what is being trained on public text.
type Pretraining struct {
	Begin func(role string, texts, tokens int, dir string)
	Step  func(s pretrain.Stats, of int)
	End   func(role, dir string, made bool, p pretrain.Provenance)
	Wait  func(dir string)
}

// Pretrain trains the models that the configuration asks for as configs.Trained, on its public text alone, and returns
// the configuration with their folders in place of the word. What was trained before is in the user's cache folder. The
// data are checked as a run checks them, before any training: public text must be no text of the clients.
func Pretrain(ctx context.Context, c configs.Config, progress Pretraining) (configs.Config, error) {
	wanted := []struct {
		role string
		path *string
	}{{pretrain.Device, &c.Downstream.Model}, {pretrain.Generator, &c.Model.Path}}
	if *wanted[0].path != configs.Trained && *wanted[1].path != configs.Trained {
		return c, nil
	}
	if err := SetCompute(c); err != nil {
		return c, err
	}
	corpus, err := LoadRun(c, nil)
	if err != nil {
		return c, err
	}
	public := corpus.Public
	budget, err := Budget(c, corpus.Private)
	if err = cmp.Or(err, fault.User(budget.Validate())); err != nil {
		return c, err
	}
	root, err := cachedir.Dir()
	if err != nil {
		return c, fault.User(err)
	}
	for _, w := range wanted {
		if *w.path != configs.Trained {
			continue
		}
		recipe := pretrain.Small(public, w.role, ComputeType(c.Model.DType))
		cache := pretrain.Cache{Dir: filepath.Join(root, trainedFolder), Waiting: progress.Wait,
			Begin: func(corpus *pretrain.Corpus, dir string) {
				progress.Begin(w.role, len(corpus.Train), corpus.Tokens(), dir)
			},
			Each: func(s pretrain.Stats) { progress.Step(s, recipe.Options.Steps) }}
		dir, made, err := cache.Model(ctx, public, recipe, func(vocab int) pretrain.Provenance {
			return recipe.Provenance(vocab, public, version.Program(), runtime.Version(), publicFiles(c.Data.Public)...)
		})
		if err != nil {
			return c, err
		}
		*w.path = dir
		if p, ok := pretrain.ReadProvenance(dir); ok {
			progress.End(w.role, dir, made, p)
		}
	}
	return c, nil
}

// PretrainedName describes a model that [Pretrain] trained, "" for any other folder.
func PretrainedName(dir string) string {
	root, err := cachedir.Dir()
	if err != nil || filepath.Dir(filepath.Clean(dir)) != filepath.Join(root, trainedFolder) {
		return ""
	}
	p, ok := pretrain.ReadProvenance(dir)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s (%.1f M parameters, on %s, SHA-256 %.12s)", configs.Trained, float64(p.Parameters)/1e6,
		FileNames(p.Corpus), p.CorpusHash)
}

// FileNames are the names of files between commas, without their folders.
func FileNames(list string) string {
	return strings.Join(numeric.Map(strings.Split(list, ", "), filepath.Base), ", ")
}
