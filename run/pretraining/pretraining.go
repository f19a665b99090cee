// Package pretraining trains the models that a configuration asks for by the word "trained", on the public text of its
// run, and names them for people.
package pretraining

import (
	"context"
	"path/filepath"
	"runtime"

	"popri/configs"
	"popri/datasets"
	"popri/internal/cachedir"
	"popri/internal/fault"
	"popri/internal/version"
	"popri/run/assembly"
	"popri/trainer/pretrain"
)

// folder is the folder of the models in the user's cache folder.
const folder = "trained"

// Progress is told what is being trained on public text; nil functions are left out.
type Progress struct {
	Begin func(role string, texts, tokens int, dir string)
	Step  func(s pretrain.Stats, of int)
	End   func(role, dir string, made bool, p pretrain.Provenance)
	Wait  func(dir string)
}

// Prepare trains the models that the configuration asks for as configs.Trained, on its public text alone, and returns
// the configuration with their folders in place of the word. What was trained before lies in the user's cache folder.
// The data are checked as a run checks them, before any training: public text must be no text of the clients.
func Prepare(ctx context.Context, c configs.Config, progress Progress) (configs.Config, error) {
	wanted := []struct {
		role string
		path *string
	}{{pretrain.Device, &c.Downstream.Model}, {pretrain.Generator, &c.Model.Path}}
	if *wanted[0].path != configs.Trained && *wanted[1].path != configs.Trained {
		return c, nil
	}
	if err := assembly.SetCompute(c); err != nil {
		return c, err
	}
	public, err := checkedPublic(c)
	if err != nil {
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
		recipe := pretrain.Small(public, w.role, assembly.ComputeType(c.Model.DType))
		cache := pretrain.Cache{Dir: filepath.Join(root, folder), Waiting: progress.Wait,
			Begin: func(corpus *pretrain.Corpus, dir string) {
				if progress.Begin != nil {
					progress.Begin(w.role, len(corpus.Train), corpus.Tokens(), dir)
				}
			},
			Each: func(s pretrain.Stats) {
				if progress.Step != nil {
					progress.Step(s, recipe.Options.Steps)
				}
			}}
		dir, made, err := cache.Model(ctx, public, recipe, func(vocab int) pretrain.Provenance {
			return recipe.Provenance(vocab, public, version.Program(), runtime.Version(),
				assembly.PublicFiles(c.Data.Public)...)
		})
		if err != nil {
			return c, err
		}
		*w.path = dir
		if p, ok := pretrain.ReadProvenance(dir); ok && progress.End != nil {
			progress.End(w.role, dir, made, p)
		}
	}
	return c, nil
}

// checkedPublic reads the public text of a run whose data and budget make sense.
func checkedPublic(c configs.Config) (datasets.Public, error) {
	corpus, err := assembly.LoadRun(c, nil)
	if err != nil {
		return datasets.Public{}, err
	}
	budget, err := assembly.Budget(c, corpus.Private)
	if err != nil {
		return datasets.Public{}, err
	}
	return corpus.Public, fault.User(budget.Validate())
}
